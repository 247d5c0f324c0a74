//! Holders of a GPU in words: owners with their container, pod or job.

use gua_model::{Missing, OwnerKey, Process};

/// The owner with the job, pod or container: `ada (job 4711)`. An owner that is the pod or container itself says it already.
#[must_use]
pub fn owner_and_workload(process: &Process) -> String {
    let identity = process.identity.as_ref();
    let owner = match identity.map(|identity| identity.owner()) {
        Ok(Some(owner)) if matches!(owner.who, OwnerKey::Workload(_)) => return owner.shown(),
        Ok(Some(owner)) => owner.shown(),
        Err(Missing::Gone) => return "(exited)".to_owned(),
        _ => "?".to_owned(),
    };
    match identity
        .ok()
        .and_then(|identity| identity.workload.in_short())
    {
        Some(workload) => format!("{owner} ({workload})"),
        None => owner,
    }
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
