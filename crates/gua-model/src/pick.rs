//! Selects the GPUs that are free to use, orders them, and states the obstacle for each of the others.
//!
//! A GPU is free if its state is truly-idle, little of its memory is used, it has no fault, and the history does not show
//! recent use. A missing reading is an obstacle too: an unobserved GPU is never offered. Every command, report and page
//! that says whether a GPU is free uses [`obstacle`] or [`is_free`].

mod awaited;
mod order;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

pub use self::awaited::{could_be_free, is_awaited};
pub use self::order::{Direction, Key, Order, OrderError, sort};
use crate::classify::{classify, hold, holders};
use crate::health::{Fault, faults};
use crate::id::GpuUuid;
use crate::owner::OwnerKey;
use crate::reading::{Missing, Reading};
use crate::sample::{Gpu, Place, Process};
use crate::span::Span;
use crate::state::{State, Thresholds};
use crate::unit::{Bytes, Percent};

crate::words! {
    /// Rule by which a GPU is free.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum FreeRule {
        /// It is truly idle, and little memory is used.
        #[default]
        Unheld = "gua",
        /// nvgpu's rule: little memory is used, regardless of its processes.
        MemoryAlone = "nvgpu",
    }
}

/// Whether a GPU with a fault can be free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HealthRule {
    /// A GPU with a fault is not offered.
    #[default]
    Required,
    /// Faults are ignored.
    Ignored,
}

/// Requirements on a GPU.
#[derive(Clone, Debug)]
pub struct Criteria {
    pub rule: FreeRule,
    /// nvgpu's rule ignores faults in any case.
    pub health: HealthRule,
    pub thresholds: Thresholds,
    /// Maximum used share of its memory.
    pub max_used: Percent,
    pub min_free: Option<Bytes>,
    pub max_util: Option<Percent>,
    /// Substrings of model names, case-insensitive; the GPU's name must contain one of them. If empty, any GPU matches.
    pub models: Vec<String>,
    /// Owners whose processes are ignored: users by name or uid, and others by name.
    pub as_free: Vec<String>,
    /// A GPU that was in use after this moment is not free yet.
    pub idle_since: Option<Timestamp>,
}

impl Criteria {
    /// nvgpu's limit, which is also the default here.
    pub const DEFAULT_MAX_USED: u8 = 20;
}

impl Default for Criteria {
    fn default() -> Self {
        Self {
            rule: FreeRule::Unheld,
            health: HealthRule::Required,
            thresholds: Thresholds::default(),
            max_used: Percent::new(Self::DEFAULT_MAX_USED.into()).expect("twenty is a percentage"),
            min_free: None,
            max_util: None,
            models: Vec::new(),
            as_free: Vec::new(),
            idle_since: None,
        }
    }
}

/// Time at which the history last shows each GPU in use.
pub type LastUse = BTreeMap<GpuUuid, Timestamp>;

/// Reason why a GPU is not free. Claims are not known here: the caller that reads them adds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its MIG instances are counted in its place.
    Divided,
    OtherModel,
    Unseen(Missing),
    /// A process holds it.
    Held,
    /// It is busy, although no process that counts is on it.
    Busy(State),
    /// More memory is used than allowed.
    MemoryUsed {
        used: Bytes,
        total: Bytes,
    },
    /// Its total memory is less than required.
    TooSmall(Bytes),
    /// Less memory is free than required.
    TooLittleFree(Bytes),
    UtilTooHigh(Percent),
    /// It has a fault.
    Unhealthy(Fault),
    /// The history shows it in use at this moment.
    UsedAt(Timestamp),
    /// It has a claim of another user.
    Claimed,
    /// It is kept for users who are already waiting.
    Awaited,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: &Bytes| format!("{} MB", bytes.whole_mb());
        match self {
            Obstacle::Divided => write!(out, "divided into MIG instances"),
            Obstacle::OtherModel => write!(out, "another model"),
            Obstacle::Unseen(Missing::Gone) => write!(out, "GPU lost"),
            Obstacle::Unseen(why) => write!(out, "could not be read ({})", why.as_str()),
            Obstacle::Held => write!(out, "held"),
            Obstacle::Busy(state) => write!(out, "{state}"),
            Obstacle::MemoryUsed { used, total } => {
                write!(out, "{} of {} in use", mb(used), mb(total))
            }
            Obstacle::TooSmall(total) => write!(out, "too small: {} in total", mb(total)),
            Obstacle::TooLittleFree(free) => write!(out, "only {} free", mb(free)),
            Obstacle::UtilTooHigh(util) => write!(out, "utilisation {util}"),
            Obstacle::Unhealthy(fault) => write!(out, "unhealthy: {fault}"),
            Obstacle::UsedAt(_) => write!(out, "in use a moment ago"),
            Obstacle::Claimed => write!(out, "claimed"),
            Obstacle::Awaited => write!(out, "kept for those who wait"),
        }
    }
}

