//! Errors of an export.

use gua_query::{QueryError, RecordsError};

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("{0}")]
    Read(#[source] QueryError),
    #[error("cannot write the rows")]
    Write(#[source] std::io::Error),
    #[error("cannot write the rows as Parquet")]
    Parquet(#[source] parquet::errors::ParquetError),
    /// The receiver of the rows takes no more; its own error says why.
    #[error("the export was stopped")]
    Stopped,
}

impl From<QueryError> for ExportError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Records(RecordsError::Stopped) => ExportError::Stopped,
            error => ExportError::Read(error),
        }
    }
}

impl From<RecordsError> for ExportError {
    fn from(error: RecordsError) -> Self {
        QueryError::from(error).into()
    }
}
