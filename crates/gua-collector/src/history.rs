//! The history file as a sink: one transaction per tick. While another process holds its lock, or the disk is full, ticks
//! wait in memory; one that does not fit there is lost and counted.

mod waiting;

use std::time::Duration;

use gua_compat::gpu_usage_audit::import_inside;
use gua_model::chain::chain;
use gua_model::failure_log::FailureLog;
use gua_model::period::Quarter;
use gua_model::{GapReason, Outage, Tick};
use gua_store::{FileChange, NewRun, RunId, Store, WriteError};
use jiff::Timestamp;
use tracing::{error, info, warn};

use crate::events::Events;
use crate::observer::Options;
use crate::sink::{Sink, SinkError};

pub use self::waiting::lock_holders;
use self::waiting::{MAX_WAITING, Waiting};

/// Time for which a tick waits for a lock. Readers hold it for microseconds; a tick that waits longer is kept in memory, so
/// that the next one is not late.
const LOCK_WAIT: Duration = Duration::from_millis(100);
/// Time for which the last ticks wait when the collector ends.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Writes ticks to an open history file.
#[derive(Debug)]
pub struct HistorySink {
    store: Store,
    run: RunId,
    /// Description of the next collector run.
    next: NewRun,
    /// Ticks that could not be written yet.
    waiting: Waiting,
    /// Quarter of the last tick, if its maintenance is complete.
    maintained: Option<Quarter>,
    /// Refusals and runs that users leave in the shared directory; `None` leaves them there.
    pub(crate) events: Option<Events>,
    /// Quarters in which gpu-usage-audit wrote into the history.
    intrusions: FailureLog,
}

impl HistorySink {
    /// Starts a collector run in the history.
    pub fn begin(mut store: Store, run: NewRun) -> Result<Self, WriteError> {
        if let Some(journal) = store.stranded_journal() {
            let (path, journal) = (store.path().display(), journal.display());
            warn!(%path, %journal, "a journal that does not belong to the history was renamed");
        }
        let id = store.begin_run(&run)?;
        store.wait_for_lock(LOCK_WAIT)?;
        Ok(Self {
            store,
            run: id,
            next: run,
            waiting: Waiting::bounded(MAX_WAITING),
            maintained: None,
            events: None,
            intrusions: FailureLog::default(),
        })
    }

    /// Continues in the file at the path if the history was moved, deleted or truncated.
    fn follow_file(&mut self, at: Timestamp) -> Result<(), WriteError> {
        let Some(change) = self.store.follow_file(at)? else {
            return Ok(());
        };
        let path = self.store.path().display();
        match change {
            FileChange::Moved => {
                warn!(%path, "the history was renamed; a new one was begun at its path");
            }
            FileChange::Deleted { kept_as } => {
                let kept_as = kept_as.display();
                warn!(%path, %kept_as, "the history was deleted; its content was written again");
            }
            FileChange::Truncated { kept_as } => {
                let kept_as = kept_as.display();
                error!(%path, %kept_as, "the history was truncated; what is left of it was renamed and a new one begun");
            }
        }
        self.store.wait_for_lock(LOCK_WAIT)?;
        self.next.started = at;
        self.run = self.store.begin_run(&self.next)?;
        self.maintained = None;
        Ok(())
    }

    /// Ends the collector run and starts one with another interval.
    fn begin_again(&mut self, at: Timestamp, interval: Duration) -> Result<(), WriteError> {
        self.store.end_run(self.run, at)?;
        let next = NewRun {
            started: at,
            interval,
            ..self.next.clone()
        };
        self.run = self.store.begin_run(&next)?;
        self.next = next;
        Ok(())
    }

    /// Imports rows that gpu-usage-audit, for example a cron job that was left over, has written into the history.
    fn import_inside(&mut self, at: Timestamp) {
        match import_inside(&mut self.store, at) {
            // While maintenance catches up, it runs several times in a quarter.
            Ok(None) if self.maintained.is_some() => {
                if let Some(quarters) = self.intrusions.end() {
                    info!(
                        quarters,
                        "gpu-usage-audit no longer writes into the history"
                    );
                }
            }
            Ok(Some(imported)) if self.intrusions.add() => {
                let rows = imported.new_gpu_rows + imported.new_process_rows;
                warn!(
                    rows,
                    "gpu-usage-audit writes into the history; its rows are imported; stop it (see `crontab -l` and `systemctl list-timers`)"
                );
            }
            Err(error) if self.intrusions.add() => {
                let error = chain(&error);
                warn!(
                    error,
                    "gpu-usage-audit writes into the history; its rows cannot be imported"
                );
            }
            _ => {}
        }
    }

