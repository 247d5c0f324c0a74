//! The error of an operation on one file.

use std::io;
use std::path::{Path, PathBuf};

/// An operation on a file failed: "cannot read `x`", with the cause as the source.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} `{}`", path.display())]
pub struct FileError {
    /// The operation as a verb.
    pub what: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl FileError {
    /// Returns a function that adds the operation and the path to an error.
    pub fn cannot(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self {
            what,
            path: path.clone(),
            source,
        }
    }

    /// Whether there is no space left.
    pub fn is_disk_full(&self) -> bool {
        let kind = self.source.kind();
        matches!(
            kind,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    }
}
