//! `availability.snapshot.v1`: the state of a host at one time, in the two forms that boards accept. An agent
//! serializes these types and a board parses them. A board rejects unknown fields, so none may be added.

pub mod build;

use gua_model::usage_state::UsageState;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use build::{
    About, BuildError, Built, LeftOut, Observed, Unrepresentable, UsageStates, usage_states,
};

/// Release whose form a board accepts. Both forms have the same `schemaVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Releases 1.1 to 1.3: only compute processes with known memory, without their type; no `usageState`.
    V1_1,
    /// Releases 1.4 to 1.8: graphics processes too, each with its type; memory may be null; `usageState`.
    V1_4,
}

/// Value of `schemaVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchemaVersion {
    #[serde(rename = "availability.snapshot.v1")]
    V1,
}

/// Completeness of the readings of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CollectionStatus {
    Ok,
    Partial,
    Error,
}

gua_model::words! {
    /// Stable codes in `errors`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ErrorCode {
        /// A process list of at least one GPU could not be read.
        ProcessListUnavailable = "process_list_unavailable",
        /// The driver could not be initialized.
        NvmlInitFailed = "nvml_init_failed",
        /// A GPU of the host is missing from the snapshot, because a reading that the form requires is missing.
        /// gpu-usage-audit has no such code: there, such a GPU made the whole tick fail.
        GpuReadingUnavailable = "gpu_reading_unavailable",
    }
}

/// State of a host at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshot {
    pub schema_version: SchemaVersion,
    pub collection_status: CollectionStatus,
    /// Time with its UTC offset, as formatted by [`stamp`].
    pub observed_at: String,
    pub host: Host,
    pub gpus: Vec<SnapshotGpu>,
    /// Empty if and only if the status is `ok`.
    pub errors: Vec<String>,
}

/// The sending host. A board trusts only the token for its identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Host {
    pub hostname: String,
    pub agent_version: String,
    pub driver_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SnapshotGpu {
    pub index: u32,
    pub uuid: String,
    pub name: String,
    pub memory_total_mb: u64,
    pub util_pct: u8,
    /// At most the total memory.
    pub memory_used_mb: u64,
    pub temperature_c: Option<u32>,
    pub power_w: Option<u64>,
    pub processes: Vec<SnapshotProcess>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_state: Option<UsageState>,
}

/// One process on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SnapshotProcess {
    pub pid: u32,
    pub linux_user: String,
    pub name: String,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ProcessType>,
    pub memory_used_mb: Option<u64>,
}

/// Type of a process on its GPU. A process in both of the driver's lists counts as compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProcessType {
    Compute,
    Graphics,
}

impl Snapshot {
    /// Creates a snapshot that reports a failure: no GPUs, and the reason.
    pub fn error_heartbeat(about: About<'_>, at: Timestamp, why: ErrorCode) -> Self {
        Self {
            schema_version: SchemaVersion::V1,
            collection_status: CollectionStatus::Error,
            observed_at: stamp(at),
            host: about.host(None),
            gpus: Vec::new(),
            errors: vec![why.as_str().to_owned()],
        }
    }

    /// Serializes the request body.
    pub fn body(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and lists are always JSON")
    }
}

/// Formats a time like gpu-usage-audit: UTC as `+00:00`, six digits of the second, or none if they are zero.
pub fn stamp(at: Timestamp) -> String {
    let utc = at.to_zoned(TimeZone::UTC);
    let whole = utc.strftime("%Y-%m-%dT%H:%M:%S");
    match utc.subsec_nanosecond() / 1000 {
        0 => format!("{whole}+00:00"),
        micros => format!("{whole}.{micros:06}+00:00"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_six_digits_of_a_second_or_none() {
        let check = |text: &str, expected| assert_eq!(stamp(text.parse().unwrap()), expected);
        check(
            "2026-11-16T02:44:34.554909Z",
            "2026-11-16T02:44:34.554909+00:00",
        );
        check(
            "2026-11-16T02:44:34.000009999Z",
            "2026-11-16T02:44:34.000009+00:00",
        );
        check("2026-11-16T02:44:34Z", "2026-11-16T02:44:34+00:00");
        check("2026-11-16T02:44:34.0000009Z", "2026-11-16T02:44:34+00:00");
    }

    #[test]
    fn a_board_refuses_fields_that_the_contract_does_not_have() {
        let host = r#"{"hostname":"h","agentVersion":"1","driverVersion":"2"}"#;
        let good = format!(
            r#"{{"schemaVersion":"availability.snapshot.v1","collectionStatus":"error","observedAt":"x","host":{host},"gpus":[],"errors":["nvml_init_failed"]}}"#
        );
        assert!(serde_json::from_str::<Snapshot>(&good).is_ok());
        for (old, new) in [
            ("[]", "[],\"more\":1"),
            (".v1", ".v2"),
            ("\"error\"", "\"bad\""),
        ] {
            let bad = good.replace(old, new);
            assert!(serde_json::from_str::<Snapshot>(&bad).is_err(), "{bad}");
        }
    }
}
