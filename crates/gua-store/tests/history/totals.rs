//! For any window, totals plus edges equal what the ticks give.

use std::collections::BTreeMap;

use gua_model::{
    DayTotals, GpuDay, GpuQuarter, Period, Quarter, QuarterTotal, Sessions, Spans, Thresholds,
    Tick, Totals, UtcDay,
};
use gua_query::records::QuarterVisitor;
use jiff::{SignedDuration, Timestamp};

use crate::CollectTotals as _;
use crate::{Place, all, begin, changed_quarters, read_all, record};
use gua_test::synthetic::{Dice, SyntheticHost};

/// Totals of a window, computed directly from the ticks.
fn fold(ticks: &[Tick], window: Period) -> Totals {
    let mut spans = Spans::new(Thresholds::default(), gua_model::Floors::new());
    let mut totals = Totals::default();
    for tick in ticks {
        for span in spans.push(&in_micros(tick)) {
            totals.add_within(&span, window);
        }
    }
    for span in spans.finish(Timestamp::MAX) {
        totals.add_within(&span, window);
    }
    totals
}

fn in_micros(tick: &Tick) -> Tick {
    let mut tick = tick.clone();
    tick.sample.at = Timestamp::from_microsecond(tick.sample.at.as_microsecond()).unwrap();
    tick
}

#[test]
fn any_window_is_its_quarters_and_its_edges() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let mut written = record(&mut store, run, &mut host, 300);
    host.pass(std::time::Duration::from_secs(5000));
    written.extend(record(&mut store, run, &mut host, 300));
    let history = place.history();
    let mut dice = Dice(7);
    let first = written[0].sample.at.as_second();
    for _ in 0..40 {
        let from = first - 2000 + i64::try_from(dice.roll(25_000)).unwrap();
        let length = i64::try_from(dice.roll(10_000)).unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        let window = Period::new(at(from), at(from + length));
        let found = history.totals(window).unwrap();
        assert_eq!(found.window, window);
        assert_eq!(found.totals, fold(&written, window), "{window:?}");
    }
    assert!(history.check(|_| {}).unwrap().quarters_compared > 15);
}

#[test]
fn other_thresholds_read_the_ticks() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 200);
    let history = place.history();
    let rule = history.thresholds().unwrap();
    assert_eq!(rule, Thresholds::default());
    let same = history.totals_by(rule, all()).unwrap();
    assert_eq!(same, history.totals(all()).unwrap());
    let other = Thresholds {
        held_mb: 50_000,
        ..rule
    };
    assert_ne!(history.totals_by(other, all()).unwrap(), same);
}

#[test]
fn sessions_are_the_same_stored_or_folded() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let written = record(&mut store, run, &mut host, 1500);
    let mut spans = Spans::new(Thresholds::default(), gua_model::Floors::new());
    let mut fold = Sessions::new(Thresholds::default(), []);
    let mut expected = Vec::new();
    for tick in written.iter().map(in_micros) {
        let closed = spans.push(&tick);
        expected.extend(fold.push(&tick, &closed));
    }
    fold.account(&spans.finish(Timestamp::MAX));
    expected.extend(fold.open().cloned());
    expected.sort_by(|one, other| (one.from, &one.key).cmp(&(other.from, &other.key)));
    assert!(expected.len() > 5, "{}", expected.len());
    let history = place.history();
    assert_eq!(crate::sessions(&history, all()).unwrap(), expected);
    let late = Period::new(
        host.now() - SignedDuration::from_secs(600),
        host.now() + SignedDuration::from_secs(600),
    );
    let touching: Vec<_> = expected
        .iter()
        .filter(|session| session.to >= late.from())
        .cloned()
        .collect();
    assert_eq!(crate::sessions(&history, late).unwrap(), touching);
}

#[test]
fn totals_can_be_rebuilt() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 500);
    let before = place.history().totals(all()).unwrap();
    let sessions = crate::sessions(&place.history(), all()).unwrap();
    store.rebuild_totals().unwrap();
    assert_eq!(place.history().totals(all()).unwrap(), before);
    assert_eq!(crate::sessions(&place.history(), all()).unwrap(), sessions);
    assert_eq!(read_all(&place.history()).len(), 500);
}

#[test]
fn a_fold_gives_each_quarter_once_in_order_with_its_window() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let written = record(&mut store, run, &mut host, 400);
    let first = written[0].sample.at;
    let window = Period::new(
        first + SignedDuration::from_secs(100),
        host.now() - SignedDuration::from_secs(100),
    );
    let history = place.history();
    let mut quarters = Vec::new();
    let mut visit = |quarter: Quarter, gpus: &[GpuQuarter]| {
        assert!(gpus.is_sorted_by(|one, other| one.gpu < other.gpu));
        quarters.push(quarter);
    };
    let rule = history.thresholds().unwrap();
    history.quarters(window, rule, &mut visit).unwrap();
    let expected: Vec<_> = window.quarters().map(|(quarter, _)| quarter).collect();
    assert_eq!(quarters, expected);
}

