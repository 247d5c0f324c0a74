//! The simulated month obeys the rules of real GPUs, and contains what it promises.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::classify::{classify, holders};
use crate::sample::Gpu;
use crate::state::{RollUp, State, Thresholds};

fn month() -> Month {
    Month::before(Month::END)
}

/// Fails where a GPU shows what no GPU can show.
fn assert_possible(gpu: &Gpu, at: Timestamp) {
    let about = format!("GPU {} at {at}", gpu.index);
    let model = Model::of(gpu.index);
    let [used, total] = [
        gpu.memory_used_with_reserved().unwrap(),
        gpu.memory_total.unwrap(),
    ];
    assert!(used <= total, "{about}: {used} of {total} used");
    let of_processes: Bytes = gpu
        .processes
        .iter()
        .map(|process| process.memory.unwrap())
        .sum();
    assert!(
        of_processes <= gpu.memory_used.unwrap(),
        "{about}: {of_processes}"
    );
    let power = gpu.power.unwrap();
    assert!(power <= gpu.power_limit.unwrap(), "{about}: {power}");
    assert!(power >= model.idle, "{about}: {power}");
    let util = gpu.util.unwrap().get();
    if util > 0 {
        assert!(
            !gpu.processes.is_empty(),
            "{about}: {util} % without a process"
        );
        assert!(
            power.0 > model.idle.0 + model.limit.0 / 50,
            "{about}: {util} % at {power}"
        );
    }
    let by_process = gpu
        .processes
        .iter()
        .map(|process| process.sm_util.unwrap().unwrap().get());
    assert_eq!(
        by_process.map(u32::from).sum::<u32>(),
        u32::from(util),
        "{about}"
    );
    assert!((20..=90).contains(&gpu.temperature.unwrap().0), "{about}");
    let state = classify(gpu, &Thresholds::default(), None).state;
    let held = holders(gpu, &Thresholds::default()).count() > 0;
    assert_eq!(
        state.roll_up() == Some(RollUp::TrulyIdle),
        !held && util < 10,
        "{about}: {state:?}"
    );
}

#[test]
fn no_gpu_shows_what_a_gpu_cannot_show() {
    let mut before: Option<Tick> = None;
    for tick in month().ticks() {
        assert_eq!(tick.sample.gpus.len(), GPUS as usize);
        for gpu in &tick.sample.gpus {
            assert_possible(gpu, tick.sample.at);
        }
        let mut pids = BTreeMap::new();
        for (gpu, process) in tick
            .sample
            .gpus
            .iter()
            .flat_map(|gpu| gpu.processes.iter().map(move |one| (gpu, one)))
        {
            assert!(
                pids.insert((gpu.index, process.pid), ()).is_none(),
                "a PID is there once"
            );
            if let Ok(identity) = &process.identity {
                let age = identity.age(tick.sample.since_boot, TICKS_PER_SECOND);
                assert!(age.is_some(), "a process starts before it is seen");
                assert_eq!(Ok(identity.key.boot), tick.sample.boot);
            }
        }
        if let Some(before) = &before
            && before.sample.boot == tick.sample.boot
        {
            assert_eq!(
                tick.sample.since_boot - before.sample.since_boot,
                Month::INTERVAL
            );
            for (early, late) in before.sample.gpus.iter().zip(&tick.sample.gpus) {
                let joules = late.energy.unwrap().0 - early.energy.unwrap().0;
                assert_eq!(joules, early.power.unwrap().0 * Month::INTERVAL.as_secs());
            }
        }
        before = Some(tick);
    }
}

#[test]
fn live_samples_after_the_end_continue_the_last_tick() {
    let month = month();
    let last = month.ticks().last().expect("there are ticks").sample;
    for seconds in [0, 1, 59, 3600] {
        let at = Month::END + SignedDuration::from_secs(seconds);
        let sample = month.sample(at);
        assert_eq!(sample.at, at);
        for (gpu, recorded) in sample.gpus.iter().zip(&last.gpus) {
            assert_possible(gpu, at);
            let pids = |gpu: &Gpu| {
                gpu.processes
                    .iter()
                    .map(|process| process.pid)
                    .collect::<Vec<_>>()
            };
            assert_eq!(pids(gpu), pids(recorded), "GPU {}", gpu.index);
        }
    }
}

#[test]
fn a_month_around_a_time_has_its_last_tick_just_before_it() {
    for seconds in [0, 1, 899, 900, 86_399] {
        let now = Month::END + SignedDuration::from_secs(seconds);
        let last = Month::around(now).ticks().last().expect("there are ticks");
        let age = now.duration_since(last.sample.at);
        assert!((0..900).contains(&age.as_secs()), "{age:?} before {now}");
        assert_eq!(last.sample.at.as_second() % 900, 0);
    }
}

#[test]
fn the_month_has_what_it_promises() {
    let month = month();
    assert_eq!(Month::END.to_string(), "2026-10-30T15:00:00Z");
    assert_eq!(month.start().to_string(), "2026-09-30T15:00:00Z");
    let outage = month.outage();
    let ticks: Vec<Tick> = month.ticks().collect();
    assert_eq!(ticks.len() + outage.ticks_lost as usize, 30 * 24 * 4);
    assert!(
        ticks
            .iter()
            .all(|tick| tick.sample.at < outage.from || tick.sample.at >= outage.to)
    );
    let mut people = BTreeSet::new();
    for process in ticks
        .iter()
        .flat_map(|tick| &tick.sample.gpus)
        .flat_map(|gpu| &gpu.processes)
    {
        let Ok(identity) = &process.identity else {
            continue;
        };
        people.extend(identity.owner().map(|owner| owner.shown()));
    }
    let names = [
        "ada",
        "bob",
        "chen",
        "container:llm-api",
        "dana",
        "emre",
        "farid",
        "grace",
    ];
    assert_eq!(people, BTreeSet::from(names.map(str::to_owned)));
    let last = ticks.last().expect("there are ticks");
    let states = last
        .sample
        .gpus
        .iter()
        .map(|gpu| classify(gpu, &Thresholds::default(), None).state);
    use State::{Active, IdleHeld, OrphanHeld, TrulyIdle};
    assert_eq!(
        states.collect::<Vec<_>>(),
        [
            Active, Active, IdleHeld, Active, TrulyIdle, Active, OrphanHeld, IdleHeld
        ]
    );
}

#[test]
fn the_same_end_gives_the_same_month_at_any_time() {
    let [one, two] = [month(), month()].map(|month| month.ticks().collect::<Vec<_>>());
    assert!(one == two);
    let later = Month::before(Month::END + SignedDuration::from_hours(1000));
    let later = later.ticks().map(|tick| tick.sample.gpus);
    assert!(later.eq(one.into_iter().map(|tick| tick.sample.gpus)));
}
