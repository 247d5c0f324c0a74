//! Refusals: requests for GPUs that were not granted. The request itself is reported by the requesting program; the
//! holders of the GPUs at that time are looked up in the ticks.

use std::collections::BTreeSet;

use gua_model::classify::holders;
use gua_model::refusal::{Blocking, Refusal, RefusalOutcome, RequestRecord};
use gua_model::{GpuUuid, OwnerKey, Period, RollUp, Thresholds, Uid, User, classify, sane};
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, Row, params};

use crate::error::{ReadError, WriteError};
use crate::history::{History, at};
use crate::intake::{self, Budget};
use crate::maintain::into_write;
use crate::names;
use crate::sql::{self, undamaged_rows};
use crate::store::{Store, meta, set_meta};
use crate::ticks;

/// Number of refusals that are stored per user and day, so that a retry loop cannot fill the disk.
const BUDGET: Budget = Budget {
    name: "received_refusals",
    most: 200,
};

/// Maximum age of the tick used to look up the holders.
const OLDEST_TICK: i64 = 600_000_000;

/// Time up to which refusals are rejected, because a user was erased after them.
const REFUSALS_AFTER: &str = "refusals_after";

/// A refusal to be stored.
#[derive(Clone, Debug)]
pub struct NewRefusal {
    pub request: RequestRecord,
    /// Identifier given by the requesting program; each is stored once.
    pub event: String,
    /// GPUs that the requesting program found in use.
    pub gpus: Vec<GpuUuid>,
}

/// Whether a record was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    Yes,
    /// The record is a duplicate, the user's daily limit is reached, or a user has been erased since.
    No,
}

impl Store {
    /// Stores a refusal that arrived at a time, with the holders of its GPUs when it was asked, according to the ticks.
    pub fn record_refusal(
        &mut self,
        new: &NewRefusal,
        arrived: Timestamp,
    ) -> Result<Kept, WriteError> {
        let thresholds = self.thresholds()?;
        let transaction = sql::begin(&mut self.connection)?;
        let asked = new.request.at.as_microsecond();
        if !is_wanted(&transaction, new, asked, arrived)? {
            return Ok(Kept::No);
        }
        let RequestRecord {
            requester,
            wanted,
            had,
            outcome,
            waited,
            ..
        } = &new.request;
        let person = names::person(&transaction, requester, asked)?.cast_signed();
        let waited = i64::try_from(waited.as_micros()).unwrap_or(i64::MAX);
        transaction.execute(
            "INSERT INTO refusal (at, asker, event, wanted, had, outcome, waited) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![asked, person, new.event, wanted, had, outcome.as_str(), waited],
        )?;
        let refusal = transaction.last_insert_rowid();
        let seen = seen(&transaction, asked, &new.gpus, &thresholds).map_err(into_write)?;
        for (gpu, holder, is_idle) in seen {
            let Some(person) = names::owner(&transaction, &holder, asked)? else {
                continue;
            };
            transaction.execute(
                "INSERT OR IGNORE INTO refusal_card (refusal, card, holder, idle)
                 SELECT ?1, id, ?3, ?4 FROM card WHERE uuid = ?2",
                params![refusal, gpu.as_str(), person.cast_signed(), is_idle],
            )?;
        }
        transaction.commit()?;
        Ok(Kept::Yes)
    }
}

fn is_wanted(
    connection: &Connection,
    new: &NewRefusal,
    asked: i64,
    arrived: Timestamp,
) -> rusqlite::Result<bool> {
    let uid = new.request.requester.uid.0;
    if meta(connection, REFUSALS_AFTER)?.is_some_and(|after| asked <= after) {
        return Ok(false);
    }
    let known = "SELECT 1 FROM refusal JOIN owner AS person ON person.id = asker WHERE at = ?1 AND event = ?2 AND uid = ?3";
    let known: Option<i64> = sql::find(connection, known, params![asked, new.event, uid])?;
    Ok(known.is_none() && intake::admits(connection, &BUDGET, uid, arrived, 1)?)
}

