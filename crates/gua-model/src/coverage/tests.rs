//! Histories as short texts on the left, coverage on the right. Random histories are compared with a slow count, moment
//! by moment.

use proptest::prelude::*;

use super::*;
use crate::history::{
    any_kept_ticks, any_outages, any_thresholds, any_ticks, at, fold, known, ticks, uuid,
};
use crate::state::Thresholds;
use crate::tick::Tick;
use crate::total::Totals;

fn cover(
    ticks: &[Tick],
    thresholds: Thresholds,
    window: Period,
    outages: &[Outage],
) -> BTreeMap<GpuUuid, Coverage> {
    let mut ledger = Ledger::new(window, known(ticks), outages);
    for span in fold(ticks, thresholds) {
        ledger.push(&span);
    }
    ledger.finish()
}

/// Formats the seconds of each state, the capacity, and every gap.
fn show(coverage: &Coverage) -> String {
    let seconds = |micros: Micros| (micros.hours() * 3600.0).round();
    let mut words = vec![format!("capacity {}", seconds(coverage.capacity))];
    for (state, micros) in &coverage.states {
        words.push(format!("{state} {}", seconds(*micros)));
    }
    for gap in &coverage.gaps {
        words.push(format!("{} {}", gap.reason, seconds(gap.micros)));
    }
    words.join(" | ")
}

#[track_caller]
fn check(
    history: &str,
    (from, to): (f64, f64),
    outages: &[(f64, f64, GapReason)],
    expected: &[(&str, &str)],
) {
    let outages: Vec<Outage> = outages
        .iter()
        .map(|(from, to, reason)| Outage {
            from: at(*from),
            to: at(*to),
            reason: *reason,
            detail: String::new(),
            ticks_lost: 0,
        })
        .collect();
    let window = Period::new(at(from), at(to));
    let found = cover(&ticks(history), Thresholds::default(), window, &outages);
    for (gpu, words) in expected {
        let coverage = &found[&uuid(gpu)];
        assert_eq!(show(coverage), *words, "{history}: {gpu}");
        assert_eq!(coverage.balance(), 0, "{history}: {gpu}");
    }
}

#[test]
fn an_hour_without_a_collector_is_a_gap_and_not_idle_time() {
    check(
        "0 gpu0 ada:900; 30 gpu0; 3660 gpu0",
        (0.0, 3690.0),
        &[],
        &[(
            "gpu0",
            "capacity 3690 | idle-held 30 | truly-idle 60 | collector-down 3600",
        )],
    );
}

#[test]
fn time_before_a_cards_first_sample_is_outside_the_window_and_not_a_gap() {
    check(
        "100 gpu0; 130 gpu0, gpu1",
        (0.0, 160.0),
        &[],
        &[
            ("gpu0", "capacity 60 | truly-idle 60"),
            ("gpu1", "capacity 30 | truly-idle 30"),
        ],
    );
}

#[test]
fn a_gap_has_the_reason_of_the_outage_that_it_lies_in() {
    check(
        "0 gpu0; 300 gpu0",
        (0.0, 330.0),
        &[
            (30.0, 200.0, GapReason::DriverHung),
            (150.0, 250.0, GapReason::DiskFull),
        ],
        &[(
            "gpu0",
            "capacity 330 | truly-idle 60 | driver-hung 170 | disk-full 50 | collector-down 50",
        )],
    );
}

#[test]
fn a_card_that_others_were_seen_without_is_lost() {
    check(
        "0 gpu0, gpu1; 30 gpu0; 60 gpu0, gpu1 util=gone; 90 gpu0, gpu1 util=denied",
        (0.0, 150.0),
        &[],
        &[
            ("gpu0", "capacity 150 | truly-idle 120 | collector-down 30"),
            (
                "gpu1",
                "capacity 150 | truly-idle 30 | card-lost 60 | denied 30 | collector-down 30",
            ),
        ],
    );
}

#[test]
fn what_a_late_tick_leaves_between_two_gaps_of_one_reason_is_part_of_them() {
    let history = "0 gpu0; 30 gpu0 util=gone; 60.4 gpu0 util=gone; 90.4 gpu0 util=gone; 120.4 gpu0";
    let window = Period::new(at(0.0), at(150.0));
    let found = cover(&ticks(history), Thresholds::default(), window, &[]);
    let gaps = &found[&uuid("gpu0")].gaps;
    let lost = Period::new(at(30.0), at(120.4));
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!(
        (gaps[0].period, gaps[0].reason),
        (lost, GapReason::CardLost)
    );
    assert!(gaps[0].is_whole());
}

