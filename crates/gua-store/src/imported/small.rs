//! The three small tables of gpu-usage-audit: hosts, runs of its collector, and GPUs. Their texts are stored unchanged.

use rusqlite::Connection;
use rusqlite::types::Value;

use super::error::LegacyError;
use crate::history::History;
use crate::sql::rows;

/// One of the small tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallTable {
    Host,
    Run,
    Device,
}

/// A row of a small table: its number in the original file, and its cells in the order of [`SmallTable::columns`].
#[derive(Clone, Debug, PartialEq)]
pub struct SmallRow {
    pub number: i64,
    pub cells: Vec<Value>,
}

impl SmallTable {
    pub const ALL: [Self; 3] = [Self::Host, Self::Run, Self::Device];

    /// Table name in a file of gpu-usage-audit.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Run => "daemon_run",
            Self::Device => "gpu_device",
        }
    }

    /// Table name in a history.
    fn stored_as(self) -> &'static str {
        match self {
            Self::Host => "old_host",
            Self::Run => "old_run",
            Self::Device => "old_device",
        }
    }

    /// Columns of the table. All releases that have the table have all of them.
    #[must_use]
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Host => &[
                "hostname",
                "env_kind",
                "driver_version",
                "first_seen",
                "last_seen",
            ],
            Self::Run => &["started_at", "interval_seconds"],
            Self::Device => &[
                "gpu_uuid",
                "name",
                "memory_total_mb",
                "first_seen",
                "last_seen",
            ],
        }
    }
}

impl History {
    /// Rows of a small table imported from a source, in their original order.
    pub fn imported_small(
        &self,
        table: SmallTable,
        source: i64,
    ) -> Result<Vec<SmallRow>, LegacyError> {
        let columns = table.columns();
        let sql = format!(
            "SELECT row, {} FROM {} WHERE source = ?1 ORDER BY row",
            columns.join(", "),
            table.stored_as()
        );
        Ok(rows(&self.connection, &sql, [source], |row| {
            table.row(row)
        })?)
    }
}

impl SmallTable {
    /// Reads the number of a row and its cells.
    pub fn row(self, row: &rusqlite::Row<'_>) -> rusqlite::Result<SmallRow> {
        let cells = (1..=self.columns().len()).map(|place| row.get(place));
        Ok(SmallRow {
            number: row.get(0)?,
            cells: cells.collect::<Result<_, _>>()?,
        })
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
    let columns = table.columns();
    let mut insert = change.prepare(&format!(
        "INSERT OR REPLACE INTO {} (source, row, {}) VALUES (?, ?{})",
        table.stored_as(),
        columns.join(", "),
        ", ?".repeat(columns.len())
    ))?;
    for row in rows {
        let keys = [Value::Integer(source), Value::Integer(row.number)];
        let values = keys.iter().chain(&row.cells);
        insert
            .execute(rusqlite::params_from_iter(values))
            .map_err(|error| LegacyError::Row {
                table: table.name(),
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
    let sql = format!(
        "SELECT count(*) FROM {} WHERE source = ?1",
        table.stored_as()
    );
    let count: i64 = connection.query_row(&sql, [source], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}
