//! The command line of `gua`: arguments, output and exit codes.
//!
//! This is a library only so that tests can use its parts; it has no stable API. Rules about GPUs are not implemented here but
//! in `gua-model`, and everything that is more than asking, formatting and printing is in the crate of its subject.

mod balance;
pub mod cli;
pub mod commands;
pub mod context;
pub mod dispatch;
pub mod failure;
pub mod names;
pub mod output;
mod page_file;
mod progress;
mod simulated;
