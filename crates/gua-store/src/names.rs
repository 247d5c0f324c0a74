//! Interning of names for the writer. Rows are found or created in the transaction of the tick.

use std::collections::HashMap;

use gua_model::id::ProcessKey;
use gua_model::{ContainerOwners, GpuUuid, Identity, OwnerKey, Uid, User, sane};
use rusqlite::{Connection, Params, Row, params};

use crate::codec;
use crate::error::ReadError;
use crate::lookup::{identity_from_row, reason};
use crate::sql;

/// Cache of recently used ids. It is cleared when a transaction fails, since the rows were then not written.
#[derive(Debug, Default)]
pub(crate) struct Known {
    gpus: HashMap<GpuUuid, u64>,
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
    /// Whether a GPU was written since the cache was last cleared.
    pub(crate) fn has_gpu(&self, uuid: &GpuUuid) -> bool {
        self.gpus.contains_key(uuid)
    }

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

pub(crate) struct Interner<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) known: &'a mut Known,
    pub(crate) at: i64,
}

impl codec::Names for Interner<'_> {
    type Error = rusqlite::Error;

    fn gpu(&mut self, uuid: &GpuUuid) -> rusqlite::Result<u64> {
        if let Some(id) = self.known.gpus.get(uuid) {
            return Ok(*id);
        }
        let id = gpu(self.connection, uuid, self.at)?;
        self.known.gpus.insert(uuid.clone(), id);
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
        let id = process(self.connection, identity, self.at)?;
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
            self.connection,
            ("SELECT id FROM text WHERE text = ?1", [text]),
            ("INSERT INTO text (text) VALUES (?1)", [text]),
        )?;
        self.known.texts.insert(text.to_owned(), id);
        Ok(id)
    }
}

/// Id of a GPU; inserts the GPU if it is new.
pub(crate) fn gpu(connection: &Connection, uuid: &GpuUuid, at: i64) -> rusqlite::Result<u64> {
    let insert = "INSERT INTO card (uuid, first_seen) VALUES (?1, ?2)";
    find_or_insert(
        connection,
        ("SELECT id FROM card WHERE uuid = ?1", [uuid.as_str()]),
        (insert, params![uuid.as_str(), at]),
    )
}

/// Moves the first sight of a GPU to an earlier tick, or away from an impossible time. The clock may have been
/// ahead when the GPU was first seen, and its coverage is counted from its first sight.
pub(crate) fn note_sight(connection: &Connection, uuid: &GpuUuid, at: i64) -> rusqlite::Result<()> {
    let update =
        "UPDATE card SET first_seen = ?2 WHERE uuid = ?1 AND (first_seen > ?2 OR first_seen < ?3)";
    sql::run(connection, update, params![uuid.as_str(), at, sane::FIRST]).map(drop)
}

/// Codes in `owner.kind`.
const PERSON: i64 = 0;
const CONTAINER: i64 = 1;
const POD: i64 = 2;

/// Prefixes of the names of containers and pods as owners, which their rows leave out.
const WORKLOADS: [(&str, i64); 2] = [("container:", CONTAINER), ("pod:", POD)];

/// Returns the owner of a row of the table `owner`; `None` if it is not a valid one.
pub(crate) fn owner_from(kind: i64, uid: Option<u32>, name: Option<String>) -> Option<OwnerKey> {
    if let Some(uid) = uid {
        let uid = Uid(uid);
        return Some(OwnerKey::User(User { uid, name }));
    }
    let name = name?;
    let workload = WORKLOADS.iter().find(|(_, known)| *known == kind);
    Some(match workload {
        Some((prefix, _)) => OwnerKey::Workload(format!("{prefix}{name}").into()),
        None => OwnerKey::Name(name.into()),
    })
}

/// Columns that [`owner_row`] reads. Of one uid, the last row with a name is the latest owner.
pub(crate) const OWNERS: &str =
    "SELECT id, kind, uid, name FROM owner ORDER BY name IS NOT NULL, id";

/// Reads the id of an owner, and the owner.
pub(crate) fn owner_row(row: &Row<'_>) -> Result<(u64, OwnerKey), ReadError> {
    let owner = owner_from(row.get(1)?, row.get(2)?, row.get(3)?);
    let id: i64 = row.get(0)?;
    Ok((id.cast_unsigned(), owner.ok_or(ReadError::Value("owner"))?))
}

/// Kind and name of a container or pod by its name as an owner.
pub(crate) fn workload_row(shown: &str) -> Option<(i64, &str)> {
    let of = |(prefix, kind): &(&str, i64)| Some((*kind, shown.strip_prefix(prefix)?));
    WORKLOADS.iter().find_map(of)
}

/// Id of an owner; `None` for the unknown one. A new owner is inserted, first seen at `at`.
pub(crate) fn owner(
    connection: &Connection,
    owner: &OwnerKey,
    at: i64,
) -> rusqlite::Result<Option<u64>> {
    let (kind, name) = match owner {
        OwnerKey::Unknown => return Ok(None),
        OwnerKey::User(user) => return person(connection, user, at).map(Some),
        OwnerKey::Name(name) => (PERSON, &**name),
        OwnerKey::Workload(shown) => workload_row(shown).unwrap_or((CONTAINER, shown)),
    };
    let find = "SELECT id FROM owner WHERE kind = ?1 AND uid IS NULL AND name = ?2";
    let insert = "INSERT INTO owner (kind, name, since) VALUES (?1, ?2, ?3)";
    let row = (insert, params![kind, name, at]);
    find_or_insert(connection, (find, params![kind, name]), row).map(Some)
}

/// Id of the user with exactly this name. A new user is inserted, first seen at `at`. A uid keeps the name that it had:
/// another name is another owner.
pub(crate) fn person(connection: &Connection, user: &User, at: i64) -> rusqlite::Result<u64> {
    let find = "SELECT id FROM owner WHERE kind = 0 AND uid = ?1 AND name IS ?2";
    let insert = "INSERT INTO owner (kind, uid, name, since) VALUES (0, ?1, ?2, ?3)";
    let row = (insert, params![user.uid.0, user.name, at]);
    find_or_insert(connection, (find, params![user.uid.0, user.name]), row)
}

/// Returns the id of the row that `find` selects. If there is none, `insert` creates it.
fn find_or_insert(
    connection: &Connection,
    (find, key): (&str, impl Params),
    (insert, row): (&str, impl Params),
) -> rusqlite::Result<u64> {
    let id: i64 = match sql::find(connection, find, key)? {
        Some(id) => id,
        None => {
            sql::run(connection, insert, row)?;
            connection.last_insert_rowid()
        }
    };
    Ok(id.cast_unsigned())
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
    let claimed = person_of(identity.claimed_login.as_ref())?;
    let workload = &identity.workload;
    sql::run(
        connection,
            "INSERT INTO process (boot, pid, start, login, login_missing, own, own_missing, comm, comm_missing,
             container, pod, job, job_user, claimed_login, container_name, pod_name, assigned, by_name)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        params![
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
            claimed,
            workload.container_name,
            workload.pod_name,
            workload.assigned,
            workload.containers == ContainerOwners::Name,
        ],
    )?;
    Ok(connection.last_insert_rowid().cast_unsigned())
}
