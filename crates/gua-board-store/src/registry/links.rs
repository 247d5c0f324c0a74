//! Links that work once: set-up, invitation and password reset.

use jiff::Timestamp;

use super::{Account, Change, Role};
use crate::error::Result;
use crate::id::{AccountId, WorkspaceId};
use crate::password::PasswordHash;
use crate::secret::SecretHash;

/// Links that work once: set-up, invitation and password reset.
pub trait Links {
    /// Adds a link that works once.
    fn add_link(&self, by: &Change, link: &NewLink) -> Result<()>;

    /// Returns what a valid link is for, without using it.
    fn link(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<LinkPurpose>>;

    /// Uses a set-up or invitation link: the link is deleted and the account added in one transaction.
    fn accept_link(
        &self,
        by: &Change,
        hash: &SecretHash,
        name: &str,
        password: &PasswordHash,
    ) -> Result<Account>;

    /// Redeems a password reset link: deletes the link, replaces the password and ends the sessions.
    fn reset_password(
        &self,
        by: &Change,
        hash: &SecretHash,
        password: &PasswordHash,
    ) -> Result<Account>;
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
