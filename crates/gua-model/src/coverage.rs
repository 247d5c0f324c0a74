//! Coverage of each GPU in a window: observed time, unobserved time, and the reason for every gap. For every GPU,
//! states + gaps = capacity, to the microsecond.
//!
//! The capacity of a GPU is the part of the window after the GPU's first sample ever. It excludes the time in which its
//! MIG instances are counted in its place. An instance has no capacity while its parent was observed without it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cadence::Cadence;
use crate::classify::Basis;
use crate::gap::{Gap, GapReason, Outage};
use crate::id::GpuUuid;
use crate::period::Period;
use crate::period_set::PeriodSet;
use crate::span::Span;
use crate::state::State;
use crate::total::{CardQuarter, QuarterTotal};
use crate::unit::Micros;

/// Coverage of one GPU over one window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Time in which the GPU could be used, observed or not.
    pub capacity: Micros,
    /// Time in each state; never [`State::Unobserved`], which is a gap.
    pub states: BTreeMap<State, Micros>,
    /// Part of the observed time that is based on the driver's buffer.
    pub buffered: Micros,
    /// In order of time.
    pub gaps: Vec<Gap>,
}

impl Coverage {
    #[must_use]
    pub fn observed(&self) -> Micros {
        self.states.values().copied().sum()
    }

    #[must_use]
    pub fn gap(&self) -> Micros {
        self.gaps.iter().map(|gap| gap.micros).sum()
    }

    /// The observed share of the capacity; `None` without capacity.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let capacity = self.capacity.hours();
        (capacity > 0.0).then(|| self.observed().hours() / capacity)
    }

    /// Returns capacity minus states and gaps, in microseconds. Anything but zero is a bug; every report checks it.
    #[must_use]
    pub fn balance(&self) -> i128 {
        i128::from(self.capacity.0) - i128::from(self.observed().0) - i128::from(self.gap().0)
    }
}

/// A GPU that the history contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownCard {
    /// Time of its first sample ever.
    pub first: Timestamp,
    /// The GPU that it is a MIG instance of.
    pub parent: Option<GpuUuid>,
}

/// Folds spans and totals to coverage. It keeps only sums and gaps.
#[derive(Clone, Debug)]
pub struct Ledger {
    window: Period,
    cards: BTreeMap<GpuUuid, Card>,
    /// Time covered by any tick of the host.
    host: PeriodSet,
    reasons: Reasons,
}

#[derive(Clone, Debug)]
struct Card {
    known: KnownCard,
    present: PeriodSet,
    /// Time within the presence that is not capacity.
    set_aside: Micros,
    seen: Coverage,
}

/// Outages of the whole host and their reasons, by time.
#[derive(Clone, Debug, Default)]
struct Reasons {
    /// In order of start time.
    outages: Vec<(Period, GapReason)>,
    /// For each outage, the latest end of it and all before it.
    ends: Vec<Timestamp>,
}

impl Ledger {
    /// Creates a ledger. It counts the GPUs in `known`, even those without any span, and no others. `outages` give the
    /// reasons for gaps; where two overlap, the one that began first applies.
    #[must_use]
    pub fn new(window: Period, known: BTreeMap<GpuUuid, KnownCard>, outages: &[Outage]) -> Self {
        let card = |known| Card {
            known,
            present: PeriodSet::default(),
            set_aside: Micros(0),
            seen: Coverage::default(),
        };
        Self {
            window,
            cards: known
                .into_iter()
                .map(|(gpu, known)| (gpu, card(known)))
                .collect(),
            host: PeriodSet::default(),
            reasons: Reasons::new(outages),
        }
    }

    /// Adds the part of a span that lies in the window.
    pub fn push(&mut self, span: &Span) {
        self.push_within(span, self.window);
    }

    /// Adds the part of a span that lies in both `period` and the window: an edge that no whole quarter hour covers.
    pub fn push_within(&mut self, span: &Span, period: Period) {
        let part = span.period().overlap(self.window);
        let Some(part) = part.and_then(|part| part.overlap(period)) else {
            return;
        };
        self.host.add(part);
        if let Some(card) = self.cards.get_mut(&span.gpu) {
            card.push(span, part);
        }
    }

