//! Hosts and enrolment keys in SQLite.

use jiff::Timestamp;
use rusqlite::types::ToSql;
use rusqlite::{Row, params, params_from_iter};

use super::{Work, bump_revision, conflict_unless, found, text};
use crate::error::{Result, StoreError};
use crate::id::{EnrolmentKeyId, HostId, WorkspaceId};
use crate::registry::{
    Action, Actor, Change, EnrolmentKey, Host, HostClaim, HostEdit, Hosts, KeyLimits, Maintenance,
    NewEnrolmentKey, Refusal, is_name_match,
};
use crate::secret::SecretHash;
use crate::sqlite::{SqliteStore, first_row, lines, optional_time, time};

/// Columns that [`key`] reads.
const KEY: &str =
    "id, workspace, name, prefix, host_names, tags, needs_approval, uses_left, created, expires";

/// Prefix of a tag that names a group.
const GROUP_TAG: &str = "group:";

/// Columns that [`host`] reads first and a claim writes.
const HOST: &str = "id, workspace, display_name, hostname, agent_version, driver_version, tags, groups, is_approved, \
                    token_prefix, token_since, enrolled";

/// Columns that [`host`] reads after these.
const MAINTENANCE: &str = "maintenance_note, maintenance_until";

/// Assignments that continue a host with the agent of host `?4`, whose tokens are `?3` and `?5`.
const NEW_AGENT: &str = "token = ?3, next_token = ?5,
    (hostname, agent_version, driver_version, token_prefix, token_since, next_token_prefix) =
    (SELECT hostname, agent_version, driver_version, token_prefix, token_since, next_token_prefix FROM host WHERE id = ?4)";

impl Hosts for SqliteStore {
    fn add_enrolment_key(&self, by: &Change, new: &NewEnrolmentKey) -> Result<EnrolmentKey> {
        self.change(by, |work| {
            let sql = format!(
                "INSERT INTO enrolment_key ({KEY}, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
                 ON CONFLICT (hash) DO NOTHING RETURNING {KEY}"
            );
            let values = params![
                EnrolmentKeyId::random(),
                new.workspace,
                new.name,
                new.prefix,
                new.limits.host_names,
                new.limits.tags.join("\n"),
                new.limits.needs_approval,
                new.uses,
                by.at.as_microsecond(),
                new.expires.map(Timestamp::as_microsecond),
                new.hash,
            ];
            let added = first_row(work, &sql, values, key)?;
            let added = added.ok_or(StoreError::Conflict("this enrolment key exists already"))?;
            let object = new.name.as_deref().unwrap_or(&new.prefix);
            work.log(Some(&new.workspace), Action::EnrolmentKeyAdded, object)?;
            Ok(added)
        })
    }

    fn enrolment_keys(&self, workspace: &WorkspaceId) -> Result<Vec<EnrolmentKey>> {
        let sql = format!(
            "SELECT {KEY} FROM enrolment_key WHERE workspace = ?1 AND uses_left > 0 ORDER BY created, id"
        );
        self.many(&sql, [workspace], key)
    }

    fn revoke_enrolment_key(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        key: &EnrolmentKeyId,
    ) -> Result<()> {
        self.change(by, |work| {
            let sql = "DELETE FROM enrolment_key WHERE workspace = ?1 AND id = ?2 RETURNING prefix";
            let prefix = text(work, "enrolment key", sql, params![workspace, key])?;
            work.log(Some(workspace), Action::EnrolmentKeyRevoked, &prefix)
        })
    }

    fn claim(&self, claim: &HostClaim) -> Result<Host> {
        // Writing transactions wait for each other, so a one-time key is used once.
        let claimed = self.write(|transaction| {
            let sql = format!("SELECT {KEY} FROM enrolment_key WHERE hash = ?1");
            let key = first_row(transaction, &sql, [claim.key], key)?;
            let key = key.ok_or(StoreError::NotFound("enrolment key"))?;
            let hostname = claim.hostname.as_deref().unwrap_or("a host without a name");
            let refusal = refusal(&key, claim);
            let by = &Change {
                actor: match &refusal {
                    Some(_) => Actor::Host(hostname.to_owned()),
                    None => Actor::EnrolmentKey(key.prefix.clone()),
                },
                address: claim.address.clone(),
                at: claim.at,
            };
            let work = Work { transaction, by };
            let Some(refusal) = refusal else {
                return enrol(&work, claim, key).map(Ok);
            };
            let object = format!("{hostname}: {refusal}");
            work.log(Some(&key.workspace), Action::EnrolmentRefused, &object)?;
            Ok(Err(StoreError::Refused(refusal)))
        });
        claimed?
    }

