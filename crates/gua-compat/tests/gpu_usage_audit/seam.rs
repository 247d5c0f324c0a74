//! The seam between imported rows and our own ticks: no time counts twice, and none is lost.

use std::time::Duration;

use gua_model::report::{Note, Report};
use gua_model::statement::Balance;
use gua_model::{Micros, Period};
use gua_query::Question;
use gua_store::{History, WriterOptions};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::odd::old_with;
use crate::own::write_ticks;
use crate::rows::import;

fn at(time: &str) -> Timestamp {
    format!("2026-11-14T{time}Z").parse().unwrap()
}

/// A row every 30 seconds from ten o'clock to twenty past twelve, and ticks of our own from each of the given times on.
fn report(own: &[(Timestamp, u32)]) -> Report {
    let directory = tempfile::tempdir().unwrap();
    let ours = directory.path().join("ours.db");
    for (first, ticks) in own {
        let every = Duration::from_secs(30);
        write_ticks(&ours, *first, (*ticks, every), &WriterOptions::default());
    }
    let old = old_with(
        directory.path(),
        "INSERT INTO daemon_run VALUES (1, '2026-11-14T10:00:00+00:00', 30.0);
         WITH RECURSIVE number (n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM number WHERE n < 279)
         INSERT INTO gpu_sample SELECT strftime('%Y-%m-%dT%H:%M:%S+00:00', '2026-11-14 10:00:00', (n * 30) || ' seconds'),
             'GPU-0', 80, 1 FROM number;",
    );
    import(&old, &ours).unwrap();
    let window = Period::new(at("10:00:00"), at("12:30:00"));
    let question = Question {
        gpus: vec!["GPU-0".to_owned()],
        ..Question::of_window(window, TimeZone::UTC, window.to())
    };
    gua_query::report(&History::open(&ours).unwrap(), &question).unwrap()
}

#[track_caller]
fn check(own: &[(Timestamp, u32)], imported: u64, gap: u64, left_out: u64) {
    let report = report(own);
    let covered = &report.coverage;
    assert_eq!(report.all.imported, Micros::from_secs(imported));
    assert_eq!(covered.capacity, Micros::from_secs(9000));
    assert_eq!(covered.gap, Micros::from_secs(gap));
    assert_eq!(covered.observed + covered.gap, covered.capacity);
    assert_eq!(Balance::of(&report).difference(), 0);
    let noted = Note::OldLeftOut { ticks: left_out };
    assert!(report.notes.contains(&noted), "{:?}", report.notes);
}

#[test]
fn the_last_imported_row_ends_where_our_own_ticks_begin() {
    // The row of ten past twelve covers ten seconds; nineteen and a half minutes of rows are ours.
    check(&[(at("12:10:10"), 40)], 7810, 0, 19);
    check(&[(at("12:10:00"), 40)], 7800, 0, 20);
    // Where a quarter hour begins, and just after it.
    check(&[(at("12:15:00"), 30)], 8100, 0, 10);
    check(&[(at("12:15:01"), 30)], 8101, 0, 9);
}

#[test]
fn a_tick_with_a_clock_years_behind_hides_no_imported_row() {
    let stray = "2001-02-03T04:05:06Z".parse().unwrap();
    check(&[(stray, 1), (at("12:10:10"), 40)], 7810, 0, 19);
}

#[test]
fn rows_in_a_gap_of_our_own_ticks_count() {
    // Our ticks cover 9:00 to 11:00 and 12:00 to 12:10. Rows count from 11:00 to 12:00 and from 12:10 to 12:20, where they end.
    let early = "2026-11-14T09:00:00Z".parse().unwrap();
    check(&[(early, 240), (at("12:00:00"), 20)], 3600 + 600, 600, 140);
}
