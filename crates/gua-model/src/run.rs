//! Watched runs: the time of their GPUs as active, idle and unknown, and whether a run is still watched.

use std::iter::Sum;
use std::ops::Add;

use crate::unit::float;
use crate::{RollUp, State};

/// A GPU that was active for less than this share of its time counts as unused.
const UNUSED: f64 = 0.01;

/// Seconds of one GPU or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RolledUp {
    pub active: f64,
    /// Held without being used, or not held.
    pub idle: f64,
    /// In states that do not say whether the GPU was used.
    pub unknown: f64,
}

impl RolledUp {
    /// Sums seconds by state; `None` is a state that this version does not know.
    pub fn of(states: impl IntoIterator<Item = (Option<State>, f64)>) -> Self {
        let mut sum = Self::default();
        for (state, seconds) in states {
            *match state.and_then(State::roll_up) {
                Some(RollUp::Active) => &mut sum.active,
                Some(RollUp::IdleHeld | RollUp::TrulyIdle) => &mut sum.idle,
                None => &mut sum.unknown,
            } += seconds;
        }
        sum
    }

    /// Time of which it is known whether the GPU was used.
    pub fn known(self) -> f64 {
        self.active + self.idle
    }

    /// Active share of the known time; `None` if nothing is known.
    pub fn active_share(self) -> Option<f64> {
        (self.known() > 0.0).then(|| self.active / self.known())
    }

    /// Whether the GPU was never used, not even in time whose state is unknown.
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
    // Starts at zero, because the empty sum of floats is minus zero.
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

crate::words! {
    /// State of the process that watches a run without a recorded end.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum WatcherState {
        Running = "running",
        /// It has exited without recording the end of the run.
        Lost = "lost",
        /// It cannot be seen from here, or the run does not name it.
        Unknown = "unknown",
    }
}

/// The peak memory of a run on a GPU in words, from megabytes: the job's own or, if that is unknown, that of all processes.
pub fn peak_memory(own: Option<u64>, used: Option<u64>, total: Option<u64>) -> String {
    let (whose, most) = match own {
        Some(own) => ("memory", Some(own)),
        None => ("memory of the GPU", used),
    };
    match (most, total) {
        (Some(most), Some(total)) => format!("{whose} up to {} of {}", size(most), size(total)),
        (Some(most), None) => format!("{whose} up to {}", size(most)),
        (None, _) => "memory unknown".to_owned(),
    }
}

/// An amount of memory in words, from megabytes: `812 MB`, `31.2 GB`.
pub fn size(mb: u64) -> String {
    if mb < 1024 {
        return format!("{mb} MB");
    }
    let gigabytes = float(mb) / 1024.0;
    format!("{gigabytes:.1} GB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_roll_up_and_unknown_time_is_apart() {
        let check = |states: &[(&str, f64)], share: Option<f64>, is_unused: bool| {
            let state = |name: &str| State::ALL.into_iter().find(|it| it.as_str() == name);
            let sum = RolledUp::of(states.iter().map(|(name, time)| (state(name), *time)));
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
