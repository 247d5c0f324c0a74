//! Rows that no single collector writes in one go, but that files contain: duplicates, two collectors, clocks set back.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_compat::gpu_usage_audit::{LegacyError, OldFile};
use gua_model::Period;
use gua_store::{OpenMode, Store, WriterOptions};
use jiff::Timestamp;
use proptest::prelude::*;
use rusqlite::Connection;

use crate::own::write_ticks;
use crate::rows::{
    always, assert_same_rows, classes, dump, export, import, totals_imported, totals_in_place,
};
use gua_test::old_history::{self, Shape};

/// An empty history in the schema of 1.0.3, filled by `sql`.
pub(crate) fn old_with(directory: &Path, sql: &str) -> PathBuf {
    let path = directory.join("old.db");
    let connection = Connection::open(&path).unwrap();
    let tables = "PRAGMA journal_mode = WAL;
        CREATE TABLE host (hostname TEXT NOT NULL, env_kind TEXT NOT NULL, driver_version TEXT,
            first_seen DATETIME NOT NULL, last_seen DATETIME NOT NULL);
        CREATE TABLE daemon_run (id INTEGER PRIMARY KEY AUTOINCREMENT, started_at DATETIME NOT NULL,
            interval_seconds REAL NOT NULL);
        CREATE TABLE gpu_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, util_pct INTEGER NOT NULL, run_id INTEGER);
        CREATE TABLE proc_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, pid INTEGER NOT NULL,
            mem_used_mb INTEGER NOT NULL, loginuid_user TEXT, run_id INTEGER);
        CREATE INDEX idx_gpu_sample_uuid_ts ON gpu_sample(gpu_uuid, ts);
        CREATE INDEX idx_proc_sample_uuid_ts ON proc_sample(gpu_uuid, ts);
        INSERT INTO host VALUES ('h', 'bare', NULL, '2026-05-11T00:00:00+00:00', '2026-05-11T00:00:30+00:00');";
    connection.execute_batch(tables).unwrap();
    connection.execute_batch(sql).unwrap();
    path
}

/// Checks that the rows survive a round trip and count the same in place and imported; returns the counts by class.
fn check(sql: &str) -> [u64; 3] {
    let directory = tempfile::tempdir().unwrap();
    let old = old_with(directory.path(), sql);
    let ours = directory.path().join("ours.db");
    import(&old, &ours).unwrap();
    assert_same_rows(&old, &export(&ours, "exported.db"));
    let imported = totals_imported(&ours, always());
    assert_eq!(totals_in_place(&old, always()), imported, "{sql}");
    classes(&imported)
}

#[test]
fn a_file_whose_table_is_a_view_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("old.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE VIEW gpu_sample AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
             SELECT '2026-05-11T00:00:00+00:00' AS ts, 'GPU-' || i AS gpu_uuid, 0 AS util_pct FROM n;
             CREATE TABLE proc_sample (ts, gpu_uuid, pid, mem_used_mb, loginuid_user);",
        )
        .unwrap();
    drop(connection);
    assert!(OldFile::open(&path).and_then(|file| file.facts()).is_err());
}

#[test]
fn rows_with_absurd_times_or_intervals_are_left_out_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let old = old_with(
        directory.path(),
        "INSERT INTO daemon_run VALUES (1, '2026-05-11T00:00:00+00:00', 30), (2, '2026-05-11T00:00:00+00:00', 1e18);
         INSERT INTO gpu_sample VALUES ('0001-01-01T00:00:00+00:00', 'GPU-0', 80, 1), ('2026-05-11T00:00:00+00:00', 'GPU-0', 80, 1),
             ('9998-12-31T00:00:00+00:00', 'GPU-0', 80, 1), ('2026-05-11T00:00:00+00:00', 'GPU-1', 80, 2),
             ('2100-01-01T00:00:00+00:00', 'GPU-0', 80, 1);
         INSERT INTO proc_sample VALUES ('9998-12-31T00:00:00+00:00', 'GPU-0', 7, 200, 'ada', NULL);",
    );
    let ours = directory.path().join("ours.db");
    assert_eq!(import(&old, &ours).unwrap().skipped_rows, 4);
    let imported = totals_imported(&ours, always());
    assert_eq!(totals_in_place(&old, always()), imported);
    assert_eq!(classes(&imported), [2, 0, 0]);
    let facts = OldFile::open(&old).unwrap().facts().unwrap();
    assert_eq!(facts.damaged, 3);
    let hour = |facts: &gua_query::records::ImportedFacts| (facts.began, facts.ended);
    let first: Timestamp = "2026-05-11T00:00:00Z".parse().unwrap();
    assert_eq!(hour(&facts), (Some(first), Some(first)));
}