/// Reports whether the GPU is free by the default criteria.
pub fn is_free(gpu: &Gpu, thresholds: &Thresholds) -> bool {
    is_vacant(gpu, thresholds) && faults(gpu).is_empty()
}

/// Reports whether the GPU is free by the default criteria, apart from its health.
pub fn is_vacant(gpu: &Gpu, thresholds: &Thresholds) -> bool {
    let criteria = Criteria {
        thresholds: *thresholds,
        health: HealthRule::Ignored,
        ..Criteria::default()
    };
    obstacle(gpu, &criteria, &LastUse::new()).is_none()
}

/// Returns the first obstacle of a GPU; `None` if it is free.
pub fn obstacle(gpu: &Gpu, criteria: &Criteria, last_use: &LastUse) -> Option<Obstacle> {
    if !gpu.place.counts() {
        return Some(Obstacle::Divided);
    }
    if !is_model(gpu, &criteria.models) {
        return Some(Obstacle::OtherModel);
    }
    let standing = match criteria.rule {
        FreeRule::Unheld => held_or_busy(gpu, criteria),
        // A GPU without dedicated memory can only be judged by its processes.
        FreeRule::MemoryAlone if gpu.memory_total == Err(Missing::Unsupported) => {
            held_or_busy(gpu, criteria)
        }
        FreeRule::MemoryAlone => None,
    };
    standing
        .or_else(|| memory(gpu, criteria))
        .or_else(|| util(gpu, criteria))
        .or_else(|| fault(gpu, criteria).map(Obstacle::Unhealthy))
        .or_else(|| {
            let used = *last_use.get(&gpu.uuid)?;
            (criteria.rule == FreeRule::Unheld && used > criteria.idle_since?)
                .then_some(Obstacle::UsedAt(used))
        })
}

/// Returns the processes that hold a GPU and are not ignored by these criteria.
pub fn against<'a>(gpu: &'a Gpu, criteria: &'a Criteria) -> impl Iterator<Item = &'a Process> {
    holders(gpu, &criteria.thresholds)
        .filter(|process| !counts_for_nothing(process, &criteria.as_free))
}

fn counts_for_nothing(process: &Process, as_free: &[String]) -> bool {
    let owner = process.identity.as_ref().ok().and_then(|who| who.owner());
    owner.is_some_and(|owner| is_one_of(&owner.who, as_free))
}

fn is_one_of(owner: &OwnerKey, names: &[String]) -> bool {
    names.iter().any(|name| owner.is_called(name))
}

fn is_model(gpu: &Gpu, models: &[String]) -> bool {
    if models.is_empty() {
        return true;
    }
    let Ok(name) = &gpu.name else { return false };
    let name = name.to_lowercase();
    models
        .iter()
        .any(|model| name.contains(&model.to_lowercase()))
}

fn held_or_busy(gpu: &Gpu, criteria: &Criteria) -> Option<Obstacle> {
    let verdict = classify(gpu, &criteria.thresholds, None);
    let mut others = against(gpu, criteria);
    match verdict.state {
        State::TrulyIdle => None,
        State::Unobserved => Some(Obstacle::Unseen(
            verdict.evidence.unobserved.unwrap_or(Missing::Failed),
        )),
        State::IdleHeld | State::OrphanHeld => {
            hold(others, &criteria.thresholds).then_some(Obstacle::Held)
        }
        // Any listed process may be the one that computes, however little memory it has.
        _ if others.next().is_some() => Some(Obstacle::Held),
        // All holders are ignored, so their utilisation is ignored too.
        _ if holders(gpu, &criteria.thresholds).next().is_some() => None,
        state => Some(Obstacle::Busy(state)),
    }
}

