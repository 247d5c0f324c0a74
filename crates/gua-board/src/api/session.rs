//! Log-in, log-out and joining by link.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gua_board_store::password::PasswordHash;
use gua_board_store::registry::{Account, Action, Actor, Event, Membership, NewSession, Settings};
use gua_board_store::{Kind, Secret, SecretHash};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Input, LONGEST_NAME, checked_account_name};
use crate::access::{AccountCaller, COOKIE, Via, session_cookie};
use crate::app::App;
use crate::error::Problem;
use crate::request::ClientAddress;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Credentials {
    name: String,
    password: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Join {
    link: String,
    name: String,
    password: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reset {
    link: String,
    password: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPassword {
    current: String,
    password: String,
}

/// The account that calls, and what it may do.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Me {
    pub(crate) name: String,
    pub(crate) memberships: Vec<Membership>,
}

pub(crate) async fn log_in(
    State(app): State<Arc<App>>,
    Extension(address): Extension<ClientAddress>,
    Input(credentials): Input<Credentials>,
) -> Result<Response, Problem> {
    let wait = Problem::TooManyRequests { retry_after: 10 };
    let key = credentials.name.trim().to_lowercase();
    if app.address_log_ins.take(address.0).is_err() || app.account_log_ins.take(key).is_err() {
        return Err(wait);
    }
    let name = credentials.name.trim().to_owned();
    let account = app.store(move |app| app.registry.account(&name)).await?;
    let hash = account
        .as_ref()
        .and_then(|account| account.password.clone());
    let is_right = verify(&app, hash, credentials.password).await?;
    match account.filter(|_| is_right) {
        Some(account) => start_session(&app, address.0, account, StatusCode::OK).await,
        None => {
            // The name is not authenticated, so it must not appear as the author.
            let change = app.change(Actor::unknown(), address.0);
            let typed = credentials.name.trim().chars();
            let typed: String = typed.take(LONGEST_NAME).collect();
            let failed = move |app: &App| {
                let event = Event {
                    workspace: None,
                    action: Action::LogInFailed,
                    object: &typed,
                };
                app.registry.log(&change, &event)
            };
            app.store(failed).await?;
            Err(Problem::Unauthenticated(
                "the name or the password is wrong",
            ))
        }
    }
}

/// Verifies a password, in about the same time whether the account exists or not.
async fn verify(
    app: &Arc<App>,
    hash: Option<PasswordHash>,
    password: String,
) -> Result<bool, Problem> {
    let _permit = app.hashes.acquire().await.map_err(|_| Problem::Stopping)?;
    let verify = move || match hash {
        Some(hash) => hash.matches(&password),
        None => {
            let _ = PasswordHash::of(&format!("{password:.<10}"));
            false
        }
    };
    let result = tokio::task::spawn_blocking(verify).await;
    result.map_err(|_| Problem::Stopping)
}

/// Uses a set-up or invitation link.
pub(crate) async fn join(
    State(app): State<Arc<App>>,
    Extension(address): Extension<ClientAddress>,
    Input(join): Input<Join>,
) -> Result<Response, Problem> {
    if app.address_log_ins.take(address.0).is_err() {
        return Err(Problem::TooManyRequests { retry_after: 10 });
    }
    let hash = checked_link(&app, &join.link).await?;
    let name = checked_account_name(&join.name)?;
    let password = hashed(&app, join.password).await?;
    let by = app.change(Actor::account(&name), address.0);
    let account = app
        .store(move |app| app.registry.accept_link(&by, &hash, &name, &password))
        .await?;
    start_session(&app, address.0, account, StatusCode::CREATED).await
}

/// Returns the hash of a link that exists. Checked first, so that nobody without a link makes the board hash passwords.
async fn checked_link(app: &Arc<App>, link: &str) -> Result<SecretHash, Problem> {
    let hash = link_hash(link);
    let now = app.now();
    let found = app.store(move |app| app.registry.link(&hash, now)).await?;
    found.map(|_| hash).ok_or(Problem::NotFound("link"))
}

/// Returns the hash of a link's secret. The whole link is accepted, too: a person without JavaScript pastes it.
pub(crate) fn link_hash(link: &str) -> SecretHash {
    let secret = link.rsplit('#').next().unwrap_or_default();
    SecretHash::of(secret.trim())
}

async fn hashed(app: &Arc<App>, password: String) -> Result<PasswordHash, Problem> {
    let _permit = app.hashes.acquire().await.map_err(|_| Problem::Stopping)?;
    let hashed = tokio::task::spawn_blocking(move || PasswordHash::of(&password)).await;
    Ok(hashed.map_err(|_| Problem::Stopping)??)
}

/// Redeems a password reset link. All sessions of the account end.
pub(crate) async fn reset(
    State(app): State<Arc<App>>,
    Extension(address): Extension<ClientAddress>,
    Input(reset): Input<Reset>,
) -> Result<Response, Problem> {
    if app.address_log_ins.take(address.0).is_err() {
        return Err(Problem::TooManyRequests { retry_after: 10 });
    }
    let hash = checked_link(&app, &reset.link).await?;
    let password = hashed(&app, reset.password).await?;
    let by = app.change(Actor::reset_link(), address.0);
    let account = app
        .store(move |app| app.registry.reset_password(&by, &hash, &password))
        .await?;
    start_session(&app, address.0, account, StatusCode::OK).await
}

/// Changes the password of the caller, who must know the present one. Other sessions of the account end.
pub(crate) async fn change_password(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<AccountCaller>,
    Extension(address): Extension<ClientAddress>,
    Input(wanted): Input<NewPassword>,
) -> Result<Response, Problem> {
    let Via::Session(_) = caller.via else {
        return Err(Problem::Forbidden("log in to change the password"));
    };
    if app
        .account_log_ins
        .take(caller.name.to_lowercase())
        .is_err()
    {
        return Err(Problem::TooManyRequests { retry_after: 10 });
    }
    let name = caller.name.clone();
    let account = app.store(move |app| app.registry.account(&name)).await?;
    let account = account.ok_or(Problem::NotFound("account"))?;
    let present = account.password.clone();
    if present.is_none() || !verify(&app, present, wanted.current).await? {
        return Err(Problem::Forbidden("the present password is wrong"));
    }
    let password = hashed(&app, wanted.password).await?;
    let by = app.change(Actor::account(&caller.name), address.0);
    let id = account.id.clone();
    app.store(move |app| app.registry.set_password(&by, &id, &password))
        .await?;
    start_session(&app, address.0, account, StatusCode::OK).await
}

/// Starts a new session. Its id is new, whatever cookie the browser sent: a session cannot be fixed in advance.
pub(crate) async fn start_session(
    app: &Arc<App>,
    address: Option<IpAddr>,
    account: Account,
    status: StatusCode,
) -> Result<Response, Problem> {
    let secret = Secret::generate(Kind::Session);
    let (hash, id) = (secret.hash(), account.id.clone());
    let by = app.change(Actor::account(&account.name), address);
    let (memberships, lifetime) = app
        .store(move |app| {
            let memberships = app.registry.memberships(&id)?;
            let lifetime = lifetime(&memberships);
            let session = NewSession {
                hash,
                account: id,
                expires: by.at.saturating_add(lifetime).unwrap_or(by.at),
            };
            app.registry.add_session(&by, &session)?;
            Ok((memberships, lifetime))
        })
        .await?;
    let me = Me {
        name: account.name,
        memberships,
    };
    let cookie = secret_cookie(app, (COOKIE, "/"), secret.reveal(), lifetime.as_secs());
    Ok((status, [(header::SET_COOKIE, cookie)], Json(me)).into_response())
}

/// Lifetime of a session: the shortest of the account's workspaces.
fn lifetime(memberships: &[Membership]) -> SignedDuration {
    let days = memberships.iter().map(|one| &one.workspace.settings);
    let days = days.map(|settings| settings.session_days).min();
    let days = days.unwrap_or(Settings::default().session_days);
    SignedDuration::from_hours(24 * i64::from(days))
}

/// Header that sets a cookie with a secret, for the pages below a path. 0 seconds remove it.
pub(crate) fn secret_cookie(
    app: &App,
    (name, path): (&str, &str),
    value: &str,
    seconds: i64,
) -> HeaderValue {
    // Browsers drop a Secure cookie that arrives over plain HTTP, which is only served on loopback.
    let secure = match app.public_url.starts_with("https:") {
        true => "; Secure",
        false => "",
    };
    let text =
        format!("{name}={value}; HttpOnly; SameSite=Lax; Path={path}; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).expect("a secret has only URL-safe characters")
}

pub(crate) async fn log_out(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if let Some(session) = session_cookie(&headers) {
        let hash = SecretHash::of(session);
        app.store(move |app| app.registry.end_session(&hash))
            .await?;
    }
    let cookie = secret_cookie(&app, (COOKIE, "/"), "", 0);
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

pub(crate) async fn me(
    State(app): State<Arc<App>>,
    Extension(account): Extension<AccountCaller>,
) -> Result<Json<Me>, Problem> {
    let id = account.id.clone();
    let mut memberships = app.store(move |app| app.registry.memberships(&id)).await?;
    if let Via::ApiToken { workspace, .. } = &account.via {
        memberships.retain(|membership| membership.workspace.id == *workspace);
    }
    Ok(Json(Me {
        name: account.name,
        memberships,
    }))
}
