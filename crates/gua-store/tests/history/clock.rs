//! A clock that jumps both ways, and a machine that sleeps.

use std::time::Duration;

use jiff::SignedDuration;

use crate::{Place, all, begin, read_all, record};
use gua_test::synthetic::SyntheticHost;

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
    let stored = history.sessions(all()).unwrap();
    let mut store = place.store();
    store.rebuild_totals().unwrap();
    assert_eq!(
        place.history().sessions(all()).unwrap(),
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
        .map(|(_, _, total)| total.card.present.0 / 1_000_000)
        .sum();
    // Two GPUs, 120 ticks of 30 seconds each; the microseconds of drift are cut off.
    assert!((7190..=7200).contains(&seconds), "{seconds}");
}
