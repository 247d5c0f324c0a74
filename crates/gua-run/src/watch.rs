//! What is known of a running job so far, from looks at its cards, its processes and the host. It reads and writes
//! nothing: whoever looks brings what was seen, and takes the lines that are to be written.

use std::collections::BTreeSet;
use std::time::Duration;

use gua_model::{Gpu, Pid, Process, Sample, Thresholds, VisibleDevices};
use gua_probe::host::processor::ProcessorTime;
use gua_probe::process::family::FamilyUse;
use gua_wire::run::json::Fields;
use gua_wire::run::metrics;
use gua_wire::run::summary::Tally;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::card_use::CardUse;
use crate::marks::Mark;
use crate::means::rounded;
use crate::phases::{PhaseSummary, Phases};
use crate::tree_use::TreeUse;

/// Which cards are the job's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those on which its processes are seen, from then on.
    Seen,
    /// Those that it was given, and others on which its processes are seen.
    Given(VisibleDevices),
    All,
}

/// Values that a job may set; more are counted and not kept.
const MOST_VALUES: usize = 64;

/// A value as large as this belongs in a file of its own.
const LONGEST_VALUE: usize = 256;

/// What is known so far.
#[derive(Debug)]
pub struct Watch {
    scope: Scope,
    thresholds: Thresholds,
    zone: TimeZone,
    pub(crate) tally: Tally,
    pub(crate) cards: Vec<CardUse>,
    pub(crate) tree: TreeUse,
    pub(crate) phases: Phases,
    pub(crate) values: Map<String, Value>,
    pub(crate) values_dropped: u64,
    pub(crate) samples: u64,
    before: Option<Before>,
    processors: Option<ProcessorTime>,
}

/// The look before this one.
#[derive(Debug)]
struct Before {
    since_boot: Duration,
    gpus: Vec<Gpu>,
    own: BTreeSet<Pid>,
}

/// What a look at the cards adds to the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardLines {
    pub gpu: Vec<String>,
    pub dmon: Vec<String>,
    /// The cards in the line of `run.jsonl`.
    pub told: Vec<Value>,
}

impl Watch {
    #[must_use]
    pub fn new(scope: Scope, thresholds: Thresholds, zone: TimeZone) -> Self {
        let mut tally = Tally::default();
        for head in metrics::DMON_HEADER.lines() {
            tally.dmon_line(head);
        }
        Self {
            scope,
            thresholds,
            zone,
            tally,
            cards: Vec::new(),
            tree: TreeUse::default(),
            phases: Phases::default(),
            values: Map::new(),
            values_dropped: 0,
            samples: 0,
            before: None,
            processors: None,
        }
    }

    /// A look at all cards. `is_member` tells the job's processes from others.
    pub fn cards(&mut self, sample: &Sample, is_member: impl Fn(Pid) -> bool) -> CardLines {
        // The driver's number means a process here only if that process was found.
        let seen = |process: &Process| process.identity.is_ok() && is_member(process.pid);
        let mut own: BTreeSet<Pid> = BTreeSet::new();
        for gpu in &sample.gpus {
            own.extend(gpu.processes.iter().filter(|p| seen(p)).map(|p| p.pid));
        }
        let given = match &self.scope {
            Scope::Given(list) => list.cards(&sample.gpus),
            Scope::Seen | Scope::All => BTreeSet::new(),
        };
        let is_ours = |gpu: &Gpu, cards: &[CardUse]| {
            gpu.place.counts()
                && (self.scope == Scope::All
                    || given.contains(&gpu.uuid)
                    || cards.iter().any(|card| *card.uuid() == gpu.uuid)
                    || gpu
                        .processes
                        .iter()
                        .any(|process| own.contains(&process.pid)))
        };
        let ours: Vec<Gpu> = sample
            .gpus
            .iter()
            .filter(|gpu| is_ours(gpu, &self.cards))
            .cloned()
            .collect();
        self.samples += 1;
        let lines = self.write_down(sample.at, &ours, &own);
        self.add(sample.since_boot, &ours, &own);
        self.before = Some(Before {
            since_boot: sample.since_boot,
            gpus: ours,
            own,
        });
        lines
    }

