//! An outage that has started and not ended: ticks are being lost for one reason.

use gua_model::{GapReason, Outage};
use jiff::Timestamp;

/// A run of lost ticks that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOutage {
    /// Time of the first lost tick.
    pub from: Timestamp,
    pub reason: GapReason,
    pub detail: String,
    pub ticks_lost: u32,
}

impl OpenOutage {
    pub(crate) fn new(from: Timestamp, reason: GapReason, detail: String) -> Self {
        Self {
            from,
            reason,
            detail,
            ticks_lost: 0,
        }
    }

    /// Adds lost ticks.
    pub(crate) fn add(&mut self, ticks: u32) {
        self.ticks_lost = self.ticks_lost.saturating_add(ticks);
    }

    /// Ends the outage at `to`. The result is never reversed, even if the clock was set back meanwhile.
    pub(crate) fn close(self, to: Timestamp) -> Outage {
        Outage {
            from: self.from.min(to),
            to,
            reason: self.reason,
            detail: self.detail,
            ticks_lost: self.ticks_lost,
        }
    }
}
