//! Arbitrary samples, including ones that no driver returns, for round-trip tests.

use std::time::Duration;

use gua_model::sample::{Driver, Process, ProcessKind, Slice};
use gua_model::*;
use jiff::Timestamp;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn missing() -> impl Strategy<Value = Missing> {
    select(vec![
        Missing::Unsupported,
        Missing::Denied,
        Missing::Gone,
        Missing::Failed,
    ])
}

fn reading<T: std::fmt::Debug>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Reading<T>> {
    prop_oneof![3 => value.prop_map(Ok), 1 => missing().prop_map(Err)]
}

fn percent() -> impl Strategy<Value = Percent> {
    (0u32..=100).prop_map(|value| Percent::new(value).unwrap())
}

fn uuid() -> impl Strategy<Value = GpuUuid> {
    (0u32..4).prop_map(|number| format!("GPU-{number}").parse().unwrap())
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..1000, any::<u64>()]
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0u64..100_000).prop_map(Duration::from_millis),
        (any::<u64>(), 0u32..1_000_000_000)
            .prop_map(|(seconds, nanos)| Duration::new(seconds, nanos))
    ]
}

fn window() -> impl Strategy<Value = UtilWindow> {
    (
        option::of(any::<u64>()),
        vec((any::<u64>(), 0u32..120), 0..20),
    )
        .prop_map(|(since, samples)| UtilWindow::new(since, &samples))
}

fn user() -> impl Strategy<Value = User> {
    (0u32..5, option::of(select(vec!["ada", "grace", ""]))).prop_map(|(uid, name)| User {
        uid: Uid(uid),
        name: name.map(str::to_owned),
    })
}

fn identity() -> impl Strategy<Value = Identity> {
    let workload = (any::<[bool; 7]>(), option::of(user())).prop_map(|(has, user)| Workload {
        container: has[0].then(|| "c0ffee".parse().unwrap()),
        container_name: has[3].then(|| "web".to_owned()),
        pod: has[1].then(|| "pod-1".parse().unwrap()),
        pod_name: has[4].then(|| "ml/train-0".to_owned()),
        job: has[2].then(|| "4711_3".parse().unwrap()),
        user,
        assigned: has[5].then(|| "vision".to_owned()),
        containers: match has[6] {
            true => ContainerOwners::Name,
            false => ContainerOwners::Uid,
        },
    });
    let key = (0u128..2, 1u32..4, amount()).prop_map(|(boot, pid, start)| ProcessKey {
        boot: BootId(boot),
        pid: Pid(pid),
        start: StartTicks(start),
    });
    (
        key,
        (reading(option::of(user())), option::of(user())),
        reading(user()),
        workload,
        reading(select(vec!["python", "", "ü\n"]).prop_map(str::to_owned)),
    )
        .prop_map(
            |(key, (login, claimed_login), own, workload, comm)| Identity {
                key,
                login,
                claimed_login,
                own,
                workload,
                comm,
            },
        )
}

fn process() -> impl Strategy<Value = Process> {
    let kind = select(vec![
        ProcessKind::Compute,
        ProcessKind::Graphics,
        ProcessKind::Both,
    ]);
    (
        1u32..6,
        kind,
        reading(amount()),
        reading(option::of(percent())),
        reading(identity()),
    )
        .prop_map(|(pid, kind, memory, sm_util, identity)| Process {
            pid: Pid(pid),
            kind,
            memory: memory.map(Bytes),
            sm_util,
            identity,
        })
}

fn place() -> impl Strategy<Value = Place> {
    let slice = (any::<u32>(), any::<u32>()).prop_map(|(slices, of)| Slice { slices, of });
    prop_oneof![
        Just(Place::Whole),
        any::<u32>().prop_map(|instances| Place::Parent { instances }),
        (
            uuid(),
            reading(any::<u32>()),
            reading(any::<u32>()),
            reading(slice)
        )
            .prop_map(
                |(parent, gpu_instance, compute_instance, slice)| Place::Instance {
                    parent,
                    gpu_instance,
                    compute_instance,
                    slice
                }
            ),
    ]
}

/// Any stored number for each reading of the table, brought into the range of the reading's values.
fn readings() -> impl Strategy<Value = Vec<Reading<u64>>> {
    vec(reading(amount()), READINGS.len())
}

