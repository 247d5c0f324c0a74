//! Hosts and enrolment keys in SQLite.

use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::{audit, bump_revision, conflict_unless, deleted, found, lines, optional_time, time};
use crate::error::StoreError;
use crate::id::{EnrolmentKeyId, HostId, WorkspaceId};
use crate::registry::{
    Action, Actor, Change, EnrolmentKey, Host, HostClaim, KeyLimits, Maintenance, NewEnrolmentKey,
    Refusal, is_name_match,
};
use crate::secret::SecretHash;

/// All usable keys of a workspace, for [`key`].
pub(super) const KEYS: &str = "SELECT id, workspace, name, prefix, host_names, tags, needs_approval, uses_left, created, expires
     FROM enrolment_key WHERE workspace = ?1 AND uses_left > 0 ORDER BY created, id";

/// The key of a secret, for [`key`].
pub(super) const KEY_BY_HASH: &str = "SELECT id, workspace, name, prefix, host_names, tags, needs_approval, uses_left, created, expires
     FROM enrolment_key WHERE hash = ?1";

/// Query that finds a row if a token is the next one of a host.
pub(super) const IS_NEXT_TOKEN: &str =
    "SELECT 1 FROM host WHERE next_token = ?1 AND token IS NOT NULL";

/// Prefix of a tag that names a group.
const GROUP_TAG: &str = "group:";

/// Columns that [`host`] reads first and a claim writes.
const HOST: &str = "id, workspace, display_name, hostname, agent_version, driver_version, tags, groups, is_approved, \
                    token_prefix, token_since, enrolled";

/// Columns that [`host`] reads after these.
const MAINTENANCE: &str = "maintenance_note, maintenance_until";

/// Query of the enrolled hosts of a workspace (all if it is NULL), for [`host`].
pub(super) fn of_workspace() -> String {
    format!(
        "SELECT {HOST}, {MAINTENANCE} FROM host WHERE token IS NOT NULL AND coalesce(workspace = ?1, TRUE) ORDER BY display_name, id"
    )
}

/// Query of the host of a token, for [`host`].
pub(super) fn by_token() -> String {
    format!("SELECT {HOST}, {MAINTENANCE} FROM host WHERE token = ?1")
}

pub(super) fn key(row: &Row<'_>) -> Result<EnrolmentKey, StoreError> {
    Ok(EnrolmentKey {
        id: EnrolmentKeyId(row.get(0)?),
        workspace: WorkspaceId(row.get(1)?),
        name: row.get(2)?,
        prefix: row.get(3)?,
        limits: KeyLimits {
            host_names: row.get(4)?,
            tags: lines(row, 5)?,
            needs_approval: row.get(6)?,
        },
        uses_left: row.get(7)?,
        created: time(row.get(8)?)?,
        expires: optional_time(row.get(9)?)?,
    })
}

pub(super) fn host(row: &Row<'_>) -> Result<Host, StoreError> {
    Ok(Host {
        id: HostId(row.get(0)?),
        workspace: WorkspaceId(row.get(1)?),
        display_name: row.get(2)?,
        hostname: row.get(3)?,
        agent_version: row.get(4)?,
        driver_version: row.get(5)?,
        tags: lines(row, 6)?,
        groups: lines(row, 7)?,
        is_approved: row.get(8)?,
        token_prefix: row.get(9)?,
        token_since: time(row.get(10)?)?,
        enrolled: time(row.get(11)?)?,
        maintenance: match row.get::<_, Option<String>>(12)? {
            Some(note) => Some(Maintenance {
                note,
                until: optional_time(row.get(13)?)?,
            }),
            None => None,
        },
    })
}

pub(super) fn add_key(
    transaction: &Transaction<'_>,
    by: &Change,
    new: &NewEnrolmentKey,
) -> Result<EnrolmentKey, StoreError> {
    let id = EnrolmentKeyId::random();
    let added = transaction.execute(
        "INSERT INTO enrolment_key
         (id, hash, prefix, workspace, name, host_names, tags, needs_approval, uses_left, created, expires)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (hash) DO NOTHING",
        params![
            id.as_str(),
            new.hash.0,
            new.prefix,
            new.workspace.as_str(),
            new.name,
            new.limits.host_names,
            new.limits.tags.join("\n"),
            new.limits.needs_approval,
            new.uses,
            by.at.as_microsecond(),
            new.expires.map(Timestamp::as_microsecond),
        ],
    )?;
    conflict_unless(added == 1, "this enrolment key exists already")?;
    let object = new.name.as_deref().unwrap_or(&new.prefix);
    let action = Action::EnrolmentKeyAdded;
    audit::add(transaction, by, Some(&new.workspace), action, object)?;
    Ok(EnrolmentKey {
        id,
        workspace: new.workspace.clone(),
        name: new.name.clone(),
        prefix: new.prefix.clone(),
        limits: new.limits.clone(),
        uses_left: new.uses,
        created: by.at,
        expires: new.expires,
    })
}

