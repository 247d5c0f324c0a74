//! The way out to a board: the only part of the program that opens a connection to another machine. It does so only for
//! those who bring an enrolment or a claim.
//!
//! - [`way`]: proxies, certificates and time limits of a connection; [`Line`](line::Line) is the connection itself
//! - [`client`]: one request over one connection, with its answer
//! - [`cloud_file`]: `cloud.json` on disk
//!
//! No error here carries a token, and nothing that a board answers is shown before it was made harmless.

pub mod client;
pub mod cloud_file;
mod exchange;
pub mod line;
pub mod proxy;
pub mod trust;
pub mod way;

pub use client::{Answer, Body, Call, CallError, Client, Method};
pub use cloud_file::CloudFile;
pub use line::Limits;
pub use proxy::Proxies;
pub use way::{Way, WayError};
