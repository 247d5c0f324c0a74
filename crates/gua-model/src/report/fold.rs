//! Quarter hours in, the sums of a report out, in one pass and in memory that does not grow with the window.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::{HeatCell, HeatMap, Holds, HourRow, PersonNames, Sums};
use crate::calendar::{CalendarUnit, label_at};
use crate::id::GpuUuid;
use crate::legacy::{LegacyCount, LegacyKey};
use crate::period::Quarter;
use crate::state::{RollUp, State};
use crate::total::QuarterTotal;

/// What a report is asked for.
#[derive(Clone, Debug)]
pub struct Question {
    pub zone: TimeZone,
    /// Only these cards; all where `None`.
    pub gpus: Option<BTreeSet<GpuUuid>>,
    /// Only this person's part.
    pub person: Option<String>,
    /// How the window is cut.
    pub unit: CalendarUnit,
    /// What each old card-tick stands for, instead of what was recorded.
    pub interval: Option<Duration>,
    pub by_hour: bool,
}

/// The sums in the making.
#[derive(Debug)]
pub struct ReportFold {
    question: Question,
    names: PersonNames,
    pub all: Sums,
    pub cards: BTreeMap<GpuUuid, Sums>,
    pub people: Holds,
    pub heat: HeatMap,
    pub slots: BTreeMap<DateTime, Sums>,
    hours: Vec<HourSums>,
    /// The quarter that was last looked up, and where it belongs.
    place: Option<(Quarter, Place)>,
}

#[derive(Debug, Default)]
struct HourSums {
    sums: Sums,
    cards: HashMap<GpuUuid, Sums>,
    people: Holds,
}

/// Where a quarter hour stands on the wall.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: DateTime,
    weekday: usize,
    hour: usize,
}

impl ReportFold {
    #[must_use]
    pub fn new(question: Question, names: PersonNames) -> Self {
        let hours = if question.by_hour { 24 } else { 0 };
        Self {
            question,
            names,
            all: Sums::default(),
            cards: BTreeMap::new(),
            people: Holds::default(),
            heat: HeatMap::default(),
            slots: BTreeMap::new(),
            hours: std::iter::repeat_with(HourSums::default)
                .take(hours)
                .collect(),
            place: None,
        }
    }

    /// Adds what own ticks have of one card in one quarter hour, or in the part of it that lies in the window.
    pub fn own(&mut self, quarter: Quarter, gpu: &GpuUuid, total: &QuarterTotal) {
        if !self.wants(gpu) {
            return;
        }
        let place = self.place_of(quarter);
        let names = &mut self.names;
        let narrowed = self.question.person.as_ref().map(|person| {
            // What the cards did is not one person's: only what the person had of them is told.
            let mut owners = total.owners.clone();
            owners.retain(|owner, _| names.of(*owner) == person.as_str());
            QuarterTotal {
                owners,
                ..QuarterTotal::default()
            }
        });
        let cell = &mut self.heat.cells[place.weekday][place.hour];
        if self.question.person.is_some() {
            // Of all that was observed, also where the person had nothing.
            cell.observed += total.card.observed;
        }
        let total = narrowed.as_ref().unwrap_or(total);
        if self.question.person.is_some() && total.owners.is_empty() {
            return;
        }
        self.all.add(total);
        entry(&mut self.cards, gpu).add(total);
        self.slots.entry(place.slot).or_default().add(total);
        for (owner, sums) in &total.owners {
            self.people.of(self.names.of(*owner)).add(sums);
        }
        let cell = &mut self.heat.cells[place.weekday][place.hour];
        if self.question.person.is_some() {
            cell.active += total.owners.values().map(|owner| owner.held).sum();
        } else {
            own_heat(cell, total);
        }
        if let Some(hour) = self.hours.get_mut(place.hour) {
            hour.sums.add(total);
            hour.cards.entry(gpu.clone()).or_default().add(total);
            for (owner, sums) in &total.owners {
                hour.people.of(self.names.of(*owner)).add(sums);
            }
        }
    }

