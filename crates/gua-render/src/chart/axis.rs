//! Draws value axes and time axes.

use gua_model::Period;
use jiff::tz::TimeZone;

use super::canvas::{Anchor, Canvas, LABEL, MARGIN, Rect, Text};
use super::measure::{Weight, fitted, text_width};
use super::palette::{AXIS, GRID, INK};
use super::time_axis::TimeTicks;
use super::{Language, words};

/// A plot with horizontal grid lines. `steps` contains the relative height of each line, from 0 to 1, and its value.
pub(crate) fn values(
    canvas: &mut Canvas<'_>,
    height: f64,
    unit: &str,
    steps: &[(f64, String)],
) -> Rect {
    let left = MARGIN + 8.0 + widest(steps.iter().map(|(_, label)| label.as_str()), LABEL);
    let width = canvas.width() - left - MARGIN;
    let plot = Rect::new(left, canvas.top + 20.0, width, height);
    canvas.label((MARGIN, plot.y - 12.0), Anchor::Start, unit);
    for (height, label) in steps {
        let y = plot.bottom() - plot.height * height;
        let paint = if *height == 0.0 { AXIS } else { GRID };
        canvas.line((plot.x, y), (plot.right(), y), paint);
        canvas.label((plot.x - 8.0, y + 4.0), Anchor::End, label);
    }
    plot
}

/// Redraws the base line over the bottom of the stacks.
pub(crate) fn base_line(canvas: &mut Canvas<'_>, plot: Rect) {
    canvas.line((plot.x, plot.bottom()), (plot.right(), plot.bottom()), AXIS);
}

/// Returns the width of the widest text of this size.
pub(crate) fn widest<'a>(texts: impl Iterator<Item = &'a str>, size: f64) -> f64 {
    let widths = texts.map(|text| text_width(text, size, Weight::Regular));
    widths.fold(0.0, f64::max)
}

/// Draws the labels below the plot, their context in a second row, and the name of the time zone.
pub(crate) fn time_labels(canvas: &mut Canvas<'_>, plot: Rect, marks: &TimeTicks, zone: &TimeZone) {
    let bottom = plot.bottom();
    for x in &marks.lines {
        canvas.line((*x, bottom), (*x, bottom + 4.0), AXIS);
    }
    for mark in &marks.labels {
        canvas.label((mark.x, bottom + 16.0), Anchor::Middle, &mark.label);
    }
    for mark in &marks.contexts {
        let text = Text::label(mark.x, bottom + 31.0, Anchor::Start, &mark.label);
        canvas.text(text.painted(INK));
    }
    let time = words::TIME.of(canvas.frame.language);
    let title = match zone.iana_name() {
        Some(name) => format!("{time} ({name})"),
        None => words::LOCAL_TIME.of(canvas.frame.language).to_owned(),
    };
    let title = fitted(&title, plot.width, LABEL, Weight::Regular);
    canvas.label((plot.middle(), bottom + 49.0), Anchor::Middle, &title);
}

/// Total height of the time axis with its title.
pub(crate) const TIME_HEIGHT: f64 = super::time_axis::HEIGHT + 20.0;

/// Formats a period in local time for tooltips.
pub(crate) fn period_text(period: Period, zone: &TimeZone, language: Language) -> String {
    let [from, to] = [period.from(), period.to()].map(|at| zone.to_datetime(at));
    let [start, end] =
        [from, to].map(|at| format!("{} {}", language.day_long(at.date()), at.strftime("%H:%M")));
    match from.date() == to.date() {
        true => format!("{start} – {}", to.strftime("%H:%M")),
        false => format!("{start} – {end}"),
    }
}
