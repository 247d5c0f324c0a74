//! What the findings come to: whether collecting can work here, what to do first, and the commands to go on with.

use std::collections::BTreeMap;

use gua_probe::host::disk::Entry;

use super::check::{Advice, Check, Status, count, harmless};
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
    pub fn word(self) -> &'static str {
        match self {
            Mode::Host => "host",
            Mode::Unsupported => "unsupported",
        }
    }
}

/// The findings in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub mode: Mode,
    pub reasons: Vec<String>,
    pub blockers: Vec<String>,
    pub warnings: Vec<String>,
    pub commands: Commands,
}

/// What to type next; both are `None` where nothing can be collected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    pub collect: Option<String>,
    pub report: Option<String>,
}

impl Commands {
    /// By the keys of the JSON.
    #[must_use]
    pub fn by_key(&self) -> BTreeMap<&'static str, &str> {
        [("collect", &self.collect), ("report", &self.report)]
            .into_iter()
            .filter_map(|(key, command)| Some((key, command.as_deref()?)))
            .collect()
    }
}

/// Draws the findings together.
#[must_use]
pub fn plan(facts: &Facts, checks: &[Check]) -> Plan {
    let mut blockers = Vec::new();
    let mut warnings = Vec::new();
    for advice in checks.iter().flat_map(|check| &check.advice) {
        let (list, sentence) = match advice {
            Advice::Fix(sentence) => (&mut blockers, sentence),
            Advice::Note(sentence) => (&mut warnings, sentence),
        };
        if !list.contains(sentence) {
            list.push(sentence.clone());
        }
    }
    let mode = if blockers.is_empty() {
        Mode::Host
    } else {
        Mode::Unsupported
    };
    let reasons = match mode {
        Mode::Host => vec![ready(facts)],
        Mode::Unsupported => checks
            .iter()
            .filter(|check| {
                check
                    .advice
                    .iter()
                    .any(|advice| matches!(advice, Advice::Fix(_)))
            })
            .map(|check| format!("{}: {}", check.kind.name, check.summary))
            .collect(),
    };
    let commands = match mode {
        Mode::Host => commands(&facts.history),
        Mode::Unsupported => Commands::default(),
    };
    Plan {
        mode,
        reasons,
        blockers,
        warnings,
        commands,
    }
}

/// Whether a strict caller is content: collecting works, and no check failed.
#[must_use]
pub fn is_sound(plan: &Plan, checks: &[Check]) -> bool {
    plan.mode == Mode::Host && checks.iter().all(|check| check.status != Status::Error)
}

fn ready(facts: &Facts) -> String {
    let sample = facts.driver.as_ref().ok();
    let cards = count(sample.map_or(0, cards), "GPU", "GPUs");
    let driver = sample.and_then(|sample| sample.driver.version.as_ref().ok());
    let driver = driver
        .map(|version| format!(" (driver {})", harmless(version)))
        .unwrap_or_default();
    format!(
        "This {} host has {cards} that NVML can read{driver}.",
        facts.kernel.system
    )
}

fn commands(history: &History) -> Commands {
    let db = match history.choice {
        Choice::Default => String::new(),
        Choice::Custom => format!(" --db {}", quoted(&history.path.to_string_lossy())),
    };
    let exists = history
        .spot
        .as_ref()
        .is_some_and(|spot| spot.entry != Entry::Absent);
    let is_refused = exists && history.choice == Choice::Custom;
    Commands {
        collect: (!is_refused).then(|| format!("gua daemon{db} --interval 30s")),
        report: Some(format!("gua report{db} --since 1h")),
    }
}

/// As a shell needs it. A path with a zero byte cannot exist.
fn quoted(path: &str) -> String {
    shlex::try_quote(path).map_or_else(|_| path.to_owned(), std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests;
