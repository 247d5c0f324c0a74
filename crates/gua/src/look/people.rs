//! Who is on a card, in words: owners with their container, pod or job, and how long they have been there.

use std::time::Duration;

use gua_model::{Identity, Missing, Process, Sample, User};

/// The answerable user by name, else by number; `None` where the process cannot be seen.
#[must_use]
pub fn owner(process: &Process) -> Option<String> {
    let identity = process.identity.as_ref().ok()?;
    Some(name(&identity.owner()?.user))
}

/// A user's name, else the number.
#[must_use]
pub fn name(user: &User) -> String {
    user.shown()
}

/// The owner with the job, pod or container: `ada (job 4711)`.
#[must_use]
pub fn owner_and_workload(process: &Process) -> String {
    let owner = match (&process.identity, owner(process)) {
        (_, Some(owner)) => owner,
        (Err(Missing::Gone), None) => return "(gone)".to_owned(),
        (_, None) => "?".to_owned(),
    };
    let identity = process.identity.as_ref().ok();
    match identity.and_then(|identity| identity.workload.in_short()) {
        Some(workload) => format!("{owner} ({workload})"),
        None => owner,
    }
}

/// How long a process has lived.
#[must_use]
pub fn age(identity: &Identity, sample: &Sample, ticks_per_second: u64) -> Option<Duration> {
    identity.age(sample.since_boot, ticks_per_second)
}

/// Texts without repetition, in their order.
pub fn distinct(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for text in texts {
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen
}
