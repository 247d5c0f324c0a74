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

use crate::card_use::{CardUse, Rules};
use crate::marks::Mark;
use crate::means::rounded;
use crate::own;
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
    rules: Rules,
    zone: TimeZone,
    pub(crate) tally: Tally,
    pub(crate) cards: Vec<CardUse>,
    pub(crate) tree: TreeUse,
    pub(crate) phases: Phases,
    pub(crate) values: Map<String, Value>,
    pub(crate) values_dropped: u64,
    pub(crate) samples: u64,
    /// Whether a card that the job was given was ever found.
    has_given: bool,
    /// The job's processes on cards at the look before.
    own: BTreeSet<Pid>,
    processors: Option<ProcessorTime>,
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
    /// `interval` is the time from one look to the next; a look stands for no longer.
    #[must_use]
    pub fn new(scope: Scope, thresholds: Thresholds, zone: TimeZone, interval: Duration) -> Self {
        let mut tally = Tally::default();
        for head in metrics::DMON_HEADER.lines() {
            tally.dmon_line(head);
        }
        Self {
            scope,
            rules: Rules {
                thresholds,
                interval,
            },
            zone,
            tally,
            cards: Vec::new(),
            tree: TreeUse::default(),
            phases: Phases::default(),
            values: Map::new(),
            values_dropped: 0,
            samples: 0,
            has_given: false,
            own: BTreeSet::new(),
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
        self.has_given |= !given.is_empty();
        let lines = self.write_down(sample.at, &ours, &own);
        self.add(sample.since_boot, ours, &own);
        self.own = own;
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
        self.add(sample.since_boot, ours, &BTreeSet::new());
    }

    /// Whether cards were named and the driver knows none of them.
    pub(crate) fn is_without_given_cards(&self) -> bool {
        matches!(self.scope, Scope::Given(_)) && self.samples > 0 && !self.has_given
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
    fn add(&mut self, since_boot: Duration, ours: Vec<Gpu>, own: &BTreeSet<Pid>) {
        let is_own = |process: &Process| {
            let pid = &process.pid;
            self.own.contains(pid) || own.contains(pid)
        };
        for gpu in ours {
            let place = self.cards.iter().position(|card| *card.uuid() == gpu.uuid);
            let place = place.unwrap_or_else(|| {
                self.cards.push(CardUse::new(&gpu));
                self.cards.len() - 1
            });
            let card = &mut self.cards[place];
            if let Some(busy) = card.pass(since_boot, gpu, &self.rules, is_own) {
                self.phases.used(busy);
            }
        }
    }

    /// The job ended at this time since boot. What was not looked at until then is counted as far as the last look stands
    /// for it; the rest is a gap.
    pub fn end(&mut self, since_boot: Duration) {
        let is_own = |process: &Process| self.own.contains(&process.pid);
        for card in &mut self.cards {
            card.end(since_boot, &self.rules, is_own);
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

    /// Something that the job said, at this time since boot. A phase that ends with it is told.
    pub fn mark(
        &mut self,
        mark: &Mark,
        at: Timestamp,
        since_boot: Duration,
    ) -> Option<PhaseSummary> {
        match mark {
            Mark::Phase(name) => self.phases.begin(name, at, since_boot),
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
    pub fn end_phase(&mut self, since_boot: Duration) -> Option<PhaseSummary> {
        self.phases.end(since_boot)
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
    let is_own = |process: &Process| own.contains(&process.pid);
    let own_memory = own::memory(gpu, is_own).ok();
    serde_json::json!({
        "index": gpu.index,
        "util_pct": gpu.util.ok().map(gua_model::Percent::get),
        "mem_util_pct": gpu.memory_util.ok().map(gua_model::Percent::get),
        "memory_used_mb": gpu.memory_used.ok().map(gua_model::Bytes::whole_mb),
        "own_memory_mb": own_memory.map(gua_model::Bytes::whole_mb),
        "power_w": gpu.power.ok().map(gua_model::Milliwatts::whole_watts),
    })
}

#[cfg(test)]
pub(crate) mod tests;
