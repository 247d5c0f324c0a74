//! A measured value, or the reason why it is missing. There is no third case: a missing value is never represented as
//! zero.

use serde::{Deserialize, Serialize};

/// One sensor value, or the reason why it is missing.
pub type Reading<T> = Result<T, Missing>;

crate::words! {
    /// Reason why a value is missing; stored next to the NULL that it explains.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Missing {
        /// The GPU, the driver or the kernel does not provide this value.
        Unsupported = "unsupported",
        /// The value exists, but access is denied.
        Denied = "denied",
        /// Its subject no longer exists: a lost GPU, an ended process.
        Gone = "gone",
        /// The value should exist, but reading it failed.
        Failed = "failed",
    }
}
