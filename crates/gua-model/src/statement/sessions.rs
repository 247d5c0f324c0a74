//! The longest sessions of each person within a window, in one pass over all sessions.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::session_time;
use crate::lookup::entry;
use crate::period::Period;
use crate::report::{Hold, UNKNOWN};
use crate::unit::Micros;

/// Maximum number of sessions that a statement names for each person.
pub const NAMED_SESSIONS: usize = 6;

/// The sessions of each person while they are collected. Memory is bounded by the number of people.
#[derive(Clone, Debug)]
pub struct SessionsByPerson {
    window: Period,
    people: BTreeMap<String, PersonSessions>,
}

/// The sessions of one person.
#[derive(Clone, Debug, Default)]
pub struct PersonSessions {
    /// The longest sessions, clipped to the window, the longest first. Each has its period before clipping, which orders
    /// sessions of equal length.
    longest: Vec<(Period, Hold)>,
    pub count: usize,
}

impl SessionsByPerson {
    pub fn new(window: Period) -> Self {
        Self {
            window,
            people: BTreeMap::new(),
        }
    }

    pub fn push(&mut self, hold: &Hold) {
        // A holder that was seen in one tick only has no session.
        if hold.period.is_empty() {
            return;
        }
        let person = entry(&mut self.people, hold.owner.as_deref().unwrap_or(UNKNOWN));
        person.count += 1;
        if let Some(period) = hold.whole().overlap(self.window) {
            person.add(hold, period);
        }
    }

    pub fn of(&self, name: &str) -> PersonSessions {
        self.people.get(name).cloned().unwrap_or_default()
    }
}

impl PersonSessions {
    /// The longest sessions, the longest first.
    pub fn longest(self) -> Vec<Hold> {
        self.longest.into_iter().map(|(_, hold)| hold).collect()
    }

    /// Inserts a session in its place, cut to `period`, where it is one of the longest.
    fn add(&mut self, hold: &Hold, period: Period) {
        let cut = Hold {
            period,
            last_row: Micros(0),
            ..hold.clone()
        };
        let key = |(whole, hold): &(Period, Hold)| {
            let time = Reverse(session_time(hold));
            (time, hold.period.from(), *whole, hold.pid, hold.gpu.clone())
        };
        let own = (hold.period, cut);
        let place = self
            .longest
            .partition_point(|known| key(known) <= key(&own));
        if place < NAMED_SESSIONS {
            self.longest.insert(place, own);
            self.longest.truncate(NAMED_SESSIONS);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::report::test_hold;

    #[test]
    fn each_person_keeps_the_longest_sessions_within_the_window_and_the_number_of_all() {
        let at = |hour| Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hour);
        let mut sessions = SessionsByPerson::new(Period::new(at(100), at(200)));
        let mut push = |owner: &str, from: i64, to: i64| {
            let period = Period::new(at(from), at(to));
            let inside = period.overlap(Period::new(at(100), at(200)));
            sessions.push(&Hold {
                period,
                observed_within: inside.map(Period::micros),
                ..test_hold(0, owner, 1, 0)
            });
        };
        // The longest of all lies almost wholly before the window.
        push("ada", 0, 101);
        for hours in 1..=9 {
            push("ada", 110, 110 + hours);
        }
        push("eve", 190, 300);
        let hours = |name: &str| -> Vec<f64> {
            let longest = sessions.of(name).longest();
            longest
                .iter()
                .map(|hold| hold.period.micros().hours())
                .collect()
        };
        assert_eq!(hours("ada"), [9.0, 8.0, 7.0, 6.0, 5.0, 4.0]);
        assert_eq!(sessions.of("ada").count, 10);
        assert_eq!(hours("eve"), [10.0]);
        assert_eq!(sessions.of("nobody").count, 0);
    }
}
