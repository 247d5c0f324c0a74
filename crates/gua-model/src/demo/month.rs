//! A simulated month of a lab server: eight GPUs and seven people, with working days, nights, weekends, a reboot, a forgotten
//! notebook, the memory of a process that has exited, and an inference server. `gua demo`, `gua top --fake` and the pictures
//! of the documentation show it.
//!
//! `schedule` says who runs what and when. This file turns it into samples that a driver could have returned: memory in
//! use is that of the processes, power follows utilisation, and counters only grow. The same end always gives the same
//! samples.

mod schedule;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use self::schedule::{DOWN, END, Job, LENGTH, Load, is_working_day, schedule};
use crate::gap::{GapReason, Outage};
use crate::id::{BootId, PciId, Pid, ProcessKey, StartTicks, Uid};
use crate::owner::{Identity, User, Workload};
use crate::reading::Missing;
use crate::sample::{
    ComputeMode, Driver, Gpu, PerformanceState, Process, ProcessKind, Sample, Switch,
    ThrottleReasons,
};
use crate::tick::Tick;
use crate::unit::{Bytes, Celsius, FanSpeed, Megahertz, Millijoules, Milliwatts, Percent};

/// Clock ticks per second of `StartTicks`, as on every Linux host in practice (`sysconf(_SC_CLK_TCK)`).
pub const TICKS_PER_SECOND: u64 = 100;
/// Number of GPUs.
pub const GPUS: u32 = 8;

/// Memory that the driver keeps for itself, and that is in use beside the processes.
const RESERVED: Bytes = Bytes::from_mb(620);
const OVERHEAD: Bytes = Bytes::from_mb(4);

/// A simulated month.
#[derive(Debug)]
pub struct Month {
    end: Timestamp,
    jobs: Vec<Job>,
}

/// Properties of all GPUs of one model.
struct Model {
    name: &'static str,
    memory: Bytes,
    idle: Milliwatts,
    limit: Milliwatts,
    clock: Megahertz,
    memory_clock: Megahertz,
    has_fan: bool,
}

const A100: Model = Model {
    name: "NVIDIA A100-SXM4-80GB",
    memory: Bytes::from_mb(81_920),
    idle: Milliwatts(54_000),
    limit: Milliwatts(400_000),
    clock: Megahertz(1410),
    memory_clock: Megahertz(1593),
    has_fan: false,
};

const A6000: Model = Model {
    name: "NVIDIA RTX A6000",
    memory: Bytes::from_mb(49_140),
    idle: Milliwatts(22_000),
    limit: Milliwatts(300_000),
    clock: Megahertz(1800),
    memory_clock: Megahertz(8001),
    has_fan: true,
};

impl Model {
    fn of(gpu: u32) -> &'static Self {
        if gpu < 4 { &A100 } else { &A6000 }
    }
}

impl Month {
    /// Interval between ticks: a quarter hour, so that the month is written in well under a second.
    pub const INTERVAL: Duration = Duration::from_mins(15);
    /// End of the month that is the same for everyone: Friday, 2026-10-30 15:00 UTC.
    pub const END: Timestamp = Timestamp::constant(1_793_372_400, 0);

    /// Returns the month before a time, which counts as a Friday at 15:00.
    pub fn before(end: Timestamp) -> Self {
        let jobs = schedule();
        Self { end, jobs }
    }

    /// Returns the month whose last tick precedes a time directly. Its ticks are at whole multiples of the interval, so that
    /// none of them covers parts of two quarter hours.
    pub fn around(now: Timestamp) -> Self {
        let step = i64::try_from(Self::INTERVAL.as_secs()).unwrap_or(i64::MAX);
        let next = now.as_second().div_euclid(step).saturating_add(1) * step;
        Self::before(Timestamp::from_second(next).unwrap_or(now))
    }

    /// Time of the first tick.
    pub fn start(&self) -> Timestamp {
        self.time(END - LENGTH)
    }

    /// Time in which the host was down and nothing was recorded.
    pub fn outage(&self) -> Outage {
        let (from, to) = DOWN;
        let minutes = u64::try_from(to - from).unwrap_or_default();
        let ticks_lost = minutes * 60 / Self::INTERVAL.as_secs();
        Outage {
            from: self.time(from),
            to: self.time(to),
            reason: GapReason::CollectorDown,
            detail: "host rebooted for a driver update".to_owned(),
            ticks_lost: u32::try_from(ticks_lost).unwrap_or(u32::MAX),
        }
    }

