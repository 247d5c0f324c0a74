//! Copies a file of gpu-usage-audit into a history, row by row. `gua_store::imported::Importer` stores the rows.

use std::path::Path;

use gua_store::Store;
use gua_store::imported::{
    Column, GpuRow, Imported, ImportedRow, Importer, LegacyError, NewSource, OnProgress,
    ProcessRow, Progress, SmallRow, SmallTable, Tally, summed,
};
use jiff::Timestamp;
use rusqlite::OptionalExtension as _;

use super::open::OldFile;
use super::rows::{Choice, Extent, Scan};

/// Imports a file, or its new rows, and verifies that all of them are stored. If a writer changed the file meanwhile,
/// it is opened again and the import continues.
pub fn import(
    store: &mut Store,
    path: &Path,
    now: Timestamp,
    on_progress: OnProgress<'_>,
) -> Result<Imported, LegacyError> {
    let old = OldFile::open(path)?;
    match import_open(&old, store, now, on_progress) {
        Err(LegacyError::Changed { .. }) => {
            let old = OldFile::open(path)?;
            import_open(&old, store, now, on_progress)
        }
        other => other,
    }
}

pub(crate) fn import_open(
    old: &OldFile,
    store: &mut Store,
    now: Timestamp,
    on_progress: OnProgress<'_>,
) -> Result<Imported, LegacyError> {
    refuse_newer(old)?;
    let new = NewSource {
        path: old.path().to_owned(),
        columns: old.columns().line(),
        facts: facts(old)?,
        at: now,
    };
    let Some(importer) = store.importer(new)? else {
        old.confirm()?;
        return Ok(Imported::default());
    };
    let mut work = Work {
        old,
        importer,
        progress: Progress {
            rows_done: 0,
            rows_total: old.count(GpuRow::TABLE)? + old.count(ProcessRow::TABLE)?,
        },
        on_progress,
    };
    let gpus = work.copy::<GpuRow>()?;
    let processes = work.copy::<ProcessRow>()?;
    let mut tables = Vec::new();
    for table in SmallTable::ALL {
        tables.push((table, small_rows(old, table)?));
    }
    let new_runs = work.importer.finish(&tables, &|| old.confirm())?;
    verify::<GpuRow>(&work, &gpus)?;
    verify::<ProcessRow>(&work, &processes)?;
    for table in SmallTable::ALL {
        let there = match old.has_small(table) {
            true => old.count(table.name)?,
            false => 0,
        };
        same_count(table.name, there, work.importer.count(table)?)?;
    }
    old.confirm()?;
    Ok(Imported {
        gpu_rows: gpus.rows,
        new_gpu_rows: gpus.new_rows,
        process_rows: processes.rows,
        new_process_rows: processes.new_rows,
        new_runs,
        skipped_rows: gpus.skipped.rows + processes.skipped.rows,
    })
}

/// Refuses a file with an unknown column: its values would be lost, so such a file is only read in place.
fn refuse_newer(old: &OldFile) -> Result<(), LegacyError> {
    let unknown = old.columns().0.iter().find(|(table, column)| {
        let column = column.as_str();
        let is_one = |columns: &[Column]| {
            let mut names = columns.iter().map(|known| known.name);
            ["ts", "run_id"].contains(&column) || names.any(|name| name == column)
        };
        !match table.as_str() {
            GpuRow::TABLE => is_one(GpuRow::COLUMNS),
            ProcessRow::TABLE => is_one(ProcessRow::COLUMNS),
            "host" => SmallTable::HOST.columns.contains(&column),
            "daemon_run" => column == "id" || SmallTable::RUN.columns.contains(&column),
            _ => SmallTable::DEVICE.columns.contains(&column),
        }
    });
    match unknown {
        Some((table, column)) => Err(LegacyError::Newer {
            path: old.path().into(),
            table: table.clone(),
            column: column.clone(),
        }),
        None => Ok(()),
    }
}

