//! Row of the listing: a GPU or a MIG instance with its holders, sign and state.

use std::time::Duration;

use gua_model::health::{faults, is_known};
use gua_model::idle::IdleGpu;
use gua_model::pick::{Order, is_free, is_vacant, sort};
use gua_model::since::Since;
use gua_model::text::sanitize;
use gua_model::{
    Fault, Gpu, Missing, OwnerKey, Place, Process, Reading, Sample, State, Thresholds, Xid,
    classify, classify::holders,
};

use super::{ListedClaim, ListedKeep, Status};

/// Settings that affect how a sample is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub thresholds: Thresholds,
    pub ticks_per_second: u64,
}

/// A GPU, or a MIG instance below its parent.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    pub index: u32,
    /// `None` for a GPU that cannot be read at all.
    pub gpu: Option<&'a Gpu>,
    pub status: Status,
    /// `None` for a GPU whose MIG instances have the states.
    pub state: Option<State>,
    /// Whether it is free by the rule of `gua available` apart from its health.
    pub is_vacant: bool,
    /// Reason for an unknown state.
    pub unobserved: Option<Missing>,
    /// Start of the state, if a daemon has recorded it.
    pub since: Option<Since>,
    /// For how long it has been idle, if it is idle and a daemon has recorded it.
    pub idle: Option<IdleGpu>,
    /// Age of the oldest holder.
    pub oldest: Option<Duration>,
    pub holders: Vec<&'a Process>,
    /// Leases on this GPU.
    pub claims: Vec<Leased>,
    /// Holders who still need it.
    pub keeps: Vec<Kept>,
}

/// Lease on a GPU.
#[derive(Clone, Debug)]
pub struct Leased {
    /// `ada (pid 4711 bash) until 14:30:05`.
    pub text: String,
    pub listed: ListedClaim,
}

/// A holder's statement that they still need a GPU.
#[derive(Clone, Debug)]
pub struct Kept {
    /// `ada until 14:30:05: evaluation`.
    pub text: String,
    pub listed: ListedKeep,
}

/// Rows in the requested order: MIG instances below their parent, unreadable GPUs by index.
pub fn rows<'a>(sample: &'a Sample, terms: &Terms, order: Option<&Order>) -> Vec<Row<'a>> {
    let is_instance = |gpu: &&Gpu| matches!(gpu.place, Place::Instance { .. });
    let mut physical_gpus: Vec<&Gpu> = sample.gpus.iter().filter(|gpu| !is_instance(gpu)).collect();
    if let Some(order) = order {
        sort(&mut physical_gpus, order, |gpu| gpu);
    }
    let mut rows = Vec::new();
    for physical in physical_gpus {
        let instances: Vec<Row<'_>> = sample
            .gpus
            .iter()
            .filter(|gpu| gpu.place.parent() == Some(&physical.uuid))
            .map(|gpu| row(gpu, sample, terms))
            .collect();
        let mut physical_row = row(physical, sample, terms);
        let is_free = |row: &Row<'_>| row.status == Status::Free;
        if physical_row.state.is_none() && is_free(&physical_row) && !instances.iter().all(is_free)
        {
            physical_row.status = Status::Held;
        }
        rows.push(physical_row);
        rows.extend(instances);
    }
    for problem in &sample.problems {
        if let (None, Some(index)) = (&problem.gpu, problem.index)
            && rows.iter().all(|row| row.index != index)
        {
            let place = rows.iter().position(|row| row.index > index);
            let place = place.filter(|_| order.is_none()).unwrap_or(rows.len());
            rows.insert(place, unobserved(index, Some(problem.why)));
        }
    }
    rows
}

