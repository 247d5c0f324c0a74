//! Sessions: one process holding one GPU, from start to end.
//!
//! A session begins with the first tick that shows the process on the GPU and lasts to the end of its last span. It
//! ends when a tick reads the list that contained the process and the process is not in it, when the kernel reports
//! that the process is gone, when its MIG instance no longer exists, and with the boot. Nothing else ends it: a process
//! is identified by its start time, so one that is still present after hours without a collector has been present all
//! along. Such hours lie inside the session and are unobserved.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::classify::holders;
use crate::id::{BootId, GpuUuid, ProcessKey};
use crate::owner::{Owner, Workload};
use crate::period::{Period, whole_micros};
use crate::reading::{Missing, Reading};
use crate::sample::{Gpu, Process, ProcessKind, Sample};
use crate::span::{Holder, Span};
use crate::state::{RollUp, State, Thresholds};
use crate::tick::Tick;
use crate::unit::{Bytes, Centipercent, Micros};

/// Mean utilisation of a GPU below which nothing ran on it.
const QUIET: Centipercent = Centipercent(100);

/// Key of an open session. Two sessions of a process that returned to a GPU after leaving it have the same key and
/// differ in `from`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionKey {
    pub process: ProcessKey,
    pub gpu: GpuUuid,
}

/// One process holding one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub key: SessionKey,
    /// The GPU that this one is a MIG instance of.
    pub parent: Option<GpuUuid>,
    /// Latest known owner, with its source. `None` is the unknown owner.
    pub owner: Option<Owner>,
    /// Latest short name that could be read.
    pub comm: Reading<String>,
    pub workload: Workload,
    pub kind: ProcessKind,
    /// Time of its first tick.
    pub from: Timestamp,
    /// End of its last span.
    pub to: Timestamp,
    /// Number of ticks that showed it.
    pub ticks: u64,
    /// Time in which the GPU's state was observed. The rest of `from..to` is unobserved.
    pub observed: Micros,
    /// Part of `observed` in which the GPU's roll-up was active.
    pub active: Micros,
    /// Part of `observed` in which the GPU's roll-up was idle-held.
    pub idle_held: Micros,
    /// SM utilisation of the process, if the driver reports it.
    pub own_util: UtilSum,
    /// Utilisation of the GPU.
    pub gpu_util: UtilSum,
    /// Maximum memory at any tick; the reason if no tick could read it.
    pub peak_memory: Reading<Bytes>,
    /// Whether another process held the GPU at some of its ticks.
    pub shared: bool,
    /// Whether it may continue.
    pub open: bool,
}

/// Sum for a mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UtilSum {
    /// Hundredths of a percent times microseconds.
    pub sum: u128,
    /// Time for which the value was known.
    pub known: Micros,
}

crate::words! {
    /// Source of a mean utilisation: the process or the GPU.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum UtilSource {
        Process = "process",
        Gpu = "gpu",
    }
}

/// The part of a session that a report needs to count it without listing it.
#[derive(Clone, Copy, Debug)]
pub struct SessionOutline<'a> {
    pub gpu: &'a GpuUuid,
    pub period: Period,
    /// Mean utilisation, as [`Session::util`] returns it.
    pub util: Option<Centipercent>,
    pub peak_memory: Option<Bytes>,
}

