//! Judges the facts. Nothing here inspects the host, so a test can provide any facts.

use super::check::Check;
use super::facts::Facts;
use super::{checks_card, checks_claims, checks_driver, checks_host, checks_link, checks_store};

/// Returns all checks, in display order.
#[must_use]
pub fn all(facts: &Facts) -> Vec<Check> {
    let before: [fn(&Facts) -> Check; 8] = [
        checks_host::os,
        checks_host::clock,
        checks_host::container,
        checks_host::hidepid,
        checks_driver::nvidia_devices,
        checks_driver::nvidia_smi,
        checks_driver::nvml,
        checks_driver::driver_match,
    ];
    let after: [fn(&Facts) -> Check; 6] = [
        checks_host::collectors,
        checks_host::config,
        checks_claims::claims,
        checks_link::link,
        checks_store::default_db,
        checks_store::disk_space,
    ];
    let cards = checks_card::all(facts.driver.as_ref().ok());
    let judge = |check: fn(&Facts) -> Check| check(facts);
    let (before, after) = (before.map(judge), after.map(judge));
    before.into_iter().chain(cards).chain(after).collect()
}
