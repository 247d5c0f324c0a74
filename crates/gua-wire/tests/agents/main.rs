//! Documents that we write, compared with golden files and with those that the real agents of gpu-usage-audit send for
//! the same GPUs.
#![cfg(test)]

mod archive;
mod golden;
mod golden_enrolled;
mod gpu_stats;
mod gpus;
mod sent;
mod stream;
