//! Draws value axes and time axes.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Language;
use super::canvas::{Anchor, Canvas, LABEL, Rect, Text};
use super::measure::{Weight, fitted, text_width};
use super::palette::{AXIS, GRID};
use super::time_axis::{TimeScale, TimeTicks, ticks};

/// Draws horizontal grid lines with their values. `steps` contains the relative height of each, from 0 to 1.
pub(crate) fn values(canvas: &mut Canvas<'_>, plot: Rect, steps: &[(f64, String)]) {
    for (height, label) in steps {
        let y = plot.bottom() - plot.height * height;
        let paint = if *height == 0.0 { AXIS } else { GRID };
        canvas.line((plot.x, y), (plot.right(), y), paint);
        canvas.text(&Text::label(plot.x - 8.0, y + 4.0, Anchor::End, label));
    }
}

/// Returns the width of the widest label.
pub(crate) fn widest<'a>(labels: impl Iterator<Item = &'a str>) -> f64 {
    labels
        .map(|label| text_width(label, LABEL, Weight::Regular))
        .fold(0.0, f64::max)
}

/// Returns the ticks along `scale`.
pub(crate) fn time_ticks(
    canvas: &Canvas<'_>,
    scale: &TimeScale,
    zone: &TimeZone,
    language: Language,
) -> TimeTicks {
    ticks(scale, zone, language, canvas.width())
}

/// Draws the labels below the plot, their context in a second row, and the name of the time zone.
pub(crate) fn time_labels(
    canvas: &mut Canvas<'_>,
    plot: Rect,
    marks: &TimeTicks,
    zone: &TimeZone,
    language: Language,
) {
    for x in &marks.lines {
        canvas.line((*x, plot.bottom()), (*x, plot.bottom() + 4.0), AXIS);
    }
    for mark in &marks.labels {
        let y = plot.bottom() + 16.0;
        canvas.text(&Text::label(mark.x, y, Anchor::Middle, &mark.label));
    }
    for mark in &marks.contexts {
        let y = plot.bottom() + 31.0;
        canvas.text(&Text {
            weight: Weight::Regular,
            paint: super::palette::INK,
            ..Text::label(mark.x, y, Anchor::Start, &mark.label)
        });
    }
    let title = zone_title(zone, language);
    let title = fitted(&title, plot.width, LABEL, Weight::Regular);
    canvas.text(&Text::label(
        plot.x + plot.width / 2.0,
        plot.bottom() + 49.0,
        Anchor::Middle,
        &title,
    ));
}

/// Total height of the time axis with its title.
pub(crate) const TIME_HEIGHT: f64 = super::time_axis::HEIGHT + 20.0;

fn zone_title(zone: &TimeZone, language: Language) -> String {
    match zone.iana_name() {
        Some(name) => format!("{} ({name})", language.time()),
        None if *zone == TimeZone::UTC => format!("{} (UTC)", language.time()),
        None => language.local_time().to_owned(),
    }
}

/// Formats a period in local time for tooltips.
pub(crate) fn stretch(
    from: Timestamp,
    to: Timestamp,
    zone: &TimeZone,
    language: Language,
) -> String {
    let (from, to) = (zone.to_datetime(from), zone.to_datetime(to));
    let start = format!(
        "{} {}",
        language.day_long(from.date()),
        from.strftime("%H:%M")
    );
    if from.date() == to.date() {
        format!("{start} – {}", to.strftime("%H:%M"))
    } else {
        format!(
            "{start} – {} {}",
            language.day_long(to.date()),
            to.strftime("%H:%M")
        )
    }
}
