//! Limits of a claim (a short lease on GPUs) that every program has to agree on.

use std::time::Duration;

/// Maximum length of a lease. It is part of the claim format: if two users disagreed on whether a claim still counts,
/// both could take the same GPU. A configuration can only lower it.
pub const MAX_LEASE: Duration = Duration::from_hours(7 * 24);

/// Maximum length of the reason of a keep, in characters.
pub const MAX_REASON_LENGTH: usize = 200;