#[test]
fn a_gap_of_a_quarter_hour_that_cannot_be_placed_does_not_move_the_one_after_it() {
    // A tick is ten seconds late; after it, sampling stops.
    let history = "0 gpu0; 40 gpu0; 70 gpu0";
    let all = ticks(history);
    let mut totals = Totals::default();
    fold(&all, Thresholds::default())
        .iter()
        .for_each(|span| totals.add(span));
    let mut ledger = Ledger::new(Period::new(at(0.0), at(500.0)), known(&all), &[]);
    for (_, cards) in totals.by_quarter() {
        assert!(ledger.is_ragged(&cards));
        ledger.push_quarter(&cards);
    }
    let gaps = ledger.finish().remove(&uuid("gpu0")).unwrap().gaps;
    let found: Vec<_> = gaps.iter().map(|gap| (gap.period, gap.micros)).collect();
    let loose = (Period::new(at(0.0), at(100.0)), Micros::from_secs(10));
    let after = (Period::new(at(100.0), at(500.0)), Micros::from_secs(400));
    assert_eq!(found, [loose, after]);
}

#[test]
fn a_card_and_its_instances_are_never_counted_together() {
    check(
        "0 gpu0; 30 gpu0 instances=1, mig0 parent=gpu0 ada:900; 60 gpu0 instances=1, mig0 parent=gpu0; 90 gpu0; 120 gpu0",
        (0.0, 180.0),
        &[],
        &[
            ("gpu0", "capacity 120 | truly-idle 90 | collector-down 30"),
            (
                "mig0",
                "capacity 90 | idle-held 30 | truly-idle 30 | collector-down 30",
            ),
        ],
    );
}

#[test]
fn a_card_of_which_nothing_was_seen_in_the_window_is_all_gap() {
    check(
        "0 gpu0",
        (1000.0, 1060.0),
        &[],
        &[("gpu0", "capacity 60 | collector-down 60")],
    );
}

fn window() -> impl Strategy<Value = Period> {
    (-300.0f64..3000.0, 0.0f64..4000.0)
        .prop_map(|(from, length)| Period::new(at(from), at(from + length)))
}

/// Classifies a moment from the ticks alone: `None` outside capacity, `Some(false)` if no tick has the GPU.
fn slow(ticks: &[Tick], gpu: &GpuUuid, moment: Timestamp) -> Option<bool> {
    let stands = ticks.iter().rev().find(|tick| tick.sample.at <= moment);
    let sample = stands
        .filter(|tick| moment < interval_end(tick))
        .map(|tick| &tick.sample);
    let find =
        |uuid: &GpuUuid| sample.and_then(|sample| sample.gpus.iter().find(|gpu| gpu.uuid == *uuid));
    let parent = (gpu.as_str() == "mig2a").then(|| uuid("gpu2"));
    match (find(gpu), parent.as_ref().and_then(find)) {
        (Some(found), _) if !found.place.counts() => None,
        (Some(_), _) => Some(true),
        (None, Some(_)) => None,
        (None, None) => Some(false),
    }
}

fn interval_end(tick: &Tick) -> Timestamp {
    tick.sample.at.checked_add(tick.interval).unwrap()
}

/// Splits the window wherever anything may begin or end.
fn moments(ticks: &[Tick], window: Period) -> Vec<Period> {
    let mut edges = vec![window.from(), window.to()];
    for tick in ticks {
        edges.extend([tick.sample.at, interval_end(tick)]);
    }
    edges.sort();
    edges
        .windows(2)
        .filter_map(|two| Period::new(two[0], two[1]).overlap(window))
        .collect()
}

