//! Sessions as a chart draws them. No session is left out: those that begin and end in one column of a chart, which is about
//! one pixel wide, are merged with the others of the same person, GPU and state in it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Hold;
use crate::id::GpuUuid;
use crate::period::{Period, micros_between};
use crate::session::UtilSource;
use crate::state::Thresholds;
use crate::unit::Micros;

/// Number of columns of a chart.
const COLUMNS: u64 = 1000;

/// Sessions of a chart, while they are collected.
#[derive(Clone, Debug)]
pub(super) struct Charted {
    window: Period,
    /// Sessions that extend over several columns.
    long: Vec<Hold>,
    /// The others, merged.
    short: BTreeMap<Place, Hold>,
}

/// Position of a short session in the chart, and whether the GPU was used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    gpu: GpuUuid,
    owner: Option<String>,
    is_used: bool,
    column: u64,
}

impl Charted {
    pub(super) fn new(window: Period) -> Self {
        Self {
            window,
            long: Vec::new(),
            short: BTreeMap::new(),
        }
    }

    pub(super) fn push(&mut self, hold: &Hold, thresholds: &Thresholds) {
        let whole = hold.whole();
        let (first, last) = (self.column(whole.from()), self.column(whole.to()));
        if first != last {
            return self.long.push(hold.clone());
        }
        let place = Place {
            gpu: hold.gpu.clone(),
            owner: hold.owner.clone(),
            is_used: is_used(hold, thresholds),
            column: first,
        };
        match self.short.get_mut(&place) {
            Some(merged) => merge(merged, hold),
            None => drop(self.short.insert(place, hold.clone())),
        }
    }

    /// The sessions in order of their start.
    pub(super) fn finish(self) -> Vec<Hold> {
        let mut all = self.long;
        let mut open: Option<(Place, Hold)> = None;
        for (place, hold) in self.short {
            match &mut open {
                // Bars that touch are drawn as one.
                Some((before, merged)) if is_next(before, &place) => {
                    merge(merged, &hold);
                    *before = place;
                }
                _ => all.extend(open.replace((place, hold)).map(|(_, hold)| hold)),
            }
        }
        all.extend(open.map(|(_, hold)| hold));
        all.sort_by(|one, other| {
            let when = |hold: &Hold| (hold.period, hold.pid);
            let by_time = when(one).cmp(&when(other));
            by_time.then_with(|| one.gpu.cmp(&other.gpu))
        });
        all
    }

    fn column(&self, at: Timestamp) -> u64 {
        let length = u128::from(self.window.micros().0.max(1));
        let passed = micros_between(self.window.from(), at.min(self.window.to()));
        let column = u128::from(passed.0) * u128::from(COLUMNS) / length;
        u64::try_from(column).unwrap_or(COLUMNS).min(COLUMNS - 1)
    }
}

/// Whether a GPU was in use for at least half of a session; for imported rows, whether their mean reaches the threshold.
fn is_used(hold: &Hold, thresholds: &Thresholds) -> bool {
    match (hold.active, hold.idle_held, hold.free(thresholds)) {
        (Some(active), Some(idle), Some(free)) => active >= idle + free,
        _ => hold
            .util
            .is_some_and(|(util, _)| util >= f64::from(thresholds.active_util.get())),
    }
}

fn is_next(before: &Place, place: &Place) -> bool {
    let next = Place {
        column: before.column + 1,
        ..before.clone()
    };
    *place == next
}

/// Adds a session to a bar: times and samples add up, and what differs is unknown.
fn merge(merged: &mut Hold, other: &Hold) {
    let sum = |one: Option<Micros>, other: Option<Micros>| Some(Micros(one?.0 + other?.0));
    merged.util = mean(merged, other);
    merged.period = merged.period.hull(other.period);
    merged.last_row = merged.last_row.max(other.last_row);
    merged.observed = sum(merged.observed, other.observed);
    merged.observed_within = sum(merged.observed_within, other.observed_within);
    merged.active = sum(merged.active, other.active);
    merged.idle_held = sum(merged.idle_held, other.idle_held);
    merged.peak_memory = merged.peak_memory.max(other.peak_memory);
    merged.samples += other.samples;
    merged.sessions += other.sessions;
    merged.shared |= other.shared;
    merged.current |= other.current;
    merged.idle = None;
    merged.pid = None;
    if merged.process != other.process {
        merged.process = None;
    }
    if merged.workload != other.workload {
        merged.workload = None;
    }
}

/// The mean of both, by their samples.
fn mean(one: &Hold, other: &Hold) -> Option<(f64, UtilSource)> {
    let ((first, source), (second, also)) = (one.util?, other.util?);
    let count = |hold: &Hold| u32::try_from(hold.samples).map_or(f64::from(u32::MAX), f64::from);
    let all = count(one) + count(other);
    let mean = (first * count(one) + second * count(other)) / all.max(1.0);
    let source = if source == also {
        source
    } else {
        UtilSource::Gpu
    };
    Some((mean, source))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::report::test_hold as hold;

    /// Sessions of one minute, each in the minute of its number, in a window of 30 days.
    fn charted(sessions: impl Iterator<Item = Hold>) -> Vec<Hold> {
        let from = Timestamp::UNIX_EPOCH;
        let window = Period::new(from, from + SignedDuration::from_hours(30 * 24));
        let mut charted = Charted::new(window);
        for hold in sessions {
            charted.push(&hold, &Thresholds::default());
        }
        charted.finish()
    }

    fn minute(gpu: u32, owner: &str, number: i64) -> Hold {
        let from = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(number);
        let period = Period::new(from, from + SignedDuration::from_mins(1));
        Hold {
            period,
            observed: Some(period.micros()),
            active: Some(period.micros()),
            ..hold(gpu, owner, 1, 0)
        }
    }

    #[test]
    fn no_session_is_left_out_however_many_there_are() {
        let sessions = (0..8000).map(|number| {
            let owner = ["ada", "bob", "eve"][usize::try_from(number % 3).unwrap()];
            minute(u32::try_from(number / 1000).unwrap(), owner, number * 5)
        });
        let bars = charted(sessions);
        assert_eq!(bars.iter().map(|hold| hold.sessions).sum::<u64>(), 8000);
        let active: u64 = bars.iter().map(|hold| hold.active.unwrap().0).sum();
        assert_eq!(active, 8000 * 60_000_000);
        assert!(bars.len() < 2000, "{}", bars.len());
    }

    #[test]
    fn only_sessions_of_one_person_gpu_and_state_are_merged() {
        let idle = Hold {
            active: Some(Micros(0)),
            idle_held: Some(Micros::from_secs(60)),
            ..minute(0, "ada", 2)
        };
        let sessions = [
            minute(0, "ada", 0),
            minute(0, "ada", 4),
            idle,
            minute(0, "bob", 6),
            minute(1, "ada", 8),
            // Long sessions stay as they are.
            hold(0, "ada", 5, 0),
            hold(0, "ada", 5, 0),
        ];
        let bars = charted(sessions.into_iter());
        let mut counts: Vec<u64> = bars.iter().map(|hold| hold.sessions).collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 1, 1, 1, 1, 2]);
    }

    #[test]
    fn a_session_outside_of_the_window_is_drawn_at_its_edge() {
        let bars = charted([minute(0, "ada", -90), minute(0, "ada", 100 * 24 * 60)].into_iter());
        assert_eq!(bars.len(), 2);
    }
}
