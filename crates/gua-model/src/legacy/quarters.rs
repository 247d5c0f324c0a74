//! Old rows counted as they come, one quarter hour in memory at a time.

use super::{LegacyCardTick, LegacyCount, LegacyKey, LegacyMoment, old_rule};
use crate::period::Quarter;
use crate::state::Thresholds;

/// The counts of the quarter hour that the rows have come to. Those before it were given away.
#[derive(Clone, Debug)]
pub struct LegacyQuarters {
    rule: Thresholds,
    /// In the order in which the cards first came; those without ticks are of an earlier quarter.
    open: Vec<(LegacyKey, LegacyCount)>,
    quarter: Option<Quarter>,
    /// Where the card of the next tick probably stands: cards come in the same order at every moment.
    next: usize,
}

impl Default for LegacyQuarters {
    /// By the rule of the tool that wrote the rows.
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

    /// Adds a moment, which must not come before the last one. A quarter hour that is over goes to `give`.
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

    /// Gives what is left.
    pub fn finish(mut self, give: &mut impl FnMut(&LegacyKey, &LegacyCount)) {
        self.give(give);
    }

    fn give(&mut self, give: &mut impl FnMut(&LegacyKey, &LegacyCount)) {
        // A card that is gone must not be kept for good.
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
