//! The registry: workspaces, accounts, hosts, tokens and the audit log. It is small and every change is a transaction.
//!
//! A method that changes something takes a [`Change`], which says who asks and when. The engine writes it to the audit log
//! in the same transaction, so that no change is without an entry and no entry without a change.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::id::{AccountId, ApiTokenId, EnrolmentKeyId, HostId, WorkspaceId};
use crate::password::PasswordHash;
use crate::secret::{Kind, SecretHash};

/// Name of the workspace that a new board has.
pub const FIRST_WORKSPACE: &str = "default";

/// Accounts, hosts and credentials of a board.
pub trait Registry: Send + Sync {
    /// Returns a number that changes whenever a credential or a role was changed or revoked. Caches compare it.
    fn revision(&self) -> Result<u64, StoreError>;

    /// Returns all workspaces by name.
    fn workspaces(&self) -> Result<Vec<Workspace>, StoreError>;
    fn add_workspace(&self, by: &Change, name: &str) -> Result<Workspace, StoreError>;

    /// Adds an account with a role in a workspace.
    fn add_account(&self, by: &Change, account: &NewAccount) -> Result<Account, StoreError>;
    /// Finds an account by name, regardless of case.
    fn account(&self, name: &str) -> Result<Option<Account>, StoreError>;
    /// Replaces the password and ends the account's sessions.
    fn set_password(
        &self,
        by: &Change,
        account: &AccountId,
        password: &PasswordHash,
    ) -> Result<(), StoreError>;
    /// Adds a member, changes a role, or removes a member (`None`). The last owner of a workspace stays.
    fn set_role(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        account: &AccountId,
        role: Option<Role>,
    ) -> Result<(), StoreError>;
    fn members(&self, workspace: &WorkspaceId) -> Result<Vec<Member>, StoreError>;
    /// Returns the workspaces that an account is a member of, by name.
    fn memberships(&self, account: &AccountId) -> Result<Vec<Membership>, StoreError>;

