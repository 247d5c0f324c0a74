//! Hours of the day: one stack of shares for each hour, over all days, with the quietest hours marked.

use super::canvas::{Anchor, Canvas, Fill, MARGIN, Rect, Text};
use super::measure::Weight;
use super::palette::{AXIS, INK, MUTED};
use super::scale::{hours, percent};
use super::{Frame, Shown, StateHours, axis};
use crate::svg::number;

const PLOT: f64 = 240.0;
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
    #[must_use]
    pub fn draw(&self, frame: &Frame) -> String {
        let language = frame.language;
        let total: StateHours = self.hours.iter().copied().sum();
        if total.total() <= total.of(Shown::Gap) {
            return Canvas::empty(frame, language.nothing());
        }
        let mut canvas = Canvas::new(frame);
        let mut legend: Vec<(Fill, &str)> = Shown::ALL
            .into_iter()
            .filter(|state| {
                let always = !matches!(state, Shown::HeldUnknown | Shown::Gap);
                always || total.of(*state) > 0.0
            })
            .map(|state| (Fill::State(state), language.state(state)))
            .collect();
        if !self.quietest.is_empty() {
            legend.push((Fill::Plain(INK), language.quietest()));
        }
        canvas.legend(&legend);

        let steps = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| (share, percent(share)));
        let left = MARGIN + 8.0 + axis::widest(steps.iter().map(|(_, label)| label.as_str()));
        let plot = Rect {
            x: left,
            y: canvas.top + 20.0,
            width: canvas.width() - left - MARGIN,
            height: PLOT,
        };
        let unit = language.share_of_time();
        canvas.text(&Text::label(MARGIN, plot.y - 12.0, Anchor::Start, unit));
        axis::values(&mut canvas, plot, &steps);
        let width = plot.width / 24.0;
        for (place, amounts) in (0u32..).zip(&self.hours) {
            let column = Rect {
                x: plot.x + width * f64::from(place),
                width,
                ..plot
            };
            self.column(&mut canvas, column, place, amounts, frame);
        }
        canvas.line((plot.x, plot.bottom()), (plot.right(), plot.bottom()), AXIS);
        canvas.text(&Text::label(
            plot.x + plot.width / 2.0,
            plot.bottom() + 40.0,
            Anchor::Middle,
            language.hour_of_day(),
        ));
        let quiet: Vec<String> = self
            .quietest
            .iter()
            .map(|hour| format!("{hour:02}"))
            .collect();
        let description = format!("{unit}; {}: {}.", language.quietest(), quiet.join(", "));
        canvas.finish(plot.bottom() + 54.0, &description)
    }

    fn column(
        &self,
        canvas: &mut Canvas<'_>,
        column: Rect,
        place: u32,
        amounts: &StateHours,
        frame: &Frame,
    ) {
        let language = frame.language;
        let all = amounts.total();
        let name = format!("{place:02}:00 – {place:02}:59");
        let mut foot = column.bottom();
        let space = (column.width * 0.14).min(4.0);
        let mut tooltip = name.clone();
        for state in Shown::ALL {
            let amount = amounts.of(state);
            if amount > 0.0 {
                let word = language.state(state);
                let share = percent(amount / all);
                tooltip.push_str(&format!("\n{word}: {} ({share})", hours(amount)));
            }
        }
        if all <= 0.0 {
            tooltip = format!("{name}\n{}", language.no_data());
        }
        for state in Shown::ALL {
            let part = match state {
                // Not observed: hatched over the full height.
                Shown::Gap if all <= 0.0 => 1.0,
                _ if all <= 0.0 => 0.0,
                _ => amounts.of(state) / all,
            };
            if part <= 0.0 {
                continue;
            }
            let height = column.height * part;
            foot -= height;
            let rect = Rect {
                x: column.x + space / 2.0,
                y: foot,
                width: column.width - space,
                height,
            };
            let facts = [
                ("data-hour", place.to_string()),
                ("data-state", state.key().to_owned()),
                ("data-hours", number(amounts.of(state))),
            ];
            let facts = facts.each_ref().map(|(key, value)| (*key, value.as_str()));
            canvas.rect(rect, Fill::State(state), &facts, &tooltip);
        }
        let is_quiet = self
            .quietest
            .iter()
            .any(|hour| Ok(place) == u32::try_from(*hour));
        if is_quiet {
            let rect = Rect {
                x: column.x + space / 2.0,
                y: column.bottom() + 4.0,
                width: column.width - space,
                height: MARK,
            };
            canvas.rect(rect, Fill::Plain(INK), &[("data-quiet", "true")], &tooltip);
        }
        // On a phone, only every second label fits.
        if column.width < 20.0 && place % 2 == 1 {
            return;
        }
        canvas.text(&Text {
            weight: if is_quiet {
                Weight::Bold
            } else {
                Weight::Regular
            },
            paint: if is_quiet { INK } else { MUTED },
            ..Text::label(
                column.x + column.width / 2.0,
                column.bottom() + 22.0,
                Anchor::Middle,
                &format!("{place:02}"),
            )
        });
    }
}
