//! Invalid files are refused by name, never overwritten, and set aside on request.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::report::Note;
use gua_model::{Micros, Period};
use gua_query::Question;
use gua_store::{
    FileKind, History, OpenError, OpenMode, ReadError, Store, WriteError, WriterOptions, set_aside,
    what_is_this,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rusqlite::Connection;

use crate::CollectTotals as _;
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
    let sentence = "has schema 99, and this gua supports up to 4";
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

/// Times that no clock shows, in microseconds since 1970.
const ABSURD: [i64; 5] = [
    i64::MIN,
    -1,
    4_102_444_800_000_000,
    253_402_300_799_000_000,
    i64::MAX,
];

/// Everything that reports rest on.
fn answers(place: &Place) -> String {
    let history = place.history();
    let info = history.info().unwrap();
    let at = info.last_tick.unwrap();
    let rule = history.thresholds().unwrap();
    let tick = history.tick_at(at, rule).unwrap().unwrap();
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        history.totals(all()).unwrap().totals,
        crate::sessions(&history, all()).unwrap(),
        history.gpus().unwrap(),
        history.outages(all()).unwrap(),
        (info.first_tick, info.last_tick),
        history
            .last_tick_before(Timestamp::MAX)
            .unwrap()
            .map(|tick| tick.tick.sample.at),
        (tick.tick, tick.spans),
        history
            .days(jiff::civil::Date::MIN, jiff::civil::Date::MAX)
            .unwrap(),
    )
}

#[test]
fn rows_with_absurd_times_are_left_out_and_counted() {
    let place = written(100);
    let healthy = answers(&place);
    let connection = Connection::open(place.path()).unwrap();
    for (number, at) in (1_i64..).zip(ABSURD) {
        let body = "(SELECT body FROM tick WHERE at > 0 ORDER BY at LIMIT 1)";
        connection
            .execute(&format!("INSERT INTO tick VALUES (?1, 1, {body})"), [at])
            .unwrap();
        connection
            .execute(
                "INSERT INTO outage (began, ended, reason, detail, ticks_lost) VALUES (?1, ?1, 'not-stored', '', 1)",
                [at],
            )
            .unwrap();
        connection
            .execute(
                "INSERT INTO session SELECT 900 + ?2, card, parent, boot, pid, start, owner, owner_source, comm, comm_missing,
                 container, pod, job, job_user, kind, ?1, ?1, ticks, 0, 0, 0, 0, 0, 0, 0, peak, peak_missing, shared, 0, part,
                 container_name, pod_name, assigned, by_name, NULL
                 FROM session WHERE id = 1",
                [at, number],
            )
            .unwrap();
        connection
            .execute(
                "INSERT INTO quarter_total SELECT ?1, body, 0 FROM quarter_total WHERE quarter > 0 LIMIT 1",
                [at.div_euclid(900_000_000)],
            )
            .unwrap();
    }
    drop(connection);
    assert_eq!(answers(&place), healthy);
    let history = place.history();
    assert_eq!(history.absurd_ticks().unwrap(), 5);
    let report = history.check(|_| {}).unwrap();
    assert_eq!(report.ticks_damaged.len(), 5);
    assert_eq!(report.quarters_wrong.len(), 5);
    let named = |word: &str| {
        report
            .sessions_wrong
            .iter()
            .filter(|line| line.contains(word))
            .count()
    };
    assert_eq!(named("impossible"), 5);
    drop(history);
    // A writer continues the file after its last sane tick.
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    for _ in 0..100 {
        host.tick();
    }
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 100);
    drop(store);
    assert_eq!(read(&place.history(), all()).len(), 200);
}

#[test]
fn an_absurd_first_sight_is_found_and_repaired() {
    for absurd in ABSURD {
        let place = written(100);
        let healthy = answers(&place);
        let connection = Connection::open(place.path()).unwrap();
        connection
            .execute("UPDATE card SET first_seen = ?1 WHERE id = 1", [absurd])
            .unwrap();
        drop(connection);
        assert_eq!(answers(&place), healthy, "{absurd}");
        let report = place.history().check(|_| {}).unwrap();
        assert_eq!(report.first_sights_late.len(), 1, "{absurd}");
        place.store().repair().unwrap();
        assert!(
            place.history().check(|_| {}).unwrap().is_clean(),
            "{absurd}"
        );
    }
}

