//! Name lookup for readers: maps ids to GPUs, processes, owners and texts, and caches them during one query.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use gua_model::{
    BootId, ContainerOwners, GpuUuid, Identity, OwnerKey, Pid, ProcessKey, Reading, StartTicks,
    Uid, User, Workload,
};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::codec;
use crate::codec::bytes::REASONS;
use crate::codec::wire::{code_of, coded};
use crate::names;

/// The columns of an identity, in the order that [`identity_from_row`] expects.
macro_rules! process_query {
    ($condition:literal) => {
        concat!(
            "SELECT process.id, boot, pid, start, login.uid, login.name, login_missing, own.uid, own.name, own_missing,
             comm, comm_missing, job_user.uid, job_user.name, claimed.uid, claimed.name,
             container, container_name, pod, pod_name, job, assigned, by_name FROM process
             LEFT JOIN owner AS login ON login.id = process.login
             LEFT JOIN owner AS own ON own.id = process.own
             LEFT JOIN owner AS job_user ON job_user.id = process.job_user
             LEFT JOIN owner AS claimed ON claimed.id = process.claimed_login WHERE ",
            $condition
        )
    };
}

pub(crate) const PROCESS_BY_START: &str = process_query!("start = ?1 AND pid = ?2");
const PROCESS_BY_ID: &str = process_query!("process.id = ?1");

/// Maximum number of cached rows of a table.
const MANY: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Catalogue<'a> {
    connection: &'a Connection,
    gpus: BTreeMap<u64, GpuUuid>,
    texts: BTreeMap<u64, String>,
    processes: BTreeMap<u64, Identity>,
    owners: BTreeMap<u64, OwnerKey>,
}

impl<'a> Catalogue<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Self {
        Self {
            connection,
            gpus: BTreeMap::new(),
            texts: BTreeMap::new(),
            processes: BTreeMap::new(),
            owners: BTreeMap::new(),
        }
    }

    pub(crate) fn connection(&self) -> &'a Connection {
        self.connection
    }

    /// The GPU with an id; `None` if there is none with a valid name.
    pub(crate) fn gpu(&mut self, id: u64) -> rusqlite::Result<Option<&GpuUuid>> {
        let query = "SELECT uuid FROM card WHERE id = ?1";
        cached(self.connection, &mut self.gpus, query, id, |row| {
            Ok(row.get::<_, String>(0)?.parse().ok())
        })
    }

    /// The owner with an id; `None` if there is no valid one.
    pub(crate) fn owner(&mut self, id: u64) -> rusqlite::Result<Option<&OwnerKey>> {
        let query = "SELECT kind, uid, name FROM owner WHERE id = ?1";
        cached(self.connection, &mut self.owners, query, id, |row| {
            Ok(names::owner_from(row.get(0)?, row.get(1)?, row.get(2)?))
        })
    }
}

/// Returns the cached value of an id. If there is none, `read` converts the row with that id.
fn cached<'cache, T>(
    connection: &Connection,
    cache: &'cache mut BTreeMap<u64, T>,
    query: &str,
    id: u64,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<Option<T>>,
) -> rusqlite::Result<Option<&'cache T>> {
    if cache.len() >= MANY && !cache.contains_key(&id) {
        cache.clear();
    }
    match cache.entry(id) {
        Entry::Occupied(known) => Ok(Some(known.into_mut())),
        Entry::Vacant(place) => {
            let mut statement = connection.prepare_cached(query)?;
            let found = statement.query_row([id.cast_signed()], read).optional()?;
            Ok(found.flatten().map(|found| &*place.insert(found)))
        }
    }
}

impl codec::Lookup for Catalogue<'_> {
    fn gpu(&mut self, id: u64) -> Option<GpuUuid> {
        Catalogue::gpu(self, id).ok()?.cloned()
    }

    fn process(&mut self, id: u64) -> Option<Identity> {
        let processes = &mut self.processes;
        let found = cached(
            self.connection,
            processes,
            PROCESS_BY_ID,
            id,
            identity_from_row,
        );
        found.ok()?.cloned()
    }

    fn text(&mut self, id: u64) -> Option<String> {
        let query = "SELECT text FROM text WHERE id = ?1";
        cached(self.connection, &mut self.texts, query, id, |row| {
            row.get(0)
        })
        .ok()?
        .cloned()
    }
}

/// Parses an identity; `None` if the row is not a valid one.
pub(crate) fn identity_from_row(row: &Row<'_>) -> rusqlite::Result<Option<Identity>> {
    let user = |uid: usize| -> rusqlite::Result<Option<User>> {
        let number: Option<u32> = row.get(uid)?;
        let name = row.get(uid + 1)?;
        Ok(number.map(|number| User {
            uid: Uid(number),
            name,
        }))
    };
    let login = to_reading(row.get(6)?, Some(user(4)?));
    let own = to_reading(row.get(9)?, user(7)?);
    let comm = to_reading(row.get(11)?, row.get(10)?);
    let (Some(login), Some(own), Some(comm)) = (login, own, comm) else {
        return Ok(None);
    };
    Ok(Some(Identity {
        key: process_key(row, 1)?,
        login,
        claimed_login: user(14)?,
        own,
        workload: workload(row, 16, user(12)?)?,
        comm,
    }))
}

/// Reads the columns `boot, pid, start`, beginning with `first`.
pub(crate) fn process_key(row: &Row<'_>, first: usize) -> rusqlite::Result<ProcessKey> {
    Ok(ProcessKey {
        boot: BootId(u128::from_be_bytes(row.get(first)?)),
        pid: Pid(row.get(first + 1)?),
        start: StartTicks(row.get::<_, i64>(first + 2)?.cast_unsigned()),
    })
}

/// Reads the columns `container, container_name, pod, pod_name, job, assigned, by_name`, beginning with `first`.
pub(crate) fn workload(
    row: &Row<'_>,
    first: usize,
    user: Option<User>,
) -> rusqlite::Result<Workload> {
    let name = |column: usize| row.get::<_, Option<String>>(first + column);
    Ok(Workload {
        container: name(0)?.and_then(|text| text.parse().ok()),
        container_name: name(1)?,
        pod: name(2)?.and_then(|text| text.parse().ok()),
        pod_name: name(3)?,
        job: name(4)?.and_then(|text| text.parse().ok()),
        user,
        assigned: name(5)?,
        containers: match row.get(first + 6)? {
            true => ContainerOwners::Name,
            false => ContainerOwners::Uid,
        },
    })
}

/// Returns the code that is stored with a value: 0, or the reason it is missing.
pub(crate) fn reason<T>(reading: &Reading<T>) -> u8 {
    match reading {
        Ok(_) => 0,
        Err(why) => 1 + code_of(&REASONS, why),
    }
}

/// Converts a stored value and its code to a reading; `None` if they are not valid.
pub(crate) fn to_reading<T>(code: i64, value: Option<T>) -> Option<Reading<T>> {
    match u8::try_from(code).ok()?.checked_sub(1) {
        None => value.map(Ok),
        Some(why) => coded(&REASONS, why, "reason").ok().map(Err),
    }
}
