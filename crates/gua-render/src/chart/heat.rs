//! Heat maps: one number for each row and column. A cell without a number is hatched, which differs from zero.

use super::canvas::{Anchor, Canvas, Fill, LABEL, MARGIN, Rect, Text};
use super::measure::{Weight, fitted, text_width};
use super::palette::{HEAT_STEPS, INK, MUTED, of_heat};
use super::scale::{grouped, hours, percent};
use super::{Frame, Language, Shown, axis};

/// Unit of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeatUnit {
    /// From 0 to 1.
    Share,
    GpuHours,
}

/// Whether a high value is good or bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Use,
    Waste,
}

/// One number for each row and column.
#[derive(Clone, Debug)]
pub struct HeatMap {
    pub rows: Vec<String>,
    pub columns: Vec<String>,
    /// Values by row, then by column. Cells that are `None`, missing at the end of a row or not finite were not
    /// observed.
    pub cells: Vec<Vec<Option<f64>>>,
    pub unit: HeatUnit,
    pub tone: Tone,
    /// Title of the values, such as "share of time active".
    pub value_title: String,
    pub column_title: String,
    /// Number of leading rows that determine the scale. A combined row for the rest would make all others pale.
    pub scaled_rows: usize,
}

impl HeatMap {
    /// Creates a map of weekdays by hours of the day, Monday and midnight first.
    #[must_use]
    pub fn week(
        cells: &[[Option<f64>; 24]; 7],
        unit: HeatUnit,
        tone: Tone,
        value_title: &str,
        language: Language,
    ) -> Self {
        Self {
            rows: language.weekdays().map(str::to_owned).to_vec(),
            columns: (0..24).map(|hour| format!("{hour:02}")).collect(),
            cells: cells.iter().map(|row| row.to_vec()).collect(),
            unit,
            tone,
            value_title: value_title.to_owned(),
            column_title: language.hour_of_day().to_owned(),
            scaled_rows: usize::MAX,
        }
    }

    fn cell(&self, row: usize, column: usize) -> Option<f64> {
        let value = self.cells.get(row)?.get(column).copied()??;
        value.is_finite().then(|| value.max(0.0))
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.values_of(self.rows.len())
    }

    fn values_of(&self, rows: usize) -> impl Iterator<Item = f64> {
        (0..rows)
            .flat_map(move |row| (0..self.columns.len()).map(move |column| (row, column)))
            .filter_map(|(row, column)| self.cell(row, column))
    }

