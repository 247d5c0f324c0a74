//! The three small tables of gpu-usage-audit: hosts, runs of its collector, and GPUs. Their texts are stored unchanged.

use rusqlite::Connection;
use rusqlite::types::Value;

use super::error::LegacyError;
use crate::history::History;
use crate::sql;

/// One of the small tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallTable {
    /// Table name in a file of gpu-usage-audit.
    pub name: &'static str,
    /// Table name in a history.
    stored_as: &'static str,
    /// Columns of the table. All releases that have the table have all of them.
    pub columns: &'static [&'static str],
}

/// A row of a small table: its number in the original file, and its cells in the order of [`SmallTable`].
#[derive(Clone, Debug, PartialEq)]
pub struct SmallRow {
    pub number: i64,
    pub cells: Vec<Value>,
}

impl SmallTable {
    pub const ALL: [Self; 3] = [Self::HOST, Self::RUN, Self::DEVICE];

    pub const HOST: Self = Self {
        name: "host",
        stored_as: "old_host",
        columns: &[
            "hostname",
            "env_kind",
            "driver_version",
            "first_seen",
            "last_seen",
        ],
    };

    pub const RUN: Self = Self {
        name: "daemon_run",
        stored_as: "old_run",
        columns: &["started_at", "interval_seconds"],
    };

    pub const DEVICE: Self = Self {
        name: "gpu_device",
        stored_as: "old_device",
        columns: &[
            "gpu_uuid",
            "name",
            "memory_total_mb",
            "first_seen",
            "last_seen",
        ],
    };

    /// Reads the number of a row and its cells.
    pub fn row(self, row: &rusqlite::Row<'_>) -> rusqlite::Result<SmallRow> {
        let cells = (1..=self.columns.len()).map(|place| row.get(place));
        Ok(SmallRow {
            number: row.get(0)?,
            cells: cells.collect::<Result<_, _>>()?,
        })
    }
}

impl History {
    /// Rows of a small table imported from a source, in their original order.
    pub fn imported_small(
        &self,
        table: SmallTable,
        source: i64,
    ) -> Result<Vec<SmallRow>, LegacyError> {
        let (columns, stored_as) = (table.columns.join(", "), table.stored_as);
        let sql = format!("SELECT row, {columns} FROM {stored_as} WHERE source = ?1 ORDER BY row");
        let rows = sql::rows(&self.connection, &sql, [source], |row| table.row(row));
        Ok(rows?)
    }
}

/// Writes rows of a small table; existing ones are updated, since the collector of gpu-usage-audit changes them too.
/// Returns the number of new rows.
pub(super) fn put(
    change: &Connection,
    source: i64,
    table: SmallTable,
    rows: &[SmallRow],
) -> Result<u64, LegacyError> {
    let before = count(change, source, table)?;
    let insert = format!(
        "INSERT OR REPLACE INTO {} (source, row, {}) VALUES (?, ?{})",
        table.stored_as,
        table.columns.join(", "),
        ", ?".repeat(table.columns.len())
    );
    for row in rows {
        let keys = [Value::Integer(source), Value::Integer(row.number)];
        let values = keys.iter().chain(&row.cells);
        let put = sql::run(change, &insert, rusqlite::params_from_iter(values));
        put.map_err(|error| LegacyError::Row {
            table: table.name,
            row: row.number,
            what: format!("it does not hold what gpu-usage-audit writes there: {error}"),
        })?;
    }
    let after = count(change, source, table)?;
    Ok(after.saturating_sub(before))
}

pub(super) fn count(
    connection: &Connection,
    source: i64,
    table: SmallTable,
) -> Result<u64, LegacyError> {
    let sql = format!("SELECT count(*) FROM {} WHERE source = ?1", table.stored_as);
    let count: i64 = sql::value(connection, &sql, [source])?;
    Ok(count.unsigned_abs())
}
