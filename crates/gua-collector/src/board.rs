//! The way out to a board: the only part of the program that opens a connection to another machine. It does so only for
//! those who bring an enrolment or a claim.
//!
//! - [`way`]: proxies, certificates and time limits of a connection; [`Line`](line::Line) is the connection itself
//! - [`client`]: one request over one connection, with its answer
//! - [`cloud_file`]: `cloud.json` on disk; [`enrolment`]: the same for a daemon, which sees it change
//! - [`BoardSink`]: ticks handed to a thread that pushes them, and the stream beside it
//! - [`archive`]: closed days of the history as files, for those who ask for it
//! - [`link_state`]: how the link is doing, for `gua status`
//!
//! No error here carries a token, and nothing that a board answers is shown before it was made harmless.

pub mod archive;
mod archivist;
mod carrier;
pub mod client;
pub mod cloud_file;
mod courier;
mod delivery;
pub mod enrolment;
mod exchange;
mod letter;
pub mod line;
pub mod link_state;
mod mailbox;
mod pause;
pub mod proxy;
mod spool;
mod state_file;
mod stream;
mod told;
pub mod trust;
pub mod way;

pub use archive::{Archive, ArchiveError, ArchiveState, Archived, Task};
pub use archivist::ArchiveOptions;
pub use client::{Answer, Body, Call, CallError, Client, Method};
pub use cloud_file::CloudFile;
pub use courier::Say;
pub use delivery::{BoardOptions, BoardSink};
pub use enrolment::{Enrolled, Enrolment, EnrolmentError};
pub use letter::Speaker;
pub use line::Limits;
pub use link_state::{LinkPlace, LinkState, Peer};
pub use proxy::Proxies;
pub use way::{Way, WayError, Wishes};
