//! Tests the boundaries of the contract, and the counts of the old tool's demonstration data.

use std::collections::BTreeMap;

use super::*;
use crate::floor::UtcDay;
use crate::period::Quarter;
use crate::report::{Covered, Sums};
use crate::total::{DayTotals, GpuQuarter, QuarterTotal};
use crate::unit::Micros;

/// Leaks test data, so that it has a static lifetime.
pub(super) fn kept<T>(values: Vec<T>) -> &'static [T] {
    Box::leak(values.into())
}

fn tick(
    second: i64,
    gpu: &str,
    util: i64,
    processes: &[(Option<&'static str>, Option<u64>)],
) -> LegacyGpuTick<'static> {
    let processes = processes.iter().map(|(identity, memory_mb)| LegacyProcess {
        pid: 1,
        index: None,
        identity: *identity,
        owner: None,
        name: None,
        memory_mb: *memory_mb,
        kind: ProcessKind::Graphics,
        tool: LegacyTool::GpuUsageAudit,
    });
    LegacyGpuTick {
        at: Timestamp::from_second(second).unwrap(),
        gpu: &kept(vec![gpu.parse().unwrap()])[0],
        util,
        index: None,
        memory_used_mb: None,
        temperature_c: None,
        power_w: None,
        run: LegacyRun::NONE,
        processes: kept(processes.collect()),
        more_rows: &[],
    }
}

/// Folds ticks of any order, each as a moment, into one total of each GPU and quarter.
fn quarters(ticks: &[LegacyGpuTick<'_>]) -> BTreeMap<(Quarter, GpuUuid), QuarterTotal> {
    let mut found = BTreeMap::new();
    let mut give = |quarter: Quarter, gpus: &[GpuQuarter]| {
        for gpu in gpus {
            let key = (quarter, gpu.gpu.clone());
            assert_eq!(found.insert(key, gpu.total.clone()), None);
        }
    };
    let own = OwnCoverage::default();
    let mut fold = ImportedFold::new(old_rule(), &own);
    for moment in ticks.chunk_by(|one, other| one.at == other.at) {
        let moment = LegacyMoment {
            at: moment[0].at,
            ticks: moment,
            strays: &[],
        };
        fold.push(&moment, &mut give);
    }
    fold.finish(&mut give);
    found
}

fn sum(ticks: &[LegacyGpuTick<'_>]) -> Sums {
    let mut sums = Sums::default();
    for total in quarters(ticks).values() {
        sums.add(total);
    }
    sums
}

#[test]
fn the_boundaries_are_the_contracts() {
    let check = |util, memory, class| {
        assert_eq!(
            tick(0, "GPU-0", util, memory).class(&old_rule()),
            class,
            "{util} {memory:?}"
        );
    };
    check(10, &[(None, Some(0))], RollUp::Active);
    check(9, &[(None, Some(101))], RollUp::IdleHeld);
    check(9, &[(None, Some(100))], RollUp::TrulyIdle);
    check(
        0,
        &[(None, Some(60)), (Some("ada"), Some(41))],
        RollUp::IdleHeld,
    );
    check(0, &[(None, None), (None, Some(100))], RollUp::TrulyIdle);
    check(0, &[], RollUp::TrulyIdle);
}

#[test]
fn overlapping_ticks_count_in_full() {
    let ticks = [
        tick(0, "GPU-0", 50, &[]),
        tick(1, "GPU-0", 50, &[]),
        tick(2, "GPU-0", 0, &[]),
    ];
    let seconds = |class| (sum(&ticks).hours(class) * 3600.0).round();
    assert_eq!(seconds(RollUp::Active), 60.0);
    assert_eq!(seconds(RollUp::TrulyIdle), 30.0);
}

#[test]
fn totals_with_another_interval_are_those_of_rows_with_that_interval() {
    // Two GPUs, two recorded intervals, a pause of ten minutes, and more rows of one tick.
    let ticks: Vec<_> = (0..300i64)
        .map(|place| {
            let at = place * 30 + if place > 120 { 600 } else { 0 };
            let memory = u64::try_from(place % 4).unwrap() * 50;
            let mut tick = tick(
                at,
                ["GPU-0", "GPU-1"][usize::from(place % 2 == 0)],
                place % 20,
                &[(Some("ada"), Some(memory)), (None, Some(120))],
            );
            tick.run.interval = Duration::from_secs(if place < 60 { 60 } else { 30 });
            tick.more_rows = if place % 9 == 0 { &[3, 70] } else { &[] };
            tick
        })
        .collect();
    for seconds in [20, 30, 45, 60, 75] {
        let interval = Duration::from_secs(seconds);
        let with_it = ticks.iter().map(|tick| LegacyGpuTick {
            run: LegacyRun {
                interval,
                ..tick.run
            },
            ..*tick
        });
        let expected = quarters(&with_it.collect::<Vec<_>>());
        let mut found = quarters(&ticks);
        let (mut day, mut expected_day) = (DayTotals::default(), DayTotals::default());
        for ((quarter, gpu), total) in &mut found {
            let expected = &expected[&(*quarter, gpu.clone())];
            let place = UtcDay::of_quarter(*quarter).1;
            let named = |total: &QuarterTotal| GpuQuarter {
                gpu: gpu.clone(),
                total: total.clone(),
            };
            day.add(place, &[named(total)]);
            expected_day.add(place, &[named(expected)]);
            total.set_interval(interval.into());
            compare(total, expected, interval);
        }
        for (day, expected) in day.gpus.iter_mut().zip(&expected_day.gpus) {
            day.set_interval(interval.into());
            compare(&day.total, &expected.total, interval);
            assert_eq!(day.quarters, expected.quarters, "{seconds}");
        }
    }
}

/// Compares what another interval changes.
fn compare(found: &QuarterTotal, expected: &QuarterTotal, interval: Duration) {
    assert_eq!(found.states, expected.states, "{interval:?}");
    assert_eq!(found.owners, expected.owners, "{interval:?}");
    let part = |total: &QuarterTotal| total.imported.clone().unwrap();
    let (found, expected) = (part(found), part(expected));
    let times = |part: &ImportedPart| (part.row_time, part.active_time);
    assert_eq!(times(&found), times(&expected), "{interval:?}");
    let coverage = found.coverage.unwrap().with_interval(interval.into());
    let expected = expected.coverage.unwrap();
    let (from, to) = (coverage.first(), Timestamp::from_second(20_000).unwrap());
    let (found, expected) = (coverage.finish(from, to), expected.finish(from, to));
    if interval > Duration::from_secs(30) {
        return assert_eq!(found, expected);
    }
    // The places of gaps within the recorded intervals are unknown.
    let lost: Micros = found.1.iter().map(|gap| gap.micros).sum();
    assert_eq!(found.0.gap, lost);
    let rounded = |covered: &Covered| (covered.observed.0 + 5).next_multiple_of(10);
    assert_eq!(rounded(&found.0), rounded(&expected.0), "{interval:?}");
    let capacity = found.0.observed + found.0.gap;
    assert_eq!(capacity, expected.0.observed + expected.0.gap);
}

#[test]
fn runs_keep_their_own_interval() {
    let mut other = tick(0, "GPU-0", 50, &[(Some("ada"), Some(500))]);
    other.run = LegacyRun {
        run: Some(3),
        interval: Duration::from_millis(2500),
    };
    let sums = sum(&[other, tick(0, "GPU-0", 50, &[(Some("ada"), Some(500))])]);
    assert_eq!(sums.hours(RollUp::Active), 32.5 / 3600.0);
    assert_eq!(sums.held.hours(), 32.5 / 3600.0);
}

#[test]
fn an_identity_counts_once_a_gpu_tick_and_is_idle_held_by_its_own_memory() {
    let totals = quarters(&[
        tick(
            0,
            "GPU-0",
            0,
            &[
                (Some("ada"), Some(60)),
                (Some("ada"), Some(60)),
                (Some("bob"), Some(90)),
                (None, None),
            ],
        ),
        tick(0, "GPU-1", 99, &[(Some("ada"), Some(5000))]),
    ]);
    let found: Vec<_> = totals
        .values()
        .flat_map(|total| &total.owners)
        .map(|(owner, sums)| (owner.name(), sums.imported.ticks, sums.imported.idle_held))
        .collect();
    let (ada, bob) = (Some("ada"), Some("bob"));
    assert_eq!(found, [(None, 1, 0), (ada, 1, 1), (bob, 1, 0), (ada, 1, 0)]);
}

#[test]
fn duplicate_rows_are_one_gpu_tick_and_several_rows() {
    let mut twice = tick(0, "GPU-0", 50, &[]);
    twice.more_rows = &[3];
    let totals = quarters(&[twice]);
    let total = totals.values().next().unwrap();
    let part = total.imported.as_ref().unwrap();
    assert_eq!((total.gpu.ticks, part.rows, part.active_rows), (1, 2, 1));
}

#[test]
fn totals_are_the_same_however_they_are_batched() {
    let ticks: Vec<_> = (0..200i64)
        .map(|place| {
            // Two breaks of different length, one of them within a quarter hour.
            let at =
                place * 30 + if place > 50 { 95 } else { 0 } + if place > 120 { 2000 } else { 0 };
            let gpu = if place % 3 == 0 { "GPU-0" } else { "GPU-1" };
            tick(at, gpu, place % 20, &[(Some("ada"), Some(150))])
        })
        .collect();
    let whole = quarters(&ticks);
    for cut in [1, 51, 77, 121, 180] {
        let mut parts = quarters(&ticks[..cut]);
        for (key, later) in quarters(&ticks[cut..]) {
            parts.entry(key).or_default().merge(&later);
        }
        assert_eq!(parts, whole, "{cut}");
    }
    assert_eq!(sum(&ticks).samples(), 200);
}

#[test]
fn a_quarter_at_a_time_has_every_gpu_that_it_saw() {
    let mut ticks = Vec::new();
    for place in 0..300i64 {
        let user = if place % 7 == 0 { "ada" } else { "bob" };
        if place % 100 < 50 {
            // A GPU that appears only sometimes, before the other one.
            ticks.push(tick(place * 40, "GPU-1", 3, &[]));
        }
        let processes = [(Some(user), Some(150))];
        ticks.push(tick(place * 40, "GPU-0", place % 20, &processes));
    }
    let totals = quarters(&ticks);
    let count = |gpu: &str| -> u64 {
        let of_gpu = totals.iter().filter(|((_, name), _)| name.as_str() == gpu);
        of_gpu.map(|(_, total)| total.gpu.ticks).sum()
    };
    assert_eq!((count("GPU-0"), count("GPU-1")), (300, 150));
    let most = totals.values().map(|total| total.gpu.ticks).max();
    assert_eq!(most, Some(23));
}

#[test]
fn whom_gpu_stats_names_holds_the_gpu_although_no_memory_is_known() {
    let row = LegacyProcess {
        pid: 7,
        index: Some(0),
        identity: None,
        owner: Some("ada"),
        name: None,
        memory_mb: None,
        kind: ProcessKind::Compute,
        tool: LegacyTool::GpuStats,
    };
    let check = |util, class| {
        let tick = LegacyGpuTick {
            util,
            processes: kept(vec![row]),
            ..tick(0, "gpu_stats-0", util, &[])
        };
        assert_eq!(tick.class(&Thresholds::default()), class);
        let held: Vec<_> = tick.identities(&Thresholds::default()).collect();
        assert_eq!(held, [(Some("ada"), class)]);
    };
    check(90, RollUp::Active);
    check(0, RollUp::IdleHeld);
}
