//! Keeping accounts, as people do it: the real binary, a simulated driver, real files.
#![cfg(test)]

mod csv;
#[expect(dead_code, reason = "tests of the daemon need more of it")]
#[path = "../daemon/host.rs"]
mod host;
mod import;
mod quota;
mod statement;
