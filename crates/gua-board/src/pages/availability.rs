//! The home page: where work can run now.

use gua_board_store::registry::Role;
use gua_model::text::sanitize;
use jiff::Timestamp;
use maud::{Markup, html};

use super::gpu::{HostNames, host_path, maintained};
use super::guide::guide;
use super::layout::{Frame, Page, Tab, View, age, encode};
use super::text;
use crate::api;
use crate::availability::{
    Availability, Compact, Counts, Demand, Group, HostLine, Row, Wall, WallModel,
};
use crate::call::{Answer, Call};

/// Models that the first line names; the rest are summed.
const MODELS_NAMED: usize = 4;
/// Models on a wall screen; the rest are summed.
const MODELS_ON_WALL: usize = 7;
/// Value of `form` for the compact form.
const COMPACT: &str = "compact";

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
    /// `compact` for one line a host.
    #[serde(default)]
    form: String,
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

    fn is_compact(&self) -> bool {
        self.form == COMPACT
    }

    /// Query of another page of the same filter.
    fn page(&self, page: usize) -> String {
        self.query(&page.to_string(), &self.form)
    }

    /// Query of the first page in the other view.
    fn other_form(&self) -> String {
        let form = if self.is_compact() { "" } else { COMPACT };
        self.query("", form)
    }

    /// Query of the same form without a filter.
    fn cleared(&self) -> String {
        let empty = Filter::default();
        empty.query("", &self.form)
    }

    fn query(&self, page: &str, form: &str) -> String {
        let fields = [
            ("page", page),
            ("model", &self.model),
            ("memory", &self.memory),
            ("gpus", &self.gpus),
            ("form", form),
        ];
        let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
        let fields: Vec<String> = fields
            .map(|(name, value)| format!("{name}={}", encode(value)))
            .collect();
        format!("?{}", fields.join("&"))
    }
}

pub(crate) fn availability(call: &Call) -> Answer {
    let app = &call.app;
    let page = &Page::new(call, Tab::Availability);
    let filter: Filter = call.query()?;
    let title = page.t(text::AVAILABILITY);
    if filter.is_compact() {
        let found = Compact::new(&call.hosts()?, &app.live, &filter.demand(), page.now);
        let main = html! {
            (head(page, &found.counts))
            (form(page, &filter, &found.counts))
            div data-part="gpus" {
                (lines(page, &found.hosts))
                @if found.hosts.is_empty() { (nothing(page, &filter)) }
                (page.pages(found.counts.page, found.counts.pages, |page| filter.page(page)))
            }
        };
        return Ok(page.show(title, &main));
    }
    let Availability { counts, rows } = api::hosts::find_availability(call, &filter.demand())?;
    let is_guided = app.options.guest.is_some() && filter.is_empty();
    let main = html! {
        (head(page, &counts))
        @if is_guided { (guide(page, &rows)) }
        (form(page, &filter, &counts))
        div data-part="gpus" {
            @for group in Group::ALL { (section(page, group, &counts, &rows)) }
            @if rows.is_empty() { (nothing(page, &filter)) }
            (page.pages(counts.page, counts.pages, |page| filter.page(page)))
        }
    };
    Ok(page.show(title, &main))
}

/// The page of a wall screen: how many GPUs are free, by model, and which are idle-held since when. People and links are left out.
pub(crate) fn screen(call: &Call) -> Answer {
    let (app, view) = (&call.app, call.view());
    let demand = call.query::<Filter>()?.demand();
    let now = app.now();
    let wall = Wall::new(&call.hosts()?, &app.live, &demand, now);
    let frame = Frame {
        title: view.t(text::AVAILABILITY),
        is_live: true,
        ..Frame::default()
    };
    Ok(view.page(frame, &wall_page(&view, &wall, now)))
}

fn wall_page(view: &View, wall: &Wall, now: Timestamp) -> Markup {
    let counts = &wall.counts.counts;
    let total: usize = counts.iter().sum();
    let idle = counts[Group::IdleHeld as usize];
    let (shown, others) = wall.models.split_at(wall.models.len().min(MODELS_ON_WALL));
    let others = (!others.is_empty()).then(|| WallModel {
        model: view.t(text::OTHER_MODELS).to_owned(),
        free: others.iter().map(|one| one.free).sum(),
        total: others.iter().map(|one| one.total).sum(),
    });
    html! {
        div.wall data-part="wall" {
            h1 {
                b { (counts[Group::Free as usize]) } " "
                span { (view.with(text::WALL_OF, &[&total.to_string()])) }
            }
            ul.models {
                @for one in shown.iter().chain(&others) {
                    li.none[one.free == 0] {
                        b { (one.free) }
                        span { (sanitize(&one.model)) small { (view.with(text::WALL_OF_MODEL, &[&one.total.to_string()])) } }
                    }
                }
            }
            section.idle data-idle=(idle) {
                h2 { (view.with(text::WALL_IDLE, &[&idle.to_string()])) }
                ol {
                    @for gpu in &wall.idle {
                        li {
                            b { (gpu.since.map_or_else(|| "–".to_owned(), |since| age(since.at, now))) }
                            span { (sanitize(&gpu.host_name)) " #" (gpu.index) small { (sanitize(&gpu.model)) } }
                        }
                    }
                }
                @if idle > wall.idle.len() { p { (view.with(text::WALL_MORE, &[&(idle - wall.idle.len()).to_string()])) } }
            }
        }
    }
}

