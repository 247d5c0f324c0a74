//! The page of a member: user names on hosts, GPUs held now, and the password form of the member's own page.

use gua_board_store::AccountId;
use gua_board_store::registry::{Role, UserName};
use gua_model::text::sanitize;
use maud::{Markup, html};

use super::admin::{form, once};
use super::layout::{Page, Tab, encode, see_other, utc, workspace_path};
use super::text;
use crate::access::{MemberCaller, Via};
use crate::api;
use crate::api::people::Person;
use crate::call::{Answer, Call};

fn path_of(caller: &MemberCaller, account: &AccountId) -> String {
    let account = encode(account.as_str());
    format!("{}/members/{account}", workspace_path(caller))
}

/// Redirects to the page of the caller.
pub(crate) fn me(call: &Call) -> Answer {
    let caller = call.caller();
    Ok(see_other(&path_of(caller, &caller.account.id), ()))
}

pub(crate) fn member(call: &Call) -> Answer {
    person_page(call, &call.account(), None)
}

/// Shows the page again, with the line to run on a host.
pub(crate) fn add_name_code(call: &Call) -> Answer {
    let code = api::people::add_name_code(call)?;
    let line = format!("gua board link {}", code.code);
    person_page(call, &call.caller().account.id, Some(&line))
}

fn person_page(call: &Call, account: &AccountId, line: Option<&str>) -> Answer {
    let person = &api::people::find_person(call, account)?;
    let caller = call.caller();
    let is_own = person.member.account == caller.account.id;
    let tab = if is_own { Tab::Me } else { Tab::Members };
    let page = Page::new(call, tab);
    let own = path_of(caller, &person.member.account);
    let name = sanitize(&person.member.name);
    let title = if is_own { page.t(text::ME) } else { &name };
    Ok(page.show_headed(title, &html! {
        (once(&page, text::CODE_READY, line))
        section {
            p.say { strong { (name) } " · " (person.member.role) }
            h2 { (page.t(text::HELD_NOW)) }
            @if person.gpus.is_empty() { p.say { (page.t(text::HOLDS_NOTHING)) } } @else {
                ul { @for row in &person.gpus {
                    li {
                        a href=(page.path(&format!("/hosts/{}", encode(row.host.as_str())))) { (sanitize(&row.host_name)) }
                        " · " (row.gpu.index)
                        " · " (sanitize(row.gpu.name.as_deref().unwrap_or_default()))
                    }
                } }
            }
        }
        section {
            h2 { (page.t(text::USER_NAMES)) }
            p.say { (page.t(text::USER_NAMES_LEAD)) }
            (names(&page, person, &own))
            @if is_own {
                form method="post" action=(page.path("/me/code")) { button type="submit" { (page.t(text::CREATE_CODE)) } }
            }
            @if caller.role >= Role::Admin {
                @for name in &person.suggestions {
                    (form(&format!("{own}/names"), &page.with(text::CONFIRM_NAME, &[&sanitize(name)]), &html! {
                        input type="hidden" name="name" value=(name);
                    }))
                }
                (form(&format!("{own}/names"), page.t(text::LINK_NAME), &html! {
                    label { (page.t(text::USER_NAME)) input name="name" maxlength="100" required; }
                }))
            }
        }
        @if is_own && matches!(caller.account.via, Via::Session(_)) {
            section {
                h2 { (page.t(text::CHANGE_PASSWORD)) }
                (form("/password", page.t(text::CHANGE_PASSWORD), &html! {
                    label { (page.t(text::PRESENT_PASSWORD)) input name="current" type="password" autocomplete="current-password" required; }
                    label { (page.t(text::NEW_PASSWORD)) input name="password" type="password" autocomplete="new-password" minlength="10" required; }
                }))
            }
        }
    }))
}

fn names(page: &Page<'_>, person: &Person, own: &str) -> Markup {
    let host = |one: &UserName| match &one.user.host {
        None => page.t(text::ALL_HOSTS).to_owned(),
        Some(host) => sanitize(person.hosts.get(host).map_or(host.as_str(), String::as_str)),
    };
    html! {
        @if person.names.is_empty() { p.say { (page.t(text::NO_USER_NAMES)) } } @else {
            (page.table(None, &[text::USER_NAME, text::HOST, text::CREATED, text::MANAGE], &[], &html! { @for one in &person.names { tr {
                @let name = sanitize(&one.user.name);
                th scope="row" { (name) }
                td { (host(one)) }
                td { (utc(one.since)) }
                td { @if page.caller.role >= Role::Admin {
                    form method="post" action=(format!("{own}/names/remove")) {
                        input type="hidden" name="name" value=(one.user.name);
                        @if let Some(host) = &one.user.host { input type="hidden" name="host" value=(host); }
                        button.danger type="submit" aria-label=(format!("{} {name}", page.t(text::REMOVE))) { (page.t(text::REMOVE)) }
                    }
                } }
            } } }))
        }
    }
}
