//! Retention, size, backup, and erasing a user.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use gua_model::report::Report;
use gua_model::{OwnerKey, Period, RollUp, Session, Thresholds, Uid, User};
use gua_query::Question;
use gua_store::{BackupError, History, ReadError, RunId, Store, WriteError, WriterOptions};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::CollectTotals as _;
use crate::{Place, all, begin, open, read_all, record};
use gua_test::synthetic::SyntheticHost;

/// Numbers of a report that rest on totals.
fn figures(report: &Report) -> String {
    let equivalent = RollUp::ALL.map(|class| report.equivalent(class));
    let covered = report.gpus.iter().map(|gpu| (&gpu.gpu, &gpu.covered));
    let covered: Vec<_> = covered
        .map(|(gpu, it)| (gpu, it.capacity, it.observed, it.gap, it.buffered))
        .collect();
    format!(
        "{:?} {equivalent:?} {:?} {covered:?} {:?}",
        report.all, report.coverage.host_observed, report.people
    )
}

#[test]
fn retention_changes_no_figure_of_a_report() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    host.set_clock("2026-11-14T12:00:00Z".parse().unwrap());
    let (from, run) = (host.now(), begin(&mut store, &host));
    for number in 0..900 {
        let mut tick = host.tick();
        match number {
            // A GPU that is missing from some ticks, ticks that are late, and a collector that stops.
            100..200 if number % 3 == 0 => drop(tick.sample.gpus.pop()),
            300..400 => host.pass(Duration::from_secs(7)),
            500 => host.pass(Duration::from_secs(500)),
            _ => {}
        }
        store.record(run, &tick).unwrap();
    }
    let to: Timestamp = "2026-11-14T20:00:00Z".parse().unwrap();
    let report = |history: &History| {
        let window = Period::new(from, to);
        gua_query::report(history, &Question::of_window(window, TimeZone::UTC, to)).unwrap()
    };
    while store.maintain(to).unwrap().more {}
    store.close().unwrap();
    let before = figures(&report(&place.history()));
    let options = WriterOptions {
        keep_raw: Some(Duration::from_secs(3600)),
        ..WriterOptions::default()
    };
    let mut store = open(&place.path(), &options);
    while store.maintain(to).unwrap().more {}
    store.close().unwrap();
    let history = place.history();
    assert!(history.raw_from().unwrap().is_some());
    assert_eq!(figures(&report(&history)), before);
}

#[test]
fn retention_removes_ticks_and_keeps_totals_and_sessions() {
    let keeping = Place::new();
    let mut store = keeping.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 600);

    let place = Place::new();
    let options = WriterOptions {
        keep_raw: Some(Duration::from_secs(3600)),
        ..WriterOptions::default()
    };
    let mut store = open(&place.path(), &options);
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 600);

    let (short, long) = (place.history(), keeping.history());
    let kept = short.info().unwrap().ticks;
    assert!((120..160).contains(&kept), "{kept}");
    assert_eq!(
        short.totals(all()).unwrap().totals,
        long.totals(all()).unwrap().totals
    );
    assert_eq!(
        crate::sessions(&short, all()).unwrap(),
        crate::sessions(&long, all()).unwrap()
    );
    assert!(short.check(|_| {}).unwrap().is_clean());
    let gpu_ticks: usize = read_all(&long)
        .iter()
        .map(|tick| tick.sample.gpus.len())
        .sum();
    for history in [&short, &long] {
        assert_eq!(history.gpu_ticks().unwrap(), gpu_ticks as u64);
    }

    // An edge without raw ticks moves to its quarter hour, and other thresholds are refused.
    let first = long.info().unwrap().first_tick.unwrap();
    let window = Period::new(first + SignedDuration::from_secs(1), host.now());
    let snapped = short.totals(window).unwrap().window;
    assert!(snapped.from() < window.from());
    assert_eq!(snapped.from().as_second() % 900, 0);
    let other = Thresholds {
        held_mb: 5,
        ..Thresholds::default()
    };
    let refused = short.totals_by(other, window);
    assert!(
        matches!(refused, Err(ReadError::RawGone { .. })),
        "{refused:?}"
    );
}

