//! The one rule for which stored times can be true.
//!
//! A file may be damaged or made by someone else, and one row that claims a time in the year 9000 would make every fold, gap
//! and calendar span centuries. A time outside of the years 1970 to 2099, and an interval of more than 31 days, is damage:
//! readers and importers skip such a row and count it, and writers refuse it. A host without a battery-backed clock starts in
//! 1970, so that year is included.

use std::time::Duration;

use jiff::Timestamp;

use crate::period::Period;

/// First sane time, in microseconds since 1970.
pub const FIRST: i64 = 0;

/// End of the sane times (exclusive), in microseconds since 1970: the year 2100.
pub const END: i64 = 4_102_444_800_000_000;

/// Longest sane interval between two ticks.
pub const MAX_INTERVAL: Duration = Duration::from_hours(31 * 24);

/// Returns the time of a stored number of microseconds since 1970; `None` if it cannot be true.
pub fn time(micros: i64) -> Option<Timestamp> {
    let micros = Some(micros).filter(|micros| (FIRST..END).contains(micros));
    Timestamp::from_microsecond(micros?).ok()
}

/// Returns whether a time can be true.
pub fn is_time(at: Timestamp) -> bool {
    time(at.as_microsecond()).is_some()
}

/// Returns whether ticks can be this far apart.
pub fn is_interval(interval: Duration) -> bool {
    interval <= MAX_INTERVAL
}

/// Returns the nearest sane time.
pub fn nearest(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros.clamp(FIRST, END))
        .expect("the sane times are in the calendar")
}

/// Returns the bounds of a period in microseconds since 1970, as far as they are sane: no row outside of them counts.
pub fn bounds(period: Period) -> (i64, i64) {
    let (from, to) = (period.from().as_microsecond(), period.to().as_microsecond());
    (from.clamp(FIRST, END), to.clamp(FIRST, END))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_of_this_and_the_last_century_are_sane() {
        let check = |text: &str, expected: bool| {
            let at: Timestamp = text.parse().unwrap();
            assert_eq!(is_time(at), expected, "{text}");
        };
        check("1969-12-31T23:59:59.999999Z", false);
        check("1970-01-01T00:00:00Z", true);
        check("2099-12-31T23:59:59.999999Z", true);
        check("2100-01-01T00:00:00Z", false);
        for micros in [i64::MIN, -1, END, i64::MAX] {
            assert_eq!(time(micros), None, "{micros}");
        }
    }

    #[test]
    fn the_bounds_of_all_time_are_those_of_the_sane_times() {
        let always = Period::new(Timestamp::MIN, Timestamp::MAX);
        assert_eq!(bounds(always), (FIRST, END));
        assert_eq!(
            (nearest(i64::MIN), nearest(i64::MAX)),
            (nearest(FIRST), nearest(END))
        );
    }
}
