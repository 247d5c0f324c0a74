//! Log-in at an OpenID Connect provider: the redirect to the provider, and the callback.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use gua_board_store::registry::{Actor, Membership};
use gua_board_store::{AccountId, Secret, SecretHash};
use maud::html;
use schemars::JsonSchema;
use serde::Deserialize;

use super::layout::{Next, View, see_other};
use super::session::outside;
use super::text;
use crate::access::{admit_person, cookie};
use crate::api::{self, Input, link_hash, secret_cookie};
use crate::app::App;
use crate::error::Problem;
use crate::oidc::{LOG_IN_TIME, Oidc, Wanted};
use crate::request::ClientAddress;

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

fn oidc(app: &App) -> Result<Arc<Oidc>, Problem> {
    app.oidc.clone().ok_or(Problem::NotFound("path"))
}

/// Begins a log-in; returns the state and the URL of the provider.
async fn begin(
    app: &Arc<App>,
    address: ClientAddress,
    wanted: Wanted,
) -> Result<(Secret, String), Problem> {
    let oidc = oidc(app)?;
    if app.address_log_ins.take(address.0).is_err() {
        return Err(Problem::TooManyRequests { retry_after: 10 });
    }
    let now = app.now();
    let begun = tokio::task::spawn_blocking(move || oidc.begin(wanted, now)).await;
    let begun = begun.map_err(|_| Problem::Stopping)?;
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
pub(crate) async fn begin_sign_on(
    State(app): State<Arc<App>>,
    Extension(address): Extension<ClientAddress>,
    next: Result<Query<Next>, QueryRejection>,
) -> Result<Response, Problem> {
    let wanted = Wanted {
        next: api::query(next)?.path().to_owned(),
        link: None,
    };
    let (state, url) = begin(&app, address, wanted).await?;
    let mut response = see_other(&url, ().into_response());
    set_state(&app, &mut response, Some(&state));
    Ok(response)
}

/// Begins a log-in of an invited person. The answer is a page with a link to the provider, because the policy for forms
/// permits no redirect to another site.
pub(crate) async fn join_by_sign_on(
    view: View,
    State(app): State<Arc<App>>,
    Extension(address): Extension<ClientAddress>,
    Input(invited): Input<Invited>,
) -> Result<Response, Problem> {
    let wanted = Wanted {
        next: "/".to_owned(),
        link: Some(link_hash(&invited.link)),
    };
    let (state, url) = begin(&app, address, wanted).await?;
    let title = view.t(text::JOIN);
    let main = html! {
        section.narrow {
            h1 { (title) }
            p { a.button href=(url) { (view.t(text::CONTINUE_SIGN_ON)) } }
        }
    };
    let mut response = view.page(outside(title), &main);
    set_state(&app, &mut response, Some(&state));
    Ok(response)
}

/// Finishes a log-in and returns to the page where it began.
pub(crate) async fn finish_sign_on(
    State(app): State<Arc<App>>,
    Extension(address): Extension<ClientAddress>,
    headers: HeaderMap,
    query: Result<Query<CameBack>, QueryRejection>,
) -> Result<Response, Problem> {
    let oidc = oidc(&app)?;
    let CameBack { code, state } = api::query(query)?;
    let state = state.unwrap_or_default();
    if state.is_empty() || cookie(&headers, STATE_COOKIE) != Some(state.as_str()) {
        return Err(Problem::Forbidden(
            "this browser did not begin the log-in; start again",
        ));
    }
    let code = code.ok_or(Problem::Forbidden("the provider refused the log-in"))?;
    let now = app.now();
    let hash = SecretHash::of(&state);
    let person = tokio::task::spawn_blocking(move || oidc.finish(&hash, &code, now)).await;
    let person = person
        .map_err(|_| Problem::Stopping)?
        .map_err(Problem::SignOn)?;
    let person = person.ok_or(Problem::Forbidden(
        "the log-in took too long or was finished already; start again",
    ))?;
    let link = person.wanted.link;
    let account = admit_person(&app, address.0, person.identity, person.name, link).await?;
    if let Some(names) = person.groups {
        let groups = api::provided_groups(&names);
        set_groups(&app, address, account.id.clone(), groups).await?;
    }
    let answer = api::start_session(&app, address.0, account, StatusCode::OK).await?;
    let mut response = see_other(&person.wanted.next, answer);
    set_state(&app, &mut response, None);
    Ok(response)
}

/// Replaces the groups of a member in each workspace where they differ.
async fn set_groups(
    app: &Arc<App>,
    address: ClientAddress,
    account: AccountId,
    groups: Vec<String>,
) -> Result<(), Problem> {
    let by = app.change(Actor::provider(), address.0);
    app.store(move |app| {
        let memberships = app.registry.memberships(&account)?.into_iter();
        for Membership { workspace, .. } in memberships.filter(|one| one.groups != groups) {
            let registry = &app.registry;
            registry.set_member_groups(&by, &workspace.id, &account, &groups)?;
        }
        Ok(())
    })
    .await
}
