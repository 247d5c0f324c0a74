//! The service's Unix socket: everyone on the host asks here, and the history file stays private to the service.
//!
//! A reader process of the service accepts connections and starts one process per question. That process finds out who
//! asks from the kernel (`SO_PEERCRED`, unix(7)), answers from the history as that user may see it, and ends. It is not
//! the collector: a hostile question can slow down other questions, but not the recording. No process keeps the history
//! open while it waits for a client, so no client can keep SQLite's journal from being merged.

mod client;
pub(crate) mod message;
mod server;
mod worker;

pub use client::Service;
pub(crate) use server::listen;
pub use server::{ANSWERS_ARGUMENT, Ends, Reader, serve_stdin};
pub use worker::{ANSWER_ARGUMENT, answer_stdin};
