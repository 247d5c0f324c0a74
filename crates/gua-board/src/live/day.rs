//! Day strip of a GPU: its availability group in each quarter hour of the last 24 hours, as pages draw it.
//!
//! A closed quarter keeps only the group that the GPU was in for most of the observed time, so that the strips of 100,000
//! GPUs fit into memory. The strip is for display only; hours are computed from the history.

use std::collections::HashMap;

use gua_model::GpuUuid;
use serde::{Deserialize, Serialize};

use crate::availability::Group;

/// Seconds of one slot.
const SLOT_SECONDS: i64 = 15 * 60;
/// Slots of a day.
pub const SLOTS: usize = 96;
/// Marks a slot without an observation.
const NONE: u8 = u8::MAX;

/// The last day of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    /// Ring of slots that are over, each with the number of a group.
    cells: [u8; SLOTS],
    /// Slot that is being observed; slots of a day before it are in `cells`.
    open: i64,
    /// Observed seconds of the open slot in each group.
    seconds: [u16; Group::ALL.len()],
}

/// Stored form of a [`Day`]: a letter for each slot, oldest first.
#[derive(Deserialize, Serialize)]
struct Stored {
    open: i64,
    seconds: Vec<u16>,
    cells: String,
}

impl Default for Day {
    fn default() -> Self {
        Self {
            cells: [NONE; SLOTS],
            open: i64::MIN,
            seconds: [0; Group::ALL.len()],
        }
    }
}

impl Day {
    /// Adds a period in which the GPU was in a group. The part before the open slot is ignored.
    pub fn add(&mut self, group: Group, from: i64, until: i64) {
        let mut from = from;
        while from < until {
            let slot = from.div_euclid(SLOT_SECONDS);
            let end = until.min((slot + 1) * SLOT_SECONDS);
            if slot > self.open {
                self.advance(slot);
            }
            if slot == self.open {
                let seconds = u16::try_from(end - from).expect("a slot is short");
                let sum = &mut self.seconds[group as usize];
                *sum = sum.saturating_add(seconds);
            }
            from = end;
        }
    }

    /// Closes the open slot and opens a later one. Slots in between were not observed.
    fn advance(&mut self, slot: i64) {
        let passed = slot.saturating_sub(self.open);
        match usize::try_from(passed) {
            Ok(passed) if passed <= SLOTS => {
                self.cells[place(self.open)] = most(&self.seconds);
                for step in 1..passed {
                    self.cells[place(slot - i64::try_from(step).expect("a day"))] = NONE;
                }
            }
            _ => self.cells = [NONE; SLOTS],
        }
        self.open = slot;
        self.seconds = [0; Group::ALL.len()];
    }

    /// Returns the predominant group of each slot of a day, oldest first, up to the slot that contains `until`; `None` for a slot that
    /// was not observed.
    pub fn cells(&self, until: i64) -> impl Iterator<Item = Option<Group>> + '_ {
        let last = until.div_euclid(SLOT_SECONDS);
        let count = i64::try_from(SLOTS).expect("a day has few slots");
        (last - count + 1..=last).map(move |slot| {
            let number = match slot.cmp(&self.open) {
                std::cmp::Ordering::Equal => most(&self.seconds),
                std::cmp::Ordering::Less if slot >= self.open.saturating_sub(count) => {
                    self.cells[place(slot)]
                }
                _ => NONE,
            };
            Group::ALL.get(usize::from(number)).copied()
        })
    }

    /// Adds the slots that were observed before this strip began.
    pub(super) fn add_earlier(&mut self, earlier: &Day) {
        let mut joined = earlier.clone();
        if self.open > joined.open {
            joined.advance(self.open);
        }
        if self.open == joined.open {
            for (sum, own) in joined.seconds.iter_mut().zip(self.seconds) {
                *sum = sum.saturating_add(own);
            }
        }
        for (cell, own) in joined.cells.iter_mut().zip(self.cells) {
            if own != NONE {
                *cell = own;
            }
        }
        *self = joined;
    }
}

/// Number of the group with the most seconds.
fn most(seconds: &[u16]) -> u8 {
    let found = (0..seconds.len()).max_by_key(|group| (seconds[*group], seconds.len() - group));
    match found {
        Some(group) if seconds[group] > 0 => u8::try_from(group).expect("there are few groups"),
        _ => NONE,
    }
}