    /// All ticks, in order of time.
    pub fn ticks(&self) -> impl Iterator<Item = Tick> + '_ {
        let step = usize::try_from(Self::INTERVAL.as_secs() / 60).unwrap_or(1);
        let mut counters = [0u64; GPUS as usize];
        let minutes = (END - LENGTH..END).step_by(step);
        minutes
            .filter(|minute| !is_down(*minute))
            .map(move |minute| {
                let mut sample = self.sample(self.time(minute));
                if minute == DOWN.1 {
                    counters.fill(0);
                }
                for (gpu, counter) in sample.gpus.iter_mut().zip(&mut counters) {
                    gpu.energy = Ok(Millijoules(*counter));
                    // The power stays the same until the next tick.
                    let power = gpu.power.map_or(0, |power| power.0);
                    *counter += power * Self::INTERVAL.as_secs();
                }
                Tick {
                    sample,
                    interval: Self::INTERVAL,
                }
            })
    }

    /// The sample of any time; after the end, the last jobs go on. The energy counter is known only in [`Month::ticks`].
    pub fn sample(&self, at: Timestamp) -> Sample {
        let second = END * 60 + at.duration_since(self.end).as_secs();
        let minute = second.div_euclid(60);
        let boot = boot_minute(minute);
        let since_boot = second - boot * 60;
        let here = |gpu: u32| {
            let on_gpu = self.jobs.iter().filter(move |job| job.gpu == gpu);
            on_gpu.filter(move |job| job.from <= minute && minute < job.to)
        };
        Sample {
            at,
            since_boot: Duration::from_secs(u64::try_from(since_boot).unwrap_or_default()),
            boot: Ok(boot_id(boot)),
            driver: Driver {
                version: Ok("580.95.05-simulated".to_owned()),
                cuda: Ok((13, 0)),
            },
            gpus: (0..GPUS).map(|gpu| read(gpu, here(gpu), second)).collect(),
            problems: Vec::new(),
        }
    }

    fn time(&self, minute: i64) -> Timestamp {
        self.end + SignedDuration::from_mins(minute - END)
    }
}

fn is_down(minute: i64) -> bool {
    (DOWN.0..DOWN.1).contains(&minute)
}

/// Minute of the last boot.
fn boot_minute(minute: i64) -> i64 {
    match minute >= DOWN.1 {
        true => DOWN.1 - 6,
        false => -40 * 1440,
    }
}

fn boot_id(boot: i64) -> BootId {
    BootId(u128::from(noise(boot.unsigned_abs(), 1)) << 64 | 0x006d_6f6e_7468)
}

/// One GPU with these jobs.
fn read<'a>(index: u32, jobs: impl Iterator<Item = &'a Job>, second: i64) -> Gpu {
    let model = Model::of(index);
    let mut util = 0;
    let mut used = OVERHEAD;
    let mut processes = Vec::new();
    for job in jobs {
        let own = load(job, second).min(100 - util);
        util += own;
        used += Bytes::from_mb(job.program.memory_mb);
        processes.push(process(job, own));
    }
    let held = !processes.is_empty();
    let power = power(index, util, &processes, second);
    // 29 °C in an idle room, and 78 °C at the limit.
    let heat = 29 + 49 * power.0 / model.limit.0;
    let byte = u8::try_from(index).unwrap_or_default();
    Gpu {
        pci: Ok(PciId {
            domain: 0,
            bus: 0x07 + 8 * byte,
            device: 0,
        }),
        name: Ok(model.name.to_owned()),
        util: percent(util),
        memory_util: percent(util * 6 / 10),
        memory_used: Ok(used),
        memory_reserved: Ok(RESERVED),
        memory_total: Ok(model.memory),
        temperature: Ok(Celsius(i32::try_from(heat).unwrap_or(i32::MAX))),
        power: Ok(power),
        power_limit: Ok(model.limit),
        sm_clock: Ok(if held { model.clock } else { Megahertz(210) }),
        memory_clock: Ok(match held {
            true => model.memory_clock,
            false => Megahertz(405),
        }),
        fan: match model.has_fan {
            true => Ok(FanSpeed(u16::try_from(30 + heat / 2).unwrap_or(100))),
            false => Err(Missing::Unsupported),
        },
        performance_state: Ok(PerformanceState(if held { 0 } else { 8 })),
        throttle: Ok(ThrottleReasons(u64::from(util == 0))),
        ecc_mode: Ok(Switch::On),
        ecc_corrected: Ok(0),
        ecc_uncorrected: Ok(0),
        mig: Err(Missing::Unsupported),
        compute_mode: Ok(ComputeMode::Default),
        persistence: Ok(Switch::On),
        compute_list: Ok(()),
        graphics_list: Ok(()),
        processes,
        ..Gpu::without_readings(uuid(index), index, Missing::Unsupported)
    }
}

