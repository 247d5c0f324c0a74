//! Splits a window at the start of local hours, days, weeks and months. A day may have 23, 24 or 25 hours; nothing here
//! assumes otherwise. The caller passes the time zone; none is looked up.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use serde::{Deserialize, Serialize};

use crate::period::Period;
use crate::unit::Micros;

crate::words! {
    /// Calendar unit that a window is split into.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum CalendarUnit {
        Hour = "hour",
        Day = "day",
        /// From Monday to Sunday.
        Week = "week",
        Month = "month",
    }
}

impl CalendarUnit {
    /// The unit that cuts a window of this length into some dozens of parts: hours up to four days, days up to half a
    /// year, then months.
    pub fn for_length(length: Micros) -> Self {
        const HOUR: u64 = 3_600_000_000;
        match length.0 / HOUR {
            0..=96 => CalendarUnit::Hour,
            97..=4400 => CalendarUnit::Day,
            _ => CalendarUnit::Month,
        }
    }
}

/// The part of a local hour, day, week or month that lies in the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Wall-clock time at which the whole unit begins. An hour that a clock change repeats occurs twice.
    pub label: DateTime,
    pub period: Period,
}

/// Returns the slots of `window`, adjacent and in order.
pub fn slots(window: Period, zone: &TimeZone, unit: CalendarUnit) -> impl Iterator<Item = Slot> {
    let mut cursor = window.from();
    std::iter::from_fn(move || {
        if cursor >= window.to() {
            return None;
        }
        let local = cursor.to_zoned(zone.clone());
        // After the calendar's last day there is no next unit: the slot ends with the window.
        let end = next_start(&local, zone, unit).unwrap_or(window.to());
        let end = end.min(window.to());
        let period = Period::new(cursor, end);
        cursor = end;
        Some(Slot {
            label: label_at(&local, unit),
            period,
        })
    })
}

/// Returns the wall-clock start of the unit that contains a local time.
pub fn label_at(local: &Zoned, unit: CalendarUnit) -> DateTime {
    let date = local.date();
    match unit {
        CalendarUnit::Hour => date.at(local.hour(), 0, 0, 0),
        CalendarUnit::Day => date.at(0, 0, 0, 0),
        CalendarUnit::Week => monday(date).at(0, 0, 0, 0),
        CalendarUnit::Month => date.first_of_month().at(0, 0, 0, 0),
    }
}

/// Returns the previous period to compare a window with: the same number of months for whole months, the same number of days
/// for whole days, and otherwise the same length of time.
pub fn previous(window: Period, zone: &TimeZone) -> Period {
    let [from, to] = [window.from(), window.to()].map(|at| at.to_zoned(zone.clone()));
    let is_midnight = |at: &Zoned| start_of_day(at.date(), zone) == Some(at.timestamp());
    let (first, end) = (from.date(), to.date());
    let days = match (
        is_midnight(&from) && is_midnight(&to),
        first.day(),
        end.day(),
    ) {
        (false, ..) => None,
        (true, 1, 1) => {
            let years = i32::from(end.year()) - i32::from(first.year());
            let months = 12 * years + i32::from(end.month()) - i32::from(first.month());
            first.checked_sub(months.months()).ok()
        }
        (true, ..) => first.checked_sub(end.duration_since(first)).ok(),
    };
    let start = match days {
        Some(date) => start_of_day(date, zone),
        None => window
            .from()
            .checked_sub(window.to().duration_since(window.from()))
            .ok(),
    };
    Period::new(start.unwrap_or(Timestamp::MIN), window.from())
}

/// Returns the Monday of a date's week. The first days of the calendar have no Monday before them and are returned as
/// they are.
pub(crate) fn monday(date: Date) -> Date {
    let since = i64::from(date.weekday().to_monday_zero_offset());
    date.checked_sub(since.days()).unwrap_or(date)
}

/// Returns the first instant of a local day. It is not midnight if a clock change skips midnight.
pub fn start_of_day(day: Date, zone: &TimeZone) -> Option<Timestamp> {
    let midnight = zone.to_ambiguous_zoned(day.at(0, 0, 0, 0));
    Some(midnight.compatible().ok()?.timestamp())
}

