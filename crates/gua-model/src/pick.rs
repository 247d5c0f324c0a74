//! Which cards are free to take, in which order, and what speaks against the others.
//!
//! A card is free when nobody holds it, little of its memory is used, it is not at work, and history does not show it in
//! use a moment ago. Whatever could not be read speaks against a card: nobody should be sent to a card that nobody saw.

mod order;
mod patience;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

pub use self::order::{Direction, Key, Order, OrderError, sort};
pub use self::patience::{could_be_free, is_awaited, is_vacant};
use crate::classify::{classify, holders};
use crate::id::GpuUuid;
use crate::reading::{Missing, Reading};
use crate::sample::{Gpu, Place, Process};
use crate::span::Span;
use crate::state::{State, Thresholds};
use crate::unit::{Bytes, Percent};

/// By which rule a card is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FreeRule {
    /// Nobody holds it, and little memory is used.
    #[default]
    Unheld,
    /// nvgpu's: little memory is used, whoever is there.
    MemoryAlone,
}

/// What a card must be.
#[derive(Clone, Debug)]
pub struct Wish {
    pub rule: FreeRule,
    pub thresholds: Thresholds,
    /// At most this share of its memory is used.
    pub max_used: Percent,
    pub min_free: Option<Bytes>,
    pub max_util: Option<Percent>,
    /// Parts of names, in any case; one of them must be in the card's. None: any card.
    pub models: Vec<String>,
    /// Users whose processes count for nothing, by name or uid.
    pub as_free: Vec<String>,
    /// A card that was in use after this moment is not free yet.
    pub idle_since: Option<Timestamp>,
}

impl Wish {
    /// nvgpu's limit, which is also ours.
    pub const DEFAULT_MAX_USED: u8 = 20;
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            rule: FreeRule::Unheld,
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

/// When history last saw a card in use.
pub type LastUse = BTreeMap<GpuUuid, Timestamp>;

/// What speaks against a card. Claims are not known here: whoever reads them adds theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its instances stand in its place.
    Divided,
    OtherModel,
    Unseen(Missing),
    /// Somebody holds it.
    Held,
    /// It is at work, and nobody who counts is on it.
    Busy(State),
    /// More memory is used than was allowed.
    MemoryUsed {
        used: Bytes,
        total: Bytes,
    },
    /// Less memory is free than was wished for.
    TooLittleFree(Bytes),
    UtilTooHigh(Percent),
    /// History saw it in use at this moment.
    UsedAt(Timestamp),
    /// It is leased to somebody.
    Claimed,
    /// It is kept for those who came before and wait.
    Awaited,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: &Bytes| format!("{} MB", bytes.whole_mb());
        match self {
            Obstacle::Divided => write!(out, "divided into MIG instances"),
            Obstacle::OtherModel => write!(out, "another model"),
            Obstacle::Unseen(Missing::Gone) => write!(out, "card lost"),
            Obstacle::Unseen(why) => write!(out, "could not be read ({})", why.as_str()),
            Obstacle::Held => write!(out, "held"),
            Obstacle::Busy(state) => write!(out, "{state}"),
            Obstacle::MemoryUsed { used, total } => {
                write!(out, "{} of {} in use", mb(used), mb(total))
            }
            Obstacle::TooLittleFree(free) => write!(out, "only {} free", mb(free)),
            Obstacle::UtilTooHigh(util) => write!(out, "utilisation {util}"),
            Obstacle::UsedAt(_) => write!(out, "in use a moment ago"),
            Obstacle::Claimed => write!(out, "claimed"),
            Obstacle::Awaited => write!(out, "kept for those who wait"),
        }
    }
}

/// The first thing that speaks against a card; `None` for one that is free.
#[must_use]
pub fn obstacle(gpu: &Gpu, wish: &Wish, last_use: &LastUse) -> Option<Obstacle> {
    if !gpu.place.counts() {
        return Some(Obstacle::Divided);
    }
    if !is_model(gpu, &wish.models) {
        return Some(Obstacle::OtherModel);
    }
    let standing = match wish.rule {
        FreeRule::Unheld => held_or_busy(gpu, wish),
        // A card without memory of its own has nothing to be measured by but its processes.
        FreeRule::MemoryAlone if gpu.memory_total == Err(Missing::Unsupported) => {
            held_or_busy(gpu, wish)
        }
        FreeRule::MemoryAlone => None,
    };
    standing
        .or_else(|| memory(gpu, wish))
        .or_else(|| util(gpu, wish))
        .or_else(|| {
            let used = *last_use.get(&gpu.uuid)?;
            (wish.rule == FreeRule::Unheld && used > wish.idle_since?)
                .then_some(Obstacle::UsedAt(used))
        })
}

