//! The daily CSV as a sink: periodically appends the rows of a tick to the file of the day.
//!
//! A separate thread writes them, so a hanging network file system loses rows but never delays a tick. Rows that could
//! not be written are replaced by those of the next tick within the same period.

mod day_files;

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use gua_compat::gpu_stats::{self, Form, Minute};
use gua_model::chain::chain;
use gua_model::{GapReason, Thresholds, Tick};
use gua_settings::Settings;
use gua_settings::kind::CsvFormat;
use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use self::day_files::{Appended, CsvError, DayFiles};
use crate::observer::Options;
use crate::sink::{Sink, SinkError};

/// Maximum time a tick waits for its rows to be written. The result of a slower write is reported at the next tick.
const WRITE_WAIT: Duration = Duration::from_millis(200);
/// Maximum time the daemon waits for a write at its end.
const FINAL_WAIT: Duration = Duration::from_secs(2);

/// The configured format of the daily CSV.
pub fn configured_form(settings: &Settings) -> Form {
    match settings.csv.format.value {
        CsvFormat::Classic => Form::Classic,
        CsvFormat::Full => Form::Full,
    }
}

/// The configured directory of the daily CSV as an absolute path.
pub fn configured_directory(settings: &Settings) -> Option<PathBuf> {
    let directory = settings.csv.dir.value.as_ref()?;
    Some(std::path::absolute(directory).unwrap_or_else(|_| directory.clone()))
}

/// Writes rows to the daily files of a directory.
#[derive(Debug)]
pub struct CsvSink {
    options: CsvOptions,
    worker: SyncSender<(Minute, String)>,
    results: Receiver<Result<Appended, CsvError>>,
    /// Period whose rows are being written.
    pending: Option<i64>,
    /// Last period whose rows were written.
    done: Option<i64>,
}

/// Files, period and thresholds of a [`CsvSink`].
#[derive(Clone, Debug)]
pub struct CsvOptions {
    pub files: DayFiles,
    /// Length of a period. Periods are counted from 1970, so they do not drift.
    pub every: Duration,
    pub zone: TimeZone,
    pub thresholds: Thresholds,
}

impl CsvSink {
    /// Starts the writing thread. No file is opened before the first tick.
    pub fn new(options: CsvOptions) -> io::Result<Self> {
        let files = options.files.clone();
        let (worker, jobs) = sync_channel::<(Minute, String)>(1);
        let (results_to, results) = sync_channel(1);
        thread::Builder::new()
            .name("gua-csv".to_owned())
            .spawn(move || {
                for (minute, lines) in jobs {
                    if results_to.send(files.append(minute, &lines)).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            options,
            worker,
            results,
            pending: None,
            done: None,
        })
    }

    fn period(&self, at: Timestamp) -> i64 {
        let every = i64::try_from(self.options.every.as_secs()).unwrap_or(i64::MAX);
        at.as_second().div_euclid(every.max(1))
    }

    /// Takes the result of the current write, if it arrives within `wait`.
    fn settle(&mut self, wait: Duration) -> Result<(), SinkError> {
        let Some(period) = self.pending else {
            return Ok(());
        };
        match self.results.recv_timeout(wait) {
            Ok(result) => {
                self.pending = None;
                result?;
                self.done = Some(period);
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(not_stored("the writing thread has ended")),
        }
    }

    fn send(&mut self, period: i64, tick: &Tick) -> Result<(), SinkError> {
        let sample = &tick.sample;
        let minute = Minute::of(sample.at, &self.options.zone);
        let form = self.options.files.form;
        let lines = gpu_stats::lines(sample, form, minute, &self.options.thresholds);
        if lines.text.is_empty() {
            // No reading is available; the next tick of this period may have some.
            return Ok(());
        }
        match self.worker.try_send((minute, lines.text)) {
            Ok(()) => {
                self.pending = Some(period);
                Ok(())
            }
            Err(TrySendError::Full(_)) => {
                Err(not_stored("the previous rows are still being written"))
            }
            Err(TrySendError::Disconnected(_)) => Err(not_stored("the writing thread has ended")),
        }
    }
}

impl Sink for CsvSink {
    fn name(&self) -> &str {
        "daily CSV"
    }

    /// The rows of gpu_stats do not depend on a history.
    fn follows_history(&self) -> bool {
        false
    }

    fn deliver(&mut self, tick: &Tick) -> Result<(), SinkError> {
        let period = self.period(tick.sample.at);
        // A failure is reported, and the rows of this tick are written instead.
        let before = self.settle(Duration::ZERO);
        match self.pending {
            Some(pending) if pending == period => return before,
            Some(_) => return Err(not_stored("the previous rows are still being written")),
            None if self.done == Some(period) => return before,
            None => {}
        }
        self.send(period, tick)?;
        match before {
            Ok(()) => self.settle(WRITE_WAIT),
            failed => failed,
        }
    }

    fn configure(&mut self, options: &Options) {
        self.options.thresholds = options.thresholds;
    }

    fn finish(mut self: Box<Self>, _: Timestamp) {
        // An error cannot be reported any more.
        let _ = self.settle(FINAL_WAIT);
    }
}

impl From<CsvError> for SinkError {
    fn from(error: CsvError) -> Self {
        let reason = match &error {
            CsvError::File(error) if error.is_disk_full() => GapReason::DiskFull,
            _ => GapReason::NotStored,
        };
        let message = chain(&error);
        SinkError { reason, message }
    }
}

fn not_stored(message: &str) -> SinkError {
    SinkError {
        reason: GapReason::NotStored,
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
