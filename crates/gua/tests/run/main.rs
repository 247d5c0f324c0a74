//! `gua run` as people and scripts use it: the job behaves as it would without it, and what is said of it is true.
#![cfg(test)]

mod cards;
mod claim;
mod files;
mod host;
mod runs;
#[path = "../shared/schema.rs"]
mod schema;
mod summarize;
mod terminal;
#[path = "../shared/tools.rs"]
mod tools;
mod unchanged;