fn row<'a>(gpu: &'a Gpu, sample: &Sample, terms: &Terms) -> Row<'a> {
    let verdict = classify(gpu, &terms.thresholds, None);
    let holders: Vec<&Process> = holders(gpu, &terms.thresholds).collect();
    let state = gpu.place.counts().then_some(verdict.state);
    let identities = holders
        .iter()
        .filter_map(|process| process.identity.as_ref().ok());
    let oldest = identities
        .filter_map(|identity| identity.age(sample.since_boot, terms.ticks_per_second))
        .max();
    let are_known = holders.iter().all(|process| process.identity.is_ok());
    let status = match state {
        // A GPU whose instances are counted in its place is judged by them.
        None if holders.is_empty() => Status::Free,
        Some(_) if is_free(gpu, &terms.thresholds) => Status::Free,
        Some(State::Unobserved) => Status::Wrong,
        // Something uses the GPU that nobody can see, it has a fault, or a reading is missing.
        _ if holders.is_empty() || !are_known => Status::Wrong,
        _ => Status::Held,
    };
    Row {
        gpu: Some(gpu),
        status,
        state,
        is_vacant: is_vacant(gpu, &terms.thresholds),
        oldest,
        holders,
        ..unobserved(gpu.index, verdict.evidence.unobserved)
    }
}

/// A GPU of which only the index is known.
fn unobserved<'a>(index: u32, why: Option<Missing>) -> Row<'a> {
    Row {
        index,
        gpu: None,
        status: Status::Wrong,
        state: Some(State::Unobserved),
        is_vacant: false,
        unobserved: why,
        since: None,
        idle: None,
        oldest: None,
        holders: Vec::new(),
        claims: Vec::new(),
        keeps: Vec::new(),
    }
}

impl Row<'_> {
    pub fn is_instance(&self) -> bool {
        self.gpu
            .is_some_and(|gpu| matches!(gpu.place, Place::Instance { .. }))
    }

    /// Whether the GPU is leased but not held yet.
    pub fn is_only_claimed(&self) -> bool {
        self.status == Status::Free && !self.claims.is_empty()
    }

    /// Reading of the GPU for display; `None` if it is missing.
    pub fn reading<T>(&self, of: impl Fn(&Gpu) -> Reading<T>) -> Option<T> {
        of(self.gpu?).ok()
    }

    pub(super) fn last_xid(&self) -> Option<Xid> {
        self.reading(|gpu| gpu.xid).flatten()
    }

    /// Returns the faults of the GPU, which may be one that could not be identified. Returns `ok` if there is none, and `None` if
    /// no health reading is available.
    pub(super) fn health(&self, name: impl Fn(&Fault) -> String, between: &str) -> Option<String> {
        let is_lost = self.unobserved == Some(Missing::Gone);
        let faults = match self.gpu {
            Some(gpu) => faults(gpu),
            None => Vec::from_iter(is_lost.then_some(Fault::Lost)),
        };
        match faults.is_empty() {
            true => self.gpu.is_some_and(is_known).then(|| "ok".to_owned()),
            false => Some(faults.iter().map(name).collect::<Vec<_>>().join(between)),
        }
    }

    /// Name of the GPU. For a MIG instance, which is listed below its parent, the parent's name is removed.
    pub fn name(&self, sample: &Sample) -> Option<String> {
        let gpu = self.gpu?;
        let name = gpu.name.as_ref().ok()?;
        let parent = gpu.place.parent();
        let parent = sample.gpus.iter().find(|gpu| Some(&gpu.uuid) == parent);
        let prefix = parent.and_then(|gpu| gpu.name.as_ref().ok());
        let short = prefix.and_then(|prefix| name.strip_prefix(prefix.as_str()));
        Some(sanitize(short.map_or(name.as_str(), str::trim_start)))
    }
}

/// The owner with the job, pod or container: `ada (job 4711)`. An owner that is the pod or container itself says it already.
pub fn owner_and_workload(process: &Process) -> String {
    let identity = process.identity.as_ref();
    let owner = match identity.map(|identity| identity.owner()) {
        Ok(Some(owner)) if matches!(owner.who, OwnerKey::Workload(_)) => return owner.shown(),
        Ok(Some(owner)) => owner.shown(),
        Err(Missing::Gone) => return "(exited)".to_owned(),
        _ => "?".to_owned(),
    };
    match identity
        .ok()
        .and_then(|identity| identity.workload.in_short())
    {
        Some(workload) => format!("{owner} ({workload})"),
        None => owner,
    }
}

/// Texts without repetition, in their order.
pub fn distinct(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for text in texts {
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen
}
