//! `availability.snapshot.v1`: the state of a host at one moment, in the two forms that boards have been taught. The types
//! are both what an agent sends and what a board reads; a board refuses fields that it does not know, so there are no others.

pub mod build;

use gua_model::usage_state::UsageState;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

pub use build::{About, BuildError, Built, LeftOut, Observed, Untold, UsageStates, usage_states};

/// Which release's form a board has been taught. Both carry the same `schemaVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Releases 1.1 to 1.3: compute processes of known memory alone, without their type; no `usageState`.
    V1_1,
    /// Releases 1.4 to 1.8: graphics processes too, each with its type, memory that may be null, `usageState`.
    V1_4,
}

/// The fixed word in `schemaVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchemaVersion {
    #[serde(rename = "availability.snapshot.v1")]
    V1,
}

/// How much of the host could be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CollectionStatus {
    Ok,
    Partial,
    Error,
}

/// The stable words in `errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// A list of processes of at least one card could not be read.
    ProcessListUnavailable,
    /// The driver could not be reached at all.
    NvmlInitFailed,
    /// A card is on the host and not in the snapshot, because a reading that the form demands is missing. gpu-usage-audit
    /// has no such word: there, such a card made the whole tick fail.
    GpuReadingUnavailable,
}

impl ErrorCode {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::ProcessListUnavailable => "process_list_unavailable",
            ErrorCode::NvmlInitFailed => "nvml_init_failed",
            ErrorCode::GpuReadingUnavailable => "gpu_reading_unavailable",
        }
    }
}

/// The state of a host at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshot {
    pub schema_version: SchemaVersion,
    pub collection_status: CollectionStatus,
    /// With its offset, as [`stamp`] writes it.
    pub observed_at: String,
    pub host: Host,
    pub gpus: Vec<Card>,
    /// Empty if, and only if, the status is `ok`.
    pub errors: Vec<String>,
}

/// Who is speaking. A board trusts the token alone for this.
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

/// One card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Card {
    pub index: u32,
    pub uuid: String,
    pub name: String,
    pub memory_total_mb: u64,
    pub util_pct: u8,
    /// At most the total.
    pub memory_used_mb: u64,
    pub temperature_c: Option<u32>,
    pub power_w: Option<u64>,
    pub processes: Vec<CardProcess>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_state: Option<UsageWord>,
}

/// One process on a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CardProcess {
    pub pid: u32,
    pub linux_user: String,
    pub name: String,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ProcessType>,
    pub memory_used_mb: Option<u64>,
}

/// What a process does on its card. One that stands in both of the driver's lists computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessType {
    Compute,
    Graphics,
}

/// [`UsageState`], as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageWord {
    Active,
    IdleHeld,
    Idle,
}

impl From<UsageState> for UsageWord {
    fn from(state: UsageState) -> Self {
        match state {
            UsageState::Active => UsageWord::Active,
            UsageState::IdleHeld => UsageWord::IdleHeld,
            UsageState::Idle => UsageWord::Idle,
        }
    }
}

impl Snapshot {
    /// Says that nothing could be seen: no cards, and the reason.
    #[must_use]
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

    /// The request's body.
    #[must_use]
    pub fn body(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and lists are always JSON")
    }
}

/// A moment as gpu-usage-audit writes it: UTC as `+00:00`, six digits of a second, or none where they would be zeros.
#[must_use]
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
