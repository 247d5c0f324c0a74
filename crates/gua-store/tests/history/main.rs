//! The life of a history file: written, read, killed, filled, damaged, erased from.
#![cfg(test)]

mod clock;
mod damage;
mod damaged_rows;
mod idle;
mod kill;
mod lost;
mod mig;
mod migration;
mod moved;
mod owners;
mod place;
mod refusals;
mod room;
mod totals;
mod upkeep;
mod view;
mod watched;
mod writing;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use gua_model::{GpuQuarter, Period, Quarter, Session, Thresholds, Tick, Totals};
use gua_query::records::QuarterVisitor;
use gua_store::{History, NewRun, OpenMode, ReadError, RunId, Store, WriterOptions};
use gua_test::synthetic::SyntheticHost;
use jiff::Timestamp;

/// A temporary directory with a history in it.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("gua.db")
    }

    fn store(&self) -> Store {
        open(&self.path(), &WriterOptions::default())
    }

    fn history(&self) -> History {
        History::open(&self.path()).unwrap()
    }
}

/// The totals of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WindowTotals {
    totals: Totals,
    /// The requested window, or a longer one.
    window: Period,
    damaged: u32,
}

/// Collects the totals of a window with the file's own thresholds, or others.
trait CollectTotals {
    fn totals(&self, window: Period) -> Result<WindowTotals, ReadError>;
    fn totals_by(&self, rule: Thresholds, window: Period) -> Result<WindowTotals, ReadError>;
}

impl CollectTotals for History {
    fn totals(&self, window: Period) -> Result<WindowTotals, ReadError> {
        self.totals_by(self.thresholds()?, window)
    }

    fn totals_by(&self, rule: Thresholds, window: Period) -> Result<WindowTotals, ReadError> {
        struct Collect(Totals, Period);
        impl QuarterVisitor for Collect {
            fn begin(&mut self, window: Period) {
                self.1 = window;
            }

            fn quarter(&mut self, quarter: Quarter, gpus: &[GpuQuarter]) {
                self.0.put(quarter, gpus);
            }
        }
        let mut collect = Collect(Totals::default(), window);
        let damaged = self.quarters(window, rule, &mut collect)?;
        Ok(WindowTotals {
            totals: collect.0,
            window: collect.1,
            damaged,
        })
    }
}

fn open(path: &Path, options: &WriterOptions) -> Store {
    Store::open(path, OpenMode::CreateOrAppend, options).unwrap()
}

fn begin(store: &mut Store, host: &SyntheticHost) -> RunId {
    store
        .begin_run(&NewRun {
            started: host.now(),
            interval: Duration::from_secs(30),
            host: "node1".to_owned(),
            version: "0.1.0".to_owned(),
            boot: None,
        })
        .unwrap()
}

/// Records so many ticks of a host, with maintenance as a collector does it, and returns them.
fn record(store: &mut Store, run: RunId, host: &mut SyntheticHost, count: usize) -> Vec<Tick> {
    let mut ticks = Vec::new();
    for _ in 0..count {
        let tick = host.tick();
        store.record(run, &tick).unwrap();
        store.maintain(tick.sample.at).unwrap();
        ticks.push(tick);
    }
    while store.maintain(host.now()).unwrap().more {}
    ticks
}

fn read(history: &History, window: Period) -> Vec<Result<Tick, ReadError>> {
    let mut ticks = Vec::new();
    let each = |stored: Result<gua_store::StoredTick, ReadError>| {
        ticks.push(stored.map(|stored| stored.tick));
        Ok::<(), ReadError>(())
    };
    history.ticks(window, each).unwrap();
    ticks
}

/// Quarters with a change number greater than `after`, each with its number, ordered by it.
fn changed_quarters(path: &Path, after: u64) -> Vec<(Quarter, u64)> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let sql = "SELECT quarter, revision FROM quarter_total WHERE revision > ?1 ORDER BY revision";
    let mut query = connection.prepare(sql).unwrap();
    let rows = query.query_map([after.cast_signed()], |row| {
        let revision: i64 = row.get(1)?;
        Ok((Quarter(row.get(0)?), revision.unsigned_abs()))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// All sessions that overlap a window, ordered by start.
fn sessions(history: &History, window: Period) -> Result<Vec<Session>, ReadError> {
    let mut sessions = Vec::new();
    history.sessions(window, &mut |session: &Session| {
        sessions.push(session.clone());
    })?;
    sessions.sort_by(|one, other| (one.from, &one.key).cmp(&(other.from, &other.key)));
    Ok(sessions)
}

fn all() -> Period {
    Period::new(Timestamp::MIN, Timestamp::MAX)
}

fn read_all(history: &History) -> Vec<Tick> {
    let ticks = read(history, all());
    ticks.into_iter().map(Result::unwrap).collect()
}

/// Path of a program of `examples/`. Cargo builds them together with all tests, but not with a single one.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let mut build = Command::new(env!("CARGO"));
    // For the workspace: for this package alone, cargo would build the dependencies once more, with fewer features.
    build.args(["build", "--quiet", "--workspace", "--example", name]);
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let example = profile.join("examples").join(name);
    match build.status() {
        Ok(status) => assert!(status.success()),
        // Where the tests run without cargo (scripts/test-container), all targets were built before.
        Err(error) => assert!(example.exists(), "{error}, and no {}", example.display()),
    }
    example
}
