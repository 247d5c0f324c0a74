//! Links that work once, in SQLite: set-up, invitation and password reset.

use jiff::Timestamp;
use rusqlite::{Connection, Transaction, params};

use super::{accounts, audit, people, word};
use crate::error::StoreError;
use crate::id::{AccountId, WorkspaceId};
use crate::password::PasswordHash;
use crate::registry::{Account, Action, Change, LinkPurpose, NewAccount, NewLink, Role};
use crate::secret::SecretHash;

pub(super) fn find(
    connection: &Connection,
    hash: &SecretHash,
    now: Timestamp,
) -> Result<Option<LinkPurpose>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT workspace, role, account FROM link WHERE hash = ?1 AND expires > ?2",
    )?;
    let mut rows = statement.query(params![hash.0, now.as_microsecond()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(match row.get(2)? {
        Some(account) => LinkPurpose::Reset {
            account: AccountId(account),
        },
        None => LinkPurpose::Join {
            workspace: WorkspaceId(row.get(0)?),
            role: word(row, 1, "role")?,
        },
    }))
}

pub(super) fn add(
    transaction: &Transaction<'_>,
    by: &Change,
    link: &NewLink,
) -> Result<(), StoreError> {
    let (workspace, role, account) = match &link.purpose {
        LinkPurpose::Join { workspace, role } => (Some(workspace), Some(role.as_str()), None),
        LinkPurpose::Reset { account } => (None, None, Some(account.as_str())),
    };
    transaction.execute(
        "DELETE FROM link WHERE expires <= ?1",
        [by.at.as_microsecond()],
    )?;
    transaction.execute(
        "INSERT INTO link (hash, workspace, role, account, expires) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            link.hash.0,
            workspace.map(WorkspaceId::as_str),
            role,
            account,
            link.expires.as_microsecond()
        ],
    )?;
    match &link.purpose {
        LinkPurpose::Join { workspace, role } => {
            let (workspace, action) = (Some(workspace), Action::LinkAdded);
            audit::add(transaction, by, workspace, action, role.as_str())
        }
        // The name alone: admins of the account's workspaces see entries about it.
        LinkPurpose::Reset { account } => {
            let name = accounts::name_of(transaction, account)?;
            audit::add(transaction, by, None, Action::ResetLinkAdded, &name)
        }
    }
}

/// Removes an invitation and returns what it is for.
pub(super) fn take_invitation(
    transaction: &Transaction<'_>,
    by: &Change,
    hash: &SecretHash,
) -> Result<(WorkspaceId, Role), StoreError> {
    let purpose = find(transaction, hash, by.at)?;
    let Some(LinkPurpose::Join { workspace, role }) = purpose else {
        return Err(StoreError::NotFound("link"));
    };
    transaction.execute("DELETE FROM link WHERE hash = ?1", params![hash.0])?;
    Ok((workspace, role))
}

pub(super) fn accept(
    transaction: &Transaction<'_>,
    by: &Change,
    hash: &SecretHash,
    (name, password): (&str, &PasswordHash),
) -> Result<Account, StoreError> {
    let (workspace, role) = take_invitation(transaction, by, hash)?;
    let account = NewAccount {
        name: name.to_owned(),
        password: Some(password.clone()),
        workspace,
        role,
    };
    accounts::add(transaction, by, &account)
}

pub(super) fn reset_password(
    transaction: &Transaction<'_>,
    by: &Change,
    hash: &SecretHash,
    password: &PasswordHash,
) -> Result<Account, StoreError> {
    let Some(LinkPurpose::Reset { account }) = find(transaction, hash, by.at)? else {
        return Err(StoreError::NotFound("link"));
    };
    transaction.execute("DELETE FROM link WHERE hash = ?1", params![hash.0])?;
    people::set_password(transaction, by, &account, password)?;
    Ok(Account {
        name: accounts::name_of(transaction, &account)?,
        id: account,
        password: Some(password.clone()),
    })
}
