//! The checks, and how they are run. They depend on [`Facts`] alone; nothing here inspects the host.

use gua_model::Sample;

use super::check::{Check, Finding, Status};
use super::checks_claims::claims;
use super::checks_driver::{driver_match, gpu_count, nvidia_devices, nvidia_smi, nvml};
use super::checks_gpu::{
    memory_errors, mig, persistence, process_owners, unified_memory, unreadable_gpus, utilisation,
    xid_errors,
};
use super::checks_host::{alerts, clock, collectors, config, container, hidepid, os};
use super::checks_link::board_link;
use super::checks_store::{default_db, disk_space};
use super::details::Details;
use super::facts::Facts;

pub(super) const GPU: &str = "Host GPU";
pub(super) const DATABASE: &str = "Database";

/// ID of the check whose result is shown with the path of the history.
pub(super) const DEFAULT_DB: &str = "default_db";

enum Judge {
    Host(fn(&Facts) -> Finding),
    /// Skipped without a sample, and on a host without GPUs.
    Gpus(fn(&Sample) -> Finding),
}

use Judge::{Gpus, Host};

/// ID, name and rule of a check.
type Declared = (&'static str, &'static str, Judge);

/// The checks by section of the page, in display order.
const CHECKS: [(&str, &[Declared]); 4] = [
    (
        "Host",
        &[
            ("os", "OS/kernel", Host(os)),
            ("clock", "clock", Host(clock)),
            ("container", "container", Host(container)),
            ("hidepid", "/proc hidepid", Host(hidepid)),
        ],
    ),
    (
        GPU,
        &[
            ("nvidia_devices", "/dev/nvidia*", Host(nvidia_devices)),
            ("nvidia_smi", "nvidia-smi", Host(nvidia_smi)),
            ("nvml", "NVML", Host(nvml)),
            ("driver_match", "driver versions", Host(driver_match)),
            ("unreadable_gpus", "GPU readings", Gpus(unreadable_gpus)),
            ("utilisation", "utilisation", Gpus(utilisation)),
            ("memory_errors", "memory errors", Gpus(memory_errors)),
            ("xid_errors", "Xid errors", Gpus(xid_errors)),
            ("persistence", "persistence mode", Gpus(persistence)),
            ("mig", "MIG", Gpus(mig)),
            ("unified_memory", "GPU memory", Gpus(unified_memory)),
            ("processes_visible", "process owners", Gpus(process_owners)),
        ],
    ),
    (
        "Setup",
        &[
            ("collectors", "other collectors", Host(collectors)),
            ("config", "configuration", Host(config)),
            ("alerts", "alerts", Host(alerts)),
            ("claims", "claims directory", Host(claims)),
            ("board_link", "board", Host(board_link)),
        ],
    ),
    (
        DATABASE,
        &[
            (DEFAULT_DB, "default DB path", Host(default_db)),
            ("disk_space", "disk space", Host(disk_space)),
        ],
    ),
];

/// Sections of the page, in display order.
pub(super) fn sections() -> [&'static str; 4] {
    CHECKS.map(|(section, _)| section)
}

/// Runs all checks.
pub fn all(facts: &Facts) -> Vec<Check> {
    let skipped = |why: &str| Status::Skipped.finding(why, Details::Skipped {});
    let judge = |judge: &Judge| match (judge, &facts.driver) {
        (Host(judge), _) => judge(facts),
        (Gpus(_), Err(_)) => skipped("NVML returned no sample"),
        (Gpus(_), Ok(sample)) if gpu_count(sample) == 0 => skipped("no GPU"),
        (Gpus(judge), Ok(sample)) => judge(sample),
    };
    let mut checks = Vec::new();
    for (section, rules) in CHECKS {
        checks.extend(rules.iter().map(|(id, name, rule)| Check {
            id,
            name,
            section,
            finding: judge(rule),
        }));
    }
    checks
}

#[cfg(test)]
mod tests {
    use crate::doctor::facts::Facts;
    use crate::doctor::fixture::{assert_check, healthy, sample};
    use crate::fault::DriverFault;

    use super::*;

    #[test]
    fn without_a_sample_or_a_gpu_no_gpu_is_judged() {
        let hung = DriverFault::NoReader {
            detail: String::new(),
        };
        for (driver, summary) in [
            (Err(hung), "NVML returned no sample"),
            (Ok(sample(Vec::new())), "no GPU"),
        ] {
            let checks = all(&Facts {
                driver,
                ..healthy()
            });
            let first = checks
                .iter()
                .position(|check| check.id == "unreadable_gpus");
            for check in &checks[first.unwrap()..][..8] {
                assert_check(&check.finding, Status::Skipped, summary, &[]);
            }
        }
    }
}
