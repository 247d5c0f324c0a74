//! The audit log in SQLite.

use jiff::Timestamp;
use rusqlite::{Row, params};

use super::Work;
use crate::error::Result;
use crate::id::WorkspaceId;
use crate::registry::{Action, Audit, AuditEntry, AuditView, Change};
use crate::sqlite::{SqliteStore, time, word};

/// Columns that [`entry`] reads.
const ENTRY: &str = "number, at, actor, address, action, object";

impl Audit for SqliteStore {
    fn log(
        &self,
        by: &Change,
        workspace: Option<&WorkspaceId>,
        action: Action,
        object: &str,
    ) -> Result<()> {
        self.change(by, |work| work.log(workspace, action, object))
    }

    fn events(
        &self,
        workspace: &WorkspaceId,
        action: Action,
        since: Timestamp,
        most: u32,
    ) -> Result<Vec<AuditEntry>> {
        let sql = format!(
            "SELECT {ENTRY} FROM audit WHERE workspace = ?1 AND action = ?2 AND at >= ?3 ORDER BY number DESC LIMIT ?4"
        );
        let range = params![workspace, action.as_str(), since.as_microsecond(), most];
        self.many(&sql, range, entry)
    }

    fn audit_log(
        &self,
        view: AuditView<'_>,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<AuditEntry>> {
        let (workspace, is_whole) = match view {
            AuditView::Workspace(workspace) => (workspace, false),
            AuditView::Board(workspace) => (workspace, true),
        };
        let sql = format!(
            "SELECT {ENTRY} FROM audit
             WHERE number < ?2 AND (workspace = ?1 OR workspace IS NULL AND (?4 OR EXISTS (
               SELECT 1 FROM account JOIN member ON member.account = account.id
               WHERE account.name = audit.object AND member.workspace = ?1)))
             ORDER BY number DESC LIMIT ?3"
        );
        let range = params![workspace, before.unwrap_or(i64::MAX), most, is_whole];
        self.many(&sql, range, entry)
    }
}

fn entry(row: &Row<'_>) -> Result<AuditEntry> {
    Ok(AuditEntry {
        number: row.get(0)?,
        at: time(row, 1)?,
        actor: row.get(2)?,
        address: row.get(3)?,
        action: word(row, 4, "action")?,
        object: row.get(5)?,
    })
}

impl Work<'_> {
    /// Writes the change to the audit log.
    pub(super) fn log(
        &self,
        workspace: Option<&WorkspaceId>,
        action: Action,
        object: &str,
    ) -> Result<()> {
        let Change { actor, address, at } = self.by;
        let sql = "INSERT INTO audit (at, actor, address, workspace, action, object) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let at = at.as_microsecond();
        let (actor, action) = (actor.to_string(), action.as_str());
        let values = params![at, actor, address, workspace, action, object];
        self.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }
}
