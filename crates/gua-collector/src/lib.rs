//! The collector: reads the driver on a schedule through the reader child and delivers each tick to the history, the
//! daily CSV and a board.
//!
//! Only a signal ends the loop. A failing driver or a full disk loses ticks, which are counted and logged. The loop
//! opens no file, prints nothing and reads no settings: it gets a [`Runtime`] (clocks, driver, signals), [`Sink`]s and
//! an [`Observer`], and tests simulate all three. Log records go through `tracing`; the binary decides their format. A
//! field `line` holds the text of a record in the form in which gpu-usage-audit printed it.

pub mod access;
pub mod alert;
pub mod board;
pub mod bundle;
#[cfg(test)]
mod captured_log;
pub mod claims;
pub mod collector;
pub mod csv;
pub mod daemon;
pub mod doctor;
pub mod events;
pub mod history;
pub mod history_document;
pub mod listing;
pub mod location;
pub mod log;
pub mod log_file;
pub mod log_record;
pub mod managed;
pub mod metrics;
pub mod notes;
pub mod observer;
pub mod open_outage;
pub mod outage_file;
pub mod pid_file;
pub mod python_collector;
pub mod quota;
pub mod reader;
pub mod runtime;
pub mod schedule;
pub mod service;
pub mod sink;
mod sink_state;
pub mod socket;
mod timed_stream;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gua_model::failure::Failure;

pub use collector::{Collector, Summary};
pub use observer::{Observer, Options};
pub use open_outage::OpenOutage;
pub use runtime::{HostRuntime, Runtime, Wake};
pub use schedule::Schedule;
pub use sink::{Progress, Sink, SinkError};

/// Version of gua.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Locks a mutex, also after a thread that held it panicked: every value behind a mutex of this crate is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates the parent directory of a file, which only this user can open.
pub fn make_directory_of(file: &Path) -> Result<(), Failure> {
    let directory = gua_files::directory(file);
    let made = gua_files::make_private_directory(directory);
    made.map_err(Failure::cannot("create directory", directory))
}
