//! GPU-hours by person or another named item: one bar each in descending order, and one for the rest.

use super::canvas::{Anchor, Canvas, Fill, LABEL, MARGIN, Rect, Text};
use super::measure::{Weight, fitted, text_width};
use super::palette::{AXIS, GRID, INK, MUTED};
use super::scale::{Steps, grouped, hours, percent};
use super::{Frame, Language, Shown, StateHours, axis};
use crate::natural::natural;
use crate::svg::number;

const ROW: f64 = 26.0;
const BAR: f64 = 16.0;

/// Hours of one person.
#[derive(Clone, Debug)]
pub struct HoursRow {
    pub name: String,
    /// Only the states in which a GPU is held are drawn.
    pub hours: StateHours,
}

/// GPU-hours by name.
#[derive(Clone, Debug)]
pub struct HoursBars {
    /// Rows in any order.
    pub rows: Vec<HoursRow>,
    /// Number of named bars; the rest share one bar.
    pub top: usize,
    /// Title of the values, such as "held GPU-hours".
    pub value_title: String,
    /// Whether anything was observed in the window.
    pub observed: bool,
}

struct Bar {
    name: String,
    hours: StateHours,
    is_rest: bool,
}

impl HoursBars {
    /// Draws the chart as an SVG document.
    #[must_use]
    pub fn draw(&self, frame: &Frame) -> String {
        let language = frame.language;
        let bars = self.bars(language);
        if bars.is_empty() {
            return Canvas::empty(frame, language.no_hours(self.observed));
        }
        let mut canvas = Canvas::new(frame);
        let unknown = bars
            .iter()
            .any(|bar| bar.hours.of(Shown::HeldUnknown) > 0.0);
        let legend: Vec<(Fill, &str)> = Shown::HELD
            .into_iter()
            .filter(|state| *state != Shown::HeldUnknown || unknown)
            .map(|state| (Fill::State(state), language.state(state)))
            .collect();
        canvas.legend(&legend);

        let names =
            axis::widest(bars.iter().map(|bar| bar.name.as_str())).min(canvas.width() * 0.28);
        let labels: Vec<(String, String)> =
            bars.iter().map(|bar| value_label(bar, language)).collect();
        let widest = |(amount, idle): &(String, String)| {
            text_width(amount, LABEL, Weight::Bold) + text_width(idle, LABEL, Weight::Regular) + 8.0
        };
        let values = labels.iter().map(widest).fold(0.0, f64::max);
        let left = MARGIN + names + 10.0;
        let row_count = u32::try_from(bars.len()).unwrap_or(u32::MAX);
        let plot = Rect {
            x: left,
            y: canvas.top,
            width: (canvas.width() - left - MARGIN - values - 8.0).max(24.0),
            height: ROW * f64::from(row_count) + 4.0,
        };
        let named = bars.iter().filter(|bar| !bar.is_rest);
        let largest = named.map(|bar| bar.hours.held()).fold(0.0, f64::max);
        let steps = Steps::up_to(largest, if plot.width < 300.0 { 2 } else { 5 });
        let scale = |amount: f64| plot.width * amount / steps.top();
        grid(&mut canvas, plot, &steps, &self.value_title);

        for ((place, bar), label) in (0u32..).zip(&bars).zip(&labels) {
            let y = plot.y + 4.0 + ROW * f64::from(place);
            // A long bar for the rest would make the others too short to compare, so only its numbers are shown.
            let is_told = bar.is_rest && bar.hours.held() > largest;
            let length = |amount: f64| if is_told { 0.0 } else { scale(amount) };
            draw_bar(
                &mut canvas,
                Rect {
                    x: plot.x,
                    y,
                    width: names,
                    height: ROW,
                },
                bar,
                &length,
                language,
            );
            let x = plot.x + length(bar.hours.held()) + 8.0;
            let baseline = y + ROW / 2.0 + 2.0;
            canvas.text(&Text {
                weight: Weight::Bold,
                paint: INK,
                ..Text::label(x, baseline, Anchor::Start, &label.0)
            });
            let beside = x + text_width(&label.0, LABEL, Weight::Bold) + 8.0;
            canvas.text(&Text::label(beside, baseline, Anchor::Start, &label.1));
        }
        let described: Vec<String> = bars
            .iter()
            .zip(&labels)
            .take(20)
            .map(|(bar, label)| format!("{} {} ({})", bar.name, label.0, label.1))
            .collect();
        let description = format!("{}: {}.", self.value_title, described.join("; "));
        canvas.finish(plot.bottom() + 48.0, &description)
    }

