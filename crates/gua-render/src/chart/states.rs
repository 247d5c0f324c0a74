//! States over time: one stack per slot of time, as GPU-hours or as shares.

use gua_model::{CalendarUnit, Period};
use jiff::tz::TimeZone;

use super::canvas::{Anchor, Canvas, Fill, MARGIN, Rect, Text};
use super::scale::{Steps, grouped, hours, percent};
use super::time_axis::TimeScale;
use super::{Frame, Shown, StateHours, axis};
use crate::svg::{Path, number};

/// Height of the plot.
const PLOT: f64 = 260.0;
/// Width in pixels below which slots are drawn as one outline per state, without space between them.
const NARROW: f64 = 4.0;
/// Maximum number of slots with tooltips. With more, each is too narrow to point at.
const POINTABLE: usize = 2000;

/// Meaning of a stack's height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    GpuHours,
    /// Share of the slot's whole time, gaps included.
    Share,
}

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
    /// Length of a whole slot, for the axis title.
    pub per: Option<CalendarUnit>,
    pub measure: Measure,
    pub zone: TimeZone,
}

impl StatesOverTime {
    /// Draws the chart as an SVG document.
    #[must_use]
    pub fn draw(&self, frame: &Frame) -> String {
        let language = frame.language;
        let total: StateHours = self.slots.iter().map(|slot| slot.hours).sum();
        let Some(window) = self.window().filter(|_| total.total() > 0.0) else {
            return Canvas::empty(frame, language.nothing());
        };
        let mut canvas = Canvas::new(frame);
        let legend: Vec<(Fill, &str)> = Shown::ALL
            .into_iter()
            .filter(|state| {
                let always = !matches!(state, Shown::HeldUnknown | Shown::Gap);
                always || total.of(*state) > 0.0
            })
            .map(|state| (Fill::State(state), language.state(state)))
            .collect();
        canvas.legend(&legend);

        let steps = self.steps();
        let left = MARGIN + 8.0 + axis::widest(steps.iter().map(|(_, label)| label.as_str()));
        let plot = Rect {
            x: left,
            y: canvas.top + 20.0,
            width: canvas.width() - left - MARGIN,
            height: PLOT,
        };
        let bottom = plot.bottom() + axis::TIME_HEIGHT + 6.0;
        let unit = match (self.measure, self.per) {
            (Measure::Share, _) => language.share_of_time(),
            (Measure::GpuHours, Some(per)) => language.gpu_hours_per(per),
            (Measure::GpuHours, None) => language.gpu_hours(),
        };
        canvas.text(&Text::label(MARGIN, plot.y - 12.0, Anchor::Start, unit));
        axis::values(&mut canvas, plot, &steps);
        let scale = TimeScale {
            window,
            left: plot.x,
            width: plot.width,
            finest: self.per,
        };
        self.stacks(&mut canvas, plot, &scale);
        self.pointers(&mut canvas, plot, &scale, frame);
        // Redraw the base line over the bottom of the stacks.
        canvas.line(
            (plot.x, plot.bottom()),
            (plot.right(), plot.bottom()),
            super::palette::AXIS,
        );
        let marks = axis::time_ticks(&canvas, &scale, &self.zone, language);
        axis::time_labels(&mut canvas, plot, &marks, &self.zone, language);

        let parts: Vec<String> = Shown::ALL
            .into_iter()
            .filter(|state| total.of(*state) > 0.0)
            .map(|state| {
                let share = percent(total.of(state) / total.total());
                format!(
                    "{} {} ({share})",
                    language.state(state),
                    hours(total.of(state))
                )
            })
            .collect();
        let when = axis::stretch(window.from(), window.to(), &self.zone, language);
        canvas.finish(bottom, &format!("{unit}, {when}: {}.", parts.join(", ")))
    }

    fn window(&self) -> Option<Period> {
        let (first, last) = (self.slots.first()?, self.slots.last()?);
        let window = Period::new(first.period.from(), last.period.to());
        (!window.is_empty()).then_some(window)
    }

