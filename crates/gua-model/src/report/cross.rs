//! Time crossed with GPUs and people: what each GPU did and each person had in every column of time, be that an hour of
//! the day, an hour of the week, or a slot of the calendar.

use std::collections::{BTreeMap, HashMap};

use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};

use super::{Holds, Sums};
use crate::id::GpuUuid;
use crate::total::OwnerTotal;
use crate::unit::Micros;

/// What the columns of time are.
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
    /// Which column a local time belongs to, in a window whose slot of that time begins at `slot`.
    #[must_use]
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
    #[must_use]
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

/// What one column of time has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CrossRow {
    pub sums: Sums,
    pub gap: Micros,
    /// In the order of [`super::Report::cards`].
    pub cards: Vec<GpuCross>,
    /// In the order of [`super::Report::people`].
    pub people: Vec<OwnerTotal>,
}

/// What one column of time has of one GPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GpuCross {
    pub sums: Sums,
    pub gap: Micros,
}

/// The columns in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct CrossFold {
    columns: BTreeMap<Column, CrossSums>,
}

#[derive(Clone, Debug, Default)]
struct CrossSums {
    sums: Sums,
    cards: HashMap<GpuUuid, Sums>,
    people: Holds,
}

impl CrossFold {
    /// Adds to a column: to its sums and to those of a GPU alike, and to the people in it.
    pub(super) fn add(
        &mut self,
        column: Column,
        gpu: &GpuUuid,
        sums: impl Fn(&mut Sums),
        people: impl FnOnce(&mut Holds),
    ) {
        let here = self.columns.entry(column).or_default();
        sums(&mut here.sums);
        match here.cards.get_mut(gpu) {
            Some(card) => sums(card),
            None => sums(here.cards.entry(gpu.clone()).or_default()),
        }
        people(&mut here.people);
    }

    /// The columns in order, with GPUs and people in the order of the report; gaps are not known here.
    pub(super) fn rows(
        &self,
        columns: &[Column],
        cards: &[GpuUuid],
        people: &[String],
    ) -> Vec<CrossRow> {
        let nothing = CrossSums::default();
        let row = |column: &Column| {
            let here = self.columns.get(column).unwrap_or(&nothing);
            let card = |gpu: &GpuUuid| GpuCross {
                sums: here.cards.get(gpu).cloned().unwrap_or_default(),
                gap: Micros(0),
            };
            CrossRow {
                sums: here.sums.clone(),
                gap: Micros(0),
                cards: cards.iter().map(card).collect(),
                people: people.iter().map(|name| here.people.get(name)).collect(),
            }
        };
        columns.iter().map(row).collect()
    }
}