    /// Returns the prefix of the scale's upper end, which is not empty if the combined row exceeds the scale.
    pub(crate) fn at_least(&self) -> &'static str {
        let largest = self.largest();
        let is_beyond =
            self.unit == HeatUnit::GpuHours && self.values().any(|value| value > largest);
        if is_beyond { "≥ " } else { "" }
    }

    /// Returns the value of the darkest colour.
    pub(crate) fn largest(&self) -> f64 {
        match self.unit {
            HeatUnit::Share => 1.0,
            HeatUnit::GpuHours => {
                let named = self.values_of(self.rows.len().min(self.scaled_rows));
                let largest = named.fold(0.0, f64::max);
                // If the named rows are all zero, the scale is that of the rest.
                match largest > 0.0 {
                    true => largest,
                    false => self.values().fold(0.0, f64::max),
                }
            }
        }
    }

    fn step(&self, value: f64, largest: f64) -> usize {
        if value <= 0.0 || largest <= 0.0 {
            return 0;
        }
        let reached = |step: &usize| value >= lower_bound(*step, largest);
        (1..HEAT_STEPS).rev().find(reached).unwrap_or(1)
    }

    /// Formats a value so that it fits into a cell.
    fn brief(&self, value: f64) -> String {
        match self.unit {
            HeatUnit::Share => format!("{:.0}", value.min(1.0) * 100.0),
            HeatUnit::GpuHours if value >= 9.95 || value == 0.0 => grouped(value, 0),
            HeatUnit::GpuHours => grouped(value, 1),
        }
    }

    fn shown(&self, value: f64) -> String {
        match self.unit {
            HeatUnit::Share => percent(value),
            HeatUnit::GpuHours => hours(value),
        }
    }

    /// Draws the chart as an SVG document.
    #[must_use]
    pub fn draw(&self, frame: &Frame) -> String {
        if self.values().next().is_none() {
            return Canvas::empty(frame, frame.language.nothing());
        }
        let mut canvas = Canvas::new(frame);
        let largest = self.largest();
        self.legend(&mut canvas, frame.language, largest);

        let size = if self.rows.len() > 30 { 10.0 } else { LABEL };
        let names = self
            .rows
            .iter()
            .map(|name| text_width(name, size, Weight::Regular));
        let names = names.fold(0.0, f64::max).min(canvas.width() * 0.25);
        let left = MARGIN + names + 10.0;
        let row_height = match self.rows.len() {
            0..=12 => 27.0,
            13..=30 => 20.0,
            _ => 14.0,
        };
        let row_count = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let plot = Rect {
            x: left,
            y: canvas.top,
            width: canvas.width() - left - MARGIN,
            height: row_height * f64::from(row_count),
        };
        let bottom = plot.bottom() + 44.0;
        let column_count = u32::try_from(self.columns.len()).unwrap_or(u32::MAX);
        let grid = Grid {
            plot,
            size,
            cell_width: plot.width / f64::from(column_count),
            cell_height: row_height,
        };
        self.draw_cells(&mut canvas, &grid, frame, largest);
        self.draw_names(&mut canvas, &grid, names);

        let count = self.values().count();
        let (low, high) = self
            .values()
            .fold((f64::MAX, 0.0f64), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        let description = format!(
            "{}: {} × {}, {count}/{}, {} – {}.",
            self.value_title,
            self.rows.len(),
            self.columns.len(),
            self.rows.len() * self.columns.len(),
            self.shown(low),
            self.shown(high)
        );
        canvas.finish(bottom, &description)
    }

    fn draw_cells(&self, canvas: &mut Canvas<'_>, grid: &Grid, frame: &Frame, largest: f64) {
        let widest = self.values().map(|value| self.brief(value));
        let widest: Vec<String> = widest.collect();
        let numbers_fit = grid.cell_height >= 18.0
            && axis::widest(widest.iter().map(String::as_str)) + 4.0 <= grid.cell_width;
        let seam = if grid.cell_width > 6.0 { 1.5 } else { 0.0 };
        for (row, row_name) in self.rows.iter().enumerate() {
            for (column, column_name) in self.columns.iter().enumerate() {
                let place = grid.cell(row, column);
                let rect = Rect {
                    x: place.x + seam / 2.0,
                    y: place.y + 0.75,
                    width: place.width - seam,
                    height: place.height - 1.5,
                };
                let name = format!("{row_name} · {column_name}");
                let Some(value) = self.cell(row, column) else {
                    let tooltip = format!("{name}\n{}", frame.language.no_data());
                    canvas.rect(rect, Fill::State(Shown::Gap), &[], &tooltip);
                    continue;
                };
                let (fill, on) = of_heat(self.tone, self.step(value, largest));
                let fact = format!("{value}");
                let tooltip = format!("{name}\n{}: {}", self.value_title, self.shown(value));
                let facts = [("data-value", fact.as_str()), ("rx", "2")];
                let facts = if seam > 0.0 { &facts[..] } else { &facts[..1] };
                canvas.rect(rect, Fill::Plain(fill), facts, &tooltip);
                if numbers_fit {
                    let text = self.brief(value);
                    canvas.text(&Text {
                        paint: on,
                        ..Text::label(
                            place.x + place.width / 2.0,
                            place.y + place.height / 2.0 + 4.0,
                            Anchor::Middle,
                            &text,
                        )
                    });
                }
            }
        }
    }

    fn draw_names(&self, canvas: &mut Canvas<'_>, grid: &Grid, room: f64) {
        for (row, name) in self.rows.iter().enumerate() {
            let place = grid.cell(row, 0);
            let short = fitted(name, room, grid.size, Weight::Regular);
            let text = Text {
                size: grid.size,
                paint: INK,
                ..Text::label(
                    grid.plot.x - 8.0,
                    place.y + place.height / 2.0 + grid.size * 0.36,
                    Anchor::End,
                    &short,
                )
            };
            let tooltip = if short == *name { "" } else { name.as_str() };
            canvas.text_with_tooltip(&text, tooltip);
        }
        // Label every n-th column so that labels do not touch.
        let every = column_stride(&self.columns, grid.cell_width);
        let bottom = grid.plot.y + grid.cell(self.rows.len(), 0).y - grid.plot.y;
        for (column, name) in self.columns.iter().enumerate().step_by(every) {
            let place = grid.cell(0, column);
            let room = grid.cell_width * f64::from(u32::try_from(every).unwrap_or(1)) - 4.0;
            let short = fitted(name, room, LABEL, Weight::Regular);
            let half = text_width(&short, LABEL, Weight::Regular) / 2.0;
            let x = place.x + place.width / 2.0;
            if x + half > canvas.width() - 2.0 {
                continue;
            }
            canvas.text(&Text::label(x, bottom + 15.0, Anchor::Middle, &short));
        }
        canvas.text(&Text::label(
            grid.plot.x + grid.plot.width / 2.0,
            bottom + 33.0,
            Anchor::Middle,
            &fitted(&self.column_title, grid.plot.width, LABEL, Weight::Regular),
        ));
    }

    /// Draws the colour ramp with its bounds, and the hatch for unobserved cells.
    fn legend(&self, canvas: &mut Canvas<'_>, language: Language, largest: f64) {
        let room = canvas.width() - 2.0 * MARGIN;
        let title = fitted(&self.value_title, room, LABEL, Weight::Regular);
        let y = canvas.top + 9.5;
        canvas.text(&Text {
            paint: MUTED,
            ..Text::label(MARGIN, y, Anchor::Start, &title)
        });
        let mut x = MARGIN + text_width(&title, LABEL, Weight::Regular) + 12.0;
        let ends = (
            self.shown(0.0),
            format!("{}{}", self.at_least(), self.shown(largest)),
        );
        let no_data = language.no_data();
        let texts = [ends.0.as_str(), &ends.1, no_data];
        let texts: f64 = texts
            .map(|text| axis::widest([text].into_iter()))
            .iter()
            .sum();
        let beside = texts + 12.0 + 18.0 + 20.0;
        let steps = f64::from(u32::try_from(HEAT_STEPS).unwrap_or(1));
        let step_width = ((room - beside) / steps).clamp(4.0, 26.0);
        let whole = beside + step_width * steps;
        let mut y = y;
        if x + whole > MARGIN + room {
            x = MARGIN;
            y += 18.0;
            canvas.top += 18.0;
        }
        canvas.text(&Text::label(x, y, Anchor::Start, &ends.0));
        x += axis::widest([ends.0.as_str()].into_iter()) + 6.0;
        for step in 0..HEAT_STEPS {
            let (fill, _) = of_heat(self.tone, step);
            let rect = Rect {
                x,
                y: y - 9.5,
                width: step_width - 1.0,
                height: 11.0,
            };
            let from = if step == 0 {
                self.shown(0.0)
            } else {
                format!("≥ {}", self.shown(lower_bound(step, largest)))
            };
            canvas.rect(rect, Fill::Plain(fill), &[("rx", "2")], &from);
            x += step_width;
        }
        x += 6.0;
        canvas.text(&Text::label(x, y, Anchor::Start, &ends.1));
        x += axis::widest([ends.1.as_str()].into_iter()) + 18.0;
        let rect = Rect {
            x,
            y: y - 9.5,
            width: 14.0,
            height: 11.0,
        };
        canvas.rect(rect, Fill::State(Shown::Gap), &[("rx", "2")], "");
        canvas.text(&Text::label(x + 20.0, y, Anchor::Start, no_data));
        canvas.top += 26.0;
    }
}

