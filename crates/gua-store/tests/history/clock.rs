//! A clock that jumps both ways, and a machine that sleeps.

use std::time::Duration;

use gua_model::report::{Note, Report};
use gua_model::{Period, Tick};
use gua_query::explain::Found;
use gua_query::{AccountsQuestion, ExplainQuestion, Question, RecordsSource, Source as _};
use gua_store::{History, WriterOptions};
use gua_test::synthetic::SyntheticHost;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use rusqlite::Connection;

use crate::CollectTotals as _;
use crate::{Place, all, begin, open, read_all, record};

/// Sets the clock by so many seconds in the middle of a history, and expects every tick to be stored, in order.
fn check(seconds: i64) {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let mut written = record(&mut store, run, &mut host, 70);
    host.set_clock(host.now() + SignedDuration::from_secs(seconds));
    written.extend(record(&mut store, run, &mut host, 70));
    store.close().unwrap();
    written.sort_by_key(|tick| tick.sample.at);
    let history = place.history();
    assert_eq!(read_all(&history), written, "{seconds}");
    let report = history.check(|_| {}).unwrap();
    assert!(report.is_clean(), "{seconds}: {report:?}");
    assert_eq!(report.ticks_read, 140);
    // Sessions are the same whether they were stored or folded from all ticks.
    let stored = crate::sessions(&history, all()).unwrap();
    let mut store = place.store();
    store.rebuild_totals().unwrap();
    assert_eq!(
        crate::sessions(&place.history(), all()).unwrap(),
        stored,
        "{seconds}"
    );
}

#[test]
fn a_clock_change_keeps_every_tick() {
    for seconds in [7, 1800, 40_000_000, -7, -100, -900, -1800, -40_000_000] {
        check(seconds);
    }
}

#[test]
fn a_stopped_clock_keeps_every_tick() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let noon = host.now();
    let mut written = Vec::new();
    for _ in 0..20 {
        host.set_clock(noon);
        written.extend(record(&mut store, run, &mut host, 1));
    }
    assert_eq!(read_all(&place.history()), written);
}

#[test]
fn time_asleep_is_in_no_total() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 60);
    host.pass(Duration::from_secs(4 * 3600));
    record(&mut store, run, &mut host, 60);
    let totals = place.history().totals(all()).unwrap().totals;
    let seconds: u64 = totals
        .iter()
        .map(|(_, _, total)| total.gpu.present.0 / 1_000_000)
        .sum();
    // Two GPUs, 120 ticks of 30 seconds each; the microseconds of drift are cut off.
    assert!((7190..=7200).contains(&seconds), "{seconds}");
}

fn report(history: &History, from: Timestamp, to: Timestamp) -> Report {
    let window = Period::new(from, to);
    gua_query::report(history, &Question::of_window(window, TimeZone::UTC, to)).unwrap()
}

/// Expects every GPU's first sight to be that of its earliest tick, and a report of all ticks to balance.
fn assert_balanced(history: &History, written: &[Tick]) {
    let first = written.iter().map(|tick| tick.sample.at).min().unwrap();
    let last = written.iter().map(|tick| tick.sample.at).max().unwrap();
    for gpu in history.gpus().unwrap() {
        // The file keeps whole microseconds.
        assert_eq!(gpu.first_seen.as_microsecond(), first.as_microsecond());
    }
    let hour = SignedDuration::from_hours(1);
    let half = first + SignedDuration::from_secs((last.as_second() - first.as_second()) / 2 + 17);
    for (from, to) in [
        (first - hour, last + hour),
        (first - hour, half),
        (half, last + hour),
    ] {
        let report = report(history, from, to);
        assert_eq!(report.notes, [], "{from} to {to}");
        let covered = &report.coverage;
        assert_eq!(covered.observed + covered.gap, covered.capacity);
    }
}

#[test]
fn a_gpu_first_seen_by_a_clock_that_was_ahead_is_known_from_its_earliest_tick() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let mut written = record(&mut store, run, &mut host, 10);
    host.set_clock(host.now() - SignedDuration::from_hours(2));
    written.extend(record(&mut store, run, &mut host, 50));
    assert_balanced(&place.history(), &written);
}

