//! Accounts, members and sessions in SQLite.

use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use super::{Work, bump_revision, conflict_unless, exists, found, text};
use crate::error::{Result, StoreError};
use crate::id::{AccountId, WorkspaceId};
use crate::password::PasswordHash;
use crate::registry::{Account, Accounts, Action, Change, Member, NewAccount, NewSession, Role};
use crate::secret::SecretHash;
use crate::sqlite::{SqliteStore, first_row, lines, word};

/// Columns that [`account`] reads.
const ACCOUNT: &str = "id, name, password";

impl Accounts for SqliteStore {
    fn has_accounts(&self) -> Result<bool> {
        let found = self.one("SELECT 1 FROM account LIMIT 1", [], |_| Ok(()))?;
        Ok(found.is_some())
    }

    fn add_account(&self, by: &Change, account: &NewAccount) -> Result<Account> {
        self.change(by, |work| add(work, account))
    }

    fn account(&self, name: &str) -> Result<Option<Account>> {
        let sql = format!("SELECT {ACCOUNT} FROM account WHERE name = ?1");
        self.one(&sql, [name], account)
    }

    fn set_password(
        &self,
        by: &Change,
        account: &AccountId,
        password: &PasswordHash,
    ) -> Result<()> {
        self.change(by, |work| set_password(work, account, password).map(drop))
    }

    fn set_role(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        account: &AccountId,
        role: Option<Role>,
    ) -> Result<()> {
        self.change(by, |work| {
            let name = name_of(work, account)?;
            let (action, object) = match role {
                Some(role) => {
                    put_member(work, workspace, account, role)?;
                    (Action::RoleSet, format!("{name}: {role}"))
                }
                None => {
                    remove_member(work, workspace, account)?;
                    (Action::MemberRemoved, name)
                }
            };
            let sql = "SELECT 1 FROM member WHERE workspace = ?1 AND role = 'owner'";
            let has_owner = exists(work, sql, [workspace])?;
            conflict_unless(has_owner, "a workspace keeps at least one owner")?;
            bump_revision(work)?;
            work.log(Some(workspace), action, &object)
        })
    }

    fn set_member_groups(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        account: &AccountId,
        groups: &[String],
    ) -> Result<()> {
        self.change(by, |work| {
            let sql = "UPDATE member SET groups = ?3 WHERE workspace = ?1 AND account = ?2";
            let changed = work.execute(sql, params![workspace, account, groups.join("\n")])?;
            found(changed > 0, "member")?;
            let object = format!("{}: {}", name_of(work, account)?, groups.join(", "));
            work.log(Some(workspace), Action::MemberGroupsSet, &object)
        })
    }

    fn members(&self, workspace: &WorkspaceId) -> Result<Vec<Member>> {
        let sql = "SELECT account.id, account.name, member.role, member.groups FROM member
                   JOIN account ON account.id = member.account WHERE member.workspace = ?1 ORDER BY account.name";
        self.many(sql, [workspace], |row| {
            Ok(Member {
                account: row.get(0)?,
                name: row.get(1)?,
                role: word(row, 2, "role")?,
                groups: lines(row, 3)?,
            })
        })
    }

    fn add_session(&self, by: &Change, session: &NewSession) -> Result<()> {
        self.change(by, |work| {
            let sql = "DELETE FROM session WHERE expires <= ?1";
            work.execute(sql, [by.at.as_microsecond()])?;
            let expires = session.expires.as_microsecond();
            work.execute(
                "INSERT INTO session (hash, account, expires) VALUES (?1, ?2, ?3)",
                params![session.hash, session.account, expires],
            )?;
            work.log(None, Action::LoggedIn, &name_of(work, &session.account)?)
        })
    }

    fn session(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<Account>> {
        let sql = "SELECT account.id, account.name, account.password FROM session
                   JOIN account ON account.id = session.account WHERE session.hash = ?1 AND session.expires > ?2";
        self.one(sql, params![hash, now.as_microsecond()], account)
    }

    fn end_session(&self, hash: &SecretHash) -> Result<()> {
        self.write(|transaction| {
            transaction.execute("DELETE FROM session WHERE hash = ?1", [hash])?;
            Ok(())
        })
    }
}

pub(super) fn account(row: &Row<'_>) -> Result<Account> {
    Ok(Account {
        id: row.get(0)?,
        name: row.get(1)?,
        password: row.get::<_, Option<String>>(2)?.map(PasswordHash::stored),
    })
}

pub(super) fn add(work: &Work<'_>, new: &NewAccount) -> Result<Account> {
    let sql = format!(
        "INSERT INTO account ({ACCOUNT}) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO NOTHING RETURNING {ACCOUNT}"
    );
    let password = new.password.as_ref().map(PasswordHash::as_str);
    let values = params![AccountId::random(), new.name, password];
    let added = first_row(work, &sql, values, account)?;
    let account = added.ok_or(StoreError::Conflict("an account with this name exists"))?;
    put_member(work, &new.workspace, &account.id, new.role)?;
    let object = format!("{}: {}", new.name, new.role);
    work.log(Some(&new.workspace), Action::AccountAdded, &object)?;
    Ok(account)
}

pub(super) fn put_member(
    work: &Work<'_>,
    workspace: &WorkspaceId,
    account: &AccountId,
    role: Role,
) -> Result<()> {
    work.execute(
        "INSERT INTO member (workspace, account, role) VALUES (?1, ?2, ?3)
         ON CONFLICT (workspace, account) DO UPDATE SET role = ?3",
        params![workspace, account, role.as_str()],
    )?;
    // The admin who made a reset link may not be allowed to reset the password of the new role.
    delete_links(work, account)
}

fn remove_member(work: &Work<'_>, workspace: &WorkspaceId, account: &AccountId) -> Result<()> {
    let delete = |table: &str| {
        let sql = format!("DELETE FROM {table} WHERE workspace = ?1 AND account = ?2");
        work.execute(&sql, params![workspace, account])
    };
    found(delete("member")? > 0, "member")?;
    delete("user_name")?;
    delete("name_code")?;
    delete_links(work, account)
}

pub(super) fn set_password(
    work: &Work<'_>,
    id: &AccountId,
    password: &PasswordHash,
) -> Result<Account> {
    let sql = format!("UPDATE account SET password = ?2 WHERE id = ?1 RETURNING {ACCOUNT}");
    let changed = first_row(work, &sql, params![id, password.as_str()], account)?;
    let account = changed.ok_or(StoreError::NotFound("account"))?;
    work.execute("DELETE FROM session WHERE account = ?1", [id])?;
    // Another reset link would undo this.
    delete_links(work, id)?;
    bump_revision(work)?;
    work.log(None, Action::PasswordSet, &account.name)?;
    Ok(account)
}

/// Deletes the reset links of an account.
fn delete_links(work: &Work<'_>, account: &AccountId) -> Result<()> {
    work.execute("DELETE FROM link WHERE account = ?1", [account])?;
    Ok(())
}

/// Returns whether an account is a member of a workspace.
pub(super) fn is_member(
    connection: &Connection,
    workspace: &WorkspaceId,
    account: &AccountId,
) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM member WHERE workspace = ?1 AND account = ?2";
    exists(connection, sql, params![workspace, account])
}

/// Returns the name of an account.
pub(super) fn name_of(connection: &Connection, account: &AccountId) -> Result<String> {
    let sql = "SELECT name FROM account WHERE id = ?1";
    text(connection, "account", sql, [account])
}
