//! gpu_stats CSV days next to our own ticks: no time counts twice, whether raw ticks or only their totals are kept.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use gua_compat::gpu_stats::{Again, StatsDay, StatsImported, StatsInterval, StatsRow};
use gua_compat::gpu_usage_audit::LegacyError;
use gua_store::{History, OpenMode, Store, WriterOptions};
use jiff::{SignedDuration, Timestamp};

use crate::own::write_ticks;
use crate::rows::always;

const FIRST: &str = "2026-11-14T10:00:00Z";
const SAMPLE_INTERVAL: Duration = Duration::from_secs(300);

fn first() -> Timestamp {
    FIRST.parse().unwrap()
}

/// A day with a sample every five minutes, between two offsets in minutes from the first tick.
fn day(from: i64, to: i64) -> StatsDay {
    let minutes = (from..to).step_by(5);
    let row = |minute| StatsRow {
        at: first() + SignedDuration::from_mins(minute),
        user: "eve".to_owned(),
        pid: 9,
        gpu: 0,
        usage: 50,
    };
    StatsDay {
        path: "20261114_gpu_stats.csv".into(),
        date: jiff::civil::date(2026, 11, 14),
        interval: StatsInterval::Usual(SAMPLE_INTERVAL),
        rows: minutes.map(row).collect(),
    }
}

fn import(path: &Path, day: &StatsDay, again: Again) -> Result<StatsImported, LegacyError> {
    Ok(try_import(path, day, again)?.expect("the day has rows"))
}

fn try_import(
    path: &Path,
    day: &StatsDay,
    again: Again,
) -> Result<Option<StatsImported>, LegacyError> {
    let options = WriterOptions::default();
    let mut store = Store::open(path, OpenMode::Append, &options).unwrap();
    let now = first() + SignedDuration::from_hours(100);
    let imported = gua_compat::gpu_stats::import_day(&mut store, day, again, now, &mut |_| {
        ControlFlow::Continue(())
    });
    store.close().unwrap();
    imported
}

/// Offsets in minutes from the first tick that imported rows cover.
fn minutes(path: &Path) -> Vec<i64> {
    let mut found = Vec::new();
    let history = History::open(path).unwrap();
    let mut take = |at: Timestamp| found.push(at.duration_since(first()).as_mins());
    history
        .imported_moments(always(), &mut |moment| take(moment.at))
        .unwrap();
    found
}

#[test]
fn a_row_counts_where_the_history_has_observed_nothing() {
    // Thirty hours of one tick per minute.
    let own = (30 * 60, Duration::from_secs(60));
    for keep_raw in [None, Some(Duration::from_secs(6 * 3600))] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ours.db");
        let options = WriterOptions {
            keep_raw,
            ..WriterOptions::default()
        };
        write_ticks(&path, first(), own, &options);
        let kept = History::open(&path).unwrap().raw_from().unwrap();
        assert_eq!(kept.is_some(), keep_raw.is_some());

        let outside: Vec<i64> = (-60..0).chain(1800..1860).step_by(5).collect();
        let imported = import(&path, &day(-60, 1860), Again::Continue).unwrap();
        assert_eq!(imported.left_out, 360, "{keep_raw:?}");
        assert_eq!(imported.imported.new_gpu_rows, 24);
        assert_eq!(minutes(&path), outside);
        // The same day again, then grown, then replaced.
        let imported = import(&path, &day(-60, 1870), Again::Continue).unwrap();
        assert_eq!(
            (imported.left_out, imported.imported.new_gpu_rows),
            (360, 2)
        );
        let imported = import(&path, &day(-60, 1860), Again::Replace).unwrap();
        assert_eq!(
            (imported.left_out, imported.imported.new_gpu_rows),
            (360, 24)
        );
        assert_eq!(minutes(&path), outside);
        // Rows that begin before or end after the observed time overlap it.
        let another = StatsDay {
            date: jiff::civil::date(2026, 11, 15),
            ..day(-62, 1860)
        };
        let reaching = import(&path, &another, Again::Continue).unwrap();
        assert_eq!(reaching.left_out, 361, "{keep_raw:?}");
    }
}

