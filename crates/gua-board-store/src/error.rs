//! Errors of a board's storage, as types that a caller can match on.

use std::path::{Path, PathBuf};

use gua_files::FileError;
use rusqlite::ErrorCode;

use crate::registry::Refusal;

/// Result of a call to a store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Reason a call to a store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The object does not exist, or not in the named workspace.
    #[error("no such {0}")]
    NotFound(&'static str),
    /// The change contradicts what is stored.
    #[error("{0}")]
    Conflict(&'static str),
    /// The enrolment key exists, but does not enrol this host.
    #[error(transparent)]
    Refused(Refusal),
    /// Stored data that this program cannot have written.
    #[error("the board's data contains an invalid {0}")]
    Invalid(&'static str),
    #[error("the storage engine failed")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<rusqlite::Error> for StoreError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Engine(Box::new(source))
    }
}

/// Reason the data of a board cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Directory(#[from] FileError),
    #[error("cannot open the board's data `{}`", path.display())]
    Open {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("`{}` is not the data of a board", path.display())]
    NotOurs { path: PathBuf },
    #[error("the board's data `{}` is damaged: {detail}", path.display())]
    Damaged { path: PathBuf, detail: String },
    #[error("the board's data `{}` was changed by another program: it contains `{}`, which gua does not create", path.display(), name.escape_debug())]
    Foreign { path: PathBuf, name: String },
    #[error("the board's data `{}` has schema version {found}; this gua supports up to {known}", path.display())]
    TooNew {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    #[error("another server uses the data directory `{}`", path.display())]
    InUse { path: PathBuf },
    #[error("there is no board in `{}`", path.display())]
    Missing { path: PathBuf },
}

impl OpenError {
    /// Classifies an error of SQLite.
    pub(crate) fn from_sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotOurs { path },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged {
                path,
                detail: source.to_string(),
            },
            _ => Self::Open { path, source },
        }
    }
}
