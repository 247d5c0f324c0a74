//! API tokens.

use gua_model::words;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Change;
use crate::error::Result;
use crate::id::{AccountId, ApiTokenId, WorkspaceId};
use crate::secret::{Kind, SecretHash};

/// API tokens.
pub trait Tokens {
    /// Adds an API token.
    fn add_api_token(&self, by: &Change, new: &NewApiToken) -> Result<ApiToken>;

    /// Returns the token of this hash unless it has expired or its account is no longer a member.
    fn api_token(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<ApiToken>>;

    /// Returns all tokens of a workspace.
    fn api_tokens(&self, workspace: &WorkspaceId) -> Result<Vec<ApiToken>>;

    /// Revokes a token.
    fn revoke_api_token(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        token: &ApiTokenId,
    ) -> Result<()>;
}

words! {
    /// Rights of an API token, from least to most. It never exceeds the role of its account.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Scope {
        /// Opens the page of a wall screen, without names, and nothing else.
        Screen = "screen",
        /// Reads.
        Read = "read",
        /// Reads and changes.
        Write = "write",
    }
}

impl Scope {
    /// Kind of the secret of a token with this scope.
    pub fn kind(self) -> Kind {
        match self {
            Scope::Screen => Kind::Screen,
            Scope::Read | Scope::Write => Kind::Api,
        }
    }
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