#[test]
fn the_retention_period_can_change_while_ticks_are_written() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 600);
    assert_eq!(place.history().info().unwrap().ticks, 600);
    store.keep_raw_for(Some(Duration::from_secs(3600)));
    record(&mut store, run, &mut host, 1);
    let kept = place.history().info().unwrap().ticks;
    assert!((120..160).contains(&kept), "{kept}");
    store.keep_raw_for(None);
    record(&mut store, run, &mut host, 600);
    assert_eq!(place.history().info().unwrap().ticks, kept + 600);
}

#[test]
fn a_clock_set_back_into_removed_ticks_changes_no_total() {
    let place = Place::new();
    let options = WriterOptions {
        keep_raw: Some(Duration::from_secs(3600)),
        ..WriterOptions::default()
    };
    let mut store = open(&place.path(), &options);
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 600);
    let before = place.history().totals(all()).unwrap();
    let end = host.now();
    for seconds in [4 * 3600, 400 * 24 * 3600] {
        host.set_clock(end - SignedDuration::from_secs(seconds));
        record(&mut store, run, &mut host, 70);
        assert_eq!(place.history().totals(all()).unwrap(), before);
        assert!(place.history().check(|_| {}).unwrap().is_clean());
    }
    host.set_clock(end);
    record(&mut store, run, &mut host, 300);
    let history = place.history();
    assert!(history.check(|_| {}).unwrap().is_clean());
    let kept = history.info().unwrap().ticks;
    assert!((120..160).contains(&kept), "{kept}");
}

/// A history whose beginning retention has removed, changed by `change` so that its ticks are folded again.
fn sessions_stay_the_same_after(
    what: &str,
    ticks: usize,
    change: impl Fn(&mut Store, RunId, &mut SyntheticHost),
) {
    let place = Place::new();
    let options = WriterOptions {
        keep_raw: Some(Duration::from_secs(3600)),
        ..WriterOptions::default()
    };
    let mut store = open(&place.path(), &options);
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, ticks);
    let before = crate::sessions(&place.history(), all()).unwrap();
    change(&mut store, run, &mut host);
    let sums = |sessions: &[Session]| -> Vec<_> {
        let sum = |one: &Session| {
            let times = (one.from, one.to, one.observed, one.active, one.idle_held);
            let utils = (one.own_util, one.gpu_util, one.peak_memory);
            (one.key.clone(), times, one.ticks, utils, one.open)
        };
        sessions.iter().map(sum).collect()
    };
    let history = place.history();
    let after = crate::sessions(&history, all()).unwrap();
    assert_eq!(sums(&after), sums(&before), "{what}, {ticks} ticks");
    let report = history.check(|_| {}).unwrap();
    assert!(report.is_clean(), "{what}, {ticks} ticks: {report:?}");
    drop(history);

    // Later ticks give the same result as in a history that was never folded again.
    let quiet = Place::new();
    let mut other = open(&quiet.path(), &options);
    let mut twin = SyntheticHost::small();
    let run_of_twin = begin(&mut other, &twin);
    record(&mut other, run_of_twin, &mut twin, ticks);
    record(&mut store, run, &mut host, 200);
    record(&mut other, run_of_twin, &mut twin, 200);
    assert_eq!(
        sums(&crate::sessions(&place.history(), all()).unwrap()),
        sums(&crate::sessions(&quiet.history(), all()).unwrap()),
        "{what}, {ticks} ticks and later"
    );
    assert!(place.history().check(|_| {}).unwrap().is_clean());
}

#[test]
fn sessions_are_counted_once_when_ticks_are_folded_again_after_retention() {
    for ticks in [250, 503, 700, 1000] {
        sessions_stay_the_same_after("rebuilt", ticks, |store, _, _| {
            store.rebuild_totals().unwrap();
            store.rebuild_totals().unwrap();
        });
        sessions_stay_the_same_after("forgotten", ticks, |store, _, _| {
            let sessions = crate::sessions(&History::open(store.path()).unwrap(), all());
            let owner = sessions.unwrap()[0].owner.clone().unwrap();
            store.forget(&owner.who.shown()).unwrap();
        });
    }
}

