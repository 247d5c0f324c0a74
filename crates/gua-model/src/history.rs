//! Histories for tests, parsed from short texts or generated at random.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use crate::coverage::KnownGpu;
use crate::gap::{GapReason, Outage};
use crate::id::{BootId, GpuUuid, Pid, ProcessKey, StartTicks, Uid};
use crate::owner::{Identity, User, Workload};
use crate::reading::Missing;
use crate::sample::{Driver, Gpu, Place, Process, ProcessKind, Sample, Slice};
use crate::span::Span;
use crate::spans::{Floors, Spans};
use crate::state::Thresholds;
use crate::tick::Tick;
use crate::unit::{Bytes, Millijoules, Milliwatts, Percent};
use crate::window::UtilWindow;

/// Half past nine on a day of 2026, so that histories soon cross quarters and hours.
pub(crate) const START: i64 = 1_780_000_200;

pub(crate) fn at(seconds: f64) -> Timestamp {
    #[expect(clippy::cast_possible_truncation, reason = "tests stay within days")]
    let micros = (seconds * 1e6) as i64;
    Timestamp::from_microsecond(START * 1_000_000 + micros).unwrap()
}

pub(crate) fn uuid(name: &str) -> GpuUuid {
    name.parse().unwrap()
}

pub(crate) fn percent(value: u32) -> Percent {
    Percent::new(value).unwrap()
}

/// Parses ticks from `SECOND GPU, GPU; SECOND …`, one every 30 seconds unless the text says otherwise. A GPU is its
/// name followed, in any order, by `util=50`, `util=gone`, `buffer=50+0+50` (samples since the previous tick),
/// `energy=1000`, `power=60`, `list=denied`, `parent=gpu0` or `parent=gpu0:3/7`, `instances=2`, and its processes as `ada:8000` (compute) or
/// `ada/desktop:50` (graphics), with `@7` for another PID and `?` for a hidden process.
pub(crate) fn ticks(text: &str) -> Vec<Tick> {
    let mut ticks: Vec<Tick> = Vec::new();
    for line in text
        .split(';')
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let (second, texts) = line.split_once(' ').unwrap_or((line, ""));
        let (second, boot) = second.split_once('#').unwrap_or((second, "1"));
        let boot = BootId(boot.parse().unwrap());
        let second: f64 = second.parse().unwrap();
        let elapsed = ticks.last().map_or(Duration::ZERO, |last| {
            Duration::try_from(at(second).duration_since(last.sample.at)).unwrap_or_default()
        });
        let texts = texts
            .split(',')
            .map(str::trim)
            .filter(|text| !text.is_empty());
        ticks.push(Tick {
            sample: Sample {
                at: at(second),
                since_boot: Duration::from_secs_f64(100_000.0 + second),
                boot: Ok(boot),
                driver: Driver {
                    version: Err(Missing::Failed),
                    cuda: Err(Missing::Failed),
                },
                gpus: texts.map(|text| gpu(text, boot, elapsed)).collect(),
                problems: Vec::new(),
            },
            interval: Duration::from_secs(30),
        });
    }
    ticks
}

fn gpu(text: &str, boot: BootId, elapsed: Duration) -> Gpu {
    let mut words = text.split_whitespace();
    let mut gpu = Gpu::without_readings(uuid(words.next().unwrap()), 0, Missing::Unsupported);
    gpu.util = Ok(Percent::ZERO);
    gpu.compute_list = Ok(());
    gpu.graphics_list = Ok(());
    for word in words {
        match word.split_once('=') {
            Some(("util", value)) => {
                gpu.util = reason(value).map_or_else(|| Ok(percent(value.parse().unwrap())), Err);
            }
            Some(("buffer", samples)) => gpu.window = Ok(buffer(samples, elapsed)),
            Some(("energy", value)) => gpu.energy = Ok(Millijoules(value.parse().unwrap())),
            Some(("power", value)) => {
                gpu.power = Ok(Milliwatts(value.parse::<u64>().unwrap() * 1000));
            }
            Some(("list", value)) => gpu.compute_list = Err(reason(value).unwrap()),
            Some(("instances", value)) => {
                gpu.place = Place::Parent {
                    instances: value.parse().unwrap(),
                }
            }
            Some(("parent", value)) => gpu.place = instance_of(value),
            None => gpu.processes.push(process(word, boot)),
            Some(other) => panic!("no such part: {other:?}"),
        }
    }
    gpu
}