#[test]
fn an_interval_is_remembered_and_another_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.db");
    let own = (1, Duration::from_secs(60));
    write_ticks(&path, first(), own, &WriterOptions::default());
    let with_interval = |seconds| StatsDay {
        interval: StatsInterval::Said(Duration::from_secs(seconds)),
        ..day(60, 120)
    };
    let minute = Duration::from_secs(60);
    assert_eq!(
        import(&path, &with_interval(60), Again::Continue)
            .unwrap()
            .interval,
        minute
    );
    assert_eq!(
        import(&path, &day(60, 180), Again::Continue)
            .unwrap()
            .interval,
        minute
    );
    match import(&path, &with_interval(300), Again::Continue) {
        Err(LegacyError::OtherInterval { known, asked, .. }) => {
            assert_eq!((known, asked), (minute, SAMPLE_INTERVAL));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        import(&path, &with_interval(300), Again::Replace)
            .unwrap()
            .interval,
        SAMPLE_INTERVAL
    );
    assert_eq!(minutes(&path), (60..120).step_by(5).collect::<Vec<_>>());
}

#[test]
fn a_day_with_changed_rows_is_refused_until_it_is_replaced() {
    let changed = |change: fn(&mut Vec<StatsRow>)| {
        let mut day = day(60, 120);
        change(&mut day.rows);
        day
    };
    let before = |rows: &mut Vec<StatsRow>| {
        let at = rows[0].at - SignedDuration::from_mins(5);
        rows.insert(
            0,
            StatsRow {
                at,
                ..rows[0].clone()
            },
        );
    };
    for (what, then, expected) in [
        ("a row before the first", changed(before), 13),
        (
            "the first row gone",
            changed(|rows| drop(rows.remove(0))),
            11,
        ),
        ("the last row gone", changed(|rows| drop(rows.pop())), 11),
        ("no row at all", changed(Vec::clear), 0),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ours.db");
        write_ticks(
            &path,
            first(),
            (1, SAMPLE_INTERVAL),
            &WriterOptions::default(),
        );
        import(&path, &day(60, 120), Again::Continue).unwrap();
        let refused = try_import(&path, &then, Again::Continue);
        assert!(
            matches!(refused, Err(LegacyError::Differs { .. })),
            "{what}: {refused:?}"
        );
        assert_eq!(minutes(&path).len(), 12, "{what}");
        try_import(&path, &then, Again::Replace).unwrap();
        assert_eq!(minutes(&path).len(), expected, "{what}");
        // It continues from there.
        try_import(&path, &then, Again::Continue).unwrap();
        assert_eq!(minutes(&path).len(), expected, "{what}");
    }
}

#[test]
fn a_day_identified_by_its_first_row_is_refused_and_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.db");
    write_ticks(
        &path,
        first(),
        (1, SAMPLE_INTERVAL),
        &WriterOptions::default(),
    );
    for from in [60, 65] {
        import(&path, &day(from, 120), Again::Continue).unwrap();
        let history = rusqlite::Connection::open(&path).unwrap();
        let known_by = format!(
            "UPDATE old_source_fact SET fact = 'daemon_run {from}' WHERE fact LIKE 'gpu_stats%'"
        );
        history.execute(&known_by, []).unwrap();
        // So that the second of them is imported too.
        let moved = "UPDATE old_source SET path = replace(path, '2026', 'x2026')";
        history.execute(moved, []).unwrap();
    }
    let history = rusqlite::Connection::open(&path).unwrap();
    let back = "UPDATE old_source SET path = '/old/20261114_gpu_stats.csv'";
    history.execute(back, []).unwrap();
    assert_eq!(minutes(&path).len(), 12 + 11);
    let refused = import(&path, &day(60, 120), Again::Continue);
    assert!(matches!(refused, Err(LegacyError::Differs { .. })));
    import(&path, &day(60, 120), Again::Replace).unwrap();
    assert_eq!(minutes(&path).len(), 12);
}

#[test]
fn a_failed_replacement_keeps_the_old_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.db");
    write_ticks(
        &path,
        first(),
        (1, SAMPLE_INTERVAL),
        &WriterOptions::default(),
    );
    import(&path, &day(60, 120), Again::Continue).unwrap();
    let mut store = Store::open(&path, OpenMode::Append, &WriterOptions::default()).unwrap();
    let stop = &mut |_| ControlFlow::Break(());
    let stopped =
        gua_compat::gpu_stats::import_day(&mut store, &day(60, 180), Again::Replace, first(), stop);
    assert!(matches!(stopped, Err(LegacyError::Stopped)), "{stopped:?}");
    store.close().unwrap();
    assert_eq!(minutes(&path).len(), 12);
}
