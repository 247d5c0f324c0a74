//! What we write, beside golden files and beside what the real agents of gpu-usage-audit send for the same cards.
#![cfg(test)]

mod archive;
mod board;
mod cards;
mod golden;
mod golden_enrolled;
mod gpu_stats;
#[path = "../../../gua/tests/shared/released.rs"]
mod released;
#[path = "../../../gua/tests/shared/request.rs"]
mod request;
mod sent;
mod stream;
