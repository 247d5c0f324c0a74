//! Identities of people at providers, and their user names on hosts.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Account, Change, Host, Role};
use crate::error::Result;
use crate::id::{AccountId, HostId, WorkspaceId};
use crate::secret::SecretHash;

/// Identities of people at providers, and their user names on hosts.
pub trait People {
    /// Returns the account of a person that a provider or proxy has authenticated.
    fn account_by_identity(&self, identity: &Identity) -> Result<Option<Account>>;

    /// Lets such a person join: adds an account if there is none, and makes it a member unless it is one. Another name is
    /// chosen if the suggested one is taken, because two people can have the same name. The audit log shows the
    /// account itself as the actor.
    fn join(&self, by: &Change, identity: &Identity, name: &str, join: &Join) -> Result<Account>;

    /// Adds a code with which a member proves a user name on a host. It works once. A member has one code at a time.
    fn add_name_code(
        &self,
        code: &SecretHash,
        workspace: &WorkspaceId,
        account: &AccountId,
        expires: Timestamp,
    ) -> Result<()>;

    /// Redeems such a code: a host confirms that the holder of the code has this user name there. Returns the name of the
    /// holder's account.
    fn prove_name(&self, by: &Change, code: &SecretHash, host: &Host, name: &str)
    -> Result<String>;

    /// Links a user name on one host or all hosts to a member, or removes the link (`None`).
    fn set_user_name(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        user: &HostUser,
        account: Option<&AccountId>,
    ) -> Result<()>;

    /// Returns all links of a workspace, by account and name.
    fn user_names(&self, workspace: &WorkspaceId) -> Result<Vec<UserName>>;
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
    /// Everyone whom the provider or proxy authenticates gets this role.
    Role { workspace: WorkspaceId, role: Role },
}

/// A user name on one host, or on all hosts of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostUser {
    pub host: Option<HostId>,
    /// As the host sends it: a name or a pseudonym.
    #[schemars(length(min = 1, max = MAX_USER_NAME_LENGTH))]
    pub name: String,
}

/// Maximum length of a user name, in characters.
pub const MAX_USER_NAME_LENGTH: usize = 100;

/// A user name that belongs to a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserName {
    #[serde(flatten)]
    pub user: HostUser,
    pub account: AccountId,
    pub since: Timestamp,
}
