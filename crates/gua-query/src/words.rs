//! Times and time zones as people write them.

use std::time::Duration;

use gua_model::duration;
use gua_model::failure::Failure;
use gua_model::text::in_message;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// A moment, and its distance from now if it was written as a duration.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub at: Timestamp,
    pub before: Option<Duration>,
}

/// Returns the start of the period that a word names. Weeks start on Monday.
fn calendar(word: &str, today: Date) -> Option<Date> {
    let week = || today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days());
    let date = match word {
        "today" => Ok(today),
        "yesterday" => today.yesterday(),
        "this-week" => week(),
        "last-week" => week().and_then(|monday| monday.checked_sub(7.days())),
        "this-month" => Ok(today.first_of_month()),
        "last-month" => today.first_of_month().checked_sub(1.month()),
        _ => return None,
    };
    date.ok()
}

/// Parses a number of weeks, such as `1w`.
fn weeks(text: &str) -> Option<Duration> {
    let days = duration::parse(&format!("{}d", text.strip_suffix('w')?)).ok()?;
    let weeks = days.checked_mul(7)?;
    let longest = Duration::from_secs(duration::MAX_DAYS * 86_400);
    (weeks <= longest).then_some(weeks)
}

/// Refuses what gpu-usage-audit does not accept: weeks, and words for calendar periods.
pub fn refuse_new_words(flag: &'static str, text: &str) -> Result<(), Failure> {
    match calendar(text, Date::ZERO).is_some() || weeks(text).is_some() {
        true => Err(duration::parse(text).map_or_else(
            |problem| Failure::of_flag(flag, problem.to_string()),
            |_| Failure::of_flag(flag, format!("`{text}` is not a duration")),
        )),
        false => Ok(()),
    }
}

/// Parses a moment: a duration before now, a date with or without a time of day in `zone`, or a word for the start of a
/// calendar period. `flag` is named without dashes.
pub fn moment(
    flag: &'static str,
    text: &str,
    zone: &TimeZone,
    now: Timestamp,
) -> Result<Moment, Failure> {
    let parsed = duration::parse(text).or_else(|problem| weeks(text).ok_or(problem));
    let problem = match parsed {
        Ok(before) => {
            let length = SignedDuration::try_from(before).unwrap_or(SignedDuration::MAX);
            // A duration beyond the calendar means the whole history.
            let at = now.checked_sub(length).unwrap_or(Timestamp::MIN);
            return Ok(Moment {
                at,
                before: Some(before),
            });
        }
        Err(problem) => problem,
    };
    let local = |time: DateTime| Some(time.to_zoned(zone.clone()).ok()?.timestamp());
    let today = now.to_zoned(zone.clone()).date();
    let at = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| text.parse::<DateTime>().ok().and_then(local))
        .or_else(|| local(text.parse::<Date>().ok()?.at(0, 0, 0, 0)))
        .or_else(|| local(calendar(text, today)?.at(0, 0, 0, 0)));
    match at {
        Some(at) => Ok(Moment { at, before: None }),
        None if is_date_in_form(text) => Err(Failure::of_flag(
            flag,
            format!("no such date: `{}`", in_message(text)),
        )),
        None => Err(Failure::of_flag(
            flag,
            format!("{problem}, or a moment like 2026-11-01, 2026-11-01T12:00 or yesterday"),
        )),
    }
}

/// Whether a text has the form of a date that the calendar does not have, such as `2026-11-31`.
fn is_date_in_form(text: &str) -> bool {
    let Some(date) = text.get(..10) else {
        return false;
    };
    let is_form = date.bytes().enumerate().all(|(place, byte)| match place {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    is_form && date.parse::<Date>().is_err()
}

/// The time zone with this name, or the local one.
pub fn zone(name: Option<&str>, local: TimeZone) -> Result<TimeZone, Failure> {
    match name {
        None => Ok(local),
        Some(name) if name.eq_ignore_ascii_case("utc") => Ok(TimeZone::UTC),
        Some(name) => TimeZone::get(name).map_err(|_| {
            let name: String = name.chars().take(40).flat_map(char::escape_debug).collect();
            Failure::of_flag(
                "tz",
                format!("no time zone is called `{name}`; write it like UTC or Asia/Seoul"),
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Wednesday in Seoul, and still Tuesday in UTC.
    const NOW: &str = "2026-11-17T16:30:00Z";

    fn at(text: &str) -> Result<String, String> {
        // Seoul, without the time zone database of the host.
        let zone = TimeZone::posix("KST-9").unwrap();
        let found = moment("since", text, &zone, NOW.parse().unwrap());
        found
            .map(|moment| moment.at.to_zoned(zone).strftime("%F %H:%M").to_string())
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn weeks_and_words_name_the_start_of_a_period() {
        for (text, expected) in [
            ("1w", "2026-11-11 01:30"),
            ("0.5w", "2026-11-14 13:30"),
            ("7d", "2026-11-11 01:30"),
            ("today", "2026-11-18 00:00"),
            ("yesterday", "2026-11-17 00:00"),
            ("this-week", "2026-11-16 00:00"),
            ("last-week", "2026-11-09 00:00"),
            ("this-month", "2026-11-01 00:00"),
            ("last-month", "2026-10-01 00:00"),
            ("2026-11-01", "2026-11-01 00:00"),
            ("2026-11-01T12:00", "2026-11-01 12:00"),
        ] {
            assert_eq!(at(text).as_deref(), Ok(expected), "{text}");
        }
        for bad in ["w", "1y", "tomorrow", "last-year", "999999999w", "-1w"] {
            let message = at(bad).unwrap_err();
            assert!(message.contains("is not a duration"), "{message}");
        }
    }

    #[test]
    fn a_date_that_the_calendar_does_not_have_is_named() {
        for bad in ["2026-11-31", "2026-13-01", "2026-02-29T12:00"] {
            let message = at(bad).unwrap_err();
            assert_eq!(message, format!("--since: no such date: `{bad}`"));
        }
        let message = at("2026-11-30T25:00").unwrap_err();
        assert!(!message.contains("no such date"), "{message}");
    }

    #[test]
    fn the_replaced_tool_knows_neither_weeks_nor_words() {
        for bad in ["1w", "today", "last-month"] {
            let failure = refuse_new_words("since", bad).unwrap_err();
            assert!(failure.message.contains("30s, 1h, 200ms"), "{failure}");
        }
        for valid in ["7d", "2026-11-01", "1y"] {
            refuse_new_words("since", valid).unwrap();
        }
    }
}
