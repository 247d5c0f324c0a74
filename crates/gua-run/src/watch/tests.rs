//! Summaries from samples and marks.

use std::time::Duration;

use gua_model::{Bytes, Driver, Missing, Percent, ProcessKind, State};
use proptest::prelude::*;

use super::*;

/// GPUs as `util:pid,pid`.
fn sample(second: u64, gpus: &[&str]) -> Sample {
    let gpu = |(index, text): (usize, &&str)| {
        let (util, pids) = text.split_once(':').unwrap();
        let process = |pid: &str| {
            let pid = Pid(pid.parse().unwrap());
            Process {
                pid,
                kind: ProcessKind::Compute,
                memory: Ok(Bytes::from_mb(200)),
                sm_util: Ok(None),
                identity: Ok(identity(pid)),
            }
        };
        let uuid = format!("GPU-{index}").parse().unwrap();
        Gpu {
            util: Ok(Percent::new(util.parse().unwrap()).unwrap()),
            memory_used: Ok(Bytes::from_mb(1000)),
            compute_list: Ok(()),
            graphics_list: Ok(()),
            processes: pids
                .split(',')
                .filter(|pid| !pid.is_empty())
                .map(process)
                .collect(),
            ..Gpu::without_readings(uuid, u32::try_from(index).unwrap(), Missing::Unsupported)
        }
    };
    sample_of(second, gpus.iter().enumerate().map(gpu).collect())
}

pub(crate) fn sample_of(second: u64, gpus: Vec<Gpu>) -> Sample {
    Sample {
        at: Timestamp::from_second(i64::try_from(second).unwrap()).unwrap(),
        since_boot: Duration::from_secs(second),
        boot: Err(Missing::Failed),
        driver: Driver {
            version: Err(Missing::Failed),
            cuda: Err(Missing::Failed),
        },
        gpus,
        problems: Vec::new(),
    }
}

pub(crate) fn identity(pid: Pid) -> gua_model::Identity {
    gua_model::Identity {
        key: gua_model::ProcessKey {
            boot: gua_model::BootId(1),
            pid,
            start: gua_model::StartTicks(1),
        },
        login: Err(Missing::Denied),
        claimed_login: None,
        own: Err(Missing::Denied),
        workload: gua_model::Workload::default(),
        comm: Err(Missing::Denied),
    }
}

/// A run on all GPUs with samples every so many seconds.
pub(crate) fn watch_all(seconds: u64) -> Watch {
    watch(Scope::All, seconds)
}

fn watch(scope: Scope, seconds: u64) -> Watch {
    let interval = Duration::from_secs(seconds);
    Watch::new(scope, Thresholds::default(), TimeZone::UTC, interval)
}

fn watched(scope: Scope, samples: &[Sample]) -> Watch {
    let mut watch = watch(scope, 10);
    for sample in samples {
        watch.gpus(sample, |pid| pid.0 < 10);
    }
    watch
}

#[test]
fn a_gpu_is_the_jobs_from_when_it_is_seen_there_and_neighbours_are_left_out() {
    let watch = watched(
        Scope::Seen,
        &[
            sample(0, &["0:", "99:50"]),
            sample(2, &["80:5", "99:50"]),
            sample(4, &["80:5,50", "99:50"]),
            sample(6, &["0:", "99:50"]),
        ],
    );
    assert_eq!(watch.gpus.len(), 1);
    let gpu = watch.gpus[0].summary();
    assert_eq!((gpu.index, gpu.observed_seconds), (0, 4.0));
    assert_eq!(gpu.shared_seconds, Some(2.0));
    assert_eq!(gpu.own_memory_max_mb, Some(200));
    assert_eq!(watch.tally.summary().gpu_util_max_pct, 80.0);
}