    /// Adds the totals of the GPUs in one quarter hour, ordered by name. They cover the whole quarter, or the part of
    /// it that lies in the window. If a quarter has several gaps, only their sum is known: they become one gap, with
    /// the reason that explains most of it.
    pub fn push_quarter(&mut self, cards: &[CardQuarter]) {
        let host = cards.iter().map(|card| card.total.card.present).max();
        // Both are ordered by name and mostly contain the same GPUs.
        let mut own = self.cards.iter_mut().peekable();
        for CardQuarter { gpu, total } in cards {
            let (Some(first), Some(last)) = (total.card.first, total.card.last) else {
                continue;
            };
            let hull = Period::new(first, last);
            self.host.add(hull);
            while own.next_if(|(name, _)| *name < gpu).is_some() {}
            let Some((_, card)) = own.next_if(|(name, _)| *name == gpu) else {
                continue;
            };
            let parent = card.known.parent.as_ref().and_then(|it| find(cards, it));
            let loose = hull.micros().0.saturating_sub(total.card.present.0);
            let away = loose.min(parent.map_or(0, |parent| without(hull, total, parent)));
            card.push_total(hull, total, Micros(away));
            // The ticks that would show where in the quarter the GPU was missing are not available here.
            let otherwise = match host > Some(total.card.present) {
                true => GapReason::CardLost,
                false => GapReason::CollectorDown,
            };
            let missing = Micros(loose - away);
            if missing > Micros(0) {
                let reason = self.reasons.of_most(hull).unwrap_or(otherwise);
                card.seen.add_gap(hull, missing, reason);
            }
        }
    }

    /// Reports whether a quarter hour has missing time that its sums cannot locate, beyond the small gaps that late
    /// ticks leave. If its ticks are still stored, its spans give a more precise answer than [`Ledger::push_quarter`]
    /// can.
    #[must_use]
    pub fn is_ragged(&self, cards: &[CardQuarter]) -> bool {
        cards.iter().any(|CardQuarter { gpu, total }| {
            let (Some(first), Some(last)) = (total.card.first, total.card.last) else {
                return false;
            };
            let hull = Period::new(first, last).micros();
            let unobserved: Micros = total.unobserved.values().copied().sum();
            let is_known = self.cards.contains_key(gpu);
            is_known
                && (total.card.present + Cadence::JITTER < hull
                    || (unobserved > Cadence::JITTER && unobserved < hull))
        })
    }

    /// Returns the time for which any GPU of the host was sampled.
    #[must_use]
    pub fn host_observed(&self) -> Micros {
        self.host.parts(self.window).map(Period::micros).sum()
    }

    /// Returns the coverage of every GPU.
    #[must_use]
    pub fn finish(self) -> BTreeMap<GpuUuid, Coverage> {
        self.cards
            .iter()
            .map(|(gpu, card)| (gpu.clone(), self.close(card)))
            .collect()
    }

    fn close(&self, card: &Card) -> Coverage {
        let mut coverage = card.seen.clone();
        let counted = Period::new(self.window.from().max(card.known.first), self.window.to());
        let parent = card.known.parent.as_ref();
        let nowhere = PeriodSet::default();
        let parent = parent
            .and_then(|parent| self.cards.get(parent))
            .map_or(&nowhere, |parent| &parent.present);
        let holes: Vec<Period> = card.present.holes(counted).collect();
        let (away, mut holes) = divide(&holes, parent);
        let away = total(&away) + card.set_aside;
        coverage.capacity = Micros(counted.micros().0.saturating_sub(away.0));
        for (period, reason) in &self.reasons.outages {
            let mut one = PeriodSet::default();
            one.add(*period);
            let (within, rest) = divide(&holes, &one);
            coverage.add_gaps(&within, *reason);
            holes = rest;
        }
        // The host was sampled, but the GPU was not present.
        let (without_card, unseen) = divide(&holes, &self.host);
        coverage.add_gaps(&without_card, GapReason::CardLost);
        coverage.add_gaps(&unseen, GapReason::CollectorDown);
        coverage.in_order()
    }
}

impl Card {
    fn push(&mut self, span: &Span, part: Period) {
        self.present.add(part);
        if !span.counts {
            self.set_aside += part.micros();
            return;
        }
        for share in span.states_within(part) {
            match share.verdict.unobserved() {
                Some(why) => self.seen.add_gap(part, share.micros, why.into()),
                None => self
                    .seen
                    .add_state(share.verdict.state, span.basis, share.micros),
            }
        }
    }

    fn push_total(&mut self, hull: Period, total: &QuarterTotal, away: Micros) {
        self.present.add(hull);
        self.set_aside += total.card.set_aside + away;
        let mut unexplained = Micros(0);
        for ((state, basis), sum) in &total.states {
            match state {
                State::Unobserved => unexplained += sum.micros,
                _ => self.seen.add_state(*state, *basis, sum.micros),
            }
        }
        for (reason, micros) in &total.unobserved {
            let micros = unexplained.min(*micros);
            unexplained = Micros(unexplained.0 - micros.0);
            self.seen.add_gap(hull, micros, *reason);
        }
        self.seen.add_gap(hull, unexplained, GapReason::Failed);
    }
}

