//! Amounts of a report, and what they come to: hours, shares, means. Whole numbers until they are shown.

use crate::classify::Basis;
use crate::energy;
use crate::legacy::LegacyCount;
use crate::state::{RollUp, State};
use crate::total::{CardTotal, OwnerTotal, QuarterTotal, StateTotal};
use crate::unit::{Micros, Millijoules};

/// What was seen of some cards over some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// By [`State`], in its order.
    states: [StateTotal; State::ALL.len()],
    /// Observed time that rests on the driver's buffer.
    pub buffered: Micros,
    pub ticks: u64,
    pub util_sum: u128,
    pub util_known: Micros,
    pub energy: Millijoules,
    pub energy_known: Micros,
    /// Observed time that nobody held: with the card truly idle, and with it in any other state.
    pub free: Micros,
    pub ownerless: Micros,
    /// Time in which MIG instances stood in a card's place, and what the card drew in it: no instance counts energy.
    pub set_aside: Micros,
    pub set_aside_energy: Millijoules,
    pub old: OldSums,
    /// What people had of it.
    pub held: HoldSums,
}

/// The same of old rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldSums {
    /// Card-ticks by [`RollUp`], in its order.
    pub ticks: [u64; 3],
    /// What they stand for, in nanoseconds.
    pub nanos: [u128; 3],
    pub rows: u64,
    pub active_rows: u64,
    pub row_nanos: u128,
    pub active_nanos: u128,
}

/// What one person, or all of them, had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldSums {
    /// Of own ticks. Energy is to be read by [`HoldSums::counted_energy`]; what is charged, by [`HoldSums::charged_time`].
    pub own: OwnerTotal,
    pub old_ticks: u64,
    pub old_idle_ticks: u64,
    pub old_nanos: u128,
    pub old_idle_nanos: u128,
}

impl Sums {
    /// Adds what one quarter hour has of one card.
    pub fn add(&mut self, total: &QuarterTotal) {
        for ((state, basis), sums) in &total.states {
            self.states[state.place()].merge(sums);
            self.energy += sums.energy;
            self.energy_known += sums.energy_known;
            if *basis == Basis::Buffer && *state != State::Unobserved {
                self.buffered += sums.micros;
            }
        }
        let CardTotal {
            ticks,
            util_sum,
            util_known,
            energy,
            set_aside,
            free,
            ownerless,
            ..
        } = total.card;
        // A card whose MIG instances stood in its place all the time is counted by them.
        if !total.states.is_empty() {
            self.ticks += ticks;
        }
        self.util_sum += util_sum;
        self.util_known += util_known;
        let of_states: Millijoules = total.states.values().map(|sums| sums.energy).sum();
        self.set_aside_energy += Millijoules(energy.0.saturating_sub(of_states.0));
        self.set_aside += set_aside;
        self.free += free;
        self.ownerless += ownerless;
        for owner in total.owners.values() {
            self.held.own.merge(owner);
        }
    }

    /// Adds old card-ticks, each standing for `nanos`.
    pub fn add_old(&mut self, count: &LegacyCount, nanos: u128) {
        for class in RollUp::ALL {
            let ticks = count.of(class);
            self.old.ticks[class.place()] += ticks;
            self.old.nanos[class.place()] += u128::from(ticks) * nanos;
        }
        self.old.rows += count.rows;
        self.old.active_rows += count.active_rows;
        self.old.row_nanos += u128::from(count.rows) * nanos;
        self.old.active_nanos += u128::from(count.active_rows) * nanos;
        for identity in count.identities.values() {
            self.held.add_old(identity.ticks, identity.idle_held, nanos);
        }
    }

    /// The time in one state, of own ticks.
    #[must_use]
    pub fn state(&self, state: State) -> StateTotal {
        self.states[state.place()]
    }

    /// Observed time of own ticks.
    #[must_use]
    pub fn observed(&self) -> Micros {
        let seen = State::ALL
            .iter()
            .filter(|state| **state != State::Unobserved);
        seen.map(|state| self.state(*state).micros).sum()
    }

    /// Whether anybody looked, with whatever tool.
    #[must_use]
    pub fn was_seen(&self) -> bool {
        self.all_nanos() > 0
    }

