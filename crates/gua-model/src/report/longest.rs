//! Bounded lists of the longest holds: memory does not grow with the number of sessions.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use super::Hold;
use crate::id::GpuUuid;
use crate::state::Thresholds;

/// Maximum number of sessions in a chart.
pub const CHARTED: usize = 400;
/// Number of sessions of each GPU and of each person that are kept in any case, so that none is without sessions in a
/// chart beside long sessions of others.
pub const CHARTED_OF_EACH: usize = 8;
/// Maximum number of ended holders that are listed; they are counted beyond that.
pub const PAST_LISTED: usize = 1000;

/// The holds of a report while they are collected.
#[derive(Clone, Debug)]
pub struct HoldLists {
    current: Vec<Hold>,
    past: Longest,
    past_count: usize,
    charted: Longest,
    of_gpus: HashMap<GpuUuid, Longest>,
    of_people: HashMap<Option<String>, Longest>,
    sessions: usize,
}

impl Default for HoldLists {
    fn default() -> Self {
        Self {
            current: Vec::new(),
            past: Longest::new(PAST_LISTED),
            past_count: 0,
            charted: Longest::new(CHARTED),
            of_gpus: HashMap::new(),
            of_people: HashMap::new(),
            sessions: 0,
        }
    }
}

impl HoldLists {
    pub fn push(&mut self, hold: &Hold, thresholds: &Thresholds) {
        if hold.is_without_use(thresholds) {
            if hold.current {
                self.current.push(hold.clone());
            } else {
                self.past_count += 1;
                self.past.push(hold);
            }
        }
        // A holder seen in one tick only has no length to draw.
        if !hold.period.is_empty() {
            self.sessions += 1;
            self.charted.push(hold);
            let each = || Longest::new(CHARTED_OF_EACH);
            match self.of_gpus.get_mut(&hold.gpu) {
                Some(gpu) => gpu.push(hold),
                None => {
                    let gpu = self.of_gpus.entry(hold.gpu.clone());
                    gpu.or_insert_with(each).push(hold);
                }
            }
            match self.of_people.get_mut(&hold.owner) {
                Some(person) => person.push(hold),
                None => {
                    let person = self.of_people.entry(hold.owner.clone());
                    person.or_insert_with(each).push(hold);
                }
            }
        }
    }

    #[must_use]
    pub fn finish(mut self) -> HeldLists {
        self.current.sort_by(order);
        let mut charted = self.charted.into_sorted();
        let each = self
            .of_gpus
            .into_values()
            .chain(self.of_people.into_values());
        charted.extend(each.flat_map(Longest::into_sorted));
        charted.sort_by(|one, other| {
            let when = |hold: &Hold| (hold.period, hold.pid.map(|pid| pid.0));
            let by_time = when(one).cmp(&when(other));
            by_time.then_with(|| one.gpu.cmp(&other.gpu))
        });
        charted.dedup();
        HeldLists {
            holders: self.current,
            past: self.past.into_sorted(),
            past_count: self.past_count,
            sessions: charted,
            session_count: self.sessions,
        }
    }
}

/// The holds of a report, as [`super::Report`] has them.
#[derive(Clone, Debug)]
pub struct HeldLists {
    pub holders: Vec<Hold>,
    pub past: Vec<Hold>,
    pub past_count: usize,
    pub sessions: Vec<Hold>,
    pub session_count: usize,
}

/// Keeps the longest holds and drops the rest.
#[derive(Clone, Debug)]
struct Longest {
    limit: usize,
    /// The shortest is on top.
    kept: BinaryHeap<Reverse<ByLength>>,
}

#[derive(Clone, Debug)]
struct ByLength(Hold);

/// The longest first; then by GPU, process and time.
fn order(one: &Hold, other: &Hold) -> Ordering {
    let length = |hold: &Hold| hold.period.micros();
    length(other)
        .cmp(&length(one))
        .then_with(|| one.gpu.cmp(&other.gpu))
        .then_with(|| one.pid.map(|pid| pid.0).cmp(&other.pid.map(|pid| pid.0)))
        .then_with(|| one.period.cmp(&other.period))
}

impl Ord for ByLength {
    fn cmp(&self, other: &Self) -> Ordering {
        order(&other.0, &self.0)
    }
}

impl PartialOrd for ByLength {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByLength {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ByLength {}

impl Longest {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: BinaryHeap::new(),
        }
    }

    /// Copies a hold that is one of the longest so far.
    fn push(&mut self, hold: &Hold) {
        if self.kept.len() >= self.limit {
            let shortest = self.kept.peek();
            let is_longer = |kept: &Reverse<ByLength>| order(hold, &kept.0.0) == Ordering::Less;
            if !shortest.is_some_and(is_longer) {
                return;
            }
            self.kept.pop();
        }
        self.kept.push(Reverse(ByLength(hold.clone())));
    }

    /// The longest first.
    fn into_sorted(self) -> Vec<Hold> {
        let mut holds: Vec<Hold> = self.kept.into_iter().map(|kept| kept.0.0).collect();
        holds.sort_by(order);
        holds
    }
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
        }
    }

    #[test]
    fn each_gpu_and_each_person_keeps_its_longest_beside_the_longest_of_all() {
        let mut lists = HoldLists::default();
        let mut push = |hold: Hold| lists.push(&hold, &Thresholds::default());
        for number in 0..1000 {
            push(hold(0, "ada", 100, number));
        }
        for number in 0..20 {
            push(hold(1, "ada", 2 + number, number));
            push(hold(0, "eve", 1, number));
        }
        let lists = lists.finish();
        assert_eq!(lists.session_count, 1040);
        let count = |wanted: &dyn Fn(&Hold) -> bool| {
            let found = lists.sessions.iter().filter(|hold| wanted(hold));
            found.count()
        };
        assert_eq!(count(&|hold| hold.index == Some(1)), CHARTED_OF_EACH);
        assert_eq!(
            count(&|hold| hold.owner.as_deref() == Some("eve")),
            CHARTED_OF_EACH
        );
        assert_eq!(lists.sessions.len(), CHARTED + 2 * CHARTED_OF_EACH);
        let least = SignedDuration::from_hours(14);
        let of_gpu = lists.sessions.iter().filter(|hold| hold.index == Some(1));
        let mut lengths = of_gpu.map(|hold| hold.period.to().duration_since(hold.period.from()));
        assert!(lengths.all(|length| length >= least));
    }
}
