//! The charts of a report in the page, each for wide and for narrow screens.

use maud::{Markup, PreEscaped, html};

use crate::chart::{Frame, Theme};
use crate::language::Label;
use crate::markup::Escaped;
use crate::report::figures::{self, Whose};
use crate::report::{Page, labels};

/// Chart widths: for wide screens and print, and for phones.
const WIDTHS: [(&str, u32); 2] = [("wide", 960), ("narrow", 372)];

/// Returns a section that is one chart, drawn for each width; the style sheet shows the one that fits.
fn figure(
    page: &Page<'_>,
    (id, title, subtitle): (&str, Label, Option<&str>),
    draw: impl Fn(&Frame) -> String,
) -> Markup {
    let title = title.of(page.language);
    let frame = |class: &str, width| Frame {
        id: format!("{id}-{class}"),
        title: title.to_owned(),
        subtitle: subtitle.map(str::to_owned),
        theme: Theme::Page,
        language: page.language,
        width,
    };
    html! {
        section.figure id=(id) {
            h2.unseen { (Escaped(title)) }
            @for (class, width) in WIDTHS { div class=(class) { (PreEscaped(draw(&frame(class, width)))) } }
        } "\n"
    }
}

/// States over time.
pub(super) fn over_time(page: &Page<'_>) -> Markup {
    let fine = figures::over_minutes(page).filter(|_| page.by.is_none());
    let chart = fine.unwrap_or_else(|| figures::over_time(page));
    let per = match chart.minutes {
        Some(minutes) => labels::per_minutes(minutes, page.language),
        None => labels::per(page.report.unit, page.language).to_owned(),
    };
    let about = ("over-time", labels::over_time(page.report), Some(&*per));
    figure(page, about, |frame| chart.draw(frame))
}

/// GPU-hours by person, with the idle-held share.
pub(super) fn people(page: &Page<'_>) -> Markup {
    let chart = figures::people(page);
    let about = ("people-chart", labels::PEOPLE_CHART, None);
    figure(page, about, |frame| chart.draw(frame))
}

/// Weekdays by hours.
pub(super) fn heat(page: &Page<'_>) -> Markup {
    let chart = figures::week(page);
    let zone = page.zone_name();
    let about = ("heat", labels::heat(page.report), Some(&*zone));
    figure(page, about, |frame| chart.draw(frame))
}

/// The longest sessions by GPU.
pub(super) fn sessions(page: &Page<'_>) -> Markup {
    let (chart, note) = figures::sessions(page, Whose::Gpu);
    let about = ("sessions", labels::SESSIONS, note.as_deref());
    figure(page, about, |frame| chart.draw(frame))
}
