//! Writes a history in the format of gpu-usage-audit 1.8.0: its tables, columns, texts and rounding.
//!
//! Imported rows are written back unchanged. Ticks of gua are written as far as the format allows: a GPU without a
//! utilisation reading is skipped, since the column is mandatory and no value is made up.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gua_store::imported::{
    COMPUTE, CardRow, ImportedRow, LegacyError, OnProgress, Order, ProcessRow, Progress,
    SmallTable, TextId, Texts,
};
use gua_store::{History, beside};
use rusqlite::types::Value;
use rusqlite::{Connection, Transaction};

use part::{Numbering, Part, Source};

mod own;
pub(super) mod part;

/// Result of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    pub card_rows: u64,
    pub process_rows: u64,
    pub runs: u64,
    /// Number of skipped readings of gua's own ticks, which had no utilisation.
    pub cards_without_util: u64,
    /// Number of gua's own ticks that could not be read.
    pub damaged_ticks: u64,
}

/// Tables of a new 1.8.0 file, with the columns in its order.
const TABLES: &str = "
CREATE TABLE host (
    hostname TEXT NOT NULL, env_kind TEXT NOT NULL, driver_version TEXT,
    first_seen DATETIME NOT NULL, last_seen DATETIME NOT NULL
);
CREATE TABLE daemon_run (
    id INTEGER PRIMARY KEY AUTOINCREMENT, started_at DATETIME NOT NULL, interval_seconds REAL NOT NULL
);
CREATE TABLE gpu_sample (
    ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, util_pct INTEGER NOT NULL,
    run_id INTEGER REFERENCES daemon_run(id), usage_state TEXT,
    gpu_index INTEGER, memory_used_mb INTEGER, temperature_c INTEGER, power_w INTEGER
);
CREATE TABLE proc_sample (
    ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, pid INTEGER NOT NULL, mem_used_mb INTEGER,
    loginuid_user TEXT, owner_user TEXT, run_id INTEGER REFERENCES daemon_run(id),
    gpu_index INTEGER, process_name TEXT, process_type TEXT NOT NULL DEFAULT 'compute'
);
CREATE TABLE gpu_device (
    gpu_uuid TEXT NOT NULL, name TEXT NOT NULL, memory_total_mb INTEGER NOT NULL,
    first_seen DATETIME NOT NULL, last_seen DATETIME NOT NULL
);
";

/// Indexes, created after the rows because that is faster. gpu-usage-audit creates its indexes with `IF NOT EXISTS`, so
/// it accepts these.
const INDEXES: &str = "
CREATE INDEX idx_gpu_sample_uuid_ts ON gpu_sample(gpu_uuid, ts);
CREATE INDEX idx_proc_sample_uuid_ts ON proc_sample(gpu_uuid, ts);
CREATE UNIQUE INDEX idx_gpu_device_uuid ON gpu_device(gpu_uuid);
";

/// Writes a whole history to a new file at `output`. The file appears only when it is complete.
pub fn export(
    history: &History,
    output: &Path,
    on_progress: OnProgress<'_>,
) -> Result<Exported, LegacyError> {
    if output.symlink_metadata().is_ok() {
        return Err(LegacyError::Exists {
            path: output.into(),
        });
    }
    let partial = beside(output, EXPORTING);
    let exported = match remove(&partial).and_then(|()| write(history, &partial, on_progress)) {
        Ok(exported) => exported,
        Err(error) => {
            // The original error is more useful than an error of the cleanup.
            let _ = remove(&partial);
            return Err(error);
        }
    };
    // A hard link fails if a file has been created there meanwhile; a rename would overwrite it.
    let placed = fs::hard_link(&partial, output);
    let placed = match placed {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let _ = remove(&partial);
            return Err(LegacyError::Exists {
                path: output.into(),
            });
        }
        Err(_) => fs::rename(&partial, output),
        Ok(()) => fs::remove_file(&partial),
    };
    placed.map_err(|source| LegacyError::File {
        what: "write",
        path: output.into(),
        source,
    })?;
    Ok(exported)
}

/// Suffix of an incomplete export.
const EXPORTING: &str = ".exporting";

/// Files of an incomplete export to `output`, which an interrupted export would leave behind.
#[must_use]
pub fn unfinished_export(output: &Path) -> Vec<PathBuf> {
    files_of(&beside(output, EXPORTING))
}

/// An SQLite database and its companion files.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let suffixes = ["", "-wal", "-shm", "-journal"];
    suffixes.iter().map(|suffix| beside(path, suffix)).collect()
}

fn remove(partial: &Path) -> Result<(), LegacyError> {
    for path in files_of(partial) {
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(LegacyError::File {
                    what: "write",
                    path,
                    source,
                });
            }
            _ => {}
        }
    }
    Ok(())
}

