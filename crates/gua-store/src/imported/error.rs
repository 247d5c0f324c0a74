//! Errors of an old history.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_files::FileError;
use thiserror::Error;

/// Reason an old history could not be read, imported, exported or adopted.
#[derive(Debug, Error)]
pub enum LegacyError {
    #[error("there is no file at `{}`", path.display())]
    NoFile { path: PathBuf },
    #[error("`{}` is not a history of gpu-usage-audit: {why}", path.display())]
    NotAHistory { path: PathBuf, why: String },
    #[error("`{}` is already a history of gua", path.display())]
    Ours { path: PathBuf },
    #[error("cannot read `{}`", path.display())]
    Read {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("`{}` changed while it was read", path.display())]
    Changed { path: PathBuf },
    #[error("row {row} of table {table}: {what}")]
    Row {
        table: &'static str,
        row: i64,
        what: String,
    },
    #[error("the times of `{}` cannot be put in order: {why}", path.display())]
    Disorder { path: PathBuf, why: String },
    #[error("`{}` is of a newer gpu-usage-audit than 1.8.0: table {table} has a column {column}", path.display())]
    Newer {
        path: PathBuf,
        table: String,
        column: String,
    },
    #[error("row {row} of table {table} was imported before and has changed since")]
    Differs { table: &'static str, row: i64 },
    #[error("the rows of `{}` were imported as {known:?} each, and not {asked:?}", path.display())]
    OtherInterval {
        path: PathBuf,
        known: Duration,
        asked: Duration,
    },
    #[error(
        "a person was erased from what was imported from this file; importing it again would bring them back"
    )]
    Erased,
    #[error("the imported rows are not those of the old file: {0}")]
    Unverified(String),
    #[error("cannot write the history")]
    Write(#[from] rusqlite::Error),
    #[error("a block of imported rows is damaged (table {table}, row {row})")]
    Damaged { table: &'static str, row: i64 },
    #[error("a collector of gpu-usage-audit is writing `{}`", path.display())]
    CollectorRuns { path: PathBuf },
    #[error("`{}` exists already", path.display())]
    Exists { path: PathBuf },
    #[error("cannot write `{}`: `{}` belongs to another database", path.display(), log.display())]
    LogBeside { path: PathBuf, log: PathBuf },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Ticks(#[from] crate::ReadError),
    #[error(transparent)]
    Query(#[from] gua_query::QueryError),
    #[error("cannot make the history")]
    History(#[source] Box<crate::OpenError>),
    #[error("cannot close the history")]
    Close(#[source] Box<crate::WriteError>),
    #[error("stopped")]
    Stopped,
}

impl LegacyError {
    /// Converts a failure to read a file.
    pub fn read(path: &Path) -> impl Fn(rusqlite::Error) -> Self {
        let path = path.to_owned();
        move |source| LegacyError::Read {
            path: path.clone(),
            source,
        }
    }
}
