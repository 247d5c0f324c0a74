//! A synthetic host, the same at every run: GPUs with jobs that start, compute, wait and end.
//!
//! A GPU has 1.44 processes per tick on average, as in the history with which gpu-usage-audit was measured.

use std::time::Duration;

use gua_model::sample::{
    ComputeMode, Driver, PerformanceState, Process, ProcessKind, Switch, ThrottleReasons,
};
use gua_model::{
    BootId, Bytes, Celsius, Gpu, Identity, Megahertz, Millijoules, Milliwatts, Missing, PciId,
    Percent, Pid, ProcessKey, Sample, StartTicks, Tick, Uid, User, UtilWindow, Workload,
};
use jiff::{SignedDuration, Timestamp};

/// 2026-09-21 13:33:20 UTC, in the middle of a quarter hour.
pub const START: i64 = 1_790_000_000;
const SAMPLES_PER_SECOND: u64 = 6;

/// A small deterministic random number generator (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

/// The state of the host between two ticks.
#[derive(Debug)]
pub struct SyntheticHost {
    dice: Dice,
    interval: Duration,
    at: Timestamp,
    since_boot: Duration,
    gpus: Vec<Device>,
    next_pid: u32,
}

#[derive(Debug, Default)]
struct Device {
    jobs: Vec<Job>,
    busy: u64,
    energy: u64,
    seen: u64,
}

#[derive(Debug)]
struct Job {
    identity: Identity,
    mb: u64,
}

impl SyntheticHost {
    pub fn new(gpus: usize, interval: Duration, start: Timestamp) -> Self {
        Self {
            dice: Dice(42),
            interval,
            at: start,
            since_boot: Duration::from_secs(1_000_000),
            gpus: (0..gpus).map(|_| Device::default()).collect(),
            next_pid: 1000,
        }
    }

    /// The host of most tests: two GPUs, a tick every thirty seconds.
    pub fn small() -> Self {
        Self::new(
            2,
            Duration::from_secs(30),
            Timestamp::from_second(START).unwrap(),
        )
    }

    pub fn now(&self) -> Timestamp {
        self.at
    }

    /// Sets the wall clock; the clock since boot is not affected.
    pub fn set_clock(&mut self, at: Timestamp) {
        self.at = at;
    }

    /// Lets time pass without a tick, as with a stopped collector or a suspended machine.
    pub fn pass(&mut self, time: Duration) {
        self.at += SignedDuration::try_from(time).unwrap();
        self.since_boot += time;
    }

    pub fn tick(&mut self) -> Tick {
        for number in 0..self.gpus.len() {
            self.change_jobs(number);
        }
        let gpus = (0..self.gpus.len())
            .map(|number| self.device(number))
            .collect();
        let sample = Sample {
            at: self.at,
            since_boot: self.since_boot,
            boot: Ok(BootId(77)),
            driver: Driver {
                version: Ok("580.95.05".to_owned()),
                cuda: Ok((13, 0)),
            },
            gpus,
            problems: Vec::new(),
        };
        // The wall clock and the other one drift by microseconds.
        let drift = Duration::from_nanos(self.dice.roll(20_000));
        self.pass(self.interval + drift);
        self.since_boot -= Duration::from_nanos(self.dice.roll(2_000));
        Tick {
            sample,
            interval: self.interval,
        }
    }

    /// Jobs last hours; a GPU has none a third of the time, otherwise one to four.
    fn change_jobs(&mut self, number: usize) {
        let ends = self.dice.one_in(240);
        let begins = self.dice.one_in(120);
        if ends {
            self.gpus[number].jobs.clear();
        }
        if begins && self.gpus[number].jobs.is_empty() {
            let many = [1, 1, 2, 2, 3, 4][usize::try_from(self.dice.roll(6)).unwrap()];
            for _ in 0..many {
                let job = self.job();
                self.gpus[number].jobs.push(job);
            }
            self.gpus[number].busy = [0, 5, 60, 95][usize::try_from(self.dice.roll(4)).unwrap()];
        }
    }

