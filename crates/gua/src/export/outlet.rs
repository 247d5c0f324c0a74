//! Where the rows of an export go: stdout, one file, or a file for each day. A file has its name when it is whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gua_export::Outlet;
use jiff::civil::Date;

use crate::whole_file;

/// Stdout, for other programs to read.
pub(super) struct Stdout;

impl Outlet for Stdout {
    fn open(&mut self, _: Option<Date>) -> io::Result<Box<dyn Write + Send>> {
        Ok(Box::new(io::stdout()))
    }

    fn close(&mut self, mut file: Box<dyn Write + Send>) -> io::Result<()> {
        file.flush()
    }
}

/// Whether a file that is there may be written over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Refuse,
    Write,
}

/// Files in a directory: the one that was named, or one for each day.
pub(super) struct Files {
    target: Target,
    over: Over,
    /// The file in the making, and what it will be called.
    open: Option<(PathBuf, PathBuf)>,
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
        let part = whole_file::beside(&path);
        let file = File::create(&part).map_err(|error| about(&path, &error))?;
        self.open = Some((part, path));
        Ok(Box::new(file))
    }

    fn close(&mut self, file: Box<dyn Write + Send>) -> io::Result<()> {
        drop(file);
        let Some((part, path)) = self.open.take() else {
            return Ok(());
        };
        let placed = File::open(&part)
            .and_then(|file| file.sync_all())
            .and_then(|()| match self.over {
                Over::Write => fs::rename(&part, &path),
                // A link fails where somebody has put a file there meanwhile; a rename would write over it.
                Over::Refuse => match fs::hard_link(&part, &path) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        Err(exists(&path))
                    }
                    Err(_) => fs::rename(&part, &path),
                    Ok(()) => fs::remove_file(&part),
                },
            });
        if placed.is_err() {
            let _ = fs::remove_file(&part);
        }
        placed.map_err(|error| about(&path, &error))
    }
}

impl Drop for Files {
    /// What is not whole is not left behind.
    fn drop(&mut self) {
        if let Some((part, _)) = self.open.take() {
            let _ = fs::remove_file(part);
        }
    }
}

fn exists(path: &Path) -> io::Error {
    let message = format!(
        "{} is there already; --overwrite writes over it",
        path.display()
    );
    io::Error::new(io::ErrorKind::AlreadyExists, message)
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::new(error.kind(), error.to_string()),
        kind => io::Error::new(kind, format!("{}: {error}", path.display())),
    }
}