    fn write(&mut self, tick: &Tick) -> Result<(), WriteError> {
        if tick.interval != self.next.interval {
            self.begin_again(tick.sample.at, tick.interval)?;
        }
        self.store.record(self.run, tick)
    }

    /// Writes the ticks that wait, up to the first that the file does not take.
    fn write_waiting(&mut self) -> Result<(), WriteError> {
        let mut written = 0_u64;
        while let Some(tick) = self.waiting.pop() {
            match self.write(&tick) {
                Ok(()) => written += 1,
                Err(error @ (WriteError::Locked(_) | WriteError::DiskFull(_))) => {
                    self.waiting.put_back(tick);
                    return Err(error);
                }
                Err(error) => {
                    error!(error = chain(&error), at = %tick.sample.at, "waiting tick not stored");
                }
            }
        }
        if written > 0 {
            info!(
                ticks = written,
                "the history can be written again; the waiting ticks are stored"
            );
        }
        Ok(())
    }

    /// Keeps a tick in memory until it can be written. Fails if there is no room.
    fn keep(&mut self, tick: &Tick, obstacle: WriteError) -> Result<(), SinkError> {
        let is_first = self.waiting.is_empty();
        let is_kept = self.waiting.push(tick);
        if is_kept && !is_first {
            return Ok(());
        }
        let is_locked = matches!(obstacle, WriteError::Locked(_));
        let holder = is_locked.then(|| lock_holders(self.store.path()));
        let SinkError { reason, message } = obstacle.into();
        match (is_kept, holder) {
            (true, Some(holder)) => warn!(holder, "the history is locked; ticks wait in memory"),
            (true, None) => warn!(error = message, "the disk is full; ticks wait in memory"),
            (false, holder) => {
                let locked = |holder| format!("the history is locked by {holder}");
                let why = holder.map_or(message, locked);
                let waiting = self.waiting.len();
                let message = format!("{why}, and {waiting} ticks wait already");
                return Err(SinkError { reason, message });
            }
        }
        Ok(())
    }
}

impl Sink for HistorySink {
    fn name(&self) -> &str {
        "history"
    }

