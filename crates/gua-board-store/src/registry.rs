//! The registry: workspaces, accounts, hosts, tokens and the audit log. It is small and every change is a transaction.
//!
//! Each subject has a trait, and an engine that implements all of them is a [`Registry`]. A method that changes something
//! takes a [`Change`], which records who makes the change and when. The engine writes it to the audit log in the same
//! transaction, so that no change is without an entry and no entry without a change.

mod accounts;
mod audit;
mod hosts;
mod links;
mod people;
mod tokens;
mod workspaces;

use std::fmt::Debug;

use crate::error::Result;

pub use accounts::{Account, Accounts, Member, NewAccount, NewSession, Role};
pub use audit::{Action, Actor, Audit, AuditEntry, AuditView, Change};
pub use hosts::{
    EnrolmentKey, Host, HostClaim, HostEdit, Hosts, KeyLimits, Maintenance, NewEnrolmentKey,
    Refusal, is_name_match,
};
pub use links::{LinkPurpose, Links, NewLink};
pub use people::{HostUser, Identity, Join, MAX_USER_NAME_LENGTH, People, UserName};
pub use tokens::{ApiToken, NewApiToken, Scope, Tokens};
pub use workspaces::{Membership, Settings, Workspace, Workspaces};

/// Name of the workspace that a new board has.
pub const FIRST_WORKSPACE: &str = "default";

/// Accounts, hosts and credentials of a board.
pub trait Registry:
    Revision + Workspaces + Accounts + Tokens + Links + People + Hosts + Audit + Debug + Send + Sync
{
}

/// The state of the registry as a number.
pub trait Revision {
    /// Returns a number that changes whenever a credential or a role was changed or revoked. Caches compare it.
    fn revision(&self) -> Result<u64>;
}