    fn job(&mut self) -> Job {
        self.next_pid += 1;
        let uid = 1000 + u32::try_from(self.dice.roll(12)).unwrap();
        let user = User {
            uid: Uid(uid),
            name: Some(format!("user-{uid}")),
        };
        Job {
            identity: Identity {
                key: ProcessKey {
                    boot: BootId(77),
                    pid: Pid(self.next_pid),
                    start: StartTicks(self.since_boot.as_secs() * 100),
                },
                login: Ok(Some(user.clone())),
                claimed_login: None,
                own: Ok(user),
                workload: Workload::default(),
                comm: Ok("python3".to_owned()),
            },
            mb: 500 + self.dice.roll(30_000),
        }
    }

    fn device(&mut self, number: usize) -> Gpu {
        let dice = &mut self.dice;
        let device = &mut self.gpus[number];
        let busy = if device.jobs.is_empty() {
            0
        } else {
            device.busy
        };
        let util = match busy {
            0 => 0,
            busy => (busy + dice.roll(11)).saturating_sub(5).min(100),
        };
        let samples: Vec<(u64, u32)> = (0..self.interval.as_secs().max(1) * SAMPLES_PER_SECOND)
            .map(|number| {
                let value = match busy {
                    0 => 0,
                    busy => (busy + dice.roll(21)).saturating_sub(10).min(100),
                };
                // The driver's samples are late by varying amounts.
                let at =
                    device.seen + (number + 1) * 1_000_000 / SAMPLES_PER_SECOND + dice.roll(300);
                (at, u32::try_from(value).unwrap())
            })
            .collect();
        let window = UtilWindow::new(Some(device.seen), &samples);
        device.seen = samples.last().map_or(device.seen, |(at, _)| *at);
        let power = 60_000 + util * 3_000 + dice.roll(1_000);
        // The counter sees all of the interval, the power reading its last moment.
        let mean = power - 3_000 + dice.roll(6_000);
        device.energy += mean * self.interval.as_secs();
        let mut used = 600;
        let mut processes = Vec::new();
        for job in &mut device.jobs {
            if dice.one_in(20) {
                job.mb = job.mb + dice.roll(64) + 1;
            }
            used += job.mb;
            let sm_util = Percent::new(u32::try_from(util).unwrap());
            processes.push(Process {
                pid: job.identity.key.pid,
                kind: ProcessKind::Compute,
                memory: Ok(Bytes::from_mb(job.mb)),
                sm_util: Ok(sm_util.filter(|util| util.get() > 0)),
                identity: Ok(job.identity.clone()),
            });
        }
        let index = u32::try_from(number).unwrap();
        let uuid = format!("GPU-00000000-0000-0000-0000-{number:012}");
        let mut gpu = Gpu::without_readings(uuid.parse().unwrap(), index, Missing::Unsupported);
        let percent = |value: u64| Percent::new(u32::try_from(value).unwrap()).unwrap();
        gpu.name = Ok("NVIDIA A100-SXM4-80GB".to_owned());
        gpu.pci = Ok(PciId {
            domain: 0,
            bus: u8::try_from(number + 1).unwrap(),
            device: 0,
        });
        gpu.memory_total = Ok(Bytes::from_mb(81_920));
        gpu.memory_used = Ok(Bytes::from_mb(used.min(81_920)));
        gpu.memory_reserved = Ok(Bytes::from_mb(600));
        gpu.util = Ok(percent(util));
        gpu.window = Ok(window);
        gpu.memory_util = Ok(percent(util / 2));
        gpu.temperature = Ok(Celsius(i32::try_from(35 + util / 3).unwrap()));
        gpu.power = Ok(Milliwatts(power));
        gpu.power_limit = Ok(Milliwatts(400_000));
        gpu.energy = Ok(Millijoules(device.energy));
        gpu.sm_clock = Ok(Megahertz(if util > 0 { 1410 } else { 210 }));
        gpu.memory_clock = Ok(Megahertz(1593));
        gpu.performance_state = Ok(PerformanceState(if util > 0 { 0 } else { 8 }));
        gpu.throttle = Ok(ThrottleReasons(u64::from(util == 0)));
        gpu.ecc_mode = Ok(Switch::On);
        gpu.ecc_corrected = Ok(0);
        gpu.ecc_uncorrected = Ok(0);
        gpu.mig = Ok(Switch::Off);
        gpu.compute_mode = Ok(ComputeMode::Default);
        gpu.persistence = Ok(Switch::On);
        gpu.compute_list = Ok(());
        gpu.graphics_list = Ok(());
        gpu.processes = processes;
        gpu
    }
}
