//! Days of gpu_stats, imported like old histories: laid out as one in memory, and then taken in row by row.
//!
//! What gpu_stats does not write stays unknown: no UUID, so that a card is called by its number; no memory, no login, no
//! kind of process; no utilisation of a card without a process, so that such a card has no row at that time.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Connection;

use super::error::LegacyError;
use super::import::{Imported, OnProgress, import};
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
    /// What each row stands for.
    pub interval: Duration,
    pub rows: Vec<StatsRow>,
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

impl Store {
    /// Imports a day, or what is new in it. A day is known by its first row, wherever its file lies.
    pub fn import_gpu_stats(
        &mut self,
        day: &StatsDay,
        now: Timestamp,
        on_progress: OnProgress<'_>,
    ) -> Result<Imported, LegacyError> {
        let Some(first) = day.rows.first() else {
            return Ok(Imported::default());
        };
        let read = |source| LegacyError::Read {
            path: day.path.clone(),
            source,
        };
        let laid_out = lay_out(day, first).map_err(read)?;
        let old = OldFile::in_memory(&day.path, laid_out).map_err(read)?;
        import(&old, &mut self.connection, now, on_progress)
    }
}

fn lay_out(day: &StatsDay, first: &StatsRow) -> Result<Connection, rusqlite::Error> {
    let mut connection = Connection::open_in_memory()?;
    connection.execute_batch(TABLES)?;
    let change = connection.transaction()?;
    let run = number(first);
    change.execute(
        "INSERT INTO daemon_run (id, started_at, interval_seconds) VALUES (?1, ?2, ?3)",
        (run, old_text(first.at), day.interval.as_secs_f64()),
    )?;
    {
        let mut card = change.prepare(
            "INSERT INTO gpu_sample (ts, gpu_uuid, util_pct, run_id, gpu_index) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        let mut process = change.prepare(
            "INSERT INTO proc_sample (ts, gpu_uuid, pid, owner_user, run_id, gpu_index, process_type) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        for row in &day.rows {
            let (at, gpu) = (old_text(row.at), format!("gpu_stats-{}", row.gpu));
            card.execute((&at, &gpu, row.usage, run, row.gpu))?;
            process.execute((&at, &gpu, row.pid, &row.user, run, row.gpu, OF_GPU_STATS))?;
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
