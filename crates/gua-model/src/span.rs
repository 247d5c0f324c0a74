//! Spans: what one tick observed of one GPU, and the time that it covers. Spans of a GPU never overlap.
//!
//! Every amount of a span within a period is `A(end) - A(start)`, where `A` counts whole units from the start of the span
//! and never falls. So the parts of any partition add up to the whole, to the microsecond and the millijoule, and no
//! part is negative.
//!
//! Amounts are GPU time: a MIG instance has the part of its slices, see [`crate::slices`].

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cadence::Cadence;
use crate::classify::Basis;
use crate::id::{GpuUuid, ProcessKey};
use crate::owner::{Owner, OwnerKey};
use crate::period::{Period, micros_between};
use crate::reading::{Missing, Reading};
use crate::sample::ProcessKind;
use crate::slices::Slices;
use crate::state::{RollUp, State, Verdict};
use crate::unit::{Bytes, Centipercent, Micros, Millijoules, Percent};

/// Observed time of one GPU, from one tick to the next or to the end of its interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    pub gpu: GpuUuid,
    /// The GPU that this one is a MIG instance of.
    pub parent: Option<GpuUuid>,
    /// Part of the physical GPU that the span accounts for.
    pub slices: Slices,
    pub from: Timestamp,
    pub to: Timestamp,
    /// One state, or the busy one and the low one with their weights.
    pub shares: Vec<Share>,
    pub basis: Basis,
    /// Mean utilisation: of the driver's buffer, or the instant reading, as `basis` says.
    pub util: Reading<Centipercent>,
    /// Energy that the driver counted for these slices; missing if this tick or the next has no reading, if they are not
    /// consecutive, and if the counter was reset.
    pub energy: Reading<Millijoules>,
    pub holders: Vec<Holder>,
}

/// A part of a span: `weight` of the sum of all weights of its span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    pub verdict: Verdict,
    pub weight: u64,
}

/// A process that held the GPU during a span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// `None` where the process could not be seen; such holders cannot be distinguished and have no session.
    pub process: Option<ProcessKey>,
    /// `None` is the unknown owner.
    pub owner: Option<Owner>,
    pub kind: ProcessKind,
    pub memory: Reading<Bytes>,
    /// Its own mean SM utilisation in this time, as the next tick read it; `Ok(None)` where the driver had no record of it,
    /// which is so while a process does nothing. It is missing where the next tick does not show the process.
    pub sm_util: Reading<Option<Percent>>,
}

/// Part of one share of a span that lies in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharePart<'a> {
    pub verdict: &'a Verdict,
    pub micros: Micros,
    /// The span's energy in proportion to its time; `None` where it is missing.
    pub energy: Option<Millijoules>,
}

/// Part of one owner's hold on a GPU that lies in a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerPart {
    pub owner: OwnerKey,
    /// The observed time in full, once however many processes.
    pub held: Micros,
    /// The time in which the GPU was not free, shared equally among the owners on it.
    pub charged: Micros,
    /// The energy of that time, shared equally; `None` where it is missing.
    pub energy: Option<Millijoules>,
}

impl Span {
    pub fn period(&self) -> Period {
        Period::new(self.from, self.to)
    }

    /// The cadence that the span's length implies: a span with a hole behind it is as long as its interval.
    pub fn cadence(&self) -> Cadence {
        Cadence::new(Duration::from_micros(self.period().micros().0))
    }

    /// The physical GPU: this one, or the one that it is a MIG instance of.
    pub fn physical(&self) -> &GpuUuid {
        self.parent.as_ref().unwrap_or(&self.gpu)
    }

    /// Whether the GPU was lost.
    pub fn is_lost(&self) -> bool {
        let mut shares = self.shares.iter();
        shares.all(|share| share.verdict.unobserved() == Some(Missing::Gone))
    }

    /// Whether any of the physical GPU is accounted for. Otherwise the time is no capacity, and neither states nor holders
    /// are counted: other GPUs of the tick, such as MIG instances, have all slices.
    pub fn counts(&self) -> bool {
        self.slices.any()
    }

    /// Returns whether the GPU was in a state of this roll-up for a part of the span.
    pub fn has(&self, roll_up: RollUp) -> bool {
        let mut shares = self.shares.iter();
        shares.any(|share| share.weight > 0 && share.verdict.state.roll_up() == Some(roll_up))
    }

    /// GPU time within `period`, observed or not.
    pub fn gpu_time_within(&self, period: Period) -> Micros {
        Micros(self.ends(period).difference(|time| self.slices.part(time)))
    }

