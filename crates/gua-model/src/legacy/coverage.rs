//! Coverage of each GPU by old ticks, and the gaps between them. An old tick covers its recorded interval; a tick that
//! is slightly late or early causes neither a gap nor an overlap.

use std::time::Duration;

use jiff::Timestamp;

use super::LegacyMoment;
use crate::gap::{Gap, GapReason};
use crate::id::GpuUuid;
use crate::period::{Period, micros_between};
use crate::report::Covered;
use crate::unit::Micros;

/// Folds old ticks to coverage. It keeps only the gaps.
#[derive(Clone, Debug, Default)]
pub struct LegacyCoverage {
    cards: Vec<Card>,
    /// Probable position of the next tick's GPU.
    next: usize,
}

#[derive(Clone, Debug)]
struct Card {
    gpu: GpuUuid,
    first: Timestamp,
    /// End of the last tick's interval, in microseconds.
    end: i64,
    interval: i64,
    overlap: i64,
    gaps: Vec<Gap>,
}

impl LegacyCoverage {
    /// Adds a moment, which must not come before the last one. Each tick covers `interval`, or the recorded interval if
    /// that is `None`.
    pub fn push(&mut self, moment: &LegacyMoment<'_>, interval: Option<Duration>) {
        let at = moment.at.as_microsecond();
        for tick in moment.ticks {
            let length = interval.unwrap_or(tick.run.interval).as_micros();
            let length = i64::try_from(length).unwrap_or(i64::MAX);
            let place = self.place(tick.gpu, moment.at);
            self.next = place + 1;
            let card = &mut self.cards[place];
            let slack = card.interval.min(length) / 2;
            if at > card.end.saturating_add(slack) {
                card.gaps.extend(gap(card.end, at));
            } else if at < card.end.saturating_sub(slack) {
                card.overlap = card.overlap.saturating_add(card.end - at);
            }
            card.end = card.end.max(at.saturating_add(length));
            card.interval = length;
        }
    }

    /// Returns the coverage of every GPU in `window`, with its gaps. `began` is the time of the first tick of the file;
    /// time before it is not a gap. `until` is the time from which another source covers a GPU.
    #[must_use]
    pub fn finish(
        self,
        window: Period,
        began: Option<Timestamp>,
        until: impl Fn(&GpuUuid) -> Timestamp,
    ) -> Vec<(GpuUuid, Covered, Vec<Gap>)> {
        let first = self.cards.iter().map(|card| card.first).min();
        let could = began.map_or(window.from(), |began| began.max(window.from()));
        let close = |mut card: Card| {
            // A GPU that appeared later than the others was not present before.
            let from = match first == Some(card.first) {
                true => could.min(card.first),
                false => card.first,
            };
            let slack = card.interval / 2;
            let start = card.first.as_microsecond();
            if start > from.as_microsecond().saturating_add(slack) {
                card.gaps.extend(gap(from.as_microsecond(), start));
            }
            let end = until(&card.gpu).min(window.to());
            let to = end.as_microsecond();
            // The time after the last row is unobserved, even if the window ends soon after it.
            if to > card.end {
                card.gaps.extend(gap(card.end, to));
            }
            card.gaps.sort_by_key(|gap| gap.period);
            let capacity = micros_between(from, end);
            let lost: Micros = card.gaps.iter().map(|gap| gap.micros).sum();
            let covered = Covered {
                capacity,
                observed: Micros(capacity.0.saturating_sub(lost.0)),
                gap: lost.min(capacity),
                overlap: Micros(card.overlap.unsigned_abs()),
                ..Covered::default()
            };
            (card.gpu, covered, card.gaps)
        };
        self.cards.into_iter().map(close).collect()
    }

    fn place(&mut self, gpu: &GpuUuid, at: Timestamp) -> usize {
        let is_it = |card: &Card| card.gpu == *gpu;
        let place = match self.cards.get(self.next).is_some_and(is_it) {
            true => Some(self.next),
            false => self.cards.iter().position(is_it),
        };
        place.unwrap_or_else(|| {
            self.cards.push(Card {
                gpu: gpu.clone(),
                first: at,
                end: at.as_microsecond(),
                interval: 0,
                overlap: 0,
                gaps: Vec::new(),
            });
            self.cards.len() - 1
        })
    }
}

fn gap(from: i64, to: i64) -> Option<Gap> {
    let at = |micros| Timestamp::from_microsecond(micros).ok();
    let period = Period::new(at(from)?, at(to)?);
    (!period.is_empty()).then_some(Gap {
        period,
        micros: period.micros(),
        reason: GapReason::CollectorDown,
    })
}
