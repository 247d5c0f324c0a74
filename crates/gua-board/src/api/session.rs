//! Log-in, log-out and joining by link.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse as _;
use gua_board_store::password::PasswordHash;
use gua_board_store::registry::{Account, Action, Actor, Membership, NewSession, Settings};
use gua_board_store::{Kind, Secret, SecretHash};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MAX_NAME_LENGTH, checked_account_name};
use crate::access::{AccountCaller, COOKIE, Via, session_cookie};
use crate::app::App;
use crate::call::{Answer, Call};
use crate::error::Problem;

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

/// Refuses a caller whose address has tried too often to log in.
pub(crate) fn limit_log_ins(call: &Call) -> Result<(), Problem> {
    let taken = call.app.address_log_ins.take(call.address());
    taken.map_err(|_| Problem::TooManyRequests { retry_after: 10 })
}

/// Refuses a log-in to an account that has had too many attempts.
fn limit_attempts(app: &App, name: &str) -> Result<(), Problem> {
    let taken = app.account_log_ins.take(name.to_lowercase());
    taken.map_err(|_| Problem::TooManyRequests { retry_after: 10 })
}

pub(crate) fn log_in(call: &Call) -> Answer {
    let Credentials { name, password } = call.input()?;
    let name = name.trim();
    limit_attempts(&call.app, name)?;
    let registry = &call.app.registry;
    let account = registry.account(name)?;
    let is_right = verify(account.as_ref(), &password);
    if let Some(account) = account.filter(|_| is_right) {
        return start_session(call, account, StatusCode::OK);
    }
    // The name is not authenticated, so it must not appear as the author.
    let by = call.change_by(Actor::Unknown);
    let typed: String = name.chars().take(MAX_NAME_LENGTH).collect();
    registry.log(&by, None, Action::LogInFailed, &typed)?;
    Err(Problem::Unauthenticated(
        "the name or the password is wrong",
    ))
}

/// Verifies a password, in about the same time whether the account exists or not.
fn verify(account: Option<&Account>, password: &str) -> bool {
    let Some(hash) = account.and_then(|account| account.password.as_ref()) else {
        let _ = PasswordHash::of(&format!("{password:.<10}"));
        return false;
    };
    hash.matches(password)
}

/// Uses a set-up or invitation link.
pub(crate) fn join(call: &Call) -> Answer {
    let join: Join = call.input()?;
    let hash = checked_link(&call.app, &join.link)?;
    let name = checked_account_name(&join.name)?;
    let password = PasswordHash::of(&join.password)?;
    let by = call.change_by(Actor::Account(name.clone()));
    let registry = &call.app.registry;
    let account = registry.accept_link(&by, &hash, &name, &password)?;
    start_session(call, account, StatusCode::CREATED)
}

/// Returns the hash of a link that exists. Checked first, so that nobody without a link makes the board hash passwords.
fn checked_link(app: &App, link: &str) -> Result<SecretHash, Problem> {
    let hash = link_hash(link);
    let found = app.registry.link(&hash, app.now())?;
    found.map(|_| hash).ok_or(Problem::NotFound("link"))
}

/// Returns the hash of a link's secret. The whole link is accepted, too: a person without JavaScript pastes it.
pub(crate) fn link_hash(link: &str) -> SecretHash {
    let secret = link.rsplit('#').next().unwrap_or_default();
    SecretHash::of(secret.trim())
}

/// Redeems a password reset link. All sessions of the account end.
pub(crate) fn reset(call: &Call) -> Answer {
    let reset: Reset = call.input()?;
    let hash = checked_link(&call.app, &reset.link)?;
    let password = PasswordHash::of(&reset.password)?;
    let by = call.change_by(Actor::ResetLink);
    let account = call.app.registry.reset_password(&by, &hash, &password)?;
    start_session(call, account, StatusCode::OK)
}

/// Changes the password of the caller, who must know the present one. Other sessions of the account end.
pub(crate) fn change_password(call: &Call) -> Answer {
    let wanted: NewPassword = call.input()?;
    let caller = call.extension::<AccountCaller>();
    let Via::Session(_) = caller.via else {
        return Err(Problem::Forbidden("log in to change the password"));
    };
    limit_attempts(&call.app, &caller.name)?;
    let registry = &call.app.registry;
    let account = registry.account(&caller.name)?;
    let account = account.ok_or(Problem::NotFound("account"))?;
    if account.password.is_none() || !verify(Some(&account), &wanted.current) {
        return Err(Problem::Forbidden("the current password is wrong"));
    }
    let password = PasswordHash::of(&wanted.password)?;
    let by = call.change_by(Actor::Account(account.name.clone()));
    registry.set_password(&by, &account.id, &password)?;
    start_session(call, account, StatusCode::OK)
}

/// Starts a new session. Its id is new, whatever cookie the browser sent: a session cannot be fixed in advance. Blocks.
pub(crate) fn start_session(call: &Call, account: Account, status: StatusCode) -> Answer {
    let app = &call.app;
    let secret = Secret::generate(Kind::Session);
    let by = call.change_by(Actor::Account(account.name.clone()));
    let memberships = app.registry.memberships(&account.id)?;
    let lifetime = lifetime(&memberships);
    let session = NewSession {
        hash: secret.hash(),
        account: account.id,
        expires: by.at.saturating_add(lifetime).unwrap_or(by.at),
    };
    app.registry.add_session(&by, &session)?;
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
    let secure = match app.options.public_url.starts_with("https:") {
        true => "; Secure",
        false => "",
    };
    let text =
        format!("{name}={value}; HttpOnly; SameSite=Lax; Path={path}; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).expect("a secret has only URL-safe characters")
}

pub(crate) fn log_out(call: &Call) -> Answer {
    if let Some(session) = session_cookie(call.headers()) {
        call.app.registry.end_session(&SecretHash::of(session))?;
    }
    let cookie = secret_cookie(&call.app, (COOKIE, "/"), "", 0);
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

pub(crate) fn me(call: &Call) -> Result<Me, Problem> {
    let account = call.extension::<AccountCaller>();
    let mut memberships = call.app.registry.memberships(&account.id)?;
    memberships.retain(|one| account.via.reaches(&one.workspace.id));
    Ok(Me {
        name: account.name.clone(),
        memberships,
    })
}
