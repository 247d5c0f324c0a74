//! Paths of the agent contract below a board's address.

pub use gua_model::server_url::{Insecure, Scheme, ServerUrl, Unencrypted, UrlError};

/// The path of the claim, below the server's address.
pub const CLAIM: &str = "/agent/v1/enrollments/claim";
/// The path to which snapshots are posted.
pub const OBSERVATIONS: &str = "/agent/v1/observations";
/// The path of the stream.
pub const STREAM: &str = "/agent/v1/stream";
/// The path of the archive's objects.
pub const ARCHIVES: &str = "/agent/v1/archives";