fn memory(gpu: &Gpu, criteria: &Criteria) -> Option<Obstacle> {
    let (total, used) = match (gpu.memory_total, gpu.memory_used) {
        (Ok(total), Ok(used)) => (total, used),
        // Host and GPU share one memory, and the GPU does not report its usage.
        (Err(Missing::Unsupported), _)
            if gpu.place == Place::Whole && criteria.min_free.is_none() =>
        {
            return None;
        }
        (Err(why), _) | (_, Err(why)) => return Some(Obstacle::Unseen(why)),
    };
    let used = Bytes(
        used.0
            .saturating_sub(of_those_who_count_for_nothing(gpu, criteria).0),
    );
    let is_over = match criteria.rule {
        FreeRule::Unheld => is_over(used.0, total.0, criteria.max_used),
        // nvgpu counts whole megabytes, as nvidia-smi prints them.
        FreeRule::MemoryAlone => is_over(used.whole_mb(), total.whole_mb(), criteria.max_used),
    };
    if is_over {
        return Some(Obstacle::MemoryUsed { used, total });
    }
    let wanted = criteria.min_free?;
    if total < wanted {
        return Some(Obstacle::TooSmall(total));
    }
    match gpu.memory_held_back() {
        Err(why) => Some(Obstacle::Unseen(why)),
        Ok(kept) => {
            let free = Bytes(total.0.saturating_sub(used.0).saturating_sub(kept.0));
            (free < wanted).then_some(Obstacle::TooLittleFree(free))
        }
    }
}

fn is_over(used: u64, total: u64, limit: Percent) -> bool {
    u128::from(used) * 100 > u128::from(total) * u128::from(limit.get())
}

/// Returns the known memory of ignored processes. Memory that the driver hides is not subtracted, so this is a lower
/// bound.
fn of_those_who_count_for_nothing(gpu: &Gpu, criteria: &Criteria) -> Bytes {
    gpu.processes
        .iter()
        .filter(|process| counts_for_nothing(process, &criteria.as_free))
        .filter_map(|process| process.memory.ok())
        .sum()
}

fn util(gpu: &Gpu, criteria: &Criteria) -> Option<Obstacle> {
    let limit = criteria.max_util?;
    match gpu.util {
        Ok(util) if util <= limit => None,
        Ok(util) => Some(Obstacle::UtilTooHigh(util)),
        Err(why) => Some(Obstacle::Unseen(why)),
    }
}

/// Returns the most serious fault, if the criteria require a healthy GPU.
fn fault(gpu: &Gpu, criteria: &Criteria) -> Option<Fault> {
    match (criteria.rule, criteria.health) {
        (FreeRule::Unheld, HealthRule::Required) => faults(gpu).first().copied(),
        _ => None,
    }
}

/// Returns the free memory, for ordering and display: memory that is neither used nor reserved by the driver.
pub fn free_memory(gpu: &Gpu) -> Reading<Bytes> {
    let (total, used) = (gpu.memory_total?, gpu.memory_used_with_reserved()?);
    Ok(Bytes(total.0.saturating_sub(used.0)))
}

/// Records the spans in which a GPU was not truly idle. A span held only by users in `as_free` counts as idle.
pub fn note_use(last_use: &mut LastUse, spans: &[Span], as_free: &[String]) {
    for span in spans.iter().filter(|span| span.counts()) {
        let is_of_no_account = !span.holders.is_empty()
            && span.holders.iter().all(|holder| {
                let owner = holder.owner.as_ref();
                owner.is_some_and(|owner| is_one_of(&owner.who, as_free))
            });
        let was_used = span.shares.iter().any(|share| {
            share.weight > 0 && !matches!(share.verdict.state, State::TrulyIdle | State::Unobserved)
        });
        if was_used && !is_of_no_account {
            let seen = last_use.entry(span.gpu.clone()).or_insert(span.to);
            *seen = (*seen).max(span.to);
        }
    }
}

#[cfg(test)]
mod tests;
