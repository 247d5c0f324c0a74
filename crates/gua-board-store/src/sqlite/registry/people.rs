//! Passwords, identities at providers, and user names on hosts, in SQLite.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::{
    account, account_name, add_account, audit, bump_revision, conflict_unless, deleted, find_link,
    found, put_member,
};
use crate::error::StoreError;
use crate::id::{AccountId, HostId, WorkspaceId};
use crate::password::PasswordHash;
use crate::registry::{
    Account, Action, Change, Host, HostUser, Identity, Join, LinkPurpose, NewAccount,
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
    let name = account_name(transaction, account)?;
    audit(transaction, by, None, Action::PasswordSet, &name)
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
    rows.next()?.map(account).transpose()
}

pub(super) fn join(
    transaction: &Transaction<'_>,
    by: &Change,
    (identity, name): (&Identity, &str),
    join: &Join,
) -> Result<Account, StoreError> {
    let (workspace, role) = match join {
        Join::Role { workspace, role } => (workspace.clone(), *role),
        Join::Link(hash) => {
            let purpose = find_link(transaction, hash, by.at)?;
            let Some(LinkPurpose::Join { workspace, role }) = purpose else {
                return Err(StoreError::NotFound("link"));
            };
            transaction.execute("DELETE FROM link WHERE hash = ?1", params![hash.0])?;
            (workspace, role)
        }
    };
    if let Some(known) = by_identity(transaction, identity)? {
        let sql = "SELECT 1 FROM member WHERE workspace = ?1 AND account = ?2";
        let key = [workspace.as_str(), known.id.as_str()];
        let is_member = transaction.query_row(sql, key, |_| Ok(())).optional()?;
        if is_member.is_none() {
            put_member(transaction, &workspace, &known.id, role)?;
            bump_revision(transaction)?;
            let object = format!("{}: {role}", known.name);
            audit(transaction, by, Some(&workspace), Action::RoleSet, &object)?;
        }
        return Ok(known);
    }
    let new = NewAccount {
        name: free_name(transaction, name)?,
        password: None,
        workspace,
        role,
    };
    let added = add_account(transaction, by, &new)?;
    transaction.execute(
        "INSERT INTO identity (issuer, subject, account) VALUES (?1, ?2, ?3)",
        [&identity.issuer, &identity.subject, &added.id.0],
    )?;
    Ok(added)
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
        name: account_name(transaction, &id)?,
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
    let object = format!("{}: {}", account_name(transaction, account)?, user.name);
    audit(
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
    audit(
        transaction,
        by,
        Some(workspace),
        Action::UserNameUnlinked,
        &name,
    )
}