    fn add_session(&self, by: &Change, session: &NewSession) -> Result<(), StoreError>;
    /// Returns the account of a session that has not expired.
    fn session(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<Account>, StoreError>;
    fn end_session(&self, hash: &SecretHash) -> Result<(), StoreError>;

    fn add_api_token(&self, by: &Change, token: &NewApiToken) -> Result<ApiToken, StoreError>;
    /// Returns the token of this hash unless it has expired, with its account's current role. A token whose account is no
    /// longer a member has no role and is not returned.
    fn api_token(
        &self,
        hash: &SecretHash,
        now: Timestamp,
    ) -> Result<Option<(ApiToken, Role)>, StoreError>;
    fn api_tokens(&self, workspace: &WorkspaceId) -> Result<Vec<ApiToken>, StoreError>;
    fn revoke_api_token(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        token: &ApiTokenId,
    ) -> Result<(), StoreError>;

    /// Adds a link that works once.
    fn add_link(&self, by: &Change, link: &NewLink) -> Result<(), StoreError>;
    /// Returns what a valid link is for, without using it.
    fn link(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<LinkPurpose>, StoreError>;
    /// Uses a set-up or invitation link: the link is deleted and the account added in one transaction.
    fn accept_link(
        &self,
        by: &Change,
        hash: &SecretHash,
        name: &str,
        password: &PasswordHash,
    ) -> Result<Account, StoreError>;
    /// Redeems a password reset link: deletes the link, replaces the password and ends the sessions.
    fn reset_password(
        &self,
        by: &Change,
        hash: &SecretHash,
        password: &PasswordHash,
    ) -> Result<Account, StoreError>;
    /// Returns the account of a person that a provider or proxy has authenticated.
    fn account_by_identity(&self, identity: &Identity) -> Result<Option<Account>, StoreError>;
    /// Lets such a person join: adds an account if there is none, and makes it a member unless it is one. Another name is
    /// chosen where the suggested one is taken, because equal names need not be the same person.
    fn join(
        &self,
        by: &Change,
        identity: &Identity,
        name: &str,
        join: &Join,
    ) -> Result<Account, StoreError>;

    /// Adds a code with which a member proves a user name on a host. It works once.
    fn add_name_code(
        &self,
        code: &SecretHash,
        workspace: &WorkspaceId,
        account: &AccountId,
        expires: Timestamp,
    ) -> Result<(), StoreError>;
    /// Redeems such a code: a host confirms that the holder of the code has this user name there.
    fn prove_name(
        &self,
        by: &Change,
        code: &SecretHash,
        host: &Host,
        name: &str,
    ) -> Result<Account, StoreError>;
    /// Links a user name on one host or all hosts to a member, or removes the link (`None`).
    fn set_user_name(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        name: &HostUser,
        account: Option<&AccountId>,
    ) -> Result<(), StoreError>;
    /// Returns all links of a workspace, by account and name.
    fn user_names(&self, workspace: &WorkspaceId) -> Result<Vec<UserName>, StoreError>;

    /// Returns whether any account exists.
    fn has_accounts(&self) -> Result<bool, StoreError>;

    fn add_enrolment_key(
        &self,
        by: &Change,
        key: &NewEnrolmentKey,
    ) -> Result<EnrolmentKey, StoreError>;
    fn enrolment_keys(&self, workspace: &WorkspaceId) -> Result<Vec<EnrolmentKey>, StoreError>;
    fn revoke_enrolment_key(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        key: &EnrolmentKeyId,
    ) -> Result<(), StoreError>;
    /// Enrols a host: uses up one use of the key and adds the host in one transaction. `NotFound` if no valid key has
    /// this hash, or the key is not for a host of this name.
    fn claim(&self, claim: &HostClaim) -> Result<Host, StoreError>;
    /// Returns the reason an existing key does not enrol a host, and the key's workspace.
    fn refusal(&self, claim: &HostClaim) -> Result<Option<(WorkspaceId, Refusal)>, StoreError>;

    /// Returns the enrolled hosts of a workspace, or of all, by display name.
    fn hosts(&self, workspace: Option<&WorkspaceId>) -> Result<Vec<Host>, StoreError>;
    /// Returns the host whose agent has this token. The first use of a token of [`Registry::rotate_token`] invalidates the
    /// previous one.
    fn host_by_token(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<Host>, StoreError>;
    /// Adds the next token of a host. The present one stays valid until the agent uses the next one, so that an agent that
    /// cannot save it is not locked out.
    fn rotate_token(
        &self,
        host: &HostId,
        next: &SecretHash,
        prefix: &str,
    ) -> Result<(), StoreError>;
    /// Approves a host that enrolled with a key that needs approval.
    fn approve_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
    ) -> Result<(), StoreError>;
    /// Continues an old host with the agent of a new one, which is the same machine enrolled again. The old host keeps its
    /// name and records, and the new one is removed.
    fn replace_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        old: &HostId,
        new: &HostId,
    ) -> Result<(), StoreError>;
    fn rename_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
        name: &str,
    ) -> Result<(), StoreError>;
    /// Begins the maintenance of a host, during which people must not use it, or ends it (`None`).
    fn set_maintenance(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
        maintenance: Option<&Maintenance>,
    ) -> Result<(), StoreError>;
    /// Revokes the token of a host and removes it from listings. What it reported stays in the ledger.
    fn revoke_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
    ) -> Result<(), StoreError>;

    /// Adds an entry about an event that changes nothing in the registry, such as a failed log-in.
    fn log(&self, by: &Change, event: &Event<'_>) -> Result<(), StoreError>;
    /// Returns the newest entries of one kind since a time, newest first.
    fn events(
        &self,
        workspace: &WorkspaceId,
        action: Action,
        since: Timestamp,
        most: u32,
    ) -> Result<Vec<AuditEntry>, StoreError>;
    /// Returns the newest entries of a workspace and those of no workspace, newest first, older than `before`.
    fn audit_log(
        &self,
        workspace: &WorkspaceId,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<AuditEntry>, StoreError>;
}

/// Who asks for a change, from where, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name of an account, or a fixed phrase such as `command line`.
    pub actor: String,
    /// Address of the client; `None` for a command on the board's host.
    pub address: Option<String>,
    pub at: Timestamp,
}

