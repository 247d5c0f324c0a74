//! Log-in, log-out, joining by link, and the way to the first workspace.

use axum::http::StatusCode;
use axum::response::Response;
use gua_board_store::SecretHash;
use gua_model::text::sanitize;
use maud::html;

use super::layout::{Next, View, encode, see_other};
use super::text;
use crate::api;
use crate::call::{Answer, Call};
use crate::error::Problem;

/// Redirects to the workspace of the account, or lists its workspaces.
pub(crate) fn home(call: &Call) -> Answer {
    let view = call.view();
    let me = api::session::me(call)?;
    if let [only] = me.memberships.as_slice() {
        let path = format!("/w/{}", encode(&only.workspace.name));
        return Ok(see_other(&path, ()));
    }
    let title = view.t(text::WORKSPACES);
    let inside = html! {
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
    };
    Ok(view.narrow_page(title, &inside))
}

pub(crate) fn log_in_form(call: &Call) -> Answer {
    Ok(log_in_page(&call.view(), None))
}

pub(super) fn log_in_page(view: &View, message: Option<&str>) -> Response {
    let title = view.t(text::LOG_IN);
    // A failed log-in is posted to a URL that names the page to return to already.
    let here = view.here();
    let action = match here.starts_with("/login") {
        true => here,
        false => format!("/login?next={}", encode(&here)),
    };
    let inside = html! {
        @if let Some(message) = message { p.note role="status" { (message) } }
        form.stack method="post" action=(action) {
            label { (view.t(text::NAME)) input name="name" autocomplete="username" required autofocus; }
            label { (view.t(text::PASSWORD)) input name="password" type="password" autocomplete="current-password" required; }
            button type="submit" { (title) }
        }
        @if view.has_provider { p { a.button href=(action.replacen("/login", "/oidc/login", 1)) { (view.t(text::SIGN_ON)) } } }
    };
    view.narrow_page(title, &inside)
}

pub(crate) fn log_in(call: &Call) -> Answer {
    let next: Next = call.query()?;
    let answer = api::session::log_in(call)?;
    Ok(see_other(next.path(), answer))
}

/// Enters a demonstration with the link that its command printed.
pub(crate) fn enter_demo(call: &Call) -> Answer {
    let guest = call.app.take_guest(&SecretHash::of(call.path("link")));
    let account = guest.ok_or(Problem::DemoLinkUsed)?;
    let answer = api::session::start_session(call, account, StatusCode::OK)?;
    Ok(see_other("/", answer))
}

pub(crate) fn join_form(call: &Call) -> Answer {
    let view = call.view();
    let title = view.t(text::JOIN);
    let inside = html! {
        p.say { (view.t(text::JOIN_LEAD)) }
        form.stack method="post" action="/join" {
            label { (view.t(text::LINK)) input name="link" autocomplete="off" required aria-describedby="link-rule"; }
            small id="link-rule" { (view.t(text::LINK_RULE)) }
            label { (view.t(text::NAME)) input name="name" autocomplete="username" maxlength="100" required; }
            label { (view.t(text::PASSWORD)) input name="password" type="password" autocomplete="new-password" minlength="10" required aria-describedby="password-rule"; }
            small id="password-rule" { (view.t(text::PASSWORD_RULE)) }
            button type="submit" { (view.t(text::CREATE)) }
        }
        @if view.has_provider {
            form.stack method="post" action="/oidc/join" {
                label { (view.t(text::LINK)) input name="link" autocomplete="off" required; }
                button type="submit" { (view.t(text::SIGN_ON)) }
            }
        }
    };
    Ok(view.narrow_page(title, &inside))
}

pub(crate) fn reset_form(call: &Call) -> Answer {
    let view = call.view();
    let title = view.t(text::RESET_PASSWORD);
    let inside = html! {
        form.stack method="post" action="/reset" {
            label { (view.t(text::LINK)) input name="link" autocomplete="off" required aria-describedby="link-rule"; }
            small id="link-rule" { (view.t(text::LINK_RULE)) }
            label { (view.t(text::NEW_PASSWORD)) input name="password" type="password" autocomplete="new-password" minlength="10" required aria-describedby="password-rule"; }
            small id="password-rule" { (view.t(text::PASSWORD_RULE)) }
            button type="submit" { (title) }
        }
    };
    Ok(view.narrow_page(title, &inside))
}
