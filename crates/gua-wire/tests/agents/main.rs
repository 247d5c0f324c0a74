//! What we write, beside golden files and beside what the real agents of gpu-usage-audit send for the same cards.
#![cfg(test)]

mod archive;
mod cards;
mod golden;
mod golden_enrolled;
mod gpu_stats;
mod sent;
mod stream;
