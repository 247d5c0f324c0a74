//! One host, and one GPU with the evidence for its state.

use gua_model::Bytes;
use gua_model::text::{gigabytes, sanitize};
use gua_wire::live::{LiveGpu, LiveProcess};
use gua_wire::snapshot::ProcessType;
use maud::{Markup, html};

use super::availability::class;
use super::gpu::{HostNames, curve, host_path, maintained, memory, percent, strip, value};
use super::layout::{Page, Tab, View, utc};
use super::servers::lateness;
use super::text::{self, Text};
use crate::access::Via;
use crate::api;
use crate::api::hosts::HostDetail;
use crate::availability::{Group, Row, model};
use crate::call::{Answer, Call};
use crate::error::Problem;

pub(crate) fn host(call: &Call) -> Answer {
    let page = Page::new(call, Tab::Availability);
    let detail = api::hosts::host(call)?;
    let name = sanitize(&detail.host.host.display_name);
    Ok(page.show(&name, &content(&page, &detail)))
}

/// Content of the page of a host.
pub(super) fn content(page: &Page<'_>, detail: &HostDetail) -> Markup {
    let rows: Vec<&Row> = detail.gpus.iter().collect();
    let host = &detail.host.host;
    let name = sanitize(&host.display_name);
    let path = host_path(page.caller, &host.id);
    html! {
        h1 { (name) }
        div data-part="host" data-page=(path) {
            @if let Some(maintenance) = host.maintenance(page.now) {
                p.note { (maintained(page, maintenance)) }
            }
            (facts(page, detail))
            section {
                h2 { (page.t(text::GPUS)) }
                @if rows.is_empty() { p.say { (page.t(text::NO_REPORT)) } } @else { (page.gpus(&name, &rows, HostNames::Omitted)) }
            }
            section {
                h2 { (page.t(text::PROCESSES)) }
                (processes(page, &rows, text::NO_PROCESSES))
            }
            @if !detail.problems.is_empty() {
                section {
                    h2 { (page.t(text::PROBLEMS)) }
                    ul { @for problem in &detail.problems { li { (sanitize(problem)) } } }
                }
            }
        }
    }
}

fn facts(page: &Page<'_>, detail: &HostDetail) -> Markup {
    let host = &detail.host;
    // The only host of `gua serve` is enrolled when the server starts.
    let is_local = matches!(page.caller.account.via, Via::Local);
    let unknown = || page.t(text::UNKNOWN).to_owned();
    let version = |version: &Option<String>| version.as_deref().map_or_else(unknown, sanitize);
    html! {
        dl.facts {
            (fact(page.t(text::LAST_REPORT), &html! {
                @match host.last_seen {
                    Some(at) => (page.ago(at, page.now)),
                    None => (page.t(text::NEVER)),
                }
                @if let Some(lateness) = lateness(host) { " " span.bad { (page.t(lateness)) } }
            }))
            (fact(page.t(text::group(Group::Free)), &html! {
                (page.with(text::FREE_OF, &[&host.free_gpus.to_string(), &host.gpus.to_string()]))
            }))
            (fact(page.t(text::AGENT), &html! { (version(&host.reported_version)) }))
            (fact(page.t(text::DRIVER), &html! { (version(&detail.driver_version)) }))
            @if detail.waiting > 0 { (fact(page.t(text::WAITING), &html! { (detail.waiting) })) }
            @if !is_local { (fact(page.t(text::ENROLLED), &html! { (utc(host.host.enrolled)) })) }
        }
    }
}