    /// Returns the rows with held hours in descending order; ties are sorted by name.
    pub(crate) fn sorted(&self) -> Vec<&HoursRow> {
        let rows = self.rows.iter().filter(|row| row.hours.held() > 0.0);
        let mut rows: Vec<&HoursRow> = rows.collect();
        rows.sort_by(|one, other| {
            let by_hours = other.hours.held().total_cmp(&one.hours.held());
            by_hours.then_with(|| natural(&one.name, &other.name))
        });
        rows
    }

    /// Returns the sorted bars, with the rest combined into one.
    fn bars(&self, language: Language) -> Vec<Bar> {
        let mut rows = self.sorted();
        // A bar for the rest takes as much space as the one row that it would replace.
        let named = if rows.len() <= self.top + 1 {
            rows.len()
        } else {
            self.top
        };
        let rest = rows.split_off(named);
        let mut bars: Vec<Bar> = rows
            .into_iter()
            .map(|row| Bar {
                name: gua_model::text::sanitize(&row.name),
                hours: row.hours,
                is_rest: false,
            })
            .collect();
        if !rest.is_empty() {
            bars.push(Bar {
                name: language.others(rest.len()),
                hours: rest.iter().map(|row| row.hours).sum(),
                is_rest: true,
            });
        }
        bars
    }
}

/// Returns the amount and its idle-held share.
fn value_label(bar: &Bar, language: Language) -> (String, String) {
    let held = bar.hours.held();
    let idle = percent(bar.hours.of(Shown::IdleHeld) / held);
    (hours(held), language.idle_share(&idle))
}

fn draw_bar(
    canvas: &mut Canvas<'_>,
    row: Rect,
    bar: &Bar,
    scale: &dyn Fn(f64) -> f64,
    language: Language,
) {
    let short = fitted(&bar.name, row.width, LABEL, Weight::Regular);
    let text = Text {
        paint: if bar.is_rest { MUTED } else { INK },
        ..Text::label(row.x - 10.0, row.y + ROW / 2.0 + 2.0, Anchor::End, &short)
    };
    canvas.text_with_tooltip(&text, if short == bar.name { "" } else { &bar.name });
    let mut x = row.x;
    for state in Shown::HELD {
        let amount = bar.hours.of(state);
        if amount <= 0.0 {
            continue;
        }
        let share = percent(amount / bar.hours.held());
        let tooltip = format!(
            "{}\n{}: {} ({share})",
            bar.name,
            language.state(state),
            hours(amount)
        );
        let facts = [
            ("data-name", bar.name.as_str()),
            ("data-state", state.key()),
            ("data-hours", &number(amount)),
        ];
        let rect = Rect {
            x,
            y: row.y + (ROW - BAR) / 2.0 - 2.0,
            width: scale(amount),
            height: BAR,
        };
        canvas.rect(rect, Fill::State(state), &facts, &tooltip);
        x += scale(amount);
    }
}

fn grid(canvas: &mut Canvas<'_>, plot: Rect, steps: &Steps, title: &str) {
    let mut free_from = f64::MIN;
    for value in &steps.values {
        let x = plot.x + plot.width * value / steps.top();
        let paint = if *value == 0.0 { AXIS } else { GRID };
        canvas.line((x, plot.y), (x, plot.bottom()), paint);
        let label = grouped(*value, steps.decimals);
        let half = text_width(&label, LABEL, Weight::Regular) / 2.0;
        if x - half < free_from || x + half > canvas.width() - 2.0 {
            continue;
        }
        canvas.text(&Text::label(
            x,
            plot.bottom() + 15.0,
            Anchor::Middle,
            &label,
        ));
        free_from = x + half + 6.0;
    }
    let room = canvas.width() - plot.x - MARGIN;
    let title = fitted(title, room, LABEL, Weight::Regular);
    canvas.text(&Text::label(
        plot.x,
        plot.bottom() + 33.0,
        Anchor::Start,
        &title,
    ));
}