/// Role of an account in a workspace. Each role may do what the one before it may.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees states without names.
    Viewer,
    /// Sees current holders by name.
    Member,
    /// Manages hosts, members and tokens.
    Admin,
    /// Manages admins and owners as well.
    Owner,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Viewer, Role::Member, Role::Admin, Role::Owner];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Member => "member",
            Role::Admin => "admin",
            Role::Owner => "owner",
        }
    }
}

/// What an API token may do, from least to most. It never exceeds the role of its account.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Opens the page of a wall screen, without names, and nothing else.
    Screen,
    /// Reads.
    Read,
    /// Reads and changes.
    Write,
}

impl Scope {
    pub const ALL: [Scope; 3] = [Scope::Screen, Scope::Read, Scope::Write];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Screen => "screen",
            Scope::Read => "read",
            Scope::Write => "write",
        }
    }
}

impl Scope {
    /// Kind of the secret of a token with this scope.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Scope::Screen => Kind::Screen,
            Scope::Read | Scope::Write => Kind::Api,
        }
    }
}

/// A word that is not one of the known ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use one of {}", known.join(", "))]
pub struct UnknownWord {
    pub known: Vec<&'static str>,
}

impl FromStr for Role {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let found = Role::ALL.into_iter().find(|role| role.as_str() == text);
        found.ok_or_else(|| UnknownWord {
            known: Role::ALL.map(Role::as_str).to_vec(),
        })
    }
}

impl FromStr for Scope {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let found = Scope::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| UnknownWord {
            known: Scope::ALL.map(Scope::as_str).to_vec(),
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

/// A group of hosts with its own members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Workspace {
    pub id: WorkspaceId,
    pub name: String,
}

/// A person or program that can log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub id: AccountId,
    pub name: String,
    /// `None` for an account that cannot log in with a password.
    pub password: Option<PasswordHash>,
}

/// Identity of a person at a provider or proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// URL of the provider, or `proxy`.
    pub issuer: String,
    /// Identifier that never changes and is never given to another person there (`sub` in OpenID Connect).
    pub subject: String,
}

/// Reason a person may become a member.
#[derive(Clone, Debug)]
pub enum Join {
    /// An invitation, which can be used once.
    Link(SecretHash),
    /// Everyone that the provider or proxy authenticates gets this role.
    Role { workspace: WorkspaceId, role: Role },
}

/// A user name on one host, or on all hosts of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostUser {
    pub host: Option<HostId>,
    /// As the host sends it: a name or a pseudonym.
    #[schemars(length(min = 1, max = LONGEST_USER_NAME))]
    pub name: String,
}

/// Most characters of a user name.
pub const LONGEST_USER_NAME: usize = 100;

/// A user name that belongs to a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserName {
    #[serde(flatten)]
    pub user: HostUser,
    pub account: AccountId,
    pub since: Timestamp,
}

/// An account to add.
#[derive(Clone, Debug)]
pub struct NewAccount {
    pub name: String,
    pub password: Option<PasswordHash>,
    pub workspace: WorkspaceId,
    pub role: Role,
}

/// An account in a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    pub account: AccountId,
    pub name: String,
    pub role: Role,
}

/// A workspace of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Membership {
    pub workspace: Workspace,
    pub role: Role,
}

/// A browser session to add.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub hash: SecretHash,
    pub account: AccountId,
    pub expires: Timestamp,
}

/// An API token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiToken {
    pub id: ApiTokenId,
    pub workspace: WorkspaceId,
    pub account: AccountId,
    /// Name of the account.
    pub account_name: String,
    pub scope: Scope,
    pub prefix: String,
    pub created: Timestamp,
    pub expires: Option<Timestamp>,
}

/// An API token to add.
#[derive(Clone, Debug)]
pub struct NewApiToken {
    pub hash: SecretHash,
    pub prefix: String,
    pub workspace: WorkspaceId,
    pub account: AccountId,
    pub scope: Scope,
    pub expires: Option<Timestamp>,
}

/// What a link is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkPurpose {
    /// Adds an account with this role.
    Join { workspace: WorkspaceId, role: Role },
    /// Sets the password of an account.
    Reset { account: AccountId },
}

