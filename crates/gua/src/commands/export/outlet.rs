//! Destinations of an export: stdout, one file, or one file per day. A file gets its name when it is complete.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gua_export::Outlet;
use gua_files::{NewFile, Over};
use jiff::civil::Date;

/// Standard output.
pub(super) struct Stdout;

impl Outlet for Stdout {
    fn open(&mut self, _: Option<Date>) -> io::Result<Box<dyn Write + Send>> {
        Ok(Box::new(io::stdout()))
    }

    fn close(&mut self, mut file: Box<dyn Write + Send>) -> io::Result<()> {
        file.flush()
    }
}

/// Output files: the given one, or one per day in a directory.
pub(super) struct Files {
    target: Target,
    over: Over,
    /// File that is being written, with its final path.
    open: Option<(NewFile, PathBuf)>,
}

enum Target {
    One(PathBuf),
    ByDay {
        directory: PathBuf,
        table: &'static str,
        ending: &'static str,
    },
}

impl Files {
    pub(super) fn one(path: &Path, over: Over) -> Self {
        Self {
            target: Target::One(path.to_owned()),
            over,
            open: None,
        }
    }

    pub(super) fn by_day(
        directory: &Path,
        (table, ending): (&'static str, &'static str),
        over: Over,
    ) -> Self {
        let directory = directory.to_owned();
        Self {
            target: Target::ByDay {
                directory,
                table,
                ending,
            },
            over,
            open: None,
        }
    }

    fn path(&self, day: Option<Date>) -> PathBuf {
        match (&self.target, day) {
            (Target::One(path), _) => path.clone(),
            (
                Target::ByDay {
                    directory,
                    table,
                    ending,
                },
                Some(day),
            ) => directory.join(format!("{table}-{day}.{ending}")),
            (
                Target::ByDay {
                    directory,
                    table,
                    ending,
                },
                None,
            ) => directory.join(format!("{table}.{ending}")),
        }
    }
}

impl Outlet for Files {
    fn open(&mut self, day: Option<Date>) -> io::Result<Box<dyn Write + Send>> {
        let path = self.path(day);
        if self.over == Over::Refuse && path.symlink_metadata().is_ok() {
            return Err(exists(&path));
        }
        let new = NewFile::begin(&path, self.over).map_err(|error| about(&path, &error))?;
        let file = new.file.try_clone()?;
        self.open = Some((new, path));
        Ok(Box::new(file))
    }

    fn close(&mut self, file: Box<dyn Write + Send>) -> io::Result<()> {
        drop(file);
        let Some((new, path)) = self.open.take() else {
            return Ok(());
        };
        new.finish().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&path),
            _ => about(&path, &error),
        })
    }
}

fn exists(path: &Path) -> io::Error {
    let message = format!("{} exists already; --overwrite replaces it", path.display());
    io::Error::new(io::ErrorKind::AlreadyExists, message)
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::new(error.kind(), error.to_string()),
        kind => io::Error::new(kind, format!("{}: {error}", path.display())),
    }
}
