//! Conclusions from the checks: whether collecting can work on this host, what to do first, and which commands to run
//! next.

use crate::host::disk::Entry;

use gua_model::text::sanitize;
use schemars::JsonSchema;
use serde::Serialize;

use super::check::{Check, Status, count};
use super::checks_driver::gpu_count;
use super::facts::{Choice, Facts};

/// Whether gua can collect on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Host,
    Unsupported,
}

/// Summary of the checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Plan {
    pub mode: Mode,
    pub reasons: Vec<String>,
    /// Advice that must be followed before anything can be collected.
    pub blockers: Vec<String>,
    /// All other advice.
    pub warnings: Vec<String>,
    /// The same advice by severity: the blockers, and the advice for every other error.
    #[serde(skip)]
    pub fixes: Vec<String>,
    /// The remaining advice.
    #[serde(skip)]
    pub notes: Vec<String>,
    #[serde(skip)]
    pub commands: Commands,
}

/// Checks whose advice comes first, the most serious one first: without a driver nothing else matters.
const MOST_SERIOUS: &str = "os nvml driver_match nvidia_devices nvidia_smi unreadable_gpus utilisation memory_errors xid_errors \
    processes_visible default_db config disk_space";

/// Suggested next commands; all are `None` if nothing can be collected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Commands {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// Derives the plan from the checks.
pub fn plan(facts: &Facts, checks: &[Check]) -> Plan {
    let mut ordered: Vec<&Check> = checks.iter().collect();
    ordered.sort_by_key(|check| {
        let place = MOST_SERIOUS.split(' ').position(|id| id == check.id);
        place.unwrap_or(usize::MAX)
    });
    let blockers = actions(&ordered, &[], |_, is_blocker| is_blocker);
    let fixes = actions(&ordered, &[], |status, is_blocker| {
        status == Status::Error || is_blocker
    });
    let (mode, reasons, commands) = if blockers.is_empty() {
        (Mode::Host, vec![ready(facts)], commands(facts))
    } else {
        let blocking = checks.iter().filter(|check| check.finding.is_blocking());
        let reasons = blocking.map(|check| format!("{}: {}", check.name, check.finding.summary));
        (Mode::Unsupported, reasons.collect(), Commands::default())
    };
    Plan {
        mode,
        reasons,
        warnings: actions(&ordered, &blockers, |_, _| true),
        notes: actions(&ordered, &fixes, |_, _| true),
        blockers,
        fixes,
        commands,
    }
}

/// Returns the selected advice without duplicates, and without any in `known`.
fn actions(
    checks: &[&Check],
    known: &[String],
    is_wanted: impl Fn(Status, bool) -> bool,
) -> Vec<String> {
    let mut actions: Vec<String> = Vec::new();
    for finding in checks.iter().map(|check| &check.finding) {
        for advice in &finding.advice {
            let is_new = !known.contains(&advice.action) && !actions.contains(&advice.action);
            if is_new && is_wanted(finding.status, advice.is_blocker) {
                actions.push(advice.action.clone());
            }
        }
    }
    actions
}

/// Reports whether a strict caller accepts the result: collecting works, and no check failed.
pub fn is_sound(plan: &Plan, checks: &[Check]) -> bool {
    let has_failed = |check: &Check| check.finding.status == Status::Error;
    plan.mode == Mode::Host && !checks.iter().any(has_failed)
}

fn ready(facts: &Facts) -> String {
    let sample = facts.driver.as_ref().ok();
    let gpus = count(sample.map_or(0, gpu_count), "GPU", "GPUs");
    let driver = sample.and_then(|sample| sample.driver.version.as_ref().ok());
    let driver = driver
        .map(|version| format!(" (driver {})", sanitize(version)))
        .unwrap_or_default();
    format!(
        "This {} host has {gpus} that NVML can read{driver}.",
        facts.kernel.system
    )
}

fn commands(facts: &Facts) -> Commands {
    let db = match facts.known.choice {
        Choice::Default => String::new(),
        Choice::Custom => format!(" --db {}", quoted(&facts.known.db.to_string_lossy())),
    };
    let spot = facts.spot.as_ref();
    let exists = spot.is_some_and(|spot| spot.entry != Entry::Absent);
    let is_refused = exists && facts.known.choice == Choice::Custom;
    Commands {
        collect: (!is_refused).then(|| format!("gua daemon{db} --interval 30s")),
        report: Some(format!("gua report{db} --since 1h")),
    }
}

/// Quotes a path for a shell. A path with a NUL byte cannot exist.
fn quoted(path: &str) -> String {
    shlex::try_quote(path).map_or_else(|_| path.to_owned(), std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests;
