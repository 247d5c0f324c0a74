//! Paths of the agent contract below a board's URL.

pub use gua_model::server_url::{Insecure, Scheme, ServerUrl, Unencrypted, UrlError};

/// Path at which an agent requests a new token.
pub const NEW_TOKEN: &str = "/agent/v1/token";
/// Path at which a host confirms a user name.
pub const NAMES: &str = "/agent/v1/names";
/// Path of the claim.
pub const CLAIM: &str = "/agent/v1/enrollments/claim";
/// Path to which snapshots are posted.
pub const OBSERVATIONS: &str = "/agent/v1/observations";
/// Path to which live reports are posted.
pub const LIVE: &str = "/agent/v1/live";
/// Path of the stream.
pub const STREAM: &str = "/agent/v1/stream";
/// Path of the archive's files.
pub const ARCHIVES: &str = "/agent/v1/archives";