    /// Adds what old rows have of one card and run in one quarter hour.
    pub fn old(&mut self, key: &LegacyKey, count: &LegacyCount) {
        if !self.wants(&key.gpu) {
            return;
        }
        let place = self.place_of(key.quarter);
        let interval = self.question.interval.unwrap_or(key.run.interval);
        let nanos = interval.as_nanos();
        let narrowed = self.question.person.as_ref().map(|person| {
            let mut count = LegacyCount {
                identities: count.identities.clone(),
                ..LegacyCount::default()
            };
            count
                .identities
                .retain(|name, _| PersonNames::of_old(name.as_deref()) == person.as_str());
            count
        });
        let cell = &mut self.heat.cells[place.weekday][place.hour];
        cell.old_rows += count.rows;
        cell.old_nanos += u128::from(count.rows) * nanos;
        let count = narrowed.as_ref().unwrap_or(count);
        if self.question.person.is_some() && count.identities.is_empty() {
            return;
        }
        self.all.add_old(count, nanos);
        entry(&mut self.cards, &key.gpu).add_old(count, nanos);
        self.slots
            .entry(place.slot)
            .or_default()
            .add_old(count, nanos);
        for (name, identity) in &count.identities {
            self.people
                .of(PersonNames::of_old(name.as_deref()))
                .add_old(identity.ticks, identity.idle_held, nanos);
        }
        let cell = &mut self.heat.cells[place.weekday][place.hour];
        let active = match &self.question.person {
            None => count.active_rows,
            Some(_) => count
                .identities
                .values()
                .map(|identity| identity.ticks)
                .sum(),
        };
        cell.old_active_rows += active;
        cell.old_active_nanos += u128::from(active) * nanos;
        if let Some(hour) = self.hours.get_mut(place.hour) {
            hour.sums.add_old(count, nanos);
            hour.cards
                .entry(key.gpu.clone())
                .or_default()
                .add_old(count, nanos);
            for (name, identity) in &count.identities {
                hour.people
                    .of(PersonNames::of_old(name.as_deref()))
                    .add_old(identity.ticks, identity.idle_held, nanos);
            }
        }
    }

    /// The hours of the day, with cards and people in the order of the report.
    #[must_use]
    pub fn hours(&self, cards: &[GpuUuid], people: &[String]) -> Vec<HourRow> {
        let row = |(hour, sums): (i8, &HourSums)| HourRow {
            hour,
            sums: sums.sums.clone(),
            cards: cards
                .iter()
                .map(|gpu| sums.cards.get(gpu).cloned().unwrap_or_default())
                .collect(),
            people: people.iter().map(|name| sums.people.get(name)).collect(),
        };
        (0..).zip(&self.hours).map(row).collect()
    }

    #[must_use]
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// Whether a card was asked for.
    #[must_use]
    pub fn wants(&self, gpu: &GpuUuid) -> bool {
        self.question
            .gpus
            .as_ref()
            .is_none_or(|gpus| gpus.contains(gpu))
    }

    fn place_of(&mut self, quarter: Quarter) -> Place {
        if let Some((known, place)) = self.place
            && known == quarter
        {
            return place;
        }
        let local = quarter.period().from().to_zoned(self.question.zone.clone());
        let place = Place {
            slot: label_at(&local, self.question.unit),
            weekday: usize::from(local.weekday().to_sunday_zero_offset().unsigned_abs()),
            hour: usize::from(local.hour().unsigned_abs()),
        };
        self.place = Some((quarter, place));
        place
    }
}

/// Looked up before it is inserted, so that a known card costs no copy of its name.
fn entry<'a>(cards: &'a mut BTreeMap<GpuUuid, Sums>, gpu: &GpuUuid) -> &'a mut Sums {
    if !cards.contains_key(gpu) {
        cards.insert(gpu.clone(), Sums::default());
    }
    cards
        .get_mut(gpu)
        .expect("it was inserted if it was not there")
}

fn own_heat(cell: &mut HeatCell, total: &QuarterTotal) {
    for ((state, _), sums) in &total.states {
        if *state == State::Unobserved {
            continue;
        }
        cell.observed += sums.micros;
        if state.roll_up() == Some(RollUp::Active) {
            cell.active += sums.micros;
        }
    }
}

#[cfg(test)]
mod tests;
