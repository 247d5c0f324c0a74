//! The Servers page: enrolled hosts, hosts that await approval or were refused, and enrolment keys.

use gua_board_store::registry::{AuditEntry, EnrolmentKey, Host};
use gua_model::text::sanitize;
use maud::{Markup, html};

use super::admin::{ListQuery, button, form, groups_field, once, until};
use super::gpu::maintained;
use super::layout::{Page, Tab, View, encode, utc};
use super::text;
use crate::api::alerts::{AlertEntry, ConfiguredAlert};
use crate::api::hosts::HostDocument;
use crate::api::{self, PAGE_ITEMS};
use crate::app::App;
use crate::call::{Answer, Call};

pub(crate) fn servers(call: &Call) -> Answer {
    servers_page(call, &call.query()?, None)
}

/// Shows the page again, with the one line to run on the host.
pub(crate) fn add_key(call: &Call) -> Answer {
    let added = api::keys::add_enrolment_key(call)?;
    let line = enrol_line(&call.app, &added.secret);
    servers_page(call, &ListQuery::default(), Some(&line))
}

/// The command that enrols a host. The key is not an argument, because other users of the host could read it there.
fn enrol_line(app: &App, key: &str) -> String {
    let pin = app
        .options
        .pin
        .map_or_else(String::new, |pin| format!(" --pin {pin}"));
    format!(
        "echo {key} | sudo gua enroll --server-url {}{pin} --enrollment-token - && sudo gua service install --cloud",
        app.options.public_url
    )
}

fn servers_page(call: &Call, query: &ListQuery, line: Option<&str>) -> Answer {
    let now = call.app.now();
    let hosts = call.hosts()?;
    let found = api::hosts::page_of_hosts(&call.app, &hosts, &query.search());
    let shown = &found.items;
    let refusals = api::keys::enrolment_refusals(call)?.items;
    // The page is needed most when something is broken, so it does without them.
    let alerts = api::alerts::alerts(call);
    let alerts = alerts.map_or_else(|_| Vec::new(), |alerts| alerts.items);
    let configured = api::alerts::configured_alerts(call);
    let mut keys = api::keys::enrolment_keys(call)?.items;
    keys.retain(|key| key.uses_left > 0 && key.expires.is_none_or(|at| at > now));
    let page = Page::new(call, Tab::Servers);
    let main = html! {
        (once(&page, text::KEY_READY, line))
        section {
            (query.field(&page, "/servers", hosts.len() > PAGE_ITEMS))
            div data-part="servers" {
                @if hosts.is_empty() { p.say { (page.t(text::NO_HOSTS)) } }
                @else if shown.is_empty() { p.say { (page.t(text::NO_HOST_MATCHES)) } }
                @else {
                    (page.table(None, &[text::HOST, text::LAST_REPORT, text::GPU, text::VERSION, text::ENROLLED, text::MANAGE], &[], &html! {
                        @for one in shown { (host_row(&page, one, &hosts)) }
                    }))
                }
                (refusal_list(&page, &refusals))
            }
            (query.links(&page, &found))
        }
        @match &configured {
            Ok(configured) if configured.items.is_empty() => {}
            Ok(configured) => section {
                h2 { (page.t(text::CONFIGURED_ALERTS)) }
                (page.table(Some("dense"), &[text::NAME, text::ALERT, text::LONGER_THAN, text::QUIET_HOURS, text::DESTINATION], &[], &html! {
                    @for alert in &configured.items { (configured_row(&page, alert)) }
                }))
            }
            Err(_) => section {
                h2 { (page.t(text::CONFIGURED_ALERTS)) }
                p.say { (page.t(text::CONFIGURATION_MISTAKE)) }
            }
        }
        @if !alerts.is_empty() {
            section {
                h2 { (page.t(text::ALERTS)) }
                (page.table(Some("dense"), &[text::ALERT_TIME, text::HOST, text::ALERT, text::MESSAGE, text::DELIVERY], &[], &html! {
                    @for alert in &alerts { (alert_row(&page, alert)) }
                }))
            }
        }
        section {
            h2 { (page.t(text::ADD_SERVER)) }
            p.say { (page.t(text::ADD_SERVER_LEAD)) }
            (form(&page.path("/keys"), page.t(text::CREATE_KEY), &html! {
                label { (page.t(text::DISPLAY_NAME)) input name="name" maxlength="100" placeholder=(page.t(text::OWN_NAME)); }
                label { (page.t(text::USES)) input name="uses" type="number" min="1" max="100000" value="1"; }
                label { (page.t(text::HOURS)) input name="expiresInHours" type="number" min="1" max="8784" value="24"; }
                label { (page.t(text::HOST_NAMES)) input name="hostNames" maxlength="100" placeholder="gpu-*"; }
                label { (page.t(text::TAGS)) input name="tags" maxlength="100" placeholder="lab, group:vision"; }
                label.check { input name="needsApproval" type="checkbox" value="true"; " " (page.t(text::NEEDS_APPROVAL)) }
            }))
        }
        section {
            h2 { (page.t(text::KEYS)) }
            (key_table(&page, &keys))
        }
    };
    Ok(page.show_headed(page.t(text::SERVERS), &main))
}

