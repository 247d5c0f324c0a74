//! Output of `gua db check` and `gua db stats` about imported rows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_compat::gpu_usage_audit::OldFile;
use gua_model::report::{Note, Sums};
use gua_model::statement::Balance;
use gua_model::{GpuQuarter, Period, Quarter, RollUp, Thresholds};
use gua_query::records::Origin;
use gua_query::{Question, Records as _};
use gua_store::{History, OpenMode, Store, WriterOptions};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rusqlite::Connection;

use crate::odd::old_with;
use crate::rows::{always, import};
use gua_test::originals::RELEASES;

/// A history into which one file of a release was imported.
fn imported(version: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let golden = format!(
        "{}/tests/golden/gpu-usage-audit-{version}.db",
        env!("CARGO_MANIFEST_DIR")
    );
    let old = directory.path().join("old.db");
    std::fs::copy(golden, &old).unwrap();
    let ours = directory.path().join("gua.db");
    import(&old, &ours).unwrap();
    (directory, ours)
}

/// Changes an imported history and compares the problems that a check finds.
#[track_caller]
fn check(change: &str, expected: &[&str]) {
    let (_directory, ours) = imported("1.8.0");
    Connection::open(&ours)
        .unwrap()
        .execute_batch(change)
        .unwrap();
    let report = History::open(&ours).unwrap().check(|_| {}).unwrap();
    assert!(!report.is_clean(), "{change}");
    let found = report.old_rows_wrong.iter().chain(&report.dangling);
    let found: Vec<&str> = found.map(String::as_str).collect();
    assert_eq!(found, expected, "{change}");
}

#[test]
fn imported_rows_of_every_release_pass_the_check_and_are_counted() {
    for version in RELEASES {
        let (_directory, ours) = imported(version);
        let history = History::open(&ours).unwrap();
        let report = history.check(|_| {}).unwrap();
        assert!(report.is_clean(), "{version}: {report:?}");
        let source = &history.old_sources().unwrap()[0];
        let rows = source.gpu_rows + source.process_rows;
        assert_eq!(report.old_rows_read, rows, "{version}");
        let stats = history.stats().unwrap().imported;
        assert_eq!(
            (stats.files, stats.gpu_rows, stats.process_rows),
            (1, source.gpu_rows, source.process_rows)
        );
        assert!(stats.bytes >= 4096 * 6, "{stats:?}");
        assert_eq!(history.gpu_ticks().unwrap(), source.gpu_rows);
    }
}

#[test]
fn an_unreadable_block_is_found() {
    check(
        "UPDATE old_card_block SET cells = x'00' WHERE first_row = 1",
        &["rows 1 to 3 of gpu_sample imported from source 1 cannot be read"],
    );
    check(
        "UPDATE old_card_block SET rows = rows - 1 WHERE first_row = 1",
        &["rows 1 to 2 of gpu_sample imported from source 1 cannot be read"],
    );
    check(
        "UPDATE old_process_block SET written_as = 'noon' WHERE first_row = 1",
        &["rows 1 to 4 of proc_sample imported from source 1 have an impossible time"],
    );
}

/// Whole days around the rows of every release.
fn known() -> Period {
    Period::new(
        Timestamp::UNIX_EPOCH,
        "2027-01-01T00:00:00Z".parse().unwrap(),
    )
}

/// Hours of the imported rows, and the number of damaged records that the report names.
fn reported(path: &Path) -> (Sums, u32) {
    let history = History::open(path).unwrap();
    let window = known();
    let question = Question::of_window(window, TimeZone::UTC, window.to());
    let report = gua_query::report(&history, &question).unwrap();
    assert_eq!(Balance::of(&report).difference(), 0);
    let damaged = report.notes.iter().find_map(|note| match note {
        Note::Damaged { records } => Some(*records),
        _ => None,
    });
    (report.all, damaged.unwrap_or(0))
}

