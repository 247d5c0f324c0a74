//! Time crossed with GPUs and people: what each GPU did and each person had in every column of time, be that an hour of
//! the day, an hour of the week, or a slot of the calendar; and how gaps are divided among these columns.

use std::collections::BTreeMap;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::fold::ReportFold;
use super::{Holds, SlotRow, Sums};
use crate::calendar::{CalendarUnit, slots};
use crate::gap::Gap;
use crate::id::GpuUuid;
use crate::period::Period;
use crate::total::OwnerTotal;
use crate::unit::Micros;

/// Kind of the columns of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cross {
    /// The 24 hours of the wall clock, over all days.
    HourOfDay,
    /// The 168 hours of the week, over all weeks; Monday's midnight is the first.
    WeekHour,
    /// The slots that the window is cut into.
    Slot,
}

impl Cross {
    /// Returns the column that a local time belongs to, in a window whose slot of that time begins at `slot`.
    pub fn column(self, local: DateTime, slot: DateTime) -> Column {
        let hour = usize::from(local.hour().unsigned_abs());
        let day = usize::from(local.weekday().to_monday_zero_offset().unsigned_abs());
        match self {
            Cross::HourOfDay => Column::Hour(hour),
            Cross::WeekHour => Column::Hour(day * 24 + hour),
            Cross::Slot => Column::Slot(slot),
        }
    }

    /// All columns, in order. `slots` are those of the window.
    pub fn columns(self, slots: &[DateTime]) -> Vec<Column> {
        match self {
            Cross::HourOfDay => (0..24).map(Column::Hour).collect(),
            Cross::WeekHour => (0..7 * 24).map(Column::Hour).collect(),
            Cross::Slot => slots.iter().copied().map(Column::Slot).collect(),
        }
    }
}

/// One column of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Column {
    /// By its place in the day or the week.
    Hour(usize),
    /// By where it begins on the wall clock.
    Slot(DateTime),
}

/// Values of one column of time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CrossRow {
    pub sums: Sums,
    pub gap: Micros,
    /// Values of each GPU, in the order of [`super::Report::gpus`].
    pub gpus: Vec<GpuCross>,
    /// Values of each person, in the order of [`super::Report::people`].
    pub people: Vec<OwnerTotal>,
}

/// Values of one GPU in one column of time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GpuCross {
    pub sums: Sums,
    pub gap: Micros,
}

/// Sums of one column while they are collected.
#[derive(Clone, Debug, Default)]
pub(super) struct CrossSums {
    pub(super) sums: Sums,
    pub(super) gpus: BTreeMap<GpuUuid, Sums>,
    pub(super) people: Holds,
}

/// The columns in order, with GPUs and people in the order of the report; gaps are not known here.
pub(super) fn rows(
    crossed: &BTreeMap<Column, CrossSums>,
    columns: &[Column],
    gpus: &[GpuUuid],
    people: &[String],
) -> Vec<CrossRow> {
    let nothing = CrossSums::default();
    let row = |column: &Column| {
        let here = crossed.get(column).unwrap_or(&nothing);
        let crossed = |gpu: &GpuUuid| GpuCross {
            sums: here.gpus.get(gpu).cloned().unwrap_or_default(),
            gap: Micros(0),
        };
        CrossRow {
            sums: here.sums.clone(),
            gap: Micros(0),
            gpus: gpus.iter().map(crossed).collect(),
            people: people.iter().map(|name| here.people.get(name)).collect(),
        }
    };
    columns.iter().map(row).collect()
}

/// One row for every hour, day, week or month of the known part of a window, also without any observation.
pub fn slot_rows(fold: &ReportFold, known: Period, gaps: &[&Gap]) -> Vec<SlotRow> {
    let mut rows: Vec<SlotRow> = Vec::new();
    for slot in slots(known, &fold.scope().zone, fold.scope().unit) {
        // An hour that the clock repeats is one row: its sums are kept by its label.
        match rows.last_mut() {
            Some(last) if last.label == slot.label => {
                last.period = Period::new(last.period.from(), slot.period.to());
            }
            _ => rows.push(SlotRow {
                label: slot.label,
                period: slot.period,
                sums: fold.slots.get(&slot.label).cloned().unwrap_or_default(),
                gap: Micros(0),
            }),
        }
    }
    add_gaps(&mut rows, gaps);
    rows
}

