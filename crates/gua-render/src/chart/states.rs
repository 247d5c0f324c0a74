//! States over time: one stack of GPU-hours per slot of time; and hours of the day: one stack of shares for each hour, over
//! all days, with the quietest hours marked.

use std::fmt::Write as _;

use gua_model::{CalendarUnit, Period};
use jiff::tz::TimeZone;

use super::canvas::{Anchor, Canvas, Fill, Rect, Text};
use super::measure::Weight;
use super::palette::{INK, MUTED};
use super::scale::{Steps, count, grouped, hours, percent};
use super::time_axis::{TimeScale, ticks};
use super::{Frame, Shown, StateHours, axis, words};
use crate::markup::number;

/// Height of the plot on a screen.
pub(crate) const PLOT: f64 = 260.0;
/// Height of the plot of the hours of the day.
const DAY_PLOT: f64 = 240.0;
/// Width in pixels below which slots are drawn as one outline per state, without space between them.
const NARROW: f64 = 4.0;
/// Maximum number of slots with tooltips. With more, each is too narrow to point at.
const POINTABLE: usize = 2000;

/// One slot of time.
#[derive(Clone, Debug)]
pub struct StateSlot {
    pub period: Period,
    pub hours: StateHours,
}

/// Time of the GPUs by state, slot by slot.
#[derive(Clone, Debug)]
pub struct StatesOverTime {
    /// Slots in chronological order, without overlaps. The time between them stays empty.
    pub slots: Vec<StateSlot>,
    /// Slots in which nothing was observed, hatched over the full height.
    pub unobserved: Vec<Period>,
    /// Length of a whole slot, for the axis title.
    pub per: CalendarUnit,
    /// Length of a slot in minutes, where it is shorter than an hour.
    pub minutes: Option<i64>,
    /// Height of the plot in pixels.
    pub height: f64,
    pub zone: TimeZone,
}

impl StatesOverTime {
    /// Draws the chart as an SVG document.
    pub fn draw(&self, frame: &Frame) -> String {
        let language = frame.language;
        let total: StateHours = self.slots.iter().map(|slot| slot.hours).sum();
        let Some(window) = self.window().filter(|_| total.total() > 0.0) else {
            return Canvas::empty(frame, words::NOTHING.of(language));
        };
        let mut canvas = Canvas::new(frame);
        let gap = total.gap + count(self.unobserved.len());
        canvas.state_legend(&Shown::ALL, &StateHours { gap, ..total }, &[]);
        let highest = self.slots.iter().map(|slot| slot.hours.total());
        let steps = Steps::up_to(highest.fold(0.0, f64::max), 5);
        let labels = steps.values.iter();
        let labels: Vec<(f64, String)> = labels
            .map(|value| (value / steps.top(), grouped(*value, steps.decimals)))
            .collect();
        let unit = match self.minutes {
            Some(minutes) => words::gpu_hours_per_minutes(minutes, language),
            None => words::gpu_hours_per(self.per).of(language).to_owned(),
        };
        let plot = axis::values(&mut canvas, self.height, &unit, &labels);
        let scale = TimeScale {
            window,
            left: plot.x,
            width: plot.width,
            finest: self.minutes.is_none().then_some(self.per),
        };
        for period in &self.unobserved {
            let (from, to) = scale.ends(*period);
            let place = Rect::new(from, plot.y, to - from, plot.height);
            let when = axis::period_text(*period, &self.zone, language);
            let tooltip = format!("{when}\n{}", words::NO_DATA.of(language));
            let facts = [("data-unobserved", "true")];
            canvas.rect(place, Fill::State(Shown::Gap), &facts, &tooltip);
        }
        self.stacks(&mut canvas, plot, &scale, steps.top());
        if self.slots.len() <= POINTABLE {
            self.pointers(&mut canvas, plot, &scale);
        }
        axis::base_line(&mut canvas, plot);
        let marks = ticks(&scale, &self.zone, language, canvas.width());
        axis::time_labels(&mut canvas, plot, &marks, &self.zone);

        let states = Shown::ALL.into_iter();
        let parts = states.filter(|state| total.of(*state) > 0.0).map(|state| {
            let (name, amount) = (state.label().of(language), total.of(state));
            let share = percent(amount / total.total());
            format!("{name} {} ({share})", hours(amount))
        });
        let parts: Vec<String> = parts.collect();
        let when = axis::period_text(window, &self.zone, language);
        let bottom = plot.bottom() + axis::TIME_HEIGHT + 6.0;
        canvas.finish(bottom, &format!("{unit}, {when}: {}.", parts.join(", ")))
    }

    fn window(&self) -> Option<Period> {
        let slots = self.slots.iter().map(|slot| slot.period);
        let slots = || slots.clone().chain(self.unobserved.iter().copied());
        let first = slots().map(|slot| slot.from()).min()?;
        let window = Period::new(first, slots().map(|slot| slot.to()).max()?);
        (!window.is_empty()).then_some(window)
    }

