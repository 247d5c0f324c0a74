//! Hours of the day: one stack of shares for each hour, over all days, with the quietest hours marked.

use super::canvas::{Anchor, Canvas, Fill, Rect, Text};
use super::measure::Weight;
use super::palette::{INK, MUTED};
use super::scale::count;
use super::{Frame, Shown, StateHours, axis, words};

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
            return Canvas::empty(frame, words::NOTHING.of(language));
        }
        let mut canvas = Canvas::new(frame);
        let quietest = words::QUIETEST.of(language);
        let quiet = [(Fill::Plain(INK), quietest)];
        let quiet = &quiet[..usize::from(!self.quietest.is_empty())];
        canvas.state_legend(&Shown::ALL, &total, quiet);
        let unit = words::SHARE_OF_TIME.of(language);
        let plot = axis::values(&mut canvas, PLOT, unit, &axis::shares());
        let width = plot.width / 24.0;
        for (hour, hours) in self.hours.iter().enumerate() {
            let x = plot.x + width * count(hour);
            self.column(&mut canvas, Rect { x, width, ..plot }, hour, hours);
        }
        axis::base_line(&mut canvas, plot);
        let title = words::HOUR_OF_DAY.of(language);
        let y = plot.bottom() + 40.0;
        canvas.label((plot.middle(), y), Anchor::Middle, title);
        let hours = self.quietest.iter().map(|hour| format!("{hour:02}"));
        let hours = hours.collect::<Vec<_>>().join(", ");
        let description = format!("{unit}; {quietest}: {hours}.");
        canvas.finish(plot.bottom() + 54.0, &description)
    }

    fn column(&self, canvas: &mut Canvas<'_>, column: Rect, hour: usize, hours: &StateHours) {
        let language = canvas.frame.language;
        let name = format!("{hour:02}:00 – {hour:02}:59");
        let tooltip = match hours.total() > 0.0 {
            true => name + &hours.lines(Shown::ALL.into_iter(), language),
            false => format!("{name}\n{}", words::NO_DATA.of(language)),
        };
        let space = (column.width * 0.14).min(4.0);
        let (x, width) = (column.x + space / 2.0, column.width - space);
        let place = Rect { x, width, ..column };
        let facts = [("data-hour", &*hour.to_string())];
        canvas.stack(place, (hours, &Shown::ALL), &facts, &tooltip);
        let is_quiet = self.quietest.contains(&hour);
        if is_quiet {
            let mark = Rect::new(x, column.bottom() + 4.0, width, MARK);
            canvas.rect(mark, Fill::Plain(INK), &[("data-quiet", "true")], &tooltip);
        }
        // On a phone, only every second label fits.
        if column.width < 20.0 && hour % 2 == 1 {
            return;
        }
        let (weight, paint) = match is_quiet {
            true => (Weight::Bold, INK),
            false => (Weight::Regular, MUTED),
        };
        let (y, label) = (column.bottom() + 22.0, format!("{hour:02}"));
        let text = Text::label(column.middle(), y, Anchor::Middle, &label);
        canvas.text(text.weighing(weight).painted(paint));
    }
}
