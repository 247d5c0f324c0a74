//! Workspaces and their settings in SQLite.

use jiff::SignedDuration;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::{audit, bump_revision, conflict_unless, word};
use crate::error::StoreError;
use crate::id::WorkspaceId;
use crate::registry::{Action, Change, FIRST_WORKSPACE, Settings, Workspace};

/// Columns that [`workspace`] reads.
const WORKSPACE: &str =
    "workspace.id, workspace.name, workspace.title, workspace.names_from, workspace.session_days";

/// Query of all workspaces by name, for [`workspace`].
pub(super) fn all() -> String {
    format!("SELECT {WORKSPACE} FROM workspace ORDER BY name")
}

/// Query of the role and groups in each workspace of an account, followed by the columns of [`workspace`].
pub(super) fn of_account() -> String {
    format!(
        "SELECT member.role, member.groups, {WORKSPACE} FROM member JOIN workspace ON workspace.id = member.workspace
         WHERE member.account = ?1 ORDER BY workspace.name"
    )
}

pub(super) fn workspace(row: &Row<'_>, column: usize) -> Result<Workspace, StoreError> {
    Ok(Workspace {
        id: WorkspaceId(row.get(column)?),
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
    let id = WorkspaceId::random();
    connection.execute(
        "INSERT INTO workspace (id, name) VALUES (?1, ?2)",
        [id.as_str(), FIRST_WORKSPACE],
    )?;
    Ok(())
}

pub(super) fn add(
    transaction: &Transaction<'_>,
    by: &Change,
    name: &str,
) -> Result<Workspace, StoreError> {
    let id = WorkspaceId::random();
    let added = transaction.execute(
        "INSERT INTO workspace (id, name) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
        [id.as_str(), name],
    )?;
    conflict_unless(added == 1, "a workspace with this name exists")?;
    audit::add(transaction, by, Some(&id), Action::WorkspaceAdded, name)?;
    Ok(Workspace {
        id,
        name: name.to_owned(),
        settings: Settings::default(),
    })
}

pub(super) fn set_settings(
    transaction: &Transaction<'_>,
    by: &Change,
    id: &WorkspaceId,
    settings: &Settings,
) -> Result<(), StoreError> {
    let sql = format!("SELECT {WORKSPACE} FROM workspace WHERE id = ?1");
    let known = transaction
        .query_row(&sql, [id.as_str()], |row| Ok(workspace(row, 0)))
        .optional()?;
    let known = known.ok_or(StoreError::NotFound("workspace"))??;
    let changes = known.settings.changes_to(settings);
    if changes.is_empty() {
        return Ok(());
    }
    transaction.execute(
        "UPDATE workspace SET title = ?2, names_from = ?3, session_days = ?4 WHERE id = ?1",
        params![
            id.as_str(),
            settings.title,
            settings.names_from.as_str(),
            settings.session_days
        ],
    )?;
    // A shorter lifetime also applies to existing sessions.
    let lifetime = SignedDuration::from_hours(24 * i64::from(settings.session_days));
    let end = by.at.saturating_add(lifetime).unwrap_or(by.at);
    transaction.execute(
        "UPDATE session SET expires = min(expires, ?2) WHERE account IN (SELECT account FROM member WHERE workspace = ?1)",
        params![id.as_str(), end.as_microsecond()],
    )?;
    bump_revision(transaction)?;
    audit::add(transaction, by, Some(id), Action::SettingsChanged, &changes)
}
