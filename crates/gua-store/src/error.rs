//! Errors of a history file, as types that a caller can match on.

use std::path::{Path, PathBuf};

use gua_files::FileError;

use crate::codec::Damage;
use crate::kind::FileKind;
use crate::schema;

/// Reason a history cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("there is no history at `{}`", path.display())]
    Missing { path: PathBuf },
    #[error("`{}` already exists", path.display())]
    Exists { path: PathBuf, kind: FileKind },
    #[error("`{}` is {kind}, not a history of gua", path.display())]
    NotOurs { path: PathBuf, kind: FileKind },
    #[error("the history at `{}` has schema {found}, and this gua supports up to {}", path.display(), schema::VERSION)]
    TooNew { path: PathBuf, found: u32 },
    #[error("another collector writes to `{}`{}", path.display(), by(*pid))]
    Busy { path: PathBuf, pid: Option<u32> },
    /// The directory of the history, or the lock file in it, cannot be used.
    #[error(transparent)]
    Directory(#[from] FileError),
    #[error("`{}` is on {filesystem}, where SQLite's shared memory cannot be trusted", path.display())]
    NetworkFilesystem {
        path: PathBuf,
        filesystem: &'static str,
    },
    #[error("the history at `{}` is damaged: {detail}", path.display())]
    Damaged { path: PathBuf, detail: String },
    #[error("`{}` has uncommitted changes in its write-ahead log, and its directory is read-only; copy both files to a writable directory", path.display())]
    Unmerged { path: PathBuf },
    #[error(transparent)]
    Unreadable(FileError),
    #[error("cannot open the history at `{}`: the disk is full", path.display())]
    DiskFull { path: PathBuf },
    #[error("cannot open the history at `{}`", path.display())]
    Sqlite {
        path: PathBuf,
        source: rusqlite::Error,
    },
}

fn by(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(": process {pid}"))
}

impl OpenError {
    /// Converts an SQLite error, separating damage and a full disk from all other failures.
    pub(crate) fn from_sqlite(path: &Path, source: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, DiskFull, NotADatabase, SystemIoFailure};
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(DiskFull) => OpenError::DiskFull { path },
            // SQLite reports this if there is no room for its shared memory.
            Some(SystemIoFailure) if gua_files::is_full(&path) => OpenError::DiskFull { path },
            Some(DatabaseCorrupt | NotADatabase) => OpenError::damaged(&path, source.to_string()),
            _ => OpenError::Sqlite { path, source },
        }
    }

    pub(crate) fn damaged(path: &Path, detail: String) -> Self {
        let path = path.to_owned();
        OpenError::Damaged { path, detail }
    }

    /// Error for a file of another kind.
    pub(crate) fn not_ours(path: PathBuf, kind: FileKind) -> Self {
        match kind {
            FileKind::Unreadable { why } => {
                let error = FileError::cannot("read", &path)(std::io::Error::other(why));
                OpenError::Unreadable(error)
            }
            kind => OpenError::NotOurs { path, kind },
        }
    }

    /// Converts a failure to write in the directory of a history.
    pub(crate) fn in_directory(path: &Path) -> impl Fn(std::io::Error) -> FileError {
        FileError::cannot("write to the directory", crate::directory(path))
    }
}

/// Reason a write failed. The store stays usable: the next write may succeed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the disk is full")]
    DiskFull(#[source] rusqlite::Error),
    #[error("the history is no longer writable")]
    ReadOnly(#[source] rusqlite::Error),
    #[error("the disk failed")]
    Disk(#[source] rusqlite::Error),
    #[error("the history is locked by another program")]
    Locked(#[source] rusqlite::Error),
    #[error("the history is damaged")]
    Damaged(#[source] rusqlite::Error),
    #[error("the tick at {0} has an invalid time or interval")]
    Time(jiff::Timestamp),
    #[error("the history has inconsistent rows")]
    Inconsistent(#[source] ReadError),
    #[error("`{}` was moved, deleted or truncated, and its content cannot be kept", path.display())]
    Moved {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the history was moved, deleted or truncated, and cannot be continued at its path")]
    Reopen(#[source] Box<OpenError>),
    #[error("cannot change rows of old histories")]
    Old(#[source] Box<crate::imported::LegacyError>),
    #[error(
        "deleted data is still in the file: another process has been reading the history for too long"
    )]
    Reader,
    #[error("cannot write to the history")]
    Other(#[source] rusqlite::Error),
}

impl From<rusqlite::Error> for WriteError {
    fn from(source: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        match source.sqlite_error_code() {
            Some(Code::DiskFull) => WriteError::DiskFull(source),
            Some(Code::ReadOnly) => WriteError::ReadOnly(source),
            Some(Code::SystemIoFailure | Code::CannotOpen) => WriteError::Disk(source),
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => WriteError::Locked(source),
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => WriteError::Damaged(source),
            _ => WriteError::Other(source),
        }
    }
}

/// Reason a read from an open history failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read the history")]
    Sqlite(#[source] rusqlite::Error),
    /// The file makes a statement take far longer than reading all of it would.
    #[error("reading the history does not end; the file is damaged or was crafted")]
    Endless,
    /// One tick cannot be read; the others are unaffected.
    #[error("the tick stored at {at} is damaged")]
    Tick { at: jiff::Timestamp, source: Damage },
    #[error("the totals of the quarter hour from {from} are damaged")]
    Totals {
        from: jiff::Timestamp,
        source: Damage,
    },
    #[error("the history has an invalid {0}")]
    Value(&'static str),
    /// A collector started to write to a file that was opened as one without a writer.
    #[error("the history changed while it was read; try again")]
    Changed,
    /// The request needs ticks that retention has deleted.
    #[error(
        "the ticks before {until} were deleted by retention, and the totals do not have this detail"
    )]
    RawGone { until: jiff::Timestamp },
}

impl From<rusqlite::Error> for ReadError {
    fn from(source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::OperationInterrupted) => ReadError::Endless,
            _ => ReadError::Sqlite(source),
        }
    }
}

/// Returns whether an SQLite error in the source chain reports a damaged file.
pub fn is_damage(error: &(dyn std::error::Error + 'static)) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    std::iter::successors(Some(error), |error| error.source()).any(|error| {
        let code = error
            .downcast_ref::<rusqlite::Error>()
            .and_then(rusqlite::Error::sqlite_error_code);
        matches!(code, Some(DatabaseCorrupt | NotADatabase))
    })
}