fn uuid(index: u32) -> crate::GpuUuid {
    let [one, two] = [1, 2].map(|part| noise(index.into(), 100 + part));
    let text = format!(
        "GPU-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        one >> 32,
        one >> 16 & 0xffff,
        one & 0xffff,
        two >> 48,
        two & 0xffff_ffff_ffff
    );
    text.parse().expect("hexadecimal digits and dashes")
}

/// Power at a utilisation. A GPU with a process runs at its full clocks and takes more than an empty one.
fn power(gpu: u32, util: u32, processes: &[Process], second: i64) -> Milliwatts {
    let model = Model::of(gpu);
    let clocks = match processes {
        [] => 0,
        _ => model.limit.0 / 16,
    };
    let floor = model.idle.0 + clocks;
    let full = model.limit.0 * 94 / 100;
    let jitter = noise(second.unsigned_abs() / 60, 40 + u64::from(gpu)) % (model.limit.0 / 50);
    Milliwatts(floor + (full - floor) * u64::from(util) / 100 + jitter)
}

fn percent(value: u32) -> crate::Reading<Percent> {
    Percent::new(value).ok_or(Missing::Failed)
}

/// Utilisation that a job causes, in percent.
fn load(job: &Job, second: i64) -> u32 {
    let minute = second.div_euclid(60);
    let seed = u64::from(job.pid);
    let jitter = |spread: u32| {
        let value = noise(second.unsigned_abs(), seed) % u64::from(spread);
        u32::try_from(value).unwrap_or_default()
    };
    match job.load {
        Load::Stuck { from, .. } if minute >= from => jitter(3),
        Load::Training(util) | Load::Stuck { util, .. } => util.saturating_sub(4) + jitter(9),
        // A quarter hour of work in three, until its owner leaves.
        Load::Interactive { until } if minute < until => {
            match noise(minute.unsigned_abs() / 15, seed) % 3 {
                0 => 35 + jitter(45),
                _ => jitter(4),
            }
        }
        Load::Interactive { .. } | Load::Leaked => 0,
        Load::Serving => {
            let hour = minute.div_euclid(60).rem_euclid(24);
            match (is_working_day(minute.div_euclid(1440)), hour) {
                (_, 0..7) => jitter(8),
                (true, 9..19) => 38 + jitter(34),
                (true, _) => 16 + jitter(20),
                (false, 10..17) => 5 + jitter(18),
                (false, _) => jitter(8),
            }
        }
    }
}

fn process(job: &Job, util: u32) -> Process {
    let boot = boot_minute(job.from);
    let start = u64::try_from((job.from - boot) * 60).unwrap_or_default();
    let container = job.program.container;
    let own = User {
        uid: Uid(job.program.uid),
        name: Some(job.program.name.to_owned()),
    };
    let identity = Identity {
        key: ProcessKey {
            boot: boot_id(boot),
            pid: Pid(job.pid),
            start: StartTicks(start * TICKS_PER_SECOND),
        },
        login: Ok(container.is_none().then(|| own.clone())),
        claimed_login: None,
        own: Ok(own),
        workload: Workload {
            container_name: container.map(str::to_owned),
            container: container.and_then(|_| "3f1c9a".parse().ok()),
            job: job.slurm.and_then(|number| number.to_string().parse().ok()),
            ..Workload::default()
        },
        comm: Ok(job.program.comm.to_owned()),
    };
    Process {
        pid: Pid(job.pid),
        kind: ProcessKind::Compute,
        memory: Ok(Bytes::from_mb(job.program.memory_mb)),
        sm_util: percent(util).map(Some),
        identity: match job.load {
            Load::Leaked => Err(Missing::Gone),
            _ => Ok(identity),
        },
    }
}

/// A number that looks random and is always the same for the same arguments (SplitMix64).
fn noise(of: u64, seed: u64) -> u64 {
    let mut value = of
        .wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests;
