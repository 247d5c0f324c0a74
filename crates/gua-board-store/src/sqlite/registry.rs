//! The registry in SQLite: what its parts share. Each part implements the trait of one subject for [`SqliteStore`].

mod accounts;
mod audit;
mod hosts;
mod links;
mod people;
mod tokens;
mod workspaces;

use std::ops::Deref;

use rusqlite::{Connection, OptionalExtension as _, Params, Transaction};

use super::SqliteStore;
use crate::error::{Result, StoreError};
use crate::registry::{Change, Registry, Revision};

pub(super) use workspaces::add_first as add_first_workspace;

/// A change in progress: its transaction, and its author for the audit log.
struct Work<'w> {
    transaction: &'w Transaction<'w>,
    by: &'w Change,
}

impl<'w> Deref for Work<'w> {
    type Target = Transaction<'w>;

    fn deref(&self) -> &Self::Target {
        self.transaction
    }
}

impl Registry for SqliteStore {}

impl Revision for SqliteStore {
    fn revision(&self) -> Result<u64> {
        let sql = "SELECT value FROM meta WHERE key = 'revision'";
        let found: Option<i64> = self.one(sql, [], |row| Ok(row.get(0)?))?;
        let number = found.and_then(|number| u64::try_from(number).ok());
        number.ok_or(StoreError::Invalid("revision"))
    }
}

impl SqliteStore {
    /// Runs a change in a transaction.
    fn change<T>(&self, by: &Change, work: impl FnOnce(&Work<'_>) -> Result<T>) -> Result<T> {
        self.write(|transaction| work(&Work { transaction, by }))
    }
}

/// Invalidates what caches know about credentials.
fn bump_revision(transaction: &Transaction<'_>) -> Result<()> {
    let sql = "UPDATE meta SET value = value + 1 WHERE key = 'revision'";
    transaction.execute(sql, [])?;
    Ok(())
}

/// Returns the text of the row that a statement selects, updates or deletes. `what` names the object in the error if there is
/// no such row.
fn text(
    connection: &Connection,
    what: &'static str,
    sql: &str,
    values: impl Params,
) -> Result<String> {
    let found = connection.query_row(sql, values, |row| row.get(0));
    found.optional()?.ok_or(StoreError::NotFound(what))
}

fn exists(connection: &Connection, sql: &str, values: impl Params) -> rusqlite::Result<bool> {
    connection.prepare_cached(sql)?.exists(values)
}

fn conflict_unless(holds: bool, message: &'static str) -> Result<()> {
    holds.then_some(()).ok_or(StoreError::Conflict(message))
}

fn found(is_found: bool, what: &'static str) -> Result<()> {
    is_found.then_some(()).ok_or(StoreError::NotFound(what))
}
