//! Errors of an export.

use gua_store::imported::LegacyError;
use gua_store::{OpenError, ReadError};

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Old(#[from] LegacyError),
    #[error("cannot write the rows")]
    Write(#[source] std::io::Error),
    #[error("cannot write the rows as Parquet")]
    Parquet(#[source] parquet::errors::ParquetError),
    /// The receiver of the rows takes no more; its own error says why.
    #[error("the export was stopped")]
    Stopped,
}