    /// Card-ticks of whatever source.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.ticks + self.old.ticks.iter().sum::<u64>()
    }

    /// Hours of one class, of whatever source.
    #[must_use]
    pub fn hours(&self, class: RollUp) -> f64 {
        hours(self.nanos(class))
    }

    /// The same of old rows alone.
    #[must_use]
    pub fn old_hours(&self, class: RollUp) -> f64 {
        hours(self.old.nanos[class.place()])
    }

    /// Hours in which somebody held a card and nobody can tell whether it was used.
    #[must_use]
    pub fn unknown_hours(&self) -> f64 {
        self.state(State::HeldUnknown).micros.hours()
    }

    /// The share of one class; `None` where nothing was observed.
    #[must_use]
    pub fn share(&self, class: RollUp) -> Option<f64> {
        if self.observed() == Micros(0) {
            let all: u64 = self.old.ticks.iter().sum();
            return ratio(self.old.ticks[class.place()].into(), all.into());
        }
        ratio(self.nanos(class), self.all_nanos())
    }

    /// The share of the time in which a holder was there and no utilisation was to be had.
    #[must_use]
    pub fn unknown_share(&self) -> Option<f64> {
        ratio(
            own_nanos(self.state(State::HeldUnknown).micros),
            self.all_nanos(),
        )
    }

    /// Mean utilisation in percent, of own ticks.
    #[must_use]
    pub fn util(&self) -> Option<f64> {
        ratio(self.util_sum, u128::from(self.util_known.0) * 100)
    }

    /// What the cards drew; `None` where nobody counted.
    #[must_use]
    pub fn counted_energy(&self) -> Option<Millijoules> {
        energy::known(self.energy, self.energy_known)
    }

    pub(super) fn nanos(&self, class: RollUp) -> u128 {
        let of_class = |state: &&State| state.roll_up() == Some(class);
        let own: Micros = State::ALL
            .iter()
            .filter(of_class)
            .map(|state| self.state(*state).micros)
            .sum();
        own_nanos(own) + self.old.nanos[class.place()]
    }

    fn all_nanos(&self) -> u128 {
        own_nanos(self.observed()) + self.old.nanos.iter().sum::<u128>()
    }
}

impl HoldSums {
    pub fn add_old(&mut self, ticks: u64, idle_ticks: u64, nanos: u128) {
        self.old_ticks += ticks;
        self.old_idle_ticks += idle_ticks;
        self.old_nanos += u128::from(ticks) * nanos;
        self.old_idle_nanos += u128::from(idle_ticks) * nanos;
    }

    pub fn merge(&mut self, other: &Self) {
        self.own.merge(&other.own);
        self.old_ticks += other.old_ticks;
        self.old_idle_ticks += other.old_idle_ticks;
        self.old_nanos += other.old_nanos;
        self.old_idle_nanos += other.old_idle_nanos;
    }

    /// Held hours, of whatever source.
    #[must_use]
    pub fn hours(&self) -> f64 {
        hours(self.nanos())
    }

    #[must_use]
    pub fn idle_hours(&self) -> f64 {
        hours(own_nanos(self.own.idle_held) + self.old_idle_nanos)
    }

    /// What is charged. `None` where old rows alone know the person: they do not say how a card was shared.
    #[must_use]
    pub fn charged_time(&self) -> Option<Micros> {
        (self.own.held > Micros(0) || self.old_ticks == 0).then_some(self.own.charged)
    }

    /// What was drawn. `None` where nobody counted while something was held; who held nothing drew nothing.
    #[must_use]
    pub fn counted_energy(&self) -> Option<Millijoules> {
        let held_nothing = self.own.held == Micros(0) && self.old_ticks == 0;
        match held_nothing {
            true => Some(Millijoules(0)),
            false => self.own.counted_energy(),
        }
    }

    /// Whether what is charged is all of it: old rows do not say how a card was shared.
    #[must_use]
    pub fn charged_is_all(&self) -> bool {
        self.old_ticks == 0
    }

    /// Whether energy was counted for as good as all of the held time: ticks at the end of a run have none, and old rows
    /// do not say what a card drew.
    #[must_use]
    pub fn energy_is_all(&self) -> bool {
        let uncounted = self.own.held.0.saturating_sub(self.own.energy_known.0);
        self.old_ticks == 0 && uncounted <= self.own.held.0 / 20
    }

    /// The idle-held share of what was held.
    #[must_use]
    pub fn idle_share(&self) -> Option<f64> {
        if self.own.held == Micros(0) {
            return ratio(self.old_idle_ticks.into(), self.old_ticks.into());
        }
        ratio(
            own_nanos(self.own.idle_held) + self.old_idle_nanos,
            self.nanos(),
        )
    }

    #[must_use]
    pub fn samples(&self) -> u64 {
        self.own.ticks + self.old_ticks
    }

    pub(super) fn nanos(&self) -> u128 {
        own_nanos(self.own.held) + self.old_nanos
    }
}

pub(super) fn own_nanos(time: Micros) -> u128 {
    u128::from(time.0) * 1000
}

/// Whole seconds stay exact; the rest is for showing.
pub(crate) fn hours(nanos: u128) -> f64 {
    const PER_SECOND: u128 = 1_000_000_000;
    (approximate(nanos / PER_SECOND) + approximate(nanos % PER_SECOND) / approximate(PER_SECOND))
        / 3600.0
}

pub(super) fn ratio(part: u128, whole: u128) -> Option<f64> {
    (whole > 0).then(|| approximate(part) / approximate(whole))
}

pub(super) fn count(number: usize) -> f64 {
    approximate(number as u128)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the last step before a number is shown"
)]
fn approximate(number: u128) -> f64 {
    number as f64
}
