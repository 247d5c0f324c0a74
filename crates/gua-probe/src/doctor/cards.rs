//! Summary of the GPUs and their holders, a few words for each GPU. The complete readings are in the sample.

use std::time::Duration;

use gua_model::{
    Bytes, CountGraphics, Gpu, Identity, Missing, Place, Process, Sample, State, Thresholds,
    classify,
};
use serde::{Serialize, Serializer};

use gua_model::text::{gigabytes, sanitize, short_age};

use super::check::{count, size};

/// Maximum number of holders that are named; further ones are only counted.
const NAMED: usize = 8;

/// One GPU or one MIG instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Card {
    /// `None` if the UUID of the GPU cannot be read.
    pub uuid: Option<String>,
    pub index: u32,
    #[serde(rename = "place")]
    pub rank: Rank,
    pub name: Option<String>,
    /// `None` if the GPU's instances are counted in its place.
    #[serde(serialize_with = "state_name")]
    pub state: Option<State>,
    /// Description of the state.
    #[serde(skip)]
    pub standing: String,
    #[serde(rename = "memory_used_bytes")]
    pub memory_used: Option<Bytes>,
    #[serde(rename = "memory_total_bytes")]
    pub memory_total: Option<Bytes>,
    #[serde(skip)]
    pub memory: MemoryOf,
    /// `None` if the processes could not be listed.
    pub holders: Option<Vec<Holder>>,
    /// Number of graphics processes, if these do not count as holders.
    #[serde(skip)]
    pub drawing: usize,
}

fn state_name<S: Serializer>(state: &Option<State>, serializer: S) -> Result<S::Ok, S::Error> {
    state.map(State::as_str).serialize(serializer)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rank {
    Whole,
    Parent,
    Instance,
}

/// Whether a GPU uses its own memory or the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOf {
    Card,
    Host,
}

/// A process on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    pub pid: u32,
    pub owner: Option<String>,
    pub comm: Option<String>,
    #[serde(rename = "memory_used_bytes")]
    pub memory: Option<Bytes>,
    #[serde(rename = "age_seconds", serialize_with = "seconds")]
    pub age: Option<Duration>,
    /// Whether the kernel reports that the process does not exist.
    #[serde(rename = "gone")]
    pub is_gone: bool,
}

fn seconds<S: Serializer>(age: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    age.map(|age| age.as_secs()).serialize(serializer)
}

/// Settings for the summary of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub thresholds: Thresholds,
    pub ticks_per_second: u64,
}

/// Returns all GPUs of a sample in its order, including those without a UUID.
#[must_use]
pub fn cards(sample: &Sample, terms: &Terms) -> Vec<Card> {
    let mut cards: Vec<Card> = sample
        .gpus
        .iter()
        .map(|gpu| card(gpu, sample, terms))
        .collect();
    for problem in &sample.problems {
        if let (None, Some(index)) = (&problem.gpu, problem.index)
            && cards.iter().all(|card| card.index != index)
        {
            cards.push(nameless(index, problem.why));
        }
    }
    cards.sort_by_key(|card| card.index);
    cards
}

fn card(gpu: &Gpu, sample: &Sample, terms: &Terms) -> Card {
    let verdict = classify(gpu, &terms.thresholds, None);
    let state = gpu.place.counts().then_some(verdict.state);
    let standing = match (&gpu.place, state) {
        (Place::Parent { instances }, None) => {
            let number = usize::try_from(*instances).unwrap_or(usize::MAX);
            format!("MIG, {}", count(number, "instance", "instances"))
        }
        (_, _) => standing(verdict.state, verdict.evidence.unobserved),
    };
    let counts = |process: &&Process| {
        terms.thresholds.count_graphics == CountGraphics::Yes || process.kind.computes()
    };
    let holders: Vec<Holder> = gpu
        .processes
        .iter()
        .filter(counts)
        .map(|process| holder(process, sample.since_boot, terms.ticks_per_second))
        .collect();
    let is_listed = gpu.compute_list.is_ok() || !holders.is_empty();
    let shares = gpu.place == Place::Whole && gpu.memory_total == Err(Missing::Unsupported);
    Card {
        uuid: Some(gpu.uuid.as_str().to_owned()),
        index: gpu.index,
        rank: match gpu.place {
            Place::Whole => Rank::Whole,
            Place::Parent { .. } => Rank::Parent,
            Place::Instance { .. } => Rank::Instance,
        },
        name: gpu
            .name
            .as_ref()
            .ok()
            .map(|name| name_of(gpu, name, sample)),
        state,
        standing,
        memory_used: gpu.memory_used.ok(),
        memory_total: gpu.memory_total.ok(),
        memory: match shares {
            true => MemoryOf::Host,
            false => MemoryOf::Card,
        },
        drawing: gpu.processes.len() - holders.len(),
        holders: is_listed.then_some(holders),
    }
}

