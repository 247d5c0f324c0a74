//! Sessions over time: a row for each GPU or person, a bar for each session. A bar's height is divided by the time in
//! each state, because a session's totals do not say when within it. Unobserved time is hatched.

use std::fmt::Write as _;

use gua_model::Period;
use gua_model::text::sanitize;
use jiff::tz::TimeZone;

use super::canvas::{Anchor, Canvas, Fill, LABEL, MARGIN, Rect, Text};
use super::measure::{Weight, fitted};
use super::palette::{BAND, GRID, INK};
use super::scale::{count, hours};
use super::time_axis::{TimeScale, ticks};
use super::{Frame, Shown, StateHours, axis, words};
use crate::markup::number;

/// Minimum width of a bar, so that a short session stays visible in a long window.
const MIN_WIDTH: f64 = 1.0;

/// Width below which a bar is too narrow to point at. Such bars of a row are one outline for each state, without a tooltip.
const POINTABLE: f64 = 2.5;

/// One session, on one row.
#[derive(Clone, Debug)]
pub struct SessionBar {
    pub period: Period,
    /// The person on a GPU's row, or the GPU on a person's row.
    pub label: String,
    /// Time by state. Time in none of the held states was not observed.
    pub hours: StateHours,
    /// Number of sessions that the bar shows.
    pub sessions: u64,
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
    pub fn draw(&self, frame: &Frame) -> String {
        let language = frame.language;
        if self.is_blank() {
            return Canvas::empty(frame, words::no_hours(self.observed).of(language));
        }
        let rows = self.laid();
        let bars = || rows.iter().flat_map(|row| &row.bars);
        let mut canvas = Canvas::new(frame);
        let total = bars().map(|(_, bar, _)| bar.hours).sum();
        canvas.state_legend(&Self::STATES, &self.with_gaps(total), &[]);

        let size = if rows.len() > 30 { 10.0 } else { LABEL };
        let names = axis::widest(rows.iter().map(|row| row.name.as_str()), size);
        let names = names.min(canvas.width() * 0.25);
        let left = MARGIN + names + 10.0;
        let height: f64 = rows.iter().map(|row| row.height).sum();
        let plot = Rect::new(left, canvas.top, canvas.width() - left - MARGIN, height);
        let scale = TimeScale {
            window: self.window,
            left: plot.x,
            width: plot.width,
            finest: None,
        };
        let marks = ticks(&scale, &self.zone, language, canvas.width());
        let mut y = plot.y;
        for (place, row) in rows.iter().enumerate() {
            if place % 2 == 0 {
                let band = Rect::new(plot.x, y, plot.width, row.height);
                canvas.rect(band, Fill::Plain(BAND), &[], "");
            }
            y += row.height;
        }
        for x in &marks.lines {
            canvas.line((*x, plot.y), (*x, plot.bottom()), GRID);
        }
        let mut y = plot.y;
        for row in &rows {
            let middle = y + row.height / 2.0 + size * 0.36;
            canvas.row_name((plot.x - 10.0, middle), &row.name, names, (size, INK));
            self.draw_row(&mut canvas, y, row, &scale);
            y += row.height;
        }
        axis::time_labels(&mut canvas, plot, &marks, &self.zone);
        let parts = Shown::HELD
            .map(|state| format!("{} {}", state.label().of(language), hours(total.of(state))));
        let when = axis::period_text(self.window, &self.zone, language);
        let (rows, bars) = (rows.len(), bars().count());
        let description = format!("{when}: {rows} × {bars}; {}.", parts.join(", "));
        canvas.finish(plot.bottom() + axis::TIME_HEIGHT + 6.0, &description)
    }

    /// The states in the legend.
    pub(crate) const STATES: [Shown; 4] = [
        Shown::Active,
        Shown::IdleHeld,
        Shown::HeldUnknown,
        Shown::Gap,
    ];