#[test]
fn a_late_first_sight_is_left_out_found_by_the_check_and_repaired_without_losing_a_tick() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let written = record(&mut store, run, &mut host, 100);
    store.close().unwrap();
    // As versions before this rule stored it.
    let late = host.now() + SignedDuration::from_hours(1);
    Connection::open(place.path())
        .unwrap()
        .execute(
            "UPDATE card SET first_seen = ?1 WHERE number = 1",
            [late.as_microsecond()],
        )
        .unwrap();
    let history = place.history();
    let first = written[0].sample.at;
    let shown = report(&history, first, host.now());
    let gpus = &history.gpus().unwrap();
    assert_eq!(
        shown.notes,
        [Note::Unbalanced {
            gpus: vec![gpus[1].uuid.clone()]
        }]
    );
    let rows: Vec<_> = shown.gpus.iter().map(|card| &card.gpu).collect();
    assert_eq!(rows, [&gpus[0].uuid]);
    assert_eq!(
        shown.coverage.observed + shown.coverage.gap,
        shown.coverage.capacity
    );
    let accounts = gua_query::accounts(&history, &AccountsQuestion { until: host.now() }).unwrap();
    assert!(accounts.unbalanced.iter().eq([&gpus[1].uuid]));
    assert!(accounts.gpus.keys().eq([&gpus[0].uuid]));
    assert!(accounts.known.keys().eq([&gpus[0].uuid]));
    let found = history.check(|_| {}).unwrap().first_sights_late;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].gpu, gpus[1].uuid);

    assert_eq!(place.store().repair().unwrap(), found);
    let history = place.history();
    assert_balanced(&history, &written);
    assert!(history.check(|_| {}).unwrap().is_clean());
    assert_eq!(read_all(&history), written);
    assert_eq!(place.store().repair().unwrap(), []);
}

/// Answers what the state of GPU 0 was at a moment.
fn explain(place: &Place, at: Timestamp) -> Found {
    let question = ExplainQuestion {
        gpu: "0".to_owned(),
        at,
        now: at + SignedDuration::from_hours(24),
    };
    let source = RecordsSource::new(|| Ok(Box::new(place.history())));
    source.explain(&question).unwrap().found
}

#[test]
fn a_moment_is_explained_though_the_first_sight_of_its_gpu_is_late() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    host.set_clock("2026-11-14T12:00:00Z".parse().unwrap());
    let first = host.now();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 60);
    let gap = host.now() + SignedDuration::from_secs(600);
    host.pass(Duration::from_secs(3600));
    record(&mut store, run, &mut host, 200);
    store.close().unwrap();
    let moments = [first + SignedDuration::from_secs(100), gap];
    let found = moments.map(|at| explain(&place, at));
    assert!(matches!(&found[0], Found::Seen(_)), "{found:?}");
    assert!(matches!(&found[1], Found::Gap(_)), "{found:?}");
    let late = host.now() + SignedDuration::from_hours(1);
    Connection::open(place.path())
        .unwrap()
        .execute("UPDATE card SET first_seen = ?1", [late.as_microsecond()])
        .unwrap();
    let later = moments.map(|at| explain(&place, at));
    assert_eq!(format!("{later:?}"), format!("{found:?}"));
    // Where ticks are no longer kept, the totals are still known.
    let options = WriterOptions {
        keep_raw: Some(Duration::from_secs(3600)),
        ..WriterOptions::default()
    };
    let mut store = open(&place.path(), &options);
    while store.maintain(host.now()).unwrap().more {}
    store.close().unwrap();
    let found = explain(&place, moments[0]);
    assert!(matches!(found, Found::Quarter(_)), "{found:?}");
    let before = explain(&place, first - SignedDuration::from_hours(1));
    assert!(matches!(before, Found::Before { .. }), "{before:?}");
}

/// An event of a host with a bad clock.
#[derive(Clone, Debug)]
enum Event {
    Ticks(usize),
    SetClock(i64),
    Suspend(u64),
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1_usize..90).prop_map(Event::Ticks),
        2 => (-7200_i64..7200).prop_map(Event::SetClock),
        1 => (-200_000_i64..200_000).prop_map(Event::SetClock),
        1 => (1_u64..90_000).prop_map(Event::Suspend),
        1 => Just(Event::Restart),
    ]
}

/// Records the events as a collector does, and expects balanced books and a check without findings.
fn check_events(events: &[Event]) {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let mut run = begin(&mut store, &host);
    let mut written = record(&mut store, run, &mut host, 1);
    for event in events {
        match event {
            Event::Ticks(count) => written.extend(record(&mut store, run, &mut host, *count)),
            Event::SetClock(seconds) => {
                host.set_clock(host.now() + SignedDuration::from_secs(*seconds));
            }
            Event::Suspend(seconds) => host.pass(Duration::from_secs(*seconds)),
            Event::Restart => {
                store.close().unwrap();
                store = place.store();
                run = begin(&mut store, &host);
            }
        }
    }
    let history = place.history();
    assert_balanced(&history, &written);
    let found = history.check(|_| {}).unwrap();
    assert!(found.is_clean(), "{found:?}");
    assert_eq!(found.ticks_read, written.len() as u64);
}

#[test]
fn a_clock_that_goes_ahead_an_hour_and_back_half_of_it_leaves_a_clean_history() {
    for (ahead, back) in [(3600, -1800), (-1800, 3600), (3600, -3600), (90_000, -1800)] {
        for ticks in [10, 70, 150] {
            check_events(&[
                Event::Ticks(ticks),
                Event::SetClock(ahead),
                Event::Ticks(ticks),
                Event::SetClock(back),
                Event::Ticks(ticks),
            ]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_sequence_of_clock_steps_suspends_and_restarts_leaves_balanced_books(
        events in prop::collection::vec(event(), 1..12),
    ) {
        check_events(&events);
    }
}
