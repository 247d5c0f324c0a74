//! Samples that no driver would give, to prove that whatever is written is what is read.

use std::time::Duration;

use gua_model::sample::{
    ComputeMode, Driver, Ecc, PerformanceState, Process, ProcessKind, Slice, Switch,
    ThrottleReasons,
};
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
    let workload = (any::<[bool; 3]>(), option::of(user())).prop_map(|(has, user)| Workload {
        container: has[0].then(|| "c0ffee".parse().unwrap()),
        pod: has[1].then(|| "pod-1".parse().unwrap()),
        job: has[2].then(|| "4711_3".parse().unwrap()),
        user,
    });
    let key = (0u128..2, 1u32..4, amount()).prop_map(|(boot, pid, start)| ProcessKey {
        boot: BootId(boot),
        pid: Pid(pid),
        start: StartTicks(start),
    });
    (
        key,
        reading(option::of(user())),
        reading(user()),
        workload,
        reading(select(vec!["python", "", "ü\n"]).prop_map(str::to_owned)),
    )
        .prop_map(|(key, login, own, workload, comm)| Identity {
            key,
            login,
            own,
            workload,
            comm,
        })
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

fn switch() -> impl Strategy<Value = Switch> {
    select(vec![Switch::On, Switch::Off])
}

fn gpu() -> impl Strategy<Value = Gpu> {
    let ecc = (switch(), reading(amount()), reading(amount())).prop_map(
        |(mode, corrected, uncorrected)| Ecc {
            mode,
            corrected,
            uncorrected,
        },
    );
    let mode = prop_oneof![
        select(vec![
            ComputeMode::Default,
            ComputeMode::ExclusiveThread,
            ComputeMode::Prohibited,
            ComputeMode::ExclusiveProcess
        ]),
        any::<u32>().prop_map(ComputeMode::Other)
    ];
    let pci = (any::<u32>(), any::<u8>(), any::<u8>()).prop_map(|(domain, bus, device)| PciId {
        domain,
        bus,
        device,
    });
    let facts = (
        uuid(),
        any::<u32>(),
        place(),
        reading(select(vec!["A100", "H100"]).prop_map(str::to_owned)),
        reading(pci),
    );
    let numbers = vec(reading(amount()), 8);
    let fan = reading(any::<u16>().prop_map(FanSpeed));
    let percents = (reading(percent()), reading(percent()), fan);
    let rest = (
        reading(window()),
        reading(any::<i32>()),
        reading(any::<u8>()),
        reading(ecc),
        reading(switch()),
        reading(mode),
        reading(switch()),
        reading(Just(())),
        reading(Just(())),
        vec(process(), 0..6),
        (reading(any::<u32>()), reading(any::<u32>())),
    );
    (facts, numbers, percents, rest).prop_map(|(facts, numbers, percents, rest)| Gpu {
        uuid: facts.0,
        index: facts.1,
        place: facts.2,
        name: facts.3,
        pci: facts.4,
        memory_total: numbers[0].map(Bytes),
        memory_used: numbers[1].map(Bytes),
        memory_reserved: numbers[2].map(Bytes),
        util: percents.0,
        window: rest.0,
        memory_util: percents.1,
        temperature: rest.1.map(Celsius),
        power: numbers[3].map(Milliwatts),
        power_limit: numbers[4].map(Milliwatts),
        energy: numbers[5].map(Millijoules),
        sm_clock: rest.10.0.map(Megahertz),
        memory_clock: rest.10.1.map(Megahertz),
        fan: percents.2,
        performance_state: rest.2.map(PerformanceState),
        throttle: numbers[6].map(ThrottleReasons),
        ecc: rest.3,
        mig: rest.4,
        compute_mode: rest.5,
        persistence: rest.6,
        compute_list: rest.7,
        graphics_list: rest.8,
        processes: rest.9,
    })
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
    let days = Timestamp::MIN.as_nanosecond()..=Timestamp::MAX.as_nanosecond();
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
        duration(),
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

/// Ticks of which the later ones are like the first with a few readings changed, as real ones are.
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
