//! The lists of holds of a report: those that are current, the longest of the past, and the sessions of charts. Memory
//! does not grow with the number of short sessions.

use std::cmp::Ordering;

use super::Hold;
use super::charted::Charted;
use crate::period::Period;
use crate::state::Thresholds;

/// Maximum number of ended holders that are listed; they are counted beyond that.
pub const PAST_LISTED: usize = 1000;

/// The holds of a report while they are collected.
#[derive(Clone, Debug)]
pub struct HoldLists {
    current: Vec<Hold>,
    /// The longest past holds, the longest first.
    past: Vec<Hold>,
    past_count: usize,
    /// The sessions that charts draw, if they were requested.
    charted: Option<Charted>,
    sessions: usize,
}

impl HoldLists {
    /// Creates the lists of a report. If there is a period `charted`, they include its sessions for charts.
    #[must_use]
    pub fn new(charted: Option<Period>) -> Self {
        Self {
            current: Vec::new(),
            past: Vec::new(),
            past_count: 0,
            charted: charted.map(Charted::new),
            sessions: 0,
        }
    }

    pub fn push(&mut self, hold: &Hold, thresholds: &Thresholds) {
        if hold.current {
            self.current.push(hold.clone());
        } else if hold.is_without_use(thresholds) {
            self.past_count += 1;
            self.push_past(hold);
        }
        // A holder seen in one tick only has no length to draw.
        if !hold.period.is_empty() {
            self.sessions += 1;
            if let Some(charted) = &mut self.charted {
                charted.push(hold, thresholds);
            }
        }
    }

    fn push_past(&mut self, hold: &Hold) {
        let is_longer = |kept: &Hold| order(kept, hold) == Ordering::Less;
        let place = self.past.partition_point(is_longer);
        if place < PAST_LISTED {
            self.past.insert(place, hold.clone());
            self.past.truncate(PAST_LISTED);
        }
    }

    #[must_use]
    pub fn finish(mut self) -> HeldLists {
        self.current.sort_by(order);
        HeldLists {
            current: self.current,
            past: self.past,
            past_count: self.past_count,
            sessions: self.charted.map(Charted::finish).unwrap_or_default(),
            session_count: self.sessions,
        }
    }
}

/// The holds of a report, as [`super::Report`] has them.
#[derive(Clone, Debug)]
pub struct HeldLists {
    pub current: Vec<Hold>,
    pub past: Vec<Hold>,
    pub past_count: usize,
    pub sessions: Vec<Hold>,
    pub session_count: usize,
}

/// The longest first; then by GPU, process and time.
fn order(one: &Hold, other: &Hold) -> Ordering {
    let length = |hold: &Hold| hold.period.micros();
    length(other)
        .cmp(&length(one))
        .then_with(|| one.gpu.cmp(&other.gpu))
        .then_with(|| one.pid.map(|pid| pid.0).cmp(&other.pid.map(|pid| pid.0)))
        .then_with(|| one.period.cmp(&other.period))
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::period::Period;
    use crate::unit::Micros;
    use jiff::{SignedDuration, Timestamp};

    use super::*;

    pub(crate) fn hold(gpu: u32, owner: &str, hours: i64, number: i64) -> Hold {
        let from = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(number);
        let period = Period::new(from, from + SignedDuration::from_hours(hours));
        Hold {
            gpu: format!("GPU-{gpu}").parse().unwrap(),
            index: Some(gpu),
            owner: Some(owner.to_owned()),
            by_login: true,
            process: None,
            workload: None,
            pid: None,
            period,
            last_row: Micros(0),
            util: None,
            peak_memory: None,
            samples: 1,
            shared: false,
            observed: Some(period.micros()),
            observed_within: None,
            active: Some(Micros(0)),
            idle_held: Some(Micros(0)),
            current: false,
            idle: None,
            sessions: 1,
        }
    }
}
