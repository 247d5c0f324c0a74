//! The history file as a sink: one transaction per tick; a full disk counts as lost ticks.

use std::time::Duration;

use gua_model::chain::chain;
use gua_model::period::Quarter;
use gua_model::{GapReason, Outage, Tick};
use gua_store::{NewRun, RunId, Store, WriteError};
use jiff::Timestamp;

use crate::events::Events;
use crate::observer::Options;
use crate::sink::{Sink, SinkError};

/// Writes ticks to an open history file.
#[derive(Debug)]
pub struct HistorySink {
    store: Store,
    run: RunId,
    /// Description of the next collector run.
    next: NewRun,
    /// Whether the interval was changed; the following ticks then belong to a new collector run.
    is_changed: bool,
    /// Quarter of the last tick, if its maintenance is complete.
    maintained: Option<Quarter>,
    /// Refusals and runs that users leave in the shared directory.
    events: Option<Events>,
}

impl HistorySink {
    /// Starts a collector run in the history.
    pub fn begin(mut store: Store, run: NewRun) -> Result<Self, WriteError> {
        let id = store.begin_run(&run)?;
        Ok(Self {
            store,
            run: id,
            next: run,
            is_changed: false,
            maintained: None,
            events: None,
        })
    }

    /// Also imports the events that users leave in the shared directory.
    #[must_use]
    pub fn with_events(self, events: Events) -> Self {
        Self {
            events: Some(events),
            ..self
        }
    }

    fn begin_again(&mut self, at: Timestamp, interval: Duration) -> Result<(), SinkError> {
        self.next.started = at;
        self.next.interval = interval;
        self.store.end_run(self.run, at)?;
        self.run = self.store.begin_run(&self.next)?;
        self.is_changed = false;
        Ok(())
    }
}

impl Sink for HistorySink {
    fn name(&self) -> &str {
        "history"
    }

    fn deliver(&mut self, tick: &Tick) -> Result<(), SinkError> {
        if self.is_changed {
            self.begin_again(tick.sample.at, tick.interval)?;
        }
        Ok(self.store.record(self.run, tick)?)
    }

    fn outage(&mut self, outage: &Outage) -> Result<(), SinkError> {
        Ok(self.store.record_outage(outage)?)
    }

    fn maintain(&mut self, at: Timestamp) -> Result<(), SinkError> {
        let quarter = Quarter::of(at);
        if let Some(events) = &mut self.events {
            events.import(&mut self.store, at)?;
        }
        // Totals and retention work in quarters, so one pass per quarter is enough.
        if self.maintained == Some(quarter) {
            return Ok(());
        }
        let maintenance = self.store.maintain(at)?;
        self.maintained = (!maintenance.more).then_some(quarter);
        Ok(())
    }

    fn configure(&mut self, options: &Options) {
        self.is_changed |= options.interval != self.next.interval;
        self.store.keep_raw_for(Some(options.keep_raw));
        // More ticks may have to be deleted now.
        self.maintained = None;
    }

    fn finish(mut self: Box<Self>, at: Timestamp) {
        // On a full disk only the mark of an orderly end is missing.
        let _ = self.store.end_run(self.run, at);
        let _ = self.store.close();
    }
}

impl From<WriteError> for SinkError {
    /// Keeps the whole error chain, because an administrator needs the message of SQLite.
    fn from(error: WriteError) -> Self {
        let message = chain(&error);
        let reason = match error {
            WriteError::DiskFull(_) => GapReason::DiskFull,
            _ => GapReason::NotStored,
        };
        SinkError { reason, message }
    }
}

#[cfg(test)]
mod tests {
    use gua_model::{Driver, Gpu, Missing, Sample};
    use gua_store::{History, OpenMode, WriterOptions};

    use super::*;

    fn tick(second: i64) -> Tick {
        let gpu = |number: u32| {
            let uuid = format!("GPU-{second}-{number}").parse().unwrap();
            Gpu::without_readings(uuid, number, Missing::Failed)
        };
        Tick {
            sample: Sample {
                at: Timestamp::from_second(1_800_000_000 + second).unwrap(),
                since_boot: Duration::from_secs(second.unsigned_abs()),
                boot: Err(Missing::Unsupported),
                driver: Driver {
                    version: Err(Missing::Unsupported),
                    cuda: Err(Missing::Unsupported),
                },
                gpus: (0..8).map(gpu).collect(),
                problems: Vec::new(),
            },
            interval: Duration::from_secs(1),
        }
    }

    #[test]
    fn a_full_disk_loses_the_tick_and_leaves_the_history_intact() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let options = WriterOptions {
            most_pages: Some(64),
            ..WriterOptions::default()
        };
        let store = Store::open(&path, OpenMode::Create, &options).unwrap();
        let run = NewRun {
            started: Timestamp::UNIX_EPOCH,
            interval: Duration::from_secs(1),
            host: "h".to_owned(),
            version: "0".to_owned(),
            boot: None,
        };
        let mut sink = HistorySink::begin(store, run).unwrap();
        let (stored, error) = (0..)
            .find_map(|second| Some((second, sink.deliver(&tick(second)).err()?)))
            .unwrap();
        assert_eq!(error.reason, GapReason::DiskFull);
        assert!(error.message.starts_with("the disk is full"), "{error}");
        assert!(
            sink.deliver(&tick(stored + 1)).is_err(),
            "and so is the next"
        );
        Box::new(sink).finish(Timestamp::from_second(1_800_100_000).unwrap());
        let history = History::open(&path).unwrap();
        assert_eq!(history.info().unwrap().ticks, stored.unsigned_abs());
    }

    #[test]
    fn a_reload_changes_the_retention_of_raw_ticks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let store = Store::open(&path, OpenMode::Create, &WriterOptions::default()).unwrap();
        let run = NewRun {
            started: Timestamp::UNIX_EPOCH,
            interval: Duration::from_secs(60),
            host: "h".to_owned(),
            version: "0".to_owned(),
            boot: None,
        };
        let mut sink = HistorySink::begin(store, run).unwrap();
        let collect = |sink: &mut HistorySink, minutes: std::ops::Range<i64>| {
            for minute in minutes {
                let tick = tick(minute * 60);
                sink.deliver(&tick).unwrap();
                sink.maintain(tick.sample.at).unwrap();
            }
        };
        collect(&mut sink, 0..180);
        let kept = || History::open(&path).unwrap().info().unwrap().ticks;
        assert_eq!(kept(), 180);
        sink.configure(&Options {
            interval: Duration::from_secs(60),
            thresholds: gua_model::Thresholds::default(),
            keep_raw: Duration::from_secs(3600),
        });
        collect(&mut sink, 180..194);
        assert!((60..=90).contains(&kept()), "{}", kept());
    }

    #[test]
    fn other_write_errors_are_not_reported_as_a_full_disk() {
        let time = Timestamp::UNIX_EPOCH;
        let error = SinkError::from(WriteError::Time(time));
        assert_eq!(error.reason, GapReason::NotStored);
        assert_eq!(error.message, WriteError::Time(time).to_string());
    }
}