    fn hosts(&self, workspace: Option<&WorkspaceId>) -> Result<Vec<Host>> {
        let sql = format!(
            "SELECT {HOST}, {MAINTENANCE} FROM host WHERE token IS NOT NULL AND coalesce(workspace = ?1, TRUE) ORDER BY display_name, id"
        );
        self.many(&sql, [workspace], host)
    }

    fn host_by_token(&self, token: &SecretHash, now: Timestamp) -> Result<Option<Host>> {
        let sql = format!("SELECT {HOST}, {MAINTENANCE} FROM host WHERE token = ?1");
        let find = || self.one(&sql, [token], host);
        if let Some(host) = find()? {
            return Ok(Some(host));
        }
        // Unknown tokens must not cost a write transaction: anyone can send them.
        let is_next = "SELECT 1 FROM host WHERE next_token = ?1 AND token IS NOT NULL";
        if self.one(is_next, [token], |_| Ok(()))?.is_none() {
            return Ok(None);
        }
        self.write(|transaction| {
            let changed = transaction.execute(
                "UPDATE host SET token = next_token, token_prefix = next_token_prefix, token_since = ?2,
                 next_token = NULL, next_token_prefix = NULL WHERE next_token = ?1 AND token IS NOT NULL",
                params![token, now.as_microsecond()],
            )?;
            match changed {
                0 => Ok(()),
                _ => bump_revision(transaction),
            }
        })?;
        find()
    }

    fn rotate_token(&self, host: &HostId, next: &SecretHash, prefix: &str) -> Result<()> {
        self.write(|transaction| {
            let sql = "UPDATE host SET next_token = ?2, next_token_prefix = ?3 WHERE id = ?1 AND token IS NOT NULL";
            let changed = transaction.execute(sql, params![host, next, prefix])?;
            found(changed > 0, "host")
        })
    }

    fn edit_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
        edit: &HostEdit<'_>,
    ) -> Result<()> {
        self.change(by, |work| {
            let update = |assignments: &str, values: &[&dyn ToSql]| {
                update(work, workspace, host, assignments, values)
            };
            let (action, object) = match *edit {
                HostEdit::Approve => {
                    let set = "is_approved = TRUE, token_since = iif(is_approved, token_since, ?3)";
                    let name = update(set, &[&by.at.as_microsecond()])?;
                    (Action::HostApproved, name)
                }
                HostEdit::Rename(name) => {
                    (Action::HostRenamed, update("display_name = ?3", &[&name])?)
                }
                HostEdit::SetGroups(groups) => {
                    let name = update("groups = ?3", &[&groups.join("\n")])?;
                    let object = format!("{name}: {}", groups.join(", "));
                    (Action::HostGroupsSet, object)
                }
                HostEdit::SetMaintenance(maintenance) => {
                    let note = maintenance.map(|one| &one.note);
                    let until = maintenance.and_then(|one| one.until);
                    let until = until.map(Timestamp::as_microsecond);
                    let set = "maintenance_note = ?3, maintenance_until = ?4";
                    let name = update(set, &[&note, &until])?;
                    match note {
                        Some(note) => (Action::MaintenanceSet, format!("{name}: {note}")),
                        None => (Action::MaintenanceEnded, name),
                    }
                }
                HostEdit::ContinueAs(other) => {
                    conflict_unless(host != other, "a host cannot replace itself")?;
                    let (token, next_token) = take_tokens(work, workspace, other)?;
                    let name = update(NEW_AGENT, &[&token, other, &next_token])?;
                    (Action::HostReplaced, name)
                }
                HostEdit::Revoke => {
                    let set = "token = NULL, next_token = NULL";
                    (Action::HostRevoked, update(set, &[])?)
                }
            };
            work.log(Some(workspace), action, &object)
        })
    }
}

