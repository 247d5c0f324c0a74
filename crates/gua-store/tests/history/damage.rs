//! Invalid files are refused by name, never overwritten, and set aside on request.

use std::path::{Path, PathBuf};

use gua_model::Period;
use gua_store::{
    FileKind, History, OpenError, OpenMode, ReadError, Store, WriterOptions, set_aside,
    what_is_this,
};
use jiff::Timestamp;
use rusqlite::Connection;

use crate::{Place, all, begin, read, record};
use gua_test::synthetic::SyntheticHost;

/// A closed history with some ticks.
fn written(ticks: usize) -> Place {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, ticks);
    store.close().unwrap();
    place
}

fn append(path: &Path) -> Result<Store, OpenError> {
    Store::open(path, OpenMode::CreateOrAppend, &WriterOptions::default())
}

#[test]
fn each_kind_of_path_is_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("empty"), "").unwrap();
    std::fs::write(path("text"), "SQLite format 3? No.".repeat(20)).unwrap();
    std::fs::write(path("short"), "SQLite format 3\0").unwrap();
    let database = |name: &str, sql: &str| {
        Connection::open(path(name))
            .unwrap()
            .execute_batch(sql)
            .unwrap();
    };
    database("other", "CREATE TABLE things (id)");
    database(
        "old",
        "PRAGMA journal_mode=WAL; CREATE TABLE gpu_sample (ts); CREATE TABLE daemon_run (id)",
    );
    database("bare", "PRAGMA journal_mode=WAL");
    database(
        "newer",
        "PRAGMA application_id=1735745841; PRAGMA user_version=99; CREATE TABLE x (y)",
    );
    let before = list(directory.path());
    for (name, kind) in [
        ("missing", FileKind::Missing),
        ("empty", FileKind::Empty),
        ("bare", FileKind::Empty),
        ("text", FileKind::NotSqlite),
        ("short", FileKind::NotSqlite),
        ("other", FileKind::OtherSqlite),
        ("old", FileKind::GpuUsageAudit),
        ("newer", FileKind::NewerHistory { version: 99 }),
        (".", FileKind::Directory),
    ] {
        assert_eq!(what_is_this(&path(name)), kind, "{name}");
    }
    assert_eq!(list(directory.path()), before);
    for name in ["text", "short", "other", "old", "newer", "."] {
        let bytes = std::fs::read(path(name)).ok();
        assert!(append(&path(name)).is_err(), "{name}");
        assert!(History::open(&path(name)).is_err(), "{name}");
        assert_eq!(std::fs::read(path(name)).ok(), bytes, "{name}");
    }
}

