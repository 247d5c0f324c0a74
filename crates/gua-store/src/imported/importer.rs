//! Writer of imported rows. It copies every row, in chunks, and can be run repeatedly.
//!
//! A file is recognised by its content, so that a copy of it, or a later version with more rows, is the same source.
//! Rows that were imported before are compared and stay unchanged; only new ones are added. A crash between two chunks
//! loses nothing: the next import continues after the last commit. Inside [`Store::in_one_change`], all chunks belong
//! to that one transaction.

use std::ops::ControlFlow;
use std::path::PathBuf;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _};

use super::block::{Block, FULL, encode};
use super::error::LegacyError;
use super::rows::{ImportedRow, Tally, Texts};
use super::small::{self, SmallRow, SmallTable};
use super::stored::{Blocks, Order, each_block, load_texts, stored_block};
use super::totals;
use crate::sql;
use crate::store::Store;

/// Rows between two commits: large enough to be fast, small enough that a stop is quick and the journal stays short.
const CHUNK: u64 = 50_000;

/// Progress of an import or export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub rows_done: u64,
    pub rows_total: u64,
}

/// Result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// GPU rows in the file; of these, `new_gpu_rows` were not imported before.
    pub gpu_rows: u64,
    pub new_gpu_rows: u64,
    /// Process rows, counted like the GPU rows.
    pub process_rows: u64,
    pub new_process_rows: u64,
    /// Runs of the replaced collector that were not imported before.
    pub new_runs: u64,
    /// Rows of either kind that were left out because their time cannot be true.
    pub skipped_rows: u64,
}

/// Called between two chunks; breaking stops the work and keeps the committed rows.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// A file that is about to be imported.
#[derive(Clone, Debug)]
pub struct NewSource {
    pub path: PathBuf,
    /// Tables and columns of the file, for the record.
    pub columns: String,
    /// Facts that identify the file; one known fact is enough.
    pub facts: Vec<String>,
    /// Time of the import.
    pub at: Timestamp,
}

/// The import of one file.
#[derive(Debug)]
pub struct Importer<'a> {
    history: &'a mut Connection,
    new: NewSource,
    source: i64,
    texts: Texts,
    /// Number of texts already saved in the history.
    saved_texts: usize,
}

/// Rows of one chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    pub rows: u64,
    pub new_rows: u64,
    /// Whether the table has no further rows.
    pub is_last: bool,
}

impl Store {
    /// Begins or continues the import of a file. `None` for a file without any row, which cannot be recognised.
    pub fn importer(&mut self, new: NewSource) -> Result<Option<Importer<'_>>, LegacyError> {
        if new.facts.is_empty() {
            return Ok(None);
        }
        let source = begin(&mut self.connection, &new)?;
        let texts = load_texts(&self.connection)?;
        Ok(Some(Importer {
            history: &mut self.connection,
            new,
            source,
            saved_texts: texts.all().len(),
            texts,
        }))
    }

    /// Runs several changes in one transaction: all of them are stored, or none.
    pub fn in_one_change<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, LegacyError>,
    ) -> Result<T, LegacyError> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let done = work(self).and_then(|done| {
            totals::settle(&self.connection)?;
            Ok(done)
        });
        match &done {
            Ok(_) => self.connection.execute_batch("COMMIT")?,
            // Report the original error, even if the rollback fails.
            Err(_) => drop(self.connection.execute_batch("ROLLBACK")),
        }
        done
    }
}

