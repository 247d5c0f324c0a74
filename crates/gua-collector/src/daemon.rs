//! One collector from its settings to its last line: the history file, the link to a board, the observer of the loop, and the
//! background process.

pub mod background;
mod board_link;
pub mod board_status;
mod collect;
pub mod health;
pub mod history_file;
mod observer;

use std::fmt::Display;

use gua_compat::gpu_usage_audit::LegacyError;
use gua_model::failure::Failure;
use gua_model::text::short_age;
use gua_probe::fault::DriverFault;
use gua_settings::Settings;
use gua_store::{OpenError, ReadError, WriteError};
use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use self::board_link::Cloud;
pub use self::collect::{Job, run};
pub use self::history_file::HistoryFile;
use crate::Options;
use crate::board::setup::ReportedFault;
use crate::pid_file::PidFileError;

/// Whether an existing history may be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Append {
    Yes,
    No,
}

impl From<bool> for Append {
    fn from(given: bool) -> Self {
        if given { Append::Yes } else { Append::No }
    }
}

/// Reason why a collector cannot start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error("{0}")]
    Failure(#[from] Failure),
    #[error("{0}")]
    Driver(#[from] DriverFault),
    #[error("{0}")]
    Reported(#[from] ReportedFault),
    #[error("{0}")]
    Open(#[from] OpenError),
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("{0}")]
    Legacy(#[from] LegacyError),
    #[error("{0}")]
    PidFile(#[from] PidFileError),
    #[error("cannot write history `{path}`")]
    Write { path: String, source: WriteError },
}

/// The settings of the loop.
pub fn options(settings: &Settings) -> Options {
    Options {
        interval: settings.collect.interval.value,
        thresholds: settings.thresholds(),
        keep_raw: settings.collect.keep_raw.value,
    }
}

/// Adds a line of `gua status`.
fn add_line(text: &mut String, label: &str, value: impl Display) {
    text.push_str(&format!("  {label}: {value}\n"));
}

/// The time in the local zone, with its age.
fn with_age(at: Timestamp, now: Timestamp) -> String {
    let shown = at.to_zoned(TimeZone::system());
    let age = now.duration_since(at);
    let age = if age.is_negative() {
        "in the future: the clock was set".to_owned()
    } else {
        format!("{} ago", short_age(age.unsigned_abs()))
    };
    format!("{} ({age})", shown.strftime("%Y-%m-%d %H:%M:%S %Z"))
}
