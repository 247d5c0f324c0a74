//! Rules of the snapshot and the live report that their types do not express.

use std::collections::HashSet;

use gua_model::GpuUuid;
use gua_model::claim::MAX_REASON_LENGTH;
use gua_wire::LiveReport;
use gua_wire::enroll::{MAX_HOSTNAME_LENGTH, MAX_VERSION_LENGTH};
use gua_wire::live::MAX_QUOTAS;
use gua_wire::snapshot::{CollectionStatus, Snapshot, SnapshotGpu};
use jiff::Timestamp;

use crate::error::Problem;

/// Maximum number of GPUs and MIG instances of a host.
const MAX_GPUS: usize = 1024;
/// Maximum number of processes on one GPU.
const MAX_PROCESSES: usize = 10_000;
/// Maximum number of people who keep one GPU.
const MAX_KEEPS: usize = 1000;
/// Maximum number of error codes or problems.
const MAX_ERRORS: usize = 1000;
/// Maximum length of a name or message, in characters.
const MAX_TEXT_LENGTH: usize = 1024;

/// Checks a snapshot and returns the time of its observation.
pub(super) fn check_snapshot(snapshot: &Snapshot) -> Result<Timestamp, Problem> {
    let observed_at = snapshot.observed_at.parse::<Timestamp>();
    let observed_at =
        observed_at.map_err(|_| invalid("observedAt is not a time with a UTC offset"))?;
    let is_ok = snapshot.collection_status == CollectionStatus::Ok;
    require(
        is_ok == snapshot.errors.is_empty(),
        "errors must be empty if and only if collectionStatus is ok",
    )?;
    let host = &snapshot.host;
    check_host(
        &host.hostname,
        &host.agent_version,
        Some(&host.driver_version),
    )?;
    check_counts(snapshot.gpus.len(), "errors", &snapshot.errors)?;
    let mut uuids = HashSet::new();
    for gpu in &snapshot.gpus {
        check_gpu(gpu)?;
        require(uuids.insert(&gpu.uuid), "two GPUs have the same uuid")?;
    }
    Ok(observed_at)
}

/// Checks a live report.
pub(super) fn check_live(report: &LiveReport) -> Result<(), Problem> {
    let host = &report.host;
    check_host(
        &host.hostname,
        &host.agent_version,
        host.driver_version.as_deref(),
    )?;
    check_counts(report.gpus.len(), "problems", &report.problems)?;
    let quotas = &report.quotas;
    require(quotas.len() <= MAX_QUOTAS, "the host has too many quotas")?;
    for quota in quotas {
        check_text("who", quota.name(), MAX_TEXT_LENGTH)?;
    }
    let mut uuids = HashSet::new();
    for gpu in &report.gpus {
        require(uuids.insert(&gpu.uuid), "two GPUs have the same uuid")?;
        check_text("name", gpu.name.as_deref(), MAX_TEXT_LENGTH)?;
        let owner = gpu.claim.as_ref().and_then(|claim| claim.owner.as_deref());
        check_text("owner", owner, MAX_TEXT_LENGTH)?;
        require(gpu.keeps.len() <= MAX_KEEPS, "a GPU has too many keeps")?;
        for keep in &gpu.keeps {
            check_text("owner", keep.owner.as_deref(), MAX_TEXT_LENGTH)?;
            check_text("why", keep.why.as_deref(), MAX_REASON_LENGTH)?;
        }
        let processes = &gpu.processes;
        require(
            processes.len() <= MAX_PROCESSES,
            "a GPU has too many processes",
        )?;
        for process in processes {
            check_text("owner", process.owner.as_deref(), MAX_TEXT_LENGTH)?;
            check_text("name", process.name.as_deref(), MAX_TEXT_LENGTH)?;
        }
    }
    Ok(())
}

fn check_host(hostname: &str, agent: &str, driver: Option<&str>) -> Result<(), Problem> {
    check_text("hostname", Some(hostname), MAX_HOSTNAME_LENGTH)?;
    check_text("agentVersion", Some(agent), MAX_VERSION_LENGTH)?;
    check_text("driverVersion", driver, MAX_VERSION_LENGTH)
}