/// Parses `gpu0`, an instance of unknown size, and `gpu0:3/7`.
pub(crate) fn instance_of(text: &str) -> Place {
    let (parent, slice) = text.split_once(':').unwrap_or((text, ""));
    let slice = slice.split_once('/').map(|(slices, of)| Slice {
        slices: slices.parse().unwrap(),
        of: of.parse().unwrap(),
    });
    Place::Instance {
        parent: uuid(parent),
        gpu_instance: Ok(1),
        compute_instance: Ok(0),
        slice: slice.ok_or(Missing::Failed),
    }
}

fn buffer(samples: &str, elapsed: Duration) -> UtilWindow {
    let values: Vec<u32> = samples
        .split('+')
        .map(|value| value.parse().unwrap())
        .collect();
    let step = u64::try_from(elapsed.as_micros()).unwrap() / values.len() as u64;
    let samples: Vec<(u64, u32)> = (1..).map(|place| place * step).zip(values).collect();
    UtilWindow::new(Some(0), &samples)
}

fn reason(word: &str) -> Option<Missing> {
    [
        Missing::Unsupported,
        Missing::Denied,
        Missing::Gone,
        Missing::Failed,
    ]
    .into_iter()
    .find(|why| why.as_str() == word)
}

/// Parses `ada:8000`, `ada@7:8000`, `ada/desktop:50`, `ada:8000%40` (SM utilisation), `ada:8000%none`, `?:8000`, `gone@7:10`.
fn process(word: &str, boot: BootId) -> Process {
    let (who, memory) = word.split_once(':').unwrap();
    let (memory, sm_util) = memory.split_once('%').unwrap_or((memory, ""));
    let (who, pid) = who.split_once('@').unwrap_or((who, ""));
    let (name, kind) = match who.split_once('/') {
        Some((name, _)) => (name, ProcessKind::Graphics),
        None => (who, ProcessKind::Compute),
    };
    let uid = Uid(1000 + name.bytes().map(u32::from).sum::<u32>());
    let pid = Pid(pid.parse().unwrap_or(uid.0));
    let key = ProcessKey {
        boot,
        pid,
        start: StartTicks(u64::from(uid.0)),
    };
    let user = User {
        uid,
        name: Some(name.to_owned()),
    };
    Process {
        pid,
        kind,
        memory: memory
            .parse()
            .map(Bytes::from_mb)
            .map_err(|_| Missing::Unsupported),
        sm_util: match sm_util {
            "none" => Ok(None),
            number => number
                .parse()
                .map_or(Err(Missing::Unsupported), |util| Ok(Some(percent(util)))),
        },
        identity: match name {
            "?" => Err(Missing::Denied),
            "gone" => Err(Missing::Gone),
            _ => Ok(Identity {
                key,
                login: Ok(Some(user)),
                claimed_login: None,
                own: Err(Missing::Denied),
                workload: Workload::default(),
                comm: Ok("python".to_owned()),
            }),
        },
    }
}

/// Returns all spans of a history.
pub(crate) fn fold(ticks: &[Tick], thresholds: Thresholds) -> Vec<Span> {
    let mut fold = Spans::new(thresholds, Floors::new());
    let mut spans: Vec<Span> = ticks.iter().flat_map(|tick| fold.push(tick)).collect();
    spans.extend(fold.finish(Timestamp::MAX));
    spans
}

