//! The documents of `gua list`, `gua available` and `gua claim list`. Every key contains its unit, a missing reading is
//! null, and command lines are never included. The CSV tables are built from the same rows.

use std::time::Duration;

use gua_model::since::{Since, Start};
use gua_model::table::{Cell, Header, Table};
use gua_model::text::sanitize;
use gua_model::{Gpu, Missing, Place, Process, Reading, Sample, State};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::document::{cells, headers, rows};

/// Format name of [`ListDocument`].
pub const LIST: &str = "gua.list.v1";
/// Format name of [`AvailableDocument`].
pub const AVAILABLE: &str = "gua.available.v1";
/// Format name of [`ClaimsDocument`].
pub const CLAIMS: &str = "gua.claims.v1";

rows! {
    /// A GPU or a MIG instance.
    struct ListedGpu {
        /// The driver's index; an instance carries that of its parent.
        index: u32 => "index",
        /// Null for a GPU that cannot be identified.
        uuid: Option<String> => "uuid",
        /// The GPU of a MIG instance.
        parent_uuid: Option<String> => "parent_uuid",
        /// `whole`, `parent` (divided into MIG instances) or `instance`.
        place: &'static str => "place",
        name: Option<String> => "name",
        /// nvgpu's status: `free`, `held`, or `wrong` if a holder is gone or cannot be seen, the GPU is busy without one, or it
        /// cannot be read.
        status: &'static str => "status",
        /// One of the states in docs/states.md; null where instances take the place of the GPU.
        state: Option<&'static str> => "state",
        /// Since when it is in this state, if a daemon knows.
        state_since: Option<Timestamp> => "state_since",
        /// Whether it may be in this state for longer.
        state_since_is_bound: Option<bool> => "state_since_is_bound",
        /// Why the state was not observed: `unsupported`, `denied`, `gone` or `failed`.
        unobserved_because: Option<&'static str> => "unobserved_because",
        util_percent: Option<u32> => "util_percent",
        memory_used_bytes: Option<u64> => "memory_used_bytes",
        /// Memory reserved by the driver.
        memory_reserved_bytes: Option<u64> => "memory_reserved_bytes",
        memory_total_bytes: Option<u64> => "memory_total_bytes",
        power_milliwatts: Option<u64> => "power_milliwatts",
        power_limit_milliwatts: Option<u64> => "power_limit_milliwatts",
        temperature_celsius: Option<i32> => "temperature_celsius",
        fan_percent: Option<u32> => "fan_percent",
        sm_clock_megahertz: Option<u32> => "sm_clock_megahertz",
        /// Whether the list of compute processes could be read.
        processes_listed: bool => "processes_listed",
        /// Age of the oldest holder.
        oldest_holder_seconds: Option<u64> => "oldest_holder_seconds",
    }

    /// A process that holds memory on a GPU.
    struct ListedHolder {
        pid: u32 => "pid",
        /// The answerable user by name, otherwise by number.
        owner: Option<String> => "owner",
        /// How the owner was found: `login`, `process`, `job`, `pod` or `container`.
        owner_source: Option<&'static str> => "owner_source",
        /// Short name of the program.
        comm: Option<String> => "comm",
        memory_used_bytes: Option<u64> => "memory_used_bytes",
        age_seconds: Option<u64> => "age_seconds",
        container: Option<String> => "container",
        pod: Option<String> => "pod",
        job: Option<String> => "job",
        /// Why the process cannot be seen.
        unseen_because: Option<&'static str> => "unseen_because",
    }

    /// A lease.
    struct ListedClaim {
        /// The argument of `gua claim release`.
        id: String => "id",
        user: String => "user",
        uid: u32 => "uid",
        /// The process that the claim belongs to and ends with.
        for_pid: u32 => "for_pid",
        for_comm: Option<String> => "for_comm",
        since: Timestamp => "since",
        until: Option<Timestamp> => "until",
    }
}

/// What `gua list --json` prints; with `--watch`, one document per line. A missing reading is null, never zero. Keys may be
/// added under the same version; none changes its meaning. CSV is the same, flattened: one line per holder (`holder_` before
/// its keys, `claim_` before those of a lease), and one for a GPU without any.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ListDocument {
    pub schema: &'static str,
    /// When the GPUs were read, in UTC.
    pub at: Timestamp,
    pub driver_version: Option<String>,
    pub gpus: Vec<ListEntry>,
    /// Readings that failed, in words.
    pub problems: Vec<String>,
}

/// One GPU of the list with its leases and holders.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ListEntry {
    #[serde(flatten)]
    pub gpu: ListedGpu,
    /// Null if the claims could not be read.
    pub claims: Option<Vec<ListedClaim>>,
    pub holders: Vec<ListedHolder>,
}

