//! Imports days of gpu_stats like old histories: the rows are laid out as such a history in memory, then imported one
//! by one.
//!
//! Values that gpu_stats does not write stay unknown. There is no UUID, so a GPU is identified by its index. There is
//! no memory, no login user and no kind of process. There is no utilisation of a GPU without a process, so such a GPU
//! has no row at that time.

use std::path::PathBuf;
use std::time::Duration;

use gua_model::Period;
use gua_model::legacy::stats_gpu;
use gua_store::Store;
use gua_store::imported::{
    GpuRow, Imported, ImportedRow as _, KnownImport, LegacyError, OF_GPU_STATS, OnProgress,
    old_text,
};
use jiff::Timestamp;
use jiff::civil::Date;
use rusqlite::Connection;

use crate::gpu_usage_audit::{OldFile, import_open};

/// Prefix of the facts that identify days.
const FACT: &str = "gpu_stats ";

/// Tables of such a day. It has no host and no GPU models.
const TABLES: &str = "
CREATE TABLE daemon_run (id INTEGER PRIMARY KEY, started_at DATETIME NOT NULL, interval_seconds REAL NOT NULL);
CREATE TABLE gpu_sample (
    ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, util_pct INTEGER NOT NULL, run_id INTEGER, gpu_index INTEGER
);
CREATE TABLE proc_sample (
    ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, pid INTEGER NOT NULL, mem_used_mb INTEGER, loginuid_user TEXT,
    owner_user TEXT, run_id INTEGER, gpu_index INTEGER, process_type TEXT
);
";

/// Rows of one file, in order.
#[derive(Clone, Debug)]
pub struct StatsDay {
    /// Path of the file.
    pub path: PathBuf,
    /// Date from the file name, which identifies the day.
    pub date: Date,
    pub interval: StatsInterval,
    pub rows: Vec<StatsRow>,
}

/// Time that each row of a day covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsInterval {
    /// Given by the user: a day that was imported with another interval is refused.
    Said(Duration),
    /// Default for a day that was not imported before; other days keep their interval.
    Usual(Duration),
}

/// Handling of a day that was imported before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Add its new rows.
    Continue,
    /// Remove its rows and import it again from the start.
    Replace,
}

/// One row of gpu_stats that contains a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsRow {
    pub at: Timestamp,
    pub user: String,
    pub pid: u32,
    pub gpu: u32,
    pub usage: u32,
}

impl StatsRow {
    /// Time that the row covers if samples are this far apart.
    fn period(&self, interval: Duration) -> Period {
        Period::starting(self.at, interval.max(MINUTE))
    }
}

/// Result of importing a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsImported {
    pub imported: Imported,
    /// Number of rows skipped because the history already covers their time, from its own ticks or from
    /// gpu-usage-audit: they would count twice.
    pub left_out: u64,
    /// Time that each of its rows now covers.
    pub interval: Duration,
}

/// Resolution of the time of a row. The sample may have been taken at the end of that minute.
const MINUTE: Duration = Duration::from_secs(60);

/// Imports a day, or its new rows. A day is identified by its date, wherever its file is. If its known rows have
/// changed, the day is refused, or replaced as a whole. Returns `None` if it has no rows.
///
/// The decision to skip a row is made once, when the row is first seen before an imported row: data that the history
/// gains or loses later does not change earlier imports. The import is one transaction.
pub fn import_day(
    store: &mut Store,
    day: &StatsDay,
    again: Again,
    now: Timestamp,
    on_progress: OnProgress<'_>,
) -> Result<Option<StatsImported>, LegacyError> {
    store.in_one_change(|store| day.import(store, again, now, on_progress))
}

