//! Idle floor: the power that a GPU draws when truly idle. It is the first percentile of the power readings during the
//! GPU's truly-idle time over the last seven days. Until an hour of truly-idle time has been observed there is no
//! floor, and no GPU is classified as stalled.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::span::Span;
use crate::state::State;
use crate::unit::{Micros, Milliwatts};

/// Number of days considered, including today.
const DAYS: i64 = 7;
/// Minimum truly-idle time for a floor.
const ENOUGH: Micros = Micros::from_secs(3600);
/// Share of the time that lies at or below the floor, as one in this many.
const LOWEST: u128 = 100;

/// Estimates the idle floor of one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleFloor {
    days: BTreeMap<UtcDay, BTreeMap<u64, Micros>>,
}

/// Whole days since 1970 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UtcDay(pub i64);

impl UtcDay {
    pub fn of(at: Timestamp) -> Self {
        Self(at.as_second().div_euclid(86_400))
    }
}

/// One bar of a day's histogram, as stored in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloorRow {
    pub day: UtcDay,
    pub watts: u64,
    pub micros: Micros,
}

impl IdleFloor {
    /// Restores the state from stored rows. Rows of the same day and power are added.
    pub fn restore(rows: impl IntoIterator<Item = FloorRow>) -> Self {
        let mut floor = Self::default();
        for row in rows {
            floor.add(row);
        }
        floor
    }

    /// Adds a span of the GPU. It counts only if it was truly idle throughout, at the power that its tick read.
    pub fn push(&mut self, span: &Span) {
        let [share] = span.shares.as_slice() else {
            return;
        };
        let (State::TrulyIdle, Ok(power)) = (share.verdict.state, share.verdict.evidence.power)
        else {
            return;
        };
        self.add(FloorRow {
            day: UtcDay::of(span.from),
            watts: power.0 / 1000,
            micros: span.period().micros(),
        });
    }

    /// Returns the floor as of a day; `None` until enough time was observed.
    pub fn floor(&self, today: UtcDay) -> Option<Milliwatts> {
        let mut by_power: BTreeMap<u64, Micros> = BTreeMap::new();
        let first = UtcDay(today.0.saturating_sub(DAYS - 1)).min(today);
        let recent = self.days.range(first..=today);
        for (watts, micros) in recent.flat_map(|(_, bars)| bars) {
            *by_power.entry(*watts).or_default() += *micros;
        }
        let whole: Micros = by_power.values().copied().sum();
        if whole < ENOUGH {
            return None;
        }
        let mut below = 0u128;
        by_power.into_iter().find_map(|(watts, micros)| {
            below += u128::from(micros.0);
            (below * LOWEST >= u128::from(whole.0))
                .then_some(Milliwatts(watts.saturating_mul(1000)))
        })
    }

    /// Returns the rows to store, ordered by day and power.
    pub fn rows(&self) -> impl Iterator<Item = FloorRow> {
        self.days.iter().flat_map(|(day, bars)| {
            bars.iter().map(|(watts, micros)| FloorRow {
                day: *day,
                watts: *watts,
                micros: *micros,
            })
        })
    }

    fn add(&mut self, row: FloorRow) {
        let bars = self.days.entry(row.day).or_default();
        *bars.entry(row.watts).or_default() += row.micros;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{fold, ticks};
    use crate::state::Thresholds;

    /// Compares `day watts minutes | …` with the floor in watts at a day.
    #[track_caller]
    fn check(seen: &str, today: i64, watts: Option<u64>) {
        let rows = seen.split('|').map(|row| {
            let numbers: Vec<u64> = row
                .split_whitespace()
                .map(|word| word.parse().unwrap())
                .collect();
            FloorRow {
                day: UtcDay(i64::try_from(numbers[0]).unwrap()),
                watts: numbers[1],
                micros: Micros::from_secs(numbers[2] * 60),
            }
        });
        let floor = IdleFloor::restore(rows);
        let expected = watts.map(|watts| Milliwatts(watts * 1000));
        assert_eq!(floor.floor(UtcDay(today)), expected, "{seen}");
        assert_eq!(IdleFloor::restore(floor.rows()), floor);
    }

    #[test]
    fn the_floor_needs_an_hour_of_truly_idle_time() {
        check("10 60 59", 10, None);
        check("10 60 60", 10, Some(60));
        check("9 60 30 | 10 60 30", 10, Some(60));
    }

    #[test]
    fn the_floor_is_the_lowest_hundredth_and_not_the_lowest_reading() {
        check("10 20 1 | 10 60 98 | 10 90 1", 10, Some(20));
        check("10 20 1 | 10 60 198 | 10 90 1", 10, Some(60));
    }

    #[test]
    fn only_spans_that_were_truly_idle_throughout_teach_the_floor() {
        let history = "0 gpu0 power=61; 30 gpu0 power=20 ada:900; 60 gpu0 power=20 util=50; 90 gpu0 power=30; \
             120 gpu0 buffer=90+0; 150 gpu0; 300 gpu0 util=denied power=10";
        let mut floor = IdleFloor::default();
        for span in fold(&ticks(history), Thresholds::default()) {
            floor.push(&span);
        }
        let rows: Vec<(u64, Micros)> = floor.rows().map(|row| (row.watts, row.micros)).collect();
        assert_eq!(rows, [(61, Micros::from_secs(30))]);
    }

    #[test]
    fn days_before_the_last_seven_do_not_count_and_later_ones_neither() {
        check("3 20 600 | 4 60 600", 10, Some(60));
        check("4 20 600 | 11 10 600", 10, Some(20));
        check("3 20 600", 10, None);
    }
}
