//! Identities at providers, and user names on hosts, in SQLite.

use jiff::Timestamp;
use rusqlite::params;

use super::{Work, accounts, bump_revision, conflict_unless, exists, found, links, text};
use crate::error::{Result, StoreError};
use crate::id::{AccountId, HostId, WorkspaceId};
use crate::registry::{
    Account, Action, Actor, Change, Host, HostUser, Identity, Join, NewAccount, People, UserName,
};
use crate::secret::SecretHash;
use crate::sqlite::{SqliteStore, first_row, time};

/// Maximum number of accounts with the same suggested name.
const MAX_NAMESAKES: u32 = 1000;

/// Query for the account of an identity.
const BY_IDENTITY: &str = "SELECT account.id, account.name, account.password FROM identity
     JOIN account ON account.id = identity.account WHERE issuer = ?1 AND subject = ?2";

impl People for SqliteStore {
    fn account_by_identity(&self, identity: &Identity) -> Result<Option<Account>> {
        let key = [&identity.issuer, &identity.subject];
        self.one(BY_IDENTITY, key, accounts::account)
    }

    fn join(&self, by: &Change, identity: &Identity, name: &str, join: &Join) -> Result<Account> {
        let key = [&identity.issuer, &identity.subject];
        self.change(by, |work| {
            let (workspace, role) = match join {
                Join::Role { workspace, role } => (workspace.clone(), *role),
                Join::Link(hash) => links::take_invitation(work, hash)?,
            };
            let known = first_row(work, BY_IDENTITY, key, accounts::account)?;
            let name = match &known {
                Some(known) => known.name.clone(),
                None => free_name(work, name)?,
            };
            // The name that a provider or proxy sends is not unique.
            let by = &Change {
                actor: Actor::Account(name.clone()),
                ..by.clone()
            };
            let work = &Work { by, ..*work };
            if let Some(known) = known {
                if !accounts::is_member(work, &workspace, &known.id)? {
                    accounts::put_member(work, &workspace, &known.id, role)?;
                    bump_revision(work)?;
                    let object = format!("{name}: {role}");
                    work.log(Some(&workspace), Action::RoleSet, &object)?;
                }
                return Ok(known);
            }
            let new = NewAccount {
                name,
                password: None,
                workspace,
                role,
            };
            let added = accounts::add(work, &new)?;
            work.execute(
                "INSERT INTO identity (issuer, subject, account) VALUES (?1, ?2, ?3)",
                params![identity.issuer, identity.subject, added.id],
            )?;
            Ok(added)
        })
    }

    fn add_name_code(
        &self,
        code: &SecretHash,
        workspace: &WorkspaceId,
        account: &AccountId,
        expires: Timestamp,
    ) -> Result<()> {
        self.write(|transaction| {
            transaction.execute("DELETE FROM name_code WHERE account = ?1", [account])?;
            transaction.execute(
                "INSERT INTO name_code (hash, workspace, account, expires) VALUES (?1, ?2, ?3, ?4)",
                params![code, workspace, account, expires.as_microsecond()],
            )?;
            Ok(())
        })
    }

    fn prove_name(
        &self,
        by: &Change,
        code: &SecretHash,
        host: &Host,
        name: &str,
    ) -> Result<String> {
        self.change(by, |work| {
            let sql = "DELETE FROM name_code WHERE hash = ?1 AND workspace = ?2 AND expires > ?3 RETURNING account";
            let key = params![code, host.workspace, by.at.as_microsecond()];
            let id = AccountId(text(work, "code", sql, key)?);
            let user = HostUser {
                host: Some(host.id.clone()),
                name: name.to_owned(),
            };
            link(work, &host.workspace, &user, &id)
        })
    }

    fn set_user_name(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        user: &HostUser,
        account: Option<&AccountId>,
    ) -> Result<()> {
        self.change(by, |work| {
            if let Some(account) = account {
                return link(work, workspace, user, account).map(drop);
            }
            let sql = "DELETE FROM user_name WHERE workspace = ?1 AND host = ?2 AND name = ?3 RETURNING name";
            let key = params![workspace, stored_host(user), user.name];
            let name = text(work, "user name", sql, key)?;
            work.log(Some(workspace), Action::UserNameUnlinked, &name)
        })
    }

    fn user_names(&self, workspace: &WorkspaceId) -> Result<Vec<UserName>> {
        let sql = "SELECT host, name, account, since FROM user_name WHERE workspace = ?1 ORDER BY account, name, host";
        self.many(sql, [workspace], |row| {
            let host: HostId = row.get(0)?;
            Ok(UserName {
                user: HostUser {
                    host: Some(host).filter(|host| !host.0.is_empty()),
                    name: row.get(1)?,
                },
                account: row.get(2)?,
                since: time(row, 3)?,
            })
        })
    }
}

/// Returns a name that no account has.
fn free_name(work: &Work<'_>, wanted: &str) -> Result<String> {
    let others = (2..MAX_NAMESAKES).map(|number| format!("{wanted} ({number})"));
    for name in std::iter::once(wanted.to_owned()).chain(others) {
        if !exists(work, "SELECT 1 FROM account WHERE name = ?1", [&name])? {
            return Ok(name);
        }
    }
    Err(StoreError::Conflict("too many accounts have this name"))
}

/// Returns the host of a user name in its stored form. An empty string means all hosts.
fn stored_host(user: &HostUser) -> &str {
    user.host.as_ref().map_or("", HostId::as_str)
}

/// Links a user name to a member, and returns the name of the member's account.
fn link(
    work: &Work<'_>,
    workspace: &WorkspaceId,
    user: &HostUser,
    account: &AccountId,
) -> Result<String> {
    let is_member = accounts::is_member(work, workspace, account)?;
    found(is_member, "member")?;
    if let Some(host) = user.host.as_ref().filter(|host| !host.0.is_empty()) {
        let sql = "SELECT 1 FROM host WHERE workspace = ?1 AND id = ?2";
        found(exists(work, sql, params![workspace, host])?, "host")?;
    }
    let (host, since) = (stored_host(user), work.by.at.as_microsecond());
    work.execute(
        "INSERT INTO user_name (workspace, host, name, account, since) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (workspace, host, name) DO NOTHING",
        params![workspace, host, user.name, account, since],
    )?;
    let sql = "SELECT account FROM user_name WHERE workspace = ?1 AND host = ?2 AND name = ?3";
    let owner = text(work, "user name", sql, params![workspace, host, user.name])?;
    let message = "this user name is linked to another member";
    conflict_unless(owner == account.as_str(), message)?;
    let member = accounts::name_of(work, account)?;
    let object = format!("{member}: {}", user.name);
    work.log(Some(workspace), Action::UserNameLinked, &object)?;
    Ok(member)
}
