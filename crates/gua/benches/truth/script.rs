//! Activity of the GPUs, second by second, and what is derived from it: the scenario for the simulated driver, and the
//! truth that a collector ought to find. The truth is computed from the script alone, exactly.

use std::collections::BTreeMap;

use nvml_sim::scenario::{
    Buffers, Clock, Fault, Gpu as SimulatedGpu, Instance, Process, Scenario, Value,
};

/// A tick of the bench, which represents one of 30 s.
pub(crate) const TICK: f64 = 0.3;
/// Seconds of real use that a second of the bench represents.
pub(crate) const SCALE: f64 = 100.0;

/// Span that is compared. The collectors start before it and stop after it.
pub(crate) const WINDOW: Span = Span {
    from: 4.0,
    to: 104.0,
};
/// End of the script.
pub(crate) const END: f64 = 105.0;
/// Span in which no collector runs.
pub(crate) const OUTAGE: Span = Span {
    from: 40.0,
    to: 47.0,
};
/// Span in which the driver does not answer.
pub(crate) const HANG: Span = Span {
    from: 58.0,
    to: 64.0,
};
/// Span in which one GPU is lost.
pub(crate) const LOST: Span = Span {
    from: 70.0,
    to: 80.0,
};
/// Time at which a process ends and another user's process gets its pid.
pub(crate) const REUSE: f64 = 34.0;

/// Users that every system has, so that they have names.
pub(crate) const PEOPLE: [&str; 3] = ["daemon", "bin", "sys"];
const ADA: Who = Who::Person(0);
const BOB: Who = Who::Person(1);
const EVE: Who = Who::Person(2);

/// A half-open span of seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Span {
    pub(crate) fn length(self) -> f64 {
        (self.to - self.from).max(0.0)
    }

    pub(crate) fn contains(self, second: f64) -> bool {
        self.from <= second && second < self.to
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Person(usize),
    /// The process has ended, and the driver has not noticed.
    Gone,
}

/// A process on a GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) who: Who,
    pub(crate) when: Span,
    pub(crate) mib: f64,
}

/// A counted unit: a GPU, a MIG instance, or the slices of a GPU that no instance has.
#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    pub(crate) what: &'static str,
    pub(crate) uuid: &'static str,
    /// Utilisation from each second on; none for an instance.
    pub(crate) util: Vec<(f64, f64)>,
    pub(crate) lost: Option<Span>,
    pub(crate) holds: Vec<Hold>,
    /// Whether its two holds have the same pid.
    pub(crate) reuses_pid: bool,
    /// Slices of the GPU in MIG mode that it has, from each second on; none for a whole GPU.
    pub(crate) slices: Vec<(f64, u32)>,
}

pub(crate) fn gpus() -> Vec<Gpu> {
    let hold = |who, from: f64, to: f64, mib| Hold {
        who,
        when: Span { from, to },
        mib,
    };
    let always = |who, mib| hold(who, 0.0, f64::INFINITY, mib);
    let gpu = |what, uuid, util: &[(f64, f64)], holds: &[Hold]| Gpu {
        what,
        uuid,
        util: util.to_vec(),
        lost: None,
        holds: holds.to_vec(),
        reuses_pid: false,
        slices: Vec::new(),
    };
    let part = |what, uuid, slices: &[(f64, u32)], holds: &[Hold]| Gpu {
        slices: slices.to_vec(),
        ..gpu(what, uuid, &[], holds)
    };
    vec![
        gpu(
            "bursts shorter than a tick",
            "GPU-0bursts",
            &bursts(),
            &[always(ADA, 9000.0)],
        ),
        gpu(
            "shared",
            "GPU-1shared",
            &[(0.0, 80.0), (30.0, 2.0), (85.0, 55.0)],
            &[always(ADA, 4000.0), hold(BOB, 20.0, 92.0, 3000.0)],
        ),
        Gpu {
            lost: Some(LOST),
            ..gpu(
                "lost for a while",
                "GPU-2lost",
                &[(0.0, 0.0)],
                &[always(BOB, 8000.0)],
            )
        },
        Gpu {
            reuses_pid: true,
            ..gpu(
                "a reused pid",
                "GPU-3reuse",
                &[(0.0, 40.0), (66.0, 0.0)],
                &[
                    hold(BOB, 0.0, REUSE, 6000.0),
                    hold(EVE, REUSE, f64::INFINITY, 6000.0),
                ],
            )
        },
        gpu(
            "left behind, then a ghost",
            "GPU-4empty",
            &[(0.0, 0.0), (66.0, 70.0)],
            &[hold(Who::Gone, 9.0, 54.0, 700.0)],
        ),
        part("MIG, held", "MIG-5a", &[(0.0, 3)], &[always(EVE, 2000.0)]),
        part(
            "MIG, created and destroyed",
            "MIG-5b",
            &[(25.0, 2), (90.0, 0)],
            &[hold(ADA, 25.0, 90.0, 2000.0)],
        ),
        part(
            "MIG, created while no collector runs",
            "MIG-5c",
            &[(43.0, 1), (68.0, 0)],
            &[],
        ),
        part(
            "MIG, without an instance",
            MIG,
            &[(0.0, 4), (25.0, 2), (43.0, 1), (68.0, 2), (90.0, 4)],
            &[],
        ),
    ]
}

