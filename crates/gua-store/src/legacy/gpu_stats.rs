//! Days of gpu_stats, imported like old histories: laid out as one in memory, and then taken in row by row.
//!
//! What gpu_stats does not write stays unknown: no UUID, so that a card is called by its number; no memory, no login, no
//! kind of process; no utilisation of a card without a process, so that such a card has no row at that time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::legacy::stats_card;
use jiff::Timestamp;
use jiff::civil::Date;
use rusqlite::{Connection, OptionalExtension as _};

use super::covered::Covered;
use super::error::LegacyError;
use super::import::{Imported, OnProgress, import};
use super::open::OldFile;
use super::rows::{CardRow, OldRow as _};
use super::stamp::old_text;
use crate::store::Store;

/// What stands in the place of a process's kind: it is not known, and gpu_stats wrote the row.
pub(super) const OF_GPU_STATS: &str = "gpu_stats";

/// The tables that such a day has. There is no host in it, and nothing is known of the models of its cards.
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

/// The rows of one file, in its order.
#[derive(Clone, Debug)]
pub struct StatsDay {
    /// Where it lies.
    pub path: PathBuf,
    /// Which day it is, as its name says: what it is known by.
    pub date: Date,
    pub interval: StatsInterval,
    pub rows: Vec<StatsRow>,
}

/// What each row of a day stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsInterval {
    /// Somebody said so: a day that was imported as something else is refused.
    Said(Duration),
    /// For a day that was not imported before; another keeps its own.
    Usual(Duration),
}

/// What is done with a day that was imported before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// What is new in it is added.
    Continue,
    /// Its rows go, and it is imported as if for the first time.
    Replace,
}

/// One row of gpu_stats that names a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsRow {
    pub at: Timestamp,
    pub user: String,
    pub pid: u32,
    pub gpu: u32,
    pub usage: u32,
}

/// What became of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsImported {
    pub imported: Imported,
    /// Rows of times that the history knows of by itself, or from gpu-usage-audit: they would count twice.
    pub left_out: u64,
    /// What each of its rows stands for from now on.
    pub interval: Duration,
}

/// Rows have the minute of their look, which may have been at its end.
const MINUTE: Duration = Duration::from_secs(60);

impl Store {
    /// Imports a day, or what is new in it. A day is known by its date, wherever its file lies: one whose known rows are
    /// not the same any more is refused, or replaced as a whole. `None` where it has no row.
    ///
    /// Whether a row is left out is decided once, when it is first seen before a row that is taken: what the history
    /// learns or forgets later changes nothing that was imported. All of it is one change of the history, or none.
    pub fn import_gpu_stats(
        &mut self,
        day: &StatsDay,
        again: Again,
        now: Timestamp,
        on_progress: OnProgress<'_>,
    ) -> Result<Option<StatsImported>, LegacyError> {
        let history = &mut self.connection;
        let run =
            |history: &Connection, sql| history.execute_batch(sql).map_err(LegacyError::Write);
        run(history, "BEGIN IMMEDIATE")?;
        let imported = day.import(history, again, now, on_progress);
        match &imported {
            Ok(_) => run(history, "COMMIT")?,
            // What went wrong is told, and not that there is nothing left to undo.
            Err(_) => drop(run(history, "ROLLBACK")),
        }
        imported
    }
}

impl StatsDay {
    fn import(
        &self,
        history: &mut Connection,
        again: Again,
        now: Timestamp,
        on_progress: OnProgress<'_>,
    ) -> Result<Option<StatsImported>, LegacyError> {
        let day = self;
        let known = KnownDay::find(history, day, again)?;
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
        let covered = Covered::of(history, ends(&day.rows, interval))?;
        let numbered = (1..).zip(&day.rows);
        let taken: Vec<(i64, &StatsRow)> = numbered
            .filter(|(number, row)| match *number <= known.last_row {
                true => known.has(*number),
                false => {
                    let (from, to) = ends(std::slice::from_ref(*row), interval);
                    !covered.touches(from, to)
                }
            })
            .collect();
        let left_out = (day.rows.len() - taken.len()) as u64;
        let mut imported = Imported::default();
        if !taken.is_empty() {
            let read = |source| LegacyError::Read {
                path: day.path.clone(),
                source,
            };
            let started = (day.number(), first.at, interval);
            let laid_out = lay_out(started, &taken).map_err(read)?;
            let old = OldFile::in_memory(&day.path, day.fact(), laid_out).map_err(read)?;
            imported = import(&old, history, now, on_progress)?;
        }
        Ok(Some(StatsImported {
            imported,
            left_out,
            interval,
        }))
    }

    /// What it is known by (part of the file format).
    fn fact(&self) -> String {
        format!("gpu_stats {}", self.date)
    }

    /// The number of its only run: the date as in the name of its file.
    fn number(&self) -> i64 {
        let (year, month, day) = (self.date.year(), self.date.month(), self.date.day());
        i64::from(year) * 10_000 + i64::from(month) * 100 + i64::from(day)
    }
}

