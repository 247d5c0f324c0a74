//! The registry: workspaces, accounts, hosts, tokens and the audit log. It is small and every change is a transaction.
//!
//! A method that changes something takes a [`Change`], which says who asks and when. The engine writes it to the audit log
//! in the same transaction, so that no change is without an entry and no entry without a change.

mod account;
mod audit;
mod host;
mod settings;

use jiff::Timestamp;

use crate::error::StoreError;
use crate::id::{AccountId, ApiTokenId, EnrolmentKeyId, HostId, WorkspaceId};
use crate::password::PasswordHash;
use crate::secret::SecretHash;

pub use account::{
    Account, ApiToken, HostUser, Identity, Join, LONGEST_USER_NAME, LinkPurpose, Member,
    Membership, NewAccount, NewApiToken, NewLink, NewSession, Role, Scope, UnknownWord, UserName,
};
pub use audit::{Action, Actor, AuditEntry, AuditView, Change, Event};
pub use host::{
    EnrolmentKey, Host, HostClaim, KeyLimits, Maintenance, NewEnrolmentKey, Refusal, is_name_match,
};
pub use settings::{Settings, Workspace};

/// Name of the workspace that a new board has.
pub const FIRST_WORKSPACE: &str = "default";

/// Accounts, hosts and credentials of a board.
pub trait Registry: Send + Sync {
    /// Returns a number that changes whenever a credential or a role was changed or revoked. Caches compare it.
    fn revision(&self) -> Result<u64, StoreError>;

    /// Returns all workspaces by name.
    fn workspaces(&self) -> Result<Vec<Workspace>, StoreError>;
    fn add_workspace(&self, by: &Change, name: &str) -> Result<Workspace, StoreError>;
    /// Replaces the settings of a workspace. If nothing changes, no audit entry is written.
    fn set_settings(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        settings: &Settings,
    ) -> Result<(), StoreError>;

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
    /// Replaces the groups of a member.
    fn set_member_groups(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        account: &AccountId,
        groups: &[String],
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
    /// chosen if the suggested one is taken, because two people can have the same name. The audit log shows the
    /// account itself as the actor.
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
    /// Replaces the groups of members who may use a host.
    fn set_host_groups(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
        groups: &[String],
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
    /// Returns the newest entries of a view, newest first, older than `before`.
    fn audit_log(
        &self,
        view: AuditView<'_>,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<AuditEntry>, StoreError>;
}
