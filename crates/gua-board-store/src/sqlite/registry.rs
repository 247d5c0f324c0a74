//! The registry in SQLite. This module implements the trait; its submodules contain the statements, by subject.

mod accounts;
mod audit;
mod hosts;
mod links;
mod people;
mod tokens;
mod workspaces;

use jiff::Timestamp;
use rusqlite::types::ToSql;
use rusqlite::{OptionalExtension as _, Params, Row, Transaction, params};

use super::SqliteStore;
use crate::error::StoreError;
use crate::id::{AccountId, ApiTokenId, EnrolmentKeyId, HostId, WorkspaceId};
use crate::password::PasswordHash;
use crate::registry::{
    Account, Action, ApiToken, AuditEntry, AuditView, Change, EnrolmentKey, Event, Host, HostClaim,
    HostUser, Identity, Join, LinkPurpose, Maintenance, Member, Membership, NewAccount,
    NewApiToken, NewEnrolmentKey, NewLink, NewSession, Refusal, Registry, Role, Settings, UserName,
    Workspace,
};
use crate::secret::SecretHash;

pub(super) use workspaces::add_first as add_first_workspace;

impl Registry for SqliteStore {
    fn revision(&self) -> Result<u64, StoreError> {
        let found = self.one("SELECT value FROM meta WHERE key = 'revision'", [], |row| {
            Ok(row.get::<_, i64>(0)?)
        })?;
        let number = found.and_then(|number| u64::try_from(number).ok());
        number.ok_or(StoreError::Invalid("revision"))
    }

    fn workspaces(&self) -> Result<Vec<Workspace>, StoreError> {
        self.many(&workspaces::all(), [], |row| workspaces::workspace(row, 0))
    }

    fn add_workspace(&self, by: &Change, name: &str) -> Result<Workspace, StoreError> {
        self.write(|transaction| workspaces::add(transaction, by, name))
    }

    fn set_settings(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        settings: &Settings,
    ) -> Result<(), StoreError> {
        self.write(|transaction| workspaces::set_settings(transaction, by, workspace, settings))
    }

    fn add_account(&self, by: &Change, account: &NewAccount) -> Result<Account, StoreError> {
        self.write(|transaction| accounts::add(transaction, by, account))
    }

    fn account(&self, name: &str) -> Result<Option<Account>, StoreError> {
        let sql = "SELECT id, name, password FROM account WHERE name = ?1";
        self.one(sql, [name], accounts::account)
    }

    fn set_password(
        &self,
        by: &Change,
        account: &AccountId,
        password: &PasswordHash,
    ) -> Result<(), StoreError> {
        self.write(|transaction| people::set_password(transaction, by, account, password))
    }

    fn set_role(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        account: &AccountId,
        role: Option<Role>,
    ) -> Result<(), StoreError> {
        self.write(|transaction| accounts::set_role(transaction, by, (workspace, account), role))
    }