/// The GPU in MIG mode, which has seven slices.
const MIG: &str = "GPU-5mig";
const SLICES: f64 = 7.0;

/// Work that comes and goes within a tick, never twice the same: 0.15 s to 0.29 s, with pauses of 0.2 s to 0.9 s.
fn bursts() -> Vec<(f64, f64)> {
    let mut steps = vec![(0.0, 0.0)];
    let (mut second, mut seed) = (0.1, 7u64);
    let mut random = |least: f64, most: f64| {
        // Knuth's MMIX generator; its upper bits are random enough for the times of a script.
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let share = f64::from(u32::try_from(seed >> 32).unwrap_or(0)) / f64::from(u32::MAX);
        least + (most - least) * share
    };
    while second < END + 5.0 {
        let length = random(0.15, 0.29);
        steps.push((second, 90.0));
        steps.push((second + length, 0.0));
        second += length + random(0.2, 0.9);
    }
    steps
}

/// Whether the GPU in MIG mode is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mig {
    With,
    Without,
}

/// The scenario, with the pids in the order of the holds.
pub(crate) fn scenario(gpus: &[Gpu], pids: &[Vec<u32>], origin_unix_ms: u64, mig: Mig) -> Scenario {
    let mut simulated: Vec<SimulatedGpu> = Vec::new();
    let mut split = SimulatedGpu {
        uuid: MIG.to_owned(),
        ..SimulatedGpu::default()
    };
    for (gpu, pids) in gpus.iter().zip(pids) {
        let processes: Vec<Process> = match (gpu.reuses_pid, pids.first()) {
            (true, Some(pid)) => vec![Process::new(*pid, gpu.holds[0].mib)],
            _ => gpu.holds.iter().zip(pids).map(process).collect(),
        };
        if gpu.uuid == MIG {
            continue;
        }
        if let Some((from, slices)) = gpu.slices.first() {
            split.instances.push(Instance {
                uuid: gpu.uuid.to_owned(),
                slices: *slices,
                from: Some(*from),
                until: gpu.slices.get(1).map(|(until, _)| *until),
                processes,
                ..Instance::default()
            });
            continue;
        }
        simulated.push(SimulatedGpu {
            uuid: gpu.uuid.to_owned(),
            util: Some(Value::steps(gpu.util.clone())),
            lost: gpu.lost.iter().map(|lost| [lost.from, lost.to]).collect(),
            processes,
            ..SimulatedGpu::default()
        });
    }
    if mig == Mig::With {
        simulated.push(split);
    }
    Scenario {
        clock: Clock {
            origin_unix_ms: Some(origin_unix_ms),
            ..Clock::default()
        },
        // A real driver samples every 167 ms. Here the buffer covers more than a tick: draining shorter buffers in
        // between, at most every second, cannot be simulated at this scale.
        buffers: Buffers {
            samples: 240,
            period_ms: 167.0 / SCALE,
            ..Buffers::default()
        },
        gpus: simulated,
        faults: vec![Fault {
            function: "nvmlDeviceGetMemoryInfo*".to_owned(),
            from: Some(HANG.from),
            until: Some(HANG.to),
            hang: true,
            ..Fault::default()
        }],
        ..Scenario::default()
    }
}

