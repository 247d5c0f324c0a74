//! What was observed of each card in a window, what was not, and why. For every card, states + gaps = capacity, to the
//! microsecond.
//!
//! The capacity of a card is the window from the card's first sample ever on. It does not count while its MIG instances
//! stand in its place; an instance does not count while its parent was seen without it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::classify::Basis;
use crate::gap::{Gap, GapReason, Outage};
use crate::id::GpuUuid;
use crate::period::Period;
use crate::reading::Missing;
use crate::span::Span;
use crate::state::State;
use crate::stretches::Stretches;
use crate::unit::Micros;

/// One card over one window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The time in which the card was there to be used, whoever looked.
    pub capacity: Micros,
    /// The time in each state; never [`State::Unobserved`], which is a gap.
    pub states: BTreeMap<State, Micros>,
    /// Of the observed time, how much rests on the driver's buffer.
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

    /// Capacity less states and gaps, in microseconds. Anything but zero is a fault of the program, and every report
    /// checks it.
    #[must_use]
    pub fn balance(&self) -> i128 {
        i128::from(self.capacity.0) - i128::from(self.observed().0) - i128::from(self.gap().0)
    }
}

/// The fold from spans to coverage. It keeps sums and holes, not spans.
#[derive(Clone, Debug)]
pub struct Ledger {
    window: Period,
    /// When each card was sampled for the first time ever.
    first: BTreeMap<GpuUuid, Timestamp>,
    cards: BTreeMap<GpuUuid, Card>,
    /// When any tick stood for the host.
    host: Stretches,
}

#[derive(Clone, Debug, Default)]
struct Card {
    parent: Option<GpuUuid>,
    present: Stretches,
    set_aside: Micros,
    seen: Coverage,
}

impl Ledger {
    /// Cards that are not in `first` are not counted; those in it are, also without any span.
    #[must_use]
    pub fn new(window: Period, first: BTreeMap<GpuUuid, Timestamp>) -> Self {
        let cards = first.keys().map(|gpu| (gpu.clone(), Card::default()));
        Self {
            window,
            cards: cards.collect(),
            first,
            host: Stretches::default(),
        }
    }

    /// Adds the part of a span that lies in the window.
    pub fn push(&mut self, span: &Span) {
        self.host.add(span.period());
        if let Some(card) = self.cards.get_mut(&span.gpu) {
            let since = self.first.get(&span.gpu).copied();
            let own = Period::new(since.unwrap_or(self.window.from()), self.window.to());
            card.push(span, own.overlap(self.window));
        }
    }

    /// The coverage of every card. `outages` say why nobody looked; where two overlap, the one that began first does.
    #[must_use]
    pub fn finish(mut self, outages: &[Outage]) -> BTreeMap<GpuUuid, Coverage> {
        let mut outages: Vec<(Period, GapReason)> = outages
            .iter()
            .map(|outage| (outage.period(), outage.reason))
            .collect();
        outages.sort();
        let cards = std::mem::take(&mut self.cards);
        let nowhere = Stretches::default();
        cards
            .iter()
            .map(|(gpu, card)| {
                let parent = card.parent.as_ref().and_then(|parent| cards.get(parent));
                let parent = parent.map_or(&nowhere, |parent| &parent.present);
                (gpu.clone(), self.close(gpu, card, parent, &outages))
            })
            .collect()
    }

    fn close(
        &self,
        gpu: &GpuUuid,
        card: &Card,
        parent: &Stretches,
        outages: &[(Period, GapReason)],
    ) -> Coverage {
        let mut coverage = card.seen.clone();
        let since = self.first.get(gpu).copied().unwrap_or(self.window.to());
        let counted = Period::new(self.window.from().max(since), self.window.to());
        let holes: Vec<Period> = card.present.holes(counted).collect();
        let (away, mut holes) = divide(&holes, parent);
        coverage.capacity = Micros(
            counted
                .micros()
                .0
                .saturating_sub(total(&away).0)
                .saturating_sub(card.set_aside.0),
        );
        for (period, reason) in outages {
            let mut one = Stretches::default();
            one.add(*period);
            let (within, rest) = divide(&holes, &one);
            coverage.add_gaps(&within, *reason);
            holes = rest;
        }
        // Somebody looked at the host, and the card was not there.
        let (without_card, unseen) = divide(&holes, &self.host);
        coverage.add_gaps(&without_card, GapReason::CardLost);
        coverage.add_gaps(&unseen, GapReason::CollectorDown);
        let mut gaps = std::mem::take(&mut coverage.gaps);
        gaps.sort_by_key(|gap| gap.period);
        for gap in gaps {
            coverage.add_gap(gap.period, gap.micros, gap.reason);
        }
        coverage
    }
}

impl Card {
    fn push(&mut self, span: &Span, window: Option<Period>) {
        self.parent.clone_from(&span.parent);
        self.present.add(span.period());
        let Some(part) = window.and_then(|window| span.period().overlap(window)) else {
            return;
        };
        if !span.counts {
            self.set_aside += part.micros();
            return;
        }
        for share in span.states_within(part) {
            if share.verdict.state == State::Unobserved {
                let why = share.verdict.evidence.unobserved;
                let reason = GapReason::from(why.unwrap_or(Missing::Failed));
                self.seen.add_gap(part, share.micros, reason);
            } else {
                *self.seen.states.entry(share.verdict.state).or_default() += share.micros;
                if span.basis == Basis::Buffer {
                    self.seen.buffered += share.micros;
                }
            }
        }
    }
}

impl Coverage {
    fn add_gaps(&mut self, periods: &[Period], reason: GapReason) {
        for period in periods {
            self.add_gap(*period, period.micros(), reason);
        }
    }

    /// Joins a gap with the one before it, if that ends where this begins and has the same reason.
    fn add_gap(&mut self, period: Period, micros: Micros, reason: GapReason) {
        if micros == Micros(0) {
            return;
        }
        match self.gaps.last_mut() {
            Some(last) if last.reason == reason && last.period.to() == period.from() => {
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

/// The parts of the holes that lie in the set, and those that do not.
fn divide(holes: &[Period], set: &Stretches) -> (Vec<Period>, Vec<Period>) {
    let within = holes.iter().flat_map(|hole| set.parts(*hole)).collect();
    let rest = holes.iter().flat_map(|hole| set.holes(*hole)).collect();
    (within, rest)
}

fn total(periods: &[Period]) -> Micros {
    periods.iter().map(|period| period.micros()).sum()
}

#[cfg(test)]
mod tests;