    fn top(&self) -> f64 {
        let highest = self.slots.iter().map(|slot| slot.hours.total());
        match self.measure {
            Measure::Share => 1.0,
            Measure::GpuHours => Steps::up_to(highest.fold(0.0, f64::max), 5).top(),
        }
    }

    fn steps(&self) -> Vec<(f64, String)> {
        match self.measure {
            Measure::Share => [0.0, 0.25, 0.5, 0.75, 1.0]
                .into_iter()
                .map(|share| (share, percent(share)))
                .collect(),
            Measure::GpuHours => {
                let steps = Steps::up_to(self.top(), 5);
                let label = |value: &f64| grouped(*value, steps.decimals);
                steps
                    .values
                    .iter()
                    .map(|value| (value / steps.top(), label(value)))
                    .collect()
            }
        }
    }

    /// Returns the height of a state in a slot, relative to the plot.
    fn height(&self, slot: &StateSlot, state: Shown) -> f64 {
        let whole = match self.measure {
            Measure::Share => slot.hours.total(),
            Measure::GpuHours => self.top(),
        };
        if whole > 0.0 {
            slot.hours.of(state) / whole
        } else {
            0.0
        }
    }

    fn stacks(&self, canvas: &mut Canvas<'_>, plot: Rect, scale: &TimeScale) {
        let edges = |slot: &StateSlot| (scale.x(slot.period.from()), scale.x(slot.period.to()));
        let count = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let narrow = plot.width / f64::from(count.max(1)) < NARROW;
        let mut feet = vec![0.0; self.slots.len()];
        for state in Shown::ALL {
            let mut path = Path::default();
            canvas.open_group(Fill::State(state), state.key());
            for (slot, foot) in self.slots.iter().zip(&mut feet) {
                let part = self.height(slot, state);
                let low: f64 = plot.bottom() - plot.height * *foot;
                *foot += part;
                let high = plot.bottom() - plot.height * *foot;
                if part <= 0.0 {
                    continue;
                }
                let (from, to) = edges(slot);
                if narrow {
                    path.move_to(from, low);
                    path.vertical(high);
                    path.horizontal(to);
                    path.vertical(low);
                    path.end();
                } else {
                    let space = ((to - from) * 0.12).min(4.0);
                    canvas.bare_rect(Rect {
                        x: from + space / 2.0,
                        y: high,
                        width: to - from - space,
                        height: low - high,
                    });
                }
            }
            if narrow {
                canvas.path(path.data());
            }
            canvas.close_group();
        }
    }

    /// Draws an invisible mark with a tooltip over each slot.
    fn pointers(&self, canvas: &mut Canvas<'_>, plot: Rect, scale: &TimeScale, frame: &Frame) {
        if self.slots.len() > POINTABLE {
            return;
        }
        for slot in &self.slots {
            let (from, to) = (scale.x(slot.period.from()), scale.x(slot.period.to()));
            let mut tooltip = axis::stretch(
                slot.period.from(),
                slot.period.to(),
                &self.zone,
                frame.language,
            );
            for state in Shown::ALL.into_iter().rev() {
                let amount = slot.hours.of(state);
                if amount > 0.0 {
                    let share = percent(amount / slot.hours.total());
                    let word = frame.language.state(state);
                    tooltip.push_str(&format!("\n{word}: {} ({share})", hours(amount)));
                }
            }
            let amounts = Shown::ALL.map(|state| number(slot.hours.of(state)));
            let (start, end) = (slot.period.from().to_string(), slot.period.to().to_string());
            canvas.rect(
                Rect {
                    x: from,
                    y: plot.y,
                    width: to - from,
                    height: plot.height,
                },
                Fill::Clear,
                &[
                    ("pointer-events", "all"),
                    ("data-from", &start),
                    ("data-to", &end),
                    ("data-active-hours", &amounts[0]),
                    ("data-idle-held-hours", &amounts[1]),
                    ("data-held-unknown-hours", &amounts[2]),
                    ("data-truly-idle-hours", &amounts[3]),
                    ("data-gap-hours", &amounts[4]),
                ],
                &tooltip,
            );
        }
    }
}