/// Adds gaps to the slots that they overlap.
pub(super) fn add_gaps(rows: &mut [SlotRow], gaps: &[&Gap]) {
    for gap in gaps {
        for (place, micros) in in_slots(gap, rows) {
            rows[place].gap += micros;
        }
    }
}

/// Columns of time crossed with GPUs and people, with the gaps of each GPU; empty unless the scope asks for it.
pub fn cross_rows<'a>(
    fold: &ReportFold,
    slots: &[SlotRow],
    gpus: &[GpuUuid],
    people: &[String],
    gaps: &dyn Fn(&GpuUuid) -> &'a [Gap],
) -> Vec<CrossRow> {
    let Some(cross) = fold.scope().cross else {
        return Vec::new();
    };
    let labels: Vec<DateTime> = slots.iter().map(|slot| slot.label).collect();
    let mut rows = rows(&fold.crossed, &cross.columns(&labels), gpus, people);
    for (place, gpu) in gpus.iter().enumerate() {
        for gap in gaps(gpu) {
            let parts = match cross {
                Cross::Slot => in_slots(gap, slots),
                Cross::HourOfDay | Cross::WeekHour => in_hours(gap, &fold.scope().zone, cross),
            };
            for (column, micros) in parts {
                let row = &mut rows[column];
                row.gap += micros;
                row.gpus[place].gap += micros;
            }
        }
    }
    rows
}

/// Divides a gap among slots. Of a gap shorter than its period only the sum is known: it goes to the first slots.
fn in_slots(gap: &Gap, rows: &[SlotRow]) -> Vec<(usize, Micros)> {
    let first = rows.partition_point(|row| row.period.to() <= gap.period.from());
    let overlapping = rows[first..]
        .iter()
        .map_while(|row| row.period.overlap(gap.period));
    divided(gap, (first..).zip(overlapping))
}

/// Divides a gap among the hours of the day or of the week.
fn in_hours(gap: &Gap, zone: &TimeZone, cross: Cross) -> Vec<(usize, Micros)> {
    let pieces = slots(gap.period, zone, CalendarUnit::Hour).filter_map(|slot| {
        match cross.column(slot.label, slot.label) {
            Column::Hour(place) => Some((place, slot.period)),
            Column::Slot(_) => None,
        }
    });
    divided(gap, pieces)
}

fn divided(gap: &Gap, pieces: impl Iterator<Item = (usize, Period)>) -> Vec<(usize, Micros)> {
    let mut left = gap.micros;
    let mut parts = Vec::new();
    for (place, piece) in pieces {
        let here = piece.micros().min(left);
        left = Micros(left.0 - here.0);
        parts.push((place, here));
    }
    parts
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::gap::GapReason;
    use crate::report::Sums;

    #[test]
    fn a_gap_shorter_than_its_period_goes_to_the_first_slots_that_it_touches() {
        let at = |hour| Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hour);
        let hour = |hours: u64| Micros::from_secs(hours * 3600);
        let row = |from: i64| SlotRow {
            label: at(from).to_zoned(TimeZone::UTC).datetime(),
            period: Period::new(at(from), at(from + 1)),
            sums: Sums::default(),
            gap: Micros(0),
        };
        let rows = [row(0), row(1), row(2), row(3)];
        let check = |micros: Micros, expected: &[(usize, Micros)]| {
            let gap = Gap {
                period: Period::new(at(1), at(4)),
                micros,
                reason: GapReason::CollectorDown,
            };
            let found = in_slots(&gap, &rows);
            let found: Vec<_> = found.into_iter().filter(|(_, part)| part.0 > 0).collect();
            assert_eq!(found, expected);
        };
        check(hour(3), &[(1, hour(1)), (2, hour(1)), (3, hour(1))]);
        check(hour(2), &[(1, hour(1)), (2, hour(1))]);
        check(Micros(5), &[(1, Micros(5))]);
    }
}