/// Facts that stay the same when a file grows, is copied or loses old samples: its first host and run, with their times
/// to the microsecond. Either may be written first, so each of them is sufficient.
pub(super) fn facts(old: &OldFile) -> Result<Vec<String>, LegacyError> {
    if let Some(fact) = &old.known_by {
        return Ok(vec![fact.clone()]);
    }
    let first = |table: &str, columns: &[&str]| -> Result<Option<String>, LegacyError> {
        if !columns
            .iter()
            .all(|column| old.columns().has(table, column))
        {
            return Ok(None);
        }
        let sql = format!(
            "SELECT {} FROM {table} ORDER BY rowid LIMIT 1",
            columns.join(" || ' ' || ")
        );
        let found = old
            .connection
            .query_row(&sql, [], |row| row.get::<_, Option<String>>(0))
            .optional();
        let found = found.map_err(|source| old.failed(source))?.flatten();
        Ok(found.map(|text| format!("{table} {text}")))
    };
    let mut facts = Vec::new();
    facts.extend(first("host", &["hostname", "first_seen"])?);
    facts.extend(first("daemon_run", &["id", "started_at"])?);
    if facts.is_empty() {
        // Only samples, as in a file assembled by hand.
        facts.extend(first("gpu_sample", &["gpu_uuid", "ts"])?);
        facts.extend(first("proc_sample", &["gpu_uuid", "ts"])?);
    }
    Ok(facts)
}

struct Work<'a> {
    old: &'a OldFile,
    importer: Importer<'a>,
    progress: Progress,
    on_progress: OnProgress<'a>,
}

/// Rows of a copied table.
struct Copied {
    rows: u64,
    new_rows: u64,
    read: Tally,
    skipped: Tally,
}

/// Fails unless all rows of the file were read, and the stored ones and those that were skipped have the same sums.
fn verify<R: ImportedRow>(work: &Work<'_>, copied: &Copied) -> Result<(), LegacyError> {
    let here = work.importer.tally::<R>()?.with(&copied.skipped);
    same_count(R::TABLE, work.old.count(R::TABLE)?, here.rows)?;
    let mut sums = copied.read.sums.iter().zip(&here.sums).zip(summed::<R>());
    match sums.find(|((there, here), _)| there != here) {
        None => Ok(()),
        Some(((there, here), column)) => {
            let (table, column, there, here) = (R::TABLE, column.name, there.1, here.1);
            let what = format!("{table}.{column} adds up to {there} there and {here} here");
            Err(LegacyError::Unverified(what))
        }
    }
}

fn same_count(table: &str, there: u64, here: u64) -> Result<(), LegacyError> {
    match there == here {
        true => Ok(()),
        false => {
            let what = format!("{table} has {there} rows there and {here} here");
            Err(LegacyError::Unverified(what))
        }
    }
}

impl Work<'_> {
    /// Copies one table.
    fn copy<R: ImportedRow>(&mut self) -> Result<Copied, LegacyError> {
        let choice = Choice::by_row(None, Extent::All);
        let mut statement = self.old.select::<R>(&choice)?;
        let texts = self.importer.texts();
        let mut scan = Scan::<R>::new(self.old, &mut statement, &choice, texts)?;
        let (mut rows, mut new_rows) = (0, 0);
        loop {
            let chunk = self.importer.chunk(&mut scan, &|| self.old.confirm())?;
            rows += chunk.rows;
            new_rows += chunk.new_rows;
            self.progress.rows_done += chunk.rows;
            if (self.on_progress)(self.progress).is_break() {
                return Err(LegacyError::Stopped);
            }
            if chunk.is_last {
                return Ok(Copied {
                    rows,
                    new_rows,
                    read: scan.read,
                    skipped: scan.skipped,
                });
            }
        }
    }
}

/// All rows of a small table; empty if the file does not have it.
fn small_rows(old: &OldFile, table: SmallTable) -> Result<Vec<SmallRow>, LegacyError> {
    if !old.has_small(table) {
        return Ok(Vec::new());
    }
    let (columns, name) = (table.columns.join(", "), table.name);
    let sql = format!("SELECT rowid, {columns} FROM {name} ORDER BY rowid");
    let read = || -> Result<Vec<SmallRow>, rusqlite::Error> {
        let mut query = old.connection.prepare(&sql)?;
        query.query_map([], |row| table.row(row))?.collect()
    };
    read().map_err(|source| old.failed(source))
}

impl OldFile {
    /// Number of rows of a table.
    pub(super) fn count(&self, table: &str) -> Result<u64, LegacyError> {
        let sql = format!("SELECT count(*) FROM {table}");
        self.connection
            .query_row(&sql, [], |row| row.get::<_, i64>(0))
            .map(i64::unsigned_abs)
            .map_err(|source| self.failed(source))
    }

    /// Returns whether the file has a small table with all its columns.
    pub(super) fn has_small(&self, table: SmallTable) -> bool {
        let mut columns = table.columns.iter();
        columns.all(|column| self.columns().has(table.name, column))
    }
}
