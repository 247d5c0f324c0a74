//! State of a running job, built from samples of its GPUs, its processes and the host. It does no I/O: the caller passes
//! samples in and writes the lines that come back.
//!
//! GPU time is accounted by [`gua_model::Spans`], as a history does it, so that a run and a report agree on the same hour.

use std::collections::BTreeSet;
use std::time::Duration;

use gua_model::{
    Cadence, Floors, Gpu, Pid, Process, Sample, Span, Spans, Thresholds, Tick, VisibleDevices,
};
use gua_probe::host::processor::ProcessorTime;
use gua_probe::process::family::FamilyUse;
use gua_wire::run::json::Fields;
use gua_wire::run::metrics;
use gua_wire::run::summary::Tally;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::gpu_use::{GpuSummary, GpuUse};
use crate::marks::Mark;
use crate::means::rounded;
use crate::own;
use crate::phases::{PhaseSummary, Phases};
use crate::tree_use::TreeUse;

/// GPUs that count as the job's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// GPUs on which its processes are seen, from then on.
    Seen,
    /// GPUs that it was given, and others on which its processes are seen.
    Given(VisibleDevices),
    All,
}

/// Maximum number of values that a job may set; more are counted and not kept.
const MAX_VALUES: usize = 64;

/// Maximum length of a value with its name, in bytes of JSON.
const MAX_VALUE_LENGTH: usize = 256;

/// State of a running job.
#[derive(Debug)]
pub struct Watch {
    scope: Scope,
    zone: TimeZone,
    cadence: Cadence,
    /// The same fold as in a history, over the job's GPUs.
    spans: Spans,
    /// Wall clock and time since boot of the first sample. A run's own timeline starts here and follows the time since
    /// boot, so that setting the wall clock neither loses nor doubles time.
    origin: Option<(Timestamp, Duration)>,
    pub(crate) tally: Tally,
    pub(crate) gpus: Vec<GpuUse>,
    pub(crate) tree: TreeUse,
    pub(crate) phases: Phases,
    pub(crate) values: Map<String, Value>,
    pub(crate) values_dropped: u64,
    pub(crate) samples: u64,
    /// Whether a GPU that the job was given was ever found.
    has_given: bool,
    /// The job's processes on GPUs at the last sample.
    own: BTreeSet<Pid>,
    processors: Option<ProcessorTime>,
}

/// Lines that a sample of the GPUs adds to the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuLines {
    /// The lines of each GPU in `hw_metrics.csv` and `hw_dmon.csv`.
    pub metrics: Vec<(String, String)>,
    /// The GPUs in the line of `run.jsonl`.
    pub log: Vec<Value>,
}

