//! Sessions over time: a row for each GPU or person, a bar for each session. A bar's height is divided by the time in
//! each state, because a session's totals do not say when within it. Unobserved time is hatched.

use gua_model::Period;
use gua_model::text::sanitize;
use jiff::tz::TimeZone;

use super::canvas::{Anchor, Canvas, Fill, MARGIN, Rect, Text};
use super::measure::{Weight, fitted, text_width};
use super::palette::{BAND, GRID, INK};
use super::scale::hours;
use super::time_axis::TimeScale;
use super::{Frame, Shown, StateHours, axis};
use crate::svg::number;

/// Minimum width of a bar, so that a short session stays visible in a long window.
const LEAST_WIDTH: f64 = 1.0;

/// One session, on one row.
#[derive(Clone, Debug)]
pub struct SessionBar {
    pub period: Period,
    /// The person on a GPU's row, or the GPU on a person's row.
    pub label: String,
    /// Time by state. Time in none of the held states was not observed.
    pub hours: StateHours,
}

/// One GPU or one person.
#[derive(Clone, Debug)]
pub struct SessionRow {
    pub name: String,
    pub bars: Vec<SessionBar>,
    /// Unobserved periods.
    pub gaps: Vec<Period>,
}

/// Sessions of all rows.
#[derive(Clone, Debug)]
pub struct SessionChart {
    /// Period shown. Sessions are clipped to it.
    pub window: Period,
    pub rows: Vec<SessionRow>,
    pub zone: TimeZone,
    /// Whether anything was observed in the window.
    pub observed: bool,
}

/// The bars of a row. Overlapping bars are in separate lanes.
struct Laid<'a> {
    row: &'a SessionRow,
    name: String,
    bars: Vec<(usize, &'a SessionBar, Period)>,
    lanes: usize,
    height: f64,
}

impl SessionChart {
    /// Draws the chart as an SVG document.
    #[must_use]
    pub fn draw(&self, frame: &Frame) -> String {
        let language = frame.language;
        let rows = self.laid();
        let bars = || rows.iter().flat_map(|row| &row.bars);
        let unknown = bars().any(|(_, bar, _)| bar.hours.of(Shown::HeldUnknown) > 0.0);
        let any_gap = rows.iter().any(|row| !row.row.gaps.is_empty());
        if self.is_blank() {
            return Canvas::empty(frame, language.no_hours(self.observed));
        }
        let mut canvas = Canvas::new(frame);
        let legend: Vec<(Fill, &str)> = [
            Shown::Active,
            Shown::IdleHeld,
            Shown::HeldUnknown,
            Shown::Gap,
        ]
        .into_iter()
        .filter(|state| match state {
            Shown::HeldUnknown => unknown,
            Shown::Gap => any_gap,
            _ => true,
        })
        .map(|state| (Fill::State(state), language.state(state)))
        .collect();
        canvas.legend(&legend);

        let size = if rows.len() > 30 { 10.0 } else { 11.0 };
        let names = rows
            .iter()
            .map(|row| text_width(&row.name, size, Weight::Regular));
        let names = names.fold(0.0, f64::max).min(canvas.width() * 0.25);
        let left = MARGIN + names + 10.0;
        let height: f64 = rows.iter().map(|row| row.height).sum();
        let plot = Rect {
            x: left,
            y: canvas.top,
            width: canvas.width() - left - MARGIN,
            height,
        };
        let bottom = plot.bottom() + axis::TIME_HEIGHT + 6.0;
        let scale = TimeScale {
            window: self.window,
            left: plot.x,
            width: plot.width,
            finest: None,
        };
        let marks = axis::time_ticks(&canvas, &scale, &self.zone, language);
        let mut y = plot.y;
        for (place, row) in rows.iter().enumerate() {
            if place % 2 == 0 {
                let band = Rect {
                    x: plot.x,
                    y,
                    width: plot.width,
                    height: row.height,
                };
                canvas.rect(band, Fill::Plain(BAND), &[], "");
            }
            y += row.height;
        }
        for x in &marks.lines {
            canvas.line((*x, plot.y), (*x, plot.bottom()), GRID);
        }
        let mut y = plot.y;
        for row in &rows {
            let place = Rect {
                x: plot.x,
                y,
                width: names,
                height: row.height,
            };
            self.draw_row(&mut canvas, place, row, &scale, (frame, size));
            y += row.height;
        }
        axis::time_labels(&mut canvas, plot, &marks, &self.zone, language);
        let total: StateHours = bars().map(|(_, bar, _)| bar.hours).sum();
        let parts: Vec<String> = Shown::HELD
            .into_iter()
            .map(|state| format!("{} {}", language.state(state), hours(total.of(state))))
            .collect();
        let when = axis::stretch(self.window.from(), self.window.to(), &self.zone, language);
        let description = format!(
            "{when}: {} × {}; {}.",
            rows.len(),
            bars().count(),
            parts.join(", ")
        );
        canvas.finish(bottom, &description)
    }

    /// Whether there is nothing to draw: no session, and no gap within the window.
    pub(crate) fn is_blank(&self) -> bool {
        let any_gap = self.rows.iter().any(|row| !row.gaps.is_empty());
        let mut bars = self.rows.iter().flat_map(|row| &row.bars);
        let any_bar = bars.any(|bar| bar.period.overlap(self.window).is_some());
        self.window.is_empty() || !(any_bar || (any_gap && self.observed))
    }

    /// Returns the number of sessions that began before another session of their row ended.
    pub(crate) fn overlapping(&self) -> usize {
        let rows = self.laid();
        let beside = |row: &Laid<'_>| row.bars.iter().filter(|(lane, ..)| *lane > 0).count();
        rows.iter().map(beside).sum()
    }

