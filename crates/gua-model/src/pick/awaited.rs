//! GPUs for a user who waits: which GPUs could become free for its criteria, and which are kept for it now.

use jiff::SignedDuration;

use super::{Criteria, LastUse, Obstacle, fault, is_model, is_vacant, obstacle};
use crate::reading::Missing;
use crate::sample::Gpu;

/// Maximum remaining idle time for which a GPU is kept. A GPU that is idle, but not yet for as long as the criteria require,
/// is kept if at most this much is missing.
const SOON: SignedDuration = SignedDuration::from_mins(2);

/// Reports whether the GPU could become free for these criteria. Its model, its memory size and most faults do not change;
/// processes, use and claims do.
pub fn could_be_free(gpu: &Gpu, criteria: &Criteria) -> bool {
    let is_large_enough = match (criteria.min_free, gpu.memory_total, gpu.memory_held_back()) {
        (None, _, _) | (_, Err(Missing::Gone | Missing::Denied | Missing::Failed), _) => true,
        (Some(_), Err(Missing::Unsupported), _) => false,
        (Some(wanted), Ok(total), Ok(kept)) => total.0.saturating_sub(kept.0) >= wanted.0,
        // The reserved memory is unknown, so the GPU may have less than its total.
        (Some(wanted), Ok(total), Err(_)) => total >= wanted,
    };
    let is_usable = fault(gpu, criteria).is_none_or(|fault| !fault.lasts());
    gpu.place.counts() && is_model(gpu, &criteria.models) && is_large_enough && is_usable
}

/// Reports whether a waiting user would take the GPU as soon as it is free, so that later users must leave it. A vacant
/// GPU that the criteria exclude is not kept: others can use it.
pub fn is_awaited(gpu: &Gpu, criteria: &Criteria, last_use: &LastUse) -> bool {
    match obstacle(gpu, criteria, last_use) {
        None => true,
        Some(Obstacle::UsedAt(at)) => criteria
            .idle_since
            .is_some_and(|since| at.duration_since(since) <= SOON),
        Some(_) => could_be_free(gpu, criteria) && !is_vacant(gpu, &criteria.thresholds),
    }
}
