//! Accounts, members and sessions in SQLite.

use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::{audit, bump_revision, conflict_unless, found, lines, people, word};
use crate::error::StoreError;
use crate::id::{AccountId, WorkspaceId};
use crate::password::PasswordHash;
use crate::registry::{Account, Action, Change, Member, NewAccount, NewSession, Role};

/// Members of a workspace by name, for [`member`].
pub(super) const MEMBERS: &str = "SELECT account.id, account.name, member.role, member.groups FROM member JOIN account ON account.id = member.account
     WHERE member.workspace = ?1 ORDER BY account.name";

pub(super) fn member(row: &Row<'_>) -> Result<Member, StoreError> {
    Ok(Member {
        account: AccountId(row.get(0)?),
        name: row.get(1)?,
        role: word(row, 2, "role")?,
        groups: lines(row, 3)?,
    })
}

pub(super) fn account(row: &Row<'_>) -> Result<Account, StoreError> {
    Ok(Account {
        id: AccountId(row.get(0)?),
        name: row.get(1)?,
        password: row.get::<_, Option<String>>(2)?.map(PasswordHash::stored),
    })
}

pub(super) fn add(
    transaction: &Transaction<'_>,
    by: &Change,
    new: &NewAccount,
) -> Result<Account, StoreError> {
    let id = AccountId::random();
    let password = new.password.as_ref().map(PasswordHash::as_str);
    let added = transaction.execute(
        "INSERT INTO account (id, name, password) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO NOTHING",
        params![id.as_str(), new.name, password],
    )?;
    conflict_unless(added == 1, "an account with this name exists")?;
    put_member(transaction, &new.workspace, &id, new.role)?;
    let object = format!("{}: {}", new.name, new.role);
    audit::add(
        transaction,
        by,
        Some(&new.workspace),
        Action::AccountAdded,
        &object,
    )?;
    Ok(Account {
        id,
        name: new.name.clone(),
        password: new.password.clone(),
    })
}

pub(super) fn put_member(
    transaction: &Transaction<'_>,
    workspace: &WorkspaceId,
    account: &AccountId,
    role: Role,
) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO member (workspace, account, role) VALUES (?1, ?2, ?3)
         ON CONFLICT (workspace, account) DO UPDATE SET role = ?3",
        [workspace.as_str(), account.as_str(), role.as_str()],
    )?;
    // The admin who made a reset link may not be allowed to reset the password of the new role.
    people::delete_links(transaction, account)
}

pub(super) fn set_role(
    transaction: &Transaction<'_>,
    by: &Change,
    (workspace, account): (&WorkspaceId, &AccountId),
    role: Option<Role>,
) -> Result<(), StoreError> {
    let name = name_of(transaction, account)?;
    let key = [workspace.as_str(), account.as_str()];
    let (action, object) = match role {
        Some(role) => {
            put_member(transaction, workspace, account, role)?;
            (Action::RoleSet, format!("{name}: {role}"))
        }
        None => {
            let sql = "DELETE FROM member WHERE workspace = ?1 AND account = ?2";
            found(transaction.execute(sql, key)?, "member")?;
            for sql in [
                "DELETE FROM user_name WHERE workspace = ?1 AND account = ?2",
                "DELETE FROM name_code WHERE workspace = ?1 AND account = ?2",
            ] {
                transaction.execute(sql, key)?;
            }
            people::delete_links(transaction, account)?;
            (Action::MemberRemoved, name)
        }
    };
    let sql = "SELECT count(*) FROM member WHERE workspace = ?1 AND role = 'owner'";
    let owners: i64 = transaction.query_row(sql, [workspace.as_str()], |row| row.get(0))?;
    conflict_unless(owners > 0, "a workspace keeps at least one owner")?;
    bump_revision(transaction)?;
    audit::add(transaction, by, Some(workspace), action, &object)
}

pub(super) fn set_groups(
    transaction: &Transaction<'_>,
    by: &Change,
    (workspace, account): (&WorkspaceId, &AccountId),
    groups: &[String],
) -> Result<(), StoreError> {
    let changed = transaction.execute(
        "UPDATE member SET groups = ?3 WHERE workspace = ?1 AND account = ?2",
        [workspace.as_str(), account.as_str(), &groups.join("\n")],
    )?;
    found(changed, "member")?;
    let name = name_of(transaction, account)?;
    let object = format!("{name}: {}", groups.join(", "));
    let action = Action::MemberGroupsSet;
    audit::add(transaction, by, Some(workspace), action, &object)
}

/// Returns the name of an account.
pub(super) fn name_of(
    transaction: &Transaction<'_>,
    account: &AccountId,
) -> Result<String, StoreError> {
    let sql = "SELECT name FROM account WHERE id = ?1";
    let name = transaction.query_row(sql, [account.as_str()], |row| row.get(0));
    name.optional()?.ok_or(StoreError::NotFound("account"))
}

pub(super) fn add_session(
    transaction: &Transaction<'_>,
    by: &Change,
    session: &NewSession,
) -> Result<(), StoreError> {
    transaction.execute(
        "DELETE FROM session WHERE expires <= ?1",
        [by.at.as_microsecond()],
    )?;
    transaction.execute(
        "INSERT INTO session (hash, account, expires) VALUES (?1, ?2, ?3)",
        params![
            session.hash.0,
            session.account.as_str(),
            session.expires.as_microsecond()
        ],
    )?;
    let name = name_of(transaction, &session.account)?;
    audit::add(transaction, by, None, Action::LoggedIn, &name)
}
