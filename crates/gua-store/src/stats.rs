//! `gua db stats`: size of each table and growth rate.

use gua_model::sane;
use jiff::Timestamp;
use rusqlite::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ReadError;
use crate::fold::{tick_before, tick_from};
use crate::history::History;
use crate::sql::rows;

/// The size of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Size of the file and its journal.
    pub file_bytes: u64,
    pub journal_bytes: u64,
    /// Size of the free pages in the file.
    pub free_bytes: u64,
    /// Tables with their indexes, the largest first.
    pub tables: Vec<TableSize>,
    pub ticks: u64,
    #[serde(rename = "gpus")]
    pub cards: u64,
    pub first_tick: Option<Timestamp>,
    pub last_tick: Option<Timestamp>,
    pub imported: OldRows,
    /// Days from the first tick to the last.
    pub days: f64,
    /// Excludes imported rows; `None` until the history spans an hour.
    pub bytes_per_gpu_day: Option<f64>,
    pub bytes_per_day: Option<f64>,
}

/// Rows imported from old histories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OldRows {
    pub files: u64,
    pub gpu_rows: u64,
    pub process_rows: u64,
    /// Size of their tables.
    pub bytes: u64,
}

/// Size of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableSize {
    pub name: String,
    pub bytes: u64,
    pub rows: u64,
}

impl TableSize {
    /// Returns whether the table holds imported rows.
    fn is_old(&self) -> bool {
        self.name.starts_with("old_")
    }
}

impl History {
    pub fn stats(&self) -> Result<Stats, ReadError> {
        let size = |suffix: &str| {
            let path = crate::beside(self.path(), suffix);
            std::fs::metadata(path).map_or(0, |facts| facts.len())
        };
        self.read(|connection| {
            let count =
                |query: &str| connection.query_row(query, [], |row| row.get::<_, Option<i64>>(0));
            let number = |query: &str| count(query).map(|found| found.unwrap_or(0).unsigned_abs());
            let tables = tables(connection)?;
            let first = tick_from(connection, i64::MIN)?;
            let last = tick_before(connection, i64::MAX)?;
            let micros = last.unwrap_or(0).saturating_sub(first.unwrap_or(0));
            let cards = number("SELECT count(*) FROM card")?;
            let room = |is_old: bool| -> u64 {
                let some = tables.iter().filter(|table| is_old == table.is_old());
                some.map(|table| table.bytes).sum()
            };
            let used = room(false);
            let imported = OldRows {
                files: number("SELECT count(*) FROM old_source")?,
                gpu_rows: number("SELECT sum(rows) FROM old_card_block")?,
                process_rows: number("SELECT sum(rows) FROM old_process_block")?,
                bytes: room(true),
            };
            #[expect(clippy::cast_precision_loss, reason = "sizes and times to look at")]
            let (days, used, per_gpus) =
                (micros as f64 / 86_400e6, used as f64, cards.max(1) as f64);
            let enough = days > 1.0 / 24.0;
            Ok(Stats {
                file_bytes: size(""),
                journal_bytes: size("-wal"),
                free_bytes: number("PRAGMA freelist_count")? * number("PRAGMA page_size")?,
                tables,
                ticks: number("SELECT count(*) FROM tick")?,
                cards,
                imported,
                first_tick: first.map(sane::nearest),
                last_tick: last.map(sane::nearest),
                days,
                bytes_per_gpu_day: enough.then_some(used / days / per_gpus),
                bytes_per_day: enough.then_some(used / days),
            })
        })
    }
}

fn tables(connection: &Connection) -> rusqlite::Result<Vec<TableSize>> {
    let sql = "SELECT tbl_name, sum(pgsize) FROM dbstat('main', 1) JOIN sqlite_schema USING (name)
         GROUP BY tbl_name ORDER BY 2 DESC, 1";
    rows(connection, sql, [], |row| {
        let name: String = row.get(0)?;
        // The name comes from the schema; it is quoted as a precaution.
        let query = format!("SELECT count(*) FROM \"{}\"", name.replace('"', "\"\""));
        let count: i64 = connection.query_row(&query, [], |row| row.get(0))?;
        Ok(TableSize {
            name,
            bytes: row.get::<_, i64>(1)?.unsigned_abs(),
            rows: count.unsigned_abs(),
        })
    })
}
