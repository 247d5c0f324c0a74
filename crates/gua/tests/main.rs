//! The program as users and scripts run it: the real binary, a simulated driver, real files, signals and terminals.
//!
//! All subjects are modules of one test binary, because every binary links the whole program.
#![cfg(test)]

mod account;
mod alert;
mod attacks;
mod board;
mod command_line;
mod contrib;
mod daemon;
mod damaged;
mod doctor;
mod explain;
mod export;
mod free;
mod look;
mod me;
mod metrics;
mod pages;
mod plot;
mod reader;
mod report;
mod report_formats;
mod report_originals;
mod run;
mod schemas;
mod service;
mod socket;
mod surfaces;
mod top;
mod trust;
mod verify;

use gua_test::{TestHost, month};

/// Beginning of a script for `unshare --mount`: replaces /etc by a copy without gua's directory.
const OWN_ETC: &str = r#"
mount --make-rprivate /
mkdir "$HOME/etc"
cp -a /etc/. "$HOME/etc"
rm -rf "$HOME/etc/gua"
mount --bind "$HOME/etc" /etc
"#;

/// The program under test.
const GUA: &str = env!("CARGO_BIN_EXE_gua");

/// Scenario of two healthy GPUs.
const TWO_GPUS: &str = "[[gpu]]\nuuid = \"GPU-a\"\nutil = 50\n[[gpu]]\nuuid = \"GPU-b\"\n";

/// A host whose simulated driver plays a scenario.
fn host(scenario: &str) -> TestHost {
    TestHost::new(GUA, scenario)
}

/// A host without a driver.
fn without_driver() -> TestHost {
    TestHost::without_driver(GUA)
}

/// A host without a driver at the end of the demo's month, with that month as its history.
fn after_the_month() -> TestHost {
    let mut host = without_driver();
    month::give(&mut host);
    host
}