impl ListedGpu {
    /// Creates an entry with the readings of a GPU. The caller adds the values that a sample lacks: status, state, its
    /// start, and the oldest holder.
    #[must_use]
    pub fn new(index: u32, gpu: Option<&Gpu>) -> Self {
        Self {
            index,
            uuid: gpu.map(|gpu| gpu.uuid.to_string()),
            parent_uuid: gpu.and_then(|gpu| Some(gpu.place.parent()?.to_string())),
            place: match gpu.map(|gpu| &gpu.place) {
                Some(Place::Parent { .. }) => "parent",
                Some(Place::Instance { .. }) => "instance",
                Some(Place::Whole) | None => "whole",
            },
            name: gpu.and_then(|gpu| Some(sanitize(gpu.name.as_ref().ok()?))),
            status: "",
            state: None,
            state_since: None,
            state_since_is_bound: None,
            unobserved_because: None,
            util_percent: reading(gpu, |gpu| gpu.util).map(|util| util.get().into()),
            memory_used_bytes: reading(gpu, |gpu| gpu.memory_used).map(|bytes| bytes.0),
            memory_reserved_bytes: reading(gpu, |gpu| gpu.memory_reserved).map(|bytes| bytes.0),
            memory_total_bytes: reading(gpu, |gpu| gpu.memory_total).map(|bytes| bytes.0),
            power_milliwatts: reading(gpu, |gpu| gpu.power).map(|power| power.0),
            power_limit_milliwatts: reading(gpu, |gpu| gpu.power_limit).map(|power| power.0),
            temperature_celsius: reading(gpu, |gpu| gpu.temperature).map(|degrees| degrees.0),
            fan_percent: reading(gpu, |gpu| gpu.fan).map(|fan| fan.0.into()),
            sm_clock_megahertz: reading(gpu, |gpu| gpu.sm_clock).map(|clock| clock.0),
            processes_listed: gpu.is_some_and(|gpu| gpu.compute_list.is_ok()),
            oldest_holder_seconds: None,
        }
    }

    /// Sets the state of the GPU.
    #[must_use]
    pub fn in_state(
        self,
        status: &'static str,
        state: Option<State>,
        since: Option<Since>,
        unobserved: Option<Missing>,
        oldest: Option<Duration>,
    ) -> Self {
        Self {
            status,
            state: state.map(State::as_str),
            state_since: since.map(|since| since.at),
            state_since_is_bound: since.map(|since| since.start == Start::AtLatest),
            unobserved_because: unobserved.map(Missing::as_str),
            oldest_holder_seconds: oldest.map(|age| age.as_secs()),
            ..self
        }
    }
}

fn reading<T>(gpu: Option<&Gpu>, of: impl Fn(&Gpu) -> Reading<T>) -> Option<T> {
    of(gpu?).ok()
}

impl ListedHolder {
    #[must_use]
    pub fn new(process: &Process, sample: &Sample, ticks_per_second: u64) -> Self {
        let identity = process.identity.as_ref().ok();
        let workload = identity.map(|identity| &identity.workload);
        let owner = identity.and_then(|identity| identity.owner());
        let age = identity.and_then(|identity| identity.age(sample.since_boot, ticks_per_second));
        let comm = identity.and_then(|identity| identity.comm.as_ref().ok());
        Self {
            pid: process.pid.0,
            owner: owner.as_ref().map(|owner| owner.user.shown()),
            owner_source: owner.as_ref().map(|owner| owner.source.as_str()),
            comm: comm.map(|comm| sanitize(comm)),
            memory_used_bytes: process.memory.ok().map(|bytes| bytes.0),
            age_seconds: age.map(|age| age.as_secs()),
            container: workload.and_then(|workload| Some(workload.container.as_ref()?.to_string())),
            pod: workload.and_then(|workload| Some(workload.pod.as_ref()?.to_string())),
            job: workload.and_then(|workload| Some(workload.job.as_ref()?.to_string())),
            unseen_because: process.identity.as_ref().err().map(|why| why.as_str()),
        }
    }
}

impl ListDocument {
    /// Returns the list as one table: a line per holder, and one for a GPU without holders.
    #[must_use]
    pub fn table(&self) -> Table {
        let first = ["at", "driver_version"].map(|key| Header::new(key, key));
        let mut table = Table {
            columns: first
                .into_iter()
                .chain(headers("", ListedGpu::COLUMNS))
                .chain(headers("claim_", ListedClaim::COLUMNS))
                .chain(headers("holder_", ListedHolder::COLUMNS))
                .collect(),
            rows: Vec::new(),
        };
        for entry in &self.gpus {
            let mut start = vec![self.at.into(), self.driver_version.clone().into()];
            start.extend(cells(ListedGpu::COLUMNS, &entry.gpu));
            start.extend(joined(entry.claims.as_deref().unwrap_or_default()));
            let holders = entry.holders.iter().map(Some);
            let nobody = entry.holders.is_empty().then_some(None);
            for holder in holders.chain(nobody) {
                let mut row = start.clone();
                row.extend(optional(holder));
                table.rows.push(row);
            }
        }
        table
    }
}

