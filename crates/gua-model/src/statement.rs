//! A month on one page for each person: their use of the GPUs, and how the time of all GPUs is divided. Every number is one
//! of a single [`Report`] of the month, cut into days.

mod sessions;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

pub use self::sessions::{NAMED_SESSIONS, PersonSessions, SessionsByPerson};
use serde::{Deserialize, Serialize};

use crate::calendar::start_of_day;
use crate::period::Period;
use crate::quota::Standing;
use crate::report::{Hold, Host, Note, Report, UNKNOWN};
use crate::state::State;
use crate::total::OwnerTotal;
use crate::unit::{Micros, Millijoules};

/// The period of a month in a time zone.
pub fn month_period(month: Date, zone: &TimeZone) -> Period {
    let next = month.checked_add(1.month()).ok();
    let next = next.and_then(|next| start_of_day(next, zone));
    let first = start_of_day(month, zone).unwrap_or(Timestamp::MIN);
    Period::new(first, next.unwrap_or(Timestamp::MAX))
}

/// One month of one host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Statement {
    /// Its first day.
    pub month: Date,
    /// The part of it that is over.
    pub period: Period,
    pub is_over: bool,
    pub made: Timestamp,
    /// Beginning of the history, if it is after the beginning of the month.
    #[serde(default)]
    pub began: Option<Timestamp>,
    pub host: Option<Host>,
    pub gpus: usize,
    pub balance: Balance,
    /// Energy of the GPUs; `None` if none was measured.
    pub energy: Option<Millijoules>,
    /// Time in which a GPU without utilisation readings was held.
    pub unjudged: Micros,
    pub people: Vec<Account>,
    pub notes: Vec<Note>,
}

/// Account of one person for the month.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Account {
    pub name: String,
    pub sums: OwnerTotal,
    /// Every day of the month so far.
    pub days: Vec<Day>,
    /// The longest of them, as far as they lie in the month, the longest first.
    pub sessions: Vec<Hold>,
    pub session_count: usize,
    /// Limits of a month.
    pub standings: Vec<Standing>,
}

/// One day of one person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Day {
    pub date: Date,
    /// Sums of the person; `None` if no GPU was observed.
    pub sums: Option<OwnerTotal>,
}

/// Division of the time of all GPUs. Its parts add up to the capacity, to the microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// Time that is charged to people, as far as the host can name them.
    pub people: Micros,
    /// Time of owners whom nobody can name, and of GPUs that were busy without a holder.
    pub unowned: Micros,
    /// Nobody held the GPU.
    pub free: Micros,
    /// Nobody observed the GPU.
    pub gap: Micros,
    /// Time that only rows of old files know, which do not say how a GPU was shared.
    pub old: Micros,
    pub capacity: Micros,
}

impl Balance {
    pub fn of(report: &Report) -> Self {
        let named = report.people.iter().filter(|row| row.name != UNKNOWN);
        let people: Micros = named.map(|row| row.sums.charged).sum();
        let observed = report.all.observed();
        let nameless = report.people.iter().filter(|row| row.name == UNKNOWN);
        let nameless: Micros = nameless.map(|row| row.sums.charged).sum();
        Self {
            people,
            unowned: nameless + report.all.ownerless,
            free: report.all.free,
            gap: report.coverage.gap,
            old: Micros(report.coverage.observed.0.saturating_sub(observed.0)),
            capacity: report.coverage.capacity,
        }
    }

    /// Capacity less all parts, in microseconds. Anything but zero is a fault of the program, and the page would show it.
    pub fn difference(&self) -> i128 {
        let parts = [self.people, self.unowned, self.free, self.gap, self.old];
        let sum: i128 = parts.iter().map(|part| i128::from(part.0)).sum();
        i128::from(self.capacity.0) - sum
    }
}

impl Statement {
    /// The statement of all, without any person's account.
    pub fn of(report: &Report, month: Date, is_over: bool) -> Self {
        Self {
            month,
            period: report.window,
            is_over,
            made: report.made,
            began: report.began_late(),
            host: report.host.clone(),
            gpus: report.gpu_count(),
            balance: Balance::of(report),
            energy: report.all.counted_energy(),
            unjudged: report.all.state(State::HeldUnknown).micros,
            people: Vec::new(),
            notes: report.notes.clone(),
        }
    }
}

impl Account {
    /// The account of one person, from the report of all people: cut into days, and crossed with its slots.
    pub fn of(month: Date, all: &Report, name: &str, sessions: PersonSessions) -> Self {
        let place = all.people.iter().position(|row| row.name == name);
        Self {
            name: name.to_owned(),
            sums: place
                .map(|place| all.people[place].sums)
                .unwrap_or_default(),
            days: days(month, all, place),
            session_count: sessions.count,
            sessions: sessions.longest(),
            standings: Vec::new(),
        }
    }
}

/// Observed time of a session in the month. For imported rows, which have no holes of more than minutes, the time from
/// the first row to the end of the last.
pub fn session_time(hold: &Hold) -> Micros {
    hold.observed_within.unwrap_or_else(|| hold.period.micros())
}

/// The days of a month up to the last that is known, also those before the history began. `place` is that of the person in
/// the report.
fn days(month: Date, all: &Report, place: Option<usize>) -> Vec<Day> {
    let last = all.slots.last().map(|slot| slot.label.date());
    let dates = month.first_of_month().series(1.day());
    let dates = dates.take_while(|date| last.is_some_and(|last| *date <= last));
    let day = |date: Date| {
        let slot = all.slots.iter().position(|slot| slot.label.date() == date);
        let was_seen = slot.is_some_and(|slot| all.slots[slot].sums.was_seen());
        let held = || {
            let people = &all.cross.get(slot?)?.people;
            people.get(place?).copied()
        };
        Day {
            date,
            sums: was_seen.then(|| held().unwrap_or_default()),
        }
    };
    dates.map(day).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_has_the_hours_that_its_zone_gives_it() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let hours = |month: &str| month_period(month.parse().unwrap(), &zone).micros().hours();
        assert_eq!(hours("2026-03-01"), 743.0);
        assert_eq!(hours("2026-10-01"), 745.0);
        assert_eq!(hours("2026-02-01"), 672.0);
    }
}
