//! `gua.live.v1`: the live state of a host, which agents of gua send to a board that announces it, beside the snapshot.
//!
//! A snapshot has no place for MIG instances, GPUs without a memory reading, claims or the reason for a missing value. This
//! form has. The agent decides whether a GPU is free, by the rule of `gua available` and with its claims; the board shows
//! that decision and makes none of its own. [`LiveReport::from_snapshot`] applies the same rule to hosts whose agent sends
//! snapshots only.

mod build;
mod from_snapshot;
mod quota;

use gua_model::pick::Obstacle;
use gua_model::{FaultKind, GpuUuid, Missing, Reading, State};
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::snapshot::{ErrorCode, ProcessType};

pub use build::{GpuClaim, GpuKeep, LiveInputs};
pub use quota::{LiveQuota, MAX_QUOTAS, QuotaTerm};

/// Response header with which a board announces the formats that it accepts in addition to the frozen contract.
pub const ACCEPTS_HEADER: &str = "gua-accepts";
/// Name of this format in [`ACCEPTS_HEADER`].
pub const FORMAT: &str = "gua.live.v1";
/// Value in [`ACCEPTS_HEADER`] with which a board requests that the agent replaces its token.
pub const NEW_TOKEN: &str = "gua.token.v1";

/// Value of `schemaVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LiveVersion {
    #[serde(rename = "gua.live.v1")]
    V1,
}

/// Live state of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LiveReport {
    pub schema_version: LiveVersion,
    pub observed_at: Timestamp,
    pub host: LiveHost,
    /// GPUs in the driver's order; MIG instances follow their parent.
    pub gpus: Vec<LiveGpu>,
    /// Number of requests that wait for a GPU of this host.
    pub waiting: u32,
    /// Use of the host's quotas, for the alerts of the board. Absent if there are none; older agents never send it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<LiveQuota>,
    /// Failed calls to the driver, or why no GPU could be read.
    pub problems: Vec<String>,
}

/// The sending host. A board trusts only the token for its identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LiveHost {
    pub hostname: String,
    pub agent_version: String,
    pub driver_version: Option<String>,
}

/// One GPU or MIG instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LiveGpu {
    #[schemars(with = "String")]
    pub uuid: GpuUuid,
    pub index: u32,
    pub name: Option<String>,
    /// The GPU that this one is an instance of, and its share of that GPU's compute slices.
    pub instance: Option<LiveInstance>,
    #[serde(with = "StateWord")]
    pub state: State,
    /// First reason why the GPU is not free; `None` if it is free.
    pub obstacle: Option<ObstacleWord>,
    pub util_percent: LiveValue<u8>,
    pub memory_used_bytes: LiveValue<u64>,
    pub memory_total_bytes: LiveValue<u64>,
    pub temperature_celsius: LiveValue<i32>,
    pub power_milliwatts: LiveValue<u64>,
    #[schemars(schema_with = "fault_names")]
    pub health: Vec<FaultKind>,
    pub claim: Option<GpuClaim>,
    /// Statements of people who hold the GPU that they still need it while it is idle (`gua keep`). Agents that do not know
    /// them send none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<GpuKeep>,
    pub processes: Vec<LiveProcess>,
}

/// Describes a list of faults.
fn fault_names(_: &mut SchemaGenerator) -> Schema {
    let names = FaultKind::ALL.map(FaultKind::as_str);
    json_schema!({ "type": "array", "items": { "type": "string", "enum": names } })
}

/// Live states of the hosts of a board, as its API returns them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LiveDocument {
    /// Revision to ask for later changes with.
    pub revision: u64,
    pub hosts: Vec<HostState>,
}

/// Live state of a host of a board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostState {
    pub id: String,
    pub display_name: String,
    /// Arrival time of the host's last report, by the board's clock.
    pub received_at: Timestamp,
    /// Whether the report is too old to be relied on.
    pub is_stale: bool,
    /// Why people must not use the host now.
    #[serde(default)]
    pub maintenance: Option<String>,
    #[serde(flatten)]
    pub report: LiveReport,
}

impl HostState {
    /// GPUs that count as capacity.
    pub fn gpus(&self) -> impl Iterator<Item = &LiveGpu> {
        self.report.gpus.iter().filter(|gpu| gpu.counts())
    }
}

