//! Quarter hours in which time is missing: their totals say how much, their ticks say when and why.

use gua_model::{CardQuarter, Ledger, Quarter, Thresholds};
use gua_store::{History, ReadError};
use jiff::Timestamp;

/// So many quarter hours are looked at more closely; where there are more, the rest have gaps to the quarter hour. It
/// bounds what a report costs on a host whose collector comes and goes.
const MOST: usize = 400;

/// The quarter hours whose ticks are to be asked.
#[derive(Debug)]
pub(super) struct Ragged {
    raw_from: Option<Timestamp>,
    quarters: Vec<Quarter>,
}

impl Ragged {
    pub(super) fn new(raw_from: Option<Timestamp>) -> Self {
        Self {
            raw_from,
            quarters: Vec::new(),
        }
    }

    /// Whether the ticks of a quarter hour will be asked instead of its totals.
    pub(super) fn takes(
        &mut self,
        quarter: Quarter,
        cards: &[CardQuarter],
        ledger: &Ledger,
    ) -> bool {
        // A span of the last tick that is gone may reach into the first quarter that is kept.
        let is_kept = self
            .raw_from
            .is_none_or(|from| quarter.period().from() > from);
        let takes = is_kept && self.quarters.len() < MOST && ledger.is_ragged(cards);
        if takes {
            self.quarters.push(quarter);
        }
        takes
    }

    /// Adds the spans of these quarter hours.
    pub(super) fn tell(
        &self,
        history: &History,
        thresholds: Thresholds,
        ledger: &mut Ledger,
    ) -> Result<(), ReadError> {
        for period in self.quarters.iter().copied().map(Quarter::period) {
            history.each_span(period, thresholds, |span| ledger.push_within(span, period))?;
        }
        Ok(())
    }
}
