//! Ticks at the beginning of local hours, days and months, as many as are readable. A second row shows their context:
//! the day below hours, the month below days, the year below months.

use gua_model::{CalendarUnit, Period, slots};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Language;
use super::canvas::LABEL;
use super::measure::{Weight, text_width};

/// Height of the axis below the plot, without its title.
pub(crate) const HEIGHT: f64 = 36.0;
/// Minimum space between two labels.
const SPACE: f64 = 8.0;

/// Maps times to horizontal positions.
#[derive(Clone, Debug)]
pub(crate) struct TimeScale {
    pub(crate) window: Period,
    pub(crate) left: f64,
    pub(crate) width: f64,
    /// Unit of the marks if they represent whole units. Ticks are never finer.
    pub(crate) finest: Option<CalendarUnit>,
}

impl TimeScale {
    pub(crate) fn x(&self, at: Timestamp) -> f64 {
        let whole = self.window.micros().hours();
        let inside = at.clamp(self.window.from(), self.window.to());
        let part = Period::new(self.window.from(), inside).micros().hours();
        if whole > 0.0 {
            self.left + self.width * part / whole
        } else {
            self.left
        }
    }

    /// The positions of the ends of a period.
    pub(crate) fn ends(&self, period: Period) -> (f64, f64) {
        (self.x(period.from()), self.x(period.to()))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) x: f64,
    pub(crate) label: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TimeTicks {
    /// Positions at which units begin.
    pub(crate) lines: Vec<f64>,
    /// Centred labels below the plot.
    pub(crate) labels: Vec<Mark>,
    /// Left-aligned labels in the second row.
    pub(crate) contexts: Vec<Mark>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Minutes(i8),
    Hours(i8),
    Days(i8),
    Mondays,
    Months(i8),
    Years(i16),
}

/// Each step with its length in hours, and the minimum width of a unit in pixels: days have two digits, times five
/// characters.
const STEPS: [(Step, f64, f64); 22] = [
    (Step::Minutes(1), 1.0 / 60.0, 40.0),
    (Step::Minutes(2), 2.0 / 60.0, 40.0),
    (Step::Minutes(5), 5.0 / 60.0, 40.0),
    (Step::Minutes(10), 10.0 / 60.0, 40.0),
    (Step::Minutes(15), 0.25, 40.0),
    (Step::Minutes(30), 0.5, 40.0),
    (Step::Hours(1), 1.0, 40.0),
    (Step::Hours(2), 2.0, 40.0),
    (Step::Hours(3), 3.0, 40.0),
    (Step::Hours(6), 6.0, 40.0),
    (Step::Hours(12), 12.0, 40.0),
    (Step::Days(1), 24.0, 20.0),
    (Step::Days(2), 48.0, 20.0),
    (Step::Mondays, 168.0, 40.0),
    (Step::Days(10), 240.0, 30.0),
    (Step::Months(1), 730.0, 30.0),
    (Step::Months(3), 2190.0, 30.0),
    (Step::Months(6), 4380.0, 30.0),
    (Step::Years(1), 8766.0, 40.0),
    (Step::Years(2), 17_532.0, 40.0),
    (Step::Years(10), 87_660.0, 40.0),
    (Step::Years(100), 876_600.0, 40.0),
];

/// Returns the finest ticks whose labels do not touch and stay inside `0..edge`.
pub(crate) fn ticks(
    scale: &TimeScale,
    zone: &TimeZone,
    language: Language,
    edge: f64,
) -> TimeTicks {
    let hours = scale.window.micros().hours();
    if hours <= 0.0 {
        return TimeTicks::default();
    }
    for (step, step_hours, least) in STEPS {
        let too_fine = match scale.finest {
            None | Some(CalendarUnit::Hour) => false,
            Some(CalendarUnit::Day | CalendarUnit::Week) => step_hours < 24.0,
            Some(CalendarUnit::Month) => step_hours < 730.0,
        };
        if too_fine || scale.width * step_hours / hours < least {
            continue;
        }
        let found = units(scale.window, zone, step);
        let mut marks = TimeTicks::default();
        for unit in &found {
            if unit.begins {
                marks.lines.push(scale.x(unit.period.from()));
            }
            let label = label(step, unit, language);
            let width = text_width(&label, LABEL, Weight::Regular);
            let (from, to) = scale.ends(unit.period);
            let x = match centred_hours(step) {
                None => from,
                Some(_) => f64::midpoint(from, to),
            };
            // The label of a partial unit at the window's edge would touch the next one.
            let whole = scale.width * centred_hours(step).unwrap_or(0.0) / hours;
            let cut_short = (!unit.begins && x <= from) || to - from < whole * 0.7;
            if !cut_short && x - width / 2.0 >= 2.0 && x + width / 2.0 <= edge - 2.0 {
                marks.labels.push(Mark { x, label });
            }
        }
        if apart(&marks.labels) {
            marks.contexts = contexts(scale, zone, language, step, edge);
            return marks;
        }
    }
    TimeTicks::default()
}

/// Returns the minimum length of a unit whose label is centred; `None` if the label is at its beginning.
fn centred_hours(step: Step) -> Option<f64> {
    match step {
        Step::Minutes(_) | Step::Hours(_) | Step::Mondays => None,
        Step::Days(_) => Some(24.0),
        Step::Months(_) => Some(28.0 * 24.0),
        Step::Years(_) => Some(365.0 * 24.0),
    }
}

fn apart(labels: &[Mark]) -> bool {
    let half = |mark: &Mark| text_width(&mark.label, LABEL, Weight::Regular) / 2.0;
    labels
        .windows(2)
        .all(|two| two[0].x + half(&two[0]) + SPACE <= two[1].x - half(&two[1]))
}

/// A labelled unit, clipped to the window.
struct Unit {
    local: jiff::civil::DateTime,
    period: Period,
    /// Whether its beginning is in the window.
    begins: bool,
}

fn units(window: Period, zone: &TimeZone, step: Step) -> Vec<Unit> {
    let calendar = match step {
        Step::Minutes(minutes) => return minute_units(window, zone, minutes),
        Step::Hours(_) => CalendarUnit::Hour,
        Step::Days(_) | Step::Mondays => CalendarUnit::Day,
        Step::Months(_) => CalendarUnit::Month,
        Step::Years(years) => return year_units(window, zone, years),
    };
    slots(window, zone, calendar)
        .filter(|slot| match step {
            Step::Hours(hours) => slot.label.hour() % hours == 0,
            Step::Days(days) => {
                // Skip the last days of a month: the 31st would touch the 1st.
                (slot.label.day() - 1) % days == 0 && slot.label.day() <= 31 - days / 2
            }
            Step::Mondays => slot.label.weekday() == jiff::civil::Weekday::Monday,
            Step::Months(months) => (slot.label.month() - 1) % months == 0,
            Step::Minutes(_) | Step::Years(_) => true,
        })
        .map(|slot| Unit {
            begins: begins_at(slot.period.from(), zone, slot.label),
            local: slot.label,
            period: slot.period,
        })
        .collect()
}

fn begins_at(at: Timestamp, zone: &TimeZone, local: jiff::civil::DateTime) -> bool {
    zone.to_datetime(at) == local
}

fn minute_units(window: Period, zone: &TimeZone, minutes: i8) -> Vec<Unit> {
    // In whole minutes, the first at or after the beginning of the window.
    let minute = |at: Timestamp| at.as_second().div_euclid(60);
    let first = minute(window.from()) + i64::from(window.from().as_microsecond() % 60_000_000 != 0);
    let minutes_of = (first..=minute(window.to())).filter_map(|minute| {
        let at = Timestamp::from_second(minute * 60).ok()?;
        let local = zone.to_datetime(at);
        let is_one = at < window.to() && local.minute() % minutes == 0 && local.second() == 0;
        is_one.then(|| Unit {
            local,
            period: Period::new(at, window.to()),
            begins: true,
        })
    });
    minutes_of.collect()
}

fn year_units(window: Period, zone: &TimeZone, years: i16) -> Vec<Unit> {
    let mut found: Vec<Unit> = Vec::new();
    for slot in slots(window, zone, CalendarUnit::Month) {
        match found.last_mut() {
            Some(last) if last.local.year() == slot.label.year() => {
                last.period = Period::new(last.period.from(), slot.period.to());
            }
            _ => found.push(Unit {
                begins: slot.label.month() == 1 && begins_at(slot.period.from(), zone, slot.label),
                local: slot.label,
                period: slot.period,
            }),
        }
    }
    found.retain(|unit| unit.local.year() % years == 0);
    found
}

fn label(step: Step, unit: &Unit, language: Language) -> String {
    let date = unit.local.date();
    match step {
        Step::Minutes(_) | Step::Hours(_) => unit.local.strftime("%H:%M").to_string(),
        Step::Days(_) => date.day().to_string(),
        Step::Mondays => language.day_short(date),
        Step::Months(_) => language.month_short(date),
        Step::Years(_) => date.year().to_string(),
    }
}

/// Returns the labels of the second row where there is space for them.
fn contexts(
    scale: &TimeScale,
    zone: &TimeZone,
    language: Language,
    step: Step,
    edge: f64,
) -> Vec<Mark> {
    let found = match step {
        Step::Minutes(_) | Step::Hours(_) => units(scale.window, zone, Step::Days(1)),
        Step::Days(_) => units(scale.window, zone, Step::Months(1)),
        Step::Mondays | Step::Months(_) => units(scale.window, zone, Step::Years(1)),
        Step::Years(_) => Vec::new(),
    };
    let last = found.len().saturating_sub(1);
    let room = |place: usize, unit: &Unit| {
        let x = scale.x(unit.period.from());
        if place == last {
            edge - 2.0 - x
        } else {
            scale.x(unit.period.to()) - x - SPACE
        }
    };
    let fits = |name: &str, room: f64| text_width(name, LABEL, Weight::Regular) <= room;
    let named = |unit: &Unit| context(step, unit, language);
    // Use the same length for all labels. Only at the edges can a label be shorter or missing.
    let mut middle = found.iter().enumerate().take(last).skip(1);
    let all_fit = middle.all(|(place, unit)| fits(&named(unit)[0], room(place, unit)));
    let mark = |(place, unit): (usize, &Unit)| {
        let mut labels = named(unit).into_iter().skip(usize::from(!all_fit));
        let label = labels.find(|name| fits(name, room(place, unit)))?;
        let x = scale.x(unit.period.from());
        Some(Mark { x, label })
    };
    found.iter().enumerate().filter_map(mark).collect()
}

/// Returns the long and the short form of a label in the second row.
fn context(step: Step, unit: &Unit, language: Language) -> [String; 2] {
    let date = unit.local.date();
    match step {
        Step::Minutes(_) | Step::Hours(_) => [language.day_long(date), language.day_short(date)],
        Step::Days(_) => [language.month_long(date), language.month_short(date)],
        Step::Mondays | Step::Months(_) | Step::Years(_) => {
            [(); 2].map(|()| date.year().to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    #[track_caller]
    fn check(from: &str, to: &str, labels: &str, contexts: &str) {
        let scale = TimeScale {
            window: Period::new(from.parse().unwrap(), to.parse().unwrap()),
            left: 50.0,
            width: 600.0,
            finest: None,
        };
        let found = ticks(&scale, &berlin(), Language::English, 700.0);
        let join = |marks: &[Mark]| {
            let words: Vec<&str> = marks.iter().map(|mark| mark.label.as_str()).collect();
            words.join(" | ")
        };
        assert_eq!(
            (join(&found.labels).as_str(), join(&found.contexts).as_str()),
            (labels, contexts)
        );
    }

    #[test]
    fn marks_are_on_local_boundaries_and_name_their_day() {
        check(
            "2026-03-14T09:00:00Z",
            "2026-03-14T10:00:00Z",
            "10:00 | 10:05 | 10:10 | 10:15 | 10:20 | 10:25 | 10:30 | 10:35 | 10:40 | 10:45 | 10:50 | 10:55",
            "Sat 14 Mar 2026",
        );
        check(
            "2026-03-13T23:00:00Z",
            "2026-03-15T23:00:00Z",
            "00:00 | 06:00 | 12:00 | 18:00 | 00:00 | 06:00 | 12:00 | 18:00",
            "Sat 14 Mar 2026 | Sun 15 Mar 2026",
        );
        check(
            "2026-01-31T23:00:00Z",
            "2026-12-31T23:00:00Z",
            "Feb | Mar | Apr | May | Jun | Jul | Aug | Sep | Oct | Nov | Dec",
            "2026",
        );
    }

    #[test]
    fn a_clock_change_moves_ticks_and_not_their_labels() {
        check(
            "2026-03-28T23:00:00Z",
            "2026-03-29T22:00:00Z",
            "00:00 | 02:00 | 04:00 | 06:00 | 08:00 | 10:00 | 12:00 | 14:00 | 16:00 | 18:00 | 20:00 | 22:00"
                .replace("02:00 | ", "")
                .as_str(),
            "Sun 29 Mar 2026",
        );
    }
}
