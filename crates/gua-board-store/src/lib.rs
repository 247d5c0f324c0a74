//! Storage of a board, behind two traits.
//!
//! A board keeps two kinds of data. The [`Registry`] is small and transactional: workspaces, accounts, hosts, tokens, and
//! the audit log. The [`Ledger`] is large and append-only: what hosts reported. Handlers of the server call only these
//! traits, so that an engine for a fleet can replace the SQLite file of a lab without a change elsewhere.
//!
//! Calls block. The server runs them on threads for blocking work, and an engine with an asynchronous client waits for it
//! within the call. Engines, tests and commands therefore need no async runtime.
//!
//! - [`registry`], [`ledger`]: the traits and their types
//! - [`secret`], [`password`]: tokens and passwords, and the hashes that are stored of them
//! - [`SqliteStore`]: both traits over one SQLite file
//! - `contract` (feature): the tests that every engine must pass

#[cfg(feature = "contract")]
pub mod contract;
mod error;
pub mod id;
pub mod ledger;
pub mod password;
pub mod registry;
pub mod secret;
mod sqlite;

pub use error::{OpenError, Result, StoreError};
pub use id::{AccountId, ApiTokenId, EnrolmentKeyId, HostId, WorkspaceId};
pub use ledger::Ledger;
pub use registry::Registry;
pub use secret::{Kind, Secret, SecretHash};
pub use sqlite::{ServerLock, SqliteStore};
