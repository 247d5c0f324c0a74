//! A file of gpu-usage-audit with any rows: what is read in place counts like what is imported, and is exported again.
#![no_main]

use std::ops::ControlFlow;

use arbitrary::Arbitrary;
use gua_compat::gpu_usage_audit::{OldFile, export, import};
use gua_fuzz::{Cell, Time, directory};
use gua_model::{GpuQuarter, Period, Quarter, Thresholds};
use gua_query::Records;
use gua_query::records::Origin;
use gua_store::{History, OpenMode, Store, WriterOptions};
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use rusqlite::Connection;
use rusqlite::types::Value;

#[derive(Arbitrary, Debug)]
struct Old {
    runs: Vec<(u8, f64)>,
    gpus: Vec<(Stamp, u8, i8, Option<u8>)>,
    processes: Vec<(Stamp, u8, u8, Option<u16>, Option<u8>)>,
    /// A cell that no release writes.
    odd: Option<(u8, Cell)>,
}

#[derive(Arbitrary, Debug)]
enum Stamp {
    Time(Time),
    Text(String),
}

impl Stamp {
    fn text(&self) -> String {
        match self {
            Stamp::Time(time) => time.text().unwrap_or_default(),
            Stamp::Text(text) => text.clone(),
        }
    }
}

fuzz_target!(|old: Old| {
    let directory = directory();
    let path = directory.path().join("old.db");
    write(&path, &old).expect("a database");
    let ours = directory.path().join("gua.db");
    let go_on = &mut |_| ControlFlow::Continue(());
    let Ok(file) = OldFile::open(&path) else {
        return;
    };
    let in_place = totals(&file);
    let facts = file.facts();
    drop(file);
    let mut store = Store::open(&ours, OpenMode::Create, &WriterOptions::default()).expect("a new history");
    let imported = import(&mut store, &path, Timestamp::UNIX_EPOCH, go_on);
    store.close().expect("closed");
    if imported.is_err() {
        return;
    }
    let history = History::open(&ours).expect("it is there");
    if let (Some(in_place), Ok(_)) = (in_place, facts) {
        assert_eq!(totals(&history).as_ref(), Some(&in_place));
    }
    let found = history.check(|_| {}).expect("it can be checked");
    assert!(found.is_clean(), "{found:?}");
    export(&history, &directory.path().join("again.db"), gua_files::Over::Refuse, go_on).expect("it can be exported");
});

/// All quarters of the imported rows; `None` if they cannot be read.
fn totals(records: &dyn Records) -> Option<Vec<(Quarter, Vec<GpuQuarter>)>> {
    let always = Period::new(Timestamp::MIN, Timestamp::MAX);
    let mut found = Vec::new();
    let mut put = |quarter: Quarter, gpus: &[GpuQuarter]| found.push((quarter, gpus.to_vec()));
    records.totals(Origin::Imported, always, Thresholds::default(), &mut put).ok()?;
    Some(found)
}

fn write(path: &std::path::Path, old: &Old) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = OFF;
         CREATE TABLE daemon_run (id INTEGER PRIMARY KEY, started_at DATETIME NOT NULL, interval_seconds REAL NOT NULL);
         CREATE TABLE gpu_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, util_pct INTEGER NOT NULL, run_id INTEGER);
         CREATE TABLE proc_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, pid INTEGER NOT NULL, mem_used_mb INTEGER,
             loginuid_user TEXT, run_id INTEGER);",
    )?;
    let change = connection.transaction()?;
    for (id, interval) in &old.runs {
        // A NaN is NULL for SQLite.
        let _ = change.execute("INSERT OR IGNORE INTO daemon_run VALUES (?1, 'x', ?2)", (id, interval));
    }
    for (at, gpu, util, run) in &old.gpus {
        let gpu = format!("GPU-{}", gpu % 4);
        change.execute("INSERT INTO gpu_sample VALUES (?1, ?2, ?3, ?4)", (at.text(), gpu, util, run))?;
    }
    for (at, gpu, pid, memory, run) in &old.processes {
        let (gpu, user) = (format!("GPU-{}", gpu % 4), format!("user{}", pid % 3));
        let values = (at.text(), gpu, pid, memory, user, run);
        change.execute("INSERT INTO proc_sample VALUES (?1, ?2, ?3, ?4, ?5, ?6)", values)?;
    }
    if let Some((column, cell)) = &old.odd {
        let columns = ["ts", "gpu_uuid", "util_pct", "run_id"];
        let sql = format!("UPDATE gpu_sample SET {} = ?1 WHERE rowid = 1", columns[usize::from(column % 4)]);
        let value: Value = cell.value();
        let _ = change.execute(&sql, [value]);
    }
    change.commit()
}