#[test]
fn a_foreign_file_with_all_data_in_its_journal_is_not_taken_for_empty() {
    let directory = tempfile::tempdir().unwrap();
    for (name, table, kind) in [
        ("old", "gpu_sample", FileKind::GpuUsageAudit),
        ("other", "things", FileKind::OtherSqlite),
    ] {
        let alive = directory.path().join("alive");
        let connection = Connection::open(&alive).unwrap();
        let sql = format!("PRAGMA journal_mode=WAL; CREATE TABLE {table} (ts)");
        connection.execute_batch(&sql).unwrap();
        let path = directory.path().join(name);
        std::fs::copy(&alive, &path).unwrap();
        let journal = |path: &Path| PathBuf::from(format!("{}-wal", path.display()));
        std::fs::copy(journal(&alive), journal(&path)).unwrap();
        assert_eq!(what_is_this(&path), kind);
        let bytes = std::fs::read(&path).unwrap();
        assert!(append(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        drop(connection);
        std::fs::remove_file(&alive).unwrap();
    }
}

fn list(directory: &Path) -> Vec<(String, u64)> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(Result::unwrap)
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, entry.metadata().unwrap().len())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_newer_file_is_refused_with_both_versions() {
    let place = written(3);
    let connection = Connection::open(place.path()).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let sentence = "has schema 99, and this gua knows up to 2";
    for error in [
        append(&place.path()).unwrap_err(),
        History::open(&place.path()).unwrap_err(),
    ] {
        assert!(matches!(error, OpenError::TooNew { found: 99, .. }));
        assert!(error.to_string().contains(sentence), "{error}");
    }
}

#[test]
fn a_damaged_tick_costs_at_most_its_quarter_hour_and_is_reported() {
    let place = written(100);
    let connection = Connection::open(place.path()).unwrap();
    connection
        .execute_batch(
            "UPDATE tick SET body = CAST(substr(body, 1, length(body) - 1) || x'00' AS BLOB)
             WHERE at = (SELECT at FROM tick ORDER BY at LIMIT 1 OFFSET 40)",
        )
        .unwrap();
    drop(connection);
    let history = place.history();
    let ticks = read(&history, all());
    assert_eq!(ticks.len(), 100);
    let damaged = ticks.iter().filter(|tick| tick.is_err()).count();
    assert!((1..=30).contains(&damaged), "{damaged}");
    assert!(matches!(ticks[40], Err(ReadError::Tick { .. })));
    assert!(ticks[39].is_ok() && ticks[99].is_ok());
    let report = history.check(|_| {}).unwrap();
    assert_eq!(report.ticks_damaged.len(), damaged);
    assert!(!report.is_clean());
}

#[test]
fn a_damaged_tick_after_a_window_does_not_shorten_the_window() {
    let place = written(100);
    let ticks: Vec<_> = read(&place.history(), all())
        .into_iter()
        .map(|tick| tick.unwrap().sample.at)
        .collect();
    let window = Period::new(ticks[35], ticks[40]);
    // Energy and the driver's histogram came with the damaged tick and are lost; the time is not.
    let observed = |place: &Place| {
        let totals = place.history().totals(window).unwrap().totals;
        let gpus = totals.quarters.values().flat_map(|gpus| gpus.values());
        gpus.map(|total| total.card.observed.0).sum::<u64>()
    };
    let whole = observed(&place);
    assert!(whole > 0);
    let connection = Connection::open(place.path()).unwrap();
    let changed = connection.execute(
        "UPDATE tick SET body = CAST(substr(body, 1, length(body) - 1) || x'00' AS BLOB) WHERE at = ?1",
        [ticks[40].as_microsecond()],
    );
    assert_eq!(changed.unwrap(), 1);
    drop(connection);
    assert_eq!(observed(&place), whole);
}

#[test]
fn inconsistent_totals_are_found_and_repaired() {
    let place = written(100);
    let connection = Connection::open(place.path()).unwrap();
    connection
        .execute_batch(
            "UPDATE quarter_total SET body = CAST(substr(body, 1, length(body) - 1) || x'00' AS BLOB)
             WHERE quarter = (SELECT max(quarter) FROM quarter_total);
             DELETE FROM quarter_total WHERE quarter = (SELECT min(quarter) FROM quarter_total)",
        )
        .unwrap();
    drop(connection);
    let history = place.history();
    let report = history.check(|_| {}).unwrap();
    assert_eq!(report.quarters_wrong.len(), 2);
    assert!(report.file.is_empty());
    let damaged = report.quarters_wrong[1].period();
    let Err(ReadError::Totals { from, .. }) = history.totals(all()) else {
        panic!("a damaged quarter must not pass for a number");
    };
    assert_eq!(from, damaged.from());
    drop(history);
    place.store().rebuild_totals().unwrap();
    assert!(place.history().check(|_| {}).unwrap().is_clean());
}

#[test]
fn a_file_with_torn_pages_is_refused_and_can_be_set_aside() {
    let place = written(200);
    // The previous writer was killed, so the next one checks the file.
    let connection = Connection::open(place.path()).unwrap();
    connection
        .execute_batch(
            "UPDATE meta SET value = 0 WHERE key = 'clean'; PRAGMA wal_checkpoint(TRUNCATE)",
        )
        .unwrap();
    drop(connection);
    let mut bytes = std::fs::read(place.path()).unwrap();
    for page in (8..bytes.len() / 4096).step_by(2) {
        bytes[page * 4096..page * 4096 + 300].fill(0xa5);
    }
    std::fs::write(place.path(), &bytes).unwrap();
    let error = append(&place.path()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    assert_eq!(std::fs::read(place.path()).unwrap(), bytes);

    let now: Timestamp = "2026-11-15T22:45:00Z".parse().unwrap();
    let aside = set_aside(&place.path(), now).unwrap();
    assert!(
        aside
            .to_string_lossy()
            .ends_with("gua.db.damaged-20261115-224500")
    );
    assert_eq!(std::fs::read(&aside).unwrap(), bytes);
    drop(append(&place.path()).unwrap());
    // A second one in the same second gets its own name.
    let second = set_aside(&place.path(), now).unwrap();
    assert_ne!(second, aside);
    assert_eq!(std::fs::read(&aside).unwrap(), bytes);
}

#[test]
fn impossible_sessions_are_found() {
    for change in [
        "UPDATE session SET observed = ended - began + 1 WHERE id = 1",
        "INSERT INTO session SELECT 999, card, parent, boot, pid, start, owner, owner_source, comm, comm_missing, container,
         pod, job, job_user, kind, began + 1, ended, ticks, 0, 0, 0, 0, 0, 0, 0, peak, peak_missing, shared, open, part
         FROM session WHERE id = 1",
    ] {
        let place = written(300);
        assert!(place.history().check(|_| {}).unwrap().is_clean());
        let connection = Connection::open(place.path()).unwrap();
        connection.execute_batch(change).unwrap();
        drop(connection);
        let report = place.history().check(|_| {}).unwrap();
        assert_eq!(report.sessions_wrong.len(), 1, "{change}: {report:?}");
        assert!(!report.is_clean());
    }
}

#[test]
fn a_damaged_file_that_was_closed_cleanly_is_refused_and_left_alone() {
    let place = written(600);
    let whole = std::fs::read(place.path()).unwrap();
    for first in 1..=5 {
        let mut bytes = whole.clone();
        for page in (first..bytes.len() / 4096).step_by(5) {
            bytes[page * 4096..page * 4096 + 300].fill(0xa5);
        }
        std::fs::write(place.path(), &bytes).unwrap();
        let error = append(&place.path()).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
        assert_eq!(std::fs::read(place.path()).unwrap(), bytes);
    }
    std::fs::write(place.path(), &whole).unwrap();
    drop(append(&place.path()).unwrap());
}
