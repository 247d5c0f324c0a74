//! Quarters with unobserved time. Their totals have how much is missing; only their ticks have when and why.

use gua_model::{GpuQuarter, Ledger, Quarter, Thresholds};
use jiff::Timestamp;

use crate::error::RecordsError;
use crate::records::Records;

/// Maximum number of quarters whose ticks are read. Beyond it, gaps are known to the quarter only. It bounds the cost of a
/// report on a host whose collector starts and stops all the time.
const READ_FROM_TICKS: usize = 400;

/// The quarters whose coverage is read from ticks.
#[derive(Debug)]
pub(super) struct PartialQuarters {
    raw_from: Option<Timestamp>,
    quarters: Vec<Quarter>,
}

impl PartialQuarters {
    pub(super) fn new(raw_from: Option<Timestamp>) -> Self {
        Self {
            raw_from,
            quarters: Vec::new(),
        }
    }

    /// Whether the coverage of a quarter will be read from its ticks instead of its totals.
    pub(super) fn takes(&mut self, quarter: Quarter, gpus: &[GpuQuarter], ledger: &Ledger) -> bool {
        // A span of the last removed tick may reach into the first quarter that is kept.
        let is_kept = self
            .raw_from
            .is_none_or(|from| quarter.period().from() > from);
        let takes = is_kept && self.quarters.len() < READ_FROM_TICKS && ledger.is_ragged(gpus);
        if takes {
            self.quarters.push(quarter);
        }
        takes
    }

    /// Adds the spans of these quarters to the ledger.
    pub(super) fn add(
        &self,
        records: &dyn Records,
        thresholds: Thresholds,
        ledger: &mut Ledger,
    ) -> Result<(), RecordsError> {
        for period in self.quarters.iter().copied().map(Quarter::period) {
            records.spans(period, thresholds, &mut |span| {
                ledger.push_within(span, period);
            })?;
        }
        Ok(())
    }
}
