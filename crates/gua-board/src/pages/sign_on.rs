//! Log-in at an OpenID Connect provider: the redirect to the provider, and the callback.

use axum::http::{StatusCode, header};
use axum::response::Response;
use gua_board_store::registry::{Actor, Membership};
use gua_board_store::{AccountId, Secret, SecretHash};
use maud::html;
use schemars::JsonSchema;
use serde::Deserialize;

use super::layout::{Next, see_other};
use super::text;
use crate::access::{admit_person, cookie};
use crate::api;
use crate::api::session::{link_hash, secret_cookie};
use crate::app::App;
use crate::call::{Answer, Call};
use crate::error::Problem;
use crate::oidc::{LOG_IN_TIME, Oidc, Wanted};

/// Cookie with the state of a log-in, so that only the browser that began it can complete it.
const STATE_COOKIE: &str = "gua_sign_on";

/// Query with which the provider sends the browser back.
#[derive(Debug, Deserialize)]
pub(crate) struct CameBack {
    code: Option<String>,
    state: Option<String>,
}

/// Form of a person who uses an invitation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Invited {
    link: String,
}

fn oidc(app: &App) -> Result<&Oidc, Problem> {
    app.oidc.as_ref().ok_or(Problem::NotFound("path"))
}

/// Begins a log-in; returns the state and the URL of the provider.
fn begin(call: &Call, wanted: Wanted) -> Result<(Secret, String), Problem> {
    let oidc = oidc(&call.app)?;
    api::session::limit_log_ins(call)?;
    let begun = oidc.begin(wanted, call.app.now());
    begun.map_err(Problem::SignOn)?.ok_or(Problem::Overloaded)
}

/// Sets or removes the cookie with the state.
fn set_state(app: &App, response: &mut Response, state: Option<&Secret>) {
    let value = state.map_or("", Secret::reveal);
    let seconds = state.map_or(0, |_| LOG_IN_TIME.as_secs());
    let cookie = secret_cookie(app, (STATE_COOKIE, "/oidc"), value, seconds);
    response.headers_mut().append(header::SET_COOKIE, cookie);
}

/// Redirects to the provider.
pub(crate) fn begin_sign_on(call: &Call) -> Answer {
    let wanted = Wanted {
        next: call.query::<Next>()?.path().to_owned(),
        link: None,
    };
    let (state, url) = begin(call, wanted)?;
    let mut response = see_other(&url, ());
    set_state(&call.app, &mut response, Some(&state));
    Ok(response)
}

/// Begins a log-in of an invited person. The answer is a page with a link to the provider, because the policy for forms
/// permits no redirect to another site.
pub(crate) fn join_by_sign_on(call: &Call) -> Answer {
    let Invited { link } = call.input()?;
    let wanted = Wanted {
        next: "/".to_owned(),
        link: Some(link_hash(&link)),
    };
    let (state, url) = begin(call, wanted)?;
    let view = call.view();
    let title = view.t(text::JOIN);
    let inside = html! {
        p { a.button href=(url) { (view.t(text::CONTINUE_SIGN_ON)) } }
    };
    let mut response = view.narrow_page(title, &inside);
    set_state(&call.app, &mut response, Some(&state));
    Ok(response)
}

/// Finishes a log-in and returns to the page where it began.
pub(crate) fn finish_sign_on(call: &Call) -> Answer {
    let app = &call.app;
    let oidc = oidc(app)?;
    let CameBack { code, state } = call.query()?;
    let state = state.unwrap_or_default();
    if state.is_empty() || cookie(call.headers(), STATE_COOKIE) != Some(state.as_str()) {
        return Err(Problem::Forbidden(
            "this browser did not begin the log-in; start again",
        ));
    }
    let code = code.ok_or(Problem::Forbidden("the provider refused the log-in"))?;
    let person = oidc.finish(&SecretHash::of(&state), &code, app.now());
    let person = person.map_err(Problem::SignOn)?.ok_or(Problem::Forbidden(
        "the log-in took too long or was finished already; start again",
    ))?;
    let (address, link) = (call.address(), person.wanted.link);
    let account = admit_person(app, address, &person.identity, &person.name, link)?;
    if let Some(names) = person.groups {
        set_groups(call, &account.id, &api::provided_groups(&names))?;
    }
    let answer = api::session::start_session(call, account, StatusCode::OK)?;
    let mut response = see_other(&person.wanted.next, answer);
    set_state(app, &mut response, None);
    Ok(response)
}

/// Replaces the groups of a member in each workspace where they differ.
fn set_groups(call: &Call, account: &AccountId, groups: &[String]) -> Result<(), Problem> {
    let by = call.change_by(Actor::Provider);
    let registry = &call.app.registry;
    let memberships = registry.memberships(account)?.into_iter();
    for Membership { workspace, .. } in memberships.filter(|one| one.groups != groups) {
        registry.set_member_groups(&by, &workspace.id, account, groups)?;
    }
    Ok(())
}