pub(crate) fn known(ticks: &[Tick]) -> BTreeMap<GpuUuid, KnownGpu> {
    let mut gpus: BTreeMap<GpuUuid, KnownGpu> = BTreeMap::new();
    for tick in ticks {
        for gpu in &tick.sample.gpus {
            let parent = gpu.place.parent();
            let seen = std::iter::once((&gpu.uuid, parent.is_some()));
            for (uuid, is_instance) in seen.chain(parent.map(|parent| (parent, false))) {
                let known = gpus.entry(uuid.clone()).or_insert(KnownGpu {
                    first: tick.sample.at,
                    is_instance,
                });
                known.first = tick.sample.at.min(known.first);
            }
        }
    }
    gpus
}

/// Histories are large, so fewer cases than the default suffice.
pub(crate) fn cases() -> ProptestConfig {
    ProptestConfig::with_cases(96)
}

/// Event between two ticks.
#[derive(Clone, Copy, Debug)]
enum Turn {
    OnTime,
    Late(u32),
    Early(u32),
    Down(u32),
    ClockForward(u32),
    ClockBack(u32),
    Reboot(u32),
}

fn any_turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        12 => Just(Turn::OnTime),
        3 => (1u32..8_000).prop_map(Turn::Late),
        2 => (1u32..25_000).prop_map(Turn::Early),
        1 => (31_000u32..4_000_000).prop_map(Turn::Down),
        1 => (1u32..4_000_000).prop_map(Turn::ClockForward),
        1 => (1u32..400_000).prop_map(Turn::ClockBack),
        1 => (40_000u32..400_000).prop_map(Turn::Reboot),
    ]
}

/// Generates one GPU at one tick; `None` if the driver does not report it.
fn any_gpu(name: &'static str) -> impl Strategy<Value = Option<String>> {
    let util = prop_oneof![
        8 => (0u32..=100).prop_map(|util| format!("util={util}")),
        1 => prop::sample::select(vec!["util=gone", "util=denied", "util=unsupported", "util=failed"]).prop_map(str::to_owned),
    ];
    let buffer = prop::option::of(prop::collection::vec(0u32..=100, 1..7));
    let process = prop::sample::select(vec![
        "ada:8000",
        "ada@7:50",
        "bob:300%40",
        "bob/desktop:90",
        "eve:hidden",
        "?:2000",
        "gone@9:700",
    ]);
    let processes = prop::collection::btree_set(process, 0..4);
    let list = prop_oneof![9 => Just(""), 1 => Just("list=denied")];
    let there = prop::bool::weighted(0.9);
    let energy = prop::option::of(0u32..5_000_000);
    (util, buffer, processes, list, there, energy).prop_map(
        move |(util, buffer, processes, list, there, energy)| {
            let processes: Vec<&str> = processes.into_iter().collect();
            let buffer = buffer.map_or(String::new(), |samples| {
                let samples: Vec<String> = samples.iter().map(u32::to_string).collect();
                format!("buffer={}", samples.join("+"))
            });
            let energy = energy.map_or(String::new(), |energy| format!("energy={energy}"));
            there.then(|| {
                format!(
                    "{name} {util} {buffer} {list} {energy} {}",
                    processes.join(" ")
                )
            })
        },
    )
}

/// Generates all GPUs of a tick: two whole ones, and one that may be divided into up to three MIG instances. Rarely two
/// instances have one UUID, or the parent is missing.
fn any_gpus() -> impl Strategy<Value = Vec<String>> {
    let [one, two, parent] = ["gpu0", "gpu1", "gpu2"].map(any_gpu);
    let name = prop::sample::select(vec!["mig2a", "mig2b", "mig2c"]);
    let size = prop::sample::select(vec!["", ":1/7", ":2/7", ":3/7", ":4/7"]);
    let instance = (name.prop_flat_map(any_gpu), size);
    let instance =
        instance.prop_map(|(gpu, size)| gpu.map(|gpu| format!("{gpu} parent=gpu2{size}")));
    let instances = prop_oneof![
        1 => Just(Vec::new()),
        1 => prop::collection::vec(instance, 1..4),
    ];
    (one, two, parent, instances).prop_map(|(one, two, parent, instances)| {
        let instances: Vec<String> = instances.into_iter().flatten().collect();
        let divided = match instances.len() {
            0 => String::new(),
            number => format!(" instances={number}"),
        };
        let parent = parent.map(|gpu| gpu + &divided);
        let whole = [one, two, parent].into_iter().flatten();
        whole.chain(instances).collect()
    })
}