#[test]
fn a_file_with_views_triggers_or_other_tables_is_refused() {
    for change in [
        // A view that never ends.
        "ALTER TABLE tick RENAME TO t; CREATE VIEW tick AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
         SELECT i AS at, 1 AS run, x'' AS body FROM n",
        "CREATE TRIGGER other AFTER INSERT ON tick BEGIN DELETE FROM tick; END",
        "CREATE VIEW other AS SELECT 1",
        // Without its key, each question about a tick would read all of them.
        "ALTER TABLE tick RENAME TO t; CREATE TABLE tick AS SELECT * FROM t; DROP TABLE t",
        "DROP INDEX session_outline",
        "CREATE UNIQUE INDEX other ON tick (run, at)",
        "ALTER TABLE tick ADD COLUMN other BLOB AS (zeroblob(1000000))",
    ] {
        let place = written(10);
        let connection = Connection::open(place.path()).unwrap();
        connection.execute_batch(change).unwrap();
        drop(connection);
        let bytes = std::fs::read(place.path()).unwrap();
        for error in [
            History::open(&place.path()).unwrap_err(),
            append(&place.path()).unwrap_err(),
        ] {
            assert!(matches!(error, OpenError::Damaged { .. }), "{change}: {error:?}");
        }
        assert_eq!(std::fs::read(place.path()).unwrap(), bytes, "{change}");
    }
    // Tables of the user that have nothing to do with ours are left alone.
    let place = written(10);
    let connection = Connection::open(place.path()).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE notes (text); CREATE INDEX notes_by_text ON notes (text); ANALYZE",
        )
        .unwrap();
    drop(connection);
    assert_eq!(read(&place.history(), all()).len(), 10);
}

#[test]
fn a_tick_that_claims_years_or_a_writer_with_an_absurd_clock_is_refused() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let tick = host.tick();
    let mut late = tick.clone();
    late.sample.at = "9000-01-01T00:00:00Z".parse().unwrap();
    let mut long = tick.clone();
    long.interval = Duration::from_hours(24 * 365);
    for absurd in [late, long] {
        assert!(matches!(
            store.record(run, &absurd),
            Err(WriteError::Time(_))
        ));
    }
    store.record(run, &tick).unwrap();
}

#[test]
fn a_question_about_the_past_reads_each_unreadable_tick_once() {
    let place = written(4);
    let mut connection = Connection::open(place.path()).unwrap();
    // Two months of ticks in a form of the future. A search that starts over for each of them takes hours.
    let change = connection.transaction().unwrap();
    let last: i64 = change
        .query_row("SELECT max(at) FROM tick", [], |row| row.get(0))
        .unwrap();
    {
        let mut insert = change
            .prepare("INSERT INTO tick VALUES (?1, 1, x'6300')")
            .unwrap();
        for number in 1..=150_000_i64 {
            insert.execute([last + number * 30_000_000]).unwrap();
        }
    }
    change.commit().unwrap();
    drop(connection);
    let history = place.history();
    let at = Timestamp::from_microsecond(last + 150_001 * 30_000_000).unwrap();
    let tick = history.tick_at(at, history.thresholds().unwrap()).unwrap();
    assert_eq!(tick.unwrap().tick.sample.at.as_microsecond(), last);
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
        gpus.map(|total| total.gpu.observed.0).sum::<u64>()
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
    let healthy = place.history().totals(all()).unwrap().totals;
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
    // The ticks say the same as the damaged quarter; the deleted one is a gap until the repair.
    let found = history.totals(all()).unwrap();
    assert_eq!(found.damaged, 0);
    let mut quarters = healthy.quarters.iter();
    assert_eq!(
        quarters.next().map(|(quarter, _)| *quarter),
        Some(report.quarters_wrong[0])
    );
    assert!(quarters.eq(&found.totals.quarters));
    drop(history);
    place.store().rebuild_totals().unwrap();
    assert!(place.history().check(|_| {}).unwrap().is_clean());
}

#[test]
fn damaged_totals_whose_ticks_are_gone_are_a_gap_that_a_report_names() {
    let place = Place::new();
    let options = WriterOptions {
        keep_raw: Some(Duration::from_secs(3600)),
        ..WriterOptions::default()
    };
    let mut store = crate::open(&place.path(), &options);
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 600);
    store.close().unwrap();
    let window = Period::new(Timestamp::UNIX_EPOCH, host.now());
    let report = || {
        let question = Question::of_window(window, TimeZone::UTC, host.now());
        gua_query::report(&place.history(), &question).unwrap()
    };
    let healthy = report();
    let connection = Connection::open(place.path()).unwrap();
    connection
        .execute_batch(
            "UPDATE quarter_total SET body = x'04' WHERE quarter = 1 + (SELECT min(quarter) FROM quarter_total);
             DELETE FROM day_total",
        )
        .unwrap();
    drop(connection);
    let found = report();
    assert!(found.notes.contains(&Note::Damaged { records: 1 }));
    let covered = &found.coverage;
    assert_eq!(covered.capacity, healthy.coverage.capacity);
    assert_eq!(covered.observed + covered.gap, covered.capacity);
    assert_eq!(found.all.observed(), covered.observed);
    let gpus = u64::try_from(found.gpu_count()).unwrap();
    // A part of the quarter was a gap before: ticks are late by microseconds.
    let more = covered.gap.0 - healthy.coverage.gap.0;
    let quarter = Micros::from_secs(900 * gpus).0;
    assert!((quarter - 10_000..=quarter).contains(&more), "{more}");
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
        "UPDATE session SET util = ifnull(util, 0) + 1 WHERE id = 1",
        "INSERT INTO session SELECT 999, card, parent, boot, pid, start, owner, owner_source, comm, comm_missing, container,
         pod, job, job_user, kind, began + 1, ended, ticks, 0, 0, 0, 0, 0, 0, 0, peak, peak_missing, shared, open, part,
         container_name, pod_name, assigned, by_name, NULL FROM session WHERE id = 1",
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
