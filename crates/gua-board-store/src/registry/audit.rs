//! The audit log: who changed what, and when.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::WorkspaceId;

/// Author, origin and time of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub actor: Actor,
    /// Address of the client; `None` for a command on the board's host.
    pub address: Option<String>,
    pub at: Timestamp,
}

/// Author of a change, as the audit log shows it: the name of an account, or a description in brackets. No account name begins
/// with a bracket ([`Actor::is_reserved`]), so neither a host nor an unauthenticated caller can appear as an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor(String);

impl Actor {
    /// Whether an account must not have this name.
    #[must_use]
    pub fn is_reserved(name: &str) -> bool {
        name.starts_with('[')
    }

    /// An account that has been authenticated, by its unique name. Names never change.
    #[must_use]
    pub fn account(name: &str) -> Self {
        match Self::is_reserved(name) {
            true => Self(format!("account {name}")),
            false => Self(name.to_owned()),
        }
    }

    /// The agent of an enrolled host.
    #[must_use]
    pub fn host(name: &str) -> Self {
        Self(format!("[host {name}]"))
    }

    /// A host that enrols with a key.
    #[must_use]
    pub fn enrolment_key(prefix: &str) -> Self {
        Self(format!("[enrolment key {prefix}]"))
    }

    /// A command on the board's host.
    #[must_use]
    pub fn command_line() -> Self {
        Self("[command line]".to_owned())
    }

    /// A person with a link that resets a password.
    #[must_use]
    pub fn reset_link() -> Self {
        Self("[reset link]".to_owned())
    }

    /// The OpenID Connect provider, at the log-in of a member.
    #[must_use]
    pub fn provider() -> Self {
        Self("[OIDC provider]".to_owned())
    }

    /// A person or program that has not been authenticated.
    #[must_use]
    pub fn unknown() -> Self {
        Self("[unknown]".to_owned())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What happened, in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    WorkspaceAdded,
    AccountAdded,
    PasswordSet,
    RoleSet,
    MemberRemoved,
    UserNameLinked,
    UserNameUnlinked,
    LoggedIn,
    LogInFailed,
    ApiTokenAdded,
    ApiTokenRevoked,
    LinkAdded,
    ResetLinkAdded,
    EnrolmentKeyAdded,
    EnrolmentKeyRevoked,
    EnrolmentRefused,
    HostEnrolled,
    HostApproved,
    HostRenamed,
    HostReplaced,
    HostRevoked,
    MaintenanceSet,
    MaintenanceEnded,
    HostGroupsSet,
    MemberGroupsSet,
    PersonViewed,
    SettingsChanged,
}

impl Action {
    pub const ALL: [Action; 27] = [
        Action::WorkspaceAdded,
        Action::AccountAdded,
        Action::PasswordSet,
        Action::RoleSet,
        Action::MemberRemoved,
        Action::UserNameLinked,
        Action::UserNameUnlinked,
        Action::LoggedIn,
        Action::LogInFailed,
        Action::ApiTokenAdded,
        Action::ApiTokenRevoked,
        Action::LinkAdded,
        Action::ResetLinkAdded,
        Action::EnrolmentKeyAdded,
        Action::EnrolmentKeyRevoked,
        Action::EnrolmentRefused,
        Action::HostEnrolled,
        Action::HostApproved,
        Action::HostRenamed,
        Action::HostReplaced,
        Action::HostRevoked,
        Action::MaintenanceSet,
        Action::MaintenanceEnded,
        Action::HostGroupsSet,
        Action::MemberGroupsSet,
        Action::PersonViewed,
        Action::SettingsChanged,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Action::WorkspaceAdded => "workspace-added",
            Action::AccountAdded => "account-added",
            Action::PasswordSet => "password-set",
            Action::RoleSet => "role-set",
            Action::MemberRemoved => "member-removed",
            Action::UserNameLinked => "user-name-linked",
            Action::UserNameUnlinked => "user-name-unlinked",
            Action::LoggedIn => "logged-in",
            Action::LogInFailed => "log-in-failed",
            Action::ApiTokenAdded => "api-token-added",
            Action::ApiTokenRevoked => "api-token-revoked",
            Action::LinkAdded => "link-added",
            Action::ResetLinkAdded => "reset-link-added",
            Action::EnrolmentKeyAdded => "enrolment-key-added",
            Action::EnrolmentKeyRevoked => "enrolment-key-revoked",
            Action::EnrolmentRefused => "enrolment-refused",
            Action::HostEnrolled => "host-enrolled",
            Action::HostApproved => "host-approved",
            Action::HostRenamed => "host-renamed",
            Action::HostReplaced => "host-replaced",
            Action::HostRevoked => "host-revoked",
            Action::MaintenanceSet => "maintenance-set",
            Action::MaintenanceEnded => "maintenance-ended",
            Action::HostGroupsSet => "host-groups-set",
            Action::MemberGroupsSet => "member-groups-set",
            Action::PersonViewed => "person-viewed",
            Action::SettingsChanged => "settings-changed",
        }
    }
}

/// An event for the audit log.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// `None` for an event of the whole board.
    pub workspace: Option<&'a WorkspaceId>,
    pub action: Action,
    /// What it happened to, in a form that people recognize.
    pub object: &'a str,
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
        for other in [
            Actor::host("ada"),
            Actor::enrolment_key("ada"),
            Actor::command_line(),
            Actor::reset_link(),
            Actor::provider(),
            Actor::unknown(),
        ] {
            assert!(Actor::is_reserved(other.as_str()), "{other}");
            assert_ne!(Actor::account(other.as_str()), other);
        }
        assert_eq!(Actor::account("ada").as_str(), "ada");
    }
}