/// Returns the lower bound of a step. The first step is zero alone; the others divide the values above zero equally.
fn lower_bound(step: usize, largest: f64) -> f64 {
    let steps = u32::try_from(HEAT_STEPS - 1).unwrap_or(1);
    let below = u32::try_from(step.saturating_sub(1)).unwrap_or(0);
    largest * f64::from(below) / f64::from(steps)
}

/// Returns the number of columns per label. It divides 24 for hours, and is otherwise as large as needed.
fn column_stride(columns: &[String], cell_width: f64) -> usize {
    let widest = axis::widest(columns.iter().map(String::as_str)).min(120.0) + 6.0;
    let fits = |stride: &usize| {
        cell_width * f64::from(u32::try_from(*stride).unwrap_or(u32::MAX)) >= widest
    };
    [1, 2, 3, 4, 6, 12, 24]
        .into_iter()
        .chain((28..=columns.len().max(28)).step_by(7))
        .find(fits)
        .unwrap_or(columns.len().max(1))
}

struct Grid {
    plot: Rect,
    size: f64,
    cell_width: f64,
    cell_height: f64,
}

impl Grid {
    fn cell(&self, row: usize, column: usize) -> Rect {
        let count = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
        Rect {
            x: self.plot.x + self.cell_width * count(column),
            y: self.plot.y + self.cell_height * count(row),
            width: self.cell_width,
            height: self.cell_height,
        }
    }
}
