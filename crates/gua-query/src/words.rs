//! Times and time zones as people write them.

use std::time::Duration;

use gua_model::duration;
use gua_model::failure::Failure;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A moment, and its distance from now if it was written as a duration.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub at: Timestamp,
    pub before: Option<Duration>,
}

/// Parses a moment: a duration before now, or a date with or without a time of day in `zone`.
pub fn moment(flag: &str, text: &str, zone: &TimeZone, now: Timestamp) -> Result<Moment, Failure> {
    let problem = match duration::parse(text) {
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
    let at = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| text.parse::<DateTime>().ok().and_then(local))
        .or_else(|| local(text.parse::<Date>().ok()?.at(0, 0, 0, 0)));
    match at {
        Some(at) => Ok(Moment { at, before: None }),
        None => Err(Failure::usage(format!(
            "{flag}: {problem}, or a moment like 2026-11-01 or 2026-11-01T12:00"
        ))),
    }
}

/// The time zone with this name, or the local one.
pub fn zone(name: Option<&str>, local: TimeZone) -> Result<TimeZone, Failure> {
    match name {
        None => Ok(local),
        Some(name) if name.eq_ignore_ascii_case("utc") => Ok(TimeZone::UTC),
        Some(name) => TimeZone::get(name).map_err(|_| {
            let name: String = name.chars().take(40).flat_map(char::escape_debug).collect();
            Failure::usage(format!(
                "--tz: no time zone is called `{name}`; write it like UTC or Asia/Seoul"
            ))
        }),
    }
}
