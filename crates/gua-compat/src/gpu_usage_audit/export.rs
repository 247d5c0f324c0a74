//! Writes a history in the format of gpu-usage-audit 1.8.0: its tables, columns, texts and rounding.
//!
//! Imported rows are written back unchanged. Ticks of gua are written as far as the format allows: a GPU without a
//! utilisation reading is skipped, since the column is mandatory and no value is made up.
//!
//! A history that this process may not open is written from pages ([`page`]), which the service sends.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use gua_files::{FileError, NewFile, Over, beside};
use gua_store::History;
use gua_store::imported::{
    COMPUTE, Cell, GpuRow, ImportedRow, LegacyError, OnProgress, Order, ProcessRow, Progress,
    SmallTable, Texts,
};
use rusqlite::types::{Null, Value};
use rusqlite::{Connection, Statement, Transaction};

pub use page::{OldPage, OldPageQuestion, old_page};
pub use paged::{AskPage, export_pages};
use part::{Numbering, Part, Source};

mod own;
pub(super) mod page;
mod paged;
pub(super) mod part;

/// Result of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    pub gpu_rows: u64,
    pub process_rows: u64,
    pub runs: u64,
    /// Number of skipped readings of gua's own ticks, which had no utilisation.
    pub gpus_without_util: u64,
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

/// Writes a whole history to a file at `output`. The file appears only when it is complete.
pub fn export(
    history: &History,
    output: &Path,
    over: Over,
    on_progress: OnProgress<'_>,
) -> Result<Exported, LegacyError> {
    to_new_file(output, over, |change| {
        let numbering = Numbering::of(history)?;
        let progress = Progress {
            rows_done: 0,
            rows_total: rows(history)?,
        };
        let export = Export::new(change, progress, on_progress);
        export.run(history, &numbering)
    })
}

/// Runs `write` on a new file, which appears at `output` when it is complete.
fn to_new_file(
    output: &Path,
    over: Over,
    write: impl FnOnce(&Transaction<'_>) -> Result<Exported, LegacyError>,
) -> Result<Exported, LegacyError> {
    if !over.allows(output) {
        return Err(LegacyError::Exists {
            path: output.into(),
        });
    }
    // SQLite would apply the log of another database to the new one.
    let mut logs = ["-wal", "-journal"]
        .map(|suffix| beside(output, suffix))
        .into_iter();
    if let Some(log) = logs.find(|log| log.symlink_metadata().is_ok()) {
        return Err(LegacyError::LogBeside {
            path: output.into(),
            log,
        });
    }
    let write_error = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => LegacyError::Exists {
            path: output.into(),
        },
        _ => FileError::cannot("write", output)(source).into(),
    };
    let new = NewFile::begin(output, over).map_err(write_error)?;
    let mut file = Connection::open(new.part())?;
    prepare(&file)?;
    let exported = {
        let change = file.transaction()?;
        let exported = write(&change)?;
        change.execute_batch(INDEXES)?;
        change.commit()?;
        exported
    };
    file.pragma_update(None, "synchronous", "FULL")?;
    // gpu-usage-audit opens its files in this mode and refuses others.
    file.pragma_update(None, "journal_mode", "WAL")?;
    file.close().map_err(|(_, error)| error)?;
    new.finish().map_err(write_error)?;
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
        let export = Export::new(&change, Progress::default(), on_progress);
        Export { part, ..export }.run(history, numbering)?;
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
        .map(|source| source.gpu_rows + source.process_rows);
    Ok(imported.sum::<u64>() + own::count(history)?)
}

struct Export<'a> {
    change: &'a Transaction<'a>,
    part: Part,
    /// Offset added to the numbers of gua's own runs.
    own_offset: i64,
    on_progress: OnProgress<'a>,
    progress: Progress,
    exported: Exported,
    /// Rows of hosts and GPUs by table and name, which later sources and ticks may extend.
    known: BTreeMap<(&'static str, String), i64>,
}

impl<'a> Export<'a> {
    fn new(change: &'a Transaction<'a>, progress: Progress, on_progress: OnProgress<'a>) -> Self {
        Self {
            change,
            part: Part::Everything,
            own_offset: 0,
            on_progress,
            progress,
            exported: Exported::default(),
            known: BTreeMap::new(),
        }
    }

    fn run(mut self, history: &History, numbering: &Numbering) -> Result<Exported, LegacyError> {
        let texts = history.imported_texts()?;
        for (number, source) in numbering.sources.iter().enumerate() {
            let numbers = if number == 0 {
                Numbers::Kept
            } else {
                Numbers::New
            };
            if self.part.has_lists() {
                for table in SmallTable::ALL {
                    self.small(history, source, table, numbers)?;
                }
            }
            if self.part.has_rows() {
                self.rows::<GpuRow>(history, source, &texts, numbers)?;
                self.rows::<ProcessRow>(history, source, &texts, numbers)?;
            }
        }
        self.own_offset = numbering.own_offset;
        match self.part {
            Part::Lists => self.own_lists(history)?,
            Part::Everything | Part::Rows(..) => self.own_ticks(history)?,
        }
        Ok(self.exported)
    }