/// Returns the first instant after `local` that belongs to another unit.
fn next_start(local: &Zoned, zone: &TimeZone, unit: CalendarUnit) -> Option<Timestamp> {
    let date = match unit {
        CalendarUnit::Hour => return next_hour(local, zone),
        CalendarUnit::Day => local.date().tomorrow().ok()?,
        CalendarUnit::Week => monday(local.date()).checked_add(7.days()).ok()?,
        CalendarUnit::Month => local.date().last_of_month().tomorrow().ok()?,
    };
    let midnight = zone.to_ambiguous_zoned(date.at(0, 0, 0, 0));
    let first = midnight.clone().compatible().ok()?.timestamp();
    if first > local.timestamp() {
        return Some(first);
    }
    // The clock went back over midnight: the old day continues until the second midnight.
    let again = midnight.later().ok()?.timestamp();
    (again > local.timestamp()).then_some(again)
}

/// Returns the next full hour of the wall clock. A clock change also starts a new hour, because zones have changed by
/// half hours.
fn next_hour(local: &Zoned, zone: &TimeZone) -> Option<Timestamp> {
    let into_hour = i64::from(local.minute()) * 60 + i64::from(local.second());
    let whole_second = Timestamp::from_second(local.timestamp().as_second()).ok()?;
    let full = whole_second
        .checked_add((3600 - into_hour).seconds())
        .ok()?;
    let change = zone.following(local.timestamp()).next();
    Some(change.map_or(full, |change| full.min(change.timestamp())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_window_is_cut_into_hours_days_or_months_by_its_length() {
        let check = |hours: u64, expected| {
            let length = Micros::from_secs(hours * 3600);
            assert_eq!(CalendarUnit::for_length(length), expected, "{hours} h");
        };
        check(0, CalendarUnit::Hour);
        check(96, CalendarUnit::Hour);
        check(97, CalendarUnit::Day);
        check(4400, CalendarUnit::Day);
        check(4401, CalendarUnit::Month);
    }

    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn window(from: &str, to: &str) -> Period {
        Period::new(from.parse().unwrap(), to.parse().unwrap())
    }

    #[test]
    fn months_are_compared_with_months_days_with_days_and_hours_with_hours() {
        let check = |from: &str, to: &str, expected: &str| {
            let found = previous(window(from, to), &berlin());
            assert_eq!(found.from().to_string(), expected, "{from}");
            assert_eq!(found.to(), from.parse().unwrap());
        };
        // November follows a month of 745 hours.
        check(
            "2026-10-31T23:00:00Z",
            "2026-11-30T23:00:00Z",
            "2026-09-30T22:00:00Z",
        );
        check(
            "2025-12-31T23:00:00Z",
            "2026-03-31T22:00:00Z",
            "2025-09-30T22:00:00Z",
        );
        // A week that begins after the change to summer time.
        check(
            "2026-03-29T22:00:00Z",
            "2026-04-05T22:00:00Z",
            "2026-03-22T23:00:00Z",
        );
        check(
            "2026-03-29T12:30:00Z",
            "2026-03-29T13:30:00Z",
            "2026-03-29T11:30:00Z",
        );
    }

    #[track_caller]
    fn check(from: &str, to: &str, unit: CalendarUnit, expected: &[(&str, f64)]) {
        let zone = berlin();
        let found: Vec<(String, f64)> = slots(window(from, to), &zone, unit)
            .map(|slot| {
                let label = slot.label.strftime("%Y-%m-%d %H").to_string();
                (label, slot.period.micros().hours())
            })
            .collect();
        let expected: Vec<(String, f64)> = expected
            .iter()
            .map(|(label, hours)| ((*label).to_owned(), *hours))
            .collect();
        assert_eq!(found, expected, "{from} to {to}");
    }

    #[test]
    fn a_day_of_a_clock_change_has_23_or_25_hours() {
        check(
            "2026-03-28T11:00:00Z",
            "2026-03-30T11:00:00Z",
            CalendarUnit::Day,
            &[
                ("2026-03-28 00", 12.0),
                ("2026-03-29 00", 23.0),
                ("2026-03-30 00", 13.0),
            ],
        );
        check(
            "2026-10-23T22:00:00Z",
            "2026-10-26T23:00:00Z",
            CalendarUnit::Day,
            &[
                ("2026-10-24 00", 24.0),
                ("2026-10-25 00", 25.0),
                ("2026-10-26 00", 24.0),
            ],
        );
    }

    #[test]
    fn a_week_begins_on_monday_and_may_have_an_hour_less() {
        check(
            "2026-03-27T23:00:00Z",
            "2026-04-06T22:00:00Z",
            CalendarUnit::Week,
            &[
                ("2026-03-23 00", 47.0),
                ("2026-03-30 00", 168.0),
                ("2026-04-06 00", 24.0),
            ],
        );
    }

    #[test]
    fn an_hour_that_the_clock_skips_is_missing_and_one_that_it_repeats_comes_twice() {
        check(
            "2026-03-29T00:00:00Z",
            "2026-03-29T02:30:00Z",
            CalendarUnit::Hour,
            &[
                ("2026-03-29 01", 1.0),
                ("2026-03-29 03", 1.0),
                ("2026-03-29 04", 0.5),
            ],
        );
        check(
            "2026-10-25T00:00:00Z",
            "2026-10-25T03:00:00Z",
            CalendarUnit::Hour,
            &[
                ("2026-10-25 02", 1.0),
                ("2026-10-25 02", 1.0),
                ("2026-10-25 03", 1.0),
            ],
        );
    }

    /// Clocks changed at one minute past midnight.
    const NEWFOUNDLAND: &str = "NST3:30NDT,M3.2.0/0:01,M11.1.0/0:01";

    #[test]
    fn a_clock_change_within_an_hour_begins_another() {
        let zone = TimeZone::posix(NEWFOUNDLAND).unwrap();
        let window = window("2026-11-01T02:00:00Z", "2026-11-01T04:00:00Z");
        let found: Vec<(i8, i8, u64)> = slots(window, &zone, CalendarUnit::Hour)
            .map(|slot| {
                let minutes = slot.period.micros().0 / 60_000_000;
                (slot.label.day(), slot.label.hour(), minutes)
            })
            .collect();
        // The first minute of the new day, and then 59 minutes of the old one again.
        assert_eq!(found, [(31, 23, 30), (1, 0, 1), (31, 23, 59), (1, 0, 30)]);
    }

    #[test]
    fn a_day_that_continues_after_the_clock_went_back_over_midnight_ends_at_the_second_midnight() {
        let zone = TimeZone::posix(NEWFOUNDLAND).unwrap();
        let window = window("2026-11-01T03:00:00Z", "2026-11-01T04:30:00Z");
        let days: Vec<(i8, u64)> = slots(window, &zone, CalendarUnit::Day)
            .map(|slot| (slot.label.day(), slot.period.micros().0 / 60_000_000))
            .collect();
        assert_eq!(days, [(31, 30), (1, 60)]);
    }

    #[test]
    fn months_begin_at_local_midnight() {
        check(
            "2026-02-28T22:00:00Z",
            "2026-03-31T23:00:00Z",
            CalendarUnit::Month,
            &[
                ("2026-02-01 00", 1.0),
                ("2026-03-01 00", 743.0),
                ("2026-04-01 00", 1.0),
            ],
        );
    }

    #[test]
    fn the_end_of_the_calendar_is_no_fault() {
        let window = Period::new(Timestamp::MAX - 2.hours(), Timestamp::MAX);
        for unit in [
            CalendarUnit::Hour,
            CalendarUnit::Day,
            CalendarUnit::Week,
            CalendarUnit::Month,
        ] {
            let whole: Micros = slots(window, &berlin(), unit)
                .map(|slot| slot.period.micros())
                .sum();
            assert_eq!(whole, window.micros());
        }
    }

    fn any_zone() -> impl Strategy<Value = TimeZone> {
        // Berlin, Lord Howe (half an hour of summer time), Nepal, New York, Newfoundland as it was until 2011.
        prop::sample::select(vec![
            "CET-1CEST,M3.5.0,M10.5.0/3",
            "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
            "<+0545>-5:45",
            "EST5EDT,M3.2.0,M11.1.0",
            NEWFOUNDLAND,
        ])
        .prop_map(|text| TimeZone::posix(text).unwrap())
    }

    proptest! {
        #[test]
        fn slots_lie_end_to_end_and_each_has_one_label(zone in any_zone(), from in 1_760_000_000_000_000i64..1_810_000_000_000_000, hours in 0i64..2000, rest in 0i64..3_600_000_000) {
            let at = |micros| Timestamp::from_microsecond(micros).unwrap();
            let window = Period::new(at(from), at(from + hours * 3_600_000_000 + rest));
            for unit in [CalendarUnit::Hour, CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month] {
                let mut cursor = window.from();
                for slot in slots(window, &zone, unit) {
                    prop_assert_eq!(slot.period.from(), cursor);
                    prop_assert!(!slot.period.is_empty());
                    cursor = slot.period.to();
                    let last = Timestamp::from_microsecond(cursor.as_microsecond() - 1).unwrap();
                    prop_assert_eq!(label_at(&last.to_zoned(zone.clone()), unit), slot.label);
                }
                prop_assert_eq!(cursor, window.to());
            }
        }
    }
}
