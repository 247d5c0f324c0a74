//! Something that goes wrong tick after tick: told when it begins and when it ends, with a count in between.

use gua_model::{GapReason, Outage};
use jiff::Timestamp;

use crate::attendant::Ongoing;

/// A stretch of lost ticks that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) from: Timestamp,
    pub(crate) reason: GapReason,
    pub(crate) detail: String,
    pub(crate) lost: u32,
}

impl Trouble {
    pub(crate) fn new(from: Timestamp, reason: GapReason, detail: String) -> Self {
        Self {
            from,
            reason,
            detail,
            lost: 0,
        }
    }

    pub(crate) fn ongoing(&self) -> Ongoing {
        Ongoing {
            from: self.from,
            reason: self.reason,
            detail: self.detail.clone(),
        }
    }

    pub(crate) fn lose(&mut self, ticks: u32) {
        self.lost = self.lost.saturating_add(ticks);
    }

    /// The trouble as history keeps it. A clock that was set back in between does not turn it around.
    pub(crate) fn outage(self, to: Timestamp) -> Outage {
        Outage {
            from: self.from.min(to),
            to,
            reason: self.reason,
            detail: self.detail,
            ticks_lost: self.lost,
        }
    }
}
