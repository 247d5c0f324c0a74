//! Workspaces and their settings in SQLite.

use jiff::SignedDuration;
use rusqlite::{Connection, Row, params};

use super::bump_revision;
use crate::error::{Result, StoreError};
use crate::id::{AccountId, WorkspaceId};
use crate::registry::{
    Action, Change, FIRST_WORKSPACE, Membership, Settings, Workspace, Workspaces,
};
use crate::sqlite::{SqliteStore, first_row, lines, word};

/// Columns that [`workspace`] reads.
const WORKSPACE: &str =
    "workspace.id, workspace.name, workspace.title, workspace.names_from, workspace.session_days";

impl Workspaces for SqliteStore {
    fn workspaces(&self) -> Result<Vec<Workspace>> {
        let sql = format!("SELECT {WORKSPACE} FROM workspace ORDER BY name");
        self.many(&sql, [], |row| workspace(row, 0))
    }

    fn memberships(&self, account: &AccountId) -> Result<Vec<Membership>> {
        let sql = format!(
            "SELECT member.role, member.groups, {WORKSPACE} FROM member JOIN workspace ON workspace.id = member.workspace
             WHERE member.account = ?1 ORDER BY workspace.name"
        );
        self.many(&sql, [account], |row| {
            Ok(Membership {
                role: word(row, 0, "role")?,
                groups: lines(row, 1)?,
                workspace: workspace(row, 2)?,
            })
        })
    }

    fn add_workspace(&self, by: &Change, name: &str) -> Result<Workspace> {
        self.change(by, |work| {
            let sql = format!(
                "INSERT INTO workspace (id, name) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING RETURNING {WORKSPACE}"
            );
            let values = params![WorkspaceId::random(), name];
            let added = first_row(work, &sql, values, |row| workspace(row, 0))?;
            let added = added.ok_or(StoreError::Conflict("a workspace with this name exists"))?;
            work.log(Some(&added.id), Action::WorkspaceAdded, name)?;
            Ok(added)
        })
    }

    fn set_settings(&self, by: &Change, id: &WorkspaceId, settings: &Settings) -> Result<()> {
        self.change(by, |work| {
            let sql = format!("SELECT {WORKSPACE} FROM workspace WHERE id = ?1");
            let known = first_row(work, &sql, [id], |row| workspace(row, 0))?;
            let known = known.ok_or(StoreError::NotFound("workspace"))?;
            let changes = known.settings.changes_to(settings);
            if changes.is_empty() {
                return Ok(());
            }
            let Settings {
                title,
                names_from,
                session_days,
            } = settings;
            work.execute(
                "UPDATE workspace SET title = ?2, names_from = ?3, session_days = ?4 WHERE id = ?1",
                params![id, title, names_from.as_str(), session_days],
            )?;
            // A shorter lifetime also applies to existing sessions.
            let lifetime = SignedDuration::from_hours(24 * i64::from(*session_days));
            let end = by.at.saturating_add(lifetime).unwrap_or(by.at);
            work.execute(
                "UPDATE session SET expires = min(expires, ?2) WHERE account IN (SELECT account FROM member WHERE workspace = ?1)",
                params![id, end.as_microsecond()],
            )?;
            bump_revision(work)?;
            work.log(Some(id), Action::SettingsChanged, &changes)
        })
    }
}

fn workspace(row: &Row<'_>, column: usize) -> Result<Workspace> {
    Ok(Workspace {
        id: row.get(column)?,
        name: row.get(column + 1)?,
        settings: Settings {
            title: row.get(column + 2)?,
            names_from: word(row, column + 3, "role")?,
            session_days: row.get(column + 4)?,
        },
    })
}

/// Adds the workspace of a new board.
pub(in crate::sqlite) fn add_first(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "INSERT INTO workspace (id, name) VALUES (?1, ?2)";
    connection.execute(sql, params![WorkspaceId::random(), FIRST_WORKSPACE])?;
    Ok(())
}
