//! Accounts: roles, identities at providers, members, sessions, API tokens, links, and user names on hosts.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Workspace;
use crate::id::{AccountId, ApiTokenId, HostId, WorkspaceId};
use crate::password::PasswordHash;
use crate::secret::{Kind, SecretHash};

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

/// Error for a role or scope that does not exist.
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
    /// Everyone whom the provider or proxy authenticates gets this role.
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

/// Maximum length of a user name, in characters.
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
    /// Groups that decide which hosts the member sees, in lower case. Admins and owners see all hosts.
    pub groups: Vec<String>,
}

/// A workspace of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Membership {
    pub workspace: Workspace,
    pub role: Role,
    pub groups: Vec<String>,
}

impl Membership {
    /// Returns the groups for [`Host::is_for`](super::Host::is_for); `None` for a role that sees all hosts.
    #[must_use]
    pub fn host_groups(&self) -> Option<&[String]> {
        (self.role < Role::Admin).then_some(&self.groups)
    }
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

/// Purpose of a link.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_answered_with_the_known_ones() {
        let role = "boss".parse::<Role>().unwrap_err().to_string();
        assert_eq!(role, "use one of viewer, member, admin, owner");
        let scope = "all".parse::<Scope>().unwrap_err().to_string();
        assert_eq!(scope, "use one of screen, read, write");
    }
}
