//! Passwords, identities at providers, and user names on hosts, in SQLite.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::{accounts, audit, bump_revision, conflict_unless, deleted, found, links, time};
use crate::error::StoreError;
use crate::id::{AccountId, HostId, WorkspaceId};
use crate::password::PasswordHash;
use crate::registry::{
    Account, Action, Actor, Change, Host, HostUser, Identity, Join, NewAccount, UserName,
};
use crate::secret::SecretHash;

/// Maximum number of accounts with the same suggested name.
const MOST_NAMESAKES: u32 = 1000;

pub(super) fn set_password(
    transaction: &Transaction<'_>,
    by: &Change,
    account: &AccountId,
    password: &PasswordHash,
) -> Result<(), StoreError> {
    let changed = transaction.execute(
        "UPDATE account SET password = ?2 WHERE id = ?1",
        [account.as_str(), password.as_str()],
    )?;
    found(changed, "account")?;
    transaction.execute("DELETE FROM session WHERE account = ?1", [account.as_str()])?;
    // Another reset link would undo this.
    delete_links(transaction, account)?;
    bump_revision(transaction)?;
    let name = accounts::name_of(transaction, account)?;
    audit::add(transaction, by, None, Action::PasswordSet, &name)
}

/// Deletes the reset links of an account.
pub(super) fn delete_links(
    transaction: &Transaction<'_>,
    account: &AccountId,
) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM link WHERE account = ?1", [account.as_str()])?;
    Ok(())
}

pub(super) fn by_identity(
    connection: &Connection,
    identity: &Identity,
) -> Result<Option<Account>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT account.id, account.name, account.password FROM identity
         JOIN account ON account.id = identity.account WHERE issuer = ?1 AND subject = ?2",
    )?;
    let mut rows = statement.query([&identity.issuer, &identity.subject])?;
    rows.next()?.map(accounts::account).transpose()
}

pub(super) fn join(
    transaction: &Transaction<'_>,
    by: &Change,
    (identity, name): (&Identity, &str),
    join: &Join,
) -> Result<Account, StoreError> {
    let (workspace, role) = match join {
        Join::Role { workspace, role } => (workspace.clone(), *role),
        Join::Link(hash) => links::take_invitation(transaction, by, hash)?,
    };
    if let Some(known) = by_identity(transaction, identity)? {
        let sql = "SELECT 1 FROM member WHERE workspace = ?1 AND account = ?2";
        let key = [workspace.as_str(), known.id.as_str()];
        let is_member = transaction.query_row(sql, key, |_| Ok(())).optional()?;
        if is_member.is_none() {
            let by = &by_account(by, &known.name);
            accounts::put_member(transaction, &workspace, &known.id, role)?;
            bump_revision(transaction)?;
            let object = format!("{}: {role}", known.name);
            audit::add(transaction, by, Some(&workspace), Action::RoleSet, &object)?;
        }
        return Ok(known);
    }
    let new = NewAccount {
        name: free_name(transaction, name)?,
        password: None,
        workspace,
        role,
    };
    let added = accounts::add(transaction, &by_account(by, &new.name), &new)?;
    transaction.execute(
        "INSERT INTO identity (issuer, subject, account) VALUES (?1, ?2, ?3)",
        [&identity.issuer, &identity.subject, &added.id.0],
    )?;
    Ok(added)
}

/// Returns the change with the joining account as its author. The name that a provider or proxy sends is not unique.
fn by_account(by: &Change, name: &str) -> Change {
    Change {
        actor: Actor::account(name),
        ..by.clone()
    }
}

/// Returns a name that no account has.
fn free_name(transaction: &Transaction<'_>, wanted: &str) -> Result<String, StoreError> {
    let mut names = std::iter::once(wanted.to_owned())
        .chain((2..MOST_NAMESAKES).map(|number| format!("{wanted} ({number})")));
    let sql = "SELECT 1 FROM account WHERE name = ?1";
    let free = names.find_map(|name| {
        let taken = transaction.query_row(sql, [&name], |_| Ok(())).optional();
        match taken {
            Ok(Some(())) => None,
            Ok(None) => Some(Ok(name)),
            Err(error) => Some(Err(error)),
        }
    });
    match free {
        Some(name) => Ok(name?),
        None => Err(StoreError::Conflict("too many accounts have this name")),
    }
}

/// User names of a workspace, for [`user_name`].
pub(super) const USER_NAMES: &str = "SELECT host, name, account, since FROM user_name WHERE workspace = ?1 ORDER BY account, name, host";

