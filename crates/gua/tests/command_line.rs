//! The real binary, run as people and scripts run it.

mod bench;
mod config;
mod history;
mod install;
mod manual;
mod names;
mod package;
mod program;
mod usage;
