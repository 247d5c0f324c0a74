//! `gua db forget USER`: erases a user. Their GPU time is kept under an anonymous replacement.

use std::collections::BTreeMap;

use gua_model::{OwnerKey, Uid, User};
use rusqlite::{Connection, params};

use crate::error::WriteError;
use crate::imported;
use crate::intake;
use crate::maintain::{fold_again, into_write};
use crate::names;
use crate::refusal;
use crate::sql;
use crate::store::Store;
use crate::totals;
use crate::watched;

/// Result of erasing a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Replacement uid and name, for each uid that the user had.
    pub known_as: Vec<(u32, String)>,
    /// Uids that the user had.
    pub uids: Vec<u32>,
    pub processes: u64,
    /// Number of erased process rows that were imported from old files.
    pub old_rows: u64,
}

impl Forgotten {
    /// Returns whether the history has no data about the user.
    pub fn is_empty(&self) -> bool {
        self.known_as.is_empty() && self.old_rows == 0
    }
}

/// Replacement for the name of a job, pod or container. It must not be NULL: whether a process has such a name
/// determines its owner.
const ERASED: &str = "forgotten";

impl Store {
    /// Erases the user with this name (or, if no user has it, with this uid) from every table and from the free pages
    /// of the file. If it fails with [`WriteError::Reader`], the tables no longer contain the user, but the file does, until
    /// [`Store::vacuum`] succeeds.
    /// Tables of gpu-usage-audit in it are removed: the caller has imported their rows.
    pub fn forget(&mut self, user: &str) -> Result<Forgotten, WriteError> {
        // Overwrite deleted content at once, even if the operation is interrupted later.
        self.connection.pragma_update(None, "secure_delete", "ON")?;
        let transaction = sql::begin(&mut self.connection)?;
        let mut forgotten = Forgotten::default();
        for Group { uid, ids, owners } in groups(&transaction, user)? {
            forgotten.uids.extend(uid);
            let (new_uid, name) = free_name(&transaction)?;
            forgotten.processes += erase_processes(&transaction, &ids)?;
            watched::erase(&transaction, &ids)?;
            let Some(kept) = ids.first() else {
                continue;
            };
            let anonymous = OwnerKey::User(User {
                uid: Uid(new_uid),
                name: Some(name.clone()),
            });
            totals::rename_owners(&transaction, &owners, (&anonymous, *kept))
                .map_err(into_write)?;
            erase_owner(&transaction, &ids, new_uid, &name)?;
            forgotten.known_as.push((new_uid, name));
        }
        erase_workload(&transaction, user)?;
        forgotten.old_rows = imported::forget(&transaction, user)
            .map_err(|error| WriteError::Old(Box::new(error)))?;
        // Rows that gpu-usage-audit wrote into this file have names too. They were imported before.
        imported::drop_old_tables(&transaction)?;
        let is_known = !forgotten.known_as.is_empty();
        if is_known {
            totals::fill_days(&transaction).map_err(into_write)?;
            // Time that does not divide evenly among owners is distributed in their order, which has changed.
            fold_again(&transaction)?;
            refusal::close_the_book(&transaction)?;
            intake::erase(&transaction)?;
        }
        transaction.commit()?;
        self.restart_chain();
        if is_known {
            self.rebuild_totals()?;
        }
        self.vacuum()?;
        Ok(forgotten)
    }
}

/// Owner rows that become one anonymous owner.
#[derive(Default)]
struct Group {
    uid: Option<u32>,
    ids: Vec<i64>,
    owners: Vec<OwnerKey>,
}

