//! A measured value, or the reason why it is missing. There is no third case: a missing value is never represented as
//! zero.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One sensor value, or the reason why it is missing.
pub type Reading<T> = Result<T, Missing>;

/// Reason why a value is missing; stored next to the NULL that it explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Missing {
    /// The GPU, the driver or the kernel does not provide this value.
    Unsupported,
    /// The value exists, but access is denied.
    Denied,
    /// Its subject no longer exists: a lost GPU, an ended process.
    Gone,
    /// The value should exist, but reading it failed.
    Failed,
}

impl Missing {
    /// Returns the word for the reason in every output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Missing::Unsupported => "unsupported",
            Missing::Denied => "denied",
            Missing::Gone => "gone",
            Missing::Failed => "failed",
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
