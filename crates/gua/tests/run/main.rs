//! `gua run` as people and scripts use it: the job behaves as it would without it, and what is said of it is true.
#![cfg(test)]

mod cards;
mod claim;
mod files;
mod host;
mod runs;
mod summarize;
mod terminal;
mod unchanged;
