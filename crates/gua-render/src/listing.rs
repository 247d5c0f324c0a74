//! The documents of `gua list`, `gua available` and `gua claim list`. Every key contains its unit, a missing reading is
//! null, and command lines are never included. The CSV tables are built from the same rows.

pub mod row;
pub mod text;

use gua_model::idle::IdleGpu;
use gua_model::pick::free_memory;
use gua_model::since::Start;
use gua_model::table::{Cell, Column, Table};
use gua_model::text::sanitize;
use gua_model::{Gpu, Missing, Owner, Place, Process, Sample, State, Workload};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use self::row::Row;
use crate::document::{Number, cells, documents, headers, rows};
use crate::report::IdleTime;
use crate::sample::identity;
use crate::table::table;

/// Format name of [`ListDocument`].
pub const LIST: &str = "gua.list.v1";
/// Format name of [`AvailableDocument`].
pub const AVAILABLE: &str = "gua.available.v1";
/// Format name of [`ClaimsDocument`].
pub const CLAIMS: &str = "gua.claims.v1";

gua_model::words! {
    /// nvgpu's status of a GPU.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Status {
        /// The GPU is free by the rule of `gua available`, claims aside.
        Free = "free",
        /// A process holds the GPU.
        Held = "held",
        /// A holder has exited or is not visible, the GPU or its memory is in use without a holder, it has a fault, or
        /// it cannot be read.
        Wrong = "wrong",
    }
}