    fn laid(&self) -> Vec<Laid<'_>> {
        let many = self.rows.len() > 30;
        let lay = |row| lay(row, self.window, many);
        self.rows.iter().map(lay).collect()
    }

    fn draw_row(
        &self,
        canvas: &mut Canvas<'_>,
        place: Rect,
        row: &Laid<'_>,
        scale: &TimeScale,
        (frame, size): (&Frame, f64),
    ) {
        let language = frame.language;
        let short = fitted(&row.name, place.width, size, Weight::Regular);
        let text = Text {
            size,
            paint: INK,
            ..Text::label(
                place.x - 10.0,
                place.y + place.height / 2.0 + size * 0.36,
                Anchor::End,
                &short,
            )
        };
        canvas.text_with_tooltip(&text, if short == row.name { "" } else { &row.name });
        for gap in row
            .row
            .gaps
            .iter()
            .filter_map(|gap| gap.overlap(self.window))
        {
            let (from, to) = (scale.x(gap.from()), scale.x(gap.to()));
            let rect = Rect {
                x: from,
                y: place.y + 1.0,
                width: to - from,
                height: place.height - 2.0,
            };
            let tooltip = format!(
                "{}\n{}",
                language.state(Shown::Gap),
                axis::stretch(gap.from(), gap.to(), &self.zone, language)
            );
            canvas.rect(
                rect,
                Fill::State(Shown::Gap),
                &[("data-state", "gap")],
                &tooltip,
            );
        }
        let lanes = f64::from(u32::try_from(row.lanes.max(1)).unwrap_or(u32::MAX));
        let lane_height = (place.height - 4.0) / lanes;
        for (lane, bar, seen) in &row.bars {
            let lane = f64::from(u32::try_from(*lane).unwrap_or(u32::MAX));
            let (from, to) = (scale.x(seen.from()), scale.x(seen.to()));
            let width = (to - from).max(LEAST_WIDTH);
            let rect = Rect {
                x: from.min(scale.left + scale.width - width),
                y: place.y + 2.0 + lane_height * lane + 0.5,
                width,
                height: lane_height - 1.0,
            };
            self.draw_bar(canvas, rect, bar, frame);
        }
    }

    fn draw_bar(&self, canvas: &mut Canvas<'_>, rect: Rect, bar: &SessionBar, frame: &Frame) {
        let label = sanitize(&bar.label);
        let language = frame.language;
        let mut tooltip = format!(
            "{label}\n{}",
            axis::stretch(bar.period.from(), bar.period.to(), &self.zone, language)
        );
        let held = bar.hours.held();
        for state in Shown::HELD {
            if bar.hours.of(state) > 0.0 {
                tooltip.push_str(&format!(
                    "\n{}: {}",
                    language.state(state),
                    hours(bar.hours.of(state))
                ));
            }
        }
        let (start, end) = (bar.period.from().to_string(), bar.period.to().to_string());
        // Stack the states from the bottom, scaled to the observed time. An unobserved bar is hatched.
        let mut foot = rect.bottom();
        for state in Shown::HELD.into_iter().chain([Shown::Gap]) {
            let part = match state {
                Shown::Gap if held > 0.0 => continue,
                Shown::Gap => 1.0,
                _ if held > 0.0 => bar.hours.of(state) / held,
                _ => 0.0,
            };
            if part <= 0.0 {
                continue;
            }
            let height = rect.height * part;
            foot -= height;
            let facts = [
                ("data-label", label.as_str()),
                ("data-state", state.key()),
                ("data-hours", &number(bar.hours.of(state))),
                ("data-from", &start),
                ("data-to", &end),
            ];
            canvas.rect(
                Rect {
                    y: foot,
                    height,
                    ..rect
                },
                Fill::State(state),
                &facts,
                &tooltip,
            );
        }
        let size = if rect.height >= 16.0 { 11.0 } else { 9.0 };
        if rect.height < 11.0 {
            return;
        }
        let shown = fitted(&label, rect.width - 8.0, size, Weight::Regular);
        if shown.chars().count() < label.chars().count().min(4) {
            return;
        }
        canvas.text_over_marks(&Text {
            size,
            paint: INK,
            ..Text::label(
                rect.x + 4.0,
                rect.y + rect.height / 2.0 + size * 0.36,
                Anchor::Start,
                &shown,
            )
        });
    }
}

/// Puts each bar into the first free lane.
fn lay(row: &SessionRow, window: Period, many_rows: bool) -> Laid<'_> {
    let seen = |bar| -> Option<(&SessionBar, Period)> {
        let bar: &SessionBar = bar;
        Some((bar, bar.period.overlap(window)?))
    };
    let mut bars: Vec<(&SessionBar, Period)> = row.bars.iter().filter_map(seen).collect();
    bars.sort_by_key(|(_, period)| (period.from(), period.to()));
    let mut ends = Vec::new();
    let bars: Vec<(usize, &SessionBar, Period)> = bars
        .into_iter()
        .map(|(bar, period)| {
            let free = ends.iter().position(|end| *end <= period.from());
            let lane = free.unwrap_or(ends.len());
            if free.is_none() {
                ends.push(period.to());
            } else {
                ends[lane] = period.to();
            }
            (lane, bar, period)
        })
        .collect();
    let lanes = f64::from(u32::try_from(ends.len().max(1)).unwrap_or(u32::MAX));
    let (least, lane) = if many_rows { (14.0, 8.0) } else { (24.0, 14.0) };
    Laid {
        row,
        name: sanitize(&row.name),
        bars,
        lanes: ends.len(),
        height: f64::max(least, lanes * lane + 4.0),
    }
}