fn place(slot: i64) -> usize {
    let count = i64::try_from(SLOTS).expect("a day has few slots");
    usize::try_from(slot.rem_euclid(count)).expect("a remainder is not negative")
}

/// Encodes the day strips of a host's GPUs.
pub(super) fn write(days: &HashMap<GpuUuid, Day>) -> Vec<u8> {
    let letter = |number: u8| match number {
        NONE => '-',
        number => char::from(b'0' + number),
    };
    let stored = |day: &Day| Stored {
        open: day.open,
        seconds: day.seconds.to_vec(),
        cells: day.cells.iter().map(|number| letter(*number)).collect(),
    };
    let days: HashMap<&str, Stored> = days
        .iter()
        .map(|(uuid, day)| (uuid.as_str(), stored(day)))
        .collect();
    serde_json::to_vec(&days).expect("texts and numbers are always JSON")
}

/// Decodes the output of [`write()`]. Unreadable parts are left out, which makes a strip shorter.
pub(super) fn read(stored: &[u8]) -> Vec<(GpuUuid, Day)> {
    let days: HashMap<String, Stored> = serde_json::from_slice(stored).unwrap_or_default();
    let day = |stored: Stored| {
        let mut day = Day {
            open: stored.open,
            ..Day::default()
        };
        let number = |letter: u8| match letter {
            b'0'..=b'9' => letter - b'0',
            _ => NONE,
        };
        for (cell, letter) in day.cells.iter_mut().zip(stored.cells.bytes()) {
            *cell = number(letter);
        }
        for (sum, seconds) in day.seconds.iter_mut().zip(stored.seconds) {
            *sum = seconds;
        }
        day
    };
    let days = days.into_iter();
    days.filter_map(|(uuid, stored)| Some((uuid.parse().ok()?, day(stored))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Start of a slot.
    const START: i64 = 1_790_000_100;

    /// The last slots, one letter each.
    fn shown(day: &Day, until: i64, count: usize) -> String {
        let cells = day.cells(until).skip(SLOTS - count);
        cells
            .map(|cell| match cell {
                Some(Group::Free) => 'f',
                Some(Group::IdleHeld) => 'i',
                Some(Group::InUse) => 'u',
                Some(_) => 'x',
                None => '-',
            })
            .collect()
    }

    #[test]
    fn a_slot_shows_what_most_of_its_observed_time_was() {
        assert_eq!(START % SLOT_SECONDS, 0);
        let mut day = Day::default();
        assert_eq!(shown(&day, START, 4), "----");
        day.add(Group::Free, START, START + 300);
        day.add(Group::InUse, START + 300, START + 1000);
        assert_eq!(shown(&day, START + 899, 3), "--u");
        // 100 s of the next slot.
        assert_eq!(shown(&day, START + 1000, 3), "-uu");
        day.add(Group::IdleHeld, START + 1100, START + 1400);
        assert_eq!(shown(&day, START + 1400, 3), "-ui");
        // Nobody observed the next two slots.
        day.add(Group::Free, START + 4 * 900, START + 4 * 900 + 1);
        assert_eq!(shown(&day, START + 4 * 900, 6), "-ui--f");
        // The past is not changed.
        day.add(Group::InUse, START, START + 900);
        assert_eq!(shown(&day, START + 4 * 900, 6), "-ui--f");
        let later = START + 100 * 900;
        day.add(Group::Free, later, later + 1);
        assert_eq!(shown(&day, later, 96), format!("{}f", "-".repeat(95)));
    }

    #[test]
    fn a_stored_day_is_continued_after_a_restart() {
        let uuid: GpuUuid = "GPU-a".parse().unwrap();
        let mut day = Day::default();
        day.add(Group::InUse, START, START + 900);
        day.add(Group::Free, START + 900, START + 1000);
        let stored = write(&HashMap::from([(uuid.clone(), day.clone())]));
        assert_eq!(read(&stored), [(uuid, day.clone())]);
        assert_eq!(read(b"damage"), []);

        let mut again = Day::default();
        again.add(Group::IdleHeld, START + 1300, START + 1800);
        again.add_earlier(&day);
        assert_eq!(shown(&again, START + 1800, 4), "-ui-");
        // Both parts of the same slot count.
        let mut again = Day::default();
        again.add(Group::IdleHeld, START + 1700, START + 1750);
        again.add_earlier(&day);
        assert_eq!(shown(&again, START + 1750, 3), "-uf");
    }
}
