//! The files of a database: their names, and how they change.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A database and the files that SQLite keeps beside it.
fn files_of(path: &Path) -> [PathBuf; 4] {
    ["", "-wal", "-shm", "-journal"].map(|suffix| crate::beside(path, suffix))
}

/// Removes a database and the files beside it, as far as they exist.
pub(crate) fn remove_database(path: &Path) -> io::Result<()> {
    files_of(path).iter().try_for_each(|file| remove(file))
}

/// Removes a file if it exists.
pub fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Metadata that shows whether a file was replaced or written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePrint([u64; 3], [i64; 2]);

impl FilePrint {
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let facts = std::fs::metadata(path).ok()?;
        Some(Self(
            [facts.dev(), facts.ino(), facts.len()],
            [facts.mtime(), facts.mtime_nsec()],
        ))
    }
}
