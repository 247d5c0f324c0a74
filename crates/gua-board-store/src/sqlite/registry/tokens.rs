//! API tokens in SQLite.

use jiff::Timestamp;
use rusqlite::{Row, params};

use super::{bump_revision, text};
use crate::error::{Result, StoreError};
use crate::id::{ApiTokenId, WorkspaceId};
use crate::registry::{Action, ApiToken, Change, NewApiToken, Tokens};
use crate::secret::SecretHash;
use crate::sqlite::{SqliteStore, first_row, optional_time, time, word};

/// Columns that [`token`] reads.
const TOKEN: &str = "api_token.id, api_token.workspace, api_token.account, \
                     (SELECT name FROM account WHERE account.id = api_token.account), api_token.scope, \
                     api_token.prefix, api_token.created, api_token.expires";

impl Tokens for SqliteStore {
    fn add_api_token(&self, by: &Change, new: &NewApiToken) -> Result<ApiToken> {
        self.change(by, |work| {
            let sql = format!(
                "INSERT INTO api_token (id, hash, prefix, workspace, account, scope, created, expires)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING {TOKEN}"
            );
            let values = params![
                ApiTokenId::random(),
                new.hash,
                new.prefix,
                new.workspace,
                new.account,
                new.scope.as_str(),
                by.at.as_microsecond(),
                new.expires.map(Timestamp::as_microsecond),
            ];
            work.log(Some(&new.workspace), Action::ApiTokenAdded, &new.prefix)?;
            first_row(work, &sql, values, token)?.ok_or(StoreError::NotFound("account"))
        })
    }

    fn api_token(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<ApiToken>> {
        let sql = format!(
            "SELECT {TOKEN} FROM api_token
             JOIN member ON member.account = api_token.account AND member.workspace = api_token.workspace
             WHERE api_token.hash = ?1 AND coalesce(api_token.expires > ?2, TRUE)"
        );
        self.one(&sql, params![hash, now.as_microsecond()], token)
    }

    fn api_tokens(&self, workspace: &WorkspaceId) -> Result<Vec<ApiToken>> {
        let sql =
            format!("SELECT {TOKEN} FROM api_token WHERE workspace = ?1 ORDER BY created, id");
        self.many(&sql, [workspace], token)
    }

    fn revoke_api_token(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        token: &ApiTokenId,
    ) -> Result<()> {
        self.change(by, |work| {
            let sql = "DELETE FROM api_token WHERE workspace = ?1 AND id = ?2 RETURNING prefix";
            let prefix = text(work, "API token", sql, params![workspace, token])?;
            bump_revision(work)?;
            work.log(Some(workspace), Action::ApiTokenRevoked, &prefix)
        })
    }
}

fn token(row: &Row<'_>) -> Result<ApiToken> {
    Ok(ApiToken {
        id: row.get(0)?,
        workspace: row.get(1)?,
        account: row.get(2)?,
        account_name: row.get(3)?,
        scope: word(row, 4, "scope")?,
        prefix: row.get(5)?,
        created: time(row, 6)?,
        expires: optional_time(row, 7)?,
    })
}
