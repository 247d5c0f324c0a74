//! Totals do not depend on batching, and equal the sums of the spans.

use proptest::prelude::*;

use super::*;
use crate::calendar::{CalendarUnit, slots};
use crate::coverage::Ledger;
use crate::history::{any_kept_ticks, any_thresholds, at, fold, known, ticks, uuid};
use crate::id::Uid;
use crate::owner::User;
use crate::report::Sums;
use crate::spans::{Floors, Spans};
use crate::state::Thresholds;
use crate::tick::Tick;
use jiff::tz::TimeZone;

fn sum(spans: &[Span]) -> Totals {
    let mut totals = Totals::default();
    spans.iter().for_each(|span| totals.add(span));
    totals
}

fn owner(name: &str) -> OwnerKey {
    OwnerKey::User(User {
        uid: Uid(1000 + name.bytes().map(u32::from).sum::<u32>()),
        name: Some(name.to_owned()),
    })
}

/// `name held charged idle-held ticks`, in seconds.
#[track_caller]
fn check_owners(history: &str, expected: &[(Option<&str>, [u64; 4])]) {
    let totals = sum(&fold(&ticks(history), Thresholds::default()));
    let mut found: BTreeMap<OwnerKey, [u64; 4]> = BTreeMap::new();
    for (_, _, total) in totals.iter() {
        for (owner, sums) in &total.owners {
            let seconds = |micros: Micros| micros.0 / Micros::PER_SECOND;
            let more = [
                seconds(sums.held),
                seconds(sums.charged),
                seconds(sums.idle_held),
                sums.ticks,
            ];
            for (mine, theirs) in found.entry(owner.clone()).or_default().iter_mut().zip(more) {
                *mine += theirs;
            }
        }
    }
    let expected: BTreeMap<OwnerKey, [u64; 4]> = expected
        .iter()
        .map(|(name, sums)| (name.map_or(OwnerKey::Unknown, owner), *sums))
        .collect();
    assert_eq!(found, expected, "{history}");
}

#[test]
fn hours_are_held_in_full_and_charged_in_equal_parts() {
    check_owners(
        "0 gpu0 util=90 ada:900 bob:10; 30 gpu0 ada:900",
        &[
            (Some("ada"), [60, 45, 30, 2]),
            (Some("bob"), [30, 15, 0, 1]),
        ],
    );
}

#[test]
fn two_processes_of_one_owner_hold_a_gpu_once_and_two_gpus_twice() {
    check_owners(
        "0 gpu0 ada:900 ada@7:900",
        &[(Some("ada"), [30, 30, 30, 1])],
    );
    check_owners(
        "0 gpu0 ada:900, gpu1 ada:900",
        &[(Some("ada"), [60, 60, 60, 2])],
    );
}

#[test]
fn everybody_who_cannot_be_seen_is_one_owner() {
    check_owners(
        "0 gpu0 ?:900 ?@9:900 gone@4:50 ada:900",
        &[(None, [30, 15, 30, 1]), (Some("ada"), [30, 15, 30, 1])],
    );
}

#[test]
fn nobody_is_charged_for_a_desktop_a_free_gpu_or_time_that_nobody_saw() {
    check_owners("0 gpu0 ada/desktop:900; 30 gpu0; 300 gpu0", &[]);
    check_owners("0 gpu0 util=gone ada:900", &[(Some("ada"), [0, 0, 0, 1])]);
}

#[test]
fn a_small_process_holds_a_free_gpu_and_is_charged_only_while_it_works() {
    let history = "0 gpu0 ada:50 energy=0; 30 gpu0 util=50 ada:50 energy=3000; 60 gpu0 energy=9000";
    check_owners(history, &[(Some("ada"), [60, 30, 0, 2])]);
    let totals = sum(&fold(&ticks(history), Thresholds::default()));
    let (_, _, total) = totals.iter().next().unwrap();
    assert_eq!(total.gpu.free, Micros::from_secs(60));
    let ada = total.owners.get(&owner("ada")).unwrap();
    assert_eq!(ada.energy, Millijoules(6000));
    assert_eq!(
        (ada.free, ada.used()),
        (Micros::from_secs(30), Micros::from_secs(30))
    );
}

#[test]
fn holders_of_a_parent_are_counted_on_its_instances_alone() {
    check_owners(
        "0 gpu0 instances=1 ada:900, mig0 parent=gpu0 ada:900",
        &[(Some("ada"), [30, 30, 30, 1])],
    );
    let totals = sum(&fold(
        &ticks("0 gpu0 instances=1 ada:900, mig0 parent=gpu0"),
        Thresholds::default(),
    ));
    let (_, _, parent) = totals.iter().next().unwrap();
    assert_eq!(parent.gpu.set_aside, Micros::from_secs(30));
    assert_eq!((parent.gpu.observed, parent.states.len()), (Micros(0), 0));
}

