//! Hosts and enrolment keys in SQLite.

use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::{audit, bump_revision, found, optional_time, time};
use crate::error::StoreError;
use crate::id::{EnrolmentKeyId, HostId, WorkspaceId};
use crate::registry::{Action, Change, EnrolmentKey, Host, HostClaim, NewEnrolmentKey};

/// All usable keys of a workspace, for [`key`].
pub(super) const KEYS: &str =
    "SELECT id, workspace, name, prefix, uses_left, created, expires FROM enrolment_key
     WHERE workspace = ?1 AND uses_left > 0 ORDER BY created, id";

/// Enrolled hosts of a workspace (all if it is NULL), for [`host`].
pub(super) const HOSTS: &str = "SELECT id, workspace, display_name, hostname, agent_version, driver_version, token_prefix, enrolled
     FROM host WHERE token IS NOT NULL AND coalesce(workspace = ?1, TRUE) ORDER BY display_name, id";

/// The host of a token, for [`host`].
pub(super) const HOST_BY_TOKEN: &str = "SELECT id, workspace, display_name, hostname, agent_version, driver_version, token_prefix, enrolled
     FROM host WHERE token = ?1";

pub(super) fn key(row: &Row<'_>) -> Result<EnrolmentKey, StoreError> {
    Ok(EnrolmentKey {
        id: EnrolmentKeyId(row.get(0)?),
        workspace: WorkspaceId(row.get(1)?),
        name: row.get(2)?,
        prefix: row.get(3)?,
        uses_left: row.get(4)?,
        created: time(row.get(5)?)?,
        expires: optional_time(row.get(6)?)?,
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
        token_prefix: row.get(6)?,
        enrolled: time(row.get(7)?)?,
    })
}

pub(super) fn add_key(
    transaction: &Transaction<'_>,
    by: &Change,
    new: &NewEnrolmentKey,
) -> Result<EnrolmentKey, StoreError> {
    let id = EnrolmentKeyId::random();
    transaction.execute(
        "INSERT INTO enrolment_key (id, hash, prefix, workspace, name, uses_left, created, expires)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            id.as_str(),
            new.hash.0,
            new.prefix,
            new.workspace.as_str(),
            new.name,
            new.uses,
            by.at.as_microsecond(),
            new.expires.map(Timestamp::as_microsecond),
        ],
    )?;
    let object = new.name.as_deref().unwrap_or(&new.prefix);
    let action = Action::EnrolmentKeyAdded;
    audit(transaction, by, Some(&new.workspace), action, object)?;
    Ok(EnrolmentKey {
        id,
        workspace: new.workspace.clone(),
        name: new.name.clone(),
        prefix: new.prefix.clone(),
        uses_left: new.uses,
        created: by.at,
        expires: new.expires,
    })
}

/// Uses the key and adds the host. Two claims with a one-time key cannot both succeed: the update is atomic.
pub(super) fn claim(transaction: &Transaction<'_>, claim: &HostClaim) -> Result<Host, StoreError> {
    let used = transaction
        .query_row(
            "UPDATE enrolment_key SET uses_left = uses_left - 1
             WHERE hash = ?1 AND uses_left > 0 AND coalesce(expires > ?2, TRUE) RETURNING workspace, name, prefix",
            params![claim.key.0, claim.at.as_microsecond()],
            |row| {
                let workspace = WorkspaceId(row.get(0)?);
                Ok((workspace, row.get(1)?, row.get::<_, String>(2)?))
            },
        )
        .optional()?;
    let (workspace, name, prefix) = used.ok_or(StoreError::NotFound("enrolment key"))?;
    let id = HostId::random();
    let display_name: Option<String> = name;
    let display_name = display_name
        .or_else(|| claim.hostname.clone())
        .unwrap_or_else(|| id.to_string());
    transaction.execute(
        "INSERT INTO host (id, workspace, display_name, hostname, agent_version, driver_version, token, token_prefix, enrolled)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            id.as_str(),
            workspace.as_str(),
            display_name,
            claim.hostname,
            claim.agent_version,
            claim.driver_version,
            claim.token.0,
            claim.token_prefix,
            claim.at.as_microsecond(),
        ],
    )?;
    let by = Change {
        actor: format!("enrolment key {prefix}"),
        address: claim.address.clone(),
        at: claim.at,
    };
    let action = Action::HostEnrolled;
    audit(transaction, &by, Some(&workspace), action, &display_name)?;
    Ok(Host {
        id,
        workspace,
        display_name,
        hostname: claim.hostname.clone(),
        agent_version: claim.agent_version.clone(),
        driver_version: claim.driver_version.clone(),
        token_prefix: claim.token_prefix.clone(),
        enrolled: claim.at,
    })
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
    audit(transaction, by, Some(workspace), Action::HostRenamed, name)
}

pub(super) fn revoke(
    transaction: &Transaction<'_>,
    by: &Change,
    workspace: &WorkspaceId,
    host: &HostId,
) -> Result<(), StoreError> {
    let name: Option<String> = transaction
        .query_row(
            "UPDATE host SET token = NULL WHERE workspace = ?1 AND id = ?2 AND token IS NOT NULL RETURNING display_name",
            [workspace.as_str(), host.as_str()],
            |row| row.get(0),
        )
        .optional()?;
    let name = name.ok_or(StoreError::NotFound("host"))?;
    bump_revision(transaction)?;
    audit(transaction, by, Some(workspace), Action::HostRevoked, &name)
}
