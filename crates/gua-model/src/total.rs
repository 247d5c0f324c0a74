//! Totals by quarter hour, GPU, state and owner. They are whole numbers, so that the same ticks give the same totals
//! regardless of batching.
//!
//! Time in which a GPU's MIG instances are counted in its place is set aside: it has no states and no owners here.

mod day;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::classify::Basis;
use crate::energy;
use crate::gap::GapReason;
use crate::id::{GpuUuid, Uid};
use crate::period::{Period, Quarter};
use crate::span::Span;
use crate::state::{RollUp, State};
use crate::unit::{Micros, Millijoules};
use crate::vec_map::VecMap;

pub use self::day::{CardDay, DayTotals, QuarterUse};

/// Totals by quarter hour and GPU, in that order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub quarters: BTreeMap<Quarter, BTreeMap<GpuUuid, QuarterTotal>>,
}

/// Totals of one GPU in one quarter hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuarterTotal {
    pub card: CardTotal,
    pub states: VecMap<(State, Basis), StateTotal>,
    /// Time in the state unobserved, by reason.
    pub unobserved: VecMap<GapReason, Micros>,
    /// Totals by uid; `None` is the unknown owner. Names and sources are stored in a separate table with the uid as its
    /// key.
    pub owners: VecMap<Option<Uid>, OwnerTotal>,
}

/// Totals of one GPU in one quarter hour, with its UUID. The rows of a quarter are ordered by UUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardQuarter {
    pub gpu: GpuUuid,
    pub total: QuarterTotal,
}

/// Sums over all states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardTotal {
    /// Ticks that began in this quarter.
    pub ticks: u64,
    /// Start of the first span and end of the last, within the quarter.
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// Time covered by ticks with this GPU, including ticks without readings.
    pub present: Micros,
    /// Part of `present` in which the GPU's MIG instances were counted in its place. It is not capacity.
    pub set_aside: Micros,
    /// Part of the rest in which its state was observed.
    pub observed: Micros,
    /// Utilisation in hundredths of a percent, times microseconds, over `util_known`.
    pub util_sum: u128,
    pub util_known: Micros,
    /// Energy counted by the driver over `energy_known`, including set-aside time.
    pub energy: Millijoules,
    pub energy_known: Micros,
    /// Observed time without an owner: with the GPU truly idle (`free`), and with it in any other state (`ownerless`).
    /// Together with the time charged to owners it equals the observed time.
    pub free: Micros,
    pub ownerless: Micros,
}

/// Time in one state, from one basis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateTotal {
    pub micros: Micros,
    /// The GPU's energy in proportion to time, over `energy_known`.
    pub energy: Millijoules,
    pub energy_known: Micros,
}

/// Totals of one owner on one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerTotal {
    pub held: Micros,
    pub charged: Micros,
    /// Time held while the GPU's roll-up was idle-held.
    pub idle_held: Micros,
    /// Energy, shared equally among the owners, over `energy_known` of the held time.
    pub energy: Millijoules,
    pub energy_known: Micros,
    /// Ticks that began in this quarter and showed the owner.
    pub ticks: u64,
}

impl Totals {
    pub fn add(&mut self, span: &Span) {
        self.add_within(span, span.period());
    }

    /// Adds the part of a span that lies in `period`.
    pub fn add_within(&mut self, span: &Span, period: Period) {
        let Some(part) = span.period().overlap(period) else {
            return;
        };
        for (quarter, piece) in part.quarters() {
            let cards = self.quarters.entry(quarter).or_default();
            match cards.get_mut(&span.gpu) {
                Some(total) => total.add(span, piece),
                None => cards.entry(span.gpu.clone()).or_default().add(span, piece),
            }
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for (quarter, cards) in &other.quarters {
            let mine = self.quarters.entry(*quarter).or_default();
            for (gpu, total) in cards {
                mine.entry(gpu.clone()).or_default().merge(total);
            }
        }
    }

    /// Removes and returns all quarters before `quarter`. No later span can change them.
    #[must_use]
    pub fn drain_before(&mut self, quarter: Quarter) -> Self {
        let later = self.quarters.split_off(&quarter);
        Self {
            quarters: std::mem::replace(&mut self.quarters, later),
        }
    }

    /// Inserts the GPUs of a quarter that is not yet present.
    pub fn put(&mut self, quarter: Quarter, cards: &[CardQuarter]) {
        let cards = cards.iter();
        let named = cards.map(|card| (card.gpu.clone(), card.total.clone()));
        self.quarters.insert(quarter, named.collect());
    }

    /// Returns the GPUs of each quarter, ordered by time and UUID.
    pub fn by_quarter(self) -> impl Iterator<Item = (Quarter, Vec<CardQuarter>)> {
        self.quarters.into_iter().map(|(quarter, cards)| {
            let cards = cards.into_iter();
            let named = cards.map(|(gpu, total)| CardQuarter { gpu, total });
            (quarter, named.collect())
        })
    }

    /// Returns every GPU of every quarter, ordered by time and UUID.
    pub fn iter(&self) -> impl Iterator<Item = (Quarter, &GpuUuid, &QuarterTotal)> {
        self.quarters.iter().flat_map(|(quarter, cards)| {
            cards.iter().map(move |(gpu, total)| (*quarter, gpu, total))
        })
    }
}

impl QuarterTotal {
    /// Clears the totals and keeps the allocations.
    pub fn clear(&mut self) {
        self.card = CardTotal::default();
        self.states.clear();
        self.unobserved.clear();
        self.owners.clear();
    }