#[test]
fn imported_rows_with_absurd_times_are_left_out_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let old = old_with(
        directory.path(),
        "INSERT INTO gpu_sample VALUES ('2026-05-11T00:00:00+00:00', 'GPU-0', 80, NULL);",
    );
    let ours = directory.path().join("ours.db");
    import(&old, &ours).unwrap();
    let healthy = totals_imported(&ours, always());
    let connection = Connection::open(&ours).unwrap();
    for absurd in [i64::MIN, -1, 4_102_444_800_000_000, i64::MAX] {
        connection
            .execute(
                "INSERT INTO old_card_block SELECT source, ?1, first_row, run, NULL, rows, cells FROM old_card_block
                 WHERE at_us BETWEEN 1 AND 2000000000000000",
                [absurd],
            )
            .unwrap();
    }
    drop(connection);
    assert_eq!(totals_imported(&ours, always()), healthy);
    let history = gua_store::History::open(&ours).unwrap();
    assert_eq!(history.imported_facts().unwrap().unwrap().damaged, 4);
    let found = history.check(|_| {}).unwrap().old_rows_wrong;
    assert!(
        found.iter().any(|line| line.contains("an impossible time")),
        "{found:?}"
    );
    drop(history);
    // The writer of old files left them out too.
    export(&ours, "exported.db");
}

#[test]
fn runs_with_absurd_numbers_are_exported() {
    let directory = tempfile::tempdir().unwrap();
    let old = old_with(
        directory.path(),
        "INSERT INTO daemon_run VALUES (1, '2026-05-11T00:00:00+00:00', 30.0);
         INSERT INTO gpu_sample VALUES ('2026-05-11T00:00:00+00:00', 'GPU-0', 80, 1);",
    );
    let ours = directory.path().join("ours.db");
    let first = "2026-05-12T00:00:00Z".parse().unwrap();
    let ticks = (2, Duration::from_secs(30));
    write_ticks(&ours, first, ticks, &WriterOptions::default());
    import(&old, &ours).unwrap();
    let connection = Connection::open(&ours).unwrap();
    for (name, sql) in [
        (
            "ticks.db",
            "PRAGMA foreign_keys = OFF; UPDATE collector_run SET id = 9223372036854775807; UPDATE tick SET run = 9223372036854775807",
        ),
        (
            "rows.db",
            "UPDATE old_card_block SET run = 9223372036854775807",
        ),
    ] {
        connection.execute_batch(sql).unwrap();
        let exported = export(&ours, name);
        assert_eq!(dump(&exported, "gpu_sample").len(), 1 + 2 * 2, "{sql}");
    }
}

#[test]
fn duplicates_are_kept_and_count_as_one_gpu_tick() {
    let counted = check(
        "INSERT INTO gpu_sample VALUES ('2026-05-11T00:00:00+00:00', 'GPU-0', 80, NULL),
             ('2026-05-11T00:00:00+00:00', 'GPU-0', 80, NULL), ('2026-05-11T00:00:00+00:00', 'GPU-0', 80, 1);
         INSERT INTO proc_sample VALUES ('2026-05-11T00:00:00+00:00', 'GPU-0', 7, 200, 'ada', NULL),
             ('2026-05-11T00:00:00+00:00', 'GPU-0', 7, 200, 'ada', NULL);",
    );
    assert_eq!(counted, [2, 0, 0]);
}

#[test]
fn processes_belong_to_the_gpu_row_of_their_run() {
    let counted = check(
        "INSERT INTO daemon_run VALUES (3, '2026-05-11T00:00:00+00:00', 0.5), (7, '2026-05-11T00:00:00+00:00', 60);
         INSERT INTO gpu_sample VALUES ('2026-05-11T00:00:00.000001+00:00', 'GPU-0', 0, 3),
             ('2026-05-11T00:00:00.000001+00:00', 'GPU-0', 0, 7), ('2026-05-11T00:00:00.000001+00:00', 'GPU-0', 0, NULL);
         INSERT INTO proc_sample VALUES ('2026-05-11T00:00:00.000001+00:00', 'GPU-0', 7, 200, 'ada', 7),
             ('2026-05-11T00:00:00.000001+00:00', 'GPU-9', 7, 200, 'ada', 7);",
    );
    assert_eq!(counted, [0, 1, 2]);
}

