//! Links that work once, in SQLite: set-up, invitation and password reset.

use jiff::Timestamp;
use rusqlite::{Row, params};

use super::{Work, accounts};
use crate::error::{Result, StoreError};
use crate::id::WorkspaceId;
use crate::password::PasswordHash;
use crate::registry::{Account, Action, Change, LinkPurpose, Links, NewAccount, NewLink, Role};
use crate::secret::SecretHash;
use crate::sqlite::{SqliteStore, first_row, word};

/// Query for a link that has not expired; [`purpose`] reads its columns.
const FIND: &str = "SELECT workspace, role, account FROM link WHERE hash = ?1 AND expires > ?2";

impl Links for SqliteStore {
    fn add_link(&self, by: &Change, link: &NewLink) -> Result<()> {
        let (workspace, role, account) = match &link.purpose {
            LinkPurpose::Join { workspace, role } => (Some(workspace), Some(role.as_str()), None),
            LinkPurpose::Reset { account } => (None, None, Some(account)),
        };
        self.change(by, |work| {
            let sql = "DELETE FROM link WHERE expires <= ?1";
            work.execute(sql, [by.at.as_microsecond()])?;
            let expires = link.expires.as_microsecond();
            work.execute(
                "INSERT INTO link (hash, workspace, role, account, expires) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![link.hash, workspace, role, account, expires],
            )?;
            match &link.purpose {
                LinkPurpose::Join { workspace, role } => {
                    work.log(Some(workspace), Action::LinkAdded, role.as_str())
                }
                // The name alone: admins of the account's workspaces see entries about it.
                LinkPurpose::Reset { account } => {
                    let name = accounts::name_of(work, account)?;
                    work.log(None, Action::ResetLinkAdded, &name)
                }
            }
        })
    }

    fn link(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<LinkPurpose>> {
        self.one(FIND, params![hash, now.as_microsecond()], purpose)
    }

    fn accept_link(
        &self,
        by: &Change,
        hash: &SecretHash,
        name: &str,
        password: &PasswordHash,
    ) -> Result<Account> {
        self.change(by, |work| {
            let (workspace, role) = take_invitation(work, hash)?;
            let account = NewAccount {
                name: name.to_owned(),
                password: Some(password.clone()),
                workspace,
                role,
            };
            accounts::add(work, &account)
        })
    }

    fn reset_password(
        &self,
        by: &Change,
        hash: &SecretHash,
        password: &PasswordHash,
    ) -> Result<Account> {
        self.change(by, |work| {
            let LinkPurpose::Reset { account } = take(work, hash)? else {
                return Err(StoreError::NotFound("link"));
            };
            accounts::set_password(work, &account, password)
        })
    }
}

fn purpose(row: &Row<'_>) -> Result<LinkPurpose> {
    Ok(match row.get(2)? {
        Some(account) => LinkPurpose::Reset { account },
        None => LinkPurpose::Join {
            workspace: row.get(0)?,
            role: word(row, 1, "role")?,
        },
    })
}

/// Removes a valid link and returns what it is for.
fn take(work: &Work<'_>, hash: &SecretHash) -> Result<LinkPurpose> {
    let key = params![hash, work.by.at.as_microsecond()];
    let purpose = first_row(work, FIND, key, purpose)?;
    work.execute("DELETE FROM link WHERE hash = ?1", [hash])?;
    purpose.ok_or(StoreError::NotFound("link"))
}

/// Removes an invitation and returns what it is for.
pub(super) fn take_invitation(work: &Work<'_>, hash: &SecretHash) -> Result<(WorkspaceId, Role)> {
    match take(work, hash)? {
        LinkPurpose::Join { workspace, role } => Ok((workspace, role)),
        LinkPurpose::Reset { .. } => Err(StoreError::NotFound("link")),
    }
}
