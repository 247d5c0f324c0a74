//! Destinations of an export: stdout, one file, or one file per day. A file gets its name when it is complete.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gua_export::Outlet;
use gua_files::{NewFile, Over};
use jiff::civil::Date;

use crate::commands::prelude::*;

/// Destination of the rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    Stdout,
    File(&'a Path),
    /// One file per day.
    Directory(&'a Path),
}

impl<'a> Target<'a> {
    pub(super) fn of(args: &'a ExportArgs) -> Result<Self, Failure> {
        let named = args.output.as_deref();
        let Some(path) = named.filter(|path| *path != Path::new("-")) else {
            return Ok(Target::Stdout);
        };
        let is_named_so = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        match (path.is_dir(), is_named_so) {
            (true, _) => Ok(Target::Directory(path)),
            (false, false) => Ok(Target::File(path)),
            (false, true) => {
                let problem = format!("no directory {}", path.display());
                Err(Failure::usage(problem).hint("create it first, or pass a file"))
            }
        }
    }
}

/// Output files. Names of daily ones consist of the table, the day and the ending.
pub(super) struct Files<'a> {
    pub(super) target: Target<'a>,
    pub(super) over: Over,
    table: &'static str,
    ending: &'static str,
    /// File that is being written, with its final path.
    open: Option<(NewFile, PathBuf)>,
}

impl<'a> Files<'a> {
    pub(super) fn new(
        target: Target<'a>,
        (table, ending): (&'static str, &'static str),
        over: Over,
    ) -> Self {
        Self {
            target,
            over,
            table,
            ending,
            open: None,
        }
    }

    /// The file of a day, or the one file for all; `None` is stdout.
    pub(super) fn path(&self, day: Option<Date>) -> Option<PathBuf> {
        let (table, ending) = (self.table, self.ending);
        match (self.target, day) {
            (Target::Stdout, _) => None,
            (Target::File(path), _) => Some(path.to_owned()),
            (Target::Directory(path), Some(day)) => {
                Some(path.join(format!("{table}-{day}.{ending}")))
            }
            (Target::Directory(path), None) => Some(path.join(format!("{table}.{ending}"))),
        }
    }
}

impl Outlet for Files<'_> {
    fn open(&mut self, day: Option<Date>) -> io::Result<Box<dyn Write + Send>> {
        let Some(path) = self.path(day) else {
            return Ok(Box::new(io::stdout()));
        };
        if !self.over.allows(&path) {
            return Err(about(&path, &io::ErrorKind::AlreadyExists.into()));
        }
        let new = NewFile::begin(&path, self.over).map_err(|error| about(&path, &error))?;
        let file = new.file.try_clone()?;
        self.open = Some((new, path));
        Ok(Box::new(file))
    }

    fn close(&mut self, mut file: Box<dyn Write + Send>) -> io::Result<()> {
        let Some((new, path)) = self.open.take() else {
            return file.flush();
        };
        drop(file);
        new.finish().map_err(|error| about(&path, &error))
    }
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    let path = path.display();
    let message = match error.kind() {
        io::ErrorKind::AlreadyExists => format!("{path} exists already; --overwrite replaces it"),
        _ => format!("{path}: {error}"),
    };
    io::Error::new(error.kind(), message)
}
