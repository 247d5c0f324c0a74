//! Who is on a card, in words: owners with their container, pod or job, and how long they have been there.

use std::time::Duration;

use gua_model::text::harmless;
use gua_model::{Identity, Missing, Process, Sample, User, Workload};

/// The answerable user by name, else by number; `None` where the process cannot be seen.
#[must_use]
pub fn owner(process: &Process) -> Option<String> {
    let identity = process.identity.as_ref().ok()?;
    Some(name(&identity.owner()?.user))
}

/// A user's name, else the number.
#[must_use]
pub fn name(user: &User) -> String {
    match &user.name {
        Some(name) => harmless(name),
        None => format!("uid {}", user.uid),
    }
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
    match identity.and_then(|identity| workload(&identity.workload)) {
        Some(workload) => format!("{owner} ({workload})"),
        None => owner,
    }
}

/// Container ids are long; people know them by their first twelve letters.
const SHORT: usize = 12;

fn workload(workload: &Workload) -> Option<String> {
    let short = |id: &str| id.get(..SHORT).unwrap_or(id).to_owned();
    let job = workload.job.as_ref().map(|job| format!("job {job}"));
    let pod = || Some(format!("pod {}", short(workload.pod.as_ref()?.as_str())));
    let container = || {
        let container = workload.container.as_ref()?;
        Some(format!("container {}", short(container.as_str())))
    };
    job.or_else(pod).or_else(container)
}

/// How long a process has lived.
#[must_use]
pub fn age(identity: &Identity, sample: &Sample, ticks_per_second: u64) -> Option<Duration> {
    // The kernel counts a process's start from boot with suspend, as the sample counts (proc_pid_stat(5)).
    let millis = identity.key.start.0.checked_mul(1000)?;
    let start = Duration::from_millis(millis.checked_div(ticks_per_second)?);
    sample.since_boot.checked_sub(start)
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