fn nameless(index: u32, why: Missing) -> Card {
    Card {
        uuid: None,
        index,
        rank: Rank::Whole,
        name: None,
        state: Some(State::Unobserved),
        standing: standing(State::Unobserved, Some(why)),
        memory_used: None,
        memory_total: None,
        memory: MemoryOf::Card,
        holders: None,
        drawing: 0,
    }
}

/// Returns the name. An instance is listed below its parent, so the parent's name is not repeated.
fn name_of(gpu: &Gpu, name: &str, sample: &Sample) -> String {
    let Place::Instance { parent, .. } = &gpu.place else {
        return sanitize(name);
    };
    let parent = sample.gpus.iter().find(|card| card.uuid == *parent);
    let prefix = parent.and_then(|card| card.name.as_ref().ok());
    let short = prefix.and_then(|prefix| name.strip_prefix(prefix.as_str()));
    sanitize(short.map_or(name, str::trim_start))
}

/// Returns the word for the state, with an explanation if the word alone is unclear.
fn standing(state: State, unobserved: Option<Missing>) -> String {
    let meaning = match state {
        State::Active | State::IdleHeld | State::TrulyIdle => return state.as_str().to_owned(),
        State::Stalled => "busy at idle power",
        State::Ghost => "busy without a process",
        State::OrphanHeld => "its processes are gone",
        State::HeldUnknown => "no utilisation to be had",
        State::Unobserved => match unobserved {
            Some(Missing::Gone) => "card lost",
            Some(Missing::Denied) => "no access",
            Some(Missing::Unsupported) => "it tells neither use nor processes",
            Some(Missing::Failed) | None => "its readings failed",
        },
    };
    format!("{} ({meaning})", state.as_str())
}

fn holder(process: &Process, since_boot: Duration, ticks_per_second: u64) -> Holder {
    let identity = process.identity.as_ref().ok();
    Holder {
        pid: process.pid.0,
        owner: identity.and_then(owner),
        comm: identity
            .and_then(|identity| identity.comm.as_ref().ok())
            .map(|comm| sanitize(comm)),
        memory: process.memory.ok(),
        age: identity.and_then(|identity| identity.age(since_boot, ticks_per_second)),
        is_gone: matches!(process.identity, Err(Missing::Gone)),
    }
}

fn owner(identity: &Identity) -> Option<String> {
    Some(identity.owner()?.user.shown())
}

impl Card {
    /// Formats `11.0 / 48.0 GB`.
    #[must_use]
    pub fn memory(&self) -> String {
        match (self.memory_used, self.memory_total) {
            (Some(used), Some(total)) => {
                format!("{} / {} GB", gigabytes(used), gigabytes(total))
            }
            _ if self.memory == MemoryOf::Host => "host memory".to_owned(),
            _ => "-".to_owned(),
        }
    }

    /// Returns one text per holder. Empty for a GPU whose instances have the holders, or that could not be read.
    #[must_use]
    pub fn held_by(&self) -> Vec<String> {
        let holders = match (&self.holders, self.state) {
            (_, None) | (None, Some(State::Unobserved)) => return Vec::new(),
            (None, Some(_)) => return vec!["holders not known".to_owned()],
            (Some(holders), Some(_)) => holders,
        };
        if holders.is_empty() {
            return vec![match self.drawing {
                0 => "no owner".to_owned(),
                some => format!(
                    "no owner ({} only)",
                    count(some, "graphics process", "graphics processes")
                ),
            }];
        }
        let more = holders.len().saturating_sub(NAMED);
        let named = holders.iter().take(NAMED).map(Holder::text);
        named
            .chain((more > 0).then(|| format!("and {more} more")))
            .collect()
    }
}

impl Holder {
    /// Formats `ada (python3, 11.0 GB, since 2h)`.
    #[must_use]
    pub fn text(&self) -> String {
        let memory = self.memory.map(size);
        if self.is_gone {
            let memory = memory.map_or_else(String::new, |memory| format!(" ({memory})"));
            return format!("gone pid {}{memory}", self.pid);
        }
        let what = self.comm.clone().or(Some(format!("pid {}", self.pid)));
        let age = self.age.map(|age| format!("since {}", short_age(age)));
        let known: Vec<String> = [what, memory, age].into_iter().flatten().collect();
        let owner = self.owner.as_deref().unwrap_or("?");
        format!("{owner} ({})", known.join(", "))
    }
}

#[cfg(test)]
mod tests;