rows! {
    /// A GPU or a MIG instance.
    pub struct ListedGpu from (row: &Row<'_>) {
        /// The driver's index; an instance carries that of its parent.
        index: u32 = row.index,
        /// Null for a GPU that cannot be identified.
        uuid: Option<String> = row.gpu.map(|gpu| gpu.uuid.to_string()),
        /// The GPU of a MIG instance.
        parent_uuid: Option<String> = row.gpu.and_then(|gpu| Some(gpu.place.parent()?.to_string())),
        /// `whole`, `parent` (divided into MIG instances) or `instance`.
        place: &'static str = match row.gpu.map(|gpu| &gpu.place) {
            Some(Place::Parent { .. }) => "parent",
            Some(Place::Instance { .. }) => "instance",
            Some(Place::Whole) | None => "whole",
        },
        name: Option<String> = row.gpu.and_then(|gpu| Some(sanitize(gpu.name.as_ref().ok()?))),
        /// `free` by the rule of `gua available`, `held`, or `wrong` if a holder is gone or cannot be seen, the GPU or its memory
        /// is in use without one, it has a fault, or it cannot be read.
        status: &'static str = row.status.as_str(),
        /// One of the states in docs/states.md; null where instances take the place of the GPU.
        state: Option<&'static str> = row.state.map(State::as_str),
        /// Since when it is in this state, if a daemon knows.
        state_since: Option<Timestamp> = row.since.map(|since| since.at),
        /// Whether it may be in this state for longer.
        state_since_is_bound: Option<bool> =
            row.since.map(|since| since.start == Start::AtLatest),
        /// Why the state was not observed: `unsupported`, `denied`, `gone` or `failed`.
        unobserved_because: Option<&'static str> = row.unobserved.map(Missing::as_str),
        util_percent: Option<u32> = row.reading(|gpu| gpu.util).map(|util| util.get().into()),
        memory_used_bytes: Option<u64> = row.reading(|gpu| gpu.memory_used).map(|bytes| bytes.0),
        /// Memory reserved by the driver.
        memory_reserved_bytes: Option<u64> =
            row.reading(|gpu| gpu.memory_reserved).map(|bytes| bytes.0),
        memory_total_bytes: Option<u64> = row.reading(|gpu| gpu.memory_total).map(|bytes| bytes.0),
        power_milliwatts: Option<u64> = row.reading(|gpu| gpu.power).map(|power| power.0),
        power_limit_milliwatts: Option<u64> = row.reading(|gpu| gpu.power_limit).map(|power| power.0),
        temperature_celsius: Option<i32> =
            row.reading(|gpu| gpu.temperature).map(|degrees| degrees.0),
        fan_percent: Option<u32> = row.reading(|gpu| gpu.fan).map(|fan| fan.0.into()),
        sm_clock_megahertz: Option<u32> = row.reading(|gpu| gpu.sm_clock).map(|clock| clock.0),
        /// Whether the list of compute processes could be read.
        processes_listed: bool = row.gpu.is_some_and(|gpu| gpu.compute_list.is_ok()),
        /// `ok`, or the faults with commas between them: `lost`, `xid`, `uncorrected-errors`, `remap-failed`, `remap-pending`,
        /// `retirement-pending`, `hot`, `slowed-down`. Null if no reading of health is available.
        health: Option<String> = row.health(|fault| fault.as_str().to_owned(), ","),
        /// Code of the last Xid error that means trouble with the GPU, if the kernel log has one and can be read.
        xid: Option<u32> = row.last_xid().map(|xid| xid.code.into()),
        xid_at: Option<Timestamp> = row.last_xid().map(|xid| xid.at),
        /// Age of the oldest holder.
        oldest_holder_seconds: Option<u64> = row.oldest.map(|age| age.as_secs()),
    }

    /// A process that holds memory on a GPU.
    pub struct ListedHolder from (process: &Process, sample: &Sample, ticks_per_second: u64) {
        pid: u32 = process.pid.0,
        /// Owner of the process: a user by name or number, `container:NAME`, `pod:NAMESPACE/NAME`, or the owner of a
        /// rule.
        owner: Option<String> = owner(process).map(|owner| owner.shown()),
        /// Rule by which the owner was found: `login`, `process`, `job`, `pod`, `container` or `rule`.
        owner_source: Option<&'static str> = owner(process).map(|owner| owner.source.as_str()),
        /// Short name of the program.
        comm: Option<String> = identity(process)
            .and_then(|identity| Some(sanitize(identity.comm.as_ref().ok()?))),
        memory_used_bytes: Option<u64> = process.memory.ok().map(|bytes| bytes.0),
        age_seconds: Option<u64> = identity(process)
            .and_then(|identity| identity.age(sample.since_boot, ticks_per_second))
            .map(|age| age.as_secs()),
        container: Option<String> = workload(process)
            .and_then(|workload| Some(workload.container.as_ref()?.to_string())),
        pod: Option<String> = workload(process)
            .and_then(|workload| Some(workload.pod.as_ref()?.to_string())),
        job: Option<String> = workload(process)
            .and_then(|workload| Some(workload.job.as_ref()?.to_string())),
        /// Name of the container, where the files of its runtime can be read.
        container_name: Option<String> = workload(process)
            .and_then(|workload| Some(sanitize(workload.container_name.as_ref()?))),
        /// `NAMESPACE/NAME` of the pod, where the files of its node can be read.
        pod_name: Option<String> = workload(process)
            .and_then(|workload| Some(sanitize(workload.pod_name.as_ref()?))),
        /// Why the process cannot be seen.
        unseen_because: Option<&'static str> =
            process.identity.as_ref().err().map(|why| why.as_str()),
    }

    /// A lease.
    pub struct ListedClaim {
        /// The argument of `gua claim release`.
        id: String,
        user: String,
        uid: u32,
        /// The process that the claim belongs to and ends with.
        for_pid: u32,
        for_comm: Option<String>,
        since: Timestamp,
        until: Option<Timestamp>,
    }
}