fn find<'a>(cards: &'a [CardQuarter], gpu: &GpuUuid) -> Option<&'a QuarterTotal> {
    let place = cards.binary_search_by(|card| card.gpu.cmp(gpu)).ok()?;
    cards.get(place).map(|card| &card.total)
}

/// Returns the time for which the parent was observed without its instance, between the first and the last such
/// observation.
fn without(hull: Period, own: &QuarterTotal, parent: &QuarterTotal) -> u64 {
    let (Some(first), Some(last)) = (parent.card.first, parent.card.last) else {
        return 0;
    };
    let parents = Period::new(first, last);
    let outside = parents.micros().0.saturating_sub(hull.micros().0);
    let surplus = parent.card.present.0.saturating_sub(own.card.present.0);
    surplus.saturating_sub(outside)
}

impl Reasons {
    fn new(outages: &[Outage]) -> Self {
        let all = outages.iter();
        let mut outages: Vec<_> = all.map(|outage| (outage.period(), outage.reason)).collect();
        outages.sort();
        let ends = outages.iter().scan(Timestamp::MIN, |latest, (period, _)| {
            *latest = period.to().max(*latest);
            Some(*latest)
        });
        Self {
            ends: ends.collect(),
            outages,
        }
    }

    /// Returns the reason that explains most of a period; `None` if no outage overlaps it.
    fn of_most(&self, within: Period) -> Option<GapReason> {
        let first = self.ends.partition_point(|end| *end <= within.from());
        let after = self
            .outages
            .partition_point(|(period, _)| period.from() < within.to());
        let near = self.outages.get(first..after).unwrap_or_default().iter();
        let share = |(period, reason): &(Period, GapReason)| {
            Some((period.overlap(within)?.micros(), *reason))
        };
        near.filter_map(share).max().map(|(_, reason)| reason)
    }
}

impl Coverage {
    fn add_state(&mut self, state: State, basis: Basis, micros: Micros) {
        *self.states.entry(state).or_default() += micros;
        if basis == Basis::Buffer {
            self.buffered += micros;
        }
    }

    /// Sorts gaps by time and joins adjacent ones with the same reason. A short gap that a late tick leaves between two
    /// gaps with the same reason is merged into them: a GPU that was lost before and after it was also lost during it.
    fn in_order(mut self) -> Self {
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.sort_by_key(|gap| gap.period);
        for gap in gaps {
            self.add_gap(gap.period, gap.micros, gap.reason);
            if let [.., before, hole, after] = self.gaps.as_slice()
                && [before, hole, after].iter().all(|gap| gap.is_whole())
                && before.reason == after.reason
                && hole.micros <= Cadence::JITTER
                && before.period.to() == hole.period.from()
                && hole.period.to() == after.period.from()
            {
                let all = Period::new(before.period.from(), after.period.to());
                let reason = after.reason;
                self.gaps.truncate(self.gaps.len() - 3);
                self.add_gap(all, all.micros(), reason);
            }
        }
        self
    }

    fn add_gaps(&mut self, periods: &[Period], reason: GapReason) {
        for period in periods {
            self.add_gap(*period, period.micros(), reason);
        }
    }

    /// Joins a gap with the previous one if that ends where this begins and has the same reason. A gap whose position
    /// in its period is unknown is not joined with one that fills its period: the result would seem to have begun too
    /// early.
    fn add_gap(&mut self, period: Period, micros: Micros, reason: GapReason) {
        if micros == Micros(0) {
            return;
        }
        match self.gaps.last_mut() {
            Some(last)
                if last.reason == reason
                    && last.period.to() == period.from()
                    && last.is_whole() == (micros == period.micros()) =>
            {
                last.period = Period::new(last.period.from(), period.to());
                last.micros += micros;
            }
            _ => self.gaps.push(Gap {
                period,
                micros,
                reason,
            }),
        }
    }
}

/// Splits the gaps into the parts that lie in the set and the parts that do not.
fn divide(holes: &[Period], set: &PeriodSet) -> (Vec<Period>, Vec<Period>) {
    let within = holes.iter().flat_map(|hole| set.parts(*hole)).collect();
    let rest = holes.iter().flat_map(|hole| set.holes(*hole)).collect();
    (within, rest)
}

fn total(periods: &[Period]) -> Micros {
    periods.iter().map(|period| period.micros()).sum()
}

#[cfg(test)]
mod tests;
