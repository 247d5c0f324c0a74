//! One module per command, named after the command.

pub mod bench;
pub mod config;
pub mod csv;
pub mod demo;
pub mod doctor;
pub mod list;
pub mod phase;
pub mod service;
pub mod summarize;
pub mod top;
