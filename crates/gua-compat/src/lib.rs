//! Files, tables and texts of the tools that gua replaces.
//!
//! - [`gpu_usage_audit`]: its SQLite files, 1.0.2 to 1.8.0: read in place, imported, exported and adopted. They are never
//!   modified.
//! - [`gpu_stats`]: its daily CSV: written, read and imported.
//!
//! Formats between agent and board, and the files of a watched run, are in `gua-wire`. Imported rows are stored by
//! `gua_store::imported`; how they count is decided in `gua-model`.

pub mod gpu_stats;
pub mod gpu_usage_audit;

pub use gua_store::imported::LegacyError;
