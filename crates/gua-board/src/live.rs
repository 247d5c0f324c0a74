//! The latest state of every host, in memory.
//!
//! Each change of a host gets the next revision. A page asks for all hosts, an event stream waits with [`LiveState::watch`]
//! and asks for [`LiveState::changes_since`] the revision that it has shown. The state is filled from the ledger at the
//! start, so that a restart shows the last known state at once.

mod curve;
mod day;
mod interval;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use gua_board_store::HostId;
use gua_board_store::ledger::{Form, MAX_CLOCK_LEAD, Observation};
use gua_model::{GpuUuid, State};
use gua_wire::LiveReport;
use gua_wire::live::{LiveGpu, LiveQuota, LiveValue};
use gua_wire::snapshot::Snapshot;
use gua_wire::stream::UtilFrame;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;
use tracing::warn;

use crate::availability::{Group, model};

pub use curve::Curve;
pub use day::{Day, SLOTS as DAY_SLOTS};
pub use interval::Interval;

/// Maximum delay of a current report. A report that arrives later comes from a spool.
pub(crate) const PROMPT: SignedDuration = SignedDuration::from_mins(2);

/// Number of model names that are kept.
const MAX_MODELS: usize = 1000;

/// Latest state of one host.
#[derive(Clone, Debug)]
pub struct HostLive {
    /// Revision of the last change.
    pub revision: u64,
    pub report: Arc<LiveReport>,
    /// Form in which the report arrived.
    pub form: Form,
    /// Arrival time of the host's last report, by the board's clock.
    pub received_at: Timestamp,
    /// Interval at which the host reports.
    pub interval: Interval,
    /// Utilisation of each GPU in the last hour.
    pub curves: Arc<HashMap<GpuUuid, Curve>>,
    /// Day strip of each GPU.
    pub days: Arc<HashMap<GpuUuid, Day>>,
    /// Model of each GPU of the report, in its order.
    pub models: Arc<[Arc<str>]>,
    /// Start of each GPU's current state.
    pub since: Arc<HashMap<GpuUuid, Since>>,
    /// Arrival time of the report since which none has observed a GPU; `None` if the GPUs are observed.
    pub unobserved_since: Option<Timestamp>,
    /// Use of the host's quotas, for alerts only. It is not part of the report, because members see the report.
    pub quotas: Arc<[LiveQuota]>,
}

impl HostLive {
    /// Whether the state is too old to be relied on.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        now.duration_since(self.received_at) > self.interval.stale_after()
    }

    /// Whether the report had just been made when it arrived. One from a spool belongs to an earlier time.
    pub(crate) fn is_prompt(&self) -> bool {
        let delay = self.received_at.duration_since(self.report.observed_at);
        delay.abs() <= PROMPT
    }

    /// Takes over the state accumulated from earlier reports of the host.
    fn continue_from(&mut self, mut known: HostLive) {
        known.add_to_days(self.received_at);
        let (before, after) = (known.report.observed_at, self.report.observed_at);
        known.interval.add(after.duration_since(before));
        // A report without any GPU is of a driver that could not be read.
        let gpus = &self.report.gpus;
        let has_gpu = |uuid: &GpuUuid| gpus.is_empty() || gpus.iter().any(|gpu| gpu.uuid == *uuid);
        if !known.curves.keys().all(has_gpu) {
            Arc::make_mut(&mut known.curves).retain(|uuid, _| has_gpu(uuid));
        }
        if !known.days.keys().all(has_gpu) {
            Arc::make_mut(&mut known.days).retain(|uuid, _| has_gpu(uuid));
        }
        (self.interval, self.curves, self.days) = (known.interval, known.curves, known.days);
    }

    /// Adds the time since the previous report to the day strips: a state lasts until the next report, unless that is late.
    fn add_to_days(&mut self, until: Timestamp) {
        let from = self.received_at;
        if !self.is_prompt() || self.is_stale(until) {
            return;
        }
        let days = Arc::make_mut(&mut self.days);
        for gpu in self.report.gpus.iter().filter(|gpu| gpu.counts()) {
            let day = days.entry(gpu.uuid.clone()).or_default();
            day.add(Group::of(gpu, false), from.as_second(), until.as_second());
        }
    }

    /// Adds the utilisation of the report.
    fn add_to_curves(&mut self) {
        if !self.is_prompt() {
            return;
        }
        let curves = Arc::make_mut(&mut self.curves);
        for gpu in &self.report.gpus {
            if let LiveValue::Known(util) = gpu.util_percent {
                let curve = curves.entry(gpu.uuid.clone()).or_default();
                curve.add(self.received_at.as_second(), util);
            }
        }
    }
}

/// Start of a GPU's current state with its current holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Since {
    /// Time of the first report with this state and these holders.
    pub at: Timestamp,
    /// Whether the report before it had another state. Otherwise the state is at least as old as this.
    pub is_exact: bool,
}

