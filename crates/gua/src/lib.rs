//! The command line of `gua`: arguments, configuration, output and exit codes.
//!
//! This is a library only so that tests and fuzz targets can use its parsers; it has no stable API. Rules about GPUs
//! are not implemented here but in `gua-model`.

pub mod available;
pub mod claim;
pub mod claims;
pub mod cli;
pub mod cloud;
pub mod commands;
pub mod daemon;
pub mod db;
pub mod dispatch;
pub mod driver;
pub mod explain;
pub mod export;
pub mod failure;
pub mod fake;
pub mod import;
pub mod job;
mod log;
pub mod look;
pub mod manual;
pub mod names;
pub mod nvgpu;
pub mod output;
pub mod plot;
mod progress;
pub mod quota;
pub mod report;
pub mod runs;
pub mod statement;
pub mod which;
mod whole_file;

// Former path of the settings, until every module uses the crate directly.
pub use gua_settings as config;
pub use gua_settings::duration;
