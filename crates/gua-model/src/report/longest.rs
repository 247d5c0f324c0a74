//! The lists of holds of a report: those that are current, the longest of the past, and the sessions of charts. Memory
//! does not grow with the number of short sessions.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::Hold;
use super::charted::Charted;
use super::sessions::{is_without_use, percent};
use crate::period::Period;
use crate::session::SessionOutline;
use crate::state::Thresholds;
use crate::unit::Micros;

/// Maximum number of ended holders that are listed; they are counted beyond that.
pub const PAST_LISTED: usize = 1000;

/// The holds of a report while they are collected.
#[derive(Clone, Debug)]
pub struct HoldLists {
    current: Vec<Hold>,
    /// The longest past holds, the longest first.
    #[expect(clippy::vec_box, reason = "an insertion moves the holds after it")]
    past: Vec<Box<Hold>>,
    past_count: usize,
    /// The greatest lengths of wanted sessions, as many as are listed.
    lengths: BinaryHeap<Reverse<Micros>>,
    /// The sessions that charts draw, if they were requested.
    charted: Option<Charted>,
    sessions: usize,
}

impl HoldLists {
    /// Creates the lists of a report. If there is a period `charted`, they include its sessions for charts.
    pub fn new(charted: Option<Period>) -> Self {
        Self {
            current: Vec::new(),
            past: Vec::new(),
            past_count: 0,
            lengths: BinaryHeap::new(),
            charted: charted.map(Charted::new),
            sessions: 0,
        }
    }

    /// Returns whether an ended session that charts do not need may be listed. If not, it is counted here and must not be pushed.
    pub fn wants(&mut self, ended: &SessionOutline<'_>, thresholds: &Thresholds) -> bool {
        let length = ended.period.micros();
        let util = ended.util.map(percent);
        let is_without_use = is_without_use(util, ended.peak_memory, true, thresholds);
        if is_without_use && self.is_long(length) {
            self.lengths.push(Reverse(length));
            if self.lengths.len() > PAST_LISTED {
                self.lengths.pop();
            }
            return true;
        }
        self.count(length, is_without_use);
        false
    }

    /// Returns whether a session of this length that was wanted is still among the longest. If not, it is counted here and must
    /// not be pushed.
    pub fn still_wants(&mut self, length: Micros) -> bool {
        let is_listed = self.is_long(length);
        if !is_listed {
            self.count(length, true);
        }
        is_listed
    }

    fn is_long(&self, length: Micros) -> bool {
        let shortest = self.lengths.peek();
        self.lengths.len() < PAST_LISTED || shortest.is_none_or(|shortest| length >= shortest.0)
    }

    /// Counts a hold. One of length zero, seen in one tick only, is not counted as a session.
    fn count(&mut self, length: Micros, is_without_use: bool) {
        self.past_count += usize::from(is_without_use);
        self.sessions += usize::from(length.0 > 0);
    }

    pub fn push(&mut self, hold: &Hold, thresholds: &Thresholds) {
        let is_without_use = !hold.current && hold.is_without_use(thresholds);
        self.count(hold.period.micros(), is_without_use);
        if hold.current {
            self.current.push(hold.clone());
        } else if is_without_use {
            self.push_past(hold);
        }
        if let Some(charted) = &mut self.charted
            && !hold.period.is_empty()
        {
            charted.push(hold, thresholds);
        }
    }

    fn push_past(&mut self, hold: &Hold) {
        let place = (self.past).partition_point(|kept| order(kept, hold) == Ordering::Less);
        if place < PAST_LISTED {
            self.past.insert(place, Box::new(hold.clone()));
            self.past.truncate(PAST_LISTED);
        }
    }

    #[must_use]
    pub fn finish(mut self) -> HeldLists {
        self.current.sort_by(order);
        HeldLists {
            current: self.current,
            past: self.past.into_iter().map(|hold| *hold).collect(),
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
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::period::Period;
    use crate::session::UtilSource;
    use crate::unit::{Bytes, Centipercent, Micros};

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

    #[test]
    fn counting_outlines_gives_the_lists_of_whole_sessions() {
        let thresholds = Thresholds::default();
        let every = HoldLists::new(None);
        let (mut all, mut wanted, mut candidates) = (every.clone(), every, Vec::new());
        let count = 4 * i64::try_from(PAST_LISTED).unwrap();
        for number in 0..count {
            let mut hold = hold(0, "ada", number * 7 % 100, number);
            let busy = Centipercent(if number % 3 == 0 { 9_000 } else { 0 });
            let outline = SessionOutline {
                gpu: &hold.gpu.clone(),
                period: hold.period,
                util: Some(busy),
                peak_memory: (number % 5 != 0).then_some(Bytes(1 << (number % 40))),
            };
            hold.util = Some((percent(busy), UtilSource::Process));
            hold.peak_memory = outline.peak_memory;
            all.push(&hold, &thresholds);
            if wanted.wants(&outline, &thresholds) {
                candidates.push(hold);
            }
        }
        candidates.retain(|hold| wanted.still_wants(hold.period.micros()));
        for hold in &candidates {
            wanted.push(hold, &thresholds);
        }
        let read = candidates.len();
        let (all, wanted) = (all.finish(), wanted.finish());
        assert_eq!(all.past, wanted.past);
        assert_eq!(all.past.len(), PAST_LISTED);
        assert_eq!(all.past_count, wanted.past_count);
        assert_eq!(all.session_count, wanted.session_count);
        assert!(
            read < PAST_LISTED + 50,
            "{read} of {count} sessions were read"
        );
    }

    #[test]
    fn a_wanted_session_is_not_counted_before_it_is_read() {
        let thresholds = Thresholds::default();
        let mut lists = HoldLists::new(None);
        let hold = hold(0, "ada", 3, 0);
        let outline = SessionOutline {
            gpu: &hold.gpu,
            period: hold.period,
            util: Some(Centipercent(0)),
            peak_memory: None,
        };
        assert!(lists.wants(&outline, &thresholds));
        assert!(lists.still_wants(hold.period.micros()));
        let lists = lists.finish();
        assert_eq!((lists.past_count, lists.session_count), (0, 0));
    }
}
