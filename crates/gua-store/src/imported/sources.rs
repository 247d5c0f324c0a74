//! Imported files, their rows by time, and erasing a user from them.

use gua_model::Period;
use gua_model::legacy::LegacyMoment;
use jiff::Timestamp;
use rusqlite::{Connection, Transaction};

use super::block::{encode, unpack};
use super::error::LegacyError;
use super::moments::fold_stored;
use super::rows::{ImportedRow as _, ProcessRow, TextId};
use super::stored::load_texts;
use super::totals::{mark_all_stale, settle};
use crate::history::History;
use crate::sql::rows;
use crate::store::Store;

/// An imported file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSource {
    pub id: i64,
    /// Path at the last import.
    pub path: String,
    pub imported: Timestamp,
    pub gpu_rows: u64,
    pub process_rows: u64,
    /// Whether the last import completed.
    pub complete: bool,
    /// Highest run number in its rows or its table of runs.
    pub highest_run: i64,
}

/// Tables of gpu-usage-audit, which it makes in any file that it is pointed at.
pub const OLD_TABLES: [&str; 5] = [
    "host",
    "daemon_run",
    "gpu_sample",
    "proc_sample",
    "gpu_device",
];

/// Last rows of the two large tables that were imported from a file identified by one of these facts; `None` for a new file.
fn imported_to(history: &Connection, facts: &[String]) -> Result<Option<(i64, i64)>, LegacyError> {
    let sql = "SELECT last_card_row, last_process_row FROM old_source JOIN old_source_fact ON source = id WHERE fact = ?1 AND complete";
    for fact in facts {
        let found: Vec<(i64, i64)> = rows(history, sql, [fact], |row| -> Result<_, LegacyError> {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        if let Some(found) = found.first() {
            return Ok(Some(*found));
        }
    }
    Ok(None)
}

/// Removes the tables of gpu-usage-audit from a history of gua.
pub(crate) fn drop_old_tables(change: &Connection) -> rusqlite::Result<()> {
    for table in OLD_TABLES {
        change.execute_batch(&format!("DROP TABLE IF EXISTS main.{table}"))?;
    }
    Ok(())
}

impl Store {
    /// Last imported rows of the two large tables of a file; `None` for a new file.
    pub fn imported_to(&self, facts: &[String]) -> Result<Option<(i64, i64)>, LegacyError> {
        imported_to(&self.connection, facts)
    }
}

impl History {
    /// Last imported rows of the two large tables of a file; `None` for a new file.
    pub fn imported_to(&self, facts: &[String]) -> Result<Option<(i64, i64)>, LegacyError> {
        imported_to(&self.connection, facts)
    }

    /// All imported files.
    pub fn old_sources(&self) -> Result<Vec<OldSource>, LegacyError> {
        sources(&self.connection)
    }

    /// Calls `each` with every imported moment of a window: one source after the other, each in order of time.
    pub fn old_moments(
        &self,
        window: Period,
        each: &mut dyn FnMut(&LegacyMoment<'_>),
    ) -> Result<(), LegacyError> {
        for source in self.old_sources()? {
            fold_stored(&self.connection, source.id, window, each)?;
        }
        Ok(())
    }
}

fn sources(history: &Connection) -> Result<Vec<OldSource>, LegacyError> {
    let sql = "SELECT id, path, imported_us, complete, \
         (SELECT ifnull(sum(rows), 0) FROM old_card_block WHERE source = id), \
         (SELECT ifnull(sum(rows), 0) FROM old_process_block WHERE source = id), \
         max(ifnull((SELECT max(row) FROM old_run WHERE source = id), 0), \
         ifnull((SELECT max(run) FROM old_card_block WHERE source = id), 0), \
         ifnull((SELECT max(run) FROM old_process_block WHERE source = id), 0)) FROM old_source ORDER BY id";
    rows(history, sql, [], |row| {
        let counted = |at: usize| row.get::<_, i64>(at).map(i64::unsigned_abs);
        Ok(OldSource {
            id: row.get(0)?,
            path: row.get(1)?,
            imported: Timestamp::from_microsecond(row.get(2)?).unwrap_or_default(),
            complete: row.get(3)?,
            gpu_rows: counted(4)?,
            process_rows: counted(5)?,
            highest_run: row.get(6)?,
        })
    })
}

/// Sources that may have rows in `[from, to)`.
pub(super) fn sources_within(
    history: &Connection,
    (from, to): (i64, i64),
) -> Result<Vec<i64>, LegacyError> {
    let sql = "SELECT id FROM old_source WHERE last_us >= ?1 AND first_us < ?2 ORDER BY id";
    rows(history, sql, [from, to], |row| Ok(row.get(0)?))
}

/// Erases a user from imported rows. The rows stay under an anonymous name, without the names of the programs. The
/// sources are marked as erased, so that a later import does not restore the name. Returns the number of affected rows.
pub(crate) fn forget(change: &Transaction<'_>, user: &str) -> Result<u64, LegacyError> {
    let texts = load_texts(change)?;
    let Some(name) = texts.find(user) else {
        return Ok(0);
    };
    let mut erased = 0;
    for source in sources(change)? {
        let (rows, changed) = without_programs(change, source.id, name)?;
        erased += rows;
        let mut update = change
            .prepare_cached("UPDATE old_process_block SET cells = ?4 WHERE source = ?1 AND at_us = ?2 AND first_row = ?3")?;
        for (at_us, first_row, cells) in changed {
            update.execute((source.id, at_us, first_row, cells))?;
        }
        if rows > 0 {
            // The path of the file often contains the name of its owner.
            change.execute(
                "UPDATE old_source SET erased = 1, path = 'forgotten' WHERE id = ?1",
                [source.id],
            )?;
        }
    }
    if erased > 0 {
        // This also renames programs that have the same name as the user.
        change.execute(
            "UPDATE old_text SET text = 'forgotten-old-' || id WHERE id = ?1",
            [name.0],
        )?;
        mark_all_stale(change, None)?;
        settle(change)?;
    }
    Ok(erased)
}

/// A modified block: its time, its first row and its new content.
type Changed = (i64, i64, Vec<u8>);

/// Number of rows of a user in a source, and the blocks in which their programs had names.
fn without_programs(
    change: &Transaction<'_>,
    source: i64,
    name: TextId,
) -> Result<(u64, Vec<Changed>), LegacyError> {
    let mut blocks = change.prepare_cached(
        "SELECT at_us, first_row, rows, cells FROM old_process_block WHERE source = ?1",
    )?;
    let mut rows = blocks.query([source])?;
    let (mut theirs, mut changed) = (0, Vec::new());
    while let Some(row) = rows.next()? {
        let (at_us, first_row, count): (_, _, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let cells = row
            .get_ref(3)
            .ok()
            .and_then(|cells| cells.as_blob().ok())
            .unwrap_or_default();
        let damaged = LegacyError::Damaged {
            table: ProcessRow::BLOCKS,
            row: first_row,
        };
        let mut unpacked = unpack::<ProcessRow>(cells, count as usize).ok_or(damaged)?;
        let (mut named, mut packed) = (0, Vec::with_capacity(cells.len()));
        for row in &mut unpacked {
            if row.loginuid_user == Some(name) || row.owner_user == Some(name) {
                row.process_name = None;
                named += 1;
            }
            encode(row, &mut packed);
        }
        theirs += named;
        if packed != cells {
            changed.push((at_us, first_row, packed));
        }
    }
    Ok((theirs, changed))
}
