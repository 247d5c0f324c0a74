//! Tests the boundaries of the contract, and the counts of the old tool's demonstration data.

use super::*;

/// Leaks test data, so that it has a static lifetime.
pub(super) fn kept<T>(values: Vec<T>) -> &'static [T] {
    Box::leak(values.into())
}

fn tick(
    second: i64,
    gpu: &str,
    util: i64,
    processes: &[(Option<&'static str>, Option<u64>)],
) -> LegacyCardTick<'static> {
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
    LegacyCardTick {
        at: Timestamp::from_second(second).unwrap(),
        gpu: &kept(vec![gpu.parse().unwrap()])[0],
        util,
        index: None,
        memory_used_mb: None,
        run: LegacyRun::NONE,
        processes: kept(processes.collect()),
        more_rows: &[],
    }
}

fn sum(ticks: &[LegacyCardTick<'_>]) -> LegacyTotals {
    let mut totals = LegacyTotals::default();
    ticks.iter().for_each(|tick| totals.add(tick));
    totals
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
fn overlapping_ticks_count_in_full_and_another_interval_can_be_applied() {
    let totals = sum(&[
        tick(0, "GPU-0", 50, &[]),
        tick(1, "GPU-0", 50, &[]),
        tick(2, "GPU-0", 0, &[]),
    ]);
    let seconds = |class, interval| (totals.hours(class, interval) * 3600.0).round();
    assert_eq!(seconds(RollUp::Active, None), 60.0);
    assert_eq!(seconds(RollUp::TrulyIdle, None), 30.0);
    assert_eq!(seconds(RollUp::Active, Some(Duration::from_secs(1))), 2.0);
}

#[test]
fn runs_keep_their_own_interval() {
    let mut other = tick(0, "GPU-0", 50, &[(Some("ada"), Some(500))]);
    other.run = LegacyRun {
        run: Some(3),
        interval: Duration::from_millis(2500),
    };
    let totals = sum(&[other, tick(0, "GPU-0", 50, &[(Some("ada"), Some(500))])]);
    assert_eq!(totals.hours(RollUp::Active, None), 32.5 / 3600.0);
    assert_eq!(totals.identities(None)[&Some("ada")].0, 32.5 / 3600.0);
}

#[test]
fn an_identity_counts_once_a_card_tick_and_is_idle_held_by_its_own_memory() {
    let totals = sum(&[
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
        .identities(None)
        .into_iter()
        .map(|(name, (_, count))| (name, count.ticks, count.idle_held))
        .collect();
    assert_eq!(
        found,
        [(None, 1, 0), (Some("ada"), 2, 1), (Some("bob"), 1, 0)]
    );
}

#[test]
fn duplicate_rows_are_one_card_tick_and_several_rows() {
    let mut twice = tick(0, "GPU-0", 50, &[]);
    twice.more_rows = &[3];
    let totals = sum(&[twice]);
    let count = totals.counts.values().next().unwrap();
    assert_eq!((count.ticks(), count.rows, count.active_rows), (1, 2, 1));
}

#[test]
fn totals_are_the_same_however_they_are_batched() {
    let ticks: Vec<_> = (0..200i64)
        .map(|place| {
            tick(
                place * 30,
                if place % 3 == 0 { "GPU-0" } else { "GPU-1" },
                place % 20,
                &[(Some("ada"), Some(150))],
            )
        })
        .collect();
    let whole = sum(&ticks);
    let mut parts = sum(&ticks[..77]);
    parts.merge(&sum(&ticks[77..]));
    assert_eq!(parts, whole);
    assert_eq!(
        whole.counts.values().map(LegacyCount::ticks).sum::<u64>(),
        200
    );
}

#[test]
fn a_quarter_at_a_time_counts_the_same() {
    let mut quarters = LegacyQuarters::new(old_rule());
    let mut whole = LegacyTotals::default();
    let mut parts = LegacyTotals::default();
    let mut most = 0;
    let mut give = |key: &LegacyKey, count: &LegacyCount| {
        most = most.max(count.ticks());
        assert_eq!(parts.counts.insert(key.clone(), count.clone()), None);
    };
    for place in 0..300i64 {
        let user = if place % 7 == 0 { "ada" } else { "bob" };
        let mut ticks = vec![tick(
            place * 40,
            "GPU-0",
            place % 20,
            &[(Some(user), Some(150))],
        )];
        if place % 100 < 50 {
            // A GPU that appears only sometimes, before the other one.
            ticks.insert(0, tick(place * 40, "GPU-1", 3, &[]));
        }
        let moment = LegacyMoment {
            at: Timestamp::from_second(place * 40).unwrap(),
            ticks: &ticks,
            strays: &[],
        };
        quarters.push(&moment, &mut give);
        whole.add_all(&moment);
    }
    quarters.finish(&mut give);
    assert_eq!(parts, whole);
    assert_eq!(most, 23);
}

#[test]
fn whom_gpu_stats_names_holds_the_card_although_no_memory_is_known() {
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
        let tick = LegacyCardTick {
            util,
            processes: kept(vec![row]),
            ..tick(0, "gpu_stats-0", util, &[])
        };
        assert_eq!(tick.class(&Thresholds::default()), class);
        let held: Vec<_> = tick.identities(&Thresholds::default()).collect();
        assert_eq!(held, [(Some("ada"), class == RollUp::IdleHeld)]);
    };
    check(90, RollUp::Active);
    check(0, RollUp::IdleHeld);
}
