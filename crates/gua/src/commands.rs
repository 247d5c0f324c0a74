//! One module per command, named as it is typed.

pub mod config;
