//! API tokens. A member manages its own tokens; admins see and revoke those of all members.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use gua_board_store::registry::{ApiToken, NewApiToken, Role, Scope};
use gua_board_store::{ApiTokenId, Secret, StoreError};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Input, Paged, Search, WithSecret, query as checked_query, whole};
use crate::access::{MemberCaller, Via};
use crate::app::App;
use crate::error::Problem;

const MOST_DAYS: u32 = 366 * 10;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddToken {
    scope: Scope,
    /// Never by default.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = MOST_DAYS))]
    expires_in_days: Option<u32>,
}

pub(crate) async fn api_tokens(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    query: Result<Query<Search>, QueryRejection>,
) -> Result<Json<Paged<ApiToken>>, Problem> {
    let search = checked_query(query)?;
    let all = visible_tokens(&app, &caller).await?;
    Ok(Json(Paged::of(all, &search, |token| &token.account_name)))
}

async fn visible_tokens(app: &Arc<App>, caller: &MemberCaller) -> Result<Vec<ApiToken>, Problem> {
    let workspace = caller.workspace.id.clone();
    let mut tokens = app
        .store(move |app| app.registry.api_tokens(&workspace))
        .await?;
    tokens.retain(|token| caller.role >= Role::Admin || token.account == caller.account.id);
    Ok(tokens)
}

pub(crate) async fn add_api_token(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Input(wanted): Input<AddToken>,
) -> Result<(StatusCode, Json<WithSecret<ApiToken>>), Problem> {
    // A leaked token must not make tokens that outlive its revocation.
    if let Via::ApiToken { .. } = caller.account.via {
        return Err(Problem::Forbidden("log in to add an API token"));
    }
    let days = wanted.expires_in_days;
    if days.is_some_and(|days| !(1..=MOST_DAYS).contains(&days)) {
        return Err(Problem::Invalid(format!(
            "expiresInDays is 1 to {MOST_DAYS}"
        )));
    }
    if wanted.scope == Scope::Screen && days.is_none() {
        let message = "a token with the scope screen must expire: set expiresInDays";
        return Err(Problem::Invalid(message.to_owned()));
    }
    let change = caller.change(&app);
    let secret = Secret::generate(wanted.scope.kind());
    let expires = days.and_then(|days| {
        let time = SignedDuration::from_hours(24 * i64::from(days));
        change.at.checked_add(time).ok()
    });
    let token = NewApiToken {
        hash: secret.hash(),
        prefix: secret.prefix(),
        workspace: caller.workspace.id,
        account: caller.account.id,
        scope: wanted.scope,
        expires,
    };
    let object = app
        .store(move |app| app.registry.add_api_token(&change, &token))
        .await?;
    let secret = secret.reveal().to_owned();
    Ok((StatusCode::CREATED, Json(WithSecret { object, secret })))
}

pub(crate) async fn revoke_api_token(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, token)): Path<(String, ApiTokenId)>,
) -> Result<StatusCode, Problem> {
    let tokens = visible_tokens(&app, &caller).await?;
    if !tokens.iter().any(|known| known.id == token) {
        return Err(StoreError::NotFound("API token").into());
    }
    let change = caller.change(&app);
    let workspace = caller.workspace.id;
    app.store(move |app| app.registry.revoke_api_token(&change, &workspace, &token))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
