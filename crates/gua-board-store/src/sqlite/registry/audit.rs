//! The audit log in SQLite.

use rusqlite::{Row, Transaction, params};

use super::time;
use crate::error::StoreError;
use crate::id::WorkspaceId;
use crate::registry::{Action, AuditEntry, Change};

/// Query of the entries before a number, newest first, for [`entry`]: those of a workspace, and of those of the whole board
/// all (`?4`) or the ones about accounts of its members.
pub(super) const LOG: &str = "SELECT number, at, actor, address, action, object FROM audit
     WHERE number < ?2 AND (workspace = ?1 OR workspace IS NULL AND (?4 OR EXISTS (
       SELECT 1 FROM account JOIN member ON member.account = account.id
       WHERE account.name = audit.object AND member.workspace = ?1)))
     ORDER BY number DESC LIMIT ?3";

/// Entries of a workspace with one action since a time, newest first, for [`entry`].
pub(super) const EVENTS: &str = "SELECT number, at, actor, address, action, object FROM audit
     WHERE workspace = ?1 AND action = ?2 AND at >= ?3 ORDER BY number DESC LIMIT ?4";

pub(super) fn entry(row: &Row<'_>) -> Result<AuditEntry, StoreError> {
    let action: String = row.get(4)?;
    let mut known = Action::ALL.into_iter();
    let action = known.find(|known| known.as_str() == action);
    Ok(AuditEntry {
        number: row.get(0)?,
        at: time(row.get(1)?)?,
        actor: row.get(2)?,
        address: row.get(3)?,
        action: action.ok_or(StoreError::Invalid("action"))?,
        object: row.get(5)?,
    })
}

pub(super) fn add(
    transaction: &Transaction<'_>,
    by: &Change,
    workspace: Option<&WorkspaceId>,
    action: Action,
    object: &str,
) -> Result<(), StoreError> {
    transaction
        .prepare_cached(
            "INSERT INTO audit (at, actor, address, workspace, action, object) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            by.at.as_microsecond(),
            by.actor.as_str(),
            by.address,
            workspace.map(WorkspaceId::as_str),
            action.as_str(),
            object
        ])?;
    Ok(())
}
