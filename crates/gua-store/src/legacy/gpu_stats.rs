//! Days of gpu_stats, imported like old histories: laid out as one in memory, and then taken in row by row.
//!
//! What gpu_stats does not write stays unknown: no UUID, so that a card is called by its number; no memory, no login, no
//! kind of process; no utilisation of a card without a process, so that such a card has no row at that time.

use std::path::PathBuf;
use std::time::Duration;

use gua_model::legacy::stats_card;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _};

use super::covered::Covered;
use super::error::LegacyError;
use super::import::{Imported, OnProgress, import, run_fact};
use super::open::OldFile;
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
    /// Imports a day, or what is new in it. A day is known by its first row, wherever its file lies. `None` where it has
    /// no row.
    ///
    /// Whether a row is left out is decided once, when it is first seen before a row that is taken: what the history
    /// learns or forgets later changes nothing that was imported.
    pub fn import_gpu_stats(
        &mut self,
        day: &StatsDay,
        again: Again,
        now: Timestamp,
        on_progress: OnProgress<'_>,
    ) -> Result<Option<StatsImported>, LegacyError> {
        let Some(first) = day.rows.first() else {
            return Ok(None);
        };
        let run = number(first);
        let mut known = KnownDay::find(&self.connection, run, first)?;
        if let Some(old) = known.take_if(|_| again == Again::Replace) {
            old.remove(&mut self.connection)?;
        }
        let known = known.unwrap_or_default();
        let interval = match (known.interval, day.interval) {
            (Some(known), StatsInterval::Said(asked)) if known != asked => {
                let path = day.path.clone();
                return Err(LegacyError::OtherInterval { path, known, asked });
            }
            (Some(known), _) => known,
            (None, StatsInterval::Said(interval) | StatsInterval::Usual(interval)) => interval,
        };
        let covered = Covered::of(&self.connection, ends(&day.rows, interval))?;
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
            let started = (run, first.at, interval);
            let laid_out = lay_out(started, &taken).map_err(read)?;
            let old = OldFile::in_memory(&day.path, laid_out).map_err(read)?;
            imported = import(&old, &mut self.connection, now, on_progress)?;
        }
        Ok(Some(StatsImported {
            imported,
            left_out,
            interval,
        }))
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
    fn find(history: &Connection, run: i64, first: &StatsRow) -> Result<Option<Self>, LegacyError> {
        let fact = run_fact(run, &old_text(first.at));
        let find = || -> Result<Option<(Self, bool)>, rusqlite::Error> {
            let found = history
                .query_row(
                    "SELECT id, last_card_row, erased, \
                     (SELECT interval_seconds FROM old_run WHERE old_run.source = id AND row = ?2) \
                     FROM old_source JOIN old_source_fact ON source = id WHERE fact = ?1",
                    (&fact, run),
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
        };
        match find().map_err(LegacyError::Write)? {
            Some((_, true)) => Err(LegacyError::Erased),
            found => Ok(found.map(|(known, _)| known)),
        }
    }

    fn has(&self, row: i64) -> bool {
        let block = self.blocks.partition_point(|(_, last)| *last < row);
        self.blocks
            .get(block)
            .is_some_and(|(first, _)| *first <= row)
    }

    /// Takes all rows of the day away; what it is known by stays.
    fn remove(&self, history: &mut Connection) -> Result<(), LegacyError> {
        let mut remove = || -> Result<(), rusqlite::Error> {
            let change = history.transaction()?;
            for table in ["old_card_block", "old_process_block", "old_run"] {
                let sql = format!("DELETE FROM {table} WHERE source = ?1");
                change.execute(&sql, [self.source])?;
            }
            change.execute(
                "UPDATE old_source SET last_card_row = ?2, last_process_row = ?2, complete = 0 WHERE id = ?1",
                (self.source, i64::MIN),
            )?;
            change.commit()
        };
        remove().map_err(LegacyError::Write)
    }
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

/// A number that tells one day's first row from another's (FNV-1a over its parts; part of the file format).
fn number(row: &StatsRow) -> i64 {
    let text = format!(
        "{} {} {} {}",
        row.at.as_second(),
        row.user,
        row.pid,
        row.gpu
    );
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash >> 1).cast_signed()
}
