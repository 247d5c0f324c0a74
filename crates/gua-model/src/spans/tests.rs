//! Histories as short texts on the left, spans on the right: `gpu from-to states basis`, in seconds.

use proptest::prelude::*;

use super::*;
use crate::history::{any_kept_ticks, any_thresholds, any_ticks, fold, ticks};
use crate::period::micros_between;
use crate::reading::Missing;
use crate::unit::Micros;
use crate::unit::Millijoules;

fn seconds(moment: Timestamp) -> f64 {
    micros_between(crate::history::at(0.0), moment).hours() * 3600.0
}

fn show(span: &Span) -> String {
    let states: Vec<String> = span
        .shares
        .iter()
        .map(|share| format!("{}:{}", share.verdict.state, share.weight))
        .collect();
    let basis = format!("{:?}", span.basis).to_lowercase();
    let (from, to) = (seconds(span.from).round(), seconds(span.to).round());
    format!("{} {from}-{to} {} {basis}", span.gpu, states.join(" "))
}

#[track_caller]
fn check(history: &str, expected: &[&str]) {
    let spans = fold(&ticks(history), Thresholds::default());
    let shown: Vec<String> = spans.iter().map(show).collect();
    assert_eq!(shown, expected, "{history}");
}

#[test]
fn a_tick_covers_its_interval_or_the_time_until_the_next() {
    check(
        "0 gpu0 util=50 ada:900; 20 gpu0 ada:900; 50 gpu0; 200 gpu0",
        &[
            "gpu0 0-20 active:1 instant",
            "gpu0 20-50 idle-held:1 instant",
            "gpu0 50-80 truly-idle:1 instant",
            "gpu0 200-230 truly-idle:1 instant",
        ],
    );
}

#[test]
fn the_buffer_read_at_the_next_tick_divides_the_time_before_it() {
    check(
        "0 gpu0 ada:900; 30 gpu0 buffer=90+0+0; 60 gpu0 buffer=0+0",
        &[
            "gpu0 0-30 active:1 idle-held:2 buffer",
            "gpu0 30-60 truly-idle:2 buffer",
            "gpu0 60-90 truly-idle:1 instant",
        ],
    );
}

#[test]
fn a_buffer_divides_the_time_of_a_slightly_late_tick_and_not_of_a_missed_one() {
    check(
        "0 gpu0 ada:900; 33 gpu0 buffer=90+0; 70 gpu0 buffer=90+0",
        &[
            "gpu0 0-30 active:1 idle-held:1 buffer",
            "gpu0 33-63 truly-idle:1 instant",
            "gpu0 70-100 truly-idle:1 instant",
        ],
    );
}

#[test]
fn a_buffer_that_does_not_reach_back_divides_nothing() {
    let mut history = ticks("0 gpu0 ada:900; 30 gpu0");
    let short: Vec<(u64, u32)> = (1..=10).map(|second| (second * 1_000_000, 90)).collect();
    history[1].sample.gpus[0].window = Ok(UtilWindow::new(None, &short));
    let spans = fold(&history, Thresholds::default());
    assert_eq!(show(&spans[0]), "gpu0 0-30 idle-held:1 instant");
}

#[test]
fn a_buffer_of_another_boot_divides_nothing() {
    check(
        "0#1 gpu0 ada:900; 30#2 gpu0 buffer=90+0",
        &[
            "gpu0 0-30 idle-held:1 instant",
            "gpu0 30-60 truly-idle:1 instant",
        ],
    );
}

#[test]
fn a_gpu_that_is_lost_and_found_has_no_span_in_between() {
    check(
        "0 gpu0, gpu1; 30 gpu0; 60 gpu0 util=gone, gpu1",
        &[
            "gpu0 0-30 truly-idle:1 instant",
            "gpu1 0-30 truly-idle:1 instant",
            "gpu0 30-60 truly-idle:1 instant",
            "gpu0 60-90 unobserved:1 instant",
            "gpu1 60-90 truly-idle:1 instant",
        ],
    );
}

#[test]
fn time_that_was_accounted_for_is_not_accounted_for_again_when_the_clock_is_set_back() {
    check(
        "0 gpu0; 30 gpu0; 10 gpu0 util=50; 40 gpu0 util=50; 70 gpu0 util=50",
        &[
            "gpu0 0-30 truly-idle:1 instant",
            "gpu0 30-60 truly-idle:1 instant",
            "gpu0 70-100 ghost:1 instant",
        ],
    );
    check(
        "100 gpu0; 80 gpu0 util=50; 110 gpu0",
        &[
            "gpu0 100-130 truly-idle:1 instant",
            "gpu0 80-100 ghost:1 instant",
        ],
    );
}

#[track_caller]
fn check_energy(history: &str, expected: &[Reading<u64>]) {
    let spans = fold(&ticks(history), Thresholds::default());
    let energy: Vec<Reading<u64>> = spans
        .iter()
        .map(|span| span.energy.map(|energy| energy.0))
        .collect();
    assert_eq!(energy, expected, "{history}");
}