/// Generates ticks in the order in which a collector would read them: late and early ones, hours without a collector, a
/// wall clock that is set both ways, reboots, GPUs lost and found, MIG turned on and off.
pub(crate) fn any_ticks() -> impl Strategy<Value = Vec<Tick>> {
    prop::collection::vec(
        (
            any_turn(),
            any_gpus(),
            prop::sample::select(vec![5u64, 30, 60]),
        ),
        1..24,
    )
    .prop_map(|turns| {
        let (mut wall, mut since_boot, mut boot) = (0i64, 100_000_000i64, 1u128);
        let mut ticks = Vec::new();
        for (turn, texts, interval) in turns {
            let normal = 1000 * i64::try_from(interval).unwrap();
            let (passed, jump) = match turn {
                Turn::OnTime => (normal, 0),
                Turn::Late(late) => (normal + i64::from(late), 0),
                Turn::Early(early) => ((normal - i64::from(early)).max(1), 0),
                Turn::Down(down) => (i64::from(down), 0),
                Turn::ClockForward(jump) => (normal, i64::from(jump)),
                Turn::ClockBack(jump) => (normal, -i64::from(jump)),
                Turn::Reboot(away) => {
                    boot += 1;
                    since_boot = 0;
                    (i64::from(away), 0)
                }
            };
            wall += passed + jump;
            since_boot += passed;
            let elapsed = Duration::from_millis(passed.unsigned_abs());
            let gpus = texts
                .iter()
                .map(|text| gpu(text, BootId(boot), elapsed))
                .collect();
            ticks.push(Tick {
                sample: Sample {
                    at: Timestamp::from_millisecond(START * 1000 + wall).unwrap(),
                    since_boot: Duration::from_millis(since_boot.unsigned_abs()),
                    boot: Ok(BootId(boot)),
                    driver: Driver {
                        version: Err(Missing::Failed),
                        cuda: Err(Missing::Failed),
                    },
                    gpus,
                    problems: Vec::new(),
                },
                interval: Duration::from_secs(interval),
            });
        }
        ticks
    })
}

/// Generates ticks in the order in which a history stores them: by the wall clock, at most one at each moment.
pub(crate) fn any_kept_ticks() -> impl Strategy<Value = Vec<Tick>> {
    any_ticks().prop_map(|mut ticks| {
        ticks.sort_by_key(|tick| tick.sample.at);
        ticks.dedup_by_key(|tick| tick.sample.at);
        ticks
    })
}

pub(crate) fn any_thresholds() -> impl Strategy<Value = Thresholds> {
    (
        prop::sample::select(vec![5u32, 10, 12, 50]),
        0u64..9000,
        any::<bool>(),
    )
        .prop_map(|(util, held_mb, graphics)| {
            let count_graphics = if graphics {
                crate::CountGraphics::Yes
            } else {
                crate::CountGraphics::No
            };
            Thresholds {
                active_util: percent(util),
                held_mb,
                count_graphics,
            }
        })
}

pub(crate) fn any_outages() -> impl Strategy<Value = Vec<Outage>> {
    let reason = prop::sample::select(vec![
        GapReason::DriverHung,
        GapReason::Suspended,
        GapReason::DiskFull,
    ]);
    prop::collection::vec((0i64..5_000_000, 0i64..3_000_000, reason), 0..5).prop_map(|outages| {
        let moment = |millis: i64| Timestamp::from_millisecond(START * 1000 + millis).unwrap();
        let build = |(from, length, reason): (i64, i64, GapReason)| Outage {
            from: moment(from),
            to: moment(from + length),
            reason,
            detail: String::new(),
            ticks_lost: 0,
        };
        outages.into_iter().map(build).collect()
    })
}