    /// The hours of all sessions, with a gap if any row has one, so that the legend explains it.
    pub(crate) fn with_gaps(&self, total: StateHours) -> StateHours {
        let any_gap = self.rows.iter().any(|row| !row.gaps.is_empty());
        let gap = f64::from(u8::from(any_gap));
        StateHours { gap, ..total }
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

    fn draw_row(&self, canvas: &mut Canvas<'_>, y: f64, row: &Laid<'_>, scale: &TimeScale) {
        let language = canvas.frame.language;
        let gaps = row.row.gaps.iter();
        for gap in gaps.filter_map(|gap| gap.overlap(self.window)) {
            let (from, to) = scale.ends(gap);
            let rect = Rect::new(from, y + 1.0, to - from, row.height - 2.0);
            let word = Shown::Gap.label().of(language);
            let tooltip = format!("{word}\n{}", axis::period_text(gap, &self.zone, language));
            let facts = [("data-state", "gap")];
            canvas.rect(rect, Fill::State(Shown::Gap), &facts, &tooltip);
        }
        let lane_height = (row.height - 4.0) / count(row.lanes.max(1));
        let mut thin: [String; Shown::HELD.len()] = Default::default();
        for (lane, bar, seen) in &row.bars {
            let (from, to) = scale.ends(*seen);
            let width = (to - from).max(MIN_WIDTH);
            let x = from.min(scale.left + scale.width - width);
            let y = y + 2.0 + lane_height * count(*lane) + 0.5;
            let rect = Rect::new(x, y, width, lane_height - 1.0);
            match width < POINTABLE && bar.hours.held() > 0.0 {
                true => outline(&mut thin, rect, &bar.hours),
                false => self.draw_bar(canvas, rect, bar),
            }
        }
        for (state, outline) in Shown::HELD.into_iter().zip(thin) {
            if !outline.is_empty() {
                canvas.group(state, |canvas| canvas.path(&outline));
            }
        }
    }

    fn draw_bar(&self, canvas: &mut Canvas<'_>, rect: Rect, bar: &SessionBar) {
        let label = sanitize(&bar.label);
        let language = canvas.frame.language;
        let when = axis::period_text(bar.period, &self.zone, language);
        let mut tooltip = format!("{label}\n{when}");
        if bar.sessions > 1 {
            let (count, word) = (bar.sessions, words::SESSIONS.of(language));
            tooltip.push_str(&format!("\n{word}: {count}"));
        }
        for state in Shown::HELD {
            if bar.hours.of(state) > 0.0 {
                let (word, amount) = (state.label().of(language), hours(bar.hours.of(state)));
                tooltip.push_str(&format!("\n{word}: {amount}"));
            }
        }
        let facts = [
            ("data-label", label.as_str()),
            ("data-from", &bar.period.from().to_string()),
            ("data-to", &bar.period.to().to_string()),
        ];
        canvas.stack(rect, (&bar.hours, &Shown::HELD), &facts, &tooltip);
        let size = if rect.height >= 16.0 { LABEL } else { 9.0 };
        let shown = fitted(&label, rect.width - 8.0, size, Weight::Regular);
        let is_legible = shown.chars().count() >= label.chars().count().min(4);
        if rect.height >= 11.0 && is_legible {
            let y = rect.y + rect.height / 2.0 + size * 0.36;
            let text = Text::label(rect.x + 4.0, y, Anchor::Start, &shown);
            canvas.text_over_marks(text.painted(INK).sized(size));
        }
    }
}

/// Adds a bar to the outlines of its states, from the bottom.
fn outline(outlines: &mut [String], rect: Rect, hours: &StateHours) {
    let [from, to] = [rect.x, rect.x + rect.width].map(number);
    let mut foot = rect.bottom();
    for (state, outline) in Shown::HELD.into_iter().zip(outlines) {
        let height = rect.height * hours.of(state) / hours.held();
        if height > 0.0 {
            let [low, high] = [foot, foot - height].map(number);
            let _ = write!(outline, "M{from} {low}V{high}H{to}V{low}Z");
        }
        foot -= height;
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
            match ends.get_mut(lane) {
                Some(end) => *end = period.to(),
                None => ends.push(period.to()),
            }
            (lane, bar, period)
        })
        .collect();
    let (least, lane) = if many_rows { (14.0, 8.0) } else { (24.0, 14.0) };
    Laid {
        row,
        name: sanitize(&row.name),
        bars,
        lanes: ends.len(),
        height: f64::max(least, count(ends.len().max(1)) * lane + 4.0),
    }
}