    /// Lengths of the states over the whole span, however large a part of the physical GPU it accounts for.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = (State, Micros)> {
        let length = self.period().micros().0;
        let share = move |(index, share): (usize, &Share)| {
            (share.verdict.state, Micros(self.part(index, length)))
        };
        self.shares.iter().enumerate().map(share)
    }

    /// The states within `period`. Their GPU time adds up to the part of the span that lies in it.
    pub fn states_within(&self, period: Period) -> impl Iterator<Item = SharePart<'_>> {
        let ends = self.ends(period);
        self.shares.iter().enumerate().map(move |(index, share)| {
            let micros = |time: u64| self.part(index, self.slices.part(time));
            let energy = |time: u64| Some(self.part(index, self.energy_until(time)?));
            SharePart {
                verdict: &share.verdict,
                micros: Micros(ends.difference(micros)),
                energy: ends.some_difference(energy).map(Millijoules),
            }
        })
    }

    /// The owners within `period` in their order, the unknown one first. What they are charged adds up to the part of the
    /// span that lies in it and in which the GPU was observed and not free.
    pub fn owners_within(&self, period: Period) -> impl Iterator<Item = OwnerPart> {
        let ends = self.ends(period);
        let owners = self.owners();
        let number = to_u64(owners.len());
        (0..number).zip(owners).map(move |(place, owner)| {
            // floor((x + 0)/n) + ... + floor((x + n - 1)/n) = x, and none of them ever falls (Hermite's identity).
            let equal = |amount: u64| equal_part(amount, place, number);
            let energy = |time: u64| Some(equal(self.in_use(self.energy_until(time)?)));
            OwnerPart {
                owner,
                held: Micros(ends.difference(|time| self.observed(self.slices.part(time)))),
                charged: Micros(ends.difference(|time| equal(self.in_use(self.slices.part(time))))),
                energy: ends.some_difference(energy).map(Millijoules),
            }
        })
    }

    /// The distinct owners on the GPU; the unknown one counts as one.
    pub fn owners(&self) -> BTreeSet<OwnerKey> {
        let key = |holder: &Holder| holder.owner.as_ref().map(|owner| owner.who.clone());
        let keys = self.holders.iter().map(key);
        keys.map(|key| key.unwrap_or(OwnerKey::Unknown)).collect()
    }

    /// GPU time within `period` in which the state was observed.
    pub fn observed_within(&self, period: Period) -> Micros {
        Micros(
            self.ends(period)
                .difference(|time| self.observed(self.slices.part(time))),
        )
    }

    /// The energy within `period`; `None` where it is missing.
    pub fn energy_within(&self, period: Period) -> Option<Millijoules> {
        self.ends(period)
            .some_difference(|time| self.energy_until(time))
            .map(Millijoules)
    }

    fn ends(&self, period: Period) -> Ends {
        let part = self
            .period()
            .overlap(period)
            .unwrap_or(Period::new(self.from, self.from));
        Ends {
            start: micros_between(self.from, part.from()).0,
            end: micros_between(self.from, part.to()).0,
        }
    }

    /// Part of `amount` that belongs to the share at `index`. There are at most two shares, so the parts never fall as
    /// the amount grows: the first is rounded down, and the last is the rest.
    fn part(&self, index: usize, amount: u64) -> u64 {
        self.below(index + 1, amount) - self.below(index, amount)
    }

    fn below(&self, index: usize, amount: u64) -> u64 {
        let weigh = |shares: &[Share]| shares.iter().map(|share| share.weight).sum();
        proportion(amount, weigh(&self.shares[..index]), weigh(&self.shares))
    }

    fn observed(&self, amount: u64) -> u64 {
        self.parts(amount, |state| state != State::Unobserved)
    }

    /// Part of `amount` that belongs to observed time in which the GPU was not free: nobody is charged for a GPU that
    /// others may take.
    fn in_use(&self, amount: u64) -> u64 {
        self.parts(amount, |state| {
            !matches!(state, State::Unobserved | State::TrulyIdle)
        })
    }

    fn parts(&self, amount: u64, counts: impl Fn(State) -> bool) -> u64 {
        (0..self.shares.len())
            .filter(|index| counts(self.shares[*index].verdict.state))
            .map(|index| self.part(index, amount))
            .sum()
    }

    /// The energy of the first `time` microseconds.
    fn energy_until(&self, time: u64) -> Option<u64> {
        let whole = self.energy.ok()?.0;
        Some(proportion(whole, time, self.period().micros().0))
    }
}

/// Start and end of a period, in microseconds from the start of a span.
#[derive(Clone, Copy)]
struct Ends {
    start: u64,
    end: u64,
}

impl Ends {
    fn difference(self, until: impl Fn(u64) -> u64) -> u64 {
        until(self.end).saturating_sub(until(self.start))
    }

    fn some_difference(self, until: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        Some(until(self.end)?.saturating_sub(until(self.start)?))
    }
}

/// Part `place` of `amount` divided equally among `number`.
fn equal_part(amount: u64, place: u64, number: u64) -> u64 {
    amount / number + u64::from(amount % number >= number - place)
}

/// `amount * part / whole`, rounded down. Nothing has no part.
pub(crate) fn proportion(amount: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    if part == whole {
        return amount;
    }
    match amount.checked_mul(part) {
        Some(product) => product / whole,
        None => {
            let wide = u128::from(amount) * u128::from(part) / u128::from(whole);
            u64::try_from(wide).unwrap_or(u64::MAX)
        }
    }
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_parts_add_up_and_never_fall(amount: u64, number in 1u64..50) {
            let part = |place| equal_part(amount, place, number);
            prop_assert_eq!((0..number).map(|place| u128::from(part(place))).sum::<u128>(), u128::from(amount));
            for place in 0..number {
                let formula = (u128::from(amount) + u128::from(place)) / u128::from(number);
                prop_assert_eq!(u128::from(part(place)), formula);
                prop_assert!(equal_part(amount.saturating_add(1), place, number) >= part(place));
            }
        }

        #[test]
        fn a_proportion_is_exact_also_where_the_product_does_not_fit(amount: u64, part: u64, rest: u64) {
            let whole = part.saturating_add(rest);
            let found = proportion(amount, part, whole);
            prop_assert!(found <= amount);
            if whole > 0 {
                prop_assert_eq!(u128::from(found), u128::from(amount) * u128::from(part) / u128::from(whole));
            }
        }
    }
}
