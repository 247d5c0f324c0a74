//! The longest holds of many, in memory for a fixed number of them.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use gua_model::report::Hold;

/// Keeps the longest, drops the rest.
#[derive(Debug)]
pub(super) struct Longest {
    most: usize,
    /// The shortest on top.
    kept: BinaryHeap<Reverse<ByLength>>,
}

#[derive(Debug)]
struct ByLength(Hold);

/// The longest first; then by card, process and time.
pub(super) fn order(one: &Hold, other: &Hold) -> Ordering {
    let length = |hold: &Hold| hold.period.micros();
    length(other)
        .cmp(&length(one))
        .then_with(|| one.gpu.cmp(&other.gpu))
        .then_with(|| one.pid.0.cmp(&other.pid.0))
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
    pub(super) fn new(most: usize) -> Self {
        Self { most, kept: BinaryHeap::new() }
    }

    pub(super) fn push(&mut self, hold: Hold) {
        self.kept.push(Reverse(ByLength(hold)));
        if self.kept.len() > self.most {
            self.kept.pop();
        }
    }

    /// The longest first.
    pub(super) fn into_sorted(self) -> Vec<Hold> {
        let mut holds: Vec<Hold> = self.kept.into_iter().map(|kept| kept.0.0).collect();
        holds.sort_by(order);
        holds
    }
}