/// From the first moment that any of these rows stands for to the last.
fn ends(rows: &[StatsRow], interval: Duration) -> (i64, i64) {
    let times = || rows.iter().map(|row| row.at.as_microsecond());
    let stands_for = i64::try_from(interval.max(MINUTE).as_micros()).unwrap_or(i64::MAX);
    let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    (first, last.saturating_add(stands_for))
}

/// What is here of a day that was imported before.
#[derive(Debug)]
struct KnownDay {
    source: i64,
    /// `None` where the import did not come to its end.
    interval: Option<Duration>,
    last_row: i64,
    /// The first and the last row of each block, in order.
    blocks: Vec<(i64, i64)>,
}

impl Default for KnownDay {
    fn default() -> Self {
        Self {
            source: 0,
            interval: None,
            last_row: i64::MIN,
            blocks: Vec::new(),
        }
    }
}

impl KnownDay {
    /// What is here of a day, or nothing once that was removed to be replaced.
    fn find(history: &Connection, day: &StatsDay, again: Again) -> Result<Self, LegacyError> {
        let found = Self::by_fact(history, day).map_err(LegacyError::Write)?;
        let strays = strays(history, day)?;
        if found.as_ref().is_some_and(|(_, is_erased)| *is_erased) {
            return Err(LegacyError::Erased);
        }
        let known = found.map(|(known, _)| known);
        if again == Again::Replace {
            for source in known.iter().map(|known| known.source).chain(strays) {
                remove(history, source).map_err(LegacyError::Write)?;
            }
            return Ok(Self::default());
        }
        match strays.is_empty() {
            true => Ok(known.unwrap_or_default()),
            false => Err(differs(1)),
        }
    }

    /// With whether a person was erased from it.
    fn by_fact(
        history: &Connection,
        day: &StatsDay,
    ) -> Result<Option<(Self, bool)>, rusqlite::Error> {
        let found = history
            .query_row(
                "SELECT id, last_card_row, erased, \
                 (SELECT interval_seconds FROM old_run WHERE old_run.source = id AND row = ?2) \
                 FROM old_source JOIN old_source_fact ON source = id WHERE fact = ?1",
                (day.fact(), day.number()),
                |row| {
                    let seconds: Option<f64> = row.get(3)?;
                    let known = Self {
                        source: row.get(0)?,
                        interval: seconds.and_then(|it| Duration::try_from_secs_f64(it).ok()),
                        last_row: row.get(1)?,
                        blocks: Vec::new(),
                    };
                    Ok((known, row.get(2)?))
                },
            )
            .optional()?;
        let Some((mut known, is_erased)) = found else {
            return Ok(None);
        };
        let mut blocks = history.prepare_cached(
            "SELECT first_row, first_row + rows - 1 FROM old_card_block WHERE source = ?1 ORDER BY first_row",
        )?;
        let blocks = blocks.query_map([known.source], |row| Ok((row.get(0)?, row.get(1)?)))?;
        known.blocks = blocks.collect::<Result<_, _>>()?;
        Ok(Some((known, is_erased)))
    }

    fn has(&self, row: i64) -> bool {
        let block = self.blocks.partition_point(|(_, last)| *last < row);
        self.blocks
            .get(block)
            .is_some_and(|(first, _)| *first <= row)
    }
}

fn differs(row: i64) -> LegacyError {
    LegacyError::Differs {
        table: CardRow::TABLE,
        row,
    }
}

/// What earlier versions imported of the same day and knew by its first row: sources of gpu_stats by the name of their
/// file.
fn strays(history: &Connection, day: &StatsDay) -> Result<Vec<i64>, LegacyError> {
    let find = || -> Result<Vec<(i64, String)>, rusqlite::Error> {
        let mut query = history.prepare_cached(
            "SELECT id, path FROM old_source WHERE columns NOT LIKE '%host.%' AND NOT EXISTS \
             (SELECT 1 FROM old_source_fact WHERE source = id AND fact LIKE 'gpu_stats %')",
        )?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    };
    let name = day.path.file_name();
    let of_this_name = |(id, path): (i64, String)| {
        (name.is_some() && Path::new(&path).file_name() == name).then_some(id)
    };
    let found = find().map_err(LegacyError::Write)?;
    Ok(found.into_iter().filter_map(of_this_name).collect())
}

/// Takes away all that was imported of a source.
fn remove(history: &Connection, source: i64) -> Result<(), rusqlite::Error> {
    for table in [
        "old_card_block",
        "old_process_block",
        "old_run",
        "old_source_fact",
    ] {
        let sql = format!("DELETE FROM {table} WHERE source = ?1");
        history.execute(&sql, [source])?;
    }
    history.execute("DELETE FROM old_source WHERE id = ?1", [source])?;
    Ok(())
}

/// Rows as an old history: each by its number in the file, whichever were left out.
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
        let mut card = change.prepare(
            "INSERT INTO gpu_sample (rowid, ts, gpu_uuid, util_pct, run_id, gpu_index) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        let mut process = change.prepare(
            "INSERT INTO proc_sample (rowid, ts, gpu_uuid, pid, owner_user, run_id, gpu_index, process_type) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        for (number, row) in rows {
            let (at, gpu) = (old_text(row.at), stats_card(row.gpu));
            card.execute((number, &at, &gpu, row.usage, run, row.gpu))?;
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