fn process((hold, pid): (&Hold, &u32)) -> Process {
    Process {
        from: Some(hold.when.from),
        until: hold.when.to.is_finite().then_some(hold.when.to),
        ..Process::new(*pid, hold.mib)
    }
}

impl Gpu {
    /// The physical GPU: this one, or the one in MIG mode.
    pub(crate) fn physical(&self) -> &'static str {
        if self.slices.is_empty() {
            self.uuid
        } else {
            MIG
        }
    }

    /// Part of the physical GPU that it has at a second.
    fn share(&self, second: f64) -> f64 {
        if self.slices.is_empty() {
            return 1.0;
        }
        let slices = self.slices.iter().rfind(|(from, _)| *from <= second);
        slices.map_or(0.0, |(_, slices)| f64::from(*slices) / SLICES)
    }

    /// State at a second of the script, by the rules of docs/states.md.
    fn state(&self, second: f64) -> &'static str {
        let on_it: Vec<&Hold> = self
            .holds
            .iter()
            .filter(|hold| hold.when.contains(second))
            .collect();
        let mib = |holds: &mut dyn Iterator<Item = &&Hold>| holds.map(|hold| hold.mib).sum::<f64>();
        let live = mib(&mut on_it.iter().filter(|hold| hold.who != Who::Gone));
        let all = mib(&mut on_it.iter());
        let util = self
            .util
            .iter()
            .rfind(|(from, _)| *from <= second)
            .map(|(_, util)| *util);
        match util {
            None if on_it.is_empty() => "truly-idle",
            None => "held-unknown",
            Some(util) if util >= 10.0 && on_it.is_empty() => "ghost",
            Some(util) if util >= 10.0 => "active",
            Some(_) if live > 100.0 => "idle-held",
            Some(_) if all > 100.0 => "orphan-held",
            Some(_) => "truly-idle",
        }
    }

    /// Seconds at which anything changes.
    fn changes(&self) -> Vec<f64> {
        let utils = self.util.iter().map(|(from, _)| *from);
        let holds = self
            .holds
            .iter()
            .flat_map(|hold| [hold.when.from, hold.when.to]);
        let slices = self.slices.iter().map(|(from, _)| *from);
        utils.chain(holds).chain(slices).collect()
    }

    /// Adds the truth for this GPU in a span, weighted.
    pub(crate) fn add_truth(&self, span: Span, weight: f64, truth: &mut Hours) {
        let mut cuts = self.changes();
        cuts.extend([span.from, span.to]);
        cuts.retain(|cut| span.from <= *cut && *cut <= span.to);
        cuts.sort_by(f64::total_cmp);
        for pair in cuts.windows(2) {
            let [from, to] = [pair[0], pair[1]];
            let middle = f64::midpoint(from, to);
            let hours = (to - from) * weight * self.share(middle) * SCALE / 3600.0;
            if hours == 0.0 {
                continue;
            }
            *truth
                .states
                .entry(self.state(middle).to_owned())
                .or_default() += hours;
            let mut owners: Vec<Who> = self
                .holds
                .iter()
                .filter(|hold| hold.when.contains(middle))
                .map(|hold| hold.who)
                .collect();
            owners.sort();
            owners.dedup();
            for owner in &owners {
                let name = match owner {
                    Who::Person(person) => PEOPLE[*person],
                    Who::Gone => "unknown",
                };
                let number = f64::from(u32::try_from(owners.len()).unwrap_or(u32::MAX));
                *truth.held.entry(name.to_owned()).or_default() += hours;
                *truth.charged.entry(name.to_owned()).or_default() += hours / number;
            }
        }
    }
}

/// Hours at the script's scale.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hours {
    pub(crate) states: BTreeMap<String, f64>,
    pub(crate) held: BTreeMap<String, f64>,
    pub(crate) charged: BTreeMap<String, f64>,
}
