//! Times for which a history has data from another source than gpu_stats: its own ticks, and rows of gpu-usage-audit.
//! Rows of gpu_stats at such times would count the same hours twice.

use gua_model::legacy::stats_gpu_number;
use gua_model::{Period, Span, State};
use jiff::SignedDuration;
use rusqlite::Connection;

use super::error::LegacyError;
use super::moments::fold_stored;
use super::sources::sources_within;
use crate::error::ReadError;
use crate::fold::{Step, walk};
use crate::history;
use crate::maintain::RAW_FROM;
use crate::store::{meta, quarter};
use crate::{rule, totals};

/// Upper bound of the time that an old row covers.
const LONGEST: i64 = 86_400_000_000;

/// Intervals in microseconds since 1970, ordered, disjoint and not adjacent.
#[derive(Debug, Default)]
pub struct Covered(Vec<(i64, i64)>);

impl Covered {
    /// Times covered within `[from, to)`. If the ticks of a quarter hour have been deleted, it is covered from its
    /// first tick to its last.
    pub(super) fn of(history: &Connection, (from, to): (i64, i64)) -> Result<Self, LegacyError> {
        let mut found = Self::default();
        found.add_own(history, (from, to))?;
        found.add_old(history, (from, to))?;
        found.0.sort_unstable();
        let mut joined = Self::default();
        for (from, to) in found.0 {
            joined.push(from, to);
        }
        Ok(joined)
    }

    /// Returns whether any time in `[from, to)` is covered.
    #[must_use]
    pub fn touches(&self, from: i64, to: i64) -> bool {
        let after = self.0.partition_point(|(_, end)| *end <= from);
        self.0.get(after).is_some_and(|(begin, _)| *begin < to)
    }

    fn push(&mut self, from: i64, to: i64) {
        match self.0.last_mut() {
            Some(last) if last.0 <= from && from <= last.1 => last.1 = last.1.max(to),
            _ => self.0.push((from, to)),
        }
    }

    fn add_own(&mut self, history: &Connection, (from, to): (i64, i64)) -> Result<(), ReadError> {
        let raw_from = meta(history, RAW_FROM)?.unwrap_or(i64::MIN);
        let quarters = (quarter(from), quarter(to.min(raw_from)).saturating_add(1));
        if from < raw_from {
            totals::each(history, totals::Source::Own, quarters, |_, cards| {
                for card in cards.iter().map(|card| &card.total.card) {
                    if let (Some(first), Some(last)) = (card.first, card.last)
                        && card.observed.0 > 0
                    {
                        self.push(first.as_microsecond(), last.as_microsecond());
                    }
                }
            })?;
        }
        walk(
            history,
            rule::load(history)?,
            (from.max(raw_from), to),
            |step| {
                let (Step::Tick { closed, .. } | Step::End { closed }) = step;
                for span in closed.iter().filter(|span| is_observed(span)) {
                    self.push(span.from.as_microsecond(), span.to.as_microsecond());
                }
                Ok(())
            },
        )?;
        Ok(())
    }

    fn add_old(&mut self, history: &Connection, (from, to): (i64, i64)) -> Result<(), LegacyError> {
        let from = from.saturating_sub(LONGEST);
        let window: Period = history::period((from, to));
        for source in sources_within(history, (from, to))? {
            fold_stored(history, source, window, &mut |moment| {
                let ticks = moment.ticks.iter();
                for tick in ticks.filter(|tick| stats_gpu_number(tick.gpu).is_none()) {
                    let stands_for = SignedDuration::try_from(tick.run.interval);
                    let to = moment.at.checked_add(stands_for.unwrap_or_default());
                    if let Ok(to) = to {
                        self.push(moment.at.as_microsecond(), to.as_microsecond());
                    }
                }
            })?;
        }
        Ok(())
    }
}

fn is_observed(span: &Span) -> bool {
    let mut shares = span.shares.iter();
    shares.any(|share| share.verdict.state != State::Unobserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_known_when_any_of_its_time_is() {
        let mut covered = Covered::default();
        for (from, to) in [(10, 20), (12, 15), (20, 30), (50, 60)] {
            covered.push(from, to);
        }
        assert_eq!(covered.0, [(10, 30), (50, 60)]);
        for (from, to, expected) in [
            (0, 10, false),
            (0, 11, true),
            (15, 16, true),
            (29, 40, true),
            (30, 50, false),
            (30, 51, true),
            (0, 100, true),
            (60, 70, false),
        ] {
            assert_eq!(covered.touches(from, to), expected, "{from}..{to}");
        }
    }
}