/// Sets a reading to a stored number; one that is too large is reduced until it is a value of the reading.
fn set(gpu: &mut Gpu, kind: &ReadingKind, stored: Reading<u64>) {
    let ranges = [u64::MAX, 1 << 40, 1 << 16, 1 << 8, 101, 2];
    let is_set = ranges
        .iter()
        .any(|range| (kind.restore)(gpu, stored.map(|number| number % range)).is_ok());
    assert!(is_set, "{} takes no number", kind.field);
}

fn gpu() -> impl Strategy<Value = Gpu> {
    let facts = (
        uuid(),
        any::<u32>(),
        place(),
        reading(select(vec!["A100", "H100"]).prop_map(str::to_owned)),
    );
    (facts, readings(), reading(window()), vec(process(), 0..6)).prop_map(
        |((uuid, index, place, name), readings, window, processes)| {
            let mut gpu = Gpu {
                place,
                name,
                window,
                processes,
                ..Gpu::without_readings(uuid, index, Missing::Failed)
            };
            for (kind, stored) in READINGS.iter().zip(readings) {
                set(&mut gpu, kind, stored);
            }
            if let Err(why) = gpu.ecc_mode {
                // Without the mode there are no counters: nothing else is ever read or stored.
                (gpu.ecc_corrected, gpu.ecc_uncorrected) = (Err(why), Err(why));
            }
            gpu
        },
    )
}

fn problem() -> impl Strategy<Value = Problem> {
    (
        option::of(uuid()),
        option::of(any::<u32>()),
        option::of(any::<u32>()),
        missing(),
        select(vec!["nvmlInit", ""]),
    )
        .prop_map(|(gpu, index, code, why, text)| Problem {
            gpu,
            index,
            call: text.to_owned(),
            code,
            why,
            text: format!("{text}?"),
        })
}

fn time() -> impl Strategy<Value = Timestamp> {
    let days = i128::from(sane::FIRST) * 1000..i128::from(sane::END) * 1000;
    let about_now = 1_790_000_000_000_000_000..1_790_000_900_000_000_000i128;
    prop_oneof![4 => about_now, 1 => days]
        .prop_map(|nanos| Timestamp::from_nanosecond(nanos).unwrap())
}

pub(crate) fn tick() -> impl Strategy<Value = Tick> {
    let driver = (
        reading(select(vec!["580.1", "550.2"]).prop_map(str::to_owned)),
        reading(any::<(u32, u32)>()),
    )
        .prop_map(|(version, cuda)| Driver { version, cuda });
    (
        time(),
        duration(),
        reading((0u128..3).prop_map(BootId)),
        driver,
        vec(gpu(), 0..4),
        vec(problem(), 0..3),
        (0u64..100_000_000).prop_map(Duration::from_millis),
    )
        .prop_map(
            |(at, since_boot, boot, driver, gpus, problems, interval)| Tick {
                sample: Sample {
                    at,
                    since_boot,
                    boot,
                    driver,
                    gpus,
                    problems,
                },
                interval,
            },
        )
}

/// Ticks of which the later ones differ from the first in a few readings, as real ones do.
pub(crate) fn alike() -> impl Strategy<Value = Vec<Tick>> {
    let change = (any::<[u8; 4]>(), gpu());
    (tick(), vec(change, 0..6)).prop_map(|(first, changes)| {
        let mut ticks = vec![first];
        for (dice, other) in changes {
            let mut next = ticks[ticks.len() - 1].clone();
            next.sample.since_boot = next.sample.since_boot.saturating_add(next.interval);
            if let Some(gpu) = next.sample.gpus.first_mut() {
                mutate(gpu, &other, dice);
            }
            ticks.push(next);
        }
        ticks
    })
}

fn mutate(gpu: &mut Gpu, other: &Gpu, dice: [u8; 4]) {
    match dice[0] % 4 {
        0 => gpu.window = other.window,
        1 => gpu.power = other.power,
        2 => (gpu.temperature, gpu.energy) = (other.temperature, other.energy),
        _ => {}
    }
    if let (Some(mine), Some(theirs)) = (gpu.processes.first_mut(), other.processes.first()) {
        if dice[1].is_multiple_of(2) {
            mine.memory = theirs.memory;
        }
        if dice[2].is_multiple_of(2) {
            mine.sm_util = theirs.sm_util;
        }
        if dice[3].is_multiple_of(5) {
            gpu.processes.push(theirs.clone());
        }
    }
}