/// Returns the cells of the leases on a GPU. There is at most one unless a lease was forged; then `;` separates them.
fn joined(claims: &[ListedClaim]) -> Vec<Cell> {
    let cell = |column: &gua_model::table::Column<ListedClaim>| {
        let texts = claims.iter().map(|claim| (column.cell)(claim).exact());
        match texts.collect::<Vec<_>>() {
            texts if texts.is_empty() => Cell::Missing,
            texts => Cell::Text(texts.join(";")),
        }
    };
    ListedClaim::COLUMNS.iter().map(cell).collect()
}

fn optional(holder: Option<&ListedHolder>) -> Vec<Cell> {
    match holder {
        Some(holder) => cells(ListedHolder::COLUMNS, holder),
        None => vec![Cell::Missing; ListedHolder::COLUMNS.len()],
    }
}

rows! {
    /// A GPU as `gua available` describes it.
    struct OfferedGpu {
        /// The driver's index.
        index: u32 => "index",
        uuid: String => "uuid",
        /// The GPU of a MIG instance.
        parent_uuid: Option<String> => "parent_uuid",
        name: Option<String> => "name",
        /// Neither used nor reserved by the driver.
        memory_free_bytes: Option<u64> => "memory_free_bytes",
        memory_total_bytes: Option<u64> => "memory_total_bytes",
        power_milliwatts: Option<u64> => "power_milliwatts",
        temperature_celsius: Option<i32> => "temperature_celsius",
        util_percent: Option<u32> => "util_percent",
    }

    /// Why a GPU is not offered.
    struct Refusal {
        /// The reason in words.
        why: String => "why",
        /// When a running daemon last saw it in use, if that is the reason.
        used_seconds_ago: Option<i64> => "used_seconds_ago",
        /// One of the states in docs/states.md.
        state: &'static str => "state",
    }
}

/// What `gua available --json` prints: the free GPUs, and why the others are not. Keys may be added under the same version;
/// none changes its meaning. Null means unknown or not applicable, never zero.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AvailableDocument {
    pub schema: &'static str,
    pub at: Timestamp,
    /// `gua` or `nvgpu`.
    pub rule: &'static str,
    /// The best first.
    pub available: Vec<OfferedGpu>,
    pub not_available: Vec<RefusedGpu>,
    /// The lease of `--claim` or `--wait`.
    pub claim: Option<Granted>,
}

/// A GPU that is not free.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RefusedGpu {
    #[serde(flatten)]
    pub gpu: OfferedGpu,
    #[serde(flatten)]
    pub refusal: Refusal,
    pub holders: Vec<ListedHolder>,
    pub claims: Vec<ListedClaim>,
}

/// A lease that was granted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Granted {
    /// The argument of `gua claim release`.
    pub id: String,
    /// The process that the claim belongs to and ends with.
    pub for_pid: u32,
    pub until: Option<Timestamp>,
}

impl OfferedGpu {
    #[must_use]
    pub fn new(gpu: &Gpu) -> Self {
        Self {
            index: gpu.index,
            uuid: gpu.uuid.to_string(),
            parent_uuid: gpu.place.parent().map(ToString::to_string),
            name: gpu.name.as_ref().ok().map(|name| sanitize(name)),
            memory_free_bytes: gua_model::pick::free_memory(gpu).ok().map(|bytes| bytes.0),
            memory_total_bytes: gpu.memory_total.ok().map(|bytes| bytes.0),
            power_milliwatts: gpu.power.ok().map(|power| power.0),
            temperature_celsius: gpu.temperature.ok().map(|degrees| degrees.0),
            util_percent: gpu.util.ok().map(|util| util.get().into()),
        }
    }
}

