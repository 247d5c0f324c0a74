//! Interning of names for the writer. Rows are found or created in the transaction of the tick.

use std::collections::HashMap;

use gua_model::id::ProcessKey;
use gua_model::{GpuUuid, Identity, Uid, User};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::codec;
use crate::lookup::{identity_from_row, reason};
use crate::turn::Turn;

/// Cache of recently used ids. It is cleared when a transaction fails, since the rows were then not written.
#[derive(Debug, Default)]
pub(crate) struct Known {
    cards: HashMap<GpuUuid, u64>,
    texts: HashMap<String, u64>,
    /// Processes of the previous tick and of the current one. Others are looked up in their table.
    processes: HashMap<ProcessKey, Remembered>,
    /// Sequence number of the current tick.
    tick: u64,
}

/// A process as it was last written.
#[derive(Debug)]
struct Remembered {
    identity: Identity,
    id: u64,
    /// Sequence number of the last tick that contains it.
    tick: u64,
}

impl Known {
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Completes a tick: only its processes stay cached.
    pub(crate) fn end_tick(&mut self) {
        let tick = self.tick;
        self.processes.retain(|_, known| known.tick == tick);
        self.tick += 1;
    }
}

pub(crate) struct Interner<'a, 'c> {
    pub(crate) turn: &'a mut Turn<'c>,
    pub(crate) known: &'a mut Known,
    pub(crate) at: i64,
}

impl codec::Names for Interner<'_, '_> {
    type Error = rusqlite::Error;

    fn card(&mut self, uuid: &GpuUuid) -> rusqlite::Result<u64> {
        if let Some(id) = self.known.cards.get(uuid) {
            return Ok(*id);
        }
        let id = card(self.turn.begun()?, uuid, self.at)?;
        self.known.cards.insert(uuid.clone(), id);
        Ok(id)
    }

    fn process(&mut self, identity: &Identity) -> rusqlite::Result<u64> {
        let tick = self.known.tick;
        if let Some(known) = self.known.processes.get_mut(&identity.key)
            && known.identity == *identity
        {
            known.tick = tick;
            return Ok(known.id);
        }
        let id = process(self.turn.begun()?, identity, self.at)?;
        let remembered = Remembered {
            identity: identity.clone(),
            id,
            tick,
        };
        self.known.processes.insert(identity.key, remembered);
        Ok(id)
    }

    fn text(&mut self, text: &str) -> rusqlite::Result<u64> {
        if let Some(id) = self.known.texts.get(text) {
            return Ok(*id);
        }
        let id = find_or_insert(
            self.turn.begun()?,
            "SELECT id FROM text WHERE text = ?1",
            "INSERT INTO text (text) VALUES (?1)",
            [text],
        )?;
        self.known.texts.insert(text.to_owned(), id);
        Ok(id)
    }
}

/// Id of a GPU; inserts the GPU if it is new.
pub(crate) fn card(connection: &Connection, uuid: &GpuUuid, at: i64) -> rusqlite::Result<u64> {
    let found = connection
        .prepare_cached("SELECT id FROM card WHERE uuid = ?1")?
        .query_row([uuid.as_str()], |row| row.get::<_, i64>(0))
        .optional()?;
    match found {
        Some(id) => Ok(id.cast_unsigned()),
        None => {
            connection
                .prepare_cached("INSERT INTO card (uuid, first_seen) VALUES (?1, ?2)")?
                .execute(params![uuid.as_str(), at])?;
            Ok(connection.last_insert_rowid().cast_unsigned())
        }
    }
}

/// Moves the first sight of a GPU back to a tick that lies before it. The clock may have been ahead when the GPU was
/// first seen, and its coverage is counted from its first sight.
pub(crate) fn note_sight(connection: &Connection, uuid: &GpuUuid, at: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE card SET first_seen = ?2 WHERE uuid = ?1 AND first_seen > ?2")?
        .execute(params![uuid.as_str(), at])?;
    Ok(())
}

/// Id of the user with exactly this name. A new user is inserted, first seen at `at`.
pub(crate) fn person(connection: &Connection, user: &User, at: i64) -> rusqlite::Result<u64> {
    let found = connection
        .prepare_cached("SELECT id FROM owner WHERE kind = 0 AND uid = ?1 AND name IS ?2")?
        .query_row(params![user.uid.0, user.name], |row| row.get::<_, i64>(0))
        .optional()?;
    if let Some(id) = found {
        return Ok(id.cast_unsigned());
    }
    connection
        .prepare_cached("INSERT INTO owner (kind, uid, name, since) VALUES (0, ?1, ?2, ?3)")?
        .execute(params![user.uid.0, user.name, at])?;
    Ok(connection.last_insert_rowid().cast_unsigned())
}

/// Id of the owner of a uid at a time: the latest named owner seen by then, or the closest known one.
pub(crate) fn owner_at(connection: &Connection, uid: Uid, at: i64) -> rusqlite::Result<u64> {
    let found = connection
        .prepare_cached(
            "SELECT id FROM owner WHERE kind = 0 AND uid = ?1
             ORDER BY since IS NULL OR since <= ?2 DESC, name IS NOT NULL DESC, since DESC, id DESC LIMIT 1",
        )?
        .query_row(params![uid.0, at], |row| row.get::<_, i64>(0))
        .optional()?;
    match found {
        Some(id) => Ok(id.cast_unsigned()),
        None => person(connection, &User { uid, name: None }, at),
    }
}

fn find_or_insert(
    connection: &Connection,
    find: &str,
    insert: &str,
    values: impl rusqlite::Params + Clone,
) -> rusqlite::Result<u64> {
    let found = connection
        .prepare_cached(find)?
        .query_row(values.clone(), |row| row.get::<_, i64>(0))
        .optional()?;
    match found {
        Some(id) => Ok(id.cast_unsigned()),
        None => {
            connection.prepare_cached(insert)?.execute(values)?;
            Ok(connection.last_insert_rowid().cast_unsigned())
        }
    }
}

fn process(connection: &Connection, identity: &Identity, at: i64) -> rusqlite::Result<u64> {
    let start = identity.key.start.0.cast_signed();
    let mut find = connection.prepare_cached(crate::lookup::PROCESS_BY_START)?;
    let mut rows = find.query(params![start, identity.key.pid.0])?;
    while let Some(row) = rows.next()? {
        if identity_from_row(row)?.as_ref() == Some(identity) {
            return Ok(row.get::<_, i64>(0)?.cast_unsigned());
        }
    }
    let person_of = |user: Option<&User>| -> rusqlite::Result<Option<i64>> {
        user.map(|user| person(connection, user, at).map(u64::cast_signed))
            .transpose()
    };
    let login = person_of(identity.login.as_ref().ok().and_then(Option::as_ref))?;
    let own = person_of(identity.own.as_ref().ok())?;
    let job_user = person_of(identity.workload.user.as_ref())?;
    let workload = &identity.workload;
    connection
        .prepare_cached(
            "INSERT INTO process (boot, pid, start, login, login_missing, own, own_missing, comm, comm_missing,
             container, pod, job, job_user) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            identity.key.boot.0.to_be_bytes(),
            identity.key.pid.0,
            start,
            login,
            reason(&identity.login),
            own,
            reason(&identity.own),
            identity.comm.as_ref().ok(),
            reason(&identity.comm),
            workload.container.as_ref().map(|name| name.as_str()),
            workload.pod.as_ref().map(|name| name.as_str()),
            workload.job.as_ref().map(|name| name.as_str()),
            job_user,
        ])?;
    Ok(connection.last_insert_rowid().cast_unsigned())
}