    /// The last look, after the job has ended: for the time since the one before, and for cards that are known.
    pub fn close(&mut self, sample: &Sample) {
        let ours: Vec<Gpu> = sample
            .gpus
            .iter()
            .filter(|gpu| self.cards.iter().any(|card| *card.uuid() == gpu.uuid))
            .cloned()
            .collect();
        self.add(sample.since_boot, &ours, &BTreeSet::new());
    }

    fn write_down(&mut self, at: Timestamp, ours: &[Gpu], own: &BTreeSet<Pid>) -> CardLines {
        let local = at.to_zoned(self.zone.clone());
        let mut lines = CardLines::default();
        for gpu in ours {
            let line = metrics::gpu_line(&local, gpu);
            self.tally.gpu_line(&line);
            lines.gpu.push(line);
            let line = metrics::dmon_line(gpu);
            self.tally.dmon_line(&line);
            lines.dmon.push(line);
            lines.told.push(told(gpu, own));
        }
        lines
    }

    /// Adds the time since the look before.
    fn add(&mut self, since_boot: Duration, ours: &[Gpu], own: &BTreeSet<Pid>) {
        let before = self.before.take();
        let ever: BTreeSet<Pid> = before
            .iter()
            .flat_map(|before| before.own.iter())
            .chain(own)
            .copied()
            .collect();
        let is_own = |process: &Process| ever.contains(&process.pid);
        for gpu in ours {
            let place = self.cards.iter().position(|card| *card.uuid() == gpu.uuid);
            let place = place.unwrap_or_else(|| {
                self.cards.push(CardUse::new(gpu));
                self.cards.len() - 1
            });
            let card = &mut self.cards[place];
            card.look(gpu, is_own);
            let earlier = before.as_ref().and_then(|before| {
                let time = since_boot.checked_sub(before.since_boot)?;
                let gpu = before.gpus.iter().find(|known| known.uuid == gpu.uuid)?;
                Some((gpu, time))
            });
            if let Some((earlier, time)) = earlier {
                let util = card.pass(earlier, gpu, time, &self.thresholds, is_own);
                if let Some(util) = util {
                    self.phases.used(util, time);
                }
            }
        }
    }

    /// A look at the job's processes; the processors that were busy for it since the last, where that can be told.
    pub fn tree(&mut self, now: Duration, found: &FamilyUse) -> Option<f64> {
        self.tree.look(now, found)
    }

    /// A look at the host's processors; the line of `cpu_metrics.csv` from the second look on.
    pub fn processors(&mut self, at: Timestamp, now: ProcessorTime) -> Option<String> {
        let before = self.processors.replace(now)?;
        let shares = now.since(&before)?;
        let line = metrics::cpu_line(at, shares.usr_pct, shares.idle_pct);
        self.tally.cpu_line(&line);
        Some(line)
    }

    /// Something that the job said. A phase that ends with it is told.
    pub fn mark(&mut self, mark: &Mark, at: Timestamp, now: Duration) -> Option<PhaseSummary> {
        match mark {
            Mark::Phase(name) => self.phases.begin(name, at, now),
            Mark::Event { .. } => None,
            Mark::Set(values) => {
                for (name, value) in values {
                    let is_new = !self.values.contains_key(name);
                    let is_large = name.len() + value.to_string().len() > LONGEST_VALUE;
                    if is_large || (is_new && self.values.len() >= MOST_VALUES) {
                        self.values_dropped += 1;
                    } else {
                        self.values.insert(name.clone(), value.clone());
                    }
                }
                None
            }
        }
    }

    /// The run ends, and with it the phase that there is.
    pub fn end_phase(&mut self, now: Duration) -> Option<PhaseSummary> {
        self.phases.end(now)
    }
}

/// A look at processes and cards as `run.jsonl` has it.
#[must_use]
pub fn sample_fields(found: &FamilyUse, cores: Option<f64>, cards: Vec<Value>) -> Fields {
    let storage = found.storage.as_ref().ok();
    Fields::new()
        .with("processes", found.processes)
        .with("cpu_seconds", rounded(found.processor.as_secs_f64(), 2))
        .with("cpu_cores", cores.map(|cores| rounded(cores, 2)))
        .with("memory_mb", found.resident.whole_mb())
        .with("read_mb", storage.map(|storage| storage.read.whole_mb()))
        .with(
            "written_mb",
            storage.map(|storage| storage.written.whole_mb()),
        )
        .with("gpus", Value::Array(cards))
}