/// A link to add.
#[derive(Clone, Debug)]
pub struct NewLink {
    pub hash: SecretHash,
    pub purpose: LinkPurpose,
    pub expires: Timestamp,
}

/// A key that enrols hosts, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrolmentKey {
    pub id: EnrolmentKeyId,
    pub workspace: WorkspaceId,
    /// Display name of the host that enrols; `None` uses the host's own name.
    pub name: Option<String>,
    pub prefix: String,
    #[serde(flatten)]
    pub limits: KeyLimits,
    pub uses_left: u32,
    pub created: Timestamp,
    pub expires: Option<Timestamp>,
}

/// Limits and options of an enrolment key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyLimits {
    /// Pattern of host names that may enrol, with `*` for any text; `None` for all.
    pub host_names: Option<String>,
    /// Tags that the hosts receive.
    pub tags: Vec<String>,
    /// Whether an admin has to approve each host before it may report.
    pub needs_approval: bool,
}

/// Reason an existing key does not enrol a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the enrolment token has been used already")]
    Used,
    #[error("the enrolment token has expired")]
    Expired,
    #[error("the enrolment token is for hosts named {0}")]
    HostName(String),
}

/// Returns whether a name matches a pattern, in which `*` matches any text. Host names have no case.
#[must_use]
pub fn is_name_match(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// An enrolment key to add.
#[derive(Clone, Debug)]
pub struct NewEnrolmentKey {
    pub hash: SecretHash,
    pub prefix: String,
    pub workspace: WorkspaceId,
    pub name: Option<String>,
    pub limits: KeyLimits,
    pub uses: u32,
    pub expires: Option<Timestamp>,
}

/// A host that enrols.
#[derive(Clone, Debug)]
pub struct HostClaim {
    pub key: SecretHash,
    pub token: SecretHash,
    pub token_prefix: String,
    pub hostname: Option<String>,
    pub agent_version: Option<String>,
    pub driver_version: Option<String>,
    pub address: Option<String>,
    pub at: Timestamp,
}

/// An enrolled host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    pub id: HostId,
    pub workspace: WorkspaceId,
    pub display_name: String,
    /// Facts that the host stated when it enrolled.
    pub hostname: Option<String>,
    pub agent_version: Option<String>,
    pub driver_version: Option<String>,
    pub tags: Vec<String>,
    /// Whether the host may report, or still needs approval.
    pub is_approved: bool,
    pub token_prefix: String,
    /// Time since which the present agent token is in use.
    pub token_since: Timestamp,
    pub enrolled: Timestamp,
    pub maintenance: Option<Maintenance>,
}

impl Host {
    /// Returns the maintenance that is in force.
    #[must_use]
    pub fn maintenance(&self, now: Timestamp) -> Option<&Maintenance> {
        let maintenance = self.maintenance.as_ref();
        maintenance.filter(|one| one.until.is_none_or(|until| until > now))
    }
}

/// Maintenance of a host: the note for people who want to use it, and its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Maintenance {
    pub note: String,
    /// `None` if it lasts until an admin ends it.
    pub until: Option<Timestamp>,
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
    PersonViewed,
}

impl Action {
    pub const ALL: [Action; 23] = [
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
        Action::PersonViewed,
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
            Action::PersonViewed => "person-viewed",
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
    fn a_pattern_of_host_names_is_matched_as_a_whole() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(is_name_match(pattern, name), expected, "{pattern} {name}");
        };
        check("gpu1", "GPU1", true);
        check("gpu1", "gpu12", false);
        check("gpu*", "gpu12", true);
        check("gpu*", "lab-gpu", false);
        check("*.lab.example.com", "a.lab.example.com", true);
        check("*.lab.example.com", "a.lab.example.com.evil", false);
        check("a*b*a", "aba", true);
        check("a*b*a", "aa", false);
        check("ab*ba", "aba", false);
        check("*", "", true);
        check("", "x", false);
    }

    #[test]
    fn an_unknown_word_is_answered_with_the_known_ones() {
        let role = "boss".parse::<Role>().unwrap_err().to_string();
        assert_eq!(role, "use one of viewer, member, admin, owner");
        let scope = "all".parse::<Scope>().unwrap_err().to_string();
        assert_eq!(scope, "use one of screen, read, write");
    }
}
