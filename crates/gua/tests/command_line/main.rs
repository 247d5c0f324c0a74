//! The real binary, run as people and scripts run it.

mod config;
mod install;
mod manual;
mod names;
mod program;
mod usage;