impl Watch {
    /// `interval` is the planned time from one sample to the next.
    pub fn new(scope: Scope, thresholds: Thresholds, zone: TimeZone, interval: Duration) -> Self {
        Self {
            scope,
            zone,
            cadence: Cadence::new(interval),
            spans: Spans::new(thresholds, Floors::new()),
            origin: None,
            tally: Tally::default(),
            gpus: Vec::new(),
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

    /// Adds a sample. `is_member` decides which processes belong to the job.
    pub fn gpus(&mut self, sample: &Sample, is_member: impl Fn(Pid) -> bool) -> GpuLines {
        // In another pid namespace the driver's number means another process, so only processes that were found count.
        let is_own = |process: &&Process| process.identity.is_ok() && is_member(process.pid);
        let processes = sample.gpus.iter().flat_map(|gpu| &gpu.processes);
        let own: BTreeSet<Pid> = processes.filter(is_own).map(|it| it.pid).collect();
        let given = match &self.scope {
            Scope::Given(list) => list.gpus(&sample.gpus),
            Scope::Seen | Scope::All => BTreeSet::new(),
        };
        let ours: Vec<Gpu> = sample
            .gpus
            .iter()
            .filter(|gpu| {
                gpu.place.counts()
                    && (self.scope == Scope::All
                        || given.contains(&gpu.uuid)
                        || self.knows(gpu)
                        || gpu.processes.iter().any(|it| own.contains(&it.pid)))
            })
            .cloned()
            .collect();
        self.samples += 1;
        self.has_given |= !given.is_empty();
        let lines = self.lines(sample.at, &ours, &own);
        self.add(sample, ours, &own);
        self.own = own;
        lines
    }

    /// Adds the last sample, taken after the job has ended: it closes the span before it, and adds no GPU.
    pub fn close(&mut self, sample: &Sample) {
        let known = sample.gpus.iter().filter(|gpu| self.knows(gpu));
        let known = known.cloned().collect();
        self.add(sample, known, &BTreeSet::new());
    }

    /// Summaries of the job's GPUs so far.
    pub fn gpu_summaries(&self) -> Vec<GpuSummary> {
        self.gpus.iter().map(GpuUse::summary).collect()
    }

    fn knows(&self, gpu: &Gpu) -> bool {
        self.gpus.iter().any(|known| known.first.uuid == gpu.uuid)
    }

    /// Whether GPUs were named and the driver knows none of them.
    pub(crate) fn is_without_given_gpus(&self) -> bool {
        matches!(self.scope, Scope::Given(_)) && self.samples > 0 && !self.has_given
    }

    fn lines(&mut self, at: Timestamp, ours: &[Gpu], own: &BTreeSet<Pid>) -> GpuLines {
        let local = at.to_zoned(self.zone.clone());
        let mut lines = GpuLines::default();
        for gpu in ours {
            self.tally.gpu(gpu);
            let pair = (metrics::gpu_line(&local, gpu), metrics::dmon_line(gpu));
            lines.metrics.push(pair);
            lines.log.push(log_entry(gpu, own));
        }
        lines
    }

    /// Converts a time since boot to the run's timeline.
    fn moment(&self, since_boot: Duration) -> Option<Timestamp> {
        let (at, origin) = self.origin?;
        at.checked_add(since_boot.checked_sub(origin)?).ok()
    }

    /// Pushes the job's GPUs as one tick, and accounts for the spans that it closes.
    fn add(&mut self, sample: &Sample, ours: Vec<Gpu>, own: &BTreeSet<Pid>) {
        self.origin.get_or_insert((sample.at, sample.since_boot));
        let open = self.spans.open().map(|tick| tick.sample.at);
        let now = self.moment(sample.since_boot);
        let Some(at) = now.filter(|at| open.is_none_or(|open| *at > open)) else {
            return;
        };
        let is_own = |process: &Process| {
            let pid = &process.pid;
            self.own.contains(pid) || own.contains(pid)
        };
        for gpu in &ours {
            let place = self.gpus.iter().position(|it| it.first.uuid == gpu.uuid);
            let place = place.unwrap_or_else(|| {
                self.gpus.push(GpuUse::new(gpu, at, self.cadence));
                self.gpus.len() - 1
            });
            self.gpus[place].sample(gpu, at, is_own);
        }
        let (before, spans) = self.spans.push_owned(Tick {
            sample: Sample {
                at,
                since_boot: sample.since_boot,
                boot: sample.boot,
                driver: sample.driver.clone(),
                gpus: ours,
                problems: Vec::new(),
            },
            interval: self.cadence.interval,
        });
        self.spans.forget_past();
        let Some((before, after)) = before.as_ref().zip(self.spans.open()) else {
            return;
        };
        for span in &spans {
            let later = gpu_of(span, after);
            account(&mut self.gpus, span, before, later, is_own);
            if let (Ok(util), Some(_)) = (span.util, later) {
                let time = Duration::from_micros(span.period().micros().0);
                let util_pct = f64::from(util.0) / 100.0;
                self.phases.add(util_pct, before.sample.since_boot, time);
            }
        }
    }

    /// Ends the run at this time since boot. The last sample covers its interval at most; the rest is a gap.
    pub fn end(&mut self, since_boot: Duration) {
        let Some(until) = self.moment(since_boot) else {
            return;
        };
        let is_own = |process: &Process| self.own.contains(&process.pid);
        if let Some(last) = self.spans.open().cloned() {
            for span in &self.spans.clone().finish(until) {
                account(&mut self.gpus, span, &last, None, is_own);
            }
        }
        for gpu in &mut self.gpus {
            gpu.end(until);
        }
    }

    /// Adds the job's processes; returns the CPU cores that were busy for it since the last time, if known.
    pub fn tree(&mut self, now: Duration, found: &FamilyUse) -> Option<f64> {
        self.tree.add(now, found)
    }

    /// Adds the host's processor time; returns the line of `cpu_metrics.csv`, from the second time on.
    pub fn processors(&mut self, at: Timestamp, now: ProcessorTime) -> Option<String> {
        let before = self.processors.replace(now)?;
        let shares = now.since(&before)?;
        self.tally.cpu(shares.usr_pct, shares.idle_pct);
        Some(metrics::cpu_line(at, shares.usr_pct, shares.idle_pct))
    }

    /// Adds a mark of the job; returns the phase that ends with it.
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
                    let is_large = name.len() + value.to_string().len() > MAX_VALUE_LENGTH;
                    if is_large || (is_new && self.values.len() >= MAX_VALUES) {
                        self.values_dropped += 1;
                    } else {
                        self.values.insert(name.clone(), value.clone());
                    }
                }
                None
            }
        }
    }
}

/// A sample of processes and GPUs, as `run.jsonl` has it.
pub fn sample_fields(found: &FamilyUse, cores: Option<f64>, gpus: Vec<Value>) -> Fields {
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
        .with("gpus", Value::Array(gpus))
}

fn gpu_of<'a>(span: &Span, tick: &'a Tick) -> Option<&'a Gpu> {
    tick.sample.gpus.iter().find(|gpu| gpu.uuid == span.gpu)
}

/// Adds a span of the tick `before` to its GPU.
fn account(
    gpus: &mut [GpuUse],
    span: &Span,
    before: &Tick,
    after: Option<&Gpu>,
    is_own: impl Fn(&Process) -> bool,
) {
    let gpu = gpus.iter_mut().find(|gpu| gpu.first.uuid == span.gpu);
    if let Some((gpu, before)) = gpu.zip(gpu_of(span, before)) {
        gpu.cover(span, before, after, is_own);
    }
}

fn log_entry(gpu: &Gpu, own: &BTreeSet<Pid>) -> Value {
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