#[test]
fn damaged_totals_are_computed_from_the_rows_and_repaired() {
    let (_directory, ours) = imported("1.8.0");
    let healthy = reported(&ours);
    assert_eq!(healthy.1, 0);
    for change in [
        "UPDATE old_day SET body = x'64'; UPDATE old_quarter SET body = x'64'",
        "UPDATE old_day SET body = x'00'; UPDATE old_quarter SET body = zeroblob(100)",
    ] {
        Connection::open(&ours)
            .unwrap()
            .execute_batch(change)
            .unwrap();
        assert_eq!(reported(&ours), healthy, "{change}");
        let report = History::open(&ours).unwrap().check(|_| {}).unwrap();
        assert!(report.can_be_repaired(), "{report:?}");
        let options = WriterOptions::default();
        let mut store = Store::open(&ours, OpenMode::CreateOrAppend, &options).unwrap();
        store.repair().unwrap();
        store.close().unwrap();
        let report = History::open(&ours).unwrap().check(|_| {}).unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}

#[test]
fn totals_of_an_earlier_form_are_computed_from_the_rows_until_a_writer_converts_them() {
    let (_directory, ours) = imported("1.8.0");
    let healthy = reported(&ours);
    let earlier = "UPDATE old_quarter SET body = CAST(x'65' || substr(body, 2) AS BLOB);
        DELETE FROM old_day";
    let connection = Connection::open(&ours).unwrap();
    connection.execute_batch(earlier).unwrap();
    assert_eq!(reported(&ours), healthy);
    let options = WriterOptions::default();
    let store = Store::open(&ours, OpenMode::CreateOrAppend, &options).unwrap();
    store.close().unwrap();
    assert_eq!(reported(&ours), healthy);
    let report = History::open(&ours).unwrap().check(|_| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn another_interval_is_applied_to_the_totals_and_needs_no_rows() {
    let (_directory, ours) = imported("1.8.0");
    let hours = |interval| {
        let question = Question {
            interval,
            ..Question::of_window(known(), TimeZone::UTC, known().to())
        };
        let history = History::open(&ours).unwrap();
        let report = gua_query::report(&history, &question).unwrap();
        let classes = [RollUp::Active, RollUp::IdleHeld, RollUp::TrulyIdle];
        let hours = classes.map(|class| report.all.hours(class));
        (report.all.samples(), hours.iter().sum::<f64>())
    };
    let hour = Some(Duration::from_secs(3600));
    let (samples, by_hours) = hours(hour);
    assert_eq!(hours(None).0, samples);
    assert!(hours(None).1 < 1.0);
    assert_eq!(by_hours, f64::from(u32::try_from(samples).unwrap()));
    let connection = Connection::open(&ours).unwrap();
    let damage = "UPDATE old_card_block SET cells = x'00'";
    assert!(connection.execute(damage, []).unwrap() > 0);
    assert_eq!(hours(hour), (samples, by_hours));
}

#[test]
fn a_report_leaves_out_and_names_rows_that_cannot_be_read() {
    let (_directory, ours) = imported("1.8.0");
    let (healthy, _) = reported(&ours);
    Connection::open(&ours)
        .unwrap()
        .execute_batch(
            "UPDATE old_card_block SET cells = x'00' WHERE first_row = 1;
             UPDATE old_quarter SET body = x'00'; DELETE FROM old_day",
        )
        .unwrap();
    let (found, damaged) = reported(&ours);
    assert_eq!(damaged, 3);
    assert_eq!(found.samples() + 3, healthy.samples());
}

#[test]
fn rows_of_a_gpu_without_a_valid_name_are_left_out_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let old = old_with(
        directory.path(),
        "INSERT INTO gpu_sample VALUES ('2026-05-11T00:00:00+00:00', 'GPU-0', 80, NULL), ('2026-05-11T00:00:30+00:00', ' ', 80, NULL);
         INSERT INTO proc_sample VALUES ('2026-05-11T00:00:30+00:00', ' ', 7, 200, 'ada', NULL);",
    );
    let ours = directory.path().join("ours.db");
    import(&old, &ours).unwrap();
    let (found, damaged) = reported(&ours);
    assert_eq!((found.samples(), damaged), (1, 1));
    let records = OldFile::open(&old).unwrap();
    let count = &mut |_: Quarter, _: &[GpuQuarter]| {};
    let left_out = records.totals(Origin::Imported, always(), Thresholds::default(), count);
    assert_eq!(left_out.unwrap().damaged, 1);
    let report = History::open(&ours).unwrap().check(|_| {}).unwrap();
    assert!(
        report.old_rows_wrong[0].ends_with("have a GPU without a valid name"),
        "{report:?}"
    );
}

#[test]
fn rows_with_a_missing_text_are_left_out_and_never_given_to_another_user() {
    let (_directory, ours) = imported("1.8.0");
    let owners = |path: &Path| {
        let mut names = BTreeSet::new();
        let mut add = |_: Quarter, gpus: &[GpuQuarter]| {
            for gpu in gpus {
                let shown = gpu
                    .total
                    .owners
                    .keys()
                    .map(|owner| owner.shown().into_owned());
                names.extend(shown.map(|owner| (gpu.gpu.to_string(), owner)));
            }
        };
        let history = History::open(path).unwrap();
        // Thresholds other than those of the file are applied to the rows.
        let other = Thresholds {
            held_mb: 7,
            ..Thresholds::default()
        };
        let left_out = history.imported(always(), other, &mut add);
        (names, left_out.unwrap().damaged)
    };
    let (healthy, _) = owners(&ours);
    let connection = Connection::open(&ours).unwrap();
    let texts: i64 = connection
        .query_row("SELECT count(*) FROM old_text", [], |row| row.get(0))
        .unwrap();
    for id in (1..texts).rev() {
        connection
            .execute("DELETE FROM old_text WHERE id = ?1", [id])
            .unwrap();
        connection
            .execute(
                "INSERT OR IGNORE INTO old_text VALUES (?1 + 1, 'other')",
                [id],
            )
            .unwrap();
        let (found, damaged) = owners(&ours);
        assert!(found.is_subset(&healthy), "{id}: {found:?}");
        assert!(damaged > 0, "{id}");
    }
}

#[test]
fn missing_and_duplicate_rows_are_found() {
    check(
        "DELETE FROM old_card_block WHERE first_row = 19",
        &["gpu_sample imported from source 1 ends at row 18, and 21 was the last"],
    );
    check(
        "INSERT INTO old_card_block SELECT source, at_us + 1, first_row, run, written_as, rows, cells
         FROM old_card_block WHERE first_row = 4",
        &["rows 4 to 6 of gpu_sample imported from source 1 are there twice"],
    );
}

#[test]
fn missing_texts_runs_and_sources_are_found() {
    let (_directory, ours) = imported("1.8.0");
    let texts: i64 = Connection::open(&ours)
        .unwrap()
        .query_row("SELECT count(*) FROM old_text", [], |row| row.get(0))
        .unwrap();
    let missing = format!("1 of {texts} texts of imported rows are missing");
    let change = "DELETE FROM old_text WHERE id = 1";
    let (_directory, ours) = imported("1.8.0");
    Connection::open(&ours)
        .unwrap()
        .execute_batch(change)
        .unwrap();
    let report = History::open(&ours).unwrap().check(|_| {}).unwrap();
    assert!(report.old_rows_wrong.contains(&missing), "{report:?}");

    let (_directory, ours) = imported("1.8.0");
    Connection::open(&ours)
        .unwrap()
        .execute_batch("DELETE FROM old_run")
        .unwrap();
    let report = History::open(&ours).unwrap().check(|_| {}).unwrap();
    assert!(
        report.old_rows_wrong[0].ends_with("refer to a missing run"),
        "{report:?}"
    );

    let (_directory, ours) = imported("1.8.0");
    Connection::open(&ours)
        .unwrap()
        .execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM old_source")
        .unwrap();
    let report = History::open(&ours).unwrap().check(|_| {}).unwrap();
    assert!(
        report
            .dangling
            .iter()
            .any(|what| what.contains("old_card_block")),
        "{report:?}"
    );
}