impl LiveReport {
    /// Returns the report of a host whose driver could not be read.
    pub fn failed(
        hostname: &str,
        agent_version: &str,
        observed_at: Timestamp,
        problem: ErrorCode,
    ) -> Self {
        Self {
            schema_version: LiveVersion::V1,
            observed_at,
            host: LiveHost {
                hostname: hostname.to_owned(),
                agent_version: agent_version.to_owned(),
                driver_version: None,
            },
            gpus: Vec::new(),
            waiting: 0,
            quotas: Vec::new(),
            problems: vec![problem.as_str().to_owned()],
        }
    }

    /// Serializes the body of a push.
    pub fn body(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and lists are always JSON")
    }
}

impl LiveGpu {
    /// Whether the GPU can be taken now.
    pub fn is_free(&self) -> bool {
        self.obstacle.is_none()
    }

    /// Whether the GPU counts as capacity. A GPU that is divided into instances does not: its instances do.
    pub fn counts(&self) -> bool {
        self.obstacle != Some(ObstacleWord::Divided)
    }
}

/// Place of a MIG instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LiveInstance {
    #[schemars(with = "String")]
    pub parent: GpuUuid,
    /// Compute slices of the instance and of the whole GPU, where the driver reports them.
    pub slices: Option<u32>,
    pub slices_of: Option<u32>,
}

/// One process on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LiveProcess {
    pub pid: u32,
    /// Owner in the form that the setting `cloud.users` permits; `None` if unknown or omitted.
    pub owner: Option<String>,
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub kind: ProcessType,
    pub memory_bytes: LiveValue<u64>,
}

/// A value, or the reason why it is missing. In JSON it is the value itself or `{"missing": "denied"}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum LiveValue<T> {
    Known(T),
    Missing {
        #[serde(with = "MissingWord")]
        missing: Missing,
    },
}

impl<T> From<Reading<T>> for LiveValue<T> {
    fn from(reading: Reading<T>) -> Self {
        match reading {
            Ok(value) => LiveValue::Known(value),
            Err(missing) => LiveValue::Missing { missing },
        }
    }
}

impl<T> From<LiveValue<T>> for Reading<T> {
    fn from(value: LiveValue<T>) -> Self {
        match value {
            LiveValue::Known(value) => Ok(value),
            LiveValue::Missing { missing } => Err(missing),
        }
    }
}

/// Why a GPU is not free, without the numbers behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObstacleWord {
    /// Its MIG instances are counted in its place.
    Divided,
    /// It could not be observed.
    Unobserved,
    /// A process holds it.
    Held,
    /// It is busy without a process that counts.
    Busy,
    /// Too much of its memory is used.
    MemoryUsed,
    /// It has a fault.
    Unhealthy,
    /// It was in use a moment ago.
    UsedRecently,
    /// It has a claim.
    Claimed,
    /// It is kept for a waiting request.
    Awaited,
}

impl From<Obstacle> for ObstacleWord {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Divided => ObstacleWord::Divided,
            Obstacle::Unseen(_) => ObstacleWord::Unobserved,
            Obstacle::Held => ObstacleWord::Held,
            // A report has no criteria about models, so `OtherModel` does not occur.
            Obstacle::Busy(_) | Obstacle::UtilTooHigh(_) | Obstacle::OtherModel => {
                ObstacleWord::Busy
            }
            // A report has no criteria about memory, so `TooSmall` does not occur.
            Obstacle::MemoryUsed { .. } | Obstacle::TooLittleFree(_) | Obstacle::TooSmall(_) => {
                ObstacleWord::MemoryUsed
            }
            Obstacle::Unhealthy(_) => ObstacleWord::Unhealthy,
            Obstacle::UsedAt(_) => ObstacleWord::UsedRecently,
            Obstacle::Claimed => ObstacleWord::Claimed,
            Obstacle::Awaited => ObstacleWord::Awaited,
        }
    }
}

/// Serialized form of [`State`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "State", rename_all = "kebab-case")]
enum StateWord {
    Active,
    Stalled,
    Ghost,
    IdleHeld,
    OrphanHeld,
    HeldUnknown,
    TrulyIdle,
    Unobserved,
}

/// Serialized form of [`Missing`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Missing", rename_all = "lowercase")]
enum MissingWord {
    Unsupported,
    Denied,
    Gone,
    Failed,
}

#[cfg(test)]
mod tests;
