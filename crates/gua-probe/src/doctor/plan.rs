//! Conclusions from the checks: whether collecting can work on this host, what to do first, and which commands to run
//! next.

use crate::host::disk::Entry;

use gua_model::text::sanitize;
use serde::Serialize;

use super::check::{Advice, Check, Status, Weight, count};
use super::checks_driver::cards;
use super::facts::{Choice, Facts, History};

/// Whether gua can collect on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Host,
    Unsupported,
}

impl Mode {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Host => "host",
            Mode::Unsupported => "unsupported",
        }
    }
}

/// Summary of the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub mode: Mode,
    pub reasons: Vec<String>,
    /// Advice that must be followed before anything can be collected.
    pub blockers: Vec<String>,
    /// All other advice.
    pub warnings: Vec<String>,
    /// The same advice by severity: the blockers, and the advice for every other error.
    pub fixes: Vec<String>,
    /// The remaining advice.
    pub notes: Vec<String>,
    pub commands: Commands,
}

/// Checks whose advice comes first, the most serious one first: without a driver nothing else matters.
const MOST_SERIOUS: [&str; 12] = [
    "os",
    "nvml",
    "driver_match",
    "nvidia_devices",
    "nvidia_smi",
    "unreadable_cards",
    "utilisation",
    "memory_errors",
    "processes_visible",
    "default_db",
    "config",
    "disk_space",
];

/// Suggested next commands; all are `None` if nothing can be collected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Commands {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// Suggested as long as neither of the others exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub look: Option<String>,
}

/// Derives the plan from the checks.
#[must_use]
pub fn plan(facts: &Facts, checks: &[Check]) -> Plan {
    let mut ordered: Vec<&Check> = checks.iter().collect();
    ordered.sort_by_key(|check| {
        MOST_SERIOUS
            .iter()
            .position(|id| *id == check.kind.id)
            .unwrap_or(MOST_SERIOUS.len())
    });
    let blockers = deeds(&ordered, &[], |_, weight| weight == Weight::Blocker);
    let warnings = deeds(&ordered, &blockers, |_, _| true);
    let fixes = deeds(&ordered, &[], |status, weight| {
        status == Status::Error || weight == Weight::Blocker
    });
    let notes = deeds(&ordered, &fixes, |_, _| true);
    let mode = if blockers.is_empty() {
        Mode::Host
    } else {
        Mode::Unsupported
    };
    let reasons = match mode {
        Mode::Host => vec![ready(facts)],
        Mode::Unsupported => checks
            .iter()
            .filter(|check| check.is_blocking())
            .map(|check| format!("{}: {}", check.kind.name, check.summary))
            .collect(),
    };
    let commands = match mode {
        Mode::Host => commands(&facts.history, &facts.commands),
        Mode::Unsupported => Commands::default(),
    };
    Plan {
        mode,
        reasons,
        blockers,
        warnings,
        fixes,
        notes,
        commands,
    }
}

/// Returns the selected advice without duplicates, and without any in `said`.
fn deeds(
    checks: &[&Check],
    said: &[String],
    is_wanted: impl Fn(Status, Weight) -> bool,
) -> Vec<String> {
    let mut deeds: Vec<String> = Vec::new();
    for check in checks {
        for Advice { deed, weight } in &check.advice {
            let is_new = !said.contains(deed) && !deeds.contains(deed);
            if is_new && is_wanted(check.status, *weight) {
                deeds.push(deed.clone());
            }
        }
    }
    deeds
}

/// Reports whether a strict caller accepts the result: collecting works, and no check failed.
#[must_use]
pub fn is_sound(plan: &Plan, checks: &[Check]) -> bool {
    plan.mode == Mode::Host && checks.iter().all(|check| check.status != Status::Error)
}

fn ready(facts: &Facts) -> String {
    let sample = facts.driver.as_ref().ok();
    let cards = count(sample.map_or(0, cards), "GPU", "GPUs");
    let driver = sample.and_then(|sample| sample.driver.version.as_ref().ok());
    let driver = driver
        .map(|version| format!(" (driver {})", sanitize(version)))
        .unwrap_or_default();
    format!(
        "This {} host has {cards} that NVML can read{driver}.",
        facts.kernel.system
    )
}

/// Suggests only commands that this version has.
fn commands(history: &History, known: &[String]) -> Commands {
    let knows = |name: &str| known.iter().any(|command| command == name);
    let db = match history.choice {
        Choice::Default => String::new(),
        Choice::Custom => format!(" --db {}", quoted(&history.path.to_string_lossy())),
    };
    let exists = history
        .spot
        .as_ref()
        .is_some_and(|spot| spot.entry != Entry::Absent);
    let is_refused = exists && history.choice == Choice::Custom;
    let collect =
        (!is_refused && knows("daemon")).then(|| format!("gua daemon{db} --interval 30s"));
    let report = knows("report").then(|| format!("gua report{db} --since 1h"));
    let look = (collect.is_none() && report.is_none()).then(|| "gua doctor --sample".to_owned());
    Commands {
        collect,
        report,
        look,
    }
}

/// Quotes a path for a shell. A path with a NUL byte cannot exist.
fn quoted(path: &str) -> String {
    shlex::try_quote(path).map_or_else(|_| path.to_owned(), std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests;