fn write(
    history: &History,
    partial: &Path,
    on_progress: OnProgress<'_>,
) -> Result<Exported, LegacyError> {
    let made = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(partial);
    made.map_err(|source| LegacyError::File {
        what: "write",
        path: partial.into(),
        source,
    })?;
    let mut output = Connection::open(partial)?;
    prepare(&output)?;
    let exported = {
        let change = output.transaction()?;
        let numbering = Numbering::of(history)?;
        let exported = Export {
            progress: Progress {
                rows_done: 0,
                rows_total: rows(history)?,
            },
            ..Export::new(history, &change, &numbering, on_progress)
        };
        let exported = exported.run()?;
        change.execute_batch(INDEXES)?;
        change.commit()?;
        exported
    };
    output.pragma_update(None, "synchronous", "FULL")?;
    // gpu-usage-audit opens its files in this mode and refuses others.
    output.pragma_update(None, "journal_mode", "WAL")?;
    output.close().map_err(|(_, error)| error)?;
    let synced = fs::File::open(partial).and_then(|file| file.sync_all());
    synced.map_err(|source| LegacyError::File {
        what: "write",
        path: partial.into(),
        source,
    })?;
    Ok(exported)
}

/// Lays out a part of a history in an unnamed temporary file.
pub(super) fn scratch(
    history: &History,
    numbering: &Numbering,
    part: Part,
    on_progress: OnProgress<'_>,
) -> Result<Connection, LegacyError> {
    let mut output = Connection::open("")?;
    prepare(&output)?;
    {
        let change = output.transaction()?;
        let export = Export::new(history, &change, numbering, on_progress);
        Export { part, ..export }.run()?;
        change.commit()?;
    }
    Ok(output)
}

fn prepare(output: &Connection) -> Result<(), rusqlite::Error> {
    // The file is not visible before it is complete, so a crash may leave it corrupt.
    output.pragma_update(None, "journal_mode", "OFF")?;
    output.pragma_update(None, "synchronous", "OFF")?;
    // gpu-usage-audit does not enforce foreign keys either: rows may refer to a deleted run.
    output.pragma_update(None, "foreign_keys", "OFF")?;
    output.pragma_update(None, "cache_size", -16_000)?;
    output.execute_batch(TABLES)
}

/// Number of rows in an export of the whole history.
fn rows(history: &History) -> Result<u64, LegacyError> {
    let imported = history.old_sources()?;
    let imported = imported
        .iter()
        .map(|source| source.card_rows + source.process_rows);
    Ok(imported.sum::<u64>() + own::count(history)?)
}

struct Export<'a> {
    history: &'a History,
    change: &'a Transaction<'a>,
    part: Part,
    numbering: &'a Numbering,
    on_progress: OnProgress<'a>,
    progress: Progress,
    exported: Exported,
    hosts: BTreeMap<String, Seen>,
    devices: BTreeMap<String, Seen>,
}

/// A row of host or gpu_device that later ticks may still change.
#[derive(Clone, Debug)]
struct Seen {
    row: i64,
}

impl<'a> Export<'a> {
    fn new(
        history: &'a History,
        change: &'a Transaction<'a>,
        numbering: &'a Numbering,
        on_progress: OnProgress<'a>,
    ) -> Self {
        Self {
            history,
            change,
            part: Part::Everything,
            numbering,
            on_progress,
            progress: Progress {
                rows_done: 0,
                rows_total: 0,
            },
            exported: Exported::default(),
            hosts: BTreeMap::new(),
            devices: BTreeMap::new(),
        }
    }

    fn run(mut self) -> Result<Exported, LegacyError> {
        let texts = self.history.imported_texts()?;
        for (number, source) in self.numbering.sources.iter().enumerate() {
            let numbers = if number == 0 {
                Numbers::Kept
            } else {
                Numbers::New
            };
            if self.part.has_lists() {
                for table in SmallTable::ALL {
                    self.small(source, table, numbers)?;
                }
            }
            if self.part.has_rows() {
                self.rows::<CardRow>(source, &texts, numbers)?;
                self.rows::<ProcessRow>(source, &texts, numbers)?;
            }
        }
        match self.part {
            Part::Lists => self.own_lists()?,
            Part::Everything | Part::Rows(..) => self.own_ticks()?,
        }
        Ok(self.exported)
    }

    /// Writes back a small table. A host or GPU that occurs in several sources has one row, with the combined time
    /// range.
    fn small(
        &mut self,
        source: &Source,
        table: SmallTable,
        numbers: Numbers,
    ) -> Result<(), LegacyError> {
        let columns = table.columns();
        let places = (2..2 + columns.len())
            .map(|place| format!("?{place}"))
            .collect::<Vec<_>>()
            .join(", ");
        let sql = format!(
            "INSERT INTO {} (rowid, {}) VALUES (?1, {places})",
            table.name(),
            columns.join(", ")
        );
        let mut insert = self.change.prepare(&sql)?;
        let is_run = table == SmallTable::Run;
        for row in self.history.imported_small(table, source.id)? {
            if is_run {
                self.exported.runs += 1;
            } else if numbers == Numbers::New && self.extend(table, &row.cells)? {
                continue;
            }
            let rowid = match (is_run, numbers) {
                (true, _) => Some(row.number + source.run_offset),
                (false, Numbers::Kept) => Some(row.number),
                (false, Numbers::New) => None,
            };
            let cells = std::iter::once(rowid.into()).chain(row.cells.iter().cloned());
            insert.execute(rusqlite::params_from_iter::<Vec<Value>>(cells.collect()))?;
            self.note(table, &row.cells, self.change.last_insert_rowid());
        }
        Ok(())
    }

