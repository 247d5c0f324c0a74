//! The JSON of nvgpu's agent (`/gpu_status`) and master (`/cluster_status`).
//!
//! nvgpu 0.10.0 cannot serialize its own `memory`, and 0.9.0 has none. Here it is an object with bytes, and agents with or
//! without it are accepted. Fields that are not known are ignored.

use serde::{Deserialize, Serialize};

/// Path of an agent's report.
pub const GPU_STATUS: &str = "/gpu_status";

/// Report of an agent about its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReport {
    pub hostname: String,
    pub gpus: Vec<AgentGpu>,
}

/// One GPU of an agent. `null` is a value that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentGpu {
    /// Name of the model.
    #[serde(rename = "type")]
    pub model: Option<String>,
    /// Whether no compute process is on the GPU.
    pub is_available: bool,
    /// PIDs, separated by commas.
    pub pids: String,
    /// Users of these processes, `?` for one that is not visible.
    pub users: String,
    /// Age of the oldest process in words, such as `2 hours ago`.
    pub running_since: Option<String>,
    pub utilization: Option<u8>,
    pub clock_mhz: Option<u32>,
    pub temperature: Option<i32>,
    /// Name of the first visible process.
    pub cmd: Option<String>,
    #[serde(default, deserialize_with = "memory")]
    pub memory: Option<AgentMemory>,
}

/// Memory of a GPU in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentMemory {
    pub total: Option<u64>,
    pub free: Option<u64>,
    pub used: u64,
}

/// One agent's part of `/cluster_status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ClusterEntry {
    Report(AgentReport),
    Failed { error: String },
}

/// Accepts memory in any other form as missing.
fn memory<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<AgentMemory>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Any {
        Known(AgentMemory),
        Other(serde::de::IgnoredAny),
    }
    Ok(match Any::deserialize(from)? {
        Any::Known(memory) => Some(memory),
        Any::Other(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: &str = r#""type": "RTX", "is_available": true, "pids": "", "users": "", "running_since": null,
        "utilization": null, "clock_mhz": 300, "temperature": 41, "cmd": null"#;

    #[test]
    fn agents_with_and_without_memory_are_accepted() {
        let check = |memory: &str, expected: Option<u64>| {
            let text = format!(r#"{{"hostname": "a", "gpus": [{{{GPU}{memory}}}], "more": 1}}"#);
            let report: AgentReport = serde_json::from_str(&text).unwrap();
            let used = report.gpus[0].memory.map(|memory| memory.used);
            assert_eq!(used, expected, "{memory}");
        };
        check("", None);
        check(r#", "memory": null"#, None);
        check(r#", "memory": "12 GB""#, None);
        check(r#", "memory": {"total": 9, "free": 7, "used": 2}"#, Some(2));
    }

    #[test]
    fn a_cluster_has_reports_and_errors() {
        let text = r#"[{"hostname": "a", "gpus": []}, {"error": "Connection timeout"}]"#;
        let entries: Vec<ClusterEntry> = serde_json::from_str(text).unwrap();
        assert!(matches!(
            &entries[..],
            [ClusterEntry::Report(_), ClusterEntry::Failed { .. }]
        ));
        let again = serde_json::to_value(&entries).unwrap();
        assert_eq!(
            again,
            serde_json::from_str::<serde_json::Value>(text).unwrap()
        );
    }
}
