//! Counts old rows as a stream, with one quarter hour in memory at a time.

use super::{LegacyCardTick, LegacyCount, LegacyKey, LegacyMoment, old_rule};
use crate::period::Quarter;
use crate::state::Thresholds;

/// Counts of the current quarter hour. Earlier quarters have already been emitted.
#[derive(Clone, Debug)]
pub struct LegacyQuarters {
    rule: Thresholds,
    /// In order of first appearance; entries without ticks are from an earlier quarter.
    open: Vec<(LegacyKey, LegacyCount)>,
    quarter: Option<Quarter>,
    /// Probable position of the next tick's GPU: GPUs come in the same order at every moment.
    next: usize,
}

impl Default for LegacyQuarters {
    /// Uses the rule of the tool that wrote the rows.
    fn default() -> Self {
        Self::new(old_rule())
    }
}

impl LegacyQuarters {
    #[must_use]
    pub fn new(rule: Thresholds) -> Self {
        Self {
            rule,
            open: Vec::new(),
            quarter: None,
            next: 0,
        }
    }

    /// Adds a moment, which must not come before the last one. A completed quarter hour is passed to `give`.
    pub fn push(
        &mut self,
        moment: &LegacyMoment<'_>,
        give: &mut impl FnMut(&LegacyKey, &LegacyCount),
    ) {
        let quarter = Quarter::of(moment.at);
        if self.quarter != Some(quarter) {
            self.give(give);
            self.quarter = Some(quarter);
        }
        for tick in moment.ticks {
            let place = self.place(quarter, tick);
            self.open[place].1.add(tick, &self.rule);
            self.next = place + 1;
        }
    }

    /// Emits the remaining counts.
    pub fn finish(mut self, give: &mut impl FnMut(&LegacyKey, &LegacyCount)) {
        self.give(give);
    }

    fn give(&mut self, give: &mut impl FnMut(&LegacyKey, &LegacyCount)) {
        // Drop GPUs that no longer appear, so that they are not kept forever.
        self.open.retain(|(_, count)| count.rows > 0);
        for (key, count) in &mut self.open {
            give(key, count);
            *count = LegacyCount::default();
        }
        self.next = 0;
    }

    fn place(&mut self, quarter: Quarter, tick: &LegacyCardTick<'_>) -> usize {
        let is_it =
            |(key, _): &(LegacyKey, LegacyCount)| key.run == tick.run && key.gpu == *tick.gpu;
        let place = match self.open.get(self.next).is_some_and(is_it) {
            true => Some(self.next),
            false => self.open.iter().position(is_it),
        };
        match place {
            Some(place) => {
                self.open[place].0.quarter = quarter;
                place
            }
            None => {
                let key = LegacyKey {
                    quarter,
                    gpu: tick.gpu.clone(),
                    run: tick.run,
                };
                self.open.push((key, LegacyCount::default()));
                self.open.len() - 1
            }
        }
    }
}