rows! {
    /// A holder's statement that they still need a GPU (`gua keep`).
    pub struct ListedKeep {
        user: String,
        uid: u32,
        until: Timestamp,
        /// The reason that the holder gave.
        why: String,
    }

    /// A GPU of a board.
    pub struct FleetRow {
        /// Name of the host.
        host: String [ByContent, 20],
        /// Index of the GPU in the driver; for a MIG instance, that of its GPU.
        index: u32 [ByContent, 20] as "GPU",
        /// One of the eight states; `unobserved` if the host stopped reporting.
        state: &'static str [ByContent, 19],
        free: bool [ByContent, 12],
        util_percent: Option<u8> [ByContent, 18] as "util %",
        memory_used_gb: Option<Number> [ByContent, 15] as "used GB",
        memory_total_gb: Option<Number> [ByContent, 14] as "of GB",
        /// Known faults, in words.
        health: Option<String> [ByContent, 16, 8],
        /// Names of the owners of its processes and of its claim.
        holders: Option<String> [ByContent, 17, 6],
        /// Model of the GPU.
        name: Option<String> [ByContent, 13, 8],
        uuid: String,
        /// Time at which the host read the GPU.
        observed_at: Timestamp,
    }
}

/// Output of `gua list --board` and `gua available --board` with `--json`: the GPUs in the order of the board. Keys may be added
/// under the same version; none changes its meaning.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FleetDocument<'a>(pub &'a [FleetRow]);

fn owner(process: &Process) -> Option<Owner> {
    identity(process)?.owner()
}

fn workload(process: &Process) -> Option<&Workload> {
    identity(process).map(|identity| &identity.workload)
}