#[test]
fn a_clock_that_was_set_back_changes_no_count() {
    let counted = check(
        "INSERT INTO gpu_sample VALUES ('2026-05-11T00:01:00+00:00', 'GPU-0', 80, 1), ('2026-05-11T00:01:30+00:00', 'GPU-0', 0, 1),
             ('2026-05-11T00:01:00+00:00', 'GPU-1', 0, 1), ('2026-05-11T00:00:30.5+00:00', 'GPU-0', 80, 1);
         INSERT INTO proc_sample VALUES ('2026-05-11T00:01:30+00:00', 'GPU-0', 7, 101, NULL, 1),
             ('2026-05-11T00:01:00+00:00', 'GPU-1', 7, 101, NULL, 1);",
    );
    assert_eq!(counted, [2, 2, 0]);
}

#[test]
fn row_numbers_with_holes_are_preserved() {
    check(
        "INSERT INTO gpu_sample (rowid, ts, gpu_uuid, util_pct) VALUES (-5, '2026-05-11T00:00:00+00:00', 'GPU-0', 1),
             (10, '2026-05-11T00:00:00+00:00', 'GPU-1', 1), (12, '2026-05-11T00:00:00+00:00', 'GPU-2', 1),
             (9000000000, '2026-05-11T00:00:30+00:00', 'GPU-0', -1);",
    );
}

#[test]
fn an_invalid_row_is_named_and_nothing_is_invented() {
    let check = |sql: &str, expected: &str| {
        let directory = tempfile::tempdir().unwrap();
        let old = old_with(directory.path(), sql);
        let error = import(&old, &directory.path().join("ours.db"))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(
        "INSERT INTO gpu_sample VALUES ('2026-05-11T00:00:00+00:00', 'GPU-0', 'much', NULL)",
        "row 1 of table gpu_sample: column util_pct holds text",
    );
    check(
        "INSERT INTO gpu_sample VALUES ('yesterday', 'GPU-0', 1, NULL)",
        "`yesterday` is not a time",
    );
    check(
        "INSERT INTO gpu_sample VALUES (17, 'GPU-0', 1, NULL)",
        "column ts holds a number",
    );
    check(
        "ALTER TABLE gpu_sample ADD COLUMN fan_pct INTEGER",
        "newer gpu-usage-audit",
    );
}

const SMALL: Shape = Shape {
    gpus: 3,
    ticks: 400,
    interval_seconds: 30,
    process_rows: 1_700,
};

fn end() -> Timestamp {
    "2026-11-01T00:00:00Z".parse().unwrap()
}

#[test]
fn rows_that_changed_after_their_import_are_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let (old, ours) = (
        directory.path().join("old.db"),
        directory.path().join("ours.db"),
    );
    old_history::write(&old, &SMALL, end()).unwrap();
    import(&old, &ours).unwrap();
    let change = |sql: &str| Connection::open(&old).unwrap().execute_batch(sql).unwrap();
    change("UPDATE gpu_sample SET util_pct = util_pct + 1 WHERE rowid = 700");
    let changed = import(&old, &ours).unwrap_err();
    assert!(
        matches!(
            changed,
            LegacyError::Differs {
                table: "gpu_sample",
                row: 700..
            }
        ) || changed.to_string().contains("69"),
        "{changed}"
    );
    change("UPDATE gpu_sample SET util_pct = util_pct - 1 WHERE rowid = 700");
    import(&old, &ours).unwrap();
    change("DELETE FROM proc_sample WHERE rowid = (SELECT max(rowid) FROM proc_sample)");
    assert!(matches!(
        import(&old, &ours),
        Err(LegacyError::Unverified(_) | LegacyError::Differs { .. })
    ));
}