/// Holders of these GPUs at a time according to the last tick before it, and whether each GPU was idle-held.
fn seen(
    connection: &Connection,
    asked: i64,
    gpus: &[GpuUuid],
    thresholds: &Thresholds,
) -> Result<Vec<(GpuUuid, OwnerKey, bool)>, ReadError> {
    let recent = (asked.saturating_sub(OLDEST_TICK), asked.saturating_add(1));
    let last = ticks::last_readable(connection, recent)?;
    let all = last.iter().flat_map(|(_, last)| &last.tick.sample.gpus);
    let mut found = Vec::new();
    for gpu in all.filter(|gpu| gpus.contains(&gpu.uuid)) {
        let is_idle = classify(gpu, thresholds, None).state.roll_up() == Some(RollUp::IdleHeld);
        let mut known = BTreeSet::new();
        for process in holders(gpu, thresholds) {
            let identity = process.identity.as_ref().ok();
            if let Some(owner) = identity.and_then(|identity| identity.owner())
                && known.insert(owner.who.clone())
            {
                found.push((gpu.uuid.clone(), owner.who, is_idle));
            }
        }
    }
    Ok(found)
}

impl History {
    /// Refusals of requests made in a window, ordered by time.
    pub fn refusals(&self, window: Period) -> Result<Vec<Refusal>, ReadError> {
        self.read(|connection| {
            let sql = format!("{COLUMNS} WHERE at >= ?1 AND at < ?2 ORDER BY at, refusal.id");
            undamaged_rows(connection, &sql, sane::bounds(window), |row| {
                Ok(Refusal {
                    request: request(row)?,
                    blocked_by: blocked_by(connection, row.get(0)?)?,
                })
            })
        })
    }
}

/// Columns that [`request`] reads.
pub(crate) const COLUMNS: &str =
    "SELECT refusal.id, at, uid, name, wanted, had, outcome, waited FROM refusal
     JOIN owner AS person ON person.id = asker";

pub(crate) fn request(row: &Row<'_>) -> Result<RequestRecord, ReadError> {
    let outcome: String = row.get(6)?;
    Ok(RequestRecord {
        at: at(row.get(1)?)?,
        requester: User {
            uid: Uid(row.get(2)?),
            name: row.get(3)?,
        },
        wanted: row.get(4)?,
        had: row.get(5)?,
        outcome: RefusalOutcome::from_word(&outcome).ok_or(ReadError::Value("outcome"))?,
        waited: SignedDuration::from_micros(row.get(7)?),
    })
}

const BLOCKING: &str =
    "SELECT uuid, idle, kind, uid, owner.name FROM refusal_card JOIN card ON card.id = card
     JOIN owner ON owner.id = holder WHERE refusal = ?1 ORDER BY uuid, uid, owner.name";

fn blocked_by(connection: &Connection, refusal: i64) -> Result<Vec<Blocking>, ReadError> {
    undamaged_rows(connection, BLOCKING, [refusal], |row| {
        let uuid: String = row.get(0)?;
        let holder = names::owner_from(row.get(2)?, row.get(3)?, row.get(4)?);
        Ok(Blocking {
            gpu: uuid.parse().map_err(|_| ReadError::Value("uuid"))?,
            holder: holder.ok_or(ReadError::Value("owner"))?,
            is_idle: row.get(1)?,
        })
    })
}

/// Replaces one holder by another, and removes the duplicates of GPUs that both held.
pub(crate) fn merge_holders(
    connection: &Connection,
    other: i64,
    kept: i64,
) -> rusqlite::Result<()> {
    let update = "UPDATE OR IGNORE refusal_card SET holder = ?2 WHERE holder = ?1";
    sql::run(connection, update, [other, kept])?;
    let delete = "DELETE FROM refusal_card WHERE holder = ?1";
    sql::run(connection, delete, [other]).map(drop)
}

/// Rejects all refusals up to the last stored one, so that the records of an erased user are not imported again from
/// the files of their program.
pub(crate) fn close_the_book(connection: &Connection) -> rusqlite::Result<()> {
    match sql::value(connection, "SELECT max(at) FROM refusal", [])? {
        Some(last) => set_meta(connection, REFUSALS_AFTER, last),
        None => Ok(()),
    }
}