    fn note(&mut self, table: SmallTable, values: &[Value], row: i64) {
        if let Some(Value::Text(name)) = values.first() {
            let seen = if table == SmallTable::Host {
                &mut self.hosts
            } else {
                &mut self.devices
            };
            seen.entry(name.clone()).or_insert(Seen { row });
        }
    }

    /// Extends the time range of a host or GPU that already has a row; returns whether it has one.
    fn extend(&self, table: SmallTable, values: &[Value]) -> Result<bool, LegacyError> {
        let [Value::Text(name), .., first, last] = values else {
            return Ok(false);
        };
        let seen = if table == SmallTable::Host {
            &self.hosts
        } else {
            &self.devices
        };
        let Some(seen) = seen.get(name) else {
            return Ok(false);
        };
        let sql = format!(
            "UPDATE {} SET first_seen = min(first_seen, ?2), last_seen = max(last_seen, ?3) WHERE rowid = ?1",
            table.name()
        );
        self.change.execute(&sql, (seen.row, first, last))?;
        Ok(true)
    }

    fn rows<R: Written>(
        &mut self,
        source: &Source,
        texts: &Texts,
        numbers: Numbers,
    ) -> Result<(), LegacyError> {
        let mut insert = self.change.prepare(R::INSERT)?;
        let window = self.part.window();
        let history = self.history;
        history.imported_blocks::<R>(source.id, window, Order::Rows, |block| {
            let at = block.stamp.text();
            let run = block.run.map(|run| run + source.run_offset);
            for (offset, row) in (0_i64..).zip(&block.rows) {
                let number = (numbers == Numbers::Kept).then_some(block.first_row + offset);
                row.write(&mut insert, number, &at, run, texts)?;
            }
            let rows = block.rows.len() as u64;
            match R::TABLE {
                CardRow::TABLE => self.exported.card_rows += rows,
                _ => self.exported.process_rows += rows,
            }
            self.advance(rows)
        })
    }

    fn advance(&mut self, rows: u64) -> Result<(), LegacyError> {
        let before = self.progress.rows_done;
        self.progress.rows_done += rows;
        if before / STEP != self.progress.rows_done / STEP
            && (self.on_progress)(self.progress).is_break()
        {
            return Err(LegacyError::Stopped);
        }
        Ok(())
    }
}

/// Rows between two reports of progress.
const STEP: u64 = 50_000;

/// Whether rows keep their original numbers. The numbers of a second source would conflict with the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    Kept,
    New,
}

/// Rows that can be written back.
trait Written: ImportedRow {
    const INSERT: &'static str;

    fn write(
        &self,
        insert: &mut rusqlite::Statement<'_>,
        number: Option<i64>,
        at: &str,
        run: Option<i64>,
        texts: &Texts,
    ) -> Result<(), rusqlite::Error>;
}

fn text(texts: &Texts, id: Option<TextId>) -> Option<&str> {
    id.and_then(|id| texts.get(id))
}

impl Written for CardRow {
    const INSERT: &'static str = "INSERT INTO gpu_sample (rowid, ts, gpu_uuid, util_pct, run_id, usage_state, gpu_index, \
        memory_used_mb, temperature_c, power_w) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

    fn write(
        &self,
        insert: &mut rusqlite::Statement<'_>,
        number: Option<i64>,
        at: &str,
        run: Option<i64>,
        texts: &Texts,
    ) -> Result<(), rusqlite::Error> {
        let gpu = text(texts, Some(self.gpu));
        let state = text(texts, self.usage_state);
        let cells = (
            number,
            at,
            gpu,
            self.util_pct,
            run,
            state,
            self.gpu_index,
            self.memory_used_mb,
            self.temperature_c,
            self.power_w,
        );
        insert.execute(cells).map(drop)
    }
}

impl Written for ProcessRow {
    const INSERT: &'static str = "INSERT INTO proc_sample (rowid, ts, gpu_uuid, pid, mem_used_mb, loginuid_user, owner_user, \
        run_id, gpu_index, process_name, process_type) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

    fn write(
        &self,
        insert: &mut rusqlite::Statement<'_>,
        number: Option<i64>,
        at: &str,
        run: Option<i64>,
        texts: &Texts,
    ) -> Result<(), rusqlite::Error> {
        let gpu = text(texts, Some(self.gpu));
        let (login, owner) = (
            text(texts, self.loginuid_user),
            text(texts, self.owner_user),
        );
        let kind = text(texts, self.process_type).unwrap_or(COMPUTE);
        let name = text(texts, self.process_name);
        let cells = (
            number,
            at,
            gpu,
            self.pid,
            self.mem_used_mb,
            login,
            owner,
            run,
            self.gpu_index,
            name,
            kind,
        );
        insert.execute(cells).map(drop)
    }
}
