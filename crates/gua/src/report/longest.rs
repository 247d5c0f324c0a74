//! The longest holds of many, in memory for a fixed number of them.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use gua_model::report::Hold;
use gua_model::{GpuUuid, Thresholds};

/// How many sessions the chart has room for.
const CHARTED: usize = 400;
/// How many of each card and of each person have room in any case, so that no row stands empty beside long sessions of
/// others.
const OF_EACH: usize = 8;
/// How many ended holders are kept; their number is known beyond that.
const KEPT: usize = 1000;

/// Who holds what, kept in bounds.
#[derive(Debug)]
pub(super) struct HoldLists {
    current: Vec<Hold>,
    past: Longest,
    past_count: usize,
    charted: Longest,
    of_cards: HashMap<GpuUuid, Longest>,
    of_people: HashMap<Option<String>, Longest>,
    sessions: usize,
}

impl Default for HoldLists {
    fn default() -> Self {
        Self {
            current: Vec::new(),
            past: Longest::new(KEPT),
            past_count: 0,
            charted: Longest::new(CHARTED),
            of_cards: HashMap::new(),
            of_people: HashMap::new(),
            sessions: 0,
        }
    }
}

impl HoldLists {
    pub(super) fn push(&mut self, hold: &Hold, thresholds: &Thresholds) {
        if hold.is_without_use(thresholds) {
            if hold.current {
                self.current.push(hold.clone());
            } else {
                self.past_count += 1;
                self.past.push(hold);
            }
        }
        // A holder that was seen once and has no session has no length to draw.
        if !hold.period.is_empty() {
            self.sessions += 1;
            self.charted.push(hold);
            let each = || Longest::new(OF_EACH);
            match self.of_cards.get_mut(&hold.gpu) {
                Some(card) => card.push(hold),
                None => {
                    let card = self.of_cards.entry(hold.gpu.clone());
                    card.or_insert_with(each).push(hold);
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

    pub(super) fn finish(mut self) -> Lists {
        self.current.sort_by(order);
        let mut charted = self.charted.into_sorted();
        let each = self
            .of_cards
            .into_values()
            .chain(self.of_people.into_values());
        charted.extend(each.flat_map(Longest::into_sorted));
        charted.sort_by(|one, other| {
            let when = |hold: &Hold| (hold.period, hold.pid.map(|pid| pid.0));
            let by_time = when(one).cmp(&when(other));
            by_time.then_with(|| one.gpu.cmp(&other.gpu))
        });
        charted.dedup();
        Lists {
            holders: self.current,
            past: self.past.into_sorted(),
            past_count: self.past_count,
            sessions: charted,
            session_count: self.sessions,
        }
    }
}

/// What became of all of them.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) holders: Vec<Hold>,
    pub(super) past: Vec<Hold>,
    pub(super) past_count: usize,
    pub(super) sessions: Vec<Hold>,
    pub(super) session_count: usize,
}

/// Keeps the longest, drops the rest.
#[derive(Debug)]
struct Longest {
    most: usize,
    /// The shortest on top.
    kept: BinaryHeap<Reverse<ByLength>>,
}

#[derive(Debug)]
struct ByLength(Hold);

/// The longest first; then by card, process and time.
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
    fn new(most: usize) -> Self {
        Self {
            most,
            kept: BinaryHeap::new(),
        }
    }

    /// Copies it where it is one of the longest so far.
    fn push(&mut self, hold: &Hold) {
        if self.kept.len() >= self.most {
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
mod tests {
    use gua_model::{Micros, Period};
    use jiff::{SignedDuration, Timestamp};

    use super::*;

    fn hold(card: u32, owner: &str, hours: i64, number: i64) -> Hold {
        let from = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(number);
        let period = Period::new(from, from + SignedDuration::from_hours(hours));
        Hold {
            gpu: format!("GPU-{card}").parse().unwrap(),
            index: Some(card),
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
    fn each_card_and_each_person_keeps_its_longest_beside_the_longest_of_all() {
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
        assert_eq!(count(&|hold| hold.index == Some(1)), OF_EACH);
        assert_eq!(count(&|hold| hold.owner.as_deref() == Some("eve")), OF_EACH);
        assert_eq!(lists.sessions.len(), CHARTED + 2 * OF_EACH);
        let least = SignedDuration::from_hours(14);
        let of_card = lists.sessions.iter().filter(|hold| hold.index == Some(1));
        let mut lengths = of_card.map(|hold| hold.period.to().duration_since(hold.period.from()));
        assert!(lengths.all(|length| length >= least));
    }
}
