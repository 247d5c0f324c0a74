//! Heat maps: one number for each row and column. A cell without a number is hatched, which differs from zero.

use super::canvas::{Anchor, Canvas, Fill, LABEL, MARGIN, Rect, Text};
use super::measure::{Weight, fitted, text_width};
use super::palette::{HEAT_STEPS, INK, of_heat};
use super::scale::{count, grouped, hours, percent};
use super::{Frame, Language, Shown, axis, words};

/// Unit of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeatUnit {
    /// From 0 to 1.
    Share,
    GpuHours,
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
    /// Title of the values, such as "share of time active".
    pub value_title: String,
    pub column_title: String,
    /// Number of leading rows that determine the scale. A combined row for the rest would make all others pale.
    pub scaled_rows: usize,
}

impl HeatMap {
    /// Creates a map of weekdays by hours of the day, Monday and midnight first.
    pub fn week(
        cells: &[[Option<f64>; 24]; 7],
        unit: HeatUnit,
        value_title: &str,
        language: Language,
    ) -> Self {
        Self {
            rows: language.weekdays().map(str::to_owned).to_vec(),
            columns: (0..24).map(|hour| format!("{hour:02}")).collect(),
            cells: cells.iter().map(|row| row.to_vec()).collect(),
            unit,
            value_title: value_title.to_owned(),
            column_title: words::HOUR_OF_DAY.of(language).to_owned(),
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
        if self.unit == HeatUnit::Share {
            return 1.0;
        }
        let named = self.values_of(self.rows.len().min(self.scaled_rows));
        let largest = named.fold(0.0, f64::max);
        // If the named rows are all zero, the scale is that of the rest.
        match largest > 0.0 {
            true => largest,
            false => self.values().fold(0.0, f64::max),
        }
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
    pub fn draw(&self, frame: &Frame) -> String {
        if self.values().next().is_none() {
            return Canvas::empty(frame, words::NOTHING.of(frame.language));
        }
        let mut canvas = Canvas::new(frame);
        let largest = self.largest();
        self.legend(&mut canvas, largest);

        let (rows, columns) = (self.rows.len(), self.columns.len());
        let size = if rows > 30 { 10.0 } else { LABEL };
        let names = axis::widest(self.rows.iter().map(String::as_str), size);
        let names = names.min(canvas.width() * 0.25);
        let left = MARGIN + names + 10.0;
        let cell_height = match rows {
            0..=12 => 27.0,
            13..=30 => 20.0,
            _ => 14.0,
        };
        let width = canvas.width() - left - MARGIN;
        let plot = Rect::new(left, canvas.top, width, cell_height * count(rows));
        let grid = Grid {
            plot,
            size,
            cell_width: plot.width / count(columns),
            cell_height,
        };
        self.draw_cells(&mut canvas, &grid, largest);
        self.draw_names(&mut canvas, &grid, names);

        let low = self.values().fold(f64::MAX, f64::min);
        let high = self.values().fold(0.0, f64::max);
        let description = format!(
            "{}: {rows} × {columns}, {}/{}, {} – {}.",
            self.value_title,
            self.values().count(),
            rows * columns,
            self.shown(low),
            self.shown(high)
        );
        canvas.finish(plot.bottom() + 44.0, &description)
    }

    fn draw_cells(&self, canvas: &mut Canvas<'_>, grid: &Grid, largest: f64) {
        let texts: Vec<String> = self.values().map(|value| self.brief(value)).collect();
        let numbers_fit = grid.cell_height >= 18.0
            && axis::widest(texts.iter().map(String::as_str), LABEL) + 4.0 <= grid.cell_width;
        let seam = if grid.cell_width > 6.0 { 1.5 } else { 0.0 };
        for (row, row_name) in self.rows.iter().enumerate() {
            for (column, column_name) in self.columns.iter().enumerate() {
                let place = grid.cell(row, column);
                let (x, y) = (place.x + seam / 2.0, place.y + 0.75);
                let rect = Rect::new(x, y, place.width - seam, place.height - 1.5);
                let name = format!("{row_name} · {column_name}");
                let Some(value) = self.cell(row, column) else {
                    let no_data = words::NO_DATA.of(canvas.frame.language);
                    let tooltip = format!("{name}\n{no_data}");
                    canvas.rect(rect, Fill::State(Shown::Gap), &[], &tooltip);
                    continue;
                };
                let (fill, on) = of_heat(step(value, largest));
                let fact = format!("{value}");
                let tooltip = format!("{name}\n{}: {}", self.value_title, self.shown(value));
                let facts = [("data-value", fact.as_str()), ("rx", "2")];
                let facts = if seam > 0.0 { &facts[..] } else { &facts[..1] };
                canvas.rect(rect, Fill::Plain(fill), facts, &tooltip);
                if numbers_fit {
                    let (text, y) = (self.brief(value), place.y + place.height / 2.0 + 4.0);
                    let text = Text::label(place.middle(), y, Anchor::Middle, &text);
                    canvas.text(text.painted(on));
                }
            }
        }
    }

    fn draw_names(&self, canvas: &mut Canvas<'_>, grid: &Grid, room: f64) {
        let Grid { plot, size, .. } = *grid;
        for (row, name) in self.rows.iter().enumerate() {
            let y = grid.cell(row, 0).y + grid.cell_height / 2.0 + size * 0.36;
            canvas.row_name((plot.x - 8.0, y), name, room, (size, INK));
        }
        // Label every n-th column so that labels do not touch.
        let every = column_stride(&self.columns, grid.cell_width);
        for (column, name) in self.columns.iter().enumerate().step_by(every) {
            let room = grid.cell_width * count(every) - 4.0;
            let short = fitted(name, room, LABEL, Weight::Regular);
            let half = text_width(&short, LABEL, Weight::Regular) / 2.0;
            let x = grid.cell(0, column).middle();
            if x + half <= canvas.width() - 2.0 {
                canvas.label((x, plot.bottom() + 15.0), Anchor::Middle, &short);
            }
        }
        let title = fitted(&self.column_title, plot.width, LABEL, Weight::Regular);
        let y = plot.bottom() + 33.0;
        canvas.label((plot.middle(), y), Anchor::Middle, &title);
    }

    /// Draws the colour ramp with its bounds, and the hatch for unobserved cells.
    fn legend(&self, canvas: &mut Canvas<'_>, largest: f64) {
        let width = |text: &str| text_width(text, LABEL, Weight::Regular);
        let room = canvas.room();
        let title = fitted(&self.value_title, room, LABEL, Weight::Regular);
        let mut y = canvas.top + 9.5;
        canvas.label((MARGIN, y), Anchor::Start, &title);
        let mut x = MARGIN + width(&title) + 12.0;
        let zero = self.shown(0.0);
        let most = format!("{}{}", self.at_least(), self.shown(largest));
        let no_data = words::NO_DATA.of(canvas.frame.language);
        let beside = width(&zero) + width(&most) + width(no_data) + 12.0 + 18.0 + 20.0;
        let step_width = ((room - beside) / count(HEAT_STEPS)).clamp(4.0, 26.0);
        if x + beside + step_width * count(HEAT_STEPS) > MARGIN + room {
            x = MARGIN;
            y += 18.0;
            canvas.top += 18.0;
        }
        canvas.label((x, y), Anchor::Start, &zero);
        x += width(&zero) + 6.0;
        for step in 0..HEAT_STEPS {
            let from = match step {
                0 => zero.clone(),
                _ => format!("≥ {}", self.shown(lower_bound(step, largest))),
            };
            let rect = Rect::new(x, y - 9.5, step_width - 1.0, 11.0);
            canvas.rect(rect, Fill::Plain(of_heat(step).0), &[("rx", "2")], &from);
            x += step_width;
        }
        x += 6.0;
        canvas.label((x, y), Anchor::Start, &most);
        x += width(&most) + 18.0;
        let rect = Rect::new(x, y - 9.5, 14.0, 11.0);
        canvas.rect(rect, Fill::State(Shown::Gap), &[("rx", "2")], "");
        canvas.label((x + 20.0, y), Anchor::Start, no_data);
        canvas.top += 26.0;
    }
}

/// Returns the step of the colour ramp for a value.
fn step(value: f64, largest: f64) -> usize {
    if value <= 0.0 || largest <= 0.0 {
        return 0;
    }
    let reached = |step: &usize| value >= lower_bound(*step, largest);
    (1..HEAT_STEPS).rev().find(reached).unwrap_or(1)
}

/// Returns the lower bound of a step. The first step is zero alone; the others divide the values above zero equally.
fn lower_bound(step: usize, largest: f64) -> f64 {
    largest * count(step.saturating_sub(1)) / count(HEAT_STEPS - 1)
}

/// Returns the number of columns per label. It divides 24 for hours, and is otherwise as large as needed.
fn column_stride(columns: &[String], cell_width: f64) -> usize {
    let widest = axis::widest(columns.iter().map(String::as_str), LABEL).min(120.0) + 6.0;
    let fits = |stride: &usize| cell_width * count(*stride) >= widest;
    [1, 2, 3, 4, 6, 12, 24]
        .into_iter()
        .chain((28..=columns.len().max(28)).step_by(7))
        .find(fits)
        .unwrap_or(columns.len().max(1))
}

struct Grid {
    plot: Rect,
    /// Font size of the names of rows.
    size: f64,
    cell_width: f64,
    cell_height: f64,
}

impl Grid {
    fn cell(&self, row: usize, column: usize) -> Rect {
        let x = self.plot.x + self.cell_width * count(column);
        let y = self.plot.y + self.cell_height * count(row);
        Rect::new(x, y, self.cell_width, self.cell_height)
    }
}
