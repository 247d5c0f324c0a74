//! The report as one HTML page: charts and the numbers of the text, for the screen and for print. The file is
//! self-contained: no network, fonts or scripts. It is also well-formed XML, and every number has its exact value as an
//! attribute.

mod sections;
mod summary;
pub(crate) mod table;

use gua_model::text::sanitize;
use maud::{Markup, PreEscaped, html};

use super::{Page, labels};
use crate::chart::page_style;
use crate::markup::Escaped;

pub(crate) const SHEET: &str = include_str!("html/page.css");
/// Returns the whole page or, with `--by`, its header and that table.
pub fn html(page: &Page<'_>) -> String {
    let title = format!("{}: {}", labels::TITLE.of(page.language), host_name(page));
    let sheet = format!("{}{SHEET}", page_style());
    let body = html! { main { (body(page)) } };
    document(
        page.language.as_str(),
        (&title, page.version),
        &sheet,
        &body,
    )
}

/// Returns a document with this title, written by this version of the program.
pub(crate) fn document(
    language: &str,
    (title, version): (&str, &str),
    sheet: &str,
    body: &Markup,
) -> String {
    // The content security policy lets a page load nothing; styles are inline.
    let metadata = format!(
        "<meta charset=\"utf-8\"/><meta http-equiv=\"Content-Security-Policy\" content=\"default-src &#39;none&#39;; \
         style-src &#39;unsafe-inline&#39;; base-uri &#39;none&#39;; form-action &#39;none&#39;\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"generator\" content=\"gua {version}\"/><meta name=\"color-scheme\" content=\"light dark\"/>"
    );
    let page = html! {
        html lang=(language) {
            head { (PreEscaped(metadata)) title { (Escaped(title)) } style { (PreEscaped(sheet)) } } "\n"
            body { (body) }
        }
    };
    format!("<!DOCTYPE html>\n{}\n", page.into_string())
}

fn body(page: &Page<'_>) -> Markup {
    let now = page.report.now.as_ref();
    html! {
        (masthead(page))
        // Holders come first, because people act on them.
        @if let (None, Some(now)) = (page.by, now) { (sections::holders(page, now)) }
        (summary::summary(page))
        @if let Some(by) = page.by {
            (sections::by(page, by))
        } @else if !page.report.gpus.is_empty() {
            // Without GPUs, the other sections would all be empty.
            (summary::over_time_chart(page))
            // A group of sections starts a new page in print.
            div.group { @if let Some(now) = now { (sections::now(page, now)) } }
            div.group { (summary::people_chart(page)) (sections::people(page)) (summary::sessions_chart(page)) }
            div.group { @if has_week(page) { (summary::heat_chart(page)) } (sections::gpus(page)) }
            div.group {
                (sections::coverage(page)) (sections::energy(page)) (sections::past(page))
                @if let Some(refused) = &page.report.refused { (sections::refused_requests(page, refused)) }
            }
        }
        @if page.previous.is_some() || page.costs.is_some() {
            div.group {
                @if let Some(previous) = page.previous { (sections::comparison(page, previous)) }
                @if let Some(costs) = page.costs { (sections::costs(page, costs)) }
            }
        }
        (sections::notes(page))
        (sections::method(page))
    }
}

/// Whether the window is long enough for the hours of the week to mean anything.
fn has_week(page: &Page<'_>) -> bool {
    const TWO_DAYS: f64 = 48.0;
    page.report.known.micros().hours() >= TWO_DAYS
}

fn host_name(page: &Page<'_>) -> String {
    let host = page.report.host.as_ref();
    host.map_or_else(
        || labels::NO_HOST.of(page.language).to_owned(),
        |host| sanitize(&host.name),
    )
}

fn masthead(page: &Page<'_>) -> Markup {
    let (report, host) = (page.report, page.report.host.as_ref());
    let made = format!("{} · gua {}", page.long(report.made), page.version);
    let environment = host.map(|host| host.environment.clone());
    let facts = [
        (labels::WINDOW, Some(page.ends(page.report.window))),
        (labels::TIME_ZONE, Some(page.zone_name())),
        (labels::PERSON, report.person.clone()),
        (labels::ENVIRONMENT, environment),
        (labels::DRIVER, host.and_then(|host| host.driver.clone())),
        (labels::MADE, Some(made)),
    ];
    let facts = facts.into_iter();
    let facts: Vec<(&str, String)> = facts
        .filter_map(|(label, value)| Some((label.of(page.language), value?)))
        .collect();
    let title = labels::TITLE.of(page.language);
    table::masthead(title, &host_name(page), &facts)
}