/// Removes the present and the next token of an approved host, because no two hosts have the same token, and returns them.
fn take_tokens(
    work: &Work<'_>,
    workspace: &WorkspaceId,
    host: &HostId,
) -> Result<([u8; 32], Option<[u8; 32]>)> {
    let sql = "SELECT token, next_token FROM host WHERE workspace = ?1 AND id = ?2 AND token IS NOT NULL AND is_approved";
    let tokens = first_row(work, sql, params![workspace, host], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    let tokens = tokens.ok_or(StoreError::NotFound("host"))?;
    let sql = "UPDATE host SET token = NULL, next_token = NULL WHERE id = ?1";
    work.execute(sql, [host])?;
    Ok(tokens)
}

/// Changes an enrolled host and returns its display name. The values of the assignments are numbered from 3.
fn update(
    work: &Work<'_>,
    workspace: &WorkspaceId,
    host: &HostId,
    assignments: &str,
    values: &[&dyn ToSql],
) -> Result<String> {
    let sql = format!(
        "UPDATE host SET {assignments} WHERE workspace = ?1 AND id = ?2 AND token IS NOT NULL RETURNING display_name"
    );
    let key: [&dyn ToSql; 2] = [workspace, host];
    let values = params_from_iter(key.iter().chain(values));
    let name = text(work, "host", &sql, values)?;
    // Caches of the list of hosts compare this revision.
    bump_revision(work)?;
    Ok(name)
}

fn key(row: &Row<'_>) -> Result<EnrolmentKey> {
    Ok(EnrolmentKey {
        id: row.get(0)?,
        workspace: row.get(1)?,
        name: row.get(2)?,
        prefix: row.get(3)?,
        limits: KeyLimits {
            host_names: row.get(4)?,
            tags: lines(row, 5)?,
            needs_approval: row.get(6)?,
        },
        uses_left: row.get(7)?,
        created: time(row, 8)?,
        expires: optional_time(row, 9)?,
    })
}

fn host(row: &Row<'_>) -> Result<Host> {
    let until = optional_time(row, 13)?;
    let note: Option<String> = row.get(12)?;
    Ok(Host {
        id: row.get(0)?,
        workspace: row.get(1)?,
        display_name: row.get(2)?,
        hostname: row.get(3)?,
        agent_version: row.get(4)?,
        driver_version: row.get(5)?,
        tags: lines(row, 6)?,
        groups: lines(row, 7)?,
        is_approved: row.get(8)?,
        token_prefix: row.get(9)?,
        token_since: time(row, 10)?,
        enrolled: time(row, 11)?,
        maintenance: note.map(|note| Maintenance { note, until }),
    })
}

/// Returns the reason a key does not enrol a host.
fn refusal(key: &EnrolmentKey, claim: &HostClaim) -> Option<Refusal> {
    if key.uses_left == 0 {
        return Some(Refusal::Used);
    }
    if key.expires.is_some_and(|expires| expires <= claim.at) {
        return Some(Refusal::Expired);
    }
    let name = claim.hostname.as_deref().unwrap_or_default();
    let names = key.limits.host_names.as_ref()?;
    (!is_name_match(names, name)).then(|| Refusal::HostName(names.clone()))
}

/// Redeems the key and adds the host.
fn enrol(work: &Work<'_>, claim: &HostClaim, key: EnrolmentKey) -> Result<Host> {
    let sql = "UPDATE enrolment_key SET uses_left = uses_left - 1 WHERE id = ?1";
    work.execute(sql, [key.id])?;
    let id = HostId::random();
    let (groups, tags) = split_groups(key.limits.tags);
    let display_name = key.name.as_ref().or(claim.hostname.as_ref());
    let sql = format!(
        "INSERT INTO host ({HOST}, token) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
         RETURNING {HOST}, {MAINTENANCE}"
    );
    let at = claim.at.as_microsecond();
    let values = params![
        id,
        key.workspace,
        display_name.unwrap_or(&id.0),
        claim.hostname,
        claim.agent_version,
        claim.driver_version,
        tags.join("\n"),
        groups.join("\n"),
        !key.limits.needs_approval,
        claim.token_prefix,
        at,
        at,
        claim.token,
    ];
    let host = first_row(work, &sql, values, host)?.ok_or(StoreError::NotFound("host"))?;
    bump_revision(work)?;
    let workspace = Some(&host.workspace);
    work.log(workspace, Action::HostEnrolled, &host.display_name)?;
    Ok(host)
}

/// Divides the tags of a key into the groups of its hosts and the other tags.
fn split_groups(tags: Vec<String>) -> (Vec<String>, Vec<String>) {
    let (groups, tags): (Vec<String>, Vec<String>) =
        tags.into_iter().partition(|tag| tag.starts_with(GROUP_TAG));
    let groups = groups
        .iter()
        .map(|tag| tag[GROUP_TAG.len()..].trim().to_lowercase());
    (groups.filter(|group| !group.is_empty()).collect(), tags)
}