impl Session {
    pub fn outline(&self) -> SessionOutline<'_> {
        SessionOutline {
            gpu: &self.key.gpu,
            period: self.period(),
            util: self.util().map(|(util, _)| util),
            peak_memory: self.peak_memory.ok(),
        }
    }

    /// Returns the mean utilisation of the process if the driver reported it for at least half of the time, or else of
    /// the GPU, and its source. Sessions of earlier versions know it only for the time in which the process was busy.
    pub fn util(&self) -> Option<(Centipercent, UtilSource)> {
        let is_known = self.own_util.known.0 >= self.observed.0 / 2;
        let own = self.own_util.mean().filter(|_| is_known);
        let own = own.map(|mean| (mean, UtilSource::Process));
        own.or_else(|| self.gpu_util.mean().map(|mean| (mean, UtilSource::Gpu)))
    }

    pub fn period(&self) -> Period {
        Period::new(self.from, self.to)
    }

    /// Whether it was there at a tick, whatever came after it. A tick that could not read the processes of the GPU says
    /// nothing against it.
    pub fn is_there_at(&self, tick: &Tick, thresholds: &Thresholds) -> bool {
        let at = whole_micros(tick.sample.at);
        // The span before a tick that no longer shows the process ends with that tick.
        self.from <= at && at <= self.to && may_go_on(self, &tick.sample, thresholds)
    }

    /// Returns the unobserved time inside the session.
    pub fn unobserved(&self) -> Micros {
        Micros(self.period().micros().0.saturating_sub(self.observed.0))
    }

    fn begin(key: SessionKey, at: Timestamp, gpu: &Gpu, process: &Process) -> Self {
        Self {
            key,
            parent: gpu.place.parent().cloned(),
            owner: None,
            comm: Err(Missing::Failed),
            workload: Workload::default(),
            kind: process.kind,
            from: at,
            to: at,
            ticks: 0,
            observed: Micros(0),
            active: Micros(0),
            idle_held: Micros(0),
            own_util: UtilSum::default(),
            gpu_util: UtilSum::default(),
            peak_memory: process.memory,
            shared: false,
            open: true,
        }
    }

    fn see(&mut self, process: &Process) {
        self.ticks += 1;
        self.kind = process.kind;
        self.peak_memory = match (self.peak_memory, process.memory) {
            (Ok(peak), Ok(now)) => Ok(peak.max(now)),
            (known @ Ok(_), Err(_)) => known,
            (Err(_), now) => now,
        };
        if let Ok(identity) = &process.identity {
            if let Some(owner) = identity.owner() {
                self.owner = Some(owner);
            }
            if identity.comm.is_ok() || self.comm.is_err() {
                self.comm.clone_from(&identity.comm);
            }
            self.workload.clone_from(&identity.workload);
        }
    }

    fn account(&mut self, span: &Span, own_util: Option<u8>) {
        self.to = self.to.max(span.to);
        let all = span.period();
        // A session is a length of time, also on a small MIG instance.
        for (state, length) in span.lengths() {
            if state != State::Unobserved {
                self.observed += length;
            }
            match state.roll_up() {
                Some(RollUp::Active) => self.active += length,
                Some(RollUp::IdleHeld) => self.idle_held += length,
                Some(RollUp::TrulyIdle) | None => {}
            }
        }
        if let Some(percent) = own_util {
            self.own_util
                .add(Centipercent(u32::from(percent) * 100), all.micros());
        }
        if let Ok(util) = span.util {
            self.gpu_util.add(util, all.micros());
        }
    }
}

impl UtilSum {
    pub fn add(&mut self, util: Centipercent, time: Micros) {
        self.sum += u128::from(util.0) * u128::from(time.0);
        self.known += time;
    }

    /// Returns the mean; `None` if the value was never known.
    pub fn mean(self) -> Option<Centipercent> {
        let mean = self.sum.checked_div(u128::from(self.known.0))?;
        u32::try_from(mean).ok().map(Centipercent)
    }
}

/// Folds ticks and their spans to sessions.
#[derive(Clone, Debug)]
pub struct Sessions {
    thresholds: Thresholds,
    open: BTreeMap<SessionKey, Session>,
}

impl Sessions {
    /// Creates the fold. `open` are the open sessions of a history; a new history has none. To continue after a
    /// restart, push the last tick that they already contain only to the spans, so that its spans are closed by the
    /// next tick.
    pub fn new(thresholds: Thresholds, open: impl IntoIterator<Item = Session>) -> Self {
        let open = open
            .into_iter()
            .map(|session| (session.key.clone(), session))
            .collect();
        Self { thresholds, open }
    }

    /// Adds a tick and the spans that [`crate::Spans::push`] closed with it. Returns the sessions that ended before it.
    pub fn push(&mut self, tick: &Tick, closed: &[Span]) -> Vec<Session> {
        self.account(closed);
        let mut over = Vec::new();
        let thresholds = &self.thresholds;
        self.open.retain(|_, session| {
            let stays = may_go_on(session, &tick.sample, thresholds);
            if !stays {
                over.push(Session {
                    open: false,
                    ..session.clone()
                });
            }
            stays
        });
        for gpu in tick.sample.gpus.iter().filter(|gpu| gpu.place.counts()) {
            self.see(gpu, whole_micros(tick.sample.at));
        }
        over
    }