/// Finds the source of a file, or adds one.
fn begin(history: &mut Connection, new: &NewSource) -> Result<i64, LegacyError> {
    let change = history.savepoint()?;
    let mut known = None;
    for fact in &new.facts {
        let found = change
            .query_row(
                "SELECT id, erased FROM old_source JOIN old_source_fact ON source = id WHERE fact = ?1",
                [fact],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()?;
        known = known.or(found);
    }
    let source = match known {
        Some((_, true)) => return Err(LegacyError::Erased),
        Some((source, false)) => source,
        None => {
            change
                .execute(
                    "INSERT INTO old_source (path, imported_us, columns, last_card_row, last_process_row, complete, erased) \
                     VALUES (?1, ?2, ?3, ?4, ?4, 0, 0)",
                    (new.path.to_string_lossy(), new.at.as_microsecond(), &new.columns, i64::MIN),
                )?;
            change.last_insert_rowid()
        }
    };
    let insert = "INSERT OR IGNORE INTO old_source_fact (fact, source) VALUES (?1, ?2)";
    for fact in &new.facts {
        sql::run(&change, insert, (fact, source))?;
    }
    change.commit()?;
    Ok(source)
}

impl Importer<'_> {
    /// Texts of the rows that were read.
    pub fn texts(&mut self) -> &mut Texts {
        &mut self.texts
    }

    /// Copies the next rows of a table and commits them, unless `confirm` reports that the file changed meanwhile.
    pub fn chunk<R: ImportedRow>(
        &mut self,
        blocks: &mut impl Blocks<R>,
        confirm: &dyn Fn() -> Result<(), LegacyError>,
    ) -> Result<Chunk, LegacyError> {
        let change = self.history.savepoint()?;
        let last_row = R::LAST_ROW;
        let known_to = format!("SELECT {last_row} FROM old_source WHERE id = ?1");
        let known_to = sql::value(&change, &known_to, [self.source])?;
        let mut chunk = Chunk::default();
        let (mut last, mut changed): (_, Option<(i64, i64)>) = (None, None);
        while chunk.rows < CHUNK {
            let Some(block) = blocks.next(&mut self.texts)? else {
                chunk.is_last = true;
                break;
            };
            let new_rows = take(&change, self.source, &self.texts, &block, known_to)?;
            if new_rows > 0 {
                let at = block.stamp.at_us;
                let (first, last) = changed.unwrap_or((at, at));
                changed = Some((first.min(at), last.max(at)));
            }
            chunk.new_rows += new_rows;
            let rows = block.rows.len() as u64;
            chunk.rows += rows;
            last = Some(block.first_row + i64::try_from(rows).expect("a block is short") - 1);
        }
        save_texts(&change, &self.texts, self.saved_texts)?;
        if let Some(last) = last.filter(|last| *last > known_to) {
            let update =
                format!("UPDATE old_source SET {last_row} = ?2, complete = 0 WHERE id = ?1");
            sql::run(&change, &update, (self.source, last))?;
        }
        if let Some((first, last)) = changed {
            totals::mark_stale(&change, (first, last))?;
            change.execute(
                "UPDATE old_source SET first_us = min(ifnull(first_us, ?2), ?2), last_us = max(ifnull(last_us, ?3), ?3)
                 WHERE id = ?1",
                (self.source, first, last),
            )?;
        }
        confirm()?;
        change.commit()?;
        self.saved_texts = self.texts.all().len();
        Ok(chunk)
    }

    /// Writes the small tables and the totals of new rows, and marks the import as complete. Returns the number of new
    /// runs.
    pub fn finish(
        &mut self,
        tables: &[(SmallTable, Vec<SmallRow>)],
        confirm: &dyn Fn() -> Result<(), LegacyError>,
    ) -> Result<u64, LegacyError> {
        let change = self.history.savepoint()?;
        let mut new_runs = 0;
        for (table, rows) in tables {
            let new = small::put(&change, self.source, *table, rows)?;
            if *table == SmallTable::RUN {
                new_runs = new;
            }
        }
        confirm()?;
        change
            .execute(
                "UPDATE old_source SET complete = 1, imported_us = ?2, path = ?3, columns = ?4 WHERE id = ?1",
                (
                    self.source,
                    self.new.at.as_microsecond(),
                    self.new.path.to_string_lossy(),
                    &self.new.columns,
                ),
            )?;
        totals::settle(&change)?;
        change.commit()?;
        Ok(new_runs)
    }

    /// Number and sums of the stored rows of this file.
    pub fn tally<R: ImportedRow>(&self) -> Result<Tally, LegacyError> {
        let mut tally = Tally::none::<R>();
        let ever = (i64::MIN, i64::MAX);
        each_block::<R>(self.history, self.source, ever, Order::Time, |block| {
            block.rows.iter().for_each(|row| tally.add(row));
            Ok(())
        })?;
        Ok(tally)
    }

    /// Number of stored rows of a small table.
    pub fn count(&self, table: SmallTable) -> Result<u64, LegacyError> {
        small::count(self.history, self.source, table)
    }
}