pub(super) fn revoke_key(
    transaction: &Transaction<'_>,
    by: &Change,
    workspace: &WorkspaceId,
    key: &EnrolmentKeyId,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM enrolment_key WHERE workspace = ?1 AND id = ?2 RETURNING prefix";
    let prefix = deleted(transaction, sql, [workspace.as_str(), key.as_str()])?;
    let prefix = prefix.ok_or(StoreError::NotFound("enrolment key"))?;
    audit::add(
        transaction,
        by,
        Some(workspace),
        Action::EnrolmentKeyRevoked,
        &prefix,
    )
}

/// Returns the reason a key does not enrol a host.
pub(super) fn refusal(key: &EnrolmentKey, claim: &HostClaim) -> Option<Refusal> {
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

/// Redeems the key and adds the host. Two claims with a one-time key cannot both succeed: the transaction writes, and writing
/// transactions wait for each other.
pub(super) fn claim(transaction: &Transaction<'_>, claim: &HostClaim) -> Result<Host, StoreError> {
    let mut found = transaction.prepare_cached(KEY_BY_HASH)?;
    let mut found = found.query(params![claim.key.0])?;
    let found = found.next()?.map(key).transpose()?;
    let key = found.filter(|key| refusal(key, claim).is_none());
    let key = key.ok_or(StoreError::NotFound("enrolment key"))?;
    transaction.execute(
        "UPDATE enrolment_key SET uses_left = uses_left - 1 WHERE id = ?1",
        [key.id.as_str()],
    )?;
    let id = HostId::random();
    let (groups, tags) = split_groups(key.limits.tags);
    let display_name = key.name.clone().or_else(|| claim.hostname.clone());
    let host = Host {
        display_name: display_name.unwrap_or_else(|| id.to_string()),
        id,
        workspace: key.workspace,
        hostname: claim.hostname.clone(),
        agent_version: claim.agent_version.clone(),
        driver_version: claim.driver_version.clone(),
        tags,
        groups,
        is_approved: !key.limits.needs_approval,
        token_prefix: claim.token_prefix.clone(),
        token_since: claim.at,
        enrolled: claim.at,
        maintenance: None,
    };
    transaction.execute(
        &format!("INSERT INTO host ({HOST}, token) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"),
        params![
            host.id.as_str(),
            host.workspace.as_str(),
            host.display_name,
            host.hostname,
            host.agent_version,
            host.driver_version,
            host.tags.join("\n"),
            host.groups.join("\n"),
            host.is_approved,
            host.token_prefix,
            host.token_since.as_microsecond(),
            host.enrolled.as_microsecond(),
            claim.token.0,
        ],
    )?;
    let by = Change {
        actor: Actor::enrolment_key(&key.prefix),
        address: claim.address.clone(),
        at: claim.at,
    };
    // Caches of the list of hosts compare this revision.
    bump_revision(transaction)?;
    let action = Action::HostEnrolled;
    audit::add(
        transaction,
        &by,
        Some(&host.workspace),
        action,
        &host.display_name,
    )?;
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

/// Adds the token that replaces the present one at its first use.
pub(super) fn rotate(
    transaction: &Transaction<'_>,
    host: &HostId,
    next: &SecretHash,
    prefix: &str,
) -> Result<(), StoreError> {
    let changed = transaction.execute(
        "UPDATE host SET next_token = ?2, next_token_prefix = ?3 WHERE id = ?1 AND token IS NOT NULL",
        params![host.as_str(), next.0, prefix],
    )?;
    found(changed, "host")
}

/// Makes the next token of a host the present one.
pub(super) fn begin_token(
    transaction: &Transaction<'_>,
    token: &SecretHash,
    now: Timestamp,
) -> Result<(), StoreError> {
    let changed = transaction.execute(
        "UPDATE host SET token = next_token, token_prefix = next_token_prefix, token_since = ?2,
         next_token = NULL, next_token_prefix = NULL WHERE next_token = ?1 AND token IS NOT NULL",
        params![token.0, now.as_microsecond()],
    )?;
    if changed > 0 {
        bump_revision(transaction)?;
    }
    Ok(())
}

pub(super) fn approve(
    transaction: &Transaction<'_>,
    by: &Change,
    workspace: &WorkspaceId,
    host: &HostId,
) -> Result<(), StoreError> {
    let name: Option<String> = transaction
        .query_row(
            "UPDATE host SET is_approved = TRUE WHERE workspace = ?1 AND id = ?2 AND token IS NOT NULL RETURNING display_name",
            [workspace.as_str(), host.as_str()],
            |row| row.get(0),
        )
        .optional()?;
    let name = name.ok_or(StoreError::NotFound("host"))?;
    bump_revision(transaction)?;
    audit::add(
        transaction,
        by,
        Some(workspace),
        Action::HostApproved,
        &name,
    )
}

/// Moves the agent of the new host to the old one.
pub(super) fn replace(
    transaction: &Transaction<'_>,
    by: &Change,
    workspace: &WorkspaceId,
    (old, new): (&HostId, &HostId),
) -> Result<(), StoreError> {
    conflict_unless(old != new, "a host cannot replace itself")?;
    let tokens: Option<([u8; 32], Option<[u8; 32]>)> = transaction
        .query_row(
            "SELECT token, next_token FROM host WHERE workspace = ?1 AND id = ?2 AND token IS NOT NULL AND is_approved",
            [workspace.as_str(), new.as_str()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let (token, next_token) = tokens.ok_or(StoreError::NotFound("host"))?;
    // First, because no two hosts have the same token.
    transaction.execute(
        "UPDATE host SET token = NULL, next_token = NULL WHERE id = ?1",
        [new.as_str()],
    )?;
    let name: Option<String> = transaction
        .query_row(
            "UPDATE host SET token = ?3, next_token = ?5,
             (hostname, agent_version, driver_version, token_prefix, token_since, next_token_prefix) =
             (SELECT hostname, agent_version, driver_version, token_prefix, token_since, next_token_prefix FROM host WHERE id = ?4)
             WHERE workspace = ?1 AND id = ?2 AND token IS NOT NULL RETURNING display_name",
            params![
                workspace.as_str(),
                old.as_str(),
                token,
                new.as_str(),
                next_token
            ],
            |row| row.get(0),
        )
        .optional()?;
    let name = name.ok_or(StoreError::NotFound("host"))?;
    bump_revision(transaction)?;
    audit::add(
        transaction,
        by,
        Some(workspace),
        Action::HostReplaced,
        &name,
    )
}

pub(super) fn rename(
    transaction: &Transaction<'_>,
    by: &Change,
    workspace: &WorkspaceId,
    host: &HostId,
    name: &str,
) -> Result<(), StoreError> {
    let changed = transaction.execute(
        "UPDATE host SET display_name = ?3 WHERE workspace = ?1 AND id = ?2 AND token IS NOT NULL",
        [workspace.as_str(), host.as_str(), name],
    )?;
    found(changed, "host")?;
    bump_revision(transaction)?;
    audit::add(transaction, by, Some(workspace), Action::HostRenamed, name)
}

pub(super) fn set_groups(
    transaction: &Transaction<'_>,
    by: &Change,
    (workspace, host): (&WorkspaceId, &HostId),
    groups: &[String],
) -> Result<(), StoreError> {
    let name: Option<String> = transaction
        .query_row(
            "UPDATE host SET groups = ?3 WHERE workspace = ?1 AND id = ?2 AND token IS NOT NULL RETURNING display_name",
            [workspace.as_str(), host.as_str(), &groups.join("\n")],
            |row| row.get(0),
        )
        .optional()?;
    let name = name.ok_or(StoreError::NotFound("host"))?;
    bump_revision(transaction)?;
    let object = format!("{name}: {}", groups.join(", "));
    let action = Action::HostGroupsSet;
    audit::add(transaction, by, Some(workspace), action, &object)
}

pub(super) fn set_maintenance(
    transaction: &Transaction<'_>,
    by: &Change,
    workspace: &WorkspaceId,
    host: &HostId,
    maintenance: Option<&Maintenance>,
) -> Result<(), StoreError> {
    let until = maintenance.and_then(|one| one.until);
    let name: Option<String> = transaction
        .query_row(
            "UPDATE host SET maintenance_note = ?3, maintenance_until = ?4
             WHERE workspace = ?1 AND id = ?2 AND token IS NOT NULL RETURNING display_name",
            params![
                workspace.as_str(),
                host.as_str(),
                maintenance.map(|one| &one.note),
                until.map(Timestamp::as_microsecond),
            ],
            |row| row.get(0),
        )
        .optional()?;
    let name = name.ok_or(StoreError::NotFound("host"))?;
    bump_revision(transaction)?;
    let (action, object) = match maintenance {
        Some(one) => (Action::MaintenanceSet, format!("{name}: {}", one.note)),
        None => (Action::MaintenanceEnded, name),
    };
    audit::add(transaction, by, Some(workspace), action, &object)
}

pub(super) fn revoke(
    transaction: &Transaction<'_>,
    by: &Change,
    workspace: &WorkspaceId,
    host: &HostId,
) -> Result<(), StoreError> {
    let name: Option<String> = transaction
        .query_row(
            "UPDATE host SET token = NULL, next_token = NULL WHERE workspace = ?1 AND id = ?2 AND token IS NOT NULL
             RETURNING display_name",
            [workspace.as_str(), host.as_str()],
            |row| row.get(0),
        )
        .optional()?;
    let name = name.ok_or(StoreError::NotFound("host"))?;
    bump_revision(transaction)?;
    audit::add(transaction, by, Some(workspace), Action::HostRevoked, &name)
}
