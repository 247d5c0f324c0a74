//! Ages in the wording of nvgpu.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;
const YEAR: u64 = 365 * DAY;

/// Formats an age like nvgpu. `months` is the result of [`months_between`].
pub(super) fn ago(age: Duration, months: u64) -> String {
    let seconds = age.as_millis().saturating_add(500) / 1000;
    let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
    let (number, one, many) = match seconds {
        0..10 => return "just now".to_owned(),
        10..MINUTE => return format!("{seconds} seconds ago"),
        MINUTE..HOUR => (seconds / MINUTE, "a minute", "minutes"),
        HOUR..DAY => (seconds / HOUR, "an hour", "hours"),
        DAY..WEEK => (seconds / DAY, "a day", "days"),
        WEEK..YEAR if months > 0 => (months.min(12), "a month", "months"),
        WEEK..YEAR => (seconds / WEEK, "a week", "weeks"),
        _ => (seconds / YEAR, "a year", "years"),
    };
    match number {
        1 => format!("{one} ago"),
        _ => format!("{number} {many} ago"),
    }
}

/// Calendar months between two days; a remainder of more than two weeks counts as a month.
pub(super) fn months_between(then: &jiff::Zoned, now: &jiff::Zoned) -> u64 {
    let between = then.until((jiff::Unit::Year, now)).unwrap_or_default();
    let months = i64::from(between.get_years()) * 12 + i64::from(between.get_months());
    let rest = i64::from(between.get_days() > 14 || between.get_weeks() > 2);
    u64::try_from(months + rest).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_shown_in_nvgpus_words() {
        let check = |seconds, months, expected: &str| {
            assert_eq!(ago(Duration::from_secs(seconds), months), expected);
        };
        check(0, 0, "just now");
        check(9, 0, "just now");
        check(10, 0, "10 seconds ago");
        check(59, 0, "59 seconds ago");
        check(60, 0, "a minute ago");
        check(119, 0, "a minute ago");
        check(120, 0, "2 minutes ago");
        check(3_599, 0, "59 minutes ago");
        check(3_600, 0, "an hour ago");
        check(7_200, 0, "2 hours ago");
        check(86_400, 0, "a day ago");
        check(2 * 86_400, 0, "2 days ago");
        check(7 * 86_400, 0, "a week ago");
        check(14 * 86_400, 0, "2 weeks ago");
        check(16 * 86_400, 1, "a month ago");
        check(100 * 86_400, 3, "3 months ago");
        check(360 * 86_400, 12, "12 months ago");
        check(365 * 86_400, 12, "a year ago");
        check(800 * 86_400, 26, "2 years ago");
        assert_eq!(ago(Duration::from_millis(9_600), 0), "10 seconds ago");
    }

    #[test]
    fn months_are_those_of_the_calendar() {
        let check = |then: &str, now: &str, expected| {
            let at = |text: &str| {
                let time: jiff::civil::DateTime = text.parse().unwrap();
                time.to_zoned(jiff::tz::TimeZone::UTC).unwrap()
            };
            assert_eq!(months_between(&at(then), &at(now)), expected, "{then}");
        };
        check("2026-03-01T00:00", "2026-03-15T00:00", 0);
        check("2026-03-01T00:00", "2026-03-16T00:00", 1);
        check("2026-01-31T12:00", "2026-02-28T13:00", 1);
        check("2025-12-01T00:00", "2026-03-02T00:00", 3);
    }
}
