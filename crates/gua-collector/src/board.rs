//! Everything sent to a board. This is the only module that connects to another host, and only with an enrolment, with a
//! claim, or to agents that are configured for `gua serve`.
//!
//! - [`agents`]: the reports of nvgpu's agents, for `gua serve`
//! - [`endpoint`]: how a board is reached, with proxy, certificates and time limits
//! - [`client`]: one request and its response over one connection
//! - [`cloud_file`]: `cloud.json` on disk; [`enrolment`]: reloads it when it changes
//! - [`BoardSink`]: hands ticks to the pushing thread, and runs the stream
//! - [`archive`]: uploads closed days of the history, on request
//! - [`fleet`]: the GPUs of all hosts of a board, for people
//! - [`live`]: the live report, for boards that accept it
//! - [`link_state`]: state of the link, for `gua status`
//! - [`names`]: user names of this host that belong to members of the board
//!
//! No error contains a token, and messages from a board are sanitized before they are displayed.

pub mod agents;
pub mod archive;
mod archive_uploader;
pub mod client;
pub mod cloud_file;
pub mod connection;
pub mod endpoint;
pub mod enrolment;
pub mod fleet;
pub mod link_state;
pub mod live;
pub mod names;
mod proxy;
mod push;
mod pusher;
mod quotas;
pub(crate) mod retry;
pub(crate) mod salt;
pub mod setup;
mod sink;
mod spool;
mod stream;
mod tls;
pub(crate) mod worker;

pub use archive::{Archive, ArchiveError, ArchiveState, Archived, Task};
pub use client::{CallError, fetch};
pub use cloud_file::CloudFile;
pub use connection::Limits;
pub use endpoint::{ConnectOptions, Endpoint, EndpointError};
pub use enrolment::{Enrolled, Enrolment, EnrolmentError};
pub use link_state::{LinkFiles, LinkState, Peer};
pub use live::LiveReporter;
pub use quotas::QuotaReporter;
pub use sink::BoardSink;