/// Sessions of a history in which the clock is set back by so many seconds for one tick.
fn sessions_with_a_clock_set_back(keep_raw: Option<Duration>, seconds: i64) -> Vec<Session> {
    let place = Place::new();
    let options = WriterOptions {
        keep_raw,
        ..WriterOptions::default()
    };
    let mut store = open(&place.path(), &options);
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 503);
    let end = host.now();
    host.set_clock(end - SignedDuration::from_secs(seconds));
    record(&mut store, run, &mut host, 1);
    host.set_clock(end);
    record(&mut store, run, &mut host, 1);
    let early = crate::sessions(&place.history(), all()).unwrap();
    record(&mut store, run, &mut host, 400);
    store.rebuild_totals().unwrap();
    let history = place.history();
    let report = history.check(|_| {}).unwrap();
    assert!(report.is_clean(), "{seconds}: {report:?}");
    early
        .into_iter()
        .chain(crate::sessions(&history, all()).unwrap())
        .collect()
}

#[test]
fn a_clock_set_back_gives_the_same_sessions_with_and_without_retention() {
    for seconds in [10, 600, 1200, 2400] {
        assert_eq!(
            sessions_with_a_clock_set_back(Some(Duration::from_secs(3600)), seconds),
            sessions_with_a_clock_set_back(None, seconds),
            "{seconds}"
        );
    }
}

#[test]
fn a_clock_that_runs_ahead_removes_no_recent_ticks() {
    let place = Place::new();
    let options = WriterOptions {
        keep_raw: Some(Duration::from_secs(90 * 86400)),
        ..WriterOptions::default()
    };
    let mut store = open(&place.path(), &options);
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 600);
    let end = host.now();
    host.set_clock(end + SignedDuration::from_secs(365 * 86400));
    record(&mut store, run, &mut host, 20);
    host.set_clock(end);
    record(&mut store, run, &mut host, 1);
    assert_eq!(place.history().info().unwrap().ticks, 621);
    // A clock that stays there for a day is taken as correct.
    host.set_clock(end + SignedDuration::from_secs(365 * 86400 + 3600));
    record(&mut store, run, &mut host, 24 * 120 + 60);
    let left = place.history().info().unwrap().ticks;
    assert_eq!(left, 20 + 24 * 120 + 60);
}

#[test]
fn a_clock_that_jumps_ahead_repeatedly_removes_no_recent_ticks() {
    let day = 86_400;
    // After a year, by days, by half days, and ticks between the jumps.
    for (jumps, ticks) in [
        ([365 * day, 2 * day, 2 * day], 1),
        ([365 * day, day / 2, day / 2 + 1], 1),
        ([100 * day, 365 * day, day], 100),
    ] {
        let place = Place::new();
        let options = WriterOptions {
            keep_raw: Some(Duration::from_secs(90 * 86400)),
            ..WriterOptions::default()
        };
        let mut store = open(&place.path(), &options);
        let mut host = SyntheticHost::small();
        let run = begin(&mut store, &host);
        // More than a day, so that a correct clock would be trusted.
        record(&mut store, run, &mut host, 25 * 120);
        for jump in jumps {
            host.set_clock(host.now() + SignedDuration::from_secs(jump));
            record(&mut store, run, &mut host, ticks);
        }
        let kept = place.history().info().unwrap().ticks;
        assert_eq!(kept, 25 * 120 + 3 * ticks as u64, "{jumps:?}");
    }
}

#[test]
fn a_backup_has_the_mode_of_its_source_and_leaves_other_files_alone() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 5);
    let target = place.directory.path().join("copy.db");
    let others = ["copy.db.partial", "copy.db.part", ".copy.db.part"];
    let others = others.map(|name| place.directory.path().join(name));
    for other in &others {
        std::fs::write(other, "of another user").unwrap();
    }
    for mode in [0o640, 0o600, 0o644] {
        let mode: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(place.path(), mode.clone()).unwrap();
        place.history().backup(&target, |_, _| {}).unwrap();
        let found = std::fs::metadata(&target).unwrap().permissions();
        assert_eq!(found.mode() & 0o777, mode.mode());
        std::fs::remove_file(&target).unwrap();
    }
    for other in &others {
        assert_eq!(std::fs::read_to_string(other).unwrap(), "of another user");
    }
}

