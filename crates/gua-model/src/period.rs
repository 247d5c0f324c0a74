//! A period of wall-clock time, and its quarter hours. Quarters are the unit because some time zones are offset by
//! quarter hours.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::unit::Micros;

/// A half-open interval `from..to`. Never negative, and in whole microseconds, the resolution of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(Timestamp, Timestamp)", into = "(Timestamp, Timestamp)")]
pub struct Period {
    from: Timestamp,
    to: Timestamp,
}

impl Period {
    /// Creates a period. If its end comes before its start, it is empty and located at its start.
    pub fn new(from: Timestamp, to: Timestamp) -> Self {
        let from = whole_micros(from);
        Self {
            from,
            to: whole_micros(to).max(from),
        }
    }

    /// Creates a period of this length. It ends with the calendar at the latest.
    pub fn starting(from: Timestamp, length: Duration) -> Self {
        Self::new(from, from.saturating_add(length).unwrap_or(Timestamp::MAX))
    }

    /// Creates the shortest period that contains a moment.
    pub fn at(moment: Timestamp) -> Self {
        Self::starting(moment, Duration::from_micros(1))
    }

    /// Returns the shortest period that contains both.
    #[must_use]
    pub fn hull(self, other: Self) -> Self {
        Self::new(self.from.min(other.from), self.to.max(other.to))
    }

    pub fn from(self) -> Timestamp {
        self.from
    }

    pub fn to(self) -> Timestamp {
        self.to
    }

    pub fn micros(self) -> Micros {
        micros_between(self.from, self.to)
    }

    pub fn is_empty(self) -> bool {
        self.micros() == Micros(0)
    }

    pub fn contains(self, at: Timestamp) -> bool {
        self.from <= at && at < self.to
    }

    /// Returns the intersection; `None` if it is empty.
    pub fn overlap(self, other: Self) -> Option<Self> {
        let both = Self::new(self.from.max(other.from), self.to.min(other.to));
        (!both.is_empty()).then_some(both)
    }

    /// Splits the period at every quarter hour.
    pub fn quarters(self) -> impl Iterator<Item = (Quarter, Period)> {
        let first = Quarter::of(self.from).0;
        let last = Quarter::of(self.to).0;
        (first..=last).filter_map(move |number| {
            let quarter = Quarter(number);
            Some((quarter, self.overlap(quarter.period())?))
        })
    }
}

impl From<(Timestamp, Timestamp)> for Period {
    fn from((from, to): (Timestamp, Timestamp)) -> Self {
        Self::new(from, to)
    }
}

impl From<Period> for (Timestamp, Timestamp) {
    fn from(period: Period) -> Self {
        (period.from, period.to)
    }
}

/// A quarter hour, as the number of whole quarters since 1970 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quarter(pub i64);

impl Quarter {
    pub const SECONDS: i64 = 900;

    /// Returns the quarter that contains a moment.
    pub fn of(at: Timestamp) -> Self {
        Self(
            at.as_microsecond()
                .div_euclid(Self::SECONDS * MICROS_PER_SECOND),
        )
    }

    pub fn period(self) -> Period {
        let at = |number: i64| {
            let second = number.saturating_mul(Self::SECONDS);
            let bounds = Timestamp::MIN.as_second()..=Timestamp::MAX.as_second();
            Timestamp::from_second(second.clamp(*bounds.start(), *bounds.end()))
                .expect("a clamped second is within the calendar")
        };
        Period::new(at(self.0), at(self.0.saturating_add(1)))
    }
}

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Rounds a moment down to a whole microsecond. The ends of the calendar, which cannot be rounded, stay as they are.
pub fn whole_micros(at: Timestamp) -> Timestamp {
    if at.subsec_nanosecond() % 1000 == 0 {
        return at;
    }
    let micros = at.as_nanosecond().div_euclid(1000);
    let whole = i64::try_from(micros).map(Timestamp::from_microsecond);
    whole.ok().and_then(Result::ok).unwrap_or(at)
}

/// Returns the whole microseconds from one moment to another; zero if the other comes before. Each moment is rounded
/// down first, so that the lengths of adjacent periods add up.
pub fn micros_between(from: Timestamp, to: Timestamp) -> Micros {
    let difference = to.as_microsecond() - from.as_microsecond();
    Micros(u64::try_from(difference).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_microsecond(micros).unwrap()
    }

    #[test]
    fn a_quarter_begins_at_its_first_microsecond_and_ends_before_the_next() {
        let quarter = Quarter::of(at(900_000_000));
        assert_eq!(quarter, Quarter(1));
        assert_eq!(Quarter::of(at(899_999_999)), Quarter(0));
        assert_eq!(Quarter::of(at(-1)), Quarter(-1));
        assert!(quarter.period().contains(at(900_000_000)));
        assert!(!quarter.period().contains(at(1_800_000_000)));
    }

    #[test]
    fn a_period_that_ends_before_it_begins_is_empty() {
        let period = Period::new(at(5), at(3));
        assert!(period.is_empty());
        assert_eq!(period.quarters().count(), 0);
        assert_eq!(period.overlap(Period::new(at(0), at(9))), None);
    }

    #[test]
    fn a_period_has_whole_microseconds() {
        let nanos = |nanos| Timestamp::from_nanosecond(nanos).unwrap();
        let period = Period::new(nanos(1_999), nanos(5_001));
        assert_eq!((period.from(), period.to()), (at(1), at(5)));
        assert_eq!(whole_micros(nanos(-1)), at(-1));
        for end in [Timestamp::MIN, Timestamp::MAX] {
            assert_eq!(whole_micros(end).as_second(), end.as_second());
        }
    }

    #[test]
    fn a_quarter_beyond_the_calendar_does_not_panic() {
        for number in [i64::MIN, i64::MAX] {
            assert!(Quarter(number).period().is_empty());
        }
    }

    proptest! {
        #[test]
        fn the_quarters_of_a_period_add_up_to_it(from in -10_000_000_000i64..10_000_000_000, length in 0i64..20_000_000_000) {
            let period = Period::new(at(from), at(from + length));
            let parts: Vec<_> = period.quarters().collect();
            prop_assert_eq!(parts.iter().map(|(_, part)| part.micros()).sum::<Micros>(), period.micros());
            prop_assert!(parts.iter().all(|(quarter, part)| Quarter::of(part.from()) == *quarter));
            prop_assert!(parts.windows(2).all(|two| two[0].1.to() == two[1].1.from()));
        }
    }
}
