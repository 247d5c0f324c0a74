//! Judges the facts. Nothing here inspects the host, so a test can provide any facts.

use super::check::Check;
use super::facts::Facts;
use super::{checks_card, checks_claims, checks_driver, checks_host, checks_link, checks_store};

/// Returns all checks, in display order.
#[must_use]
pub fn all(facts: &Facts) -> Vec<Check> {
    let sample = facts.driver.as_ref().ok();
    vec![
        checks_host::os(facts),
        checks_host::clock(facts),
        checks_host::container(facts),
        checks_host::hidepid(facts),
        checks_driver::nvidia_devices(facts),
        checks_driver::nvidia_smi(facts),
        checks_driver::nvml(facts),
        checks_driver::driver_match(facts),
        checks_card::unreadable_cards(sample),
        checks_card::utilisation(sample),
        checks_card::memory_errors(sample),
        checks_card::persistence(sample),
        checks_card::mig(sample),
        checks_card::unified_memory(sample),
        checks_card::processes_visible(sample),
        checks_host::collectors(facts),
        checks_host::config(facts),
        checks_claims::claims(facts),
        checks_link::link(facts),
        checks_store::default_db(facts),
        checks_store::disk_space(facts),
    ]
}
