//! API tokens in SQLite.

use jiff::Timestamp;
use rusqlite::{Row, params};

use super::{accounts, bump_revision, text};
use crate::error::Result;
use crate::id::{ApiTokenId, WorkspaceId};
use crate::registry::{Action, ApiToken, Change, NewApiToken, Role, Tokens};
use crate::secret::SecretHash;
use crate::sqlite::{SqliteStore, optional_time, time, word};

/// Columns that [`token`] reads.
const TOKEN: &str = "api_token.id, api_token.workspace, api_token.account, account.name, api_token.scope, \
                         api_token.prefix, api_token.created, api_token.expires";

impl Tokens for SqliteStore {
    fn add_api_token(&self, by: &Change, new: &NewApiToken) -> Result<ApiToken> {
        self.change(by, |work| {
            let token = ApiToken {
                id: ApiTokenId::random(),
                workspace: new.workspace.clone(),
                account: new.account.clone(),
                account_name: accounts::name_of(work, &new.account)?,
                scope: new.scope,
                prefix: new.prefix.clone(),
                created: by.at,
                expires: new.expires,
            };
            work.execute(
                "INSERT INTO api_token (id, hash, prefix, workspace, account, scope, created, expires)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    token.id,
                    new.hash,
                    token.prefix,
                    token.workspace,
                    token.account,
                    token.scope.as_str(),
                    token.created.as_microsecond(),
                    token.expires.map(Timestamp::as_microsecond),
                ],
            )?;
            work.log(Some(&new.workspace), Action::ApiTokenAdded, &new.prefix)?;
            Ok(token)
        })
    }

    fn api_token(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<(ApiToken, Role)>> {
        let sql = format!(
            "SELECT {TOKEN}, member.role FROM api_token JOIN account ON account.id = api_token.account
             JOIN member ON member.account = api_token.account AND member.workspace = api_token.workspace
             WHERE api_token.hash = ?1 AND coalesce(api_token.expires > ?2, TRUE)"
        );
        self.one(&sql, params![hash, now.as_microsecond()], |row| {
            Ok((token(row)?, word(row, 8, "role")?))
        })
    }

    fn api_tokens(&self, workspace: &WorkspaceId) -> Result<Vec<ApiToken>> {
        let sql = format!(
            "SELECT {TOKEN} FROM api_token JOIN account ON account.id = api_token.account
             WHERE api_token.workspace = ?1 ORDER BY api_token.created, api_token.id"
        );
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
