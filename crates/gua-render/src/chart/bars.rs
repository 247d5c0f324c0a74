//! GPU-hours by person or another named item: one bar each in descending order, and one for the rest.

use super::canvas::{Anchor, Canvas, Fill, LABEL, MARGIN, Rect, Text};
use super::measure::{Weight, fitted, text_width};
use super::palette::{AXIS, GRID, INK, MUTED};
use super::scale::{Steps, count, grouped, hours, percent};
use super::{Frame, Language, Shown, StateHours, axis, words};
use crate::markup::number;
use crate::natural::natural;

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
    pub fn draw(&self, frame: &Frame) -> String {
        let language = frame.language;
        let bars = self.bars(language);
        if bars.is_empty() {
            return Canvas::empty(frame, words::no_hours(self.observed).of(language));
        }
        let mut canvas = Canvas::new(frame);
        let total: StateHours = bars.iter().map(|bar| bar.hours).sum();
        canvas.state_legend(&Shown::HELD, &total, &[]);

        let names = axis::widest(bars.iter().map(|bar| bar.name.as_str()), LABEL);
        let names = names.min(canvas.width() * 0.28);
        let labels: Vec<(String, String)> =
            bars.iter().map(|bar| value_label(bar, language)).collect();
        let widest = |(amount, idle): &(String, String)| {
            text_width(amount, LABEL, Weight::Bold) + text_width(idle, LABEL, Weight::Regular) + 8.0
        };
        let values = labels.iter().map(widest).fold(0.0, f64::max);
        let left = MARGIN + names + 10.0;
        let width = (canvas.width() - left - MARGIN - values - 8.0).max(24.0);
        let plot = Rect::new(left, canvas.top, width, ROW * count(bars.len()) + 4.0);
        let named = bars.iter().filter(|bar| !bar.is_rest);
        let largest = named.map(|bar| bar.hours.held()).fold(0.0, f64::max);
        let steps = Steps::up_to(largest, if plot.width < 300.0 { 2 } else { 5 });
        grid(&mut canvas, plot, &steps, &self.value_title);

        for ((place, bar), (amount, idle)) in bars.iter().enumerate().zip(&labels) {
            let row = Rect::new(plot.x, plot.y + 4.0 + ROW * count(place), names, ROW);
            // A long bar for the rest would make the others too short to compare, so only its numbers are shown.
            let scale = match bar.is_rest && bar.hours.held() > largest {
                true => 0.0,
                false => plot.width / steps.top(),
            };
            draw_bar(&mut canvas, row, bar, scale);
            let x = plot.x + bar.hours.held() * scale + 8.0;
            let baseline = row.y + ROW / 2.0 + 2.0;
            let text = Text::label(x, baseline, Anchor::Start, amount);
            canvas.text(text.weighing(Weight::Bold).painted(INK));
            let beside = x + text_width(amount, LABEL, Weight::Bold) + 8.0;
            canvas.label((beside, baseline), Anchor::Start, idle);
        }
        let described = bars.iter().zip(&labels).take(20);
        let described: Vec<String> = described
            .map(|(bar, (amount, idle))| format!("{} {amount} ({idle})", bar.name))
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
        let is_whole = rows.len() <= self.top + 1;
        let rest = rows.split_off(if is_whole { rows.len() } else { self.top });
        let named = rows.into_iter().map(|row| Bar {
            name: gua_model::text::sanitize(&row.name),
            hours: row.hours,
            is_rest: false,
        });
        let rest = (!rest.is_empty()).then(|| Bar {
            name: words::others(rest.len(), language),
            hours: rest.iter().map(|row| row.hours).sum(),
            is_rest: true,
        });
        named.chain(rest).collect()
    }
}

/// Returns the amount and its idle-held share.
fn value_label(bar: &Bar, language: Language) -> (String, String) {
    let held = bar.hours.held();
    let idle = percent(bar.hours.of(Shown::IdleHeld) / held);
    (hours(held), words::idle_share(&idle, language))
}

fn draw_bar(canvas: &mut Canvas<'_>, row: Rect, bar: &Bar, scale: f64) {
    let paint = if bar.is_rest { MUTED } else { INK };
    let place = (row.x - 10.0, row.y + ROW / 2.0 + 2.0);
    canvas.row_name(place, &bar.name, row.width, (LABEL, paint));
    let mut x = row.x;
    for state in Shown::HELD {
        let amount = bar.hours.of(state);
        if amount <= 0.0 {
            continue;
        }
        let word = state.label().of(canvas.frame.language);
        let (time, share) = (hours(amount), percent(amount / bar.hours.held()));
        let tooltip = format!("{}\n{word}: {time} ({share})", bar.name);
        let facts = [
            ("data-name", bar.name.as_str()),
            ("data-state", state.as_str()),
            ("data-hours", &number(amount)),
        ];
        let y = row.y + (ROW - BAR) / 2.0 - 2.0;
        let rect = Rect::new(x, y, amount * scale, BAR);
        canvas.rect(rect, Fill::State(state), &facts, &tooltip);
        x += amount * scale;
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
        canvas.label((x, plot.bottom() + 15.0), Anchor::Middle, &label);
        free_from = x + half + 6.0;
    }
    let room = canvas.width() - plot.x - MARGIN;
    let title = fitted(title, room, LABEL, Weight::Regular);
    canvas.label((plot.x, plot.bottom() + 33.0), Anchor::Start, &title);
}