/// Latest state of all hosts.
#[derive(Debug, Default)]
pub struct LiveState {
    inner: RwLock<Inner>,
    revision: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    revision: u64,
    hosts: HashMap<HostId, HostLive>,
    /// Names of models, each once: many GPUs have few models.
    models: HashSet<Arc<str>>,
    /// Hosts by the revision of their last change.
    changes: BTreeMap<u64, HostId>,
}

impl LiveState {
    /// Fills the state with the newest observations of the ledger. One that cannot be read is skipped.
    pub fn load(latest: &[Observation]) -> Self {
        let state = Self::default();
        let hosts = latest.chunk_by(|one, other| one.host == other.host);
        let hosts: Vec<&[Observation]> = hosts.collect();
        // Parsing takes most of the start of a board with many hosts, so all cores do it.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for part in hosts.chunks(hosts.len().div_ceil(cores).max(1)) {
                scope.spawn(|| part.iter().for_each(|host| state.load_host(host)));
            }
        });
        state
    }

    /// Restores the state of one host from its stored observations. A snapshot of the same tick as a live report is not parsed.
    fn load_host(&self, observations: &[Observation]) {
        for form in [Form::Live, Form::Snapshot] {
            let mut all = observations.iter();
            let Some(one) = all.find(|one| one.form == form) else {
                continue;
            };
            let known = self.host(&one.host);
            if known.is_some_and(|known| !replaces(&known, form, one.observed_at, one.received_at))
            {
                continue;
            }
            let report = match form {
                Form::Snapshot => serde_json::from_slice::<Snapshot>(&one.body)
                    .map(|snapshot| LiveReport::from_snapshot(&snapshot, one.observed_at)),
                Form::Live => serde_json::from_slice(&one.body),
            };
            match report {
                Ok(report) => self.apply(&one.host, form, report, one.received_at),
                Err(error) => {
                    warn!(host = %one.host, error = %error, "stored observation skipped");
                }
            }
        }
    }

    /// Takes in a report, unless a newer or better one of the same host is there.
    pub fn apply(&self, host: &HostId, form: Form, mut report: LiveReport, received_at: Timestamp) {
        let mut inner = self.write();
        let inner = &mut *inner;
        let known = inner.hosts.get(host);
        if known.is_some_and(|known| !replaces(known, form, report.observed_at, received_at)) {
            return;
        }
        inner.revision += 1;
        let quotas = std::mem::take(&mut report.quotas).into();
        let mut live = HostLive {
            revision: inner.revision,
            form,
            received_at,
            interval: Interval::default(),
            curves: Arc::default(),
            days: Arc::default(),
            models: models(&mut inner.models, &report),
            since: Arc::new(since(known, &report)),
            unobserved_since: unobserved_since(known, &report, received_at),
            quotas,
            report: Arc::new(report),
        };
        if let Some(known) = inner.hosts.remove(host) {
            inner.changes.remove(&known.revision);
            live.continue_from(known);
        }
        live.add_to_curves();
        inner.changes.insert(live.revision, host.clone());
        self.revision.send_replace(live.revision);
        inner.hosts.insert(host.clone(), live);
    }

    /// Takes in a frame of a host's stream. GPUs that no report has named are ignored.
    pub fn frame(&self, host: &HostId, frame: &UtilFrame, received_at: Timestamp) {
        let mut inner = self.write();
        let inner = &mut *inner;
        let Some(live) = inner.hosts.get_mut(host) else {
            return;
        };
        let curves = Arc::make_mut(&mut live.curves);
        for util in &frame.gpus {
            let gpus = &live.report.gpus;
            let Some(gpu) = gpus
                .iter()
                .find(|gpu| gpu.uuid.as_str() == util.device_uuid)
            else {
                continue;
            };
            let curve = curves.entry(gpu.uuid.clone()).or_default();
            curve.add(received_at.as_second(), util.util_pct);
        }
        inner.revision += 1;
        inner.changes.remove(&live.revision);
        live.revision = inner.revision;
        inner.changes.insert(inner.revision, host.clone());
        self.revision.send_replace(inner.revision);
    }

    /// Forgets a host that was revoked.
    pub fn remove(&self, host: &HostId) {
        let mut inner = self.write();
        if let Some(live) = inner.hosts.remove(host) {
            inner.changes.remove(&live.revision);
        }
    }

    /// Reads the state of all hosts at one moment. Changes wait meanwhile.
    pub fn with_all<T>(&self, read: impl FnOnce(&HashMap<HostId, HostLive>) -> T) -> T {
        read(&self.read().hosts)
    }

    /// Returns the encoded day strips of each host.
    pub fn days(&self) -> Vec<(HostId, Vec<u8>)> {
        let days: Vec<_> = self.with_all(|hosts| {
            let hosts = hosts.iter();
            hosts
                .map(|(host, live)| (host.clone(), Arc::clone(&live.days)))
                .collect()
        });
        let days = days.into_iter().filter(|(_, days)| !days.is_empty());
        days.map(|(host, days)| (host, day::write(&days))).collect()
    }

    /// Restores the day strips that [`LiveState::days`] returned before a restart. Later observations are kept.
    pub fn restore_day(&self, host: &HostId, stored: &[u8]) {
        self.add_days(host, day::read(stored));
    }

    /// Adds earlier day strips to those of a host.
    pub(crate) fn add_days(&self, host: &HostId, earlier: Vec<(GpuUuid, Day)>) {
        let mut inner = self.write();
        let Some(live) = inner.hosts.get_mut(host) else {
            return;
        };
        let days = Arc::make_mut(&mut live.days);
        for (uuid, day) in earlier {
            if live.report.gpus.iter().any(|gpu| gpu.uuid == uuid) {
                days.entry(uuid).or_default().add_earlier(&day);
            }
        }
    }

    /// Takes earlier start times of the current states of a host's GPUs, from a history that reaches further back.
    pub(crate) fn extend_since(&self, host: &HostId, earlier: Vec<(GpuUuid, Since)>) {
        let mut inner = self.write();
        let Some(live) = inner.hosts.get_mut(host) else {
            return;
        };
        let known = Arc::make_mut(&mut live.since);
        for (uuid, since) in earlier {
            if let Some(known) = known
                .get_mut(&uuid)
                .filter(|known| !known.is_exact && since.at < known.at)
            {
                *known = since;
            }
        }
    }

    pub fn host(&self, host: &HostId) -> Option<HostLive> {
        self.read().hosts.get(host).cloned()
    }

    /// Returns the current revision, and the hosts that changed after the given one, oldest change first. Revision 0 returns
    /// all hosts.
    pub fn changes_since(&self, revision: u64) -> (u64, Vec<(HostId, HostLive)>) {
        let inner = self.read();
        let changed = inner
            .changes
            .range((Bound::Excluded(revision), Bound::Unbounded));
        let hosts = changed.filter_map(|(_, host)| {
            let live = inner.hosts.get(host)?;
            Some((host.clone(), live.clone()))
        });
        (inner.revision, hosts.collect())
    }

    /// Returns a receiver of the current revision.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the model of each GPU, with one text for all GPUs of a model.
