//! The home page: where work can run now.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::response::Response;
use gua_board_store::registry::Role;
use gua_model::text::sanitize;
use maud::{Markup, html};

use super::gpu::Table;
use super::guide::guide;
use super::layout::{Frame, Tab, View, encode, workspace_path};
use super::text;
use crate::access::MemberCaller;
use crate::api;
use crate::app::App;
use crate::availability::{Availability, Demand, Group, Row};
use crate::error::Problem;

/// The filter as its form sends it: a field that was left blank is empty text.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct Filter {
    #[serde(default)]
    model: String,
    #[serde(default)]
    memory: String,
    #[serde(default)]
    gpus: String,
    #[serde(default)]
    page: String,
}

impl Filter {
    fn demand(&self) -> Demand {
        let model = self.model.trim();
        Demand {
            model: (!model.is_empty()).then(|| model.to_owned()),
            memory: self.memory.trim().parse().ok(),
            gpus: self.gpus.trim().parse().ok(),
            page: self.page.trim().parse().ok(),
        }
    }

    fn is_empty(&self) -> bool {
        self.model.is_empty() && self.memory.is_empty() && self.gpus.is_empty()
    }

    /// Query of another page of the same filter.
    fn page(&self, page: usize) -> String {
        let mut query = format!("?page={page}");
        for (name, value) in [
            ("model", &self.model),
            ("memory", &self.memory),
            ("gpus", &self.gpus),
        ] {
            if !value.is_empty() {
                query.push_str(&format!("&{name}={}", encode(value)));
            }
        }
        query
    }
}

pub(crate) async fn availability(
    view: View,
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    query: Result<Query<Filter>, QueryRejection>,
) -> Result<Response, Problem> {
    let filter = api::query(query)?;
    let now = app.now();
    let is_demo = app.is_demo && filter.is_empty();
    let demand = Ok(Query(filter.demand()));
    let found = api::availability(State(app), Extension(caller.clone()), demand).await?;
    let found = found.0;
    let title = view.t(text::AVAILABILITY);
    let frame = Frame {
        title,
        caller: Some(&caller),
        tab: Some(Tab::Availability),
        is_live: true,
    };
    let table = Table {
        view: &view,
        caller: &caller,
        now,
        has_host: true,
    };
    let main = html! {
        div data-part="summary" { h1.summary { (summary(&view, &found)) } (counts(&view, &found)) }
        @if is_demo { (guide(&view, &caller, &found.rows)) }
        (form(&view, &filter, &found))
        div data-part="gpus" {
            @for group in Group::ALL { (section(&table, group, &found)) }
            @if found.rows.is_empty() { (nothing(&view, &filter, &caller)) }
            (pages(&view, &filter, &found))
        }
    };
    Ok(view.page(frame, &main))
}

/// The first line: what is free, on how many hosts, and what is idle-held.
fn summary(view: &View, found: &Availability) -> String {
    let idle_held = found.counts[Group::IdleHeld as usize].to_string();
    if found.free.is_empty() {
        return view.with(text::NONE_FREE, &[&idle_held]);
    }
    let models = found.free.iter();
    let models: Vec<String> = models
        .map(|free| format!("{} × {}", free.count, sanitize(&free.model)))
        .collect();
    let hosts = match found.free_hosts {
        1 => view.t(text::ONE_HOST).to_owned(),
        many => view.with(text::HOSTS, &[&many.to_string()]),
    };
    view.with(text::FREE_NOW, &[&models.join(", "), &hosts, &idle_held])
}

fn counts(view: &View, found: &Availability) -> Markup {
    html! {
        p.counts {
            @for group in Group::ALL {
                span class=(format!("count {}", class(group))) {
                    b { (found.counts[group as usize]) } " " (view.t(text::group(group)))
                }
            }
        }
    }
}

fn class(group: Group) -> &'static str {
    match group {
        Group::Free => "free",
        Group::IdleHeld => "idle",
        Group::InUse => "used",
        Group::Unusable => "unusable",
    }
}

fn form(view: &View, filter: &Filter, found: &Availability) -> Markup {
    html! {
        form.filter method="get" aria-label=(view.t(text::FILTER)) {
            label { (view.t(text::MODEL))
                select name="model" {
                    option value="" { (view.t(text::ANY_MODEL)) }
                    @for model in &found.models {
                        option value=(model) selected[*model == filter.model] { (sanitize(model)) }
                    }
                    @if !filter.model.is_empty() && !found.models.contains(&filter.model) {
                        option value=(filter.model) selected { (sanitize(&filter.model)) }
                    }
                }
            }
            label { (view.t(text::AT_LEAST_GB)) input type="number" name="memory" min="1" max="10000" value=(filter.memory); }
            label { (view.t(text::ON_ONE_HOST)) input type="number" name="gpus" min="1" max="1000" value=(filter.gpus); }
            span {
                button type="submit" { (view.t(text::APPLY)) }
                @if !filter.is_empty() { " " a href="?" { (view.t(text::CLEAR)) } }
            }
        }
    }
}

fn section(table: &Table<'_>, group: Group, found: &Availability) -> Markup {
    let view = table.view;
    let rows = found.rows.iter().filter(|row| row.group == group);
    let rows: Vec<&Row> = rows.collect();
    let name = view.t(text::group(group));
    html! {
        @if !rows.is_empty() {
            section class=(class(group)) {
                h2 { (name) " " span.number { (found.counts[group as usize]) } }
                @if group == Group::IdleHeld { p.say { (view.t(text::ASK)) } }
                (table.write(name, &rows))
            }
        }
    }
}

fn nothing(view: &View, filter: &Filter, caller: &MemberCaller) -> Markup {
    html! {
        section {
            @if !filter.is_empty() {
                p.say { (view.t(text::NO_MATCH)) }
            } @else {
                p.say { (view.t(text::NO_HOSTS)) }
                @if caller.role >= Role::Admin {
                    p { a.button href=(format!("{}/servers", workspace_path(caller))) { (view.t(text::ADD_FIRST)) } }
                }
            }
        }
    }
}

fn pages(view: &View, filter: &Filter, found: &Availability) -> Markup {
    let (page, pages) = (found.page, found.pages);
    html! {
        @if pages > 1 {
            nav.pages aria-label=(view.t(text::PAGES)) {
                @if page > 1 { a rel="prev" href=(filter.page(page - 1)) { (view.t(text::PREVIOUS)) } }
                span { (view.with(text::PAGE_OF, &[&page.to_string(), &pages.to_string()])) }
                @if page < pages { a rel="next" href=(filter.page(page + 1)) { (view.t(text::NEXT)) } }
            }
        }
    }
}