#[test]
fn an_instance_holds_charges_and_draws_the_part_of_its_slices() {
    let history = "0 gpu0 instances=2 energy=0, mig0 parent=gpu0:3/7 ada:900 bob:900, mig1 parent=gpu0:2/7 eve:900; \
                   30 gpu0 instances=2 energy=21000, mig0 parent=gpu0:3/7, mig1 parent=gpu0:2/7; 31 gpu0";
    check_owners(
        history,
        &[
            (Some("ada"), [12, 6, 12, 1]),
            (Some("bob"), [12, 6, 12, 1]),
            (Some("eve"), [8, 8, 8, 1]),
        ],
    );
    let mut energy = BTreeMap::<String, (u64, u64)>::new();
    for (_, gpu, total) in sum(&fold(&ticks(history), Thresholds::default())).iter() {
        let sums = energy.entry(gpu.as_str().to_owned()).or_default();
        sums.0 += total.gpu.energy.0;
        sums.1 += total
            .owners
            .values()
            .map(|owner| owner.energy.0)
            .sum::<u64>();
    }
    // Two slices have no instance: their energy is the parent's.
    let expected = [
        ("gpu0", (6000, 0)),
        ("mig0", (9000, 9000)),
        ("mig1", (6000, 6000)),
    ];
    assert_eq!(
        energy,
        expected.map(|(gpu, sums)| (gpu.to_owned(), sums)).into()
    );
}

#[test]
fn energy_follows_time_between_states_and_owners() {
    let history = "0 gpu0 energy=0 ada:900 bob:900; 30 gpu0 energy=3000 buffer=90+0+0";
    let totals = sum(&fold(&ticks(history), Thresholds::default()));
    let (_, _, total) = totals.iter().next().unwrap();
    let state = |state| total.states[&(state, Basis::Buffer)].energy;
    assert_eq!(state(State::Active), Millijoules(1000));
    assert_eq!(state(State::IdleHeld), Millijoules(2000));
    assert_eq!(total.owners[&owner("ada")].energy, Millijoules(1500));
    assert_eq!(total.gpu.energy, Millijoules(3000));
    assert_eq!(total.gpu.energy_known, Micros::from_secs(30));
}

#[test]
fn a_tick_belongs_to_the_quarter_in_which_it_began_and_its_time_to_both() {
    // 885 seconds into a quarter that began at START.
    let totals = sum(&fold(&ticks("885 gpu0 util=50"), Thresholds::default()));
    let found: Vec<_> = totals
        .iter()
        .map(|(_, _, total)| (total.gpu.ticks, total.gpu.observed, total.gpu.util_sum))
        .collect();
    let half = Micros::from_secs(15);
    let util = 5000 * u128::from(half.0);
    assert_eq!(found, [(1, half, util), (0, half, util)]);
}

#[test]
fn drained_quarters_are_gone_and_the_rest_stays() {
    let mut totals = sum(&fold(&ticks("885 gpu0 util=50"), Thresholds::default()));
    let whole = totals.clone();
    let second = Quarter::of(at(900.0));
    let mut drained = totals.drain_before(second);
    assert_eq!(
        drained.quarters.keys().copied().collect::<Vec<_>>(),
        [Quarter(second.0 - 1)]
    );
    assert_eq!(
        totals.quarters.keys().copied().collect::<Vec<_>>(),
        [second]
    );
    drained.merge(&totals);
    assert_eq!(drained, whole);
}

/// Folds in two parts, the second starting at the last tick of the first, as after a restart.
fn in_two(ticks: &[Tick], cut: usize, thresholds: Thresholds) -> Totals {
    let mut totals = Totals::default();
    let mut fold = Spans::new(thresholds, Floors::new());
    for tick in &ticks[..=cut] {
        fold.push(tick).iter().for_each(|span| totals.add(span));
    }
    let mut again = Spans::new(thresholds, Floors::new());
    let mut rest = Totals::default();
    for tick in &ticks[cut..] {
        again.push(tick).iter().for_each(|span| rest.add(span));
    }
    again
        .finish(Timestamp::MAX)
        .iter()
        .for_each(|span| rest.add(span));
    totals.merge(&rest);
    totals
}

