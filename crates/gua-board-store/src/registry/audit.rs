//! The audit log: who changed what, and when.

use std::fmt;

use gua_model::words;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::id::WorkspaceId;

/// The audit log.
pub trait Audit {
    /// Adds an entry about an event that changes nothing in the registry, such as a failed log-in. `object` is what it happened
    /// to, in a form that people recognize. An event of the whole board has no workspace.
    fn log(
        &self,
        by: &Change,
        workspace: Option<&WorkspaceId>,
        action: Action,
        object: &str,
    ) -> Result<()>;

    /// Returns the newest entries of one kind since a time, newest first.
    fn events(
        &self,
        workspace: &WorkspaceId,
        action: Action,
        since: Timestamp,
        most: u32,
    ) -> Result<Vec<AuditEntry>>;

    /// Returns the newest entries of a view, newest first, older than `before`.
    fn audit_log(
        &self,
        view: AuditView<'_>,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<AuditEntry>>;
}

/// Author, origin and time of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub actor: Actor,
    /// Address of the client; `None` for a command on the board's host.
    pub address: Option<String>,
    pub at: Timestamp,
}

/// Author of a change. The audit log shows the name of an account, or a description in brackets. No account name begins with a
/// bracket ([`Actor::is_reserved`]), so neither a host nor an unauthenticated caller can appear as an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// An account that has been authenticated, by its unique name. Names never change.
    Account(String),
    /// The agent of an enrolled host, by the host's name.
    Host(String),
    /// A host that enrols, by the prefix of its key.
    EnrolmentKey(String),
    /// A command on the board's host.
    CommandLine,
    /// A person with a link that resets a password.
    ResetLink,
    /// The OpenID Connect provider, at the log-in of a member.
    Provider,
    /// A person or program that has not been authenticated.
    Unknown,
}

impl Actor {
    /// Whether an account must not have this name.
    pub fn is_reserved(name: &str) -> bool {
        name.starts_with('[')
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account(name) if Self::is_reserved(name) => write!(out, "account {name}"),
            Self::Account(name) => out.write_str(name),
            Self::Host(name) => write!(out, "[host {name}]"),
            Self::EnrolmentKey(prefix) => write!(out, "[enrolment key {prefix}]"),
            Self::CommandLine => out.write_str("[command line]"),
            Self::ResetLink => out.write_str("[reset link]"),
            Self::Provider => out.write_str("[OIDC provider]"),
            Self::Unknown => out.write_str("[unknown]"),
        }
    }
}

words! {
    /// Kind of an event in the audit log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Action {
        WorkspaceAdded = "workspace-added",
        AccountAdded = "account-added",
        PasswordSet = "password-set",
        RoleSet = "role-set",
        MemberRemoved = "member-removed",
        UserNameLinked = "user-name-linked",
        UserNameUnlinked = "user-name-unlinked",
        LoggedIn = "logged-in",
        LogInFailed = "log-in-failed",
        ApiTokenAdded = "api-token-added",
        ApiTokenRevoked = "api-token-revoked",
        LinkAdded = "link-added",
        ResetLinkAdded = "reset-link-added",
        EnrolmentKeyAdded = "enrolment-key-added",
        EnrolmentKeyRevoked = "enrolment-key-revoked",
        EnrolmentRefused = "enrolment-refused",
        HostEnrolled = "host-enrolled",
        HostApproved = "host-approved",
        HostRenamed = "host-renamed",
        HostReplaced = "host-replaced",
        HostRevoked = "host-revoked",
        MaintenanceSet = "maintenance-set",
        MaintenanceEnded = "maintenance-ended",
        HostGroupsSet = "host-groups-set",
        MemberGroupsSet = "member-groups-set",
        PersonViewed = "person-viewed",
        SettingsChanged = "settings-changed",
    }
}

/// Part of the audit log that a person may read. Log-ins, failed log-ins and passwords belong to the whole board, not to a
/// workspace.
#[derive(Clone, Copy, Debug)]
pub enum AuditView<'a> {
    /// Entries of a workspace, and entries of the whole board about accounts of its members.
    Workspace(&'a WorkspaceId),
    /// Entries of a workspace, and all entries of the whole board.
    Board(&'a WorkspaceId),
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AuditEntry {
    /// Increases with each entry.
    pub number: i64,
    pub at: Timestamp,
    pub actor: String,
    pub address: Option<String>,
    pub action: Action,
    pub object: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_an_account_appears_as_one() {
        let others = [
            Actor::Host("ada".to_owned()),
            Actor::EnrolmentKey("ada".to_owned()),
            Actor::CommandLine,
            Actor::ResetLink,
            Actor::Provider,
            Actor::Unknown,
        ];
        for shown in others.map(|other| other.to_string()) {
            assert!(Actor::is_reserved(&shown), "{shown}");
            assert_ne!(Actor::Account(shown.clone()).to_string(), shown);
        }
        assert_eq!(Actor::Account("ada".to_owned()).to_string(), "ada");
    }
}