/// The processes that hold a card against this wish.
pub fn against<'a>(gpu: &'a Gpu, wish: &'a Wish) -> impl Iterator<Item = &'a Process> {
    holders(gpu, &wish.thresholds).filter(|process| !counts_for_nothing(process, &wish.as_free))
}

fn counts_for_nothing(process: &Process, as_free: &[String]) -> bool {
    let owner = process.identity.as_ref().ok().and_then(|who| who.owner());
    owner.is_some_and(|owner| is_one_of(&owner.user, as_free))
}

fn is_one_of(user: &crate::owner::User, names: &[String]) -> bool {
    let uid = user.uid.to_string();
    names
        .iter()
        .any(|name| *name == uid || Some(name) == user.name.as_ref())
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

fn held_or_busy(gpu: &Gpu, wish: &Wish) -> Option<Obstacle> {
    if against(gpu, wish).next().is_some() {
        return Some(Obstacle::Held);
    }
    let verdict = classify(gpu, &wish.thresholds, None);
    match verdict.state {
        State::TrulyIdle => None,
        State::Unobserved => Some(Obstacle::Unseen(
            verdict.evidence.unobserved.unwrap_or(Missing::Failed),
        )),
        // Only those who count for nothing are there, and their work counts for nothing too.
        _ if holders(gpu, &wish.thresholds).next().is_some() => None,
        state => Some(Obstacle::Busy(state)),
    }
}

fn memory(gpu: &Gpu, wish: &Wish) -> Option<Obstacle> {
    let (total, used) = match (gpu.memory_total, gpu.memory_used) {
        (Ok(total), Ok(used)) => (total, used),
        // One memory for host and card, which the card cannot tell.
        (Err(Missing::Unsupported), _) if gpu.place == Place::Whole && wish.min_free.is_none() => {
            return None;
        }
        (Err(why), _) | (_, Err(why)) => return Some(Obstacle::Unseen(why)),
    };
    let used = Bytes(
        used.0
            .saturating_sub(of_those_who_count_for_nothing(gpu, wish).0),
    );
    let is_over = match wish.rule {
        FreeRule::Unheld => is_over(used.0, total.0, wish.max_used),
        // nvgpu knows whole megabytes only, as nvidia-smi prints them.
        FreeRule::MemoryAlone => is_over(used.whole_mb(), total.whole_mb(), wish.max_used),
    };
    if is_over {
        return Some(Obstacle::MemoryUsed { used, total });
    }
    let wanted = wish.min_free?;
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

/// The least that they have: what the driver hides is not subtracted.
fn of_those_who_count_for_nothing(gpu: &Gpu, wish: &Wish) -> Bytes {
    gpu.processes
        .iter()
        .filter(|process| counts_for_nothing(process, &wish.as_free))
        .filter_map(|process| process.memory.ok())
        .sum()
}

fn util(gpu: &Gpu, wish: &Wish) -> Option<Obstacle> {
    let limit = wish.max_util?;
    match gpu.util {
        Ok(util) if util <= limit => None,
        Ok(util) => Some(Obstacle::UtilTooHigh(util)),
        Err(why) => Some(Obstacle::Unseen(why)),
    }
}

/// Free memory, for order and display: what is neither used nor kept by the driver.
pub fn free_memory(gpu: &Gpu) -> Reading<Bytes> {
    let (total, used) = (gpu.memory_total?, gpu.memory_used_with_reserved()?);
    Ok(Bytes(total.0.saturating_sub(used.0)))
}

/// Notes the spans in which a card was anything but truly idle. A span that only users of `as_free` held counts as idle.
pub fn note_use(last_use: &mut LastUse, spans: &[Span], as_free: &[String]) {
    for span in spans.iter().filter(|span| span.counts) {
        let is_of_no_account = !span.holders.is_empty()
            && span.holders.iter().all(|holder| {
                let owner = holder.owner.as_ref();
                owner.is_some_and(|owner| is_one_of(&owner.user, as_free))
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