    /// Adds spans to the sessions that they belong to. Call it with the spans of the last tick, from
    /// [`crate::Spans::finish`].
    pub fn account(&mut self, closed: &[Span]) {
        // A driver may list a process twice, also on two instances with one UUID; it holds the GPU once.
        let mut seen = BTreeSet::new();
        for span in closed {
            for holder in &span.holders {
                let is_new = |process: &ProcessKey| seen.insert((&span.gpu, *process));
                let Some(process) = holder.process.filter(is_new) else {
                    continue;
                };
                let key = SessionKey {
                    process,
                    gpu: span.gpu.clone(),
                };
                if let Some(session) = self.open.get_mut(&key) {
                    session.account(span, own_util(span, holder));
                }
            }
        }
    }

    /// Returns the open sessions, up to the spans added so far.
    pub fn open(&self) -> impl Iterator<Item = &Session> {
        self.open.values()
    }

    fn see(&mut self, gpu: &Gpu, at: Timestamp) {
        let mut seen = BTreeSet::new();
        for process in holders(gpu, &self.thresholds) {
            let Some(own) = key_of(process).filter(|key| seen.insert(*key)) else {
                continue;
            };
            let is_another = |other: &Process| key_of(other) != Some(own);
            let key = SessionKey {
                process: own,
                gpu: gpu.uuid.clone(),
            };
            let session = self
                .open
                .entry(key)
                .or_insert_with_key(|key| Session::begin(key.clone(), at, gpu, process));
            session.see(process);
            session.shared |= holders(gpu, &self.thresholds).any(is_another);
        }
    }
}

/// Utilisation of a holder within a span, in percent; `None` if it is unknown.
///
/// The driver has no record of a process that did nothing, so a process without one was idle. That holds only if the
/// others explain what the GPU did: behind the Multi-Process Service, for example, a busy process may have no record.
fn own_util(span: &Span, holder: &Holder) -> Option<u8> {
    match holder.sm_util {
        Ok(Some(util)) => Some(util.get()),
        Ok(None) => {
            let is_quiet = span.util.is_ok_and(|util| util < QUIET);
            let mut others = span.holders.iter();
            let is_explained = others.any(|other| matches!(other.sm_util, Ok(Some(_))));
            (is_quiet || is_explained).then_some(0)
        }
        Err(_) => None,
    }
}

fn key_of(process: &Process) -> Option<ProcessKey> {
    process.identity.as_ref().ok().map(|identity| identity.key)
}

fn may_go_on(session: &Session, sample: &Sample, thresholds: &Thresholds) -> bool {
    let key = &session.key;
    let other_boot = |boot: &BootId| *boot != key.process.boot;
    if sample.boot.as_ref().is_ok_and(other_boot) {
        return false;
    }
    let is_missing = |uuid: &GpuUuid| sample.gpus.iter().all(|gpu| gpu.uuid != *uuid);
    if is_missing(&key.gpu) {
        // A GPU that is missing may return. An instance that is missing although its parent is present was removed.
        return session.parent.as_ref().is_none_or(is_missing);
    }
    let is_it = |process: &Process| match &process.identity {
        Ok(identity) => identity.key == key.process,
        Err(Missing::Gone) => false,
        // A process with that PID exists, but it could not be identified at this tick.
        Err(_) => process.pid == key.process.pid,
    };
    // Two instances may have one UUID.
    let mut same = sample.gpus.iter().filter(|gpu| gpu.uuid == key.gpu);
    same.any(|gpu| {
        let list = match session.kind {
            ProcessKind::Compute => gpu.compute_list,
            ProcessKind::Graphics => gpu.graphics_list,
            ProcessKind::Both => gpu.compute_list.and(gpu.graphics_list),
        };
        gpu.place.counts() && (list.is_err() || holders(gpu, thresholds).any(is_it))
    })
}

#[cfg(test)]
mod tests;
