//! The agent's side of a board: the real binary, and a test board that speaks HTTP over loopback, records every request
//! and misbehaves on request.

mod alerts;
mod archive;
mod browser;
mod connection;
mod daemon;
mod encrypted;
mod enroll;
mod faults;
mod hourly;
mod install;
mod lateness;
mod link;
mod load;
mod names;
mod operation;
mod originals;
mod quiet;
mod releases;
mod secrecy;
mod serve;
pub(crate) mod served;
mod session_log;
mod shown;
mod sign_on;
mod spool;
pub(crate) mod sync_once;