/// A configured alert, with the problem of its destination.
fn configured_row(view: &View, alert: &ConfiguredAlert) -> Markup {
    html! { tr {
        th scope="row" { (sanitize(&alert.name)) }
        td.long { code { (alert.when.replace(',', ", ")) } }
        td { (alert.longer_than.as_deref().unwrap_or_else(|| view.t(text::DEFAULT))) }
        td { (alert.quiet.as_deref().unwrap_or("–")) }
        td.long { (alert.to) @if let Some(problem) = &alert.problem { small.bad { (sanitize(problem)) } } }
    } }
}

/// A message of an alert.
fn alert_row(page: &Page<'_>, alert: &AlertEntry) -> Markup {
    let status = match &alert.error {
        Some(error) => format!("{}: {}", alert.status, sanitize(error)),
        None => alert.status.to_owned(),
    };
    html! { tr {
        td { (page.ago(alert.at, page.now)) }
        th scope="row" { @match &alert.host {
            Some(host) => a href=(page.path(&format!("/hosts/{}", encode(host)))) { (sanitize(&alert.host_name)) },
            None => (sanitize(&alert.host_name)),
        } }
        td { code { (sanitize(&alert.when)) } }
        td.long { @match &alert.title { Some(title) => (sanitize(title)), None => (page.t(text::HIDDEN)) } }
        td.long { (sanitize(&alert.alert)) ", " (sanitize(&alert.to)) ": " (status) }
    } }
}

/// Hosts that could not enrol in the last day, and why.
fn refusal_list(page: &Page<'_>, refusals: &[AuditEntry]) -> Markup {
    html! {
        @if !refusals.is_empty() {
            h2 { (page.t(text::REFUSED_HOSTS)) }
            ul {
                @for entry in refusals {
                    li {
                        (sanitize(&entry.object)) " · " (page.ago(entry.at, page.now))
                        @if let Some(address) = &entry.address { " · " (sanitize(address)) }
                    }
                }
            }
        }
    }
}

/// Warnings about a host, and the forms to act on them.
fn host_notes(page: &Page<'_>, one: &HostDocument, hosts: &[Host]) -> Markup {
    let id = encode(one.host.id.as_str());
    let name = sanitize(&one.host.display_name);
    let mut known = hosts.iter();
    let same = known.find(|other| one.same_gpus_as.as_ref() == Some(&other.id));
    html! {
        @if let Some(maintenance) = one.host.maintenance(page.now) { small.bad { (maintained(page, maintenance)) } }
        @if !one.host.tags.is_empty() { small { (sanitize(&one.host.tags.join(", "))) } }
        @if !one.host.groups.is_empty() { small { (page.with(text::ONLY_FOR, &[&sanitize(&one.host.groups.join(", "))])) } }
        @if !one.host.is_approved {
            small.bad { (page.t(text::WAITS_FOR_APPROVAL)) }
            (action(&page.path(&format!("/servers/{id}/approve")), None, page.t(text::APPROVE), &format!("{} {name}", page.t(text::APPROVE))))
        }
        @if let Some(other) = &one.other_machine {
            small.bad { (page.with(text::OTHER_MACHINE, &[&sanitize(other)])) }
        }
        @if let Some(same) = same {
            @let old = sanitize(&same.display_name);
            small { (page.with(text::SAME_GPUS, &[&old])) }
            (action(&page.path(&format!("/servers/{id}/replace")), Some(same.id.as_str()), page.t(text::REPLACE), &page.with(text::REPLACE_OF, &[&old])))
        }
    }
}

/// A form with one button, and the host that it is about.
fn action(path: &str, replaced: Option<&str>, name: &str, label: &str) -> Markup {
    html! {
        form method="post" action=(path) {
            @if let Some(host) = replaced { input type="hidden" name="replaced" value=(host); }
            button type="submit" aria-label=(label) { (name) }
        }
    }
}

