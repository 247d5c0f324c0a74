//! One process holding one card, from when to when.
//!
//! A session begins with the first tick that shows the process on the card and lasts to the end of its last span. It ends
//! when a tick could read the list in which the process stood and does not show it, when the kernel says that the process
//! is gone, when its MIG instance is no longer there, and with the boot. Nothing else ends it: a process is known by its
//! start time, so one that is still there after hours without a collector has been there all along. Such hours lie inside
//! the session and are not observed.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::classify::holders;
use crate::id::{BootId, GpuUuid, ProcessKey};
use crate::owner::{Owner, Workload};
use crate::period::{Period, whole_micros};
use crate::reading::{Missing, Reading};
use crate::sample::{Gpu, Process, ProcessKind, Sample};
use crate::span::Span;
use crate::state::{RollUp, Thresholds};
use crate::tick::Tick;
use crate::unit::{Bytes, Centipercent, Micros};

/// What tells sessions apart while they are open. The same process may come back to a card after it left: then `from`
/// differs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionKey {
    pub process: ProcessKey,
    pub gpu: GpuUuid,
}

/// One process holding one card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub key: SessionKey,
    /// The card that the gpu is an instance of.
    pub parent: Option<GpuUuid>,
    /// `None` is the unknown owner. The latest that was seen, with its source.
    pub owner: Option<Owner>,
    /// The short name; the latest that could be read.
    pub comm: Reading<String>,
    pub workload: Workload,
    pub kind: ProcessKind,
    /// Its first tick.
    pub from: Timestamp,
    /// The end of its last span.
    pub to: Timestamp,
    /// Ticks that showed it.
    pub ticks: u64,
    /// Time in which the card's state was seen. The rest of `from..to` was not observed.
    pub observed: Micros,
    /// Of that, with the card's roll-up active.
    pub active: Micros,
    /// Of that, with the card's roll-up idle-held.
    pub idle_held: Micros,
    /// The process's own SM utilisation, where the driver tells it.
    pub own_util: UtilSum,
    /// The card's utilisation.
    pub card_util: UtilSum,
    /// The most memory that a tick showed; the reason where none did.
    pub peak_memory: Reading<Bytes>,
    /// Whether another process held the card at some of its ticks.
    pub shared: bool,
    /// Whether it may still go on.
    pub open: bool,
}

/// A mean in the making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UtilSum {
    /// Hundredths of a percent, times microseconds.
    pub sum: u128,
    /// The time that it was known for.
    pub known: Micros,
}

/// Whose utilisation a mean is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum UtilSource {
    Process,
    Card,
}

impl Session {
    /// The process's own mean utilisation where the driver told it, else the card's, and which of them it is.
    #[must_use]
    pub fn util(&self) -> Option<(Centipercent, UtilSource)> {
        let own = self.own_util.mean().map(|mean| (mean, UtilSource::Process));
        own.or_else(|| self.card_util.mean().map(|mean| (mean, UtilSource::Card)))
    }

    #[must_use]
    pub fn period(&self) -> Period {
        Period::new(self.from, self.to)
    }

    /// Time inside the session that nobody observed.
    #[must_use]
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
            card_util: UtilSum::default(),
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
        self.observed += span.observed_within(all);
        for share in span.states_within(all) {
            match share.verdict.state.roll_up() {
                Some(RollUp::Active) => self.active += share.micros,
                Some(RollUp::IdleHeld) => self.idle_held += share.micros,
                Some(RollUp::TrulyIdle) | None => {}
            }
        }
        if let Some(percent) = own_util {
            self.own_util
                .add(Centipercent(u32::from(percent) * 100), all.micros());
        }
        if let Ok(util) = span.util {
            self.card_util.add(util, all.micros());
        }
    }
}

impl UtilSum {
    pub fn add(&mut self, util: Centipercent, time: Micros) {
        self.sum += u128::from(util.0) * u128::from(time.0);
        self.known += time;
    }

    /// `None` where it was never known.
    #[must_use]
    pub fn mean(self) -> Option<Centipercent> {
        let mean = self.sum.checked_div(u128::from(self.known.0))?;
        u32::try_from(mean).ok().map(Centipercent)
    }
}

/// The fold from ticks and their spans to sessions.
#[derive(Clone, Debug)]
pub struct Sessions {
    thresholds: Thresholds,
    open: BTreeMap<SessionKey, Session>,
}

impl Sessions {
    /// `open` are the sessions that a history has as open; none for a new one. To go on after a restart, push the last
    /// tick that is already in them to the spans alone, so that its spans come with the next tick.
    #[must_use]
    pub fn new(thresholds: Thresholds, open: impl IntoIterator<Item = Session>) -> Self {
        let open = open
            .into_iter()
            .map(|session| (session.key.clone(), session))
            .collect();
        Self { thresholds, open }
    }

    /// Takes a tick and the spans that [`crate::Spans::push`] closed with it. Returns the sessions that ended before it.
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

    /// Adds spans to the sessions that they belong to: those of the last tick, from [`crate::Spans::finish`].
    pub fn account(&mut self, closed: &[Span]) {
        for span in closed.iter().filter(|span| span.counts) {
            // A driver may list a process twice; it holds the card once.
            let mut seen = BTreeSet::new();
            for holder in &span.holders {
                let Some(process) = holder.process.filter(|process| seen.insert(*process)) else {
                    continue;
                };
                let key = SessionKey {
                    process,
                    gpu: span.gpu.clone(),
                };
                if let Some(session) = self.open.get_mut(&key) {
                    let own = holder.sm_util.ok().flatten();
                    session.account(span, own.map(|util| util.get()));
                }
            }
        }
    }

    /// The sessions that may still go on, as far as they were accounted for.
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

fn key_of(process: &Process) -> Option<ProcessKey> {
    process.identity.as_ref().ok().map(|identity| identity.key)
}

fn may_go_on(session: &Session, sample: &Sample, thresholds: &Thresholds) -> bool {
    let key = &session.key;
    let other_boot = |boot: &BootId| *boot != key.process.boot;
    if sample.boot.as_ref().is_ok_and(other_boot) {
        return false;
    }
    let find = |uuid: &GpuUuid| sample.gpus.iter().find(|gpu| gpu.uuid == *uuid);
    let Some(gpu) = find(&key.gpu) else {
        // A card that is not there may come back. An instance that its card no longer has was taken away.
        return session.parent.as_ref().and_then(find).is_none();
    };
    if !gpu.place.counts() {
        return false;
    }
    let is_it = |process: &Process| match &process.identity {
        Ok(identity) => identity.key == key.process,
        Err(Missing::Gone) => false,
        // Somebody has that pid, and who it is could not be seen just now.
        Err(_) => process.pid == key.process.pid,
    };
    let list = match session.kind {
        ProcessKind::Compute => gpu.compute_list,
        ProcessKind::Graphics => gpu.graphics_list,
        ProcessKind::Both => gpu.compute_list.and(gpu.graphics_list),
    };
    list.is_err() || holders(gpu, thresholds).any(is_it)
}

#[cfg(test)]
mod tests;
