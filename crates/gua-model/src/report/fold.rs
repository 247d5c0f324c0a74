//! Quarter hours in, the sums of a report out, in one pass and in memory that does not grow with the window.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::cross::CrossSums;
use super::{Column, Cross, HeatMap, Holds, Sums};
use crate::calendar::{CalendarUnit, label_at};
use crate::floor::UtcDay;
use crate::id::GpuUuid;
use crate::lookup::entry;
use crate::period::Quarter;
use crate::total::{GpuDay, QuarterTotal, QuarterUse};

/// Selection of the GPUs and people that a fold counts, and its grouping of time.
#[derive(Clone, Debug)]
pub struct Scope {
    pub zone: TimeZone,
    /// Only these GPUs; all where `None`.
    pub gpus: Option<BTreeSet<GpuUuid>>,
    /// GPUs that are not counted although they were asked for, because their books do not balance.
    pub left_out: BTreeSet<GpuUuid>,
    /// Only this person's part.
    pub person: Option<String>,
    /// Length of the rows of time.
    pub unit: CalendarUnit,
    /// Columns of time that GPUs and people are crossed with.
    pub cross: Option<Cross>,
}

impl Scope {
    pub fn wants(&self, gpu: &GpuUuid) -> bool {
        let is_asked_for = self.gpus.as_ref().is_none_or(|gpus| gpus.contains(gpu));
        is_asked_for && !self.left_out.contains(gpu)
    }
}

/// The sums of a report while they are collected.
#[derive(Clone, Debug)]
pub struct ReportFold {
    scope: Scope,
    pub all: Sums,
    pub gpus: BTreeMap<GpuUuid, Sums>,
    pub people: Holds,
    pub heat: HeatMap,
    pub slots: BTreeMap<DateTime, Sums>,
    pub(super) crossed: BTreeMap<Column, CrossSums>,
    /// The quarter that was last looked up, and where it belongs.
    place: Option<(Quarter, Place)>,
}

/// Local time slot, weekday and hour of a quarter hour.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: DateTime,
    weekday: usize,
    hour: usize,
    column: Option<Column>,
}

impl ReportFold {
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            all: Sums::default(),
            gpus: BTreeMap::new(),
            people: Holds::default(),
            heat: HeatMap::default(),
            slots: BTreeMap::new(),
            crossed: BTreeMap::new(),
            place: None,
        }
    }

    /// Adds the totals of one GPU in one quarter hour, or in the part of it that lies in the window.
    pub fn add(&mut self, quarter: Quarter, gpu: &GpuUuid, total: &QuarterTotal) {
        if !self.scope.wants(gpu) {
            return;
        }
        let place = self.place_of(quarter);
        let seen = QuarterUse::of(total);
        let cell = &mut self.heat.cells[place.weekday][place.hour];
        let narrowed = match &self.scope.person {
            None => {
                cell.add(&seen);
                None
            }
            Some(person) => {
                let own = total.of_person(person);
                // Of all that was observed, also where the person had nothing.
                cell.add_observed(&seen);
                for sums in own.owners.values() {
                    cell.active += sums.held;
                    cell.active_rows += sums.imported.ticks;
                }
                if own.owners.is_empty() {
                    return;
                }
                Some(own)
            }
        };
        let total = narrowed.as_ref().unwrap_or(total);
        self.add_sums(place.slot, gpu, total);
        if let Some(column) = place.column {
            let here = self.crossed.entry(column).or_default();
            here.sums.add(total);
            entry(&mut here.gpus, gpu).add(total);
            here.people.add(total);
        }
    }

    fn add_sums(&mut self, slot: DateTime, gpu: &GpuUuid, total: &QuarterTotal) {
        self.all.add(total);
        entry(&mut self.gpus, gpu).add(total);
        self.slots.entry(slot).or_default().add(total);
        self.people.add(total);
    }

    /// Whether the sums of a day say all that this report takes from its quarters. They do not where the day lies in two
    /// rows of the report (a UTC day in two local ones), nor for one person or a table of columns, and not where a GPU was
    /// missing for a part of the day.
    #[must_use]
    pub fn takes_day(&mut self, day: UtcDay, gpus: &[GpuDay]) -> bool {
        if self.scope.person.is_some() || self.scope.cross.is_some() {
            return false;
        }
        let first = day.first_quarter();
        let last = Quarter(first.0.saturating_add(95));
        self.place_of(first).slot == self.place_of(last).slot && gpus.iter().all(GpuDay::is_plain)
    }

    /// Adds a day that [`ReportFold::takes_day`] accepts, in place of its quarters.
    pub fn day(&mut self, day: UtcDay, gpus: &[GpuDay]) {
        let slot = self.place_of(day.first_quarter()).slot;
        let wanted: Vec<&GpuDay> = gpus
            .iter()
            .filter(|gpu| self.scope.wants(&gpu.gpu))
            .collect();
        for GpuDay { gpu, total, .. } in wanted.iter().copied() {
            self.add_sums(slot, gpu, total);
        }
        for (number, quarter) in day.quarters().enumerate() {
            let place = self.place_of(quarter);
            let cell = &mut self.heat.cells[place.weekday][place.hour];
            for gpu in &wanted {
                cell.add(&gpu.quarters[number]);
            }
        }
    }

    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    fn place_of(&mut self, quarter: Quarter) -> Place {
        if let Some((known, place)) = self.place
            && known == quarter
        {
            return place;
        }
        let local = quarter.period().from().to_zoned(self.scope.zone.clone());
        let slot = label_at(&local, self.scope.unit);
        let cross = self.scope.cross;
        let place = Place {
            slot,
            weekday: usize::from(local.weekday().to_sunday_zero_offset().unsigned_abs()),
            hour: usize::from(local.hour().unsigned_abs()),
            column: cross.map(|cross| cross.column(local.datetime(), slot)),
        };
        self.place = Some((quarter, place));
        place
    }
}

#[cfg(test)]
mod tests;
