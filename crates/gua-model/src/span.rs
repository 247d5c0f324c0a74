//! What one tick says about one card for how long. Spans of a card never overlap, and a cut changes no sum.
//!
//! Every amount of a span within a period is `A(end) - A(start)`, where `A` counts whole units from the start of the span
//! and never falls. So the parts of any partition add up to the whole, to the microsecond and the millijoule, and no
//! part is negative.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cadence::Cadence;
use crate::classify::Basis;
use crate::id::{GpuUuid, ProcessKey, Uid};
use crate::owner::Owner;
use crate::period::{Period, micros_between};
use crate::reading::Reading;
use crate::sample::ProcessKind;
use crate::state::{State, Verdict};
use crate::unit::{Bytes, Centipercent, Micros, Millijoules, Percent};

/// A stretch of time on one card, from one tick to the next or to the end of its interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    pub gpu: GpuUuid,
    /// The card that this gpu is an instance of.
    pub parent: Option<GpuUuid>,
    /// False while the card's MIG instances stand in its place: then the time is no capacity, and neither its states nor
    /// its holders are counted.
    pub counts: bool,
    pub from: Timestamp,
    pub to: Timestamp,
    /// One state, or the busy one and the low one with their weights.
    pub shares: Vec<Share>,
    pub basis: Basis,
    /// Mean utilisation: of the driver's buffer, or the instant reading, as `basis` says.
    pub util: Reading<Centipercent>,
    /// Energy that the driver counted in this time; missing where this tick or the next did not tell, where they are not
    /// consecutive, and where the counter began anew.
    pub energy: Reading<Millijoules>,
    pub holders: Vec<Holder>,
}

/// A part of a span: `weight` of the sum of all weights of its span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    pub verdict: Verdict,
    pub weight: u64,
}

/// A process that held the card during a span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// `None` where the process could not be seen; such holders cannot be told apart and have no session.
    pub process: Option<ProcessKey>,
    /// `None` is the unknown owner.
    pub owner: Option<Owner>,
    pub kind: ProcessKind,
    pub memory: Reading<Bytes>,
    /// Its own mean SM utilisation in this time, as the next tick read it; `Ok(None)` where that had none.
    pub sm_util: Reading<Option<Percent>>,
}

/// What a period has of one share of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharePart<'a> {
    pub verdict: &'a Verdict,
    pub micros: Micros,
    /// The span's energy in proportion to its time; `None` where it is missing.
    pub energy: Option<Millijoules>,
}

/// What a period has of one owner's hold on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerPart {
    /// `None` is the unknown owner.
    pub owner: Option<Uid>,
    /// The observed time in full, once however many processes.
    pub held: Micros,
    /// The observed time shared equally among the owners on the card.
    pub charged: Micros,
    /// The energy of that time, shared equally; `None` where it is missing.
    pub energy: Option<Millijoules>,
}

impl Span {
    #[must_use]
    pub fn period(&self) -> Period {
        Period::new(self.from, self.to)
    }

    /// The cadence that the span's length implies: a span with a hole behind it is as long as its interval.
    #[must_use]
    pub fn cadence(&self) -> Cadence {
        Cadence::new(Duration::from_micros(self.period().micros().0))
    }

    /// The states within `period`. Their microseconds add up to the part of the span that lies in it.
    pub fn states_within(&self, period: Period) -> impl Iterator<Item = SharePart<'_>> {
        let ends = self.ends(period);
        self.shares.iter().enumerate().map(move |(index, share)| {
            let micros = |time: u64| self.part(index, time);
            let energy = |time: u64| Some(self.part(index, self.energy_until(time)?));
            SharePart {
                verdict: &share.verdict,
                micros: Micros(ends.difference(micros)),
                energy: ends.some_difference(energy).map(Millijoules),
            }
        })
    }

    /// The owners within `period`, in order of uid, the unknown one first. What they are charged adds up to the observed
    /// part of the span that lies in it.
    pub fn owners_within(&self, period: Period) -> impl Iterator<Item = OwnerPart> {
        let ends = self.ends(period);
        let owners = self.owners();
        let number = to_u64(owners.len());
        (0..number).zip(owners).map(move |(place, owner)| {
            // floor((x + 0)/n) + ... + floor((x + n - 1)/n) = x, and none of them ever falls (Hermite's identity).
            let equal = |amount: u64| equal_part(amount, place, number);
            let energy = |time: u64| Some(equal(self.observed(self.energy_until(time)?)));
            OwnerPart {
                owner,
                held: Micros(ends.difference(|time| self.observed(time))),
                charged: Micros(ends.difference(|time| equal(self.observed(time)))),
                energy: ends.some_difference(energy).map(Millijoules),
            }
        })
    }

    /// The distinct owners on the card; the unknown one counts as one.
    #[must_use]
    pub fn owners(&self) -> BTreeSet<Option<Uid>> {
        let uid = |holder: &Holder| holder.owner.as_ref().map(|owner| owner.user.uid);
        self.holders.iter().map(uid).collect()
    }

    /// The time within `period` in which the card's state was seen.
    #[must_use]
    pub fn observed_within(&self, period: Period) -> Micros {
        Micros(self.ends(period).difference(|time| self.observed(time)))
    }

    /// The energy within `period`; `None` where it is missing.
    #[must_use]
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

    /// What `amount` has of the share at `index`. There are at most two shares, so the parts never fall as the amount
    /// grows: the first is rounded down, and the last is the rest.
    fn part(&self, index: usize, amount: u64) -> u64 {
        self.below(index + 1, amount) - self.below(index, amount)
    }

    fn below(&self, index: usize, amount: u64) -> u64 {
        let weigh = |shares: &[Share]| shares.iter().map(|share| share.weight).sum();
        proportion(amount, weigh(&self.shares[..index]), weigh(&self.shares))
    }

    fn observed(&self, amount: u64) -> u64 {
        let seen = |index: &usize| self.shares[*index].verdict.state != State::Unobserved;
        (0..self.shares.len())
            .filter(seen)
            .map(|index| self.part(index, amount))
            .sum()
    }

    /// The energy of the first `time` microseconds.
    fn energy_until(&self, time: u64) -> Option<u64> {
        let whole = self.energy.ok()?.0;
        Some(proportion(whole, time, self.period().micros().0))
    }
}

/// Where a period begins and ends, in microseconds from the start of a span.
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

/// What the one at `place` has of `amount`, shared equally by `number`.
fn equal_part(amount: u64, place: u64, number: u64) -> u64 {
    amount / number + u64::from(amount % number >= number - place)
}

/// `amount * part / whole`, rounded down. Nothing has no part.
fn proportion(amount: u64, part: u64, whole: u64) -> u64 {
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