    /// Adds the part of a span that lies in `piece`.
    pub fn add(&mut self, span: &Span, piece: Period) {
        let begins = u64::from(piece.contains(span.from));
        self.card.add(span, piece);
        if !span.counts {
            return;
        }
        let mut idle_held = Micros(0);
        for share in span.states_within(piece) {
            let state = share.verdict.state;
            let total = self.states.entry((state, span.basis));
            total.micros += share.micros;
            if let Some(energy) = share.energy {
                total.energy += energy;
                total.energy_known += share.micros;
            }
            if state.roll_up() == Some(RollUp::IdleHeld) {
                idle_held += share.micros;
            }
            if let Some(why) = share.verdict.unobserved() {
                *self.unobserved.entry(why.into()) += share.micros;
            } else if span.holders.is_empty() {
                match state {
                    State::TrulyIdle => self.card.free += share.micros,
                    _ => self.card.ownerless += share.micros,
                }
            }
        }
        for part in span.owners_within(piece) {
            let total = self.owners.entry(part.owner);
            total.held += part.held;
            total.charged += part.charged;
            total.idle_held += idle_held;
            if let Some(energy) = part.energy {
                total.energy += energy;
                total.energy_known += part.held;
            }
            total.ticks += begins;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.card.merge(&other.card);
        for (key, theirs) in &other.states {
            self.states.entry(*key).merge(theirs);
        }
        for (reason, theirs) in &other.unobserved {
            *self.unobserved.entry(*reason) += *theirs;
        }
        for (owner, theirs) in &other.owners {
            self.owners.entry(*owner).merge(theirs);
        }
    }
}

impl StateTotal {
    pub fn merge(&mut self, other: &Self) {
        self.micros += other.micros;
        self.energy += other.energy;
        self.energy_known += other.energy_known;
    }

    #[must_use]
    pub fn counted_energy(&self) -> Option<Millijoules> {
        energy::known(self.energy, self.energy_known)
    }
}

impl OwnerTotal {
    pub fn merge(&mut self, other: &Self) {
        self.held += other.held;
        self.charged += other.charged;
        self.idle_held += other.idle_held;
        self.energy += other.energy;
        self.energy_known += other.energy_known;
        self.ticks = self.ticks.saturating_add(other.ticks);
    }

    #[must_use]
    pub fn counted_energy(&self) -> Option<Millijoules> {
        energy::known(self.energy, self.energy_known)
    }
}

impl CardTotal {
    fn add(&mut self, span: &Span, piece: Period) {
        let length = piece.micros();
        let mut total = Self {
            ticks: u64::from(piece.contains(span.from)),
            first: Some(piece.from()),
            last: Some(piece.to()),
            present: length,
            ..Self::default()
        };
        if let Some(energy) = span.energy_within(piece) {
            total.energy = energy;
            total.energy_known = length;
        }
        if !span.counts {
            total.set_aside = length;
        } else {
            total.observed = span.observed_within(piece);
            if let Ok(util) = span.util {
                total.util_sum = u128::from(util.0) * u128::from(length.0);
                total.util_known = length;
            }
        }
        self.merge(&total);
    }

    fn merge(&mut self, other: &Self) {
        let earlier = self.first.into_iter().chain(other.first).min();
        self.ticks += other.ticks;
        self.first = earlier;
        self.last = self.last.max(other.last);
        self.present += other.present;
        self.set_aside += other.set_aside;
        self.observed += other.observed;
        self.util_sum += other.util_sum;
        self.util_known += other.util_known;
        self.energy += other.energy;
        self.energy_known += other.energy_known;
        self.free += other.free;
        self.ownerless += other.ownerless;
    }
}

#[cfg(test)]
mod tests;