documents! {
    /// Output of `gua list --json`; with `--watch`, one document per line. A missing reading is null, never zero. Keys
    /// may be added under the same version; none changes its meaning. CSV is the same, flattened: one line per holder
    /// (`holder_` before its keys, `claim_` before those of a lease, `keep_` before those of a keep), and one for a GPU
    /// without any.
    pub struct ListDocument from (sample: &Sample, rows: &[Row<'_>], unread: Option<&str>, ticks_per_second: u64) {
        pub schema: &'static str = LIST,
        /// Time at which the GPUs were read, in UTC.
        pub at: Timestamp = sample.at,
        pub driver_version: Option<String> = sample.driver.version.clone().ok(),
        pub gpus: Vec<ListEntry> = {
            let entry = |row| ListEntry::new(row, sample, unread.is_none(), ticks_per_second);
            rows.iter().map(entry).collect()
        },
        /// Readings that failed, in words.
        pub problems: Vec<String> = {
            let problems = sample.problems.iter().map(ToString::to_string);
            problems.chain(unread.map(str::to_owned)).collect()
        },
    }

    /// One GPU of the list with its leases and holders.
    pub struct ListEntry from (row: &Row<'_>, sample: &Sample, knows_claims: bool, ticks_per_second: u64) {
        #[serde(flatten)]
        pub gpu: ListedGpu = ListedGpu::new(row),
        /// Idle time of the holder that has been idle for the longest time.
        #[serde(flatten)]
        pub idle: IdleTime = {
            let idle = row.idle.as_ref();
            IdleTime::new(idle.map(|idle| idle.longest), sample.at)
        },
        /// Null if the claims could not be read.
        pub claims: Option<Vec<ListedClaim>> = {
            let claims = row.claims.iter().map(|claim| claim.listed.clone());
            knows_claims.then(|| claims.collect())
        },
        /// Holders who still need the GPU, although they do not use it now.
        pub keeps: Vec<ListedKeep> = row.keeps.iter().map(|keep| keep.listed.clone()).collect(),
        pub holders: Vec<HolderEntry> = {
            let idle = row.idle.as_ref();
            let holders = row.holders.iter();
            holders.map(|process| HolderEntry::new(process, idle, sample, ticks_per_second)).collect()
        },
    }

    /// A holder of a listed GPU.
    pub struct HolderEntry from (process: &Process, idle: Option<&IdleGpu>, sample: &Sample, ticks_per_second: u64) {
        #[serde(flatten)]
        pub holder: ListedHolder = ListedHolder::new(process, sample, ticks_per_second),
        #[serde(flatten)]
        pub idle: IdleTime = {
            let key = identity(process).map(|identity| identity.key);
            IdleTime::new(idle.map(|idle| idle.of(key)), sample.at)
        },
    }
}

impl ListDocument {
    /// Returns the list as one table: a line per holder, and one for a GPU without holders.
    pub fn table(&self) -> Table {
        let mut table = Table::new([("at", "at"), ("driver_version", "driver_version")]);
        let gpu = headers("", ListedGpu::COLUMNS);
        let idle = headers("", IdleTime::COLUMNS);
        let claim = headers("claim_", ListedClaim::COLUMNS);
        let holder = headers("holder_", ListedHolder::COLUMNS);
        let holder_idle = headers("holder_", IdleTime::COLUMNS);
        let keep = headers("keep_", ListedKeep::COLUMNS);
        let columns = [gpu, idle, claim, holder, holder_idle, keep];
        table.columns.extend(columns.concat());
        for entry in &self.gpus {
            let mut start = vec![self.at.into(), self.driver_version.clone().into()];
            start.extend(cells(ListedGpu::COLUMNS, Some(&entry.gpu)));
            start.extend(cells(IdleTime::COLUMNS, Some(&entry.idle)));
            start.extend(joined(
                ListedClaim::COLUMNS,
                entry.claims.as_deref().unwrap_or_default(),
            ));
            let keeps = joined(ListedKeep::COLUMNS, &entry.keeps);
            let holders = entry.holders.iter().map(Some);
            let nobody = entry.holders.is_empty().then_some(None);
            for holder in holders.chain(nobody) {
                let idle = cells(IdleTime::COLUMNS, holder.map(|entry| &entry.idle));
                let holder = holder.map(|entry| &entry.holder);
                let holder = cells(ListedHolder::COLUMNS, holder);
                table
                    .rows
                    .push([start.clone(), holder, idle, keeps.clone()].concat());
            }
        }
        table
    }
}

/// Returns the cells of the leases or keeps of a GPU. There is at most one lease unless one was forged; `;` separates several.
fn joined<R>(columns: &[Column<R>], rows: &[R]) -> Vec<Cell> {
    let cell = |column: &Column<R>| {
        let texts = rows.iter().map(|row| (column.cell)(row).exact());
        match texts.collect::<Vec<_>>() {
            texts if texts.is_empty() => Cell::Missing,
            texts => Cell::Text(texts.join(";")),
        }
    };
    columns.iter().map(cell).collect()
}

rows! {
    /// A GPU as `gua available` describes it.
    pub struct OfferedGpu from (gpu: &Gpu) {
        /// The driver's index.
        index: u32 = gpu.index,
        uuid: String = gpu.uuid.to_string(),
        /// The GPU of a MIG instance.
        parent_uuid: Option<String> = gpu.place.parent().map(ToString::to_string),
        name: Option<String> = gpu.name.as_ref().ok().map(|name| sanitize(name)),
        /// Neither used nor reserved by the driver.
        memory_free_bytes: Option<u64> = free_memory(gpu).ok().map(|bytes| bytes.0),
        memory_total_bytes: Option<u64> = gpu.memory_total.ok().map(|bytes| bytes.0),
        power_milliwatts: Option<u64> = gpu.power.ok().map(|power| power.0),
        temperature_celsius: Option<i32> = gpu.temperature.ok().map(|degrees| degrees.0),
        util_percent: Option<u32> = gpu.util.ok().map(|util| util.get().into()),
    }

    /// Why a GPU is not offered.
    pub struct Refusal {
        /// The reason in words.
        why: String,
        /// Seconds since a running daemon last saw it in use, if that is the reason.
        used_seconds_ago: Option<i64>,
        /// One of the states in docs/states.md.
        state: &'static str,
    }
}

/// Output of `gua available --json`: the free GPUs, and why the others are not. Keys may be added under the same
/// version; none changes its meaning. Null means unknown or not applicable, never zero.
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

impl AvailableDocument {
    /// Returns the document as one table: a line per GPU, and per holder and lease of a GPU that is not free.
    pub fn table(&self) -> Table {
        let first = ["at", "rule", "available"].map(|key| (key, key));
        let mut table = Table::new(first);
        let gpu = headers("", OfferedGpu::COLUMNS);
        let refusal = headers("", Refusal::COLUMNS);
        let holder = headers("holder_", ListedHolder::COLUMNS);
        let claim = headers("claim_", ListedClaim::COLUMNS);
        table.columns.extend([gpu, refusal, holder, claim].concat());
        let mut put = |gpu, refusal: Option<&Refusal>, holder, claim: Vec<Cell>| {
            let mut row = vec![self.at.into(), self.rule.into(), refusal.is_none().into()];
            row.extend(cells(OfferedGpu::COLUMNS, Some(gpu)));
            row.extend(cells(Refusal::COLUMNS, refusal));
            row.extend(cells(ListedHolder::COLUMNS, holder));
            row.extend(claim);
            table.rows.push(row);
        };
        let granted = |column: &Column<ListedClaim>| match (column.key, &self.claim) {
            ("id", Some(claim)) => claim.id.clone().into(),
            ("for_pid", Some(claim)) => claim.for_pid.into(),
            ("until", Some(claim)) => claim.until.into(),
            _ => Cell::Missing,
        };
        let granted: Vec<Cell> = ListedClaim::COLUMNS.iter().map(granted).collect();
        for gpu in &self.available {
            put(gpu, None, None, granted.clone());
        }
        for other in &self.not_available {
            let holders = other.holders.iter().map(|holder| (Some(holder), None));
            let claims = other.claims.iter().map(|claim| (None, Some(claim)));
            let nobody = other.holders.is_empty() && other.claims.is_empty();
            let nobody = nobody.then_some((None, None));
            for (holder, claim) in holders.chain(claims).chain(nobody) {
                let claim = cells(ListedClaim::COLUMNS, claim);
                put(&other.gpu, Some(&other.refusal), holder, claim);
            }
        }
        table
    }
}

/// Output of `gua claim list --json`. Keys may be added under the same version; none changes its meaning.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClaimsDocument {
    pub schema: &'static str,
    pub at: Timestamp,
    /// The directory that users share.
    pub directory: String,
    /// Whether the driver answered. Without it, the use of leased GPUs is unknown.
    pub gpus_seen: bool,
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
    pub gpus: Vec<ClaimedGpu>,
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

impl ClaimsDocument {
    /// Returns the document as one table: a line per leased GPU and per waiting request.
    pub fn table(&self) -> Table {
        let leased = self.claims.iter().flat_map(|ClaimEntry { claim, gpus }| {
            let who = (&claim.user, claim.uid, claim.for_pid, &claim.for_comm);
            gpus.iter().map(move |gpu| (Some((claim, gpu)), None, who))
        });
        let waiting = (1_u64..).zip(&self.queue).map(|(place, waiter)| {
            let who = (&waiter.user, waiter.uid, waiter.pid, &waiter.comm);
            (None, Some((place, waiter)), who)
        });
        table!((leased, waiting, (user, uid, pid, comm)) in leased.chain(waiting) =>
            "at" => self.at,
            "row" => if leased.is_some() { "claim" } else { "waiting" },
            "id" => leased.map(|(claim, _)| claim.id.clone()),
            "gpu_index" => leased.and_then(|(_, gpu)| gpu.index),
            "gpu_uuid" => leased.map(|(_, gpu)| gpu.uuid.clone()),
            "in_use" => leased.and_then(|(_, gpu)| gpu.in_use),
            "since" => leased.map(|(claim, _)| claim.since),
            "until" => leased.and_then(|(claim, _)| claim.until),
            "place" => waiting.map(|(place, _)| place),
            "wanted" => waiting.map(|(_, waiter)| waiter.wanted),
            "waited_seconds" => waiting.map(|(_, waiter)| waiter.waited_seconds),
            "user" => user.clone(),
            "uid" => uid,
            "pid" => pid,
            "comm" => comm.clone(),
        )
    }
}
