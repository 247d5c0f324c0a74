//! The charts of a report in the page, each for wide and for narrow screens.

use crate::chart::{Frame, Theme};
use crate::markup::Markup;
use crate::report::figures::{self, Whose};
use crate::report::{Page, labels};

/// Chart widths: for wide screens and print, and for phones.
const WIDTHS: [(&str, u32); 2] = [("wide", 960), ("narrow", 372)];

/// A section that is one chart.
struct Figure<'a> {
    id: &'a str,
    title: &'a str,
    subtitle: Option<&'a str>,
}

impl Figure<'_> {
    /// Draws the chart for each width; the style sheet shows the one that fits.
    fn write(&self, html: &mut Markup, page: &Page<'_>, draw: &dyn Fn(&Frame) -> String) {
        html.element("section", &[("class", "figure"), ("id", self.id)], |html| {
            html.text("h2", &[("class", "unseen")], self.title);
            for (class, width) in WIDTHS {
                let frame = Frame {
                    id: format!("{}-{class}", self.id),
                    title: self.title.to_owned(),
                    subtitle: self.subtitle.map(str::to_owned),
                    theme: Theme::Page,
                    language: page.language,
                    width,
                };
                html.element("div", &[("class", class)], |html| html.raw(&draw(&frame)));
            }
        });
    }
}

/// States over time.
pub(super) fn over_time(html: &mut Markup, page: &Page<'_>) {
    let chart = figures::over_time(page);
    let title = match page.report.person {
        Some(_) => labels::PERSON_OVER_TIME,
        None => labels::OVER_TIME,
    };
    let per = labels::per(page.report.unit, page.language);
    let figure = Figure {
        id: "over-time",
        title: title.of(page.language),
        subtitle: Some(per),
    };
    figure.write(html, page, &|frame| chart.draw(frame));
}

/// GPU-hours by person, with the idle-held share.
pub(super) fn people(html: &mut Markup, page: &Page<'_>) {
    let chart = figures::people(page);
    let title = labels::PEOPLE_CHART.of(page.language);
    let figure = Figure {
        id: "people-chart",
        title,
        subtitle: None,
    };
    figure.write(html, page, &|frame| chart.draw(frame));
}

/// Weekdays by hours.
pub(super) fn heat(html: &mut Markup, page: &Page<'_>) {
    let chart = figures::week(page);
    let title = match page.report.person {
        Some(_) => labels::PERSON_HEAT,
        None => labels::HEAT,
    };
    let zone = page.zone_name();
    let figure = Figure {
        id: "heat",
        title: title.of(page.language),
        subtitle: Some(&zone),
    };
    figure.write(html, page, &|frame| chart.draw(frame));
}

/// The longest sessions by GPU.
pub(super) fn sessions(html: &mut Markup, page: &Page<'_>) {
    let (chart, told) = figures::sessions(page, Whose::Gpu);
    let title = labels::SESSIONS.of(page.language);
    let figure = Figure {
        id: "sessions",
        title,
        subtitle: told.as_deref(),
    };
    figure.write(html, page, &|frame| chart.draw(frame));
}
