//! One module per command, named as it is typed.

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
