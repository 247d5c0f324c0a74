//! The states of a card as time of three kinds: at work, not at work, and not known to be either.

use std::iter::Sum;
use std::ops::Add;

use gua_model::{RollUp, State};

/// A share of a card's time below which the card was as good as unused.
const UNUSED: f64 = 0.01;

/// Seconds of one card or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RolledUp {
    pub active: f64,
    /// Held without being used, or held by nobody.
    pub idle: f64,
    /// In states that do not tell whether the card was used.
    pub unknown: f64,
}

impl RolledUp {
    /// Of states by their names. A name that is no state of ours tells nothing.
    pub fn of<'a>(states: impl IntoIterator<Item = (&'a str, f64)>) -> Self {
        let mut sum = Self::default();
        for (word, seconds) in states {
            let state = State::ALL.into_iter().find(|state| state.as_str() == word);
            *match state.and_then(State::roll_up) {
                Some(RollUp::Active) => &mut sum.active,
                Some(RollUp::IdleHeld | RollUp::TrulyIdle) => &mut sum.idle,
                None => &mut sum.unknown,
            } += seconds;
        }
        sum
    }

    /// The time of which it is known whether the card was used.
    #[must_use]
    pub fn known(self) -> f64 {
        self.active + self.idle
    }

    /// The share of the known time in which the card was at work; `None` where nothing is known.
    #[must_use]
    pub fn active_share(self) -> Option<f64> {
        (self.known() > 0.0).then(|| self.active / self.known())
    }

    /// Whether the card was never used. Time in which it may have been speaks against that.
    #[must_use]
    pub fn is_unused(self) -> bool {
        self.idle > 0.0 && self.active + self.unknown < UNUSED * (self.known() + self.unknown)
    }
}

impl Add for RolledUp {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            active: self.active + other.active,
            idle: self.idle + other.idle,
            unknown: self.unknown + other.unknown,
        }
    }
}

impl Sum for RolledUp {
    // From zero: the sum of no floats is minus zero.
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_roll_up_and_the_unknown_stands_apart() {
        let check = |states: &[(&str, f64)], share: Option<f64>, is_unused: bool| {
            let sum = RolledUp::of(states.iter().copied());
            assert_eq!(sum.active_share(), share, "{states:?}");
            assert_eq!(sum.is_unused(), is_unused, "{states:?}");
            let zeros = [sum.active, sum.idle, sum.unknown];
            assert!(zeros.iter().all(|zero| zero.is_sign_positive()));
        };
        check(&[], None, false);
        check(&[("ghost", 10.0)], Some(1.0), false);
        check(&[("stalled", 5.0), ("idle-held", 5.0)], Some(0.5), false);
        check(
            &[("orphan-held", 5.0), ("truly-idle", 5.0)],
            Some(0.0),
            true,
        );
        check(
            &[("held-unknown", 9.0), ("truly-idle", 1.0)],
            Some(0.0),
            false,
        );
        check(
            &[("unobserved", 9.0), ("truly-idle", 1.0)],
            Some(0.0),
            false,
        );
        check(
            &[("of another version", 9.0), ("active", 1.0)],
            Some(1.0),
            false,
        );
        let none = std::iter::empty::<RolledUp>().sum::<RolledUp>();
        assert!(none.active.is_sign_positive() && none.known().is_sign_positive());
    }
}
