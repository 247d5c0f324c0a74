//! One module per command, named after the command.

pub mod alert;
pub mod available;
pub mod bench;
pub mod board;
pub mod claim;
pub mod completions;
pub mod config;
pub mod csv;
pub mod daemon;
pub mod db;
pub mod demo;
pub mod doctor;
pub mod enroll;
pub mod explain;
pub mod export;
pub mod help;
pub mod import;
pub mod keep;
pub mod list;
pub mod man;
pub mod me;
pub mod metrics;
pub mod nudge;
pub mod phase;
pub mod plot;
pub mod quota;
pub mod report;
pub mod run;
pub mod runs;
pub mod serve;
pub mod service;
pub mod statement;
pub mod status;
pub mod stop;
pub mod summarize;
pub mod sync_archive;
pub mod sync_once;
pub mod top;
pub mod unenroll;
pub mod verify;

use std::time::Duration;

/// Minimum interval of a view that samples repeatedly; a shorter one would keep the host and the driver busy.
const MIN_VIEW_INTERVAL: Duration = Duration::from_millis(100);

/// Imports of all commands: their arguments, the context, output, failures, the clock, the location of the history, and
/// formats.
mod prelude {
    pub(super) use std::process::ExitCode;

    pub(super) use anyhow::{Context as _, bail};
    pub(super) use gua_collector::location;
    pub(super) use gua_model::chain::chain;
    pub(super) use gua_model::text::{counted, sanitize};
    pub(super) use gua_probe::clock;
    pub(super) use gua_render::document::pretty;
    pub(super) use gua_render::table::csv;

    pub(super) use crate::balance;
    pub(super) use crate::cli::*;
    pub(super) use crate::context::{Context, VERSION};
    pub(super) use crate::failure::{Exit, Failure, success_or};
    pub(super) use crate::output;
    pub(super) use crate::page_file;
    pub(super) use crate::progress::Bar;
}