    fn stacks(&self, canvas: &mut Canvas<'_>, plot: Rect, scale: &TimeScale, top: f64) {
        let narrow = plot.width / count(self.slots.len().max(1)) < NARROW;
        let mut feet = vec![0.0; self.slots.len()];
        for state in Shown::ALL {
            canvas.group(state, |canvas| {
                let mut path = String::new();
                for (slot, foot) in self.slots.iter().zip(&mut feet) {
                    let part = slot.hours.of(state) / top;
                    let low: f64 = plot.bottom() - plot.height * *foot;
                    *foot += part;
                    let high = plot.bottom() - plot.height * *foot;
                    if part <= 0.0 {
                        continue;
                    }
                    let (from, to) = scale.ends(slot.period);
                    if narrow {
                        let [from, to, low, high] = [from, to, low, high].map(number);
                        let _ = write!(path, "M{from} {low}V{high}H{to}V{low}Z");
                    } else {
                        let space = ((to - from) * 0.12).min(4.0);
                        let width = to - from - space;
                        canvas.bare_rect(Rect::new(from + space / 2.0, high, width, low - high));
                    }
                }
                if narrow {
                    canvas.path(&path);
                }
            });
        }
    }

    /// Draws an invisible mark with a tooltip over each slot.
    fn pointers(&self, canvas: &mut Canvas<'_>, plot: Rect, scale: &TimeScale) {
        let language = canvas.frame.language;
        for StateSlot { period, hours } in &self.slots {
            let (from, to) = scale.ends(*period);
            let when = axis::period_text(*period, &self.zone, language);
            let tooltip = when + &hours.lines(Shown::ALL.into_iter().rev(), language);
            let amounts = Shown::ALL.map(|state| number(hours.of(state)));
            let facts = [
                ("pointer-events", "all"),
                ("data-from", &period.from().to_string()),
                ("data-to", &period.to().to_string()),
                ("data-active-hours", &amounts[0]),
                ("data-idle-held-hours", &amounts[1]),
                ("data-held-unknown-hours", &amounts[2]),
                ("data-truly-idle-hours", &amounts[3]),
                ("data-gap-hours", &amounts[4]),
            ];
            let place = Rect::new(from, plot.y, to - from, plot.height);
            canvas.rect(place, Fill::Clear, &facts, &tooltip);
        }
    }
}

/// Thickness of the line under a quiet hour.
const MARK: f64 = 3.0;

/// Time of the GPUs by state and hour of the day.
#[derive(Clone, Debug)]
pub struct DayHours {
    /// Hours from midnight, over all days.
    pub hours: [StateHours; 24],
    /// Hours of the day, the quietest first.
    pub quietest: Vec<usize>,
}

impl DayHours {
    /// Draws the chart as an SVG document.
    pub fn draw(&self, frame: &Frame) -> String {
        let language = frame.language;
        let total: StateHours = self.hours.iter().copied().sum();
        if total.total() <= total.of(Shown::Gap) {
            return Canvas::empty(frame, words::NOTHING.of(language));
        }
        let mut canvas = Canvas::new(frame);
        let quietest = words::QUIETEST.of(language);
        let quiet = [(Fill::Plain(INK), quietest)];
        let quiet = &quiet[..usize::from(!self.quietest.is_empty())];
        canvas.state_legend(&Shown::ALL, &total, quiet);
        let unit = words::SHARE_OF_TIME.of(language);
        let steps = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| (share, percent(share)));
        let plot = axis::values(&mut canvas, DAY_PLOT, unit, &steps);
        let width = plot.width / 24.0;
        for (hour, hours) in self.hours.iter().enumerate() {
            let x = plot.x + width * count(hour);
            self.column(&mut canvas, Rect { x, width, ..plot }, hour, hours);
        }
        axis::base_line(&mut canvas, plot);
        let title = words::HOUR_OF_DAY.of(language);
        let y = plot.bottom() + 40.0;
        canvas.label((plot.middle(), y), Anchor::Middle, title);
        let hours = self.quietest.iter().map(|hour| format!("{hour:02}"));
        let hours = hours.collect::<Vec<_>>().join(", ");
        let description = format!("{unit}; {quietest}: {hours}.");
        canvas.finish(plot.bottom() + 54.0, &description)
    }

    fn column(&self, canvas: &mut Canvas<'_>, column: Rect, hour: usize, hours: &StateHours) {
        let language = canvas.frame.language;
        let name = format!("{hour:02}:00 – {hour:02}:59");
        let tooltip = match hours.total() > 0.0 {
            true => name + &hours.lines(Shown::ALL.into_iter(), language),
            false => format!("{name}\n{}", words::NO_DATA.of(language)),
        };
        let space = (column.width * 0.14).min(4.0);
        let (x, width) = (column.x + space / 2.0, column.width - space);
        let place = Rect { x, width, ..column };
        let facts = [("data-hour", &*hour.to_string())];
        canvas.stack(place, (hours, &Shown::ALL), &facts, &tooltip);
        let is_quiet = self.quietest.contains(&hour);
        if is_quiet {
            let mark = Rect::new(x, column.bottom() + 4.0, width, MARK);
            canvas.rect(mark, Fill::Plain(INK), &[("data-quiet", "true")], &tooltip);
        }
        // On a phone, only every second label fits.
        if column.width < 20.0 && hour % 2 == 1 {
            return;
        }
        let (weight, paint) = match is_quiet {
            true => (Weight::Bold, INK),
            false => (Weight::Regular, MUTED),
        };
        let (y, label) = (column.bottom() + 22.0, format!("{hour:02}"));
        let text = Text::label(column.middle(), y, Anchor::Middle, &label);
        canvas.text(text.weighing(weight).painted(paint));
    }
}