/// Checks the number of GPUs, and the errors in a field.
fn check_counts(gpus: usize, field: &str, errors: &[String]) -> Result<(), Problem> {
    require(gpus <= MAX_GPUS, "the host has too many GPUs")?;
    require(errors.len() <= MAX_ERRORS, "the host has too many errors")?;
    let mut texts = errors.iter().map(|text| Some(text.as_str()));
    texts.try_for_each(|text| check_text(field, text, MAX_TEXT_LENGTH))
}

fn check_gpu(gpu: &SnapshotGpu) -> Result<(), Problem> {
    require(
        gpu.uuid.parse::<GpuUuid>().is_ok(),
        "uuid is not printable ASCII",
    )?;
    check_text("name", Some(&gpu.name), MAX_TEXT_LENGTH)?;
    require(
        gpu.memory_total_mb > 0,
        "memoryTotalMb must be greater than zero",
    )?;
    require(
        gpu.memory_used_mb <= gpu.memory_total_mb,
        "memoryUsedMb is greater than memoryTotalMb",
    )?;
    require(gpu.util_pct <= 100, "utilPct is greater than 100")?;
    require(
        gpu.processes.len() <= MAX_PROCESSES,
        "a GPU has too many processes",
    )?;
    for process in &gpu.processes {
        require(process.pid > 0, "pid must be greater than zero")?;
        check_text("linuxUser", Some(&process.linux_user), MAX_TEXT_LENGTH)?;
        check_text("name", Some(&process.name), MAX_TEXT_LENGTH)?;
    }
    Ok(())
}

pub(super) fn check_text(field: &str, text: Option<&str>, longest: usize) -> Result<(), Problem> {
    match text {
        Some(text) if text.chars().count() > longest => Err(invalid(&format!(
            "{field} is longer than {longest} characters"
        ))),
        _ => Ok(()),
    }
}

fn require(holds: bool, message: &str) -> Result<(), Problem> {
    match holds {
        true => Ok(()),
        false => Err(invalid(message)),
    }
}

pub(super) fn invalid(message: &str) -> Problem {
    Problem::Invalid(message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"schemaVersion":"availability.snapshot.v1","collectionStatus":"ok","observedAt":"2026-01-02T03:04:05+00:00",
        "host":{"hostname":"h","agentVersion":"1","driverVersion":"2"},"errors":[],"gpus":[{"index":0,"uuid":"GPU-a","name":"A",
        "memoryTotalMb":10,"utilPct":5,"memoryUsedMb":10,"temperatureC":null,"powerW":null,
        "processes":[{"pid":1,"linuxUser":"a","name":"b","memoryUsedMb":null}]}]}"#;

    #[test]
    fn a_snapshot_must_keep_the_rules_of_the_contract() {
        let check = |old: &str, new: &str, expected: Option<&str>| {
            let text = GOOD.replace(old, new);
            assert!(text != GOOD || old == new, "{old}");
            let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
            let result = check_snapshot(&snapshot).map_err(|problem| problem.to_string());
            assert_eq!(result.err().as_deref(), expected, "{new}");
        };
        check("", "", None);
        check("+00:00", "+09:00", None);
        check(
            "+00:00",
            "",
            Some("observedAt is not a time with a UTC offset"),
        );
        check(
            r#""errors":[]"#,
            r#""errors":["x"]"#,
            Some("errors must be empty if and only if collectionStatus is ok"),
        );
        check(
            r#""ok""#,
            r#""partial""#,
            Some("errors must be empty if and only if collectionStatus is ok"),
        );
        check(
            r#""memoryTotalMb":10"#,
            r#""memoryTotalMb":0"#,
            Some("memoryTotalMb must be greater than zero"),
        );
        check(
            r#""memoryTotalMb":10"#,
            r#""memoryTotalMb":9"#,
            Some("memoryUsedMb is greater than memoryTotalMb"),
        );
        check(
            r#""utilPct":5"#,
            r#""utilPct":101"#,
            Some("utilPct is greater than 100"),
        );
        check(
            r#""pid":1"#,
            r#""pid":0"#,
            Some("pid must be greater than zero"),
        );
        check("GPU-a", "GPU a", Some("uuid is not printable ASCII"));
        let long = "x".repeat(256);
        check(
            r#""hostname":"h""#,
            &format!(r#""hostname":"{long}""#),
            Some("hostname is longer than 255 characters"),
        );
    }
}
