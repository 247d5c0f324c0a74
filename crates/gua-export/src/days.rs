//! Splits a window into local days. A split is never inside of a quarter hour, so that the totals of a quarter belong
//! to one day.

use std::collections::BTreeSet;

use gua_model::{CalendarUnit, Period, Quarter, slots};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// Maximum number of days after a tick in which there are rows of it: its interval and one day more.
const REACH: i64 = 32;

/// A local day, clipped to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    pub date: Date,
    pub period: Period,
}

/// Returns the days of a window, in order.
pub fn days(window: Period, zone: &TimeZone) -> Vec<Day> {
    let mut days: Vec<Day> = Vec::new();
    for slot in slots(window, zone, CalendarUnit::Day) {
        let from = match days.last() {
            Some(last) => last.period.to(),
            None => window.from(),
        };
        let to = quarter_from(slot.period.to()).min(window.to());
        if to > from {
            days.push(Day {
                date: slot.label.date(),
                period: Period::new(from, to),
            });
        }
    }
    days
}

/// Removes the days that cannot have rows: all but the first, the last, and those near a day in UTC that has any. One row with
/// a wrong time would otherwise make a window of decades.
pub(crate) fn keep_days_near(days: &mut Vec<Day>, with_rows: &BTreeSet<Date>) {
    let ends = [days.first(), days.last()].map(|day| day.map(|day| day.date));
    days.retain(|day| {
        // A tick covers at most its interval, and a local day begins or ends in a neighbouring one in UTC.
        let near = day.date.saturating_sub(Span::new().days(REACH));
        let until = day.date.saturating_add(Span::new().days(1));
        ends.contains(&Some(day.date)) || with_rows.range(near..=until).next().is_some()
    });
}

/// Returns the start of the first quarter hour at or after a time.
fn quarter_from(at: Timestamp) -> Timestamp {
    let quarter = Quarter::of(at).period();
    match quarter.from() == at {
        true => at,
        false => quarter.to(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_lie_end_to_end_and_have_23_or_25_hours_where_the_clock_is_changed() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let window = Period::new(at("2026-10-23T10:07:03Z"), at("2026-10-26T01:00:00Z"));
        let found = days(window, &zone);
        let hours: Vec<f64> = found
            .iter()
            .map(|day| day.period.micros().hours())
            .collect();
        assert_eq!(hours[1..], [24.0, 25.0, 2.0]);
        assert_eq!(found[0].period.from(), window.from());
        assert_eq!(found[3].period.to(), window.to());
        assert!(
            found
                .windows(2)
                .all(|two| two[0].period.to() == two[1].period.from())
        );
        let dates: Vec<String> = found.iter().map(|day| day.date.to_string()).collect();
        assert_eq!(
            dates,
            ["2026-10-23", "2026-10-24", "2026-10-25", "2026-10-26"]
        );
    }

    #[test]
    fn a_quarter_hour_belongs_to_the_day_in_which_it_begins() {
        // Amsterdam until 1937 was twenty minutes ahead.
        let zone = TimeZone::posix("AMT-0:20").unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let found = days(
            Period::new(at("1930-01-01T00:00:00Z"), at("1930-01-03T00:00:00Z")),
            &zone,
        );
        assert_eq!(found[0].period.to(), at("1930-01-01T23:45:00Z"));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn days_without_rows_are_left_out_of_a_window_of_decades() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let window = Period::new(at("1970-01-01T00:00:00Z"), at("2026-03-01T00:00:00Z"));
        let mut found = days(window, &TimeZone::UTC);
        assert!(found.len() > 20_000);
        let with_rows = [jiff::civil::date(2026, 1, 10)].into_iter().collect();
        keep_days_near(&mut found, &with_rows);
        let dates: Vec<String> = found.iter().map(|day| day.date.to_string()).collect();
        assert_eq!(dates.len(), 1 + 34 + 1);
        assert_eq!(dates[..2], ["1970-01-01", "2026-01-09"]);
        assert_eq!(dates[34..], ["2026-02-11", "2026-02-28"]);
    }
}