fn fact(name: &str, value: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

/// Lists the processes of GPUs.
fn processes(page: &Page<'_>, rows: &[&Row], none: Text) -> Markup {
    let all = rows.iter();
    let all: Vec<(&LiveGpu, &LiveProcess)> = all
        .flat_map(|row| row.gpu.processes.iter().map(|process| (&row.gpu, process)))
        .collect();
    let name = |name: &Option<String>| {
        let unknown = match page.caller.sees_names() {
            false => text::HIDDEN,
            true => text::UNKNOWN,
        };
        match name {
            Some(name) => html! { (sanitize(name)) },
            None => html! { span.muted { (page.t(unknown)) } },
        }
    };
    html! {
        @if all.is_empty() { p.say { (page.t(none)) } } @else {
            (page.table(None, &[text::GPU, text::HOLDER, text::PROCESS, text::PID, text::KIND, text::MEMORY], &[3, 5], &html! { @for (gpu, process) in all { tr {
                td { "#" (gpu.index) }
                td { (name(&process.owner)) }
                td { (name(&process.name)) }
                td.n { @if process.pid > 0 { (process.pid) } }
                td { (match process.kind { ProcessType::Compute => "compute", ProcessType::Graphics => "graphics" }) }
                td.n { (value(page, process.memory_bytes, |bytes| format!("{} GB", gigabytes(Bytes(bytes))))) }
            } } }))
        }
    }
}

pub(crate) fn gpu(call: &Call) -> Answer {
    let page = Page::new(call, Tab::Availability);
    let detail = api::hosts::host(call)?;
    let uuid = call.path("gpu");
    let mut rows = detail.gpus.iter();
    let row = rows.find(|row| row.gpu.uuid.as_str() == uuid);
    let row = row.ok_or(Problem::NotFound("GPU"))?;
    let title = format!("{} #{}", sanitize(&row.host_name), row.gpu.index);
    let main = html! {
        h1 {
            a href=(host_path(page.caller, &row.host)) { (sanitize(&row.host_name)) } " #" (row.gpu.index)
            small { (sanitize(&model(&row.gpu))) }
        }
        div data-part="gpu" {
            section {
                h2 { (page.t(text::WHY)) }
                (evidence(&page, row))
            }
            section {
                h2 { (page.t(text::LAST_HOUR)) }
                div.large { (curve(&row.curve)) }
                p.axis { span { (page.t(text::AXIS)) } span { (page.t(text::NOW)) } }
            }
            section {
                h2 { (page.t(text::LAST_DAY)) }
                div.large { (strip(&page, &row.day)) }
                p.axis { span { (page.t(text::DAY_AXIS)) } span { (page.t(text::NOW)) } }
                (legend(&page))
            }
            section {
                h2 { (page.t(text::PROCESSES)) }
                (processes(&page, &[row], text::NO_PROCESS))
            }
            @let commands = page.commands(row);
            @if !commands.is_empty() {
                section {
                    h2 { (page.t(text::COMMAND)) }
                    @for command in &commands { (page.copyable(command)) }
                }
            }
        }
    };
    Ok(page.show(&title, &main))
}

/// Colours of the strip of a day.
fn legend(view: &View) -> Markup {
    html! {
        ul.legend {
            @for group in Group::ALL {
                li { i class=(class(group)) {} " " (view.t(text::group(group))) }
            }
        }
    }
}

/// The state of a GPU with the readings that it follows from.
fn evidence(page: &Page<'_>, row: &Row) -> Markup {
    let gpu = &row.gpu;
    let celsius = |value: i32| format!("{value} °C");
    let watts = |value: u64| format!("{} W", value / 1000);
    html! {
        p.lead { (page.state(row)) " · " (page.t(text::reason(gpu.state))) }
        @if let Some(maintenance) = &row.maintenance {
            p.note { (maintained(page, maintenance)) }
        } @else if row.is_stale {
            p.note { (page.t(text::IS_STALE)) }
        } @else {
            p {
                @match gpu.obstacle {
                    Some(obstacle) => { (page.t(text::NOT_FREE)) ": " (page.t(text::obstacle(obstacle))) },
                    None => (page.t(text::IS_FREE)),
                }
            }
        }
        dl.facts {
            (fact(page.t(text::SINCE), &page.since(row)))
            (fact(page.t(text::HOLDER), &page.holder(gpu)))
            @if page.is_kept(gpu) {
                (fact(page.t(text::KEEP), &page.kept(gpu)))
            }
            (fact(page.t(text::UTILISATION), &percent(page, gpu.util_percent)))
            (fact(page.t(text::MEMORY), &memory(page, gpu)))
            (fact(page.t(text::TEMPERATURE), &value(page, gpu.temperature_celsius, celsius)))
            (fact(page.t(text::POWER), &value(page, gpu.power_milliwatts, watts)))
            @if let Some(claim) = &gpu.claim {
                @let owner = claim.owner.as_deref().map_or_else(|| page.t(text::UNKNOWN).to_owned(), sanitize);
                (fact(page.t(text::CLAIM), &html! {
                    @match claim.until {
                        Some(until) => (page.with(text::CLAIM_UNTIL, &[&owner, &utc(until)])),
                        None => (owner),
                    }
                }))
            }
            @if let Some(instance) = &gpu.instance {
                (fact(page.t(text::PART_OF), &html! { (instance.parent.as_str()) }))
            }
            (fact(page.t(text::LAST_REPORT), &page.ago(row.received_at, page.now)))
            (fact(page.t(text::UUID), &html! { code { (gpu.uuid.as_str()) } }))
        }
    }
}
