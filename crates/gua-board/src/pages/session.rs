//! Log-in, log-out, joining by link, and the way to the first workspace.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use gua_board_store::SecretHash;
use gua_model::text::sanitize;
use maud::html;

use super::layout::{Frame, Next, View, encode, see_other};
use super::text;
use crate::access::AccountCaller;
use crate::api::{self, Credentials, Input, Join, Reset};
use crate::app::App;
use crate::error::Problem;
use crate::request::ClientAddress;

/// Redirects to the workspace of the account, or lists its workspaces.
pub(crate) async fn home(
    view: View,
    state: State<Arc<App>>,
    account: Extension<AccountCaller>,
) -> Result<Response, Problem> {
    let me = api::me(state, account).await?.0;
    if let [only] = me.memberships.as_slice() {
        let path = format!("/w/{}", encode(&only.workspace.name));
        return Ok(see_other(&path, ().into_response()));
    }
    let title = view.t(text::WORKSPACES);
    let main = html! {
        section.narrow {
            h1 { (title) }
            @if me.memberships.is_empty() { p.say { (view.t(text::NO_WORKSPACE)) } }
            ul {
                @for one in &me.memberships {
                    @let name = one.workspace.settings.title.as_ref().unwrap_or(&one.workspace.name);
                    li { a href=(format!("/w/{}", encode(&one.workspace.name))) { (sanitize(name)) } }
                }
            }
            form method="post" action="/logout" {
                button type="submit" { (view.t(text::LOG_OUT)) }
            }
        }
    };
    Ok(view.page(outside(title), &main))
}

/// Frame of a page before the log-in.
pub(super) fn outside(title: &str) -> Frame<'_> {
    Frame {
        title,
        caller: None,
        tab: None,
        is_live: false,
    }
}

pub(crate) async fn log_in_form(view: View) -> Response {
    log_in_page(&view, None)
}

pub(super) fn log_in_page(view: &View, message: Option<&str>) -> Response {
    let title = view.t(text::LOG_IN);
    // A failed log-in is posted to a URL that names the page to return to already.
    let here = view.here();
    let action = match here.starts_with("/login") {
        true => here,
        false => format!("/login?next={}", encode(&here)),
    };
    let main = html! {
        section.narrow {
            h1 { (title) }
            @if let Some(message) = message { p.note role="status" { (message) } }
            form.stack method="post" action=(action) {
                label { (view.t(text::NAME)) input name="name" autocomplete="username" required autofocus; }
                label { (view.t(text::PASSWORD)) input name="password" type="password" autocomplete="current-password" required; }
                button type="submit" { (title) }
            }
            @if view.sign_on.is_some() { p { a.button href=(action.replacen("/login", "/oidc/login", 1)) { (view.t(text::SIGN_ON)) } } }
        }
    };
    view.page(outside(title), &main)
}

pub(crate) async fn log_in(
    state: State<Arc<App>>,
    address: Extension<ClientAddress>,
    next: Result<Query<Next>, QueryRejection>,
    input: Input<Credentials>,
) -> Result<Response, Problem> {
    let next = api::query(next)?;
    let answer = api::log_in(state, address, input).await?;
    Ok(see_other(next.path(), answer))
}

pub(crate) async fn log_out(
    state: State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let answer = api::log_out(state, headers).await?;
    Ok(see_other("/login", answer))
}

/// Enters a demonstration with the link that its command printed.
pub(crate) async fn enter_demo(
    State(app): State<Arc<App>>,
    address: Extension<ClientAddress>,
    Path(link): Path<String>,
) -> Result<Response, Problem> {
    let guest = app.take_guest(&SecretHash::of(&link));
    let account = guest.ok_or(Problem::DemoLinkUsed)?;
    let answer = api::start_session(&app, address.0.0, account, StatusCode::OK).await?;
    Ok(see_other("/", answer))
}

pub(crate) async fn join_form(view: View) -> Response {
    let title = view.t(text::JOIN);
    let main = html! {
        section.narrow {
            h1 { (title) }
            p.say { (view.t(text::JOIN_LEAD)) }
            form.stack method="post" action="/join" {
                label { (view.t(text::LINK)) input name="link" autocomplete="off" required aria-describedby="link-rule"; }
                small id="link-rule" { (view.t(text::LINK_RULE)) }
                label { (view.t(text::NAME)) input name="name" autocomplete="username" maxlength="100" required; }
                label { (view.t(text::PASSWORD)) input name="password" type="password" autocomplete="new-password" minlength="10" required aria-describedby="password-rule"; }
                small id="password-rule" { (view.t(text::PASSWORD_RULE)) }
                button type="submit" { (view.t(text::CREATE)) }
            }
            @if view.sign_on.is_some() {
                form.stack method="post" action="/oidc/join" {
                    label { (view.t(text::LINK)) input name="link" autocomplete="off" required; }
                    button type="submit" { (view.t(text::SIGN_ON)) }
                }
            }
        }
    };
    view.page(outside(title), &main)
}

pub(crate) async fn reset_form(view: View) -> Response {
    let title = view.t(text::RESET_PASSWORD);
    let main = html! {
        section.narrow {
            h1 { (title) }
            form.stack method="post" action="/reset" {
                label { (view.t(text::LINK)) input name="link" autocomplete="off" required aria-describedby="link-rule"; }
                small id="link-rule" { (view.t(text::LINK_RULE)) }
                label { (view.t(text::NEW_PASSWORD)) input name="password" type="password" autocomplete="new-password" minlength="10" required aria-describedby="password-rule"; }
                small id="password-rule" { (view.t(text::PASSWORD_RULE)) }
                button type="submit" { (title) }
            }
        }
    };
    view.page(outside(title), &main)
}

pub(crate) async fn reset(
    state: State<Arc<App>>,
    address: Extension<ClientAddress>,
    input: Input<Reset>,
) -> Result<Response, Problem> {
    let answer = api::reset(state, address, input).await?;
    Ok(see_other("/", answer))
}

pub(crate) async fn join(
    state: State<Arc<App>>,
    address: Extension<ClientAddress>,
    input: Input<Join>,
) -> Result<Response, Problem> {
    let answer = api::join(state, address, input).await?;
    Ok(see_other("/", answer))
}
