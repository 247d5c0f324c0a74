//! Files, tables and texts of the tools that gua replaces.
//!
//! - [`gpu_usage_audit`]: its SQLite files, 1.0.2 to 1.8.0: read in place, imported, exported and adopted. They are never
//!   modified.
//! - [`gpu_stats`]: its daily CSV: written, read and imported.
//! - [`nvgpu`]: its table and its list of free GPUs.
//!
//! Formats between agent and board, and the files of a watched run, are in `gua-wire`. Imported rows are stored by
//! `gua_store::imported`; their accounting is in `gua-model`.

pub mod gpu_stats;
pub mod gpu_usage_audit;
pub mod nvgpu;

use std::path::Path;

use gua_query::{QueryError, Records};
pub use gua_store::imported::LegacyError;
use gua_store::{FileKind, History, what_is_this};

use self::gpu_usage_audit::OldFile;

/// Opens the records of the file at a path, whichever program wrote it. The error in [`QueryError::Open`] is a
/// [`gua_store::OpenError`] or, for a file of gpu-usage-audit, a [`LegacyError`].
pub fn open_records(path: &Path) -> Result<Box<dyn Records>, QueryError> {
    match what_is_this(path) {
        FileKind::GpuUsageAudit => match OldFile::open(path) {
            Ok(file) => Ok(Box::new(file)),
            Err(error) => Err(QueryError::Open(Box::new(error))),
        },
        _ => match History::open(path) {
            Ok(history) => Ok(Box::new(history)),
            Err(error) => Err(QueryError::Open(Box::new(error))),
        },
    }
}