fn told(gpu: &Gpu, own: &BTreeSet<Pid>) -> Value {
    let own_memory: Option<u64> = gpu
        .processes
        .iter()
        .filter(|process| own.contains(&process.pid))
        .map(|process| process.memory.ok().map(|memory| memory.0))
        .sum();
    serde_json::json!({
        "index": gpu.index,
        "util_pct": gpu.util.ok().map(gua_model::Percent::get),
        "mem_util_pct": gpu.memory_util.ok().map(gua_model::Percent::get),
        "memory_used_mb": gpu.memory_used.ok().map(gua_model::Bytes::whole_mb),
        "own_memory_mb": own_memory.map(|bytes| gua_model::Bytes(bytes).whole_mb()),
        "power_w": gpu.power.ok().map(gua_model::Milliwatts::whole_watts),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gua_model::{Bytes, Driver, Missing, Percent, ProcessKind};

    use super::*;

    /// Cards as `util:pid,pid`.
    fn sample(second: u64, cards: &[&str]) -> Sample {
        let card = |(index, text): (usize, &&str)| {
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
        Sample {
            at: Timestamp::from_second(i64::try_from(second).unwrap()).unwrap(),
            since_boot: Duration::from_secs(second),
            boot: Err(Missing::Failed),
            driver: Driver {
                version: Err(Missing::Failed),
                cuda: Err(Missing::Failed),
            },
            gpus: cards.iter().enumerate().map(card).collect(),
            problems: Vec::new(),
        }
    }

    fn identity(pid: Pid) -> gua_model::Identity {
        gua_model::Identity {
            key: gua_model::ProcessKey {
                boot: gua_model::BootId(1),
                pid,
                start: gua_model::StartTicks(1),
            },
            login: Err(Missing::Denied),
            own: Err(Missing::Denied),
            workload: gua_model::Workload {
                container: None,
                pod: None,
                job: None,
                user: None,
            },
            comm: Err(Missing::Denied),
        }
    }

    fn watched(scope: Scope, samples: &[Sample]) -> Watch {
        let mut watch = Watch::new(scope, Thresholds::default(), TimeZone::UTC);
        for sample in samples {
            watch.cards(sample, |pid| pid.0 < 10);
        }
        watch
    }

    #[test]
    fn a_card_is_the_jobs_from_when_it_is_seen_there_and_neighbours_are_left_out() {
        let watch = watched(
            Scope::Seen,
            &[
                sample(0, &["0:", "99:50"]),
                sample(2, &["80:5", "99:50"]),
                sample(4, &["80:5,50", "99:50"]),
                sample(6, &["0:", "99:50"]),
            ],
        );
        assert_eq!(watch.cards.len(), 1);
        let card = watch.cards[0].summary();
        assert_eq!((card.index, card.observed_seconds), (0, 4.0));
        assert_eq!(card.shared_seconds, 2.0);
        assert_eq!(card.own_memory_max_mb, Some(200));
        assert_eq!(watch.tally.summary().gpu_util_max_pct, 80.0);
    }

    #[test]
    fn a_card_that_was_given_counts_from_the_start_though_it_lies_idle() {
        let given = Scope::Given(VisibleDevices::parse("1"));
        let watch = watched(
            given,
            &[sample(0, &["0:", "0:"]), sample(10, &["0:5", "0:"])],
        );
        let cards: Vec<_> = watch.cards.iter().map(CardUse::summary).collect();
        assert_eq!(
            cards.len(),
            2,
            "a job that takes another card is seen there"
        );
        assert_eq!(cards[0].index, 1);
        assert_eq!(cards[0].states_seconds["truly-idle"], 10.0);
        assert_eq!(cards[1].observed_seconds, 0.0);
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
        assert_eq!(watch.values.len(), MOST_VALUES);
        assert_eq!(
            (&watch.values["k0"], &watch.values["k1"]),
            (&2.into(), &1.into())
        );
        assert_eq!(watch.values_dropped, 37);
    }
}