proptest! {
    #![proptest_config(crate::history::cases())]

    #[test]
    fn states_and_gaps_are_the_capacity_whatever_happens(ticks in any_ticks(), thresholds in any_thresholds(), window in window(), outages in any_outages()) {
        for (gpu, coverage) in cover(&ticks, thresholds, window, &outages) {
            prop_assert_eq!(coverage.balance(), 0, "{} {:?}", gpu, coverage);
            prop_assert!(!coverage.states.contains_key(&State::Unobserved));
            prop_assert!(coverage.gaps.iter().all(|gap| gap.micros <= gap.period.micros()));
            prop_assert!(coverage.gaps.iter().all(|gap| gap.period.overlap(window) == Some(gap.period)));
            let whole: Vec<_> = coverage.gaps.iter().filter(|gap| gap.micros == gap.period.micros()).collect();
            prop_assert!(whole.windows(2).all(|two| two[0].period.to() <= two[1].period.from()));
        }
    }

    #[test]
    fn cutting_a_window_in_two_changes_no_number(ticks in any_ticks(), thresholds in any_thresholds(), window in window(), outages in any_outages(), cut in 0.0f64..4000.0) {
        let cut = at(cut).clamp(window.from(), window.to());
        let whole = cover(&ticks, thresholds, window, &outages);
        let one = cover(&ticks, thresholds, Period::new(window.from(), cut), &outages);
        let two = cover(&ticks, thresholds, Period::new(cut, window.to()), &outages);
        let by_reason = |coverages: &[&Coverage]| {
            let mut sums: BTreeMap<GapReason, Micros> = BTreeMap::new();
            for gap in coverages.iter().flat_map(|coverage| &coverage.gaps) {
                *sums.entry(gap.reason).or_default() += gap.micros;
            }
            sums.retain(|_, micros| *micros > Micros(0));
            sums
        };
        for (gpu, whole) in &whole {
            let (one, two) = (&one[gpu], &two[gpu]);
            prop_assert_eq!(one.capacity + two.capacity, whole.capacity);
            prop_assert_eq!(one.buffered + two.buffered, whole.buffered);
            for state in State::ALL {
                let of = |coverage: &Coverage| coverage.states.get(&state).copied().unwrap_or_default();
                prop_assert_eq!(of(one) + of(two), of(whole));
            }
            prop_assert_eq!(by_reason(&[one, two]), by_reason(&[whole]));
        }
    }

    #[test]
    fn whole_quarters_from_totals_and_edges_from_spans_balance_and_have_the_same_states(ticks in any_kept_ticks(), thresholds in any_thresholds(), window in window(), outages in any_outages()) {
        let spans = fold(&ticks, thresholds);
        let mut totals = Totals::default();
        let mut ledger = Ledger::new(window, known(&ticks), &outages);
        for span in &spans {
            totals.add(span);
        }
        for (quarter, cards) in totals.by_quarter() {
            if quarter.period().overlap(window) == Some(quarter.period()) {
                ledger.push_quarter(&cards);
            }
        }
        let edges: Vec<Period> = window
            .quarters()
            .filter(|(quarter, part)| quarter.period() != *part)
            .map(|(_, part)| part)
            .collect();
        for (span, edge) in spans.iter().flat_map(|span| edges.iter().map(move |edge| (span, edge))) {
            ledger.push_within(span, *edge);
        }
        let raw = cover(&ticks, thresholds, window, &outages);
        for (gpu, coverage) in ledger.finish() {
            let expected = &raw[&gpu];
            prop_assert_eq!(coverage.balance(), 0, "{} {:?}", gpu, coverage);
            prop_assert_eq!(&coverage.states, &expected.states, "{}", gpu);
            prop_assert_eq!(coverage.buffered, expected.buffered);
            if gpu.as_str() != "mig2a" {
                prop_assert_eq!(coverage.capacity, expected.capacity, "{}", gpu);
                prop_assert_eq!(coverage.gap(), expected.gap(), "{}", gpu);
            }
        }
    }

    #[test]
    fn quarters_that_the_window_cuts_balance_too(ticks in any_kept_ticks(), thresholds in any_thresholds(), window in window(), outages in any_outages()) {
        let mut totals = Totals::default();
        for span in &fold(&ticks, thresholds) {
            totals.add_within(span, window);
        }
        let mut ledger = Ledger::new(window, known(&ticks), &outages);
        for (_, cards) in totals.by_quarter() {
            ledger.push_quarter(&cards);
        }
        let raw = cover(&ticks, thresholds, window, &outages);
        for (gpu, coverage) in ledger.finish() {
            let expected = &raw[&gpu];
            prop_assert_eq!(coverage.balance(), 0, "{} {:?}", gpu, coverage);
            prop_assert_eq!(&coverage.states, &expected.states, "{}", gpu);
            prop_assert_eq!(coverage.buffered, expected.buffered);
            if gpu.as_str() != "mig2a" {
                prop_assert_eq!(coverage.capacity, expected.capacity, "{}", gpu);
                prop_assert_eq!(coverage.gap(), expected.gap(), "{}", gpu);
            }
        }
    }

    #[test]
    fn capacity_and_gaps_are_what_a_slow_count_of_ticks_finds(ticks in any_kept_ticks(), thresholds in any_thresholds(), window in window()) {
        let spans = fold(&ticks, thresholds);
        let first = known(&ticks);
        for (gpu, coverage) in cover(&ticks, thresholds, window, &[]) {
            let (mut capacity, mut missing) = (Micros(0), Micros(0));
            for part in moments(&ticks, window).into_iter().filter(|part| part.from() >= first[&gpu].first) {
                match slow(&ticks, &gpu, part.from()) {
                    None => {}
                    Some(present) => {
                        capacity += part.micros();
                        missing += if present { Micros(0) } else { part.micros() };
                    }
                }
            }
            let own = spans.iter().filter(|span| span.gpu == gpu && span.counts);
            let unread: Micros = own
                .flat_map(|span| span.states_within(window))
                .filter(|part| part.verdict.state == State::Unobserved)
                .map(|part| part.micros)
                .sum();
            prop_assert_eq!(coverage.capacity, capacity, "{}", gpu);
            prop_assert_eq!(coverage.gap(), missing + unread, "{}", gpu);
        }
    }
}