/// Rows of the owner with this name, by uid; also rows without a name that have the same uid, if nobody else had it.
fn groups(connection: &Connection, user: &str) -> rusqlite::Result<Vec<Group>> {
    let find = |query: &str, kind: i64, name: &str| -> rusqlite::Result<Vec<Group>> {
        let mut found: BTreeMap<Option<u32>, Group> = BTreeMap::new();
        sql::each(connection, query, params![kind, name], |row| {
            let uid: Option<u32> = row.get(2)?;
            let group = found.entry(uid).or_default();
            group.uid = uid;
            group.ids.push(row.get(0)?);
            let owner = names::owner_from(row.get(1)?, uid, row.get(3)?);
            group.owners.extend(owner);
            Ok::<_, rusqlite::Error>(())
        })?;
        Ok(found.into_values().collect())
    };
    let (kind, name) = names::workload_row(user).unwrap_or((0, user));
    let by_name = find(
        "SELECT id, kind, uid, name FROM owner WHERE kind = ?1 AND (name = ?2 OR (name IS NULL
         AND uid IN (SELECT uid FROM owner WHERE name = ?2)
         AND uid NOT IN (SELECT uid FROM owner WHERE uid IS NOT NULL AND name <> ?2))) ORDER BY id",
        kind,
        name,
    )?;
    if !by_name.is_empty() || user.parse::<u32>().is_err() {
        return Ok(by_name);
    }
    let by_uid = "SELECT id, kind, uid, name FROM owner WHERE kind = ?1 AND uid = CAST(?2 AS INTEGER) ORDER BY id";
    find(by_uid, 0, user)
}

/// Erases the name of a container, a pod or an assigned owner from processes and sessions.
fn erase_workload(connection: &Connection, owner: &str) -> rusqlite::Result<()> {
    for table in ["process", "session"] {
        let update = format!(
            "UPDATE {table} SET container_name = iif('container:' || container_name = ?1, ?2, container_name),
             pod_name = iif('pod:' || pod_name = ?1, ?2, pod_name), assigned = iif(assigned = ?1, ?2, assigned)"
        );
        sql::run(connection, &update, [owner, ERASED])?;
    }
    Ok(())
}

/// Returns an unused uid near the upper end of the kernel's range, and a numbered name.
fn free_name(connection: &Connection) -> rusqlite::Result<(u32, String)> {
    let mut taken = connection.prepare_cached("SELECT 1 FROM owner WHERE uid = ?1 OR name = ?2")?;
    let mut number = 1u32;
    loop {
        let (uid, name) = (u32::MAX - 1 - number, format!("forgotten-{number}"));
        if !taken.exists(params![uid, name])? {
            return Ok((uid, name));
        }
        number += 1;
    }
}

fn erase_processes(connection: &Connection, persons: &[i64]) -> rusqlite::Result<u64> {
    // A session contains the names of its process, whichever user the process had.
    let sessions = "?1 IN (owner, job_user) OR EXISTS (SELECT 1 FROM process WHERE process.start = session.start
         AND process.pid = session.pid AND process.boot = session.boot
         AND ?1 IN (process.login, process.own, process.job_user, process.claimed_login))";
    let processes = "?1 IN (login, own, job_user, claimed_login)";
    let erase = |table: &str, which: &str, person: i64| {
        let update = format!(
            "UPDATE {table} SET comm = NULL, comm_missing = 3, container = iif(container IS NULL, NULL, ?2),
             pod = iif(pod IS NULL, NULL, ?2), job = iif(job IS NULL, NULL, ?2),
             container_name = iif(container_name IS NULL, NULL, ?2), pod_name = iif(pod_name IS NULL, NULL, ?2)
             WHERE {which}"
        );
        sql::run(connection, &update, params![person, ERASED])
    };
    let mut erased = 0;
    for person in persons {
        erase("session", sessions, *person)?;
        erased += erase("process", processes, *person)?;
    }
    Ok(erased as u64)
}

/// Merges owner rows into one anonymous row.
fn erase_owner(
    connection: &Connection,
    persons: &[i64],
    uid: u32,
    name: &str,
) -> rusqlite::Result<()> {
    let Some((kept, others)) = persons.split_first() else {
        return Ok(());
    };
    for other in others {
        for (table, column) in [
            ("process", "login"),
            ("process", "own"),
            ("process", "job_user"),
            ("process", "claimed_login"),
            ("session", "owner"),
            ("session", "job_user"),
            ("refusal", "asker"),
        ] {
            let update = format!("UPDATE {table} SET {column} = ?2 WHERE {column} = ?1");
            sql::run(connection, &update, [other, kept])?;
        }
        refusal::merge_holders(connection, *other, *kept)?;
        sql::run(connection, "DELETE FROM owner WHERE id = ?1", [other])?;
    }
    let update = "UPDATE owner SET kind = 0, uid = ?2, name = ?3, since = NULL WHERE id = ?1";
    sql::run(connection, update, params![kept, uid, name]).map(drop)
}
