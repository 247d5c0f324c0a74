//! Coverage of a GPU by imported ticks, and the gaps between them. An imported tick covers its recorded interval; a tick
//! that is slightly late or early causes neither a gap nor an overlap.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::gap::{Gap, GapReason};
use crate::period::{Period, micros_between};
use crate::report::Covered;
use crate::unit::Micros;

/// Time that the ticks of one GPU cover, from the first to the end of the last. Times are microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedCoverage {
    /// Time of the first tick, and the interval that it covers.
    first: i64,
    first_interval: i64,
    /// Time and interval of the last tick.
    last: i64,
    interval: i64,
    /// End of the covered time.
    end: i64,
    /// Time that ticks cover twice.
    overlap: u64,
    /// Gaps between ticks, in order.
    gaps: Vec<(i64, i64)>,
}

impl ImportedCoverage {
    /// Returns the coverage of one tick.
    #[must_use]
    pub fn of_tick(at: Timestamp, interval: Micros) -> Self {
        let at = at.as_microsecond();
        let interval = i64::try_from(interval.0).unwrap_or(i64::MAX);
        Self {
            first: at,
            first_interval: interval,
            last: at,
            interval,
            end: at.saturating_add(interval),
            overlap: 0,
            gaps: Vec::new(),
        }
    }

    /// Adds later ticks.
    pub fn merge(&mut self, later: &Self) {
        let slack = self.interval.min(later.first_interval) / 2;
        if later.first > self.end.saturating_add(slack) {
            self.gaps.push((self.end, later.first));
        } else if later.first < self.end.saturating_sub(slack) {
            self.overlap += (self.end - later.first).unsigned_abs();
        }
        // A long interval may cover gaps between shorter ones.
        let uncovered = later.gaps.iter().filter(|(_, to)| *to > self.end);
        let uncovered = uncovered.map(|(from, to)| ((*from).max(self.end), *to));
        self.gaps.extend(uncovered);
        self.overlap += later.overlap;
        self.end = self.end.max(later.end);
        self.last = later.last;
        self.interval = later.interval;
    }

    /// Returns the time of the first tick.
    #[must_use]
    pub fn first(&self) -> Timestamp {
        Timestamp::from_microsecond(self.first).unwrap_or_default()
    }

    /// Returns the time of the last tick.
    #[must_use]
    pub fn last(&self) -> Timestamp {
        Timestamp::from_microsecond(self.last).unwrap_or_default()
    }

    /// Returns the coverage of the GPU from `from`, since when it is known, to `to`, with its gaps.
    #[must_use]
    pub fn finish(&self, from: Timestamp, to: Timestamp) -> (Covered, Vec<Gap>) {
        let mut gaps: Vec<Gap> = Vec::new();
        let start = from.as_microsecond();
        if self.first > start.saturating_add(self.interval / 2) {
            gaps.extend(gap(start, self.first));
        }
        gaps.extend(self.gaps.iter().filter_map(|(from, to)| gap(*from, *to)));
        // The time after the last row is unobserved, even if the window ends soon after it.
        if to.as_microsecond() > self.end {
            gaps.extend(gap(self.end, to.as_microsecond()));
        }
        gaps.sort_by_key(|gap| gap.period);
        let capacity = micros_between(from, to);
        let lost: Micros = gaps.iter().map(|gap| gap.micros).sum();
        let covered = Covered {
            capacity,
            observed: Micros(capacity.0.saturating_sub(lost.0)),
            gap: lost.min(capacity),
            overlap: Micros(self.overlap),
            ..Covered::default()
        };
        (covered, gaps)
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
