//! A history file whose rows were altered: every question ends, and none panics.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use arbitrary::Arbitrary;
use gua_compat::gpu_usage_audit;
use gua_fuzz::{Cell, START, Time, directory};
use gua_model::{Driver, Gpu, GpuQuarter, Micros, Missing, Percent, Period, Sample, Tick};
use gua_store::{History, NewRun, OpenMode, Store, WriterOptions};
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use rusqlite::Connection;

/// Columns that are altered.
const COLUMNS: [(&str, &str); 30] = [
    ("tick", "at"),
    ("tick", "run"),
    ("tick", "body"),
    ("quarter_total", "quarter"),
    ("quarter_total", "body"),
    ("quarter_total", "revision"),
    ("day_total", "day"),
    ("day_total", "body"),
    ("session", "began"),
    ("session", "ended"),
    ("session", "observed"),
    ("session", "card"),
    ("session", "open"),
    ("session", "part"),
    ("card", "uuid"),
    ("card", "first_seen"),
    ("card", "parent"),
    ("collector_run", "started"),
    ("collector_run", "ended"),
    ("collector_run", "interval"),
    ("meta", "value"),
    ("outage", "began"),
    ("outage", "ended"),
    ("outage", "reason"),
    ("old_card_block", "at_us"),
    ("old_card_block", "cells"),
    ("old_card_block", "written_as"),
    ("old_run", "interval_seconds"),
    ("old_source", "first_us"),
    ("old_day", "body"),
];

/// A change of one row.
#[derive(Arbitrary, Debug)]
struct Change {
    column: u8,
    row: u8,
    cell: Cell,
}

/// A history of some hours with imported rows, made once.
static HEALTHY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let directory = directory();
    let path = directory.path().join("gua.db");
    let mut store = Store::open(&path, OpenMode::Create, &WriterOptions::default()).expect("a new history");
    let at = |second: i64| Timestamp::from_microsecond(START + second * 1_000_000).expect("a time of 2026");
    let run = NewRun {
        started: at(0),
        interval: Duration::from_secs(60),
        host: "node".to_owned(),
        version: "0".to_owned(),
        boot: None,
    };
    let run = store.begin_run(&run).expect("a run");
    for minute in 0..300 {
        let mut gpu = Gpu::without_readings("GPU-1".parse().expect("a name"), 0, Missing::Unsupported);
        gpu.util = Ok(Percent::HUNDRED);
        let sample = Sample {
            at: at(minute * 60),
            since_boot: Duration::from_secs(minute.unsigned_abs() * 60),
            boot: Err(Missing::Unsupported),
            driver: Driver { version: Ok("580".to_owned()), cuda: Err(Missing::Unsupported) },
            gpus: vec![gpu],
            problems: Vec::new(),
        };
        store.record(run, &Tick { sample, interval: Duration::from_secs(60) }).expect("a tick");
    }
    while store.maintain(at(1_000_000)).expect("maintenance").more {}
    let outage = gua_model::Outage {
        from: at(20_000),
        to: at(21_000),
        reason: gua_model::GapReason::CollectorDown,
        detail: String::new(),
        ticks_lost: 3,
    };
    store.record_outage(&outage).expect("an outage");
    store.close().expect("closed");
    let old = directory.path().join("old.db");
    Connection::open(&old)
        .expect("a database")
        .execute_batch(
            "CREATE TABLE daemon_run (id INTEGER PRIMARY KEY, started_at DATETIME NOT NULL, interval_seconds REAL NOT NULL);
             CREATE TABLE gpu_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, util_pct INTEGER NOT NULL, run_id INTEGER);
             CREATE TABLE proc_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, pid INTEGER NOT NULL, mem_used_mb INTEGER,
                 loginuid_user TEXT, run_id INTEGER);
             INSERT INTO daemon_run VALUES (1, '2026-05-11T00:00:00+00:00', 30);
             INSERT INTO gpu_sample VALUES ('2026-05-11T00:00:00+00:00', 'GPU-0', 80, 1), ('2026-05-11T00:00:30+00:00', 'GPU-0', 8, 1);
             INSERT INTO proc_sample VALUES ('2026-05-11T00:00:00+00:00', 'GPU-0', 7, 200, 'ada', 1);",
        )
        .expect("an old history");
    let mut store = Store::open(&path, OpenMode::Append, &WriterOptions::default()).expect("it is there");
    gpu_usage_audit::import(&mut store, &old, at(0), &mut |_| std::ops::ControlFlow::Continue(())).expect("imported");
    store.close().expect("closed");
    std::fs::read(&path).expect("it is there")
});

fuzz_target!(|input: (Vec<Change>, Time)| {
    let (changes, moment) = input;
    let directory = directory();
    let path = directory.path().join("gua.db");
    std::fs::write(&path, &*HEALTHY).expect("room for a file");
    let connection = Connection::open(&path).expect("a database");
    for change in changes.iter().take(8) {
        let (table, column) = COLUMNS[usize::from(change.column) % COLUMNS.len()];
        let count: i64 = connection
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
            .unwrap_or(0);
        let row = i64::from(change.row) % count.max(1);
        let key = match table {
            "meta" => "key",
            "old_card_block" => "first_row",
            "old_run" => "row",
            _ => "rowid",
        };
        let sql = format!(
            "UPDATE {table} SET {column} = ?1 WHERE {key} = (SELECT {key} FROM {table} ORDER BY {key} LIMIT 1 OFFSET {row})"
        );
        // A strict table takes no value of another type.
        let _ = connection.execute(&sql, [change.cell.value()]);
    }
    drop(connection);
    ask(&path, moment);
});

/// Asks everything that commands ask.
fn ask(path: &std::path::Path, moment: Time) {
    let Ok(history) = History::open(path) else {
        return;
    };
    let always = Period::new(Timestamp::MIN, Timestamp::MAX);
    let at = gua_model::sane::nearest(moment.micros());
    let rule = history.thresholds().unwrap_or_default();
    let other = gua_model::Thresholds { held_mb: 7, ..rule };
    let _ = history.quarters(always, rule, &mut |_, _: &[_]| {});
    let _ = history.quarters(always, other, &mut |_, _: &[_]| {});
    let _ = history.sessions(always, &mut |_: &gua_model::Session| {});
    let _ = history.tick_at(at, rule);
    let _ = history.check(|_| {});
    let _ = history.stats();
    let _ = history.info();
    let _ = history.gpu_ticks();
    let _ = history.days(jiff::civil::Date::MIN, jiff::civil::Date::MAX);
    let _ = history.imported(always, rule, &mut |_, gpus: &[GpuQuarter]| {
        for mut gpu in gpus.iter().cloned() {
            gpu.total.set_interval(Micros::from_secs(7));
        }
    });
    let _ = history.floors(at);
    let _ = history.outages(always);
    let exported = path.with_extension("exported");
    let _ = gpu_usage_audit::export(&history, &exported, gua_files::Over::Refuse, &mut |_| std::ops::ControlFlow::Continue(()));
    drop(history);
    let Ok(mut store) = Store::open(path, OpenMode::Append, &WriterOptions::default()) else {
        return;
    };
    let _ = store.maintain(at);
    let _ = store.repair();
    let _ = store.forget("ada");
}