#[test]
fn a_gpu_that_was_given_counts_from_the_start_though_it_lies_idle() {
    let given = Scope::Given(VisibleDevices::parse("1"));
    let watch = watched(
        given,
        &[sample(0, &["0:", "0:"]), sample(10, &["0:5", "0:"])],
    );
    let gpus: Vec<_> = watch.gpus.iter().map(GpuUse::summary).collect();
    assert_eq!(gpus.len(), 2, "a job that takes another gpu is seen there");
    assert_eq!(gpus[0].index, 1);
    assert_eq!(gpus[0].states_seconds[&State::TrulyIdle], 10.0);
    assert_eq!(gpus[1].observed_seconds, 0.0);
}

#[test]
fn values_have_a_limit_and_the_last_one_counts() {
    let mut watch = watched(Scope::All, &[]);
    let set = |name: &str, value: Value| {
        let mut values = Map::new();
        values.insert(name.to_owned(), value);
        Mark::Set(values)
    };
    for number in 0..100 {
        watch.mark(
            &set(&format!("k{number}"), 1.into()),
            Timestamp::UNIX_EPOCH,
            Duration::ZERO,
        );
    }
    watch.mark(&set("k0", 2.into()), Timestamp::UNIX_EPOCH, Duration::ZERO);
    watch.mark(
        &set("k1", "x".repeat(1000).into()),
        Timestamp::UNIX_EPOCH,
        Duration::ZERO,
    );
    assert_eq!(watch.values.len(), MAX_VALUES);
    assert_eq!(
        (&watch.values["k0"], &watch.values["k1"]),
        (&2.into(), &1.into())
    );
    assert_eq!(watch.values_dropped, 37);
}
fn phase(name: &str) -> Mark {
    Mark::Phase(name.to_owned())
}

/// Seconds in states, and in gaps.
fn divided(watch: &Watch) -> (f64, f64) {
    let gpu = watch.gpus[0].summary();
    let states: f64 = gpu.states_seconds.values().sum();
    assert!((states - gpu.observed_seconds).abs() < 0.01, "{gpu:?}");
    (gpu.observed_seconds, gpu.gap_seconds)
}

#[test]
fn unobserved_time_is_a_gap_and_in_no_state() {
    // Samples every ten seconds; those at 20, 30, ... 3600 did not happen.
    let samples = [0, 10, 3610, 3620].map(|second| sample(second, &["80:5"]));
    let mut watch = watched(Scope::All, &samples);
    assert_eq!(divided(&watch), (30.0, 3590.0));
    let gpu = watch.gpus[0].summary();
    assert_eq!(gpu.states_seconds[&State::Active], 30.0);
    // And none before the end, though the job lived on.
    watch.end(Duration::from_secs(4000));
    assert_eq!(divided(&watch), (40.0, 3960.0));
}

#[test]
fn a_gpu_that_is_not_listed_for_a_while_is_a_gap_too() {
    let samples = [
        sample(0, &["80:5", "0:5"]),
        sample(10, &["80:5"]),
        sample(20, &["80:5"]),
        sample(30, &["80:5", "0:5"]),
    ];
    let watch = watched(Scope::All, &samples);
    let gpu = watch.gpus[1].summary();
    assert_eq!((gpu.observed_seconds, gpu.gap_seconds), (10.0, 20.0));
}

#[test]
fn a_sample_that_lies_in_two_phases_counts_for_neither() {
    let mut watch = watched(Scope::All, &[]);
    let mut marked = Vec::new();
    let mut mark = |watch: &mut Watch, name: &str, second: u64| {
        let since_boot = Duration::from_secs(second);
        marked.extend(watch.mark(&phase(name), Timestamp::UNIX_EPOCH, since_boot));
    };
    let add = |watch: &mut Watch, second: u64, util: u32| {
        watch.gpus(&sample(second, &[&format!("{util}:5")]), |_| true);
    };
    mark(&mut watch, "load", 0);
    add(&mut watch, 0, 10);
    add(&mut watch, 10, 90);
    // The GPU was at 90 % until some moment between 10 and 20, and the phase began at 12.
    mark(&mut watch, "train", 12);
    add(&mut watch, 20, 60);
    add(&mut watch, 30, 60);
    mark(&mut watch, "short", 32);
    mark(&mut watch, "end", 33);
    add(&mut watch, 40, 0);
    let means: Vec<_> = marked
        .iter()
        .map(|ended| (ended.name.as_str(), ended.gpu_util_mean_pct))
        .collect();
    assert_eq!(
        means,
        [("load", Some(10.0)), ("train", Some(60.0)), ("short", None)]
    );
}