/// The first line and the counts of all groups.
fn head(view: &View, counts: &Counts) -> Markup {
    html! {
        div data-part="summary" {
            h1.summary data-free=(counts.counts[Group::Free as usize]) { (summary(view, counts)) }
            p.counts {
                @for group in Group::ALL {
                    span class=(format!("count {}", class(group))) {
                        i class=(class(group)) {} " " b { (counts.counts[group as usize]) } " " (view.t(text::group(group)))
                    }
                }
            }
        }
    }
}

/// Summary line: the free GPUs, their number of hosts, and the idle-held GPUs.
fn summary(view: &View, found: &Counts) -> String {
    let idle_held = found.counts[Group::IdleHeld as usize].to_string();
    if found.free.is_empty() {
        return view.with(text::NONE_FREE, &[&idle_held]);
    }
    let models = found.free.iter().take(MODELS_NAMED);
    let mut models: Vec<String> = models
        .map(|free| format!("{} × {}", free.count, sanitize(&free.model)))
        .collect();
    let others = found.free.iter().skip(MODELS_NAMED);
    let others: usize = others.map(|free| free.count).sum();
    if others > 0 {
        models.push(view.with(text::OTHERS, &[&others.to_string()]));
    }
    let hosts = match found.free_hosts {
        1 => view.t(text::ONE_HOST).to_owned(),
        many => view.with(text::HOSTS, &[&many.to_string()]),
    };
    view.with(text::FREE_NOW, &[&models.join(", "), &hosts, &idle_held])
}

/// Class of a group in the style sheet.
pub(super) fn class(group: Group) -> &'static str {
    match group {
        Group::Free => "free",
        Group::IdleHeld => "idle",
        Group::FreeSoon => "soon",
        Group::InUse => "used",
        Group::Unusable => "unusable",
    }
}

/// One line for each host with a square for each GPU.
fn lines(page: &Page<'_>, hosts: &[HostLine]) -> Markup {
    html! {
        @if !hosts.is_empty() {
            section {
                ul.hosts {
                    @for host in hosts { li { (line(page, host)) } }
                }
            }
        }
    }
}

fn line(page: &Page<'_>, host: &HostLine) -> Markup {
    let count = |group: Group| {
        let own = host.gpus.iter().filter(|(_, own)| *own == group);
        Some((own.count(), group)).filter(|(count, _)| *count > 0)
    };
    let counts: Vec<String> = Group::ALL
        .into_iter()
        .filter_map(count)
        .map(|(count, group)| format!("{count} {}", page.t(text::group(group))))
        .collect();
    let name = sanitize(&host.host.display_name);
    html! {
        span.host {
            a href=(host_path(page.caller, &host.host.id)) { (name) }
            small {
                (sanitize(&host.model))
                @if let Some(maintenance) = host.host.maintenance(page.now) { " · " (maintained(page, maintenance)) }
                @else if host.is_stale { " · " (page.t(text::STALE)) }
            }
        }
        span.cells role="img" aria-label=(counts.join(", ")) {
            @for (index, group) in &host.gpus { i class=(class(*group)) { (index) } }
        }
    }
}

fn form(view: &View, filter: &Filter, found: &Counts) -> Markup {
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
            @if filter.is_compact() { input type="hidden" name="form" value=(COMPACT); }
            span {
                button type="submit" { (view.t(text::APPLY)) }
                @if !filter.is_empty() { " " a href=(filter.cleared()) { (view.t(text::CLEAR)) } }
                " " button.plain.watch type="button" aria-pressed="false" data-watch=(view.t(text::TELL_ME)) data-waiting=(view.t(text::WAITING_FOR_FREE)) title=(view.t(text::KEEP_OPEN)) { (view.t(text::TELL_ME)) }
            }
            a.form href=(filter.other_form()) {
                @if filter.is_compact() { (view.t(text::FULL)) } @else { (view.t(text::COMPACT)) }
            }
        }
    }
}

fn section(page: &Page<'_>, group: Group, counts: &Counts, rows: &[Row]) -> Markup {
    let rows = rows.iter().filter(|row| row.group == group);
    let rows: Vec<&Row> = rows.collect();
    let name = page.t(text::group(group));
    html! {
        @if !rows.is_empty() {
            section class=(class(group)) {
                h2 { (name) " " span.number { (counts.counts[group as usize]) } }
                @if group == Group::IdleHeld { p.say { (page.t(text::ASK)) } }
                @if group == Group::FreeSoon { p.say { (page.t(text::SOON)) } }
                (page.gpus(name, &rows, HostNames::Shown))
            }
        }
    }
}

fn nothing(page: &Page<'_>, filter: &Filter) -> Markup {
    html! {
        section {
            @if !filter.is_empty() {
                p.say { (page.t(text::NO_MATCH)) }
            } @else {
                p.say { (page.t(text::NO_HOSTS)) }
                @if page.caller.role >= Role::Admin {
                    p { a.button href=(page.path("/servers")) { (page.t(text::ADD_SERVER)) } }
                }
            }
        }
    }
}
