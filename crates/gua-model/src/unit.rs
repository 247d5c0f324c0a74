//! Units as types, so that a megabyte is never added to a milliwatt. Conversions that round say so in their name.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::time::Duration;

use serde::{Deserialize, Serialize};

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($inner:ty), $suffix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!("{} ", $suffix), self.0)
            }
        }
    };
}

unit!(/// An amount of memory.
    Bytes(u64), "B");
unit!(/// Electrical power.
    Milliwatts(u64), "mW");
unit!(/// Energy, as the driver's counter reports it.
    Millijoules(u64), "mJ");
unit!(/// Time that was observed, held or charged, in whole microseconds.
    Micros(u64), "us");
unit!(/// A mean utilisation, in hundredths of a percent.
    Centipercent(u32), "c%");
unit!(/// A clock rate.
    Megahertz(u32), "MHz");
unit!(/// A fan's speed in percent of what its maker calls the maximum. It may exceed a hundred (`nvml.h`).
    FanSpeed(u16), "%");
unit!(/// A temperature.
    Celsius(i32), "°C");

impl Bytes {
    /// Number of bytes in a megabyte, as the replaced tools count.
    pub const PER_MB: u64 = 1_048_576;

    pub const fn from_mb(mb: u64) -> Self {
        Self(mb.saturating_mul(Self::PER_MB))
    }

    /// Returns whole megabytes, rounded down: the unit of the 100 MB rule.
    pub const fn whole_mb(self) -> u64 {
        self.0 / Self::PER_MB
    }
}

impl Milliwatts {
    /// Returns whole watts for display, rounded to the nearest, halves up.
    pub const fn whole_watts(self) -> u64 {
        self.0.saturating_add(500) / 1000
    }
}

/// Implements addition. Sums saturate instead of wrapping.
macro_rules! adds_up {
    ($($name:ident),*) => {$(
        impl Add for $name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
                parts.fold(Self(0), Add::add)
            }
        }
    )*};
}

adds_up!(Bytes, Micros, Millijoules);

/// Converts a whole number for display or a ratio. Numbers above 2^53 are rounded.
#[expect(
    clippy::cast_precision_loss,
    reason = "the last step before a number is shown"
)]
pub const fn float(number: u64) -> f64 {
    number as f64
}

impl Millijoules {
    /// Returns kilowatt-hours, for display. Sums are made of whole millijoules, before conversion.
    pub fn kilowatthours(self) -> f64 {
        float(self.0) / 3.6e9
    }
}

impl From<Duration> for Micros {
    fn from(time: Duration) -> Self {
        Self(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    }
}

impl Micros {
    /// Returns the total of `count` intervals of this length.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    pub const PER_SECOND: u64 = 1_000_000;

    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(Self::PER_SECOND))
    }

    /// Returns hours, for display. Add whole microseconds first and convert the sum. Whole seconds stay exact.
    pub fn hours(self) -> f64 {
        let (seconds, rest) = (self.0 / Self::PER_SECOND, self.0 % Self::PER_SECOND);
        (float(seconds) + float(rest) / float(Self::PER_SECOND)) / 3600.0
    }
}

/// A percentage from 0 to 100. Some drivers report more; such values are invalid and rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Percent(u8);

impl Percent {
    pub const ZERO: Self = Self(0);
    pub const HUNDRED: Self = Self(100);

    /// Returns `None` for anything over a hundred.
    pub fn new(value: u32) -> Option<Self> {
        u8::try_from(value)
            .ok()
            .filter(|value| *value <= 100)
            .map(Self)
    }

    pub const fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<u8> for Percent {
    type Error = PercentOutOfRange;

    fn try_from(value: u8) -> Result<Self, PercentOutOfRange> {
        Self::new(value.into()).ok_or(PercentOutOfRange(value))
    }
}

impl From<Percent> for u8 {
    fn from(percent: Percent) -> u8 {
        percent.0
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} %", self.0)
    }
}

/// Error for a percentage over a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a percentage")]
pub struct PercentOutOfRange(pub u8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_over_a_hundred_is_no_percentage() {
        assert_eq!(Percent::new(100), Some(Percent::HUNDRED));
        assert_eq!(Percent::new(101), None);
        assert_eq!(Percent::new(u32::MAX), None);
        assert_eq!(Percent::try_from(255), Err(PercentOutOfRange(255)));
    }

    #[test]
    fn megabytes_are_rounded_down() {
        assert_eq!(Bytes(Bytes::PER_MB * 101 - 1).whole_mb(), 100);
        assert_eq!(Bytes::from_mb(101).whole_mb(), 101);
    }

    #[test]
    fn a_sum_of_absurd_amounts_does_not_overflow() {
        assert_eq!(
            [Bytes(u64::MAX), Bytes(1)].into_iter().sum::<Bytes>(),
            Bytes(u64::MAX)
        );
    }
}