/// Warning about late reports of a host; `None` if they are on time. A silent agent is stale for longer.
pub(super) fn lateness(host: &HostDocument) -> Option<text::Text> {
    match host {
        HostDocument {
            is_silent: true, ..
        } => Some(text::SILENT),
        HostDocument {
            is_stale: true,
            last_seen: Some(_),
            ..
        } => Some(text::STALE),
        _ => None,
    }
}

fn host_row(page: &Page<'_>, one: &HostDocument, hosts: &[Host]) -> Markup {
    let name = sanitize(&one.host.display_name);
    let id = encode(one.host.id.as_str());
    let version = one
        .reported_version
        .as_ref()
        .or(one.host.agent_version.as_ref());
    let free = [one.free_gpus.to_string(), one.gpus.to_string()];
    html! { tr {
        th scope="row" { a href=(page.path(&format!("/hosts/{id}"))) { (name) } (host_notes(page, one, hosts)) }
        td {
            @match one.last_seen { Some(at) => (page.ago(at, page.now)), None => (page.t(text::NEVER)) }
            @if let Some(lateness) = lateness(one) { small.bad { (page.t(lateness)) } }
        }
        td { (page.with(text::FREE_OF, &[&free[0], &free[1]])) }
        td { (version.map_or_else(|| page.t(text::UNKNOWN).to_owned(), |version| sanitize(version))) }
        td { (utc(one.host.enrolled)) }
        td {
            details {
                summary aria-label=(format!("{} {name}", page.t(text::MANAGE))) { (page.t(text::MANAGE)) }
                (form(&page.path(&format!("/servers/{id}/rename")), page.t(text::RENAME), &html! {
                    label { (page.t(text::DISPLAY_NAME)) input name="displayName" required maxlength="100" value=(one.host.display_name); }
                }))
                (form(&page.path(&format!("/servers/{id}/groups")), page.t(text::SET_GROUPS), &groups_field(page, &one.host.groups)))
                p.say { (page.t(text::GROUPS_LEAD)) }
                (maintenance_forms(page, &one.host))
                p.say { (page.t(text::REVOKE_HOST_LEAD)) }
                (button(&page.path(&format!("/servers/{id}/revoke")), page.t(text::REVOKE), &page.with(text::REVOKE_OF, &[&name])))
            }
        }
    } }
}

/// Forms that begin and end the maintenance of a host.
fn maintenance_forms(page: &Page<'_>, host: &Host) -> Markup {
    let path = page.path(&format!(
        "/servers/{}/maintenance",
        encode(host.id.as_str())
    ));
    html! {
        @if host.maintenance(page.now).is_some() {
            form method="post" action=(format!("{path}/end")) { button type="submit" { (page.t(text::END_MAINTENANCE)) } }
        } @else {
            (form(&path, page.t(text::BEGIN_MAINTENANCE), &html! {
                label { (page.t(text::NOTE)) input name="note" required maxlength="100"; }
                label { (page.t(text::ENDS_IN)) input name="endsInHours" type="number" min="1" max="8784"; }
            }))
            p.say { (page.t(text::MAINTENANCE_LEAD)) }
        }
    }
}

fn key_table(page: &Page<'_>, keys: &[EnrolmentKey]) -> Markup {
    html! {
        @if keys.is_empty() { p.say { (page.t(text::NO_KEYS)) } } @else {
            (page.table(None, &[text::KEY, text::DISPLAY_NAME, text::USES_LEFT, text::EXPIRES, text::MANAGE], &[2], &html! { @for key in keys.iter().rev().take(PAGE_ITEMS) { tr {
                th scope="row" { code { (key.prefix) "…" } }
                td {
                    (key.name.as_deref().map(sanitize).unwrap_or_default())
                    @if let Some(names) = &key.limits.host_names { small { (sanitize(names)) } }
                    @if !key.limits.tags.is_empty() { small { (sanitize(&key.limits.tags.join(", "))) } }
                    @if key.limits.needs_approval { small { (page.t(text::NEEDS_APPROVAL)) } }
                }
                td.n { (key.uses_left) }
                td { (until(page, key.expires)) }
                td { (button(&page.path(&format!("/keys/{}/revoke", encode(key.id.as_str()))), page.t(text::REVOKE), &page.with(text::REVOKE_OF, &[&key.prefix]))) }
            } } }))
            @if keys.len() > PAGE_ITEMS { p.say { (page.with(text::OLDER_KEYS, &[&(keys.len() - PAGE_ITEMS).to_string()])) } }
        }
    }
}