#[test]
fn memory_of_the_job_is_zero_only_where_every_process_is_known() {
    let own = BTreeSet::from([Pid(5)]);
    let check = |text: &str, change: fn(&mut Gpu), expected: Value| {
        let mut gpu = sample(0, &[text]).gpus.remove(0);
        change(&mut gpu);
        assert_eq!(log_entry(&gpu, &own)["own_memory_mb"], expected, "{text}");
    };
    let unlisted = |gpu: &mut Gpu| gpu.compute_list = Err(Missing::Denied);
    let nameless = |gpu: &mut Gpu| gpu.processes[0].identity = Err(Missing::Gone);
    let hidden = |gpu: &mut Gpu| gpu.processes[0].memory = Err(Missing::Denied);
    check("0:", |_| (), 0.into());
    check("0:50", |_| (), 0.into());
    check("0:50,5", |_| (), 200.into());
    check("0:50,5", nameless, 200.into());
    check("0:", unlisted, Value::Null);
    check("0:50", nameless, Value::Null);
    check("0:5", hidden, Value::Null);
}

proptest! {
    #[test]
    fn states_and_gaps_make_up_the_time_that_was_watched(
        pauses in prop::collection::vec((1_u64..60, 0_u32..=100, prop::bool::ANY), 1..40),
        rest in 0_u64..100,
    ) {
        let mut now = 0;
        let mut samples = vec![sample(0, &["50:5"])];
        for (pause, util, is_listed) in pauses {
            now += pause;
            let gpu = format!("{util}:5");
            let listed: &[&str] = if is_listed { &[&gpu] } else { &[] };
            samples.push(sample(now, listed));
        }
        let mut watch = watched(Scope::All, &samples);
        watch.end(Duration::from_secs(now + rest));
        let (states, gap) = divided(&watch);
        let whole = Duration::from_secs(now + rest).as_secs_f64();
        prop_assert!((states + gap - whole).abs() < 0.01, "{states} {gap} {whole}");
    }
}

#[test]
fn a_wall_clock_that_is_set_neither_loses_nor_doubles_time() {
    for step in [-7200, -15, 15, 7200] {
        let mut samples = [0, 10, 20, 30].map(|second| sample(second, &["80:5"]));
        for sample in &mut samples[2..] {
            sample.at += jiff::SignedDuration::from_secs(step);
        }
        let mut watch = watched(Scope::All, &samples);
        watch.end(Duration::from_secs(40));
        assert_eq!(divided(&watch), (40.0, 0.0), "{step}");
    }
}

#[test]
fn a_late_sample_leaves_a_gap_and_only_a_missed_one_is_noted() {
    let check = |seconds: &[u64], end: u64, gap: f64, missed: u64| {
        let samples: Vec<Sample> = seconds.iter().map(|at| sample(*at, &["80:5"])).collect();
        let mut watch = watched(Scope::All, &samples);
        watch.end(Duration::from_secs(end));
        assert_eq!(divided(&watch).1, gap, "{seconds:?}");
        assert_eq!(watch.gpus[0].missed(), Duration::from_secs(missed));
    };
    check(&[0, 11, 21, 35], 40, 5.0, 0);
    check(&[0, 20, 30], 40, 10.0, 0);
    check(&[0, 21, 31], 40, 11.0, 11);
    check(&[0, 10], 100, 80.0, 80);
}
