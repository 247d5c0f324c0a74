//! A damaged row outside the ticks loses only its own content. The report still works.

use gua_model::report::{Note, Report};
use gua_model::statement::Balance;
use gua_model::{GapReason, Outage, Period};
use gua_query::Question;
use gua_store::CheckReport;
use gua_test::synthetic::SyntheticHost;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;

use crate::{Place, begin, changed_quarters, record};

/// Applies a change to a history with 300 ticks and an outage, and returns its report and its check.
fn changed(change: &str) -> (Report, CheckReport) {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 300);
    let outage = Outage {
        from: host.now(),
        to: host.now() + SignedDuration::from_secs(60),
        reason: GapReason::DriverHung,
        detail: String::new(),
        ticks_lost: 2,
    };
    store.record_outage(&outage).unwrap();
    store.close().unwrap();
    let connection = Connection::open(place.path()).unwrap();
    connection.execute_batch(change).unwrap();
    drop(connection);
    let window = Period::new(Timestamp::UNIX_EPOCH, host.now());
    let question = Question::of_window(window, TimeZone::UTC, host.now());
    let history = place.history();
    let report = gua_query::report(&history, &question);
    let report = report.unwrap_or_else(|error| panic!("{change}: {error:?}"));
    assert_eq!(Balance::of(&report).difference(), 0, "{change}");
    (report, history.check(|_| {}).unwrap())
}

fn is_damage(note: &Note) -> bool {
    matches!(note, Note::Damaged { .. } | Note::DamagedRows { .. })
}

#[test]
fn a_report_leaves_out_damaged_rows_and_counts_them() {
    let (healthy, check) = changed("");
    assert!(check.is_clean());
    assert!(!healthy.notes.iter().any(is_damage));
    for change in [
        "UPDATE session SET kind = 9 WHERE id = 1",
        "UPDATE session SET boot = x'00' WHERE id = 1",
        "UPDATE session SET pid = -1 WHERE id = 1",
        "UPDATE session SET peak_missing = 77 WHERE id = 1",
        "UPDATE session SET began = -1, observed = 0 WHERE id = 1",
        "UPDATE collector_run SET boot = x'00'",
        "UPDATE outage SET reason = 'x'",
        "UPDATE outage SET ticks_lost = -1",
        "UPDATE outage SET ended = 253402300799000000",
    ] {
        let (report, check) = changed(change);
        let noted = Note::DamagedRows { rows: 1 };
        assert!(
            report.notes.contains(&noted),
            "{change}: {:?}",
            report.notes
        );
        assert_eq!(report.all, healthy.all, "{change}");
        assert_eq!(report.coverage.observed, healthy.coverage.observed);
        let found = (check.sessions_wrong.len(), check.rows_damaged.len());
        assert!(matches!(found, (1, 0) | (0, 1)), "{change}: {check:?}");
    }
}

#[test]
fn a_gpu_or_owner_without_a_readable_name_costs_its_own_rows() {
    for change in [
        "UPDATE card SET uuid = '' WHERE id = 1",
        "UPDATE card SET parent = ' ' WHERE id = 1",
        "UPDATE owner SET uid = -1 WHERE id = 1",
        "UPDATE owner SET uid = NULL, name = NULL WHERE id = 1",
    ] {
        let (report, check) = changed(change);
        assert!(
            report.notes.iter().any(is_damage),
            "{change}: {:?}",
            report.notes
        );
        assert_eq!(check.rows_damaged.len(), 1, "{change}: {check:?}");
    }
    // A damaged value is treated as missing.
    let (healthy, _) = changed("");
    let change = "UPDATE card SET number = -1, parent_slices = -1 WHERE id = 1";
    let (report, _) = changed(change);
    assert_eq!(report.all, healthy.all, "{change}");
}

#[test]
fn only_a_check_reads_watched_runs() {
    let (report, check) = changed(
        "INSERT INTO watched_run (owner, run, name, started, cards, summary)
         SELECT id, 'run', 'name', -1, '', '{}' FROM owner WHERE uid IS NOT NULL LIMIT 1",
    );
    assert!(!report.notes.iter().any(is_damage), "{:?}", report.notes);
    assert_eq!(
        check.rows_damaged,
        ["watched run 1 has an impossible value"]
    );
}

#[test]
fn a_check_names_a_session_with_a_time_that_is_no_number() {
    for column in ["began", "ended", "observed"] {
        // SQLite refuses such a value while the table is declared STRICT.
        let (_, check) = changed(&format!(
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'session';
             PRAGMA writable_schema = RESET;
             UPDATE session SET {column} = 'x' WHERE id = 1;
             PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = sql || ' STRICT' WHERE name = 'session';
             PRAGMA writable_schema = RESET;"
        ));
        let named = "session 1 has an impossible value".to_owned();
        assert!(check.sessions_wrong.contains(&named), "{column}: {check:?}");
    }
}

#[test]
fn a_damaged_change_number_stops_no_writer() {
    for damaged in [i64::MIN, -1, i64::MAX] {
        let place = Place::new();
        let mut host = SyntheticHost::small();
        for ticks in [100, 100] {
            let mut store = place.store();
            let run = begin(&mut store, &host);
            record(&mut store, run, &mut host, ticks);
            store.close().unwrap();
            let sql = "UPDATE meta SET value = ?1 WHERE key = 'revision'";
            let connection = Connection::open(place.path()).unwrap();
            assert_eq!(connection.execute(sql, [damaged]).unwrap(), 1);
        }
        let changed = changed_quarters(&place.path(), 0);
        let mut numbers: Vec<u64> = changed.iter().map(|(_, number)| *number).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), changed.len(), "{damaged}");
        assert!(
            numbers.iter().all(|number| *number < 100),
            "{damaged}: {numbers:?}"
        );
        place.store().repair().unwrap();
    }
}
