//! The simulated library as programs use it: loaded by path, called through C, and read by third-party tools.
#![expect(
    unsafe_code,
    reason = "calls the library through C, as every client does"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test whose stage cannot be set has failed"
)]

mod clients;
mod faults;
mod generations;
mod header;
mod life;
mod lists;
mod mig;
mod program;
mod readings;
mod samples;
mod scenarios;
mod stage;
mod strange;
mod tools;
