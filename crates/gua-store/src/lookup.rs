//! Name lookup for readers: maps ids to GPUs, processes and texts, and caches them during one query.

use std::collections::HashMap;

use gua_model::{
    BootId, ContainerOwners, GpuUuid, Identity, Missing, Pid, ProcessKey, Reading, StartTicks, Uid,
    User, Workload,
};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::codec;

/// The columns of an identity, in the order that [`identity_from_row`] expects.
macro_rules! process_query {
    ($condition:literal) => {
        concat!(
            "SELECT process.id, boot, pid, start, login.uid, login.name, login_missing, own.uid, own.name, own_missing,
             comm, comm_missing, container, pod, job, job_user.uid, job_user.name, claimed.uid, claimed.name,
             container_name, pod_name, assigned, by_name FROM process
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

/// Maximum number of cached processes.
const MANY: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Catalogue<'a> {
    connection: &'a Connection,
    cards: HashMap<u64, GpuUuid>,
    texts: HashMap<u64, String>,
    processes: HashMap<u64, Identity>,
}

impl<'a> Catalogue<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Self {
        Self {
            connection,
            cards: HashMap::new(),
            texts: HashMap::new(),
            processes: HashMap::new(),
        }
    }

    fn one<T>(
        &self,
        query: &str,
        id: u64,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<Option<T>>,
    ) -> Option<T> {
        self.connection
            .prepare_cached(query)
            .ok()?
            .query_row([id.cast_signed()], read)
            .optional()
            .ok()??
    }
}

impl codec::Lookup for Catalogue<'_> {
    fn card(&mut self, id: u64) -> Option<GpuUuid> {
        if let Some(uuid) = self.cards.get(&id) {
            return Some(uuid.clone());
        }
        let query = "SELECT uuid FROM card WHERE id = ?1";
        let uuid = self.one(query, id, |row| {
            Ok(row.get::<_, String>(0)?.parse::<GpuUuid>().ok())
        })?;
        self.cards.insert(id, uuid.clone());
        Some(uuid)
    }

    fn process(&mut self, id: u64) -> Option<Identity> {
        if let Some(identity) = self.processes.get(&id) {
            return Some(identity.clone());
        }
        let identity = self.one(PROCESS_BY_ID, id, identity_from_row)?;
        if self.processes.len() >= MANY {
            self.processes.clear();
        }
        self.processes.insert(id, identity.clone());
        Some(identity)
    }

    fn text(&mut self, id: u64) -> Option<String> {
        if let Some(text) = self.texts.get(&id) {
            return Some(text.clone());
        }
        let query = "SELECT text FROM text WHERE id = ?1";
        let text = self.one(query, id, |row| row.get::<_, Option<String>>(0))?;
        self.texts.insert(id, text.clone());
        Some(text)
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
    let container: Option<String> = row.get(12)?;
    let pod: Option<String> = row.get(13)?;
    let job: Option<String> = row.get(14)?;
    let key = ProcessKey {
        boot: BootId(u128::from_be_bytes(row.get(1)?)),
        pid: Pid(row.get(2)?),
        start: StartTicks(row.get::<_, i64>(3)?.cast_unsigned()),
    };
    let login = match to_reason(row.get(6)?) {
        None => return Ok(None),
        Some(Ok(())) => Ok(user(4)?),
        Some(Err(why)) => Err(why),
    };
    let own = match (to_reason(row.get(9)?), user(7)?) {
        (Some(Ok(())), Some(user)) => Ok(user),
        (Some(Err(why)), _) => Err(why),
        _ => return Ok(None),
    };
    let comm = match (to_reason(row.get(11)?), row.get::<_, Option<String>>(10)?) {
        (Some(Ok(())), Some(comm)) => Ok(comm),
        (Some(Err(why)), _) => Err(why),
        _ => return Ok(None),
    };
    Ok(Some(Identity {
        key,
        login,
        claimed_login: user(17)?,
        own,
        workload: Workload {
            container: container.and_then(|text| text.parse().ok()),
            container_name: row.get(19)?,
            pod: pod.and_then(|text| text.parse().ok()),
            pod_name: row.get(20)?,
            job: job.and_then(|text| text.parse().ok()),
            user: user(15)?,
            assigned: row.get(21)?,
            containers: containers(row.get(22)?),
        },
        comm,
    }))
}

/// Who owns the processes of a container, by the column `by_name`.
pub(crate) fn containers(by_name: bool) -> ContainerOwners {
    match by_name {
        true => ContainerOwners::Name,
        false => ContainerOwners::Uid,
    }
}

/// Code stored beside a value: the reason it is missing, if it is.
pub(crate) fn reason<T>(reading: &Reading<T>) -> i64 {
    match reading {
        Ok(_) => 0,
        Err(Missing::Unsupported) => 1,
        Err(Missing::Denied) => 2,
        Err(Missing::Gone) => 3,
        Err(Missing::Failed) => 4,
    }
}

pub(crate) fn to_reason(code: i64) -> Option<Reading<()>> {
    Some(match code {
        0 => Ok(()),
        1 => Err(Missing::Unsupported),
        2 => Err(Missing::Denied),
        3 => Err(Missing::Gone),
        4 => Err(Missing::Failed),
        _ => return None,
    })
}