    fn deliver(&mut self, tick: &Tick) -> Result<(), SinkError> {
        let written = self.follow_file(tick.sample.at);
        let written = written.and_then(|()| self.write_waiting());
        match written.and_then(|()| self.write(tick)) {
            Ok(()) => Ok(()),
            Err(obstacle @ (WriteError::Locked(_) | WriteError::DiskFull(_))) => {
                self.keep(tick, obstacle)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn outage(&mut self, outage: &Outage) -> Result<(), SinkError> {
        Ok(self.store.record_outage(outage)?)
    }

    fn maintain(&mut self, at: Timestamp) -> Result<(), SinkError> {
        // The ticks come first.
        if !self.waiting.is_empty() {
            return Ok(());
        }
        let quarter = Quarter::of(at);
        if let Some(events) = &mut self.events {
            events.import(&mut self.store, at)?;
        }
        // Totals and retention work in quarters, so one pass per quarter is enough.
        if self.maintained == Some(quarter) {
            return Ok(());
        }
        self.import_inside(at);
        let maintenance = self.store.maintain(at)?;
        self.maintained = (!maintenance.more).then_some(quarter);
        Ok(())
    }

    fn configure(&mut self, options: &Options) {
        self.store.keep_raw_for(Some(options.keep_raw));
        // More ticks may have to be deleted now.
        self.maintained = None;
    }

    fn finish(mut self: Box<Self>, at: Timestamp) {
        if !self.waiting.is_empty() {
            let _ = self.store.wait_for_lock(LAST_WAIT);
            if let Err(error) = self.write_waiting() {
                let holder = lock_holders(self.store.path());
                let ticks_lost = self.waiting.len();
                let error = chain(&error);
                error!(error, holder, ticks_lost, "waiting ticks are lost");
            }
        }
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
    fn a_full_disk_loses_only_what_does_not_fit_into_memory() {
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
        // Three ticks of eight GPUs.
        sink.waiting = Waiting::bounded(3 * 9);
        let (taken, error) = (0..)
            .find_map(|second| Some((second, sink.deliver(&tick(second)).err()?)))
            .unwrap();
        assert_eq!(error.reason, GapReason::DiskFull);
        assert!(error.message.starts_with("the disk is full"), "{error}");
        assert!(
            sink.deliver(&tick(taken + 1)).is_err(),
            "and so is the next"
        );
        assert_eq!(sink.waiting.len(), 3);
        Box::new(sink).finish(Timestamp::from_second(1_800_100_000).unwrap());
        let history = History::open(&path).unwrap();
        assert_eq!(history.info().unwrap().ticks, (taken - 3).unsigned_abs());
    }

    /// A sink of a new history, and a connection that holds its write lock.
    fn locked_sink(path: &std::path::Path) -> (HistorySink, rusqlite::Connection) {
        let store = Store::open(path, OpenMode::Create, &WriterOptions::default()).unwrap();
        let run = NewRun {
            started: Timestamp::UNIX_EPOCH,
            interval: Duration::from_secs(1),
            host: "h".to_owned(),
            version: "0".to_owned(),
            boot: None,
        };
        let mut sink = HistorySink::begin(store, run).unwrap();
        sink.deliver(&tick(0)).unwrap();
        let other = rusqlite::Connection::open(path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        (sink, other)
    }

    #[test]
    fn rows_that_the_python_tool_writes_into_the_history_are_imported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let (mut sink, other) = locked_sink(&path);
        other.execute_batch("ROLLBACK").unwrap();
        drop(other);
        let shape = gua_test::old_history::Shape {
            gpus: 1,
            ticks: 4,
            interval_seconds: 30,
            process_rows: 4,
        };
        let end = Timestamp::from_second(1_790_000_000).unwrap();
        gua_test::old_history::write(&path, &shape, end).unwrap();
        sink.deliver(&tick(1)).unwrap();
        sink.maintain(tick(1).sample.at).unwrap();
        Box::new(sink).finish(tick(2).sample.at);
        let history = History::open(&path).unwrap();
        let sources = history.old_sources().unwrap();
        assert_eq!(sources.len(), 1);
        assert_eq!((sources[0].gpu_rows, sources[0].process_rows), (4, 4));
        assert_eq!(history.info().unwrap().ticks, 2);
    }

    #[test]
    fn ticks_wait_in_memory_while_the_history_is_locked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let (mut sink, other) = locked_sink(&path);
        for second in 1..20 {
            sink.deliver(&tick(second)).unwrap();
            sink.maintain(tick(second).sample.at).unwrap();
        }
        let stored = || History::open(&path).unwrap().info().unwrap().ticks;
        assert_eq!(stored(), 1);
        other.execute_batch("ROLLBACK").unwrap();
        sink.deliver(&tick(20)).unwrap();
        assert_eq!(stored(), 21);
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        sink.deliver(&tick(21)).unwrap();
        other.execute_batch("ROLLBACK").unwrap();
        Box::new(sink).finish(tick(22).sample.at);
        assert_eq!(stored(), 22, "the last ones are written at the end");
    }

    #[test]
    fn waiting_ticks_are_bounded_and_a_loss_names_who_holds_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let (mut sink, other) = locked_sink(&path);
        // Each tick has eight GPUs and no process.
        sink.waiting = Waiting::bounded(3 * 9);
        for second in 1..4 {
            sink.deliver(&tick(second)).unwrap();
        }
        let lost = sink.deliver(&tick(4)).unwrap_err();
        assert_eq!(lost.reason, GapReason::NotStored);
        assert!(lost.message.contains("is locked by "), "{lost}");
        assert!(lost.message.ends_with("3 ticks wait already"), "{lost}");
        other.execute_batch("ROLLBACK").unwrap();
        sink.deliver(&tick(5)).unwrap();
        let stored = History::open(&path).unwrap().info().unwrap().ticks;
        assert_eq!(stored, 5);
    }

    #[test]
    fn a_history_that_is_moved_or_deleted_under_the_collector_loses_no_tick() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let store = Store::open(&path, OpenMode::Create, &WriterOptions::default()).unwrap();
        let run = NewRun {
            started: Timestamp::UNIX_EPOCH,
            interval: Duration::from_secs(1),
            host: "h".to_owned(),
            version: "0".to_owned(),
            boot: None,
        };
        let mut sink = HistorySink::begin(store, run).unwrap();
        let mut collect = |seconds: std::ops::Range<i64>| {
            for second in seconds {
                sink.deliver(&tick(second)).unwrap();
                sink.maintain(tick(second).sample.at).unwrap();
            }
        };
        let ticks = |path: &std::path::Path| History::open(path).unwrap().info().unwrap().ticks;
        collect(0..10);
        std::fs::rename(&path, directory.path().join("moved.db")).unwrap();
        collect(10..30);
        std::fs::remove_file(&path).unwrap();
        collect(30..40);
        assert_eq!(ticks(&directory.path().join("moved.db")), 10);
        assert_eq!(ticks(&path), 30);
        Box::new(sink).finish(Timestamp::from_second(1_800_100_000).unwrap());
        assert_eq!(ticks(&path), 30);
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