pub(super) fn user_name(row: &Row<'_>) -> Result<UserName, StoreError> {
    let host: String = row.get(0)?;
    Ok(UserName {
        user: HostUser {
            host: (!host.is_empty()).then_some(HostId(host)),
            name: row.get(1)?,
        },
        account: AccountId(row.get(2)?),
        since: time(row.get(3)?)?,
    })
}

/// Adds the code of a member. A member has one code at a time.
pub(super) fn add_code(
    transaction: &Transaction<'_>,
    code: &SecretHash,
    (workspace, account): (&WorkspaceId, &AccountId),
    expires: Timestamp,
) -> Result<(), StoreError> {
    transaction.execute(
        "DELETE FROM name_code WHERE account = ?1",
        [account.as_str()],
    )?;
    transaction.execute(
        "INSERT INTO name_code (hash, workspace, account, expires) VALUES (?1, ?2, ?3, ?4)",
        params![
            code.0,
            workspace.as_str(),
            account.as_str(),
            expires.as_microsecond()
        ],
    )?;
    Ok(())
}

pub(super) fn prove(
    transaction: &Transaction<'_>,
    by: &Change,
    code: &SecretHash,
    (host, name): (&Host, &str),
) -> Result<Account, StoreError> {
    let account: Option<String> = transaction
        .query_row(
            "DELETE FROM name_code WHERE hash = ?1 AND workspace = ?2 AND expires > ?3 RETURNING account",
            params![code.0, host.workspace.as_str(), by.at.as_microsecond()],
            |row| row.get(0),
        )
        .optional()?;
    let id = AccountId(account.ok_or(StoreError::NotFound("code"))?);
    let user = HostUser {
        host: Some(host.id.clone()),
        name: name.to_owned(),
    };
    link(transaction, by, &host.workspace, (&user, &id))?;
    Ok(Account {
        name: accounts::name_of(transaction, &id)?,
        id,
        password: None,
    })
}

pub(super) fn link(
    transaction: &Transaction<'_>,
    by: &Change,
    workspace: &WorkspaceId,
    (user, account): (&HostUser, &AccountId),
) -> Result<(), StoreError> {
    let sql = "SELECT 1 FROM member WHERE workspace = ?1 AND account = ?2";
    let key = [workspace.as_str(), account.as_str()];
    let is_member = transaction.query_row(sql, key, |_| Ok(())).optional()?;
    is_member.ok_or(StoreError::NotFound("member"))?;
    let host = user.host.as_ref().map_or("", HostId::as_str);
    if !host.is_empty() {
        let sql = "SELECT 1 FROM host WHERE workspace = ?1 AND id = ?2";
        let key = [workspace.as_str(), host];
        let is_known = transaction.query_row(sql, key, |_| Ok(())).optional()?;
        is_known.ok_or(StoreError::NotFound("host"))?;
    }
    transaction.execute(
        "INSERT INTO user_name (workspace, host, name, account, since) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (workspace, host, name) DO NOTHING",
        params![
            workspace.as_str(),
            host,
            user.name,
            account.as_str(),
            by.at.as_microsecond()
        ],
    )?;
    let sql = "SELECT account FROM user_name WHERE workspace = ?1 AND host = ?2 AND name = ?3";
    let owner: String =
        transaction.query_row(sql, [workspace.as_str(), host, &user.name], |row| {
            row.get(0)
        })?;
    conflict_unless(
        owner == account.as_str(),
        "this user name is linked to another member",
    )?;
    let object = format!(
        "{}: {}",
        accounts::name_of(transaction, account)?,
        user.name
    );
    audit::add(
        transaction,
        by,
        Some(workspace),
        Action::UserNameLinked,
        &object,
    )
}

pub(super) fn unlink(
    transaction: &Transaction<'_>,
    by: &Change,
    workspace: &WorkspaceId,
    user: &HostUser,
) -> Result<(), StoreError> {
    let host = user.host.as_ref().map_or("", HostId::as_str);
    let sql =
        "DELETE FROM user_name WHERE workspace = ?1 AND host = ?2 AND name = ?3 RETURNING name";
    let name = deleted(transaction, sql, [workspace.as_str(), host, &user.name])?;
    let name = name.ok_or(StoreError::NotFound("user name"))?;
    audit::add(
        transaction,
        by,
        Some(workspace),
        Action::UserNameUnlinked,
        &name,
    )
}
