//! The daily CSV as a sink: now and then the rows of a tick, appended to the file of the day.
//!
//! A thread of its own writes them, so that a home directory on a server that hangs costs rows and never a tick. What
//! could not be written is tried again with the next tick, as long as its turn lasts.

mod day_files;

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use gua_compat::gpu_stats::{self, Form, Minute};
use gua_model::{GapReason, Outage, Thresholds, Tick};
use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use self::day_files::{Appended, CsvError, DayFiles};
use crate::chain::chain;
use crate::observer::Options;
use crate::sink::{Sink, SinkError};

/// How long a tick waits for its rows to be on the disk. A disk that takes longer is told with the next tick.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long the end of the daemon waits for rows that are being written.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// Writes rows to the files of a directory.
#[derive(Debug)]
pub struct CsvSink {
    form: Form,
    every: Duration,
    zone: TimeZone,
    thresholds: Thresholds,
    /// Until the loop ends.
    worker: Option<SyncSender<(Minute, String)>>,
    results: Receiver<Result<Appended, CsvError>>,
    /// The turn whose rows are being written.
    pending: Option<i64>,
    /// The last turn whose rows are on the disk.
    done: Option<i64>,
}

/// What a sink is to write, where and when.
#[derive(Clone, Debug)]
pub struct CsvOptions {
    pub files: DayFiles,
    /// The time from one set of rows to the next. Turns are whole multiples of it since 1970: they do not drift.
    pub every: Duration,
    pub zone: TimeZone,
    pub thresholds: Thresholds,
}

impl CsvSink {
    /// Starts the thread that writes. Nothing is opened before the first tick.
    pub fn new(options: CsvOptions) -> io::Result<Self> {
        let CsvOptions {
            files,
            every,
            zone,
            thresholds,
        } = options;
        let form = files.form();
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
            form,
            every,
            zone,
            thresholds,
            worker: Some(worker),
            results,
            pending: None,
            done: None,
        })
    }

    fn turn(&self, at: Timestamp) -> i64 {
        let every = i64::try_from(self.every.as_secs()).unwrap_or(i64::MAX);
        at.as_second().div_euclid(every.max(1))
    }

    /// Takes the result of what is being written, if it comes within `patience`.
    fn settle(&mut self, patience: Duration) -> Result<(), SinkError> {
        let Some(turn) = self.pending else {
            return Ok(());
        };
        match self.results.recv_timeout(patience) {
            Ok(result) => {
                self.pending = None;
                result.map_err(|error| lost(&error))?;
                self.done = Some(turn);
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(not_stored("its writer has ended")),
        }
    }

    fn send(&mut self, turn: i64, tick: &Tick) -> Result<(), SinkError> {
        let sample = &tick.sample;
        let minute = Minute::of(sample.at, &self.zone);
        let lines = gpu_stats::lines(sample, self.form, minute, &self.thresholds);
        if lines.text.is_empty() {
            // Nothing is known that could be written; the next tick of this turn may know more.
            return Ok(());
        }
        let Some(worker) = &self.worker else {
            return Ok(());
        };
        match worker.try_send((minute, lines.text)) {
            Ok(()) => {
                self.pending = Some(turn);
                Ok(())
            }
            Err(TrySendError::Full(_)) => {
                Err(not_stored("the disk has not taken the last rows yet"))
            }
            Err(TrySendError::Disconnected(_)) => Err(not_stored("its writer has ended")),
        }
    }
}

impl Sink for CsvSink {
    fn name(&self) -> &str {
        "daily CSV"
    }

    fn deliver(&mut self, tick: &Tick) -> Result<(), SinkError> {
        let turn = self.turn(tick.sample.at);
        // A failure is told, and the rows of this tick are tried in its place.
        let before = self.settle(Duration::ZERO);
        match self.pending {
            Some(pending) if pending == turn => return before,
            Some(_) => return Err(not_stored("the disk has not taken the last rows yet")),
            None if self.done == Some(turn) => return before,
            None => {}
        }
        self.send(turn, tick)?;
        match before {
            Ok(()) => self.settle(PATIENCE),
            told => told,
        }
    }

    fn outage(&mut self, _: &Outage) -> Result<(), SinkError> {
        // The form has no place for it: a time without rows is a time without rows.
        Ok(())
    }

    fn configure(&mut self, options: &Options) {
        self.thresholds = options.thresholds;
    }

    fn finish(&mut self, _: Timestamp) {
        self.worker = None;
        // There is nobody left to tell.
        let _ = self.settle(LAST_PATIENCE);
    }
}

fn lost(error: &CsvError) -> SinkError {
    let reason = match error.is_disk_full() {
        true => GapReason::DiskFull,
        false => GapReason::NotStored,
    };
    SinkError {
        reason,
        message: chain(error),
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
