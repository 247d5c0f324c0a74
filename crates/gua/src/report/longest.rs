//! The longest holds of many, in memory for a fixed number of them.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use gua_model::Thresholds;
use gua_model::report::Hold;

/// How many sessions the chart has room for.
const CHARTED: usize = 400;
/// How many ended holders are kept; their number is known beyond that.
const KEPT: usize = 1000;

/// Who holds what, kept in bounds.
#[derive(Debug)]
pub(super) struct HoldLists {
    current: Vec<Hold>,
    past: Longest,
    past_count: usize,
    charted: Longest,
    sessions: usize,
}

impl Default for HoldLists {
    fn default() -> Self {
        Self {
            current: Vec::new(),
            past: Longest::new(KEPT),
            past_count: 0,
            charted: Longest::new(CHARTED),
            sessions: 0,
        }
    }
}

impl HoldLists {
    pub(super) fn push(&mut self, hold: Hold, thresholds: &Thresholds) {
        if hold.is_without_use(thresholds) {
            if hold.current {
                self.current.push(hold.clone());
            } else {
                self.past_count += 1;
                self.past.push(hold.clone());
            }
        }
        // A holder that was seen once and has no session has no length to draw.
        if !hold.period.is_empty() {
            self.sessions += 1;
            self.charted.push(hold);
        }
    }

    pub(super) fn finish(mut self) -> Lists {
        self.current.sort_by(order);
        let mut charted = self.charted.into_sorted();
        charted.sort_by_key(|hold| (hold.period, hold.pid.map(|pid| pid.0)));
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

    fn push(&mut self, hold: Hold) {
        self.kept.push(Reverse(ByLength(hold)));
        if self.kept.len() > self.most {
            self.kept.pop();
        }
    }

    /// The longest first.
    fn into_sorted(self) -> Vec<Hold> {
        let mut holds: Vec<Hold> = self.kept.into_iter().map(|kept| kept.0.0).collect();
        holds.sort_by(order);
        holds
    }
}
