//! The agent's side of a board: the real binary and a board that speaks HTTP over loopback, keeps every request, and
//! misbehaves when it is told to.

mod archive;
mod daemon;
mod enroll;
mod faults;
mod hourly;
mod lateness;
mod link;
mod originals;
mod quiet;
mod secrecy;
mod shown;
mod spool;
mod sync_once;
mod ways;
