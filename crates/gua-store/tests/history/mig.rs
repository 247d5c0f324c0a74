//! MIG instances that come and go. A physical GPU is one GPU of capacity, however it is partitioned.

use std::time::Duration;

use gua_model::report::{Note, Report};
use gua_model::statement::Balance;
use gua_model::{
    BootId, Driver, Gpu, Micros, Millijoules, Missing, Percent, Period, Place, Sample, Slice, Tick,
};
use gua_query::Question;
use gua_store::{History, NewRun, RunId, Store, WriterOptions};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use crate::{Place as Directory, open};

const PARENT: &str = "GPU-0";
const INTERVAL: Duration = Duration::from_secs(10);

fn noon() -> Timestamp {
    "2026-11-14T12:00:00Z".parse().unwrap()
}

/// One GPU with instances, each given by the final character of its UUID and its number of slices out of seven.
fn tick(seconds: i64, instances: &[(char, u32)]) -> Tick {
    let mut parent = Gpu::without_readings(PARENT.parse().unwrap(), 0, Missing::Unsupported);
    parent.place = Place::Parent {
        instances: u32::try_from(instances.len()).unwrap(),
    };
    parent.energy = Ok(Millijoules(1000 * seconds.unsigned_abs()));
    let instance = |(letter, slices): &(char, u32)| {
        let uuid = format!("MIG-{letter}").parse().unwrap();
        let mut gpu = Gpu::without_readings(uuid, 0, Missing::Unsupported);
        gpu.util = Ok(Percent::new(50).unwrap());
        gpu.place = Place::Instance {
            parent: PARENT.parse().unwrap(),
            gpu_instance: Ok(1),
            compute_instance: Ok(0),
            slice: Ok(Slice {
                slices: *slices,
                of: 7,
            }),
        };
        gpu
    };
    let mut gpus = vec![parent];
    gpus.extend(instances.iter().map(instance));
    for gpu in &mut gpus {
        gpu.compute_list = Ok(());
        gpu.graphics_list = Ok(());
    }
    Tick {
        sample: Sample {
            at: noon() + SignedDuration::from_secs(seconds),
            since_boot: Duration::from_secs(1000 + seconds.unsigned_abs()),
            boot: Ok(BootId(1)),
            driver: Driver {
                version: Err(Missing::Unsupported),
                cuda: Err(Missing::Unsupported),
            },
            gpus,
            problems: Vec::new(),
        },
        interval: INTERVAL,
    }
}

fn begin(store: &mut Store, seconds: i64) -> RunId {
    let run = NewRun {
        started: noon() + SignedDuration::from_secs(seconds),
        interval: INTERVAL,
        host: "node1".to_owned(),
        version: "0.1.0".to_owned(),
        boot: Some(BootId(1)),
    };
    store.begin_run(&run).unwrap()
}

fn report(history: &History, from: i64, to: i64) -> Report {
    let at = |seconds| noon() + SignedDuration::from_secs(seconds);
    let window = Period::new(at(from), at(to));
    gua_query::report(history, &Question::of_window(window, TimeZone::UTC, at(to))).unwrap()
}

#[test]
fn an_instance_that_lives_between_two_key_ticks_is_no_lost_gpu() {
    let place = Directory::new();
    let mut store = place.store();
    let run = begin(&mut store, 0);
    let layouts: [&[(char, u32)]; 3] = [&[], &[('a', 3)], &[]];
    for (instances, seconds) in layouts.into_iter().zip([0, 10, 20]) {
        store.record(run, &tick(seconds, instances)).unwrap();
    }
    store.close().unwrap();
    let history = place.history();
    let instance = &history.gpus().unwrap()[1];
    assert_eq!(instance.parent, Some(PARENT.parse().unwrap()));
    assert_eq!(instance.slice, Some(Slice { slices: 3, of: 7 }));
    let report = report(&history, 0, 3600);
    assert_eq!(report.coverage.capacity, Micros::from_secs(3600));
    assert_eq!(report.coverage.gap, Micros::from_secs(3570));
    let of_instance = &report.gpus[1];
    assert_eq!(of_instance.covered.capacity, Micros(4_285_713));
    assert_eq!(of_instance.covered.gap, Micros(0));
    // The energy of the parent is counted once: 1000 mJ each second between the first and the last tick.
    assert_eq!(report.all.energy, Millijoules(20_000));
    assert_eq!(of_instance.sums.energy, Millijoules(4284));
}

/// One step of a test: a change, then ticks.
#[derive(Clone, Debug)]
struct Step {
    instances: Vec<(char, u32)>,
    ticks: i64,
    /// Time without a collector, and whether the history is reopened after it.
    down: i64,
    restart: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let letter = prop::sample::select(vec!['a', 'b', 'c', 'd']);
    let instances = prop::collection::vec((letter, 1u32..4), 0..4);
    (instances, 0i64..40, 0i64..2000, any::<bool>()).prop_map(
        |(instances, ticks, down, restart)| Step {
            instances,
            ticks,
            down: if restart { down } else { 0 },
            restart,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn one_gpu_is_one_gpu_whatever_is_created_destroyed_lost_and_restarted(steps in prop::collection::vec(step(), 1..12), from in -100i64..3000, length in 1i64..9000, keep in prop::option::of(900u64..4000)) {
        let place = Directory::new();
        let mut options = WriterOptions { keep_raw: None, ..WriterOptions::default() };
        let mut store = open(&place.path(), &options);
        let mut run = begin(&mut store, 0);
        let mut now = 0;
        store.record(run, &tick(now, &[])).unwrap();
        for step in &steps {
            if step.restart {
                store.close().unwrap();
                store = open(&place.path(), &options);
                run = begin(&mut store, now);
            }
            now += step.down;
            for _ in 0..step.ticks {
                now += 10;
                store.record(run, &tick(now, &step.instances)).unwrap();
                store.maintain(noon() + SignedDuration::from_secs(now)).unwrap();
            }
        }
        while store.maintain(noon() + SignedDuration::from_secs(now)).unwrap().more {}
        store.close().unwrap();
        let check = |history: &History| {
            let report = report(history, from, from + length);
            let known = Period::new(report.window.from().max(noon()), report.window.to());
            let is_known = |note: &Note| matches!(note, Note::Widened { .. });
            prop_assert!(report.notes.iter().all(is_known), "{:?}", report.notes);
            prop_assert_eq!(report.coverage.capacity, known.micros());
            prop_assert_eq!(report.coverage.observed + report.coverage.gap, report.coverage.capacity);
            prop_assert_eq!(report.all.observed(), report.coverage.observed);
            prop_assert_eq!(Balance::of(&report).difference(), 0);
            let found = history.check(|_| {}).unwrap();
            prop_assert!(found.is_clean(), "{:?}", found);
            Ok(())
        };
        check(&place.history())?;
        // Retention removes ticks; the totals that stay say the same.
        options.keep_raw = keep.map(Duration::from_secs);
        let mut store = open(&place.path(), &options);
        while store.maintain(noon() + SignedDuration::from_secs(now)).unwrap().more {}
        store.close().unwrap();
        check(&place.history())?;
    }
}
