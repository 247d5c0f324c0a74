//! Coverage of a GPU by imported ticks, and the gaps between them. An imported tick covers its recorded interval; a tick
//! that is slightly late or early causes neither a gap nor an overlap.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cadence::Cadence;
use crate::gap::{Gap, GapReason};
use crate::period::{Period, micros_between};
use crate::period_set::PeriodSet;
use crate::report::{Covered, fill_gaps};
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
    ticks: u64,
    /// Gaps between ticks, in order: the time of the last tick, the end of the covered time, and the time of the next tick.
    gaps: Vec<(i64, i64, i64)>,
    /// Part of the covered time that is unobserved if ticks cover less than the recorded interval. Its place is unknown.
    #[serde(skip)]
    sparse: u64,
}

impl ImportedCoverage {
    /// Returns the coverage of one tick.
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
            sparse: 0,
            ticks: 1,
        }
    }

    /// Returns the coverage if each tick covered `interval`. The gaps are those of the recorded intervals, but each
    /// begins where the last tick before it then ends. If the recorded intervals are longer, by more than ticks may be
    /// late, only the time of the ticks is observed.
    pub fn with_interval(&self, interval: Micros) -> Self {
        let given = i64::try_from(interval.0).unwrap_or(i64::MAX);
        let recorded = self.gaps.iter().map(|(last, from, _)| from - last);
        let recorded = recorded.chain([self.first_interval, self.interval]).max();
        let gaps = self.gaps.iter();
        let gaps = gaps.map(|(last, _, to)| (*last, last.saturating_add(given), *to));
        let is_gap = |(_, from, to): &(i64, i64, i64)| *to > from.saturating_add(slack(given));
        let mut all = Self {
            first_interval: given,
            interval: given,
            end: self.last.saturating_add(given),
            gaps: gaps.filter(is_gap).collect(),
            overlap: 0,
            ..self.clone()
        };
        let (claimed, covered) = (interval.times(self.ticks).0, all.covered());
        if claimed / 2 > covered {
            all.overlap = claimed - covered;
        }
        let allowed = given.saturating_add(slack(given)).unsigned_abs();
        let is_shorter = recorded.is_some_and(|recorded| recorded.unsigned_abs() > allowed);
        if is_shorter || covered > allowed.saturating_mul(self.ticks) {
            all.sparse = covered.saturating_sub(claimed);
        }
        all
    }

    /// Adds later ticks, or ticks of another file that lie between these.
    pub fn merge(&mut self, later: &Self) {
        self.ticks += later.ticks;
        if later.first < self.last {
            return self.interleave(later);
        }
        let slack = slack(self.interval.min(later.first_interval));
        if later.first > self.end.saturating_add(slack) {
            self.gaps.push((self.last, self.end, later.first));
        } else if later.first < self.end.saturating_sub(slack) {
            self.overlap += (self.end - later.first).unsigned_abs();
        }
        // A long interval may cover gaps between shorter ones.
        let uncovered = later.gaps.iter().filter(|(.., to)| *to > self.end);
        let uncovered = uncovered.map(|(last, from, to)| (*last, (*from).max(self.end), *to));
        self.gaps.extend(uncovered);
        self.overlap += later.overlap;
        self.end = self.end.max(later.end);
        self.last = later.last;
        self.interval = later.interval;
    }

    /// Adds the ticks of another file, some of which lie before the last tick. Time that neither covers is a gap.
    fn interleave(&mut self, other: &Self) {
        let (from, to) = (self.first.min(other.first), self.end.max(other.end));
        let covered = self.covered() + other.covered();
        let all: PeriodSet = self.periods().into_iter().chain(other.periods()).collect();
        let ends = all.holes(Period::new(time(from), time(to)));
        let ends = ends.map(|gap| (gap.from().as_microsecond(), gap.to().as_microsecond()));
        self.gaps = ends
            .map(|(from, to)| (from.saturating_sub(other.interval), from, to))
            .collect();
        if other.first < self.first {
            self.first_interval = other.first_interval;
        }
        if other.last > self.last {
            (self.last, self.interval) = (other.last, other.interval);
        }
        (self.first, self.end) = (from, to);
        self.overlap += other.overlap + covered.saturating_sub(self.covered());
    }

    /// Covered time in microseconds, each counted once.
    fn covered(&self) -> u64 {
        let gaps = self.gaps.iter().map(|(_, from, to)| to.abs_diff(*from));
        self.end.abs_diff(self.first).saturating_sub(gaps.sum())
    }

    /// Returns the parts of covered periods that are unobserved because ticks cover less than their recorded intervals.
    fn sparse_gaps(&self, periods: impl Iterator<Item = Period>) -> Vec<Gap> {
        if self.sparse == 0 {
            return Vec::new();
        }
        let covered = u128::from(self.covered().max(1));
        let mut passed = 0;
        let gaps = periods.map(|period| {
            let until = |passed: u64| u128::from(self.sparse) * u128::from(passed) / covered;
            let before = until(passed);
            passed += period.micros().0;
            let micros = u64::try_from(until(passed) - before).unwrap_or(u64::MAX);
            Gap {
                period,
                micros: Micros(micros).min(period.micros()),
                reason: GapReason::CollectorDown,
            }
        });
        gaps.filter(|gap| gap.micros > Micros(0)).collect()
    }

    /// Removes the covered time from gaps, and returns how much that is.
    pub fn fill(&self, gaps: &mut Vec<Gap>) -> Micros {
        let periods = self.periods();
        let holes = gaps.iter().filter(|gap| gap.is_whole());
        let holes: PeriodSet = holes.map(|gap| gap.period).collect();
        let filled = fill_gaps(gaps, &periods);
        let sparse = self.sparse_gaps(periods.iter().flat_map(|period| holes.parts(*period)));
        let rest: Micros = sparse.iter().map(|gap| gap.micros).sum();
        gaps.extend(sparse);
        Micros(filled.0.saturating_sub(rest.0))
    }

    /// Returns the time of the first tick.
    pub fn first(&self) -> Timestamp {
        time(self.first)
    }

    /// Returns the time of the last tick.
    pub fn last(&self) -> Timestamp {
        time(self.last)
    }

    /// Returns the covered time, in order.
    pub fn periods(&self) -> Vec<Period> {
        let begins = std::iter::once(self.first).chain(self.gaps.iter().map(|(.., to)| *to));
        let ends = self.gaps.iter().map(|(_, from, _)| *from).chain([self.end]);
        let periods = begins
            .zip(ends)
            .map(|(from, to)| Period::new(time(from), time(to)));
        periods.collect()
    }

    /// Returns the coverage of the GPU from `from`, since when it is known, to `to`, with its gaps.
    pub fn finish(&self, from: Timestamp, to: Timestamp) -> (Covered, Vec<Gap>) {
        let mut gaps: Vec<Gap> = Vec::new();
        let start = from.as_microsecond();
        if self.first > start.saturating_add(slack(self.interval)) {
            gaps.extend(gap(start, self.first));
        }
        gaps.extend(self.gaps.iter().filter_map(|(_, from, to)| gap(*from, *to)));
        // The time after the last row is unobserved, even if the window ends soon after it.
        if to.as_microsecond() > self.end {
            gaps.extend(gap(self.end, to.as_microsecond()));
        }
        // Later rows may be in gaps of own ticks.
        gaps.retain_mut(|gap| {
            let part = gap.period.overlap(Period::new(from, to));
            gap.period = part.unwrap_or(gap.period);
            gap.micros = gap.period.micros();
            part.is_some()
        });
        let covered = self.periods().into_iter();
        let covered = covered.filter_map(|period| period.overlap(Period::new(from, to)));
        gaps.extend(self.sparse_gaps(covered));
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

/// Returns the permitted deviation of a tick in microseconds, given its interval.
fn slack(interval: i64) -> i64 {
    let cadence = Cadence::new(Duration::from_micros(interval.unsigned_abs()));
    i64::try_from(cadence.imported_slack().as_micros()).unwrap_or(i64::MAX)
}

fn time(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Coverage of ticks at these seconds, each of which covers a minute.
    fn ticks(seconds: &[i64]) -> ImportedCoverage {
        let tick = |second: &i64| {
            let at = Timestamp::from_second(*second).unwrap();
            ImportedCoverage::of_tick(at, Micros::from_secs(60))
        };
        let mut ticks = seconds.iter().map(tick);
        let first = ticks.next().unwrap();
        ticks.fold(first, |mut all, tick| {
            all.merge(&tick);
            all
        })
    }

    #[test]
    fn ticks_of_another_file_fill_the_gaps_between_these() {
        let check = |one: &[i64], other: &[i64], gaps: &[(i64, i64)], overlap: u64| {
            let mut all = ticks(one);
            all.merge(&ticks(other));
            let gaps: Vec<_> = gaps
                .iter()
                .map(|(a, b)| (a * 1_000_000, b * 1_000_000))
                .collect();
            let found: Vec<_> = all.gaps.iter().map(|(_, from, to)| (*from, *to)).collect();
            assert_eq!(
                (found, all.overlap),
                (gaps, overlap * 1_000_000),
                "{one:?} {other:?}"
            );
        };
        // Two collectors that took turns.
        check(&[0, 120, 240], &[60, 180], &[], 0);
        check(&[0, 120, 240], &[60, 180, 300], &[], 0);
        // A gap that neither of them covers.
        check(&[0, 300], &[60], &[(120, 300)], 0);
        check(&[0, 300], &[60, 420], &[(120, 300), (360, 420)], 0);
        // Both at the same time.
        check(&[0, 60, 120], &[0, 60, 120], &[], 180);
        check(&[0, 60, 120], &[30], &[], 60);
    }
}
