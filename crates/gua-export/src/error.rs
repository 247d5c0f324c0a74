//! Why an export stopped.

use gua_store::ReadError;
use gua_store::legacy::LegacyError;

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Old(#[from] LegacyError),
    #[error("cannot write the rows")]
    Write(#[source] std::io::Error),
    #[error("cannot write the rows as Parquet")]
    Parquet(#[source] parquet::errors::ParquetError),
}
