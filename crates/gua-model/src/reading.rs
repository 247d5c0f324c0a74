//! A value that was measured, or the reason why there is none. There is no third case: nothing here stands for zero.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One sensor value, or the reason there is none.
pub type Reading<T> = Result<T, Missing>;

/// Why a value is absent; stored beside the NULL it explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Missing {
    /// The card, the driver or the kernel does not have this value.
    Unsupported,
    /// It exists, and we may not see it.
    Denied,
    /// What it belongs to is no longer there: a lost card, an ended process.
    Gone,
    /// It should be there; asking for it went wrong.
    Failed,
}

impl Missing {
    /// The one word by which every output names the reason.
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