    fn set_member_groups(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        account: &AccountId,
        groups: &[String],
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            accounts::set_groups(transaction, by, (workspace, account), groups)
        })
    }

    fn members(&self, workspace: &WorkspaceId) -> Result<Vec<Member>, StoreError> {
        self.many(accounts::MEMBERS, [workspace.as_str()], accounts::member)
    }

    fn memberships(&self, account: &AccountId) -> Result<Vec<Membership>, StoreError> {
        self.many(&workspaces::of_account(), [account.as_str()], |row| {
            Ok(Membership {
                role: word(row, 0, "role")?,
                groups: lines(row, 1)?,
                workspace: workspaces::workspace(row, 2)?,
            })
        })
    }

    fn add_session(&self, by: &Change, session: &NewSession) -> Result<(), StoreError> {
        self.write(|transaction| accounts::add_session(transaction, by, session))
    }

    fn session(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<Account>, StoreError> {
        let sql = "SELECT account.id, account.name, account.password FROM session
                   JOIN account ON account.id = session.account WHERE session.hash = ?1 AND session.expires > ?2";
        self.one(
            sql,
            params![hash.0, now.as_microsecond()],
            accounts::account,
        )
    }

    fn end_session(&self, hash: &SecretHash) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction.execute("DELETE FROM session WHERE hash = ?1", params![hash.0])?;
            Ok(())
        })
    }

    fn add_api_token(&self, by: &Change, token: &NewApiToken) -> Result<ApiToken, StoreError> {
        self.write(|transaction| tokens::add(transaction, by, token))
    }

    fn api_token(
        &self,
        hash: &SecretHash,
        now: Timestamp,
    ) -> Result<Option<(ApiToken, Role)>, StoreError> {
        let range = params![hash.0, now.as_microsecond()];
        self.one(&tokens::by_hash(), range, |row| {
            Ok((tokens::token(row)?, word(row, 8, "role")?))
        })
    }

    fn api_tokens(&self, workspace: &WorkspaceId) -> Result<Vec<ApiToken>, StoreError> {
        self.many(&tokens::of_workspace(), [workspace.as_str()], tokens::token)
    }

    fn revoke_api_token(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        token: &ApiTokenId,
    ) -> Result<(), StoreError> {
        self.write(|transaction| tokens::revoke(transaction, by, workspace, token))
    }

    fn add_link(&self, by: &Change, link: &NewLink) -> Result<(), StoreError> {
        self.write(|transaction| links::add(transaction, by, link))
    }

    fn link(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<LinkPurpose>, StoreError> {
        self.read(|connection| links::find(connection, hash, now))
    }

    fn accept_link(
        &self,
        by: &Change,
        hash: &SecretHash,
        name: &str,
        password: &PasswordHash,
    ) -> Result<Account, StoreError> {
        self.write(|transaction| links::accept(transaction, by, hash, (name, password)))
    }

    fn reset_password(
        &self,
        by: &Change,
        hash: &SecretHash,
        password: &PasswordHash,
    ) -> Result<Account, StoreError> {
        self.write(|transaction| links::reset_password(transaction, by, hash, password))
    }

    fn account_by_identity(&self, identity: &Identity) -> Result<Option<Account>, StoreError> {
        self.read(|connection| people::by_identity(connection, identity))
    }

    fn join(
        &self,
        by: &Change,
        identity: &Identity,
        name: &str,
        join: &Join,
    ) -> Result<Account, StoreError> {
        self.write(|transaction| people::join(transaction, by, (identity, name), join))
    }

    fn add_name_code(
        &self,
        code: &SecretHash,
        workspace: &WorkspaceId,
        account: &AccountId,
        expires: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(|transaction| people::add_code(transaction, code, (workspace, account), expires))
    }

    fn prove_name(
        &self,
        by: &Change,
        code: &SecretHash,
        host: &Host,
        name: &str,
    ) -> Result<Account, StoreError> {
        self.write(|transaction| people::prove(transaction, by, code, (host, name)))
    }

    fn set_user_name(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        name: &HostUser,
        account: Option<&AccountId>,
    ) -> Result<(), StoreError> {
        self.write(|transaction| match account {
            Some(account) => people::link(transaction, by, workspace, (name, account)),
            None => people::unlink(transaction, by, workspace, name),
        })
    }

    fn user_names(&self, workspace: &WorkspaceId) -> Result<Vec<UserName>, StoreError> {
        self.many(people::USER_NAMES, [workspace.as_str()], people::user_name)
    }

    fn has_accounts(&self) -> Result<bool, StoreError> {
        let found = self.one("SELECT 1 FROM account LIMIT 1", [], |_| Ok(()))?;
        Ok(found.is_some())
    }

    fn add_enrolment_key(
        &self,
        by: &Change,
        key: &NewEnrolmentKey,
    ) -> Result<EnrolmentKey, StoreError> {
        self.write(|transaction| hosts::add_key(transaction, by, key))
    }

    fn enrolment_keys(&self, workspace: &WorkspaceId) -> Result<Vec<EnrolmentKey>, StoreError> {
        self.many(hosts::KEYS, [workspace.as_str()], hosts::key)
    }

    fn revoke_enrolment_key(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        key: &EnrolmentKeyId,
    ) -> Result<(), StoreError> {
        self.write(|transaction| hosts::revoke_key(transaction, by, workspace, key))
    }

    fn claim(&self, claim: &HostClaim) -> Result<Host, StoreError> {
        self.write(|transaction| hosts::claim(transaction, claim))
    }

    fn refusal(&self, claim: &HostClaim) -> Result<Option<(WorkspaceId, Refusal)>, StoreError> {
        let found = self.one(hosts::KEY_BY_HASH, params![claim.key.0], hosts::key)?;
        Ok(found.and_then(|key| {
            let refusal = hosts::refusal(&key, claim)?;
            Some((key.workspace, refusal))
        }))
    }

    fn hosts(&self, workspace: Option<&WorkspaceId>) -> Result<Vec<Host>, StoreError> {
        let workspace = workspace.map(WorkspaceId::as_str);
        self.many(&hosts::of_workspace(), [workspace], hosts::host)
    }

    fn host_by_token(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<Host>, StoreError> {
        let find = || self.one(&hosts::by_token(), params![hash.0], hosts::host);
        if let Some(host) = find()? {
            return Ok(Some(host));
        }
        // Unknown tokens must not cost a write transaction: anyone can send them.
        if self
            .one(hosts::IS_NEXT_TOKEN, params![hash.0], |_| Ok(()))?
            .is_none()
        {
            return Ok(None);
        }
        self.write(|transaction| hosts::begin_token(transaction, hash, now))?;
        find()
    }

    fn rotate_token(
        &self,
        host: &HostId,
        next: &SecretHash,
        prefix: &str,
    ) -> Result<(), StoreError> {
        self.write(|transaction| hosts::rotate(transaction, host, next, prefix))
    }

    fn approve_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
    ) -> Result<(), StoreError> {
        self.write(|transaction| hosts::approve(transaction, by, workspace, host))
    }

    fn replace_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        old: &HostId,
        new: &HostId,
    ) -> Result<(), StoreError> {
        self.write(|transaction| hosts::replace(transaction, by, workspace, (old, new)))
    }

    fn rename_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
        name: &str,
    ) -> Result<(), StoreError> {
        self.write(|transaction| hosts::rename(transaction, by, workspace, host, name))
    }

    fn set_host_groups(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
        groups: &[String],
    ) -> Result<(), StoreError> {
        self.write(|transaction| hosts::set_groups(transaction, by, (workspace, host), groups))
    }

    fn set_maintenance(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
        maintenance: Option<&Maintenance>,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            hosts::set_maintenance(transaction, by, workspace, host, maintenance)
        })
    }

    fn revoke_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
    ) -> Result<(), StoreError> {
        self.write(|transaction| hosts::revoke(transaction, by, workspace, host))
    }

    fn log(&self, by: &Change, event: &Event<'_>) -> Result<(), StoreError> {
        self.write(|transaction| {
            audit::add(transaction, by, event.workspace, event.action, event.object)
        })
    }

    fn audit_log(
        &self,
        view: AuditView<'_>,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let (workspace, is_whole) = match view {
            AuditView::Workspace(workspace) => (workspace, false),
            AuditView::Board(workspace) => (workspace, true),
        };
        let before = before.unwrap_or(i64::MAX);
        let range = params![workspace.as_str(), before, most, is_whole];
        self.many(audit::LOG, range, audit::entry)
    }

    fn events(
        &self,
        workspace: &WorkspaceId,
        action: Action,
        since: Timestamp,
        most: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let since = since.as_microsecond();
        let range = params![workspace.as_str(), action.as_str(), since, most];
        self.many(audit::EVENTS, range, audit::entry)
    }
}

