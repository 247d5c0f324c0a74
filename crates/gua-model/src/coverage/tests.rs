//! Histories as short texts on the left, coverage on the right. Random histories are compared with a slow count, moment
//! by moment.

use proptest::prelude::*;

use super::*;
use crate::history::{
    any_kept_ticks, any_outages, any_thresholds, any_ticks, at, fold, known, ticks, uuid,
};
use crate::reading::Missing;
use crate::sample::Gpu;
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
fn time_before_a_gpus_first_sample_is_outside_the_window_and_not_a_gap() {
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
fn a_gpu_that_others_were_seen_without_is_lost() {
    check(
        "0 gpu0, gpu1; 30 gpu0; 60 gpu0, gpu1 util=gone; 90 gpu0, gpu1 util=denied",
        (0.0, 150.0),
        &[],
        &[
            ("gpu0", "capacity 150 | truly-idle 120 | collector-down 30"),
            (
                "gpu1",
                "capacity 150 | truly-idle 30 | gpu-lost 60 | denied 30 | collector-down 30",
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
    assert_eq!((gaps[0].period, gaps[0].reason), (lost, GapReason::GpuLost));
    assert!(gaps[0].is_whole());
}

#[test]
fn a_lost_gpu_is_lost_also_while_no_collector_runs() {
    let lost = "capacity 630 | truly-idle 60 | gpu-lost 570";
    // The collector stops for nine minutes; the driver knows that the GPU is lost, or does not list it.
    for history in [
        "0 gpu0, gpu1; 30 gpu0, gpu1 util=gone; 570 gpu0, gpu1 util=gone; 600 gpu0, gpu1",
        "0 gpu0, gpu1; 30 gpu0; 570 gpu0; 600 gpu0, gpu1",
        "0 gpu0, gpu1; 30 gpu0, gpu1 util=gone; 570 gpu0; 600 gpu0, gpu1",
    ] {
        let stalled = (60.0, 570.0, GapReason::CollectorDown);
        for outages in [&[][..], &[stalled]] {
            let expected = [
                ("gpu0", "capacity 630 | truly-idle 120 | collector-down 510"),
                ("gpu1", lost),
            ];
            check(history, (0.0, 630.0), outages, &expected);
        }
    }
    // The only GPU of a host.
    let history = "0 gpu1; 30 gpu1 util=gone; 570 gpu1 util=gone; 600 gpu1";
    check(history, (0.0, 630.0), &[], &[("gpu1", lost)]);
}

#[test]
fn late_ticks_at_a_fifth_of_a_second_leave_no_gap_without_a_collector_in_a_loss() {
    let mut history = String::from("0 gpu0");
    // Every third tick is two seconds late, because calls to a lost GPU are slow.
    for number in 1..90 {
        let late = f64::from(number / 3) * 2.0;
        history += &format!("; {} gpu0 util=gone", f64::from(number) * 0.2 + late);
    }
    let mut ticks = ticks(&history);
    for tick in &mut ticks {
        tick.interval = std::time::Duration::from_millis(200);
    }
    let window = Period::new(at(0.0), ticks.last().unwrap().sample.at);
    let found = cover(&ticks, Thresholds::default(), window, &[]);
    let reasons: Vec<_> = found[&uuid("gpu0")]
        .gaps
        .iter()
        .map(|gap| gap.reason)
        .collect();
    assert_eq!(reasons, [GapReason::GpuLost]);
}

#[test]
fn the_time_of_a_host_is_that_of_the_gpu_which_was_seen_most() {
    let check = |history: &str, seconds: u64| {
        let mut totals = Totals::default();
        fold(&ticks(history), Thresholds::default())
            .iter()
            .for_each(|span| totals.add(span));
        let found: Micros = totals
            .by_quarter()
            .map(|(_, gpus)| host_time(gpus.iter().map(GpuQuarter::named)))
            .sum();
        assert_eq!(found, Micros::from_secs(seconds), "{history}");
    };
    check("0 gpu0, gpu1; 30 gpu0, gpu1", 60);
    // One after the other.
    check("0 gpu0; 30 gpu1; 60 gpu1", 90);
    // A late tick, a GPU that is missing once, and one that is lost.
    check("0 gpu0, gpu1; 40 gpu0; 70 gpu0, gpu1", 90);
    check("0 gpu0, gpu1 util=gone; 400 gpu0, gpu1 util=gone", 60);
    check(
        "0 gpu0 instances=1, mig0 parent=gpu0:1/7; 30 gpu0 instances=1, mig0 parent=gpu0:1/7",
        60,
    );
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
    for (_, gpus) in totals.by_quarter() {
        assert!(ledger.is_ragged(&gpus));
        ledger.push_totals(gpus.iter().map(GpuQuarter::named));
    }
    let gaps = ledger.finish().remove(&uuid("gpu0")).unwrap().gaps;
    let found: Vec<_> = gaps.iter().map(|gap| (gap.period, gap.micros)).collect();
    let loose = (Period::new(at(0.0), at(100.0)), Micros::from_secs(10));
    let after = (Period::new(at(100.0), at(500.0)), Micros::from_secs(400));
    assert_eq!(found, [loose, after]);
}

#[test]
fn a_gpu_and_its_instances_are_never_counted_together() {
    check(
        "0 gpu0; 30 gpu0 instances=1, mig0 parent=gpu0 ada:900; 60 gpu0 instances=1, mig0 parent=gpu0; 90 gpu0; 120 gpu0",
        (0.0, 180.0),
        &[],
        &[
            ("gpu0", "capacity 120 | truly-idle 90 | collector-down 30"),
            ("mig0", "capacity 60 | idle-held 30 | truly-idle 30"),
        ],
    );
}

#[test]
fn an_instance_counts_for_its_slices_and_its_parent_for_the_rest() {
    check(
        "0 gpu0 instances=1, mig0 parent=gpu0:3/7 ada:900; 70 gpu0 instances=1, mig0 parent=gpu0:3/7; 140 gpu0 instances=2, mig0 parent=gpu0:3/7, mig1 parent=gpu0:4/7 bob:900",
        (0.0, 170.0),
        &[],
        &[
            // Four sevenths of a minute are free, and there is no sample between the ticks.
            (
                "gpu0",
                "capacity 114 | truly-idle 34 | collector-down 40 | collector-down 40",
            ),
            ("mig0", "capacity 39 | idle-held 13 | truly-idle 26"),
            ("mig1", "capacity 17 | idle-held 17"),
        ],
    );
}

#[test]
fn a_removed_instance_is_not_lost_and_does_not_return_in_a_later_outage() {
    check(
        "0 gpu0; 30 gpu0 instances=1, mig0 parent=gpu0:7/7; 60 gpu0; 90 gpu0; 300 gpu0",
        (0.0, 330.0),
        &[(120.0, 300.0, GapReason::DriverHung)],
        &[
            ("gpu0", "capacity 300 | truly-idle 120 | driver-hung 180"),
            ("mig0", "capacity 30 | truly-idle 30"),
        ],
    );
}

#[test]
fn two_instances_with_one_uuid_have_the_time_of_both() {
    check(
        "0 gpu0 instances=2, mig0 parent=gpu0:3/7 ada:900, mig0 parent=gpu0:2/7",
        (0.0, 30.0),
        &[],
        &[
            ("gpu0", "capacity 9 | truly-idle 9"),
            ("mig0", "capacity 21 | idle-held 13 | truly-idle 9"),
        ],
    );
}

#[test]
fn a_parent_whose_instances_cannot_all_be_read_is_unobserved() {
    for history in [
        "0 gpu0 instances=2, mig0 parent=gpu0:3/7",
        "0 mig0 parent=gpu0:3/7",
    ] {
        let expected = [
            ("gpu0", "capacity 17 | failed 17"),
            ("mig0", "capacity 13 | truly-idle 13"),
        ];
        check(history, (0.0, 30.0), &[], &expected);
    }
}

#[test]
fn a_gpu_of_which_nothing_was_seen_in_the_window_is_all_gap() {
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

/// Whether a tick that covers the moment has the physical GPU or an instance of it. A tick that shows the GPU lost covers
/// the time until the next one that does not find it either.
fn slow(ticks: &[Tick], gpu: &GpuUuid, moment: Timestamp) -> bool {
    let Some(place) = ticks.iter().rposition(|tick| tick.sample.at <= moment) else {
        return false;
    };
    let is_it = |seen: &&Gpu| seen.uuid == *gpu || seen.place.parent() == Some(gpu);
    let family =
        |tick: &Tick| -> Vec<Gpu> { tick.sample.gpus.iter().filter(is_it).cloned().collect() };
    let seen = family(&ticks[place]);
    let is_lost = |gpus: &[Gpu]| gpus.iter().all(|gpu| gpu.util == Err(Missing::Gone));
    let has_parent = seen.iter().any(|seen| seen.uuid == *gpu);
    let stays_lost = || {
        let mut later = family(&ticks[place + 1]);
        later.retain(|later| seen.iter().any(|seen| seen.uuid == later.uuid));
        has_parent && is_lost(&seen) && is_lost(&later)
    };
    let is_covered = moment < interval_end(&ticks[place]);
    !seen.is_empty() && (is_covered || (place + 1 < ticks.len() && stays_lost()))
}

/// The GPUs that are accounted for as one physical GPU.
fn family(gpu: &GpuUuid) -> Vec<GpuUuid> {
    match gpu.as_str() {
        "gpu2" => ["gpu2", "mig2a", "mig2b", "mig2c"].map(uuid).to_vec(),
        _ => vec![gpu.clone()],
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
                // A GPU that was lost before and after some time was lost in it; a cut hides the one or the other.
                let reason = match gap.reason {
                    GapReason::GpuLost => GapReason::CollectorDown,
                    other => other,
                };
                *sums.entry(reason).or_default() += gap.micros;
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
        for (quarter, gpus) in totals.by_quarter() {
            if quarter.period().overlap(window) == Some(quarter.period()) {
                ledger.push_totals(gpus.iter().map(GpuQuarter::named));
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
            prop_assert_eq!(coverage.capacity, expected.capacity, "{}", gpu);
            prop_assert_eq!(coverage.gap(), expected.gap(), "{}", gpu);
        }
    }

    #[test]
    fn quarters_that_the_window_cuts_balance_too(ticks in any_kept_ticks(), thresholds in any_thresholds(), window in window(), outages in any_outages()) {
        let mut totals = Totals::default();
        for span in &fold(&ticks, thresholds) {
            totals.add_within(span, window);
        }
        let mut ledger = Ledger::new(window, known(&ticks), &outages);
        for (_, gpus) in totals.by_quarter() {
            ledger.push_totals(gpus.iter().map(GpuQuarter::named));
        }
        let raw = cover(&ticks, thresholds, window, &outages);
        for (gpu, coverage) in ledger.finish() {
            let expected = &raw[&gpu];
            prop_assert_eq!(coverage.balance(), 0, "{} {:?}", gpu, coverage);
            prop_assert_eq!(&coverage.states, &expected.states, "{}", gpu);
            prop_assert_eq!(coverage.buffered, expected.buffered);
            prop_assert_eq!(coverage.capacity, expected.capacity, "{}", gpu);
            prop_assert_eq!(coverage.gap(), expected.gap(), "{}", gpu);
        }
    }

    #[test]
    fn a_physical_gpu_is_one_gpu_and_its_gaps_are_what_a_slow_count_of_ticks_finds(ticks in any_kept_ticks(), thresholds in any_thresholds(), window in window()) {
        let spans = fold(&ticks, thresholds);
        let known = known(&ticks);
        let coverage = cover(&ticks, thresholds, window, &[]);
        for (gpu, first) in known.iter().filter(|(_, known)| !known.is_instance) {
            let counted = Period::new(window.from().max(first.first), window.to());
            let (seen, missed): (Vec<Period>, Vec<Period>) = moments(&ticks, counted)
                .into_iter()
                .partition(|part| slow(&ticks, gpu, part.from()));
            let missing: Micros = missed.into_iter().map(Period::micros).sum();
            let family = family(gpu);
            let all = || family.iter().filter_map(|gpu| coverage.get(gpu));
            // A lost GPU has a span up to the next tick, which may include time that no tick covers.
            let unread: Micros = spans
                .iter()
                .filter(|span| family.contains(&span.gpu))
                .flat_map(|span| seen.iter().flat_map(|part| span.states_within(*part)))
                .filter(|part| part.verdict.state == State::Unobserved)
                .map(|part| part.micros)
                .sum();
            let capacity: Micros = all().map(|coverage| coverage.capacity).sum();
            let gap: Micros = all().map(Coverage::gap).sum();
            prop_assert_eq!(capacity, counted.micros(), "{}", gpu);
            prop_assert_eq!(gap, missing + unread, "{}", gpu);
        }
    }
}