impl AvailableDocument {
    /// Returns the document as one table: a line per GPU, and per holder and lease of a GPU that is not free.
    #[must_use]
    pub fn table(&self) -> Table {
        let first = ["at", "rule", "available"].map(|key| Header::new(key, key));
        let mut table = Table {
            columns: first
                .into_iter()
                .chain(headers("", OfferedGpu::COLUMNS))
                .chain(headers("", Refusal::COLUMNS))
                .chain(headers("holder_", ListedHolder::COLUMNS))
                .chain(headers("claim_", ListedClaim::COLUMNS))
                .collect(),
            rows: Vec::new(),
        };
        let mut put = |gpu: &OfferedGpu, refusal: Option<&Refusal>, rest: [Vec<Cell>; 2]| {
            let is_available = refusal.is_none();
            let mut row: Vec<Cell> = vec![self.at.into(), self.rule.into(), is_available.into()];
            row.extend(cells(OfferedGpu::COLUMNS, gpu));
            row.extend(match refusal {
                Some(refusal) => cells(Refusal::COLUMNS, refusal),
                None => vec![Cell::Missing; Refusal::COLUMNS.len()],
            });
            row.extend(rest.into_iter().flatten());
            table.rows.push(row);
        };
        let granted = self.claim.as_ref();
        let granted = ListedClaim::COLUMNS.iter().map(|column| match column.key {
            "id" => granted.map(|claim| claim.id.clone()).into(),
            "for_pid" => granted.map(|claim| claim.for_pid).into(),
            "until" => granted.and_then(|claim| claim.until).into(),
            _ => Cell::Missing,
        });
        let granted: Vec<Cell> = granted.collect();
        for gpu in &self.available {
            put(gpu, None, [optional(None), granted.clone()]);
        }
        for other in &self.not_available {
            let refusal = Some(&other.refusal);
            let nobody = other.holders.is_empty() && other.claims.is_empty();
            let holders = other.holders.iter().map(Some);
            for holder in holders.chain(nobody.then_some(None)) {
                put(&other.gpu, refusal, [optional(holder), joined(&[])]);
            }
            for claim in &other.claims {
                let claim = cells(ListedClaim::COLUMNS, claim);
                put(&other.gpu, refusal, [optional(None), claim]);
            }
        }
        table
    }
}

/// What `gua claim list --json` prints. Keys may be added under the same version; none changes its meaning.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClaimsDocument {
    pub schema: &'static str,
    pub at: Timestamp,
    /// The directory that users share.
    pub directory: String,
    /// Whether the driver answered. Without it, the use of leased GPUs is unknown.
    pub cards_seen: bool,
    pub claims: Vec<ClaimEntry>,
    /// Waiting requests in order of arrival.
    pub queue: Vec<QueueEntry>,
    /// Files that could not be read, in words.
    pub problems: Vec<String>,
}

/// A lease with its GPUs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClaimEntry {
    #[serde(flatten)]
    pub claim: ListedClaim,
    pub cards: Vec<ClaimedGpu>,
}

/// A leased GPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClaimedGpu {
    pub uuid: String,
    pub index: Option<u32>,
    /// Whether a process of the claim uses it.
    pub in_use: Option<bool>,
}

/// A waiting request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct QueueEntry {
    pub user: String,
    pub uid: u32,
    pub pid: u32,
    pub comm: Option<String>,
    /// Number of GPUs wanted.
    pub wanted: usize,
    pub waited_seconds: u64,
}

rows! {
    /// One line of `gua claim list --csv`: a leased GPU, or a waiting request.
    struct ClaimLine {
        at: Timestamp => "at",
        /// `claim` or `waiting`.
        row: &'static str => "row",
        id: Option<String> => "id",
        gpu_index: Option<u32> => "gpu_index",
        gpu_uuid: Option<String> => "gpu_uuid",
        in_use: Option<bool> => "in_use",
        since: Option<Timestamp> => "since",
        until: Option<Timestamp> => "until",
        /// Place in the queue, from 1.
        place: Option<u64> => "place",
        wanted: Option<u64> => "wanted",
        waited_seconds: Option<u64> => "waited_seconds",
        user: String => "user",
        uid: u32 => "uid",
        pid: u32 => "pid",
        comm: Option<String> => "comm",
    }
}

impl ClaimsDocument {
    /// Returns the document as one table: a line per leased GPU and per waiting request.
    #[must_use]
    pub fn table(&self) -> Table {
        let leased = self.claims.iter().flat_map(|entry| {
            let claim = &entry.claim;
            entry.cards.iter().map(move |gpu| ClaimLine {
                at: self.at,
                row: "claim",
                id: Some(claim.id.clone()),
                gpu_index: gpu.index,
                gpu_uuid: Some(gpu.uuid.clone()),
                in_use: gpu.in_use,
                since: Some(claim.since),
                until: claim.until,
                place: None,
                wanted: None,
                waited_seconds: None,
                user: claim.user.clone(),
                uid: claim.uid,
                pid: claim.for_pid,
                comm: claim.for_comm.clone(),
            })
        });
        let waiting = (1..).zip(&self.queue).map(|(place, waiter)| ClaimLine {
            at: self.at,
            row: "waiting",
            id: None,
            gpu_index: None,
            gpu_uuid: None,
            in_use: None,
            since: None,
            until: None,
            place: Some(place),
            wanted: u64::try_from(waiter.wanted).ok(),
            waited_seconds: Some(waiter.waited_seconds),
            user: waiter.user.clone(),
            uid: waiter.uid,
            pid: waiter.pid,
            comm: waiter.comm.clone(),
        });
        let lines: Vec<ClaimLine> = leased.chain(waiting).collect();
        Table::of(ClaimLine::COLUMNS, &lines)
    }
}
