//! API tokens. A member manages its own tokens; admins see and revoke those of all members.

use gua_board_store::registry::{ApiToken, NewApiToken, Role, Scope};
use gua_board_store::{ApiTokenId, Secret};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Done, Paged, Search, WithSecret, check_range, whole};
use crate::access::Via;
use crate::call::Call;
use crate::error::Problem;

const MAX_DAYS: u32 = 366 * 10;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddToken {
    scope: Scope,
    /// Never by default.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = MAX_DAYS))]
    expires_in_days: Option<u32>,
}

pub(crate) fn api_tokens(call: &Call) -> Result<Paged<ApiToken>, Problem> {
    page_of_tokens(call, &call.query()?)
}

/// Returns one page of the tokens that the caller sees.
pub(crate) fn page_of_tokens(call: &Call, search: &Search) -> Result<Paged<ApiToken>, Problem> {
    let all = visible_tokens(call)?;
    Ok(Paged::of(all, search, |token| &token.account_name))
}

fn visible_tokens(call: &Call) -> Result<Vec<ApiToken>, Problem> {
    let caller = call.caller();
    let mut tokens = call.app.registry.api_tokens(call.workspace())?;
    tokens.retain(|token| caller.role >= Role::Admin || token.account == caller.account.id);
    Ok(tokens)
}

pub(crate) fn add_api_token(call: &Call) -> Result<WithSecret<ApiToken>, Problem> {
    let wanted: AddToken = call.input()?;
    let caller = call.caller();
    // A leaked token must not make tokens that outlive its revocation.
    if let Via::ApiToken { .. } = caller.account.via {
        return Err(Problem::Forbidden("log in to add an API token"));
    }
    let days = wanted.expires_in_days;
    check_range("expiresInDays", days, 1..=MAX_DAYS)?;
    if wanted.scope == Scope::Screen && days.is_none() {
        let message = "a token with the scope screen must expire: set expiresInDays";
        return Err(Problem::Invalid(message.to_owned()));
    }
    let by = call.change();
    let secret = Secret::generate(wanted.scope.kind());
    let lifetime = days.map(|days| SignedDuration::from_hours(24 * i64::from(days)));
    let token = NewApiToken {
        hash: secret.hash(),
        prefix: secret.prefix(),
        workspace: call.workspace().clone(),
        account: caller.account.id.clone(),
        scope: wanted.scope,
        expires: lifetime.and_then(|lifetime| by.at.checked_add(lifetime).ok()),
    };
    let object = call.app.registry.add_api_token(&by, &token)?;
    Ok(WithSecret::new(object, &secret))
}

pub(crate) fn revoke_api_token(call: &Call) -> Done {
    let token = ApiTokenId(call.path("token").to_owned());
    if !visible_tokens(call)?.iter().any(|known| known.id == token) {
        return Err(Problem::NotFound("API token"));
    }
    call.store(|registry, by, workspace| registry.revoke_api_token(by, workspace, &token))
}