/// Compares rows that were imported before and adds the rest; returns the number of added rows.
fn take<R: ImportedRow>(
    change: &Connection,
    source: i64,
    texts: &Texts,
    block: &Block<R>,
    known_to: i64,
) -> Result<u64, LegacyError> {
    let mut at = 0;
    let row_at = |at: usize| block.first_row + i64::try_from(at).expect("a block is short");
    while at < block.rows.len() && row_at(at) <= known_to {
        let stored = stored::<R>(change, texts, (source, block.stamp.at_us, row_at(at)))?;
        let same = stored.filter(|stored| {
            stored.stamp == block.stamp
                && stored.run == block.run
                && !stored.rows.is_empty()
                && block.rows[at..].starts_with(&stored.rows)
        });
        match same {
            Some(stored) => at += stored.rows.len(),
            None => {
                return Err(LegacyError::Differs {
                    table: R::TABLE,
                    row: row_at(at),
                });
            }
        }
    }
    let added = (block.rows.len() - at) as u64;
    let mut cells = Vec::with_capacity(FULL + 64);
    let mut first = at;
    for (index, row) in block.rows.iter().enumerate().skip(at) {
        encode(row, &mut cells);
        if cells.len() >= FULL || index + 1 == block.rows.len() {
            insert::<R>(change, source, block, (first, index + 1 - first), &cells)?;
            cells.clear();
            first = index + 1;
        }
    }
    Ok(added)
}

fn stored<R: ImportedRow>(
    change: &Connection,
    texts: &Texts,
    key: (i64, i64, i64),
) -> Result<Option<Block<R>>, LegacyError> {
    let sql = format!(
        "SELECT first_row, at_us, written_as, run, rows, cells FROM {} WHERE source = ?1 AND at_us = ?2 AND first_row = ?3",
        R::BLOCKS
    );
    let found = sql::rows(change, &sql, key, |row| stored_block(row, texts))?;
    Ok(found.into_iter().next())
}

fn insert<R: ImportedRow>(
    change: &Connection,
    source: i64,
    block: &Block<R>,
    (first, rows): (usize, usize),
    cells: &[u8],
) -> Result<(), rusqlite::Error> {
    let sql = format!(
        "INSERT INTO {} (source, at_us, first_row, run, written_as, rows, cells) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        R::BLOCKS
    );
    let first_row = block.first_row + i64::try_from(first).expect("a block is short");
    let rows = i64::try_from(rows).expect("a block is short");
    let (at_us, text) = (block.stamp.at_us, block.stamp.written_as.as_deref());
    let values = (source, at_us, first_row, block.run, text, rows, cells);
    sql::run(change, &sql, values).map(drop)
}

fn save_texts(change: &Connection, texts: &Texts, saved: usize) -> Result<(), rusqlite::Error> {
    let insert = "INSERT INTO old_text (id, text) VALUES (?1, ?2)";
    for (id, text) in texts.all().iter().enumerate().skip(saved) {
        let id = i64::try_from(id).expect("texts are numbered in 32 bits");
        sql::run(change, insert, (id, text.as_ref()))?;
    }
    Ok(())
}
