//! Watched jobs (`gua run`), as reported by the programs of their users. The reported values are stored unverified; the
//! user is known to the collector from the owner of the reporting file.

use gua_model::{GpuUuid, Period, Uid, User, sane};
use gua_query::WatchedRun;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::error::{ReadError, WriteError};
use crate::history::{History, at};
use crate::intake::{self, Budget};
use crate::names;
use crate::refusal::Kept;
use crate::sql::{self, undamaged_rows};
use crate::store::{Store, meta, set_meta};

/// Bytes of runs that are stored per user and day, so that neither a loop of short jobs nor long summaries fill the disk.
const BUDGET: Budget = Budget {
    name: "received_runs",
    most: 8 << 20,
};
/// Bytes that every run costs: about 1,000 runs a day, whatever their size.
const MIN_BYTES: usize = 8 << 10;
/// Maximum number of runs that are deleted at once.
const DROPPED_AT_ONCE: u32 = 2000;

/// Time up to which starting runs are rejected, because a user was erased after them.
const RUNS_AFTER: &str = "watched_runs_after";

impl Store {
    /// Stores a run that arrived at a time, or updates it if it is already stored.
    pub fn record_watched_run(
        &mut self,
        run: &WatchedRun,
        arrived: Timestamp,
    ) -> Result<Kept, WriteError> {
        let transaction = sql::begin(&mut self.connection)?;
        let started = run.started.as_microsecond();
        let uid = run.owner.uid.0;
        if meta(&transaction, RUNS_AFTER)?.is_some_and(|after| started <= after) {
            return Ok(Kept::No);
        }
        let known: Option<(i64, bool)> = transaction
            .prepare_cached(
                "SELECT watched_run.id, ended IS NOT NULL FROM watched_run JOIN owner AS person ON person.id = watched_run.owner
                 WHERE started = ?1 AND run = ?2 AND uid = ?3",
            )?
            .query_row(params![started, run.run, uid], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let ended = run.ended.map(Timestamp::as_microsecond);
        let gpus: Vec<&str> = run.gpus.iter().map(GpuUuid::as_str).collect();
        let gpus = gpus.join(" ");
        let bytes = run.run.len() + run.name.len() + gpus.len() + run.summary.len();
        let admits = |bytes| intake::admits(&transaction, &BUDGET, uid, arrived, bytes);
        match known {
            Some((id, false)) if ended.is_some() => {
                let end = "UPDATE watched_run SET ended = ?2, exit_code = ?3 WHERE id = ?1";
                sql::run(&transaction, end, params![id, ended, run.exit_code])?;
                // The end is stored in any case: without it, the run would seem lost.
                if admits(bytes.saturating_sub(MIN_BYTES))? {
                    let rest = "UPDATE watched_run SET cards = ?2, summary = ?3 WHERE id = ?1";
                    sql::run(&transaction, rest, params![id, gpus, run.summary])?;
                }
            }
            Some(_) => return Ok(Kept::No),
            None if !admits(bytes.max(MIN_BYTES))? => return Ok(Kept::No),
            None => {
                let person = names::person(&transaction, &run.owner, started)?.cast_signed();
                sql::run(
                    &transaction,
                    "INSERT INTO watched_run (owner, run, name, started, ended, exit_code, cards, summary)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                    params![
                        person,
                        run.run,
                        run.name,
                        started,
                        ended,
                        run.exit_code,
                        gpus,
                        run.summary
                    ],
                )?;
            }
        }
        transaction.commit()?;
        Ok(Kept::Yes)
    }
}

/// Deletes runs that ended before a time, or that never ended and began before it. Returns whether there may be more.
pub(crate) fn drop_before(connection: &Connection, limit: i64) -> rusqlite::Result<bool> {
    let delete = "DELETE FROM watched_run WHERE id IN
         (SELECT id FROM watched_run WHERE started < ?1 AND ifnull(ended, started) < ?1 LIMIT ?2)";
    let dropped = sql::run(connection, delete, params![limit, DROPPED_AT_ONCE])?;
    Ok(dropped == DROPPED_AT_ONCE as usize)
}

pub(crate) const COLUMNS: &str =
    "SELECT run, uid, person.name, watched_run.name, started, ended, exit_code, cards, summary,
                       watched_run.id AS id FROM watched_run JOIN owner AS person ON person.id = watched_run.owner";

const LATEST_FIRST: &str = "ORDER BY started DESC, watched_run.id DESC";

impl History {
    /// Runs that began in a window, the latest first; at most `most`.
    pub fn watched_runs(&self, window: Period, most: u32) -> Result<Vec<WatchedRun>, ReadError> {
        self.read(|connection| {
            let sql =
                format!("{COLUMNS} WHERE started >= ?1 AND started < ?2 {LATEST_FIRST} LIMIT ?3");
            let (from, to) = sane::bounds(window);
            undamaged_rows(connection, &sql, (from, to, most), from_row)
        })
    }

    /// Runs whose name begins with `prefix`, the latest first. Several users can have runs with the same name.
    pub fn runs_with_prefix(&self, prefix: &str) -> Result<Vec<WatchedRun>, ReadError> {
        const MAX_ROWS: u32 = 16;
        self.read(|connection| {
            let sql = format!(
                "{COLUMNS} WHERE substr(run, 1, length(?1)) = ?1 AND started >= ?2 AND started < ?3
                 {LATEST_FIRST} LIMIT {MAX_ROWS}"
            );
            undamaged_rows(connection, &sql, (prefix, sane::FIRST, sane::END), from_row)
        })
    }
}

pub(crate) fn from_row(row: &Row<'_>) -> Result<WatchedRun, ReadError> {
    let gpus: String = row.get(7)?;
    Ok(WatchedRun {
        run: row.get(0)?,
        owner: User {
            uid: Uid(row.get(1)?),
            name: row.get(2)?,
        },
        name: row.get(3)?,
        started: at(row.get(4)?)?,
        ended: row.get::<_, Option<i64>>(5)?.and_then(sane::time),
        exit_code: row.get(6)?,
        gpus: gpus
            .split_ascii_whitespace()
            .map(|uuid| uuid.parse().map_err(|_| ReadError::Value("list of GPUs")))
            .collect::<Result<_, _>>()?,
        summary: row.get(8)?,
    })
}

/// Deletes a user's runs, and rejects earlier ones, so that they are not imported again from the files of their
/// program.
pub(crate) fn erase(connection: &Connection, persons: &[i64]) -> rusqlite::Result<()> {
    if let Some(last) = sql::value(connection, "SELECT max(started) FROM watched_run", [])? {
        set_meta(connection, RUNS_AFTER, last)?;
    }
    for person in persons {
        sql::run(
            connection,
            "DELETE FROM watched_run WHERE owner = ?1",
            [person],
        )?;
    }
    Ok(())
}
