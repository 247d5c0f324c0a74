//! The report as one HTML page: charts and the numbers of the text, for the screen and for print. The file is
//! self-contained: no network, fonts or scripts. It is also well-formed XML, and every number has its exact value as an
//! attribute.

mod charts;
mod sections;
mod summary;
pub(crate) mod table;

use gua_model::text::sanitize;

use super::{Page, labels};
use crate::chart::page_style;
use crate::language::Language;
use crate::markup::Markup;

pub(crate) const SHEET: &str = include_str!("html/page.css");
/// Content security policy: the page may load nothing. Styles are inline.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Returns the whole page or, with `--by`, its header and that table.
#[must_use]
pub fn html(page: &Page<'_>) -> String {
    let mut html = Markup::default();
    let language = match page.language {
        Language::English => "en",
        Language::Korean => "ko",
    };
    html.element("html", &[("lang", language)], |html| {
        html.element("head", &[], |html| head(html, page));
        html.element("body", &[], |html| {
            html.element("main", &[], |html| body(html, page));
        });
    });
    format!("<!DOCTYPE html>\n{}\n", html.finish())
}

fn head(html: &mut Markup, page: &Page<'_>) {
    let title = labels::TITLE.of(page.language);
    let title = format!("{title}: {}", host_name(page));
    let sheet = format!("{}{SHEET}", page_style());
    document_head(html, &title, page.version, &sheet);
}

/// Writes the head that all HTML documents share.
pub(crate) fn document_head(html: &mut Markup, title: &str, version: &str, sheet: &str) {
    html.leaf("meta", &[("charset", "utf-8")]);
    html.leaf(
        "meta",
        &[
            ("http-equiv", "Content-Security-Policy"),
            ("content", POLICY),
        ],
    );
    let generator = format!("gua {version}");
    for (name, content) in [
        ("viewport", "width=device-width, initial-scale=1"),
        ("generator", &generator),
        ("color-scheme", "light dark"),
    ] {
        html.leaf("meta", &[("name", name), ("content", content)]);
    }
    html.text("title", &[], title);
    html.element("style", &[], |html| html.raw(sheet));
}

fn body(html: &mut Markup, page: &Page<'_>) {
    masthead(html, page);
    summary::summary(html, page);
    if let Some(by) = page.by {
        sections::by(html, page, by);
    } else if page.report.cards.is_empty() {
        // Omit the sections: without GPUs they would all be empty.
    } else {
        charts::over_time(html, page);
        group(html, |html| {
            sections::holders(html, page);
            sections::now(html, page);
        });
        group(html, |html| {
            charts::people(html, page);
            sections::people(html, page);
            charts::sessions(html, page);
        });
        group(html, |html| {
            charts::heat(html, page);
            sections::gpus(html, page);
        });
        group(html, |html| {
            sections::coverage(html, page);
            sections::energy(html, page);
            sections::past(html, page);
            sections::refused_requests(html, page);
        });
    }
    sections::notes(html, page);
    sections::method(html, page);
}

/// Groups sections that start a new page in print.
fn group(html: &mut Markup, inside: impl FnOnce(&mut Markup)) {
    html.element("div", &[("class", "group")], inside);
}

fn host_name(page: &Page<'_>) -> String {
    let host = page.report.host.as_ref();
    host.map_or_else(
        || labels::NO_HOST.of(page.language).to_owned(),
        |host| sanitize(&host.name),
    )
}

fn masthead(html: &mut Markup, page: &Page<'_>) {
    let (report, host) = (page.report, page.report.host.as_ref());
    let made = format!("{} · gua {}", page.long(report.made), page.version);
    let facts = [
        (labels::WINDOW, Some(page.whole_window())),
        (labels::TIME_ZONE, Some(page.zone_name())),
        (labels::PERSON, report.person.clone()),
        (
            labels::ENVIRONMENT,
            host.map(|host| host.environment.clone()),
        ),
        (labels::DRIVER, host.and_then(|host| host.driver.clone())),
        (labels::MADE, Some(made)),
    ];
    let facts = facts.into_iter();
    let facts: Vec<(&str, String)> = facts
        .filter_map(|(label, value)| Some((label.of(page.language), value?)))
        .collect();
    let title = labels::TITLE.of(page.language);
    table::masthead(html, title, &host_name(page), &facts);
}