impl StatsDay {
    fn import(
        &self,
        store: &mut Store,
        again: Again,
        now: Timestamp,
        on_progress: OnProgress<'_>,
    ) -> Result<Option<StatsImported>, LegacyError> {
        let day = self;
        let known = find(store, day, again)?;
        let Some(first) = day.rows.first() else {
            return match known.last_row < 1 {
                true => Ok(None),
                false => Err(differs(1)),
            };
        };
        let interval = match (known.interval, day.interval) {
            (Some(known), StatsInterval::Said(asked)) if known != asked => {
                let path = day.path.clone();
                return Err(LegacyError::OtherInterval { path, known, asked });
            }
            (Some(known), _) => known,
            (None, StatsInterval::Said(interval) | StatsInterval::Usual(interval)) => interval,
        };
        if known.last_row > i64::try_from(day.rows.len()).unwrap_or(i64::MAX) {
            return Err(differs(known.last_row));
        }
        let periods = day.rows.iter().map(|row| row.period(interval));
        let covered = store.covered(periods.fold(first.period(interval), Period::hull))?;
        let numbered = (1..).zip(&day.rows);
        let taken: Vec<(i64, &StatsRow)> = numbered
            .filter(|(number, row)| match *number <= known.last_row {
                true => known.has(*number),
                false => !covered.touches(row.period(interval)),
            })
            .collect();
        let left_out = (day.rows.len() - taken.len()) as u64;
        let mut imported = Imported::default();
        if !taken.is_empty() {
            let read = LegacyError::read(&day.path);
            let started = (day.number(), first.at, interval);
            let laid_out = lay_out(started, &taken).map_err(&read)?;
            let old = OldFile::in_memory(&day.path, day.fact(), laid_out).map_err(&read)?;
            imported = import_open(&old, store, now, on_progress)?;
        }
        Ok(Some(StatsImported {
            imported,
            left_out,
            interval,
        }))
    }

    /// Fact that identifies the day (part of the file format).
    fn fact(&self) -> String {
        format!("{FACT}{}", self.date)
    }

    /// Number of its only run: the date, as in the name of its file.
    fn number(&self) -> i64 {
        let (year, month, day) = (self.date.year(), self.date.month(), self.date.day());
        i64::from(year) * 10_000 + i64::from(month) * 100 + i64::from(day)
    }
}

/// Returns the earlier import of a day. With [`Again::Replace`], removes it and returns the default.
fn find(store: &Store, day: &StatsDay, again: Again) -> Result<KnownImport, LegacyError> {
    let known = store.known_import(&day.fact(), day.number())?;
    // Earlier versions identified a day by its first row.
    let strays = store.hostless_imports(&day.path, FACT)?;
    if known.as_ref().is_some_and(|known| known.is_erased) {
        return Err(LegacyError::Erased);
    }
    if again == Again::Replace {
        for source in known.iter().map(|known| known.source).chain(strays) {
            store.remove_import(source)?;
        }
        return Ok(KnownImport::default());
    }
    match strays.is_empty() {
        true => Ok(known.unwrap_or_default()),
        false => Err(differs(1)),
    }
}

fn differs(row: i64) -> LegacyError {
    LegacyError::Differs {
        table: GpuRow::TABLE,
        row,
    }
}

/// Lays out rows as an old history. Each keeps its number in the file, even if rows before it were skipped.
fn lay_out(
    (run, began, interval): (i64, Timestamp, Duration),
    rows: &[(i64, &StatsRow)],
) -> Result<Connection, rusqlite::Error> {
    let mut connection = Connection::open_in_memory()?;
    connection.execute_batch(TABLES)?;
    let change = connection.transaction()?;
    change.execute(
        "INSERT INTO daemon_run (id, started_at, interval_seconds) VALUES (?1, ?2, ?3)",
        (run, old_text(began), interval.as_secs_f64()),
    )?;
    {
        let mut gpu_row = change.prepare(
            "INSERT INTO gpu_sample (rowid, ts, gpu_uuid, util_pct, run_id, gpu_index) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        let mut process = change.prepare(
            "INSERT INTO proc_sample (rowid, ts, gpu_uuid, pid, owner_user, run_id, gpu_index, process_type) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        for (number, row) in rows {
            let (at, gpu) = (old_text(row.at), stats_gpu(row.gpu));
            gpu_row.execute((number, &at, &gpu, row.usage, run, row.gpu))?;
            process.execute((
                number,
                &at,
                &gpu,
                row.pid,
                &row.user,
                run,
                row.gpu,
                OF_GPU_STATS,
            ))?;
        }
    }
    change.commit()?;
    Ok(connection)
}
