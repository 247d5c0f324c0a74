//! The way out to a board: the only part of the program that opens a connection to another machine. It does so only for
//! those who bring an enrolment or a claim.
//!
//! - [`way`]: proxies, certificates and time limits of a connection; [`Connection`](connection::Connection) is the connection itself
//! - [`client`]: one request over one connection, with its answer
//! - [`cloud_file`]: `cloud.json` on disk; [`enrolment`]: the same for a daemon, which sees it change
//! - [`BoardSink`]: ticks handed to a thread that pushes them, and the stream beside it
//! - [`archive`]: closed days of the history as files, for those who ask for it
//! - [`link_state`]: how the link is doing, for `gua status`
//!
//! No error here carries a token, and nothing that a board answers is shown before it was made harmless.

pub mod archive;
mod archive_uploader;
mod backoff;
pub mod client;
pub mod cloud_file;
pub mod connection;
pub mod endpoint;
pub mod enrolment;
mod http;
mod latest_slot;
pub mod link_state;
pub mod proxy;
mod push;
mod push_worker;
mod pusher;
mod sink;
mod spool;
mod state_file;
mod stream;
mod tls;

pub use archive::{Archive, ArchiveError, ArchiveState, Archived, Task};
pub use archive_uploader::ArchiveOptions;
pub use client::{Answer, Body, Call, CallError, Client, Method};
pub use cloud_file::CloudFile;
pub use connection::Limits;
pub use endpoint::{ConnectOptions, Endpoint, EndpointError};
pub use enrolment::{Enrolled, Enrolment, EnrolmentError};
pub use link_state::{LinkFiles, LinkState, Peer};
pub use proxy::Proxies;
pub use push::AgentIdentity;
pub use pusher::Say;
pub use sink::{BoardOptions, BoardSink};