    /// Writes back a small table. A host or GPU that occurs in several sources has one row, with the combined time
    /// range.
    fn small(
        &mut self,
        history: &History,
        source: &Source,
        table: SmallTable,
        numbers: Numbers,
    ) -> Result<(), LegacyError> {
        for row in history.imported_small(table, source.id)? {
            match (table, numbers) {
                (SmallTable::RUN, _) => {
                    self.exported.runs += 1;
                    self.insert(
                        table,
                        Some(row.number.saturating_add(source.run_offset)),
                        &row.cells,
                    )?;
                }
                (_, Numbers::Kept) => self.insert(table, Some(row.number), &row.cells)?,
                (_, Numbers::New) => self.insert_or_extend(table, &row.cells, &[])?,
            }
        }
        Ok(())
    }

    fn insert(
        &mut self,
        table: SmallTable,
        rowid: Option<i64>,
        cells: &[Value],
    ) -> Result<(), LegacyError> {
        let columns = table.columns;
        let sql = format!(
            "INSERT INTO {} (rowid, {}) VALUES (?{})",
            table.name,
            columns.join(", "),
            ", ?".repeat(columns.len())
        );
        let rowid = Value::from(rowid);
        let values = std::iter::once(&rowid).chain(cells);
        let mut insert = self.change.prepare_cached(&sql)?;
        insert.execute(rusqlite::params_from_iter(values))?;
        if let Some(Value::Text(name)) = cells.first() {
            let row = self.change.last_insert_rowid();
            let known = self.known.entry((table.name, name.clone()));
            known.or_insert(row);
        }
        Ok(())
    }

    /// Writes a host or GPU. If it has a row already, its time range is extended and the `renewed` columns are replaced,
    /// as gpu-usage-audit does.
    fn insert_or_extend(
        &mut self,
        table: SmallTable,
        cells: &[Value],
        renewed: &[&str],
    ) -> Result<(), LegacyError> {
        let known = match cells.first() {
            Some(Value::Text(name)) => self.known.get(&(table.name, name.clone())),
            _ => None,
        };
        let Some(row) = known else {
            return self.insert(table, None, cells);
        };
        let sets = (1..)
            .zip(table.columns)
            .filter_map(|(place, column)| match *column {
                "first_seen" => Some(format!("first_seen = min(first_seen, ?{place})")),
                "last_seen" => Some(format!("last_seen = max(last_seen, ?{place})")),
                _ if renewed.contains(column) => {
                    Some(format!("{column} = ifnull(?{place}, {column})"))
                }
                _ => None,
            });
        let sets: Vec<String> = sets.collect();
        let sql = format!(
            "UPDATE {} SET {} WHERE rowid = ?{}",
            table.name,
            sets.join(", "),
            cells.len() + 1
        );
        let row = Value::from(*row);
        let values = cells.iter().chain([&row]);
        let mut update = self.change.prepare_cached(&sql)?;
        update.execute(rusqlite::params_from_iter(values))?;
        Ok(())
    }

    fn rows<R: ImportedRow>(
        &mut self,
        history: &History,
        source: &Source,
        texts: &Texts,
        numbers: Numbers,
    ) -> Result<(), LegacyError> {
        let mut insert = self.change.prepare(&insert_sql::<R>())?;
        let window = self.part.window();
        history.imported_blocks::<R>(source.id, window, Order::Rows, |block| {
            let at = block.stamp.text();
            let run = block.run.map(|run| run.saturating_add(source.run_offset));
            for (offset, row) in (0_i64..).zip(&block.rows) {
                let number =
                    (numbers == Numbers::Kept).then_some(block.first_row.saturating_add(offset));
                write_row(&mut insert, (number, &at, run), row, texts)?;
            }
            let rows = block.rows.len() as u64;
            match R::TABLE {
                GpuRow::TABLE => self.exported.gpu_rows += rows,
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

/// SQL that inserts a row: its number, time and run, then its cells.
fn insert_sql<R: ImportedRow>() -> String {
    let names: Vec<&str> = R::COLUMNS.iter().map(|column| column.name).collect();
    let places = (4..).zip(&names).map(|(place, name)| match *name {
        "process_type" => format!("ifnull(?{place}, '{COMPUTE}')"),
        _ => format!("?{place}"),
    });
    let places: Vec<String> = places.collect();
    let (table, names, places) = (R::TABLE, names.join(", "), places.join(", "));
    format!("INSERT INTO {table} (rowid, ts, run_id, {names}) VALUES (?1, ?2, ?3, {places})")
}

fn write_row<R: ImportedRow>(
    insert: &mut Statement<'_>,
    (number, at, run): (Option<i64>, &str, Option<i64>),
    row: &R,
    texts: &Texts,
) -> Result<(), rusqlite::Error> {
    insert.raw_bind_parameter(1, number)?;
    insert.raw_bind_parameter(2, at)?;
    insert.raw_bind_parameter(3, run)?;
    for (place, cell) in (4..).zip(row.cells()) {
        match cell {
            Cell::Number(number) => insert.raw_bind_parameter(place, number)?,
            Cell::Text(id) => insert.raw_bind_parameter(place, texts.get(id))?,
            Cell::Missing => insert.raw_bind_parameter(place, Null)?,
        }
    }
    insert.raw_execute().map(drop)
}
