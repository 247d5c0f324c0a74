//! What one who waits would take: which cards could be free for a wish one day, and which are worth keeping for it now.

use jiff::SignedDuration;

use super::{LastUse, Obstacle, Wish, is_model, obstacle};
use crate::reading::Missing;
use crate::sample::Gpu;
use crate::state::Thresholds;

/// A card that is idle, but not for as long as a wish demands, is kept for it when no more than this is missing.
const SOON: SignedDuration = SignedDuration::from_mins(2);

/// Whether nobody is on the card, whatever anyone wishes for.
#[must_use]
pub fn is_vacant(gpu: &Gpu, thresholds: &Thresholds) -> bool {
    let wish = Wish {
        thresholds: *thresholds,
        ..Wish::default()
    };
    obstacle(gpu, &wish, &LastUse::new()).is_none()
}

/// Whether the card could be free for this wish one day. A model and a size do not pass; processes, use and claims do.
#[must_use]
pub fn could_be_free(gpu: &Gpu, wish: &Wish) -> bool {
    let is_large_enough = match (wish.min_free, gpu.memory_total, gpu.memory_held_back()) {
        (None, _, _) | (_, Err(Missing::Gone | Missing::Denied | Missing::Failed), _) => true,
        (Some(_), Err(Missing::Unsupported), _) => false,
        (Some(wanted), Ok(total), Ok(kept)) => total.0.saturating_sub(kept.0) >= wanted.0,
        // It may be that much less, which is not known.
        (Some(wanted), Ok(total), Err(_)) => total >= wanted,
    };
    gpu.place.counts() && is_model(gpu, &wish.models) && is_large_enough
}

/// Whether one who waits would take the card as soon as it is free, so that those who came later have to leave it. A card
/// that is vacant, and that the wish excludes all the same, is not kept for it: others can use it.
#[must_use]
pub fn is_awaited(gpu: &Gpu, wish: &Wish, last_use: &LastUse) -> bool {
    match obstacle(gpu, wish, last_use) {
        None => true,
        Some(Obstacle::UsedAt(at)) => wish
            .idle_since
            .is_some_and(|since| at.duration_since(since) <= SOON),
        Some(_) => could_be_free(gpu, wish) && !is_vacant(gpu, &wish.thresholds),
    }
}