#[test]
fn the_last_tick_and_the_latest_names_are_available() {
    let place = Place::new();
    let mut store = place.store();
    assert_eq!(
        place.history().last_tick_before(Timestamp::MAX).unwrap(),
        None
    );
    assert_eq!(place.history().host().unwrap(), None);
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let written = record(&mut store, run, &mut host, 200);
    let history = place.history();
    let last = history.last_tick_before(Timestamp::MAX).unwrap().unwrap();
    assert_eq!((last.run, Some(&last.tick)), (run, written.last()));
    assert_eq!(history.host().unwrap(), history.info().unwrap().host);
    let owners = history.owners().unwrap();
    for session in crate::sessions(&history, all()).unwrap() {
        let owner = session.owner.unwrap().who;
        assert!(owners.contains(&owner));
    }
    drop(history);
    // If the last tick cannot be read, the one before is not returned in its place.
    rusqlite::Connection::open(place.path())
        .unwrap()
        .execute_batch("UPDATE tick SET body = x'00' WHERE at = (SELECT max(at) FROM tick)")
        .unwrap();
    let before = place
        .history()
        .last_tick_before(Timestamp::MAX)
        .unwrap()
        .unwrap();
    assert_eq!(Some(&before.tick), written.get(198));
}

/// The sum of everything in a window, by GPU: with days where they are taken, or with quarters alone.
#[derive(Default)]
struct Summed {
    takes_days: bool,
    sums: BTreeMap<String, QuarterTotal>,
    days: Vec<(UtcDay, Vec<GpuDay>)>,
}

impl QuarterVisitor for Summed {
    fn begin(&mut self, _: Period) {}

    fn quarter(&mut self, _: Quarter, gpus: &[GpuQuarter]) {
        for GpuQuarter { gpu, total } in gpus {
            self.sums.entry(gpu.to_string()).or_default().merge(total);
        }
    }

    fn day(&mut self, day: UtcDay, gpus: &[GpuDay]) -> bool {
        self.days.push((day, gpus.to_vec()));
        assert!(
            day.quarters()
                .all(|quarter| UtcDay::of_quarter(quarter).0 == day)
        );
        for gpu in gpus.iter().filter(|_| self.takes_days) {
            let sum = self.sums.entry(gpu.gpu.to_string()).or_default();
            sum.merge(&gpu.total);
        }
        self.takes_days
    }
}

fn summed(place: &Place, window: Period, takes_days: bool) -> Summed {
    let mut summed = Summed {
        takes_days,
        ..Summed::default()
    };
    let history = place.history();
    let rule = history.thresholds().unwrap();
    history.quarters(window, rule, &mut summed).unwrap();
    summed
}

#[test]
fn a_closed_day_is_the_sum_of_its_quarters() {
    let place = Place::new();
    let mut store = place.store();
    let interval = std::time::Duration::from_secs(120);
    let mut host = SyntheticHost::new(2, interval, SyntheticHost::small().now());
    let run = begin(&mut store, &host);
    // From the afternoon of one day to the early morning three days later, with a gap.
    record(&mut store, run, &mut host, 1000);
    host.pass(std::time::Duration::from_secs(5000));
    record(&mut store, run, &mut host, 800);
    let window = all();
    let by_days = summed(&place, window, true);
    assert_eq!(by_days.sums, summed(&place, window, false).sums);
    assert_eq!(by_days.days.len(), 3);
    let of_history = place.history();
    for (day, gpus) in by_days.days {
        let mut made = DayTotals::default();
        let first = day.first_quarter().period().from();
        let window = Period::new(first, first + SignedDuration::from_hours(24));
        for (quarter, gpus) in of_history.totals(window).unwrap().totals.by_quarter() {
            made.add(UtcDay::of_quarter(quarter).1, &gpus);
        }
        assert_eq!(gpus, made.gpus);
    }
    // A window that cuts a day has its quarters.
    let inside = Period::new(host.now() - SignedDuration::from_hours(50), host.now());
    assert_eq!(summed(&place, inside, true).days.len(), 1);
    assert!(of_history.check(|_| {}).unwrap().is_clean());
}

#[test]
fn a_rewritten_quarter_has_a_higher_change_number() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 120);
    let first = changed_quarters(&place.path(), 0);
    assert!(first.len() >= 2);
    assert!(first.is_sorted_by_key(|(quarter, revision)| (*revision, *quarter)));
    store.rebuild_totals().unwrap();
    let last = first.last().unwrap().1;
    let again = changed_quarters(&place.path(), last);
    let quarters = |changed: &[(Quarter, u64)]| {
        let numbers = changed.iter().map(|(quarter, _)| *quarter);
        numbers.collect::<Vec<_>>()
    };
    assert_eq!(quarters(&again), quarters(&first));
    assert_eq!(changed_quarters(&place.path(), 0), again);
}
