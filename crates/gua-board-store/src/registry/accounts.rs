//! Accounts, their roles in workspaces, and sessions.

use gua_model::words;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Change;
use crate::error::Result;
use crate::id::{AccountId, WorkspaceId};
use crate::password::PasswordHash;
use crate::secret::SecretHash;

/// Accounts, members and sessions.
pub trait Accounts {
    /// Returns whether any account exists.
    fn has_accounts(&self) -> Result<bool>;

    /// Adds an account with a role in a workspace.
    fn add_account(&self, by: &Change, account: &NewAccount) -> Result<Account>;

    /// Finds an account by name, regardless of case.
    fn account(&self, name: &str) -> Result<Option<Account>>;

    /// Replaces the password and ends the account's sessions.
    fn set_password(&self, by: &Change, account: &AccountId, password: &PasswordHash)
    -> Result<()>;

    /// Adds a member, changes a role, or removes a member (`None`). The last owner of a workspace stays.
    fn set_role(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        account: &AccountId,
        role: Option<Role>,
    ) -> Result<()>;

    /// Replaces the groups of a member.
    fn set_member_groups(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        account: &AccountId,
        groups: &[String],
    ) -> Result<()>;

    /// Returns the members of a workspace by name.
    fn members(&self, workspace: &WorkspaceId) -> Result<Vec<Member>>;

    /// Adds a session of a browser.
    fn add_session(&self, by: &Change, session: &NewSession) -> Result<()>;

    /// Returns the account of a session that has not expired.
    fn session(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<Account>>;

    /// Ends a session.
    fn end_session(&self, hash: &SecretHash) -> Result<()>;
}

words! {
    /// Role of an account in a workspace. Each role may do what the one before it may.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Role {
        /// Sees states without names.
        Viewer = "viewer",
        /// Sees current holders by name.
        Member = "member",
        /// Manages hosts, members and tokens.
        Admin = "admin",
        /// Manages admins and owners as well.
        Owner = "owner",
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

/// A browser session to add.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub hash: SecretHash,
    pub account: AccountId,
    pub expires: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::super::Scope;
    use super::*;

    #[test]
    fn an_unknown_word_is_answered_with_the_known_ones() {
        let role = "boss".parse::<Role>().unwrap_err().to_string();
        assert_eq!(role, "use one of viewer, member, admin, owner");
        let scope = "all".parse::<Scope>().unwrap_err().to_string();
        assert_eq!(scope, "use one of screen, read, write");
    }
}
