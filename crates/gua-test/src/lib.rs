//! Test harness of the workspace, used as a dev-dependency only.
//!
//! [`TestHost`] is a temporary home with a simulated driver in which the real program runs. Around it are the things that
//! such tests need: real processes ([`Sleeper`], [`Running`]), terminals ([`Pty`], [`Terminal`]), a board that records
//! requests (`board`), Python environments with the replaced tools ([`originals`], [`python`]), a JSON schema validator
//! ([`schema`]), and builders of samples, histories and reports.
//!
//! Every command of a [`TestHost`] starts with an empty environment plus an explicit list of variables, so that a test
//! depends on nothing of the machine it runs on.
#![expect(clippy::unwrap_used, reason = "a test whose setup fails has failed")]
#![expect(
    clippy::print_stderr,
    reason = "a test says why it checked less than it could"
)]

#[cfg(feature = "board")]
pub mod board;
pub mod browser;
pub mod clock;
#[cfg(feature = "history")]
pub mod damage;
mod driver;
#[cfg(feature = "samples")]
pub mod healthy;
mod host;
pub mod http;
#[cfg(feature = "load")]
pub mod load;
#[cfg(feature = "history")]
pub mod month;
#[cfg(feature = "board")]
pub mod oidc;
#[cfg(feature = "old-history")]
pub mod old_history;
pub mod originals;
mod process;
mod pty;
pub mod python;
#[cfg(feature = "history")]
pub mod recorded;
#[cfg(feature = "samples")]
pub mod reports;
#[cfg(feature = "samples")]
pub mod samples;
pub mod schema;
pub mod screen;
mod skipped;
#[cfg(feature = "board")]
pub mod smtp;
#[cfg(feature = "samples")]
pub mod synthetic;
pub mod tape;
mod terminal;
#[cfg(feature = "board")]
mod tls;
mod wait;
pub mod webhook;

pub use driver::SimulatedDriver;
pub use host::TestHost;
pub use process::{Ended, Running, Sleeper, is_running, send};
pub use pty::Pty;
pub use skipped::{can_mount, not_tested, runs_as_root};
pub use terminal::Terminal;
pub use wait::{wait_for, wait_until};

/// Writes a file that only the caller can read, as secrets are. Returns its path.
pub fn write_private(path: &std::path::Path, text: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_owned()
}

/// Compares a text with a file of the repository; with `GUA_WRITE_PICTURES=1` it writes the file first.
#[track_caller]
pub fn assert_current(path: &std::path::Path, text: &str) {
    if variable("GUA_WRITE_PICTURES").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let known = std::fs::read_to_string(path).unwrap_or_default();
    let path = path.display();
    assert!(known == text, "{path} is out of date: run scripts/pictures");
}

/// A variable that sets up the tests, not the program. One that is set to nothing counts as unset.
#[expect(
    clippy::disallowed_methods,
    reason = "a setting of the tests, not of the program"
)]
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
