//! Pages that only `gua serve` has: this host with the table of nvgpu's master, the report and the people of this host.

use axum::http::header;
use axum::response::{Html, IntoResponse as _, Response};
use gua_model::text::sanitize;
use gua_wire::nvgpu::ClusterEntry;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{Page, Tab, View, encode};
use super::text::{self, Text};
use crate::api;
use crate::call::{Answer, Call};
use crate::error::Problem;
use crate::local::Agent;

/// Windows that the pages link to.
const WINDOWS: [(&str, Text); 4] = [
    ("1h", text::WINDOW_HOUR),
    ("1d", text::WINDOW_DAY),
    ("7d", text::WINDOW_WEEK),
    ("30d", text::WINDOW_MONTH),
];

/// Columns of nvgpu's table that are numbers.
const NUMBERS: [usize; 4] = [3, 4, 5, 6];

/// Policy of the report and the statement, which are complete documents with their styles inside.
const DOCUMENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                               form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

#[derive(Debug, Deserialize)]
pub(crate) struct Window {
    #[serde(default = "day")]
    since: String,
}

fn day() -> String {
    "1d".to_owned()
}

/// `GET /`: this host, then every agent with its GPUs as nvgpu's master shows them. The table is folded if the only agent is
/// this host, which is shown above it already.
pub(crate) fn overview(call: &Call) -> Answer {
    let local = call.app.local()?;
    let page = Page::of(call, &local.caller, Tab::Overview);
    let agents = local.host.cluster();
    let detail = api::hosts::detail(&call.app, page.caller, &local.id)?;
    let has_others = agents.iter().any(|agent| agent.name != "self");
    let tables = html! {
        @if agents.is_empty() { p.say { (page.t(text::NO_AGENTS)) } }
        @for agent in &agents { (section(&page, agent)) }
    };
    let main = html! {
        (super::host::content(&page, &detail))
        section {
            h2 { (page.t(text::REPORT)) }
            p { @for (since, name) in WINDOWS { a.button href=(format!("/report?since={since}")) { (page.t(name)) } " " } }
        }
        details open[has_others] {
            summary { (page.t(text::NVGPU_TABLE)) }
            (tables)
        }
    };
    Ok(page.show(page.t(text::THIS_HOST), &main))
}

fn section(view: &View, agent: &Agent) -> Markup {
    let name = sanitize(&agent.name);
    html! {
        section {
            @match &agent.entry {
                ClusterEntry::Report(report) => {
                    h2 { (name) " (" (sanitize(&report.hostname)) ")" }
                    @if agent.rows.is_empty() { p.say { (view.t(text::NO_GPUS)) } } @else {
                        div.scroll tabindex="0" { (table(&name, agent)) }
                    }
                }
                ClusterEntry::Failed { error } => {
                    h2 { (name) }
                    p.bad { (sanitize(error)) }
                }
            }
        }
    }
}

fn table(caption: &str, agent: &Agent) -> Markup {
    let class = |column: usize| NUMBERS.contains(&column).then_some("n");
    html! {
        table {
            caption.unseen { (caption) }
            thead { tr { @for (column, title) in agent.titles.iter().enumerate() {
                th.n[class(column).is_some()] scope="col" { (title) }
            } } }
            tbody { @for (state, cells) in &agent.rows { tr class=(state) {
                @for (column, cell) in cells.iter().enumerate() { td class=[class(column)] { (cell) } }
            } } }
        }
    }
}

/// Reads the window of a page. A query that cannot be read is a bad request; a window that does not exist is invalid.
fn window(call: &Call) -> Result<Window, Problem> {
    call.query().map_err(|problem| match problem {
        Problem::Invalid(detail) => Problem::BadQuery(detail),
        problem => problem,
    })
}

/// `GET /report`: the page of `gua report --format html`.
pub(crate) fn report(call: &Call) -> Answer {
    let window = window(call)?;
    let language = call.view().language;
    let page = call.app.local()?.host.report(&window.since, language)?;
    Ok(document(page))
}

/// `GET /people`: hours per person.
pub(crate) fn people(call: &Call) -> Answer {
    let window = window(call)?;
    let local = call.app.local()?;
    let page = Page::of(call, &local.caller, Tab::People);
    let people = local.host.people(&window.since)?;
    let title = page.t(text::PEOPLE);
    let main = html! {
        p { @for (since, name) in WINDOWS {
            a.button href=(format!("/people?since={since}")) aria-current=[(since == window.since).then_some("true")] { (page.t(name)) } " "
        } }
        @if people.rows.is_empty() { p.say { (page.t(text::NO_PEOPLE)) } } @else {
            div.scroll tabindex="0" { table {
                caption.unseen { (title) }
                thead { tr { @for (place, column) in people.columns.iter().enumerate() {
                    th.n[place > 0] scope="col" { (column.title) }
                } } }
                tbody { @for row in &people.rows { tr {
                    @for (place, cell) in row.iter().enumerate() {
                        @match place {
                            0 => td { a href=(format!("/people/{}", encode(&cell.exact()))) { (sanitize(&cell.shown())) } },
                            _ => td.n { (cell.shown()) },
                        }
                    }
                } } }
            } }
        }
    };
    Ok(page.show_headed(title, &main))
}

/// `GET /people/{name}`: the statement of this month.
pub(crate) fn person(call: &Call) -> Answer {
    let page = call.app.local()?.host.person(call.path("name"))?;
    Ok(document(page))
}

fn document(page: String) -> Response {
    let headers = [(header::CONTENT_SECURITY_POLICY, DOCUMENT_POLICY)];
    (headers, Html(page)).into_response()
}
