//! Imported files: what is stored of them, their rows by time, and the removal of a file or of a user.

use std::path::Path;
use std::time::Duration;

use gua_model::legacy::LegacyMoment;
use gua_model::{Period, sane};
use rusqlite::{Connection, OptionalExtension as _, Transaction};

use super::block::{encode, unpack};
use super::error::LegacyError;
use super::moments::fold_stored;
use super::rows::{ImportedRow as _, ProcessRow, TextId};
use super::stored::load_texts;
use super::totals::{mark_all_stale, settle};
use crate::history::History;
use crate::sql;
use crate::store::Store;

/// An imported file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSource {
    pub id: i64,
    pub gpu_rows: u64,
    pub process_rows: u64,
    /// Highest run number in its rows or its table of runs.
    pub highest_run: i64,
}

/// State of a source after earlier imports. The default is a source that was never imported.
#[derive(Debug, Default)]
pub struct KnownImport {
    pub source: i64,
    /// Recorded interval of the requested run; `None` if the import did not complete.
    pub interval: Option<Duration>,
    /// Number of the last row that was considered.
    pub last_row: i64,
    /// Whether a user was erased from it.
    pub is_erased: bool,
    /// First and last row of each block, in order.
    blocks: Vec<(i64, i64)>,
}

impl KnownImport {
    /// Returns whether a row was imported.
    pub fn has(&self, row: i64) -> bool {
        let block = self.blocks.partition_point(|(_, last)| *last < row);
        self.blocks
            .get(block)
            .is_some_and(|(first, _)| *first <= row)
    }
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
        let found = sql::rows(history, sql, [fact], |row| {
            Ok::<(i64, i64), LegacyError>((row.get(0)?, row.get(1)?))
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

    /// Source identified by a fact, with the interval of its run `run`.
    pub fn known_import(&self, fact: &str, run: i64) -> Result<Option<KnownImport>, LegacyError> {
        let found = self
            .connection
            .query_row(
                "SELECT id, last_card_row, erased, \
                 (SELECT interval_seconds FROM old_run WHERE old_run.source = id AND row = ?2) \
                 FROM old_source JOIN old_source_fact ON source = id WHERE fact = ?1",
                (fact, run),
                |row| {
                    let seconds: Option<f64> = row.get(3)?;
                    Ok(KnownImport {
                        source: row.get(0)?,
                        interval: seconds.and_then(|it| Duration::try_from_secs_f64(it).ok()),
                        last_row: row.get(1)?,
                        is_erased: row.get(2)?,
                        blocks: Vec::new(),
                    })
                },
            )
            .optional()?;
        let Some(mut known) = found else {
            return Ok(None);
        };
        let blocks = "SELECT first_row, first_row + rows - 1 FROM old_card_block WHERE source = ?1 ORDER BY first_row";
        known.blocks = sql::rows(&self.connection, blocks, [known.source], |row| {
            Ok::<_, LegacyError>((row.get(0)?, row.get(1)?))
        })?;
        Ok(Some(known))
    }

    /// Sources of files without a host table and with this file name that no fact beginning with `prefix` recognises.
    pub fn hostless_imports(&self, path: &Path, prefix: &str) -> Result<Vec<i64>, LegacyError> {
        let sql = "SELECT id, path FROM old_source WHERE columns NOT LIKE '%host.%' AND NOT EXISTS \
             (SELECT 1 FROM old_source_fact WHERE source = id AND substr(fact, 1, length(?1)) = ?1)";
        let found = sql::rows(&self.connection, sql, [prefix], |row| {
            Ok::<(i64, String), LegacyError>((row.get(0)?, row.get(1)?))
        })?;
        let is_its = |known: &str| {
            path.file_name().is_some() && Path::new(known).file_name() == path.file_name()
        };
        let found = found.into_iter().filter(|(_, known)| is_its(known));
        Ok(found.map(|(id, _)| id).collect())
    }

    /// Removes everything imported from a source. Part of a larger change, which also settles the totals.
    pub fn remove_import(&self, source: i64) -> Result<(), LegacyError> {
        mark_all_stale(&self.connection, Some(source))?;
        for table in [
            "old_card_block",
            "old_process_block",
            "old_run",
            "old_source_fact",
        ] {
            let delete = format!("DELETE FROM {table} WHERE source = ?1");
            sql::run(&self.connection, &delete, [source])?;
        }
        let delete = "DELETE FROM old_source WHERE id = ?1";
        sql::run(&self.connection, delete, [source])?;
        Ok(())
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
    pub fn imported_moments(
        &self,
        window: Period,
        each: &mut dyn FnMut(&LegacyMoment<'_>),
    ) -> Result<(), LegacyError> {
        for source in sources_within(&self.connection, sane::bounds(window))? {
            fold_stored(&self.connection, source, window, each)?;
        }
        Ok(())
    }
}

fn sources(history: &Connection) -> Result<Vec<OldSource>, LegacyError> {
    let sql = "SELECT id, \
         (SELECT ifnull(sum(rows), 0) FROM old_card_block WHERE source = id), \
         (SELECT ifnull(sum(rows), 0) FROM old_process_block WHERE source = id), \
         max(ifnull((SELECT max(row) FROM old_run WHERE source = id), 0), \
         ifnull((SELECT max(run) FROM old_card_block WHERE source = id), 0), \
         ifnull((SELECT max(run) FROM old_process_block WHERE source = id), 0)) FROM old_source ORDER BY id";
    sql::rows(history, sql, [], |row| {
        let counted = |at: usize| row.get::<_, i64>(at).map(i64::unsigned_abs);
        Ok(OldSource {
            id: row.get(0)?,
            gpu_rows: counted(1)?,
            process_rows: counted(2)?,
            highest_run: row.get(3)?,
        })
    })
}

/// Ids of all imported files.
pub(crate) fn source_ids(history: &Connection) -> rusqlite::Result<Vec<i64>> {
    sql::rows(
        history,
        "SELECT id FROM old_source ORDER BY id",
        [],
        |row| row.get(0),
    )
}

/// Sources that may have rows in `[from, to)`.
pub(super) fn sources_within(
    history: &Connection,
    (from, to): (i64, i64),
) -> Result<Vec<i64>, LegacyError> {
    let sql = "SELECT id FROM old_source WHERE last_us >= ?1 AND first_us < ?2 ORDER BY id";
    Ok(sql::rows(history, sql, [from, to], |row| row.get(0))?)
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
        let update = "UPDATE old_process_block SET cells = ?4 WHERE source = ?1 AND at_us = ?2 AND first_row = ?3";
        for (at_us, first_row, cells) in changed {
            sql::run(change, update, (source.id, at_us, first_row, cells))?;
        }
        if rows > 0 {
            // The path of the file often contains the name of its owner.
            let update = "UPDATE old_source SET erased = 1, path = 'forgotten' WHERE id = ?1";
            sql::run(change, update, [source.id])?;
        }
    }
    if erased > 0 {
        // This also renames programs that have the same name as the user.
        let update = "UPDATE old_text SET text = 'forgotten-old-' || id WHERE id = ?1";
        sql::run(change, update, [name.0])?;
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
    let sql = "SELECT at_us, first_row, rows, cells FROM old_process_block WHERE source = ?1";
    let (mut theirs, mut changed) = (0, Vec::new());
    sql::each(change, sql, [source], |row| {
        let (at_us, first_row, count): (_, _, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let cells = row.get_ref(3)?.as_blob().unwrap_or_default();
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
        Ok::<_, LegacyError>(())
    })?;
    Ok((theirs, changed))
}
