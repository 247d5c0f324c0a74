//! API tokens in SQLite.

use jiff::Timestamp;
use rusqlite::{Row, Transaction, params};

use super::{accounts, audit, bump_revision, deleted, optional_time, time, word};
use crate::error::StoreError;
use crate::id::{AccountId, ApiTokenId, WorkspaceId};
use crate::registry::{Action, ApiToken, Change, NewApiToken};

/// Columns that [`token`] reads.
const TOKEN: &str = "api_token.id, api_token.workspace, api_token.account, account.name, api_token.scope, \
                         api_token.prefix, api_token.created, api_token.expires";

pub(super) fn token(row: &Row<'_>) -> Result<ApiToken, StoreError> {
    Ok(ApiToken {
        id: ApiTokenId(row.get(0)?),
        workspace: WorkspaceId(row.get(1)?),
        account: AccountId(row.get(2)?),
        account_name: row.get(3)?,
        scope: word(row, 4, "scope")?,
        prefix: row.get(5)?,
        created: time(row.get(6)?)?,
        expires: optional_time(row.get(7)?)?,
    })
}

/// Query of a token that has not expired, for [`token`], followed by the role of its account.
pub(super) fn by_hash() -> String {
    format!(
        "SELECT {TOKEN}, member.role FROM api_token JOIN account ON account.id = api_token.account
         JOIN member ON member.account = api_token.account AND member.workspace = api_token.workspace
         WHERE api_token.hash = ?1 AND coalesce(api_token.expires > ?2, TRUE)"
    )
}

/// Query of all tokens of a workspace, for [`token`].
pub(super) fn of_workspace() -> String {
    format!(
        "SELECT {TOKEN} FROM api_token JOIN account ON account.id = api_token.account
         WHERE api_token.workspace = ?1 ORDER BY api_token.created, api_token.id"
    )
}

pub(super) fn add(
    transaction: &Transaction<'_>,
    by: &Change,
    token: &NewApiToken,
) -> Result<ApiToken, StoreError> {
    let id = ApiTokenId::random();
    transaction.execute(
        "INSERT INTO api_token (id, hash, prefix, workspace, account, scope, created, expires)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            id.as_str(),
            token.hash.0,
            token.prefix,
            token.workspace.as_str(),
            token.account.as_str(),
            token.scope.as_str(),
            by.at.as_microsecond(),
            token.expires.map(Timestamp::as_microsecond),
        ],
    )?;
    let workspace = Some(&token.workspace);
    audit::add(
        transaction,
        by,
        workspace,
        Action::ApiTokenAdded,
        &token.prefix,
    )?;
    Ok(ApiToken {
        id,
        workspace: token.workspace.clone(),
        account: token.account.clone(),
        account_name: accounts::name_of(transaction, &token.account)?,
        scope: token.scope,
        prefix: token.prefix.clone(),
        created: by.at,
        expires: token.expires,
    })
}

pub(super) fn revoke(
    transaction: &Transaction<'_>,
    by: &Change,
    workspace: &WorkspaceId,
    token: &ApiTokenId,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM api_token WHERE workspace = ?1 AND id = ?2 RETURNING prefix";
    let prefix = deleted(transaction, sql, [workspace.as_str(), token.as_str()])?;
    let prefix = prefix.ok_or(StoreError::NotFound("API token"))?;
    bump_revision(transaction)?;
    audit::add(
        transaction,
        by,
        Some(workspace),
        Action::ApiTokenRevoked,
        &prefix,
    )
}