#[test]
fn a_backup_is_a_complete_history() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let written = record(&mut store, run, &mut host, 100);
    let target = place.directory.path().join("copy.db");
    let mut steps = Vec::new();
    let history = place.history();
    history
        .backup(&target, |done, all| steps.push((done, all)))
        .unwrap();
    let (done, all) = steps[steps.len() - 1];
    assert_eq!(done, all);
    let again = history.backup(&target, |_, _| {});
    assert!(matches!(again, Err(BackupError::Exists { .. })));
    record(&mut store, run, &mut host, 1);
    assert_eq!(read_all(&History::open(&target).unwrap()), written);
    assert_eq!(read_all(&history).len(), 101);
}

#[test]
fn stats_show_what_uses_space() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 400);
    let stats = place.history().stats().unwrap();
    let ticks = stats.tables.iter().find(|table| table.name == "tick");
    assert_eq!(ticks.unwrap().rows, 400);
    assert_eq!((stats.ticks, stats.gpus), (400, 2));
    assert!(stats.bytes_per_gpu_day.unwrap() > 1000.0);
}

#[test]
fn an_erasure_fails_while_a_reader_keeps_the_old_pages() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 600);
    let sessions = crate::sessions(&place.history(), all()).unwrap();
    let name = sessions[0].owner.as_ref().unwrap().who.shown().into_owned();
    let reader = rusqlite::Connection::open(place.path()).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM tick")
        .unwrap();
    store.wait_for_lock(Duration::from_millis(10)).unwrap();
    let refused = store.forget(&name);
    assert!(matches!(refused, Err(WriteError::Reader)), "{refused:?}");
    assert!(occurs(&place, &name));
    drop(reader);
    store.vacuum().unwrap();
    assert!(!occurs(&place, &name));
    assert!(store.forget(&name).unwrap().is_empty());
}

#[test]
fn an_erased_user_leaves_no_byte_and_no_hour_behind() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 600);
    let before = place.history().totals(all()).unwrap().totals;
    let sessions = crate::sessions(&place.history(), all()).unwrap();
    let victim = sessions[0].owner.as_ref().unwrap().who.clone();
    let name = victim.shown().into_owned();
    assert!(occurs(&place, &name));

    let forgotten = store.forget(&name).unwrap();
    assert_eq!(forgotten.known_as.len(), 1);
    assert!(forgotten.processes > 0);
    assert!(!occurs(&place, &name));
    let (uid, name_now) = forgotten.known_as[0].clone();
    let anonymous = OwnerKey::User(User {
        uid: Uid(uid),
        name: Some(name_now),
    });
    let history = place.history();
    let after = history.totals(all()).unwrap().totals;
    for ((_, _, one), (_, _, other)) in before.iter().zip(after.iter()) {
        let hers = one.owners.get(&victim);
        let now = other.owners.get(&anonymous);
        // Microseconds that do not divide go by the number of the owner, so only what is held stays to the last.
        assert_eq!(hers.map(|sums| sums.held), now.map(|sums| sums.held));
        assert_eq!(one.gpu, other.gpu);
        assert_eq!(one.states, other.states);
    }
    assert!(history.check(|_| {}).unwrap().is_clean());
    let remembers = |session: &Session| {
        session
            .owner
            .as_ref()
            .is_some_and(|owner| owner.who == victim)
    };
    assert!(
        !crate::sessions(&history, all())
            .unwrap()
            .iter()
            .any(remembers)
    );

    // The collector continues, and a second call finds no such user.
    record(&mut store, run, &mut host, 3);
    assert_eq!(read_all(&history).len(), 603);
    assert!(store.forget("nobody-at-all").unwrap().is_empty());
}

/// Whether a text occurs anywhere in the file or its journal.
fn occurs(place: &Place, text: &str) -> bool {
    ["gua.db", "gua.db-wal", "gua.db-shm"].iter().any(|name| {
        let bytes = std::fs::read(place.directory.path().join(name)).unwrap_or_default();
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    })
}