fn models(known: &mut HashSet<Arc<str>>, report: &LiveReport) -> Arc<[Arc<str>]> {
    let gpus = report.gpus.iter();
    gpus.map(|gpu| {
        let model = model(gpu);
        if let Some(known) = known.get(model.as_str()) {
            return Arc::clone(known);
        }
        // Bounded, because hosts can send any number of different names.
        if known.len() >= MAX_MODELS {
            known.clear();
        }
        let model: Arc<str> = model.into();
        known.insert(Arc::clone(&model));
        model
    })
    .collect()
}

/// Returns the start of the current state of each GPU of a report. After unobserved time a state restarts, because
/// nobody knows what happened in between.
fn since(known: Option<&HostLive>, report: &LiveReport) -> HashMap<GpuUuid, Since> {
    let known = known.filter(|known| {
        let passed = report.observed_at.duration_since(known.report.observed_at);
        passed <= known.interval.stale_after()
    });
    let start = |gpu: &LiveGpu| {
        let before = known.and_then(|known| {
            let before = known.report.gpus.iter().find(|one| one.uuid == gpu.uuid)?;
            Some((before, *known.since.get(&gpu.uuid)?))
        });
        match before {
            Some((before, since)) if is_same_use(before, gpu) => since,
            other => Since {
                at: report.observed_at,
                is_exact: other.is_some(),
            },
        }
    };
    let gpus = report.gpus.iter();
    gpus.map(|gpu| (gpu.uuid.clone(), start(gpu))).collect()
}

/// Returns since when no GPU has been observed, by the board's clock. A host without GPUs has nothing to observe.
fn unobserved_since(
    known: Option<&HostLive>,
    report: &LiveReport,
    received_at: Timestamp,
) -> Option<Timestamp> {
    let is_observed = match report.gpus.is_empty() {
        true => report.problems.is_empty(),
        false => report.gpus.iter().any(|gpu| gpu.state != State::Unobserved),
    };
    let before = known.and_then(|known| known.unobserved_since);
    (!is_observed).then(|| before.unwrap_or(received_at))
}

fn is_same_use(one: &LiveGpu, other: &LiveGpu) -> bool {
    one.state == other.state && one.is_free() == other.is_free() && holders(one) == holders(other)
}

/// Returns the owners of the processes on a GPU, each once, by name.
pub fn holders(gpu: &LiveGpu) -> BTreeSet<&str> {
    let processes = gpu.processes.iter();
    processes
        .filter_map(|process| process.owner.as_deref())
        .collect()
}

/// Whether a report replaces the known state. Spooled pushes arrive late and in any order.
fn replaces(known: &HostLive, form: Form, after: Timestamp, received_at: Timestamp) -> bool {
    let before = known.report.observed_at;
    // The host's clock was ahead and has been set.
    if before.duration_since(received_at) > MAX_CLOCK_LEAD {
        return true;
    }
    match (known.form, form) {
        // The agent sends both forms at each tick, unless it was replaced by one that sends only snapshots.
        (Form::Live, Form::Snapshot) => after.duration_since(before) > known.interval.stale_after(),
        (Form::Snapshot, Form::Live) => after >= before,
        _ => after > before,
    }
}

#[cfg(test)]
mod tests;