proptest! {
    #![proptest_config(crate::history::cases())]

    #[test]
    fn the_same_ticks_give_the_same_totals_however_they_are_batched(ticks in any_kept_ticks(), cut in 0usize..40, thresholds in any_thresholds()) {
        let whole = sum(&fold(&ticks, thresholds));
        prop_assert_eq!(in_two(&ticks, cut % ticks.len(), thresholds), whole);
    }

    #[test]
    fn cutting_a_window_in_two_changes_no_total(ticks in any_kept_ticks(), thresholds in any_thresholds(), cut in -100.0f64..2000.0) {
        let spans = fold(&ticks, thresholds);
        let mut pieces = Totals::default();
        for period in [Period::new(Timestamp::MIN, at(cut)), Period::new(at(cut), Timestamp::MAX)] {
            spans.iter().for_each(|span| pieces.add_within(span, period));
        }
        prop_assert_eq!(pieces, sum(&spans));
    }

    #[test]
    fn owners_add_up_to_the_gpus_held_time_and_states_to_its_presence(ticks in any_kept_ticks(), thresholds in any_thresholds()) {
        for (_, _, total) in sum(&fold(&ticks, thresholds)).iter() {
            let states: Micros = total.states.values().map(|state| state.micros).sum();
            prop_assert_eq!(states + total.gpu.set_aside, total.gpu.present);
            let seen = total.states.iter().filter(|((state, _), _)| *state != State::Unobserved);
            prop_assert_eq!(seen.map(|(_, state)| state.micros).sum::<Micros>(), total.gpu.observed);
            let unobserved = total.states.iter().filter(|((state, _), _)| *state == State::Unobserved);
            prop_assert_eq!(unobserved.map(|(_, state)| state.micros).sum::<Micros>(), total.unobserved.values().copied().sum());
            let charged: Micros = total.owners.values().map(|owner| owner.charged).sum();
            prop_assert_eq!(charged + total.gpu.free + total.gpu.ownerless, total.gpu.observed);
            for owner in total.owners.values() {
                prop_assert!(owner.charged <= owner.held && owner.held <= total.gpu.observed);
                prop_assert_eq!(owner.used().0 + owner.idle_held.0 + owner.free.0, owner.held.0);
            }
        }
    }

    /// An owner who held a GPU while its counter could be read has energy, however little; any other owner has none.
    #[test]
    fn energy_is_known_for_the_time_in_which_it_was_counted(ticks in any_kept_ticks(), thresholds in any_thresholds()) {
        let spans = fold(&ticks, thresholds);
        let mut held = BTreeMap::<OwnerKey, (Micros, Micros)>::new();
        for span in spans.iter().filter(|span| span.counts()) {
            for part in span.owners_within(span.period()) {
                let times = held.entry(part.owner).or_default();
                times.0 += part.held;
                times.1 += if span.energy.is_ok() { part.held } else { Micros(0) };
            }
        }
        let mut found = BTreeMap::<OwnerKey, OwnerTotal>::new();
        let mut all = Sums::default();
        for (_, _, total) in sum(&spans).iter() {
            all.add(total);
            for (owner, sums) in &total.owners {
                found.entry(owner.clone()).or_default().merge(sums);
            }
        }
        prop_assert!(found.keys().eq(held.keys()));
        for (owner, sums) in &found {
            let (whole, known) = held[owner];
            prop_assert_eq!((sums.held, sums.energy_known), (whole, known));
            prop_assert_eq!(sums.counted_energy().is_some(), known > Micros(0) || whole == Micros(0));
            prop_assert_eq!(sums.counted_energy().unwrap_or_default(), sums.energy);
        }
        let known = spans.iter().filter(|span| span.counts() && span.energy.is_ok());
        prop_assert_eq!(all.energy_known, known.map(|span| span.gpu_time_within(span.period())).sum::<Micros>());
    }

    #[test]
    fn totals_and_coverage_say_the_same(ticks in any_kept_ticks(), thresholds in any_thresholds()) {
        let spans = fold(&ticks, thresholds);
        let mut ledger = Ledger::new(Period::new(at(-1e6), at(1e7)), known(&ticks), &[]);
        spans.iter().for_each(|span| ledger.push(span));
        let totals = sum(&spans);
        for (gpu, coverage) in ledger.finish() {
            let own = totals.iter().filter(|(_, of, _)| **of == gpu);
            prop_assert_eq!(own.map(|(_, _, total)| total.gpu.observed).sum::<Micros>(), coverage.observed());
        }
    }

    #[test]
    fn local_days_of_23_and_25_hours_add_up_to_their_window(spring: bool, thresholds in any_thresholds(), utils in prop::collection::vec(0u32..=100, 8..60), offset in 0i64..3600) {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let change: Timestamp = if spring { "2026-03-29T01:00:00Z" } else { "2026-10-25T01:00:00Z" }.parse().unwrap();
        let hour = jiff::SignedDuration::from_hours(1);
        let mut history = ticks(&utils.iter().map(|util| format!("0 gpu0 util={util} ada:900;")).collect::<String>());
        // One tick an hour that covers an hour, around the clock change.
        for (place, tick) in (0i32..).zip(&mut history) {
            tick.sample.at = change + jiff::SignedDuration::from_secs(offset) + hour * (place - 24);
            tick.interval = std::time::Duration::from_secs(3600);
        }
        let spans = fold(&history, thresholds);
        let window = Period::new(spans[0].from, spans[spans.len() - 1].to);
        let mut by_day = Totals::default();
        for slot in slots(window, &zone, CalendarUnit::Day) {
            let mut day = Totals::default();
            spans.iter().for_each(|span| day.add_within(span, slot.period));
            let observed: Micros = day.iter().map(|(_, _, total)| total.gpu.observed).sum();
            prop_assert_eq!(observed, slot.period.micros());
            by_day.merge(&day);
        }
        prop_assert_eq!(by_day, sum(&spans));
    }
}

#[test]
fn gpus_come_in_order_of_time_and_then_of_uuid() {
    let totals = sum(&fold(&ticks("885 gpu1, gpu0"), Thresholds::default()));
    let order: Vec<_> = totals.iter().map(|(_, gpu, _)| gpu.clone()).collect();
    assert_eq!(order, ["gpu0", "gpu1", "gpu0", "gpu1"].map(uuid));
}
