//! The page of a member: user names on hosts, GPUs held now, and the password form of the member's own page.

use axum::extract::{Extension, Path};
use axum::response::IntoResponse as _;
use gua_board_store::AccountId;
use gua_board_store::registry::{HostUser, Role, UserName};
use gua_model::text::sanitize;
use maud::{Markup, html};

use super::admin::{Answer, Board, Caller, Page, once};
use super::layout::{Tab, View, encode, see_other, utc, workspace_path};
use super::text;
use crate::access::{AccountCaller, Via};
use crate::api::{self, Input, NewPassword, Person};
use crate::request::ClientAddress;

fn path_of(caller: &Caller, account: &AccountId) -> String {
    format!(
        "{}/members/{}",
        workspace_path(caller),
        encode(account.as_str())
    )
}

/// Redirects to the page of the caller.
pub(crate) async fn me(caller: Caller) -> Answer {
    let path = path_of(&caller, &caller.account.id);
    Ok(see_other(&path, ().into_response()))
}

pub(crate) async fn member(
    view: View,
    app: Board,
    caller: Caller,
    path: Path<(String, AccountId)>,
) -> Answer {
    let person = api::person(app, caller.clone(), path).await?.0;
    Ok(person_page(&view, &caller, &person, None))
}

/// Shows the page again, with the line to run on a host.
pub(crate) async fn add_name_code(view: View, app: Board, caller: Caller) -> Answer {
    let code = api::add_name_code(app.clone(), caller.clone()).await?.1.0;
    let own = (caller.workspace.name.clone(), caller.account.id.clone());
    let person = api::person(app, caller.clone(), Path(own)).await?.0;
    let line = format!("gua board link {}", code.code);
    Ok(person_page(&view, &caller, &person, Some(&line)))
}

fn person_page(
    view: &View,
    caller: &Caller,
    person: &Person,
    line: Option<&str>,
) -> axum::response::Response {
    let is_own = person.member.account == caller.account.id;
    let page = Page {
        view,
        caller: &caller.0,
        tab: if is_own { Tab::Me } else { Tab::Members },
        name: text::ME,
    };
    let own = path_of(caller, &person.member.account);
    let name = sanitize(&person.member.name);
    let title = if is_own { view.t(text::ME) } else { &name };
    page.show_as(title, &html! {
        (once(view, text::CODE_READY, line))
        section {
            p.say { strong { (name) } " · " (person.member.role) }
            h2 { (view.t(text::HELD_NOW)) }
            @if person.gpus.is_empty() { p.say { (view.t(text::HOLDS_NOTHING)) } } @else {
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
            h2 { (view.t(text::USER_NAMES)) }
            p.say { (view.t(text::USER_NAMES_LEAD)) }
            (names(&page, person, &own))
            @if is_own {
                form method="post" action=(page.path("/me/code")) { button type="submit" { (view.t(text::CREATE_CODE)) } }
            }
            @if caller.role >= Role::Admin {
                @for name in &person.suggestions {
                    form.row method="post" action=(format!("{own}/names")) {
                        input type="hidden" name="name" value=(name);
                        button type="submit" { (view.with(text::CONFIRM_NAME, &[&sanitize(name)])) }
                    }
                }
                form.row method="post" action=(format!("{own}/names")) {
                    label { (view.t(text::USER_NAME)) input name="name" maxlength="100" required; }
                    button type="submit" { (view.t(text::LINK_NAME)) }
                }
            }
        }
        @if is_own && matches!(caller.account.via, Via::Session(_)) {
            section {
                h2 { (view.t(text::CHANGE_PASSWORD)) }
                form.row method="post" action="/password" {
                    label { (view.t(text::PRESENT_PASSWORD)) input name="current" type="password" autocomplete="current-password" required; }
                    label { (view.t(text::NEW_PASSWORD)) input name="password" type="password" autocomplete="new-password" minlength="10" required; }
                    button type="submit" { (view.t(text::CHANGE_PASSWORD)) }
                }
            }
        }
    })
}

fn names(page: &Page<'_>, person: &Person, own: &str) -> Markup {
    let view = page.view;
    let host = |one: &UserName| match &one.user.host {
        None => view.t(text::ALL_HOSTS).to_owned(),
        Some(host) => sanitize(person.hosts.get(host).map_or(host.as_str(), String::as_str)),
    };
    html! {
        @if person.names.is_empty() { p.say { (view.t(text::NO_USER_NAMES)) } } @else {
            div.scroll tabindex="0" { table {
                thead { tr {
                    th scope="col" { (view.t(text::USER_NAME)) }
                    th scope="col" { (view.t(text::HOST)) }
                    th scope="col" { (view.t(text::CREATED)) }
                    th scope="col" { (view.t(text::MANAGE)) }
                } }
                tbody { @for one in &person.names { tr {
                    @let name = sanitize(&one.user.name);
                    th scope="row" { (name) }
                    td { (host(one)) }
                    td { (utc(one.since)) }
                    td { @if page.caller.role >= Role::Admin {
                        form method="post" action=(format!("{own}/names/remove")) {
                            input type="hidden" name="name" value=(one.user.name);
                            @if let Some(host) = &one.user.host { input type="hidden" name="host" value=(host); }
                            button.danger type="submit" aria-label=(format!("{} {name}", view.t(text::REMOVE))) { (view.t(text::REMOVE)) }
                        }
                    } }
                } } }
            } }
        }
    }
}

pub(crate) async fn link_name(
    app: Board,
    caller: Caller,
    path: Path<(String, AccountId)>,
    input: Input<HostUser>,
) -> Answer {
    let page = path_of(&caller, &path.1);
    let linked = api::link_name(app, caller, path, input).await?;
    Ok(see_other(&page, linked))
}

pub(crate) async fn unlink_name(
    app: Board,
    caller: Caller,
    path: Path<(String, AccountId)>,
    input: Input<HostUser>,
) -> Answer {
    let page = path_of(&caller, &path.1);
    let unlinked = api::unlink_name(app, caller, path, input).await?;
    Ok(see_other(&page, unlinked))
}

pub(crate) async fn change_password(
    app: Board,
    account: Extension<AccountCaller>,
    address: Extension<ClientAddress>,
    input: Input<NewPassword>,
) -> Answer {
    let answer = api::change_password(app, account, address, input).await?;
    Ok(see_other("/", answer))
}
