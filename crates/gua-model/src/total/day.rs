//! Sums by UTC day, made of the quarters of a completed day. Long windows read them instead of quarters.
//!
//! A day can replace its quarters only if no result depends on the position of its time within the day:
//! [`GpuDay::is_plain`]. The time of each quarter is kept for the heat map, whose hours are in the reader's time zone.

use serde::{Deserialize, Serialize};

use crate::cadence::Cadence;
use crate::floor::UtcDay;
use crate::id::GpuUuid;
use crate::period::{Period, Quarter};
use crate::state::{RollUp, State};
use crate::total::{GpuQuarter, NamedTotal, QuarterTotal};
use crate::unit::Micros;

/// One GPU over one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuDay {
    pub gpu: GpuUuid,
    pub total: QuarterTotal,
    /// The quarters of the day, in order.
    pub quarters: Vec<QuarterUse>,
}

/// Observed and active time of one quarter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarterUse {
    pub observed: Micros,
    pub active: Micros,
    /// Imported rows that the time rests on, and the active ones; none for own ticks.
    pub rows: u64,
    pub active_rows: u64,
}

impl UtcDay {
    /// Number of quarters of a day.
    pub const QUARTERS: usize = 96;

    /// Returns the day that a quarter belongs to, and the quarter's index in the day.
    pub fn of_quarter(quarter: Quarter) -> (Self, usize) {
        let place = usize::try_from(quarter.0.rem_euclid(96)).unwrap_or(0);
        (Self(quarter.0.div_euclid(96)), place)
    }

    /// Returns the first quarter of the day.
    pub fn first_quarter(self) -> Quarter {
        Quarter(self.0.saturating_mul(96))
    }

    /// Returns all quarters of the day, in order.
    pub fn quarters(self) -> impl Iterator<Item = Quarter> {
        let first = self.first_quarter().0;
        (0..96).map(move |place| Quarter(first.saturating_add(place)))
    }
}

impl QuarterUse {
    /// Returns the observed and active time of one GPU in one quarter.
    pub fn of(total: &QuarterTotal) -> Self {
        if let Some(part) = &total.imported {
            return Self {
                observed: part.row_time,
                active: part.active_time,
                rows: part.rows,
                active_rows: part.active_rows,
            };
        }
        let states = total.states.iter();
        let seen = states.filter(|((state, _), _)| *state != State::Unobserved);
        Self {
            observed: seen.map(|(_, sums)| sums.micros).sum(),
            active: total.time_in(RollUp::Active),
            ..Self::default()
        }
    }
}

impl GpuDay {
    pub fn new(gpu: GpuUuid) -> Self {
        Self {
            gpu,
            total: QuarterTotal::default(),
            quarters: vec![QuarterUse::default(); UtcDay::QUARTERS],
        }
    }

    pub fn named(&self) -> NamedTotal<'_> {
        (&self.gpu, &self.total)
    }

    /// Makes each imported tick cover `interval` instead of the recorded one.
    pub fn set_interval(&mut self, interval: Micros) {
        self.total.set_interval(interval);
        for quarter in &mut self.quarters {
            quarter.observed = interval.times(quarter.rows);
            quarter.active = interval.times(quarter.active_rows);
        }
    }

    /// Reports whether the sums of the day are equivalent to those of its quarters: all of the time between the first and
    /// the last tick was observed, or all of each quarter, apart from the time by which ticks were late. This is always
    /// true of totals of imported rows, because they store the place of every gap.
    pub fn is_plain(&self) -> bool {
        if self.total.imported.is_some() {
            return true;
        }
        let sums = &self.total.gpu;
        let is_whole =
            |quarter: &QuarterUse| quarter.observed + Cadence::JITTER >= Micros::from_secs(15 * 60);
        self.total.unobserved.is_empty()
            && (sums.hull().map(Period::micros) == Some(sums.present)
                || self.quarters.iter().all(is_whole))
    }
}

/// Builds the GPUs of one day.
#[derive(Clone, Debug, Default)]
pub struct DayTotals {
    /// Ordered by name.
    pub gpus: Vec<GpuDay>,
}

impl DayTotals {
    /// Adds a quarter of the day, with its GPUs in the order of their names.
    pub fn add(&mut self, place: usize, gpus: &[GpuQuarter]) {
        for GpuQuarter { gpu, total } in gpus {
            let at = match self.gpus.binary_search_by(|day| day.gpu.cmp(gpu)) {
                Ok(at) => at,
                Err(at) => {
                    self.gpus.insert(at, GpuDay::new(gpu.clone()));
                    at
                }
            };
            self.gpus[at].total.merge(total);
            self.gpus[at].quarters[place] = QuarterUse::of(total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_late_ticks_is_plain_and_one_with_a_hole_is_not() {
        let check = |missing: &[(usize, u64)], expected: bool| {
            let mut day = GpuDay::new("GPU-1".parse().unwrap());
            let quarters: Vec<Quarter> = UtcDay(20_000).quarters().collect();
            day.total.gpu.first = Some(quarters[0].period().from());
            day.total.gpu.last = Some(quarters[95].period().to());
            for quarter in &mut day.quarters {
                quarter.observed = Micros::from_secs(900);
            }
            for (place, micros) in missing {
                day.quarters[*place].observed.0 -= micros;
            }
            day.total.gpu.present = day.quarters.iter().map(|quarter| quarter.observed).sum();
            assert_eq!(day.is_plain(), expected, "{missing:?}");
        };
        check(&[], true);
        check(&[(0, 300), (40, 999_000), (95, 1_000_000)], true);
        check(&[(40, 1_000_001)], false);
    }
}