impl SqliteStore {
    /// Returns the first row of a query.
    fn one<T>(
        &self,
        sql: &str,
        values: impl Params,
        convert: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(values)?;
            rows.next()?.map(convert).transpose()
        })
    }

    /// Returns all rows of a query.
    fn many<T>(
        &self,
        sql: &str,
        values: impl Params,
        convert: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(values)?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                all.push(convert(row)?);
            }
            Ok(all)
        })
    }
}

/// Converts a stored time.
pub(super) fn time(micros: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_microsecond(micros).map_err(|_| StoreError::Invalid("time"))
}

fn optional_time(micros: Option<i64>) -> Result<Option<Timestamp>, StoreError> {
    micros.map(time).transpose()
}

fn word<T: std::str::FromStr>(
    row: &Row<'_>,
    column: usize,
    what: &'static str,
) -> Result<T, StoreError> {
    let text: String = row.get(column)?;
    text.parse().map_err(|_| StoreError::Invalid(what))
}

/// Reads texts that are stored one on each line.
fn lines(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<String>> {
    let text: String = row.get(column)?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Invalidates what caches know about credentials.
fn bump_revision(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute(
        "UPDATE meta SET value = value + 1 WHERE key = 'revision'",
        [],
    )?;
    Ok(())
}

/// Runs a `DELETE ... RETURNING` with one text column.
fn deleted<const N: usize>(
    transaction: &Transaction<'_>,
    sql: &str,
    values: [impl ToSql; N],
) -> rusqlite::Result<Option<String>> {
    transaction
        .query_row(sql, rusqlite::params_from_iter(values), |row| row.get(0))
        .optional()
}

fn conflict_unless(holds: bool, message: &'static str) -> Result<(), StoreError> {
    holds.then_some(()).ok_or(StoreError::Conflict(message))
}

fn found(changed: usize, what: &'static str) -> Result<(), StoreError> {
    (changed > 0)
        .then_some(())
        .ok_or(StoreError::NotFound(what))
}