#[test]
fn an_interrupted_import_continues_where_it_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let (old, ours) = (
        directory.path().join("old.db"),
        directory.path().join("ours.db"),
    );
    let shape = Shape {
        gpus: 12,
        ticks: 5_000,
        interval_seconds: 30,
        process_rows: 86_000,
    };
    old_history::write(&old, &shape, end()).unwrap();
    let mut rounds = 0;
    let new_rows = loop {
        rounds += 1;
        let mut store =
            Store::open(&ours, OpenMode::CreateOrAppend, &WriterOptions::default()).unwrap();
        let mut asked = 0;
        let imported = gua_compat::gpu_usage_audit::import(
            &mut store,
            &old,
            Timestamp::UNIX_EPOCH,
            &mut |progress| {
                asked += 1;
                assert!(progress.rows_done <= progress.rows_total);
                // Dropped without being closed, as by a crash: one chunk further in each round.
                if asked > rounds {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        );
        match imported {
            Err(LegacyError::Stopped) => assert!(rounds < 20),
            other => break other.unwrap(),
        }
    };
    assert!(rounds > 2, "{rounds}");
    assert!(new_rows.new_process_rows < shape.process_rows);
    assert_same_rows(&old, &export(&ours, "exported.db"));
}

#[test]
fn a_small_part_of_a_file_counts_the_same_by_index_by_scan_and_imported() {
    let directory = tempfile::tempdir().unwrap();
    let (old, ours) = (
        directory.path().join("old.db"),
        directory.path().join("ours.db"),
    );
    old_history::write(&old, &SMALL, end()).unwrap();
    import(&old, &ours).unwrap();
    let without_index = directory.path().join("without.db");
    std::fs::copy(&old, &without_index).unwrap();
    Connection::open(&without_index)
        .unwrap()
        .execute_batch("DROP INDEX idx_gpu_sample_uuid_ts; DROP INDEX idx_proc_sample_uuid_ts")
        .unwrap();
    for minutes in [0, 1, 7, 15, 40, 100, 200, 5000] {
        let window = Period::new(end() - jiff::SignedDuration::from_mins(minutes), end());
        let by_index = totals_in_place(&old, window);
        assert_eq!(
            by_index,
            totals_in_place(&without_index, window),
            "{minutes}"
        );
        assert_eq!(by_index, totals_imported(&ours, window), "{minutes}");
        let ticks = classes(&by_index).iter().sum::<u64>();
        assert_eq!(
            ticks,
            (minutes.unsigned_abs() * 2 * 3).min(1200),
            "{minutes}"
        );
    }
}

#[test]
fn a_generated_month_has_the_declared_rows() {
    let directory = tempfile::tempdir().unwrap();
    let old = directory.path().join("old.db");
    old_history::write(&old, &SMALL, end()).unwrap();
    let imported = import(&old, &directory.path().join("ours.db")).unwrap();
    assert_eq!(
        (imported.new_gpu_rows, imported.new_process_rows),
        (1_200, 1_700)
    );
    assert_eq!(old_history::MONTH.gpu_rows(), 1_036_800);
    assert!(OldFile::open(&old).is_ok());
}

fn any_rows() -> impl Strategy<Value = String> {
    let run = prop::option::of(1..3_i64)
        .prop_map(|run| run.map_or("NULL".to_owned(), |run| run.to_string()));
    let row = (
        0..6_i64,
        0..3_u8,
        0..20_i64,
        run,
        prop::option::of(0..300_i64),
    );
    prop::collection::vec(row, 0..40).prop_map(|rows| {
        let mut sql = "INSERT INTO daemon_run VALUES (1, '2026-05-11T00:00:00+00:00', 12.5);".to_owned();
        for (second, gpu, util, run, memory) in rows {
            let time = gua_compat::gpu_usage_audit::old_text(Timestamp::from_microsecond(1_780_000_000_000_000 + second * 1_500_000).unwrap());
            match memory {
                None => sql.push_str(&format!("INSERT INTO gpu_sample VALUES ('{time}', 'GPU-{gpu}', {util}, {run});")),
                Some(memory) => sql.push_str(&format!(
                    "INSERT INTO proc_sample VALUES ('{time}', 'GPU-{gpu}', {util}, {memory}, 'u{}', {run});",
                    util % 3
                )),
            }
        }
        sql
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_order_of_rows_survives_and_counts_the_same(sql in any_rows()) {
        check(&sql);
    }
}