#[test]
fn energy_is_the_counters_difference_over_the_time_of_the_span() {
    check_energy(
        "0 gpu0 energy=1000; 30 gpu0 energy=4000; 63 gpu0 energy=7300; 90 gpu0 energy=100; 200 gpu0 energy=500; 230 gpu0",
        &[
            Ok(3000),
            // The next tick was three seconds late: those were nobody's.
            Ok(3000),
            // The driver was reloaded.
            Err(Missing::Failed),
            // The energy of unobserved time belongs to no state.
            Err(Missing::Failed),
            Err(Missing::Unsupported),
            Err(Missing::Unsupported),
        ],
    );
}

#[test]
fn a_holders_own_utilisation_is_the_one_of_the_time_after_the_tick() {
    let spans = fold(
        &ticks("0 gpu0 ada:900%70; 30 gpu0 ada:900%20; 60 gpu0"),
        Thresholds::default(),
    );
    let own: Vec<_> = spans[..2]
        .iter()
        .map(|span| {
            span.holders[0]
                .sm_util
                .map(|util| util.map(|util| util.get()))
        })
        .collect();
    assert_eq!(own, [Ok(Some(20)), Err(Missing::Gone)]);
}

#[test]
fn a_parent_whose_instances_replace_it_does_not_count() {
    let spans = fold(
        &ticks("0 gpu0 instances=1, mig0 parent=gpu0, gpu1"),
        Thresholds::default(),
    );
    let counts: Vec<bool> = spans.iter().map(|span| span.counts()).collect();
    assert_eq!(counts, [false, true, true]);
    assert_eq!(spans[1].parent.as_ref(), Some(&spans[0].gpu));
}

proptest! {
    #![proptest_config(crate::history::cases())]

    #[test]
    fn spans_of_a_gpu_never_overlap_whatever_the_clock_does(ticks in any_ticks(), thresholds in any_thresholds()) {
        let mut by_gpu: BTreeMap<GpuUuid, Vec<Period>> = BTreeMap::new();
        for span in fold(&ticks, thresholds) {
            prop_assert!(!span.period().is_empty());
            by_gpu.entry(span.gpu.clone()).or_default().push(span.period());
        }
        for periods in by_gpu.values_mut() {
            periods.sort();
            // Two instances of a tick may have one UUID.
            periods.dedup();
            prop_assert!(periods.windows(2).all(|two| two[0].to() <= two[1].from()));
        }
    }

    #[test]
    fn a_fold_that_begins_at_any_tick_gives_the_same_spans_from_there_on(ticks in any_kept_ticks(), cut in 0usize..40, thresholds in any_thresholds()) {
        let cut = cut % ticks.len();
        let begin = ticks[cut].sample.at;
        let whole: Vec<Span> = fold(&ticks, thresholds).into_iter().filter(|span| span.from >= begin).collect();
        prop_assert_eq!(fold(&ticks[cut..], thresholds), whole);
    }

    #[test]
    fn the_states_of_a_span_add_up_to_it_under_any_cut(ticks in any_kept_ticks(), thresholds in any_thresholds(), cuts in prop::collection::vec(0.0f64..1.0, 0..5)) {
        for span in fold(&ticks, thresholds) {
            let mut edges: Vec<i64> = cuts.iter().map(|cut| {
                #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "any number will do")]
                let into = (span.period().micros().0 as f64 * cut) as i64;
                span.from.as_microsecond() + into
            }).collect();
            edges.extend([span.from.as_microsecond(), span.to.as_microsecond()]);
            edges.sort_unstable();
            let moment = |micros| Timestamp::from_microsecond(micros).unwrap();
            let pieces: Vec<Period> = edges.windows(2).map(|two| Period::new(moment(two[0]), moment(two[1]))).collect();
            let whole: Vec<_> = span.states_within(span.period()).map(|part| (part.micros, part.energy)).collect();
            let owners: Vec<_> = span.owners_within(span.period()).collect();
            prop_assert_eq!(whole.iter().map(|part| part.0).sum::<Micros>(), span.gpu_time_within(span.period()));
            if let Ok(energy) = span.energy {
                prop_assert_eq!(whole.iter().filter_map(|part| part.1).sum::<Millijoules>(), energy);
            }
            for (index, (micros, energy)) in whole.iter().enumerate() {
                let parts: Vec<_> = pieces.iter().filter_map(|piece| span.states_within(*piece).nth(index)).collect();
                prop_assert_eq!(parts.iter().map(|part| part.micros).sum::<Micros>(), *micros);
                prop_assert_eq!(parts.iter().filter_map(|part| part.energy).sum::<Millijoules>(), energy.unwrap_or_default());
            }
            let observed = span.observed_within(span.period());
            if !owners.is_empty() {
                let in_use = span.states_within(span.period());
                let in_use = in_use.filter(|part| !matches!(part.verdict.state, State::Unobserved | State::TrulyIdle));
                prop_assert_eq!(owners.iter().map(|owner| owner.charged).sum::<Micros>(), in_use.map(|part| part.micros).sum());
            }
            for (index, owner) in owners.iter().enumerate() {
                prop_assert_eq!(owner.held, observed);
                let parts: Vec<_> = pieces.iter().filter_map(|piece| span.owners_within(*piece).nth(index)).collect();
                prop_assert_eq!(parts.iter().map(|part| part.charged).sum::<Micros>(), owner.charged);
                prop_assert_eq!(parts.iter().map(|part| part.held).sum::<Micros>(), owner.held);
                prop_assert_eq!(parts.iter().filter_map(|part| part.energy).sum::<Millijoules>(), owner.energy.unwrap_or_default());
            }
        }
    }
}
