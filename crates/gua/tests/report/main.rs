//! `gua report` and `gua demo` as people run them, beside the tool whose numbers they promise to keep.

#![cfg(test)]

mod command;
mod demo;
mod originals;

use std::path::Path;
use std::process::{Command, Output};

/// `gua` with these words, in a home of its own, in UTC.
fn gua(home: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gua"));
    command
        .env_clear()
        .env("HOME", home)
        .env("TMPDIR", home)
        .env("TZ", "UTC")
        .current_dir(home)
        .args(words.split_whitespace());
    command.output().unwrap()
}

/// What it printed, where it succeeded.
#[track_caller]
fn printed(home: &Path, words: &str) -> String {
    let output = gua(home, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "gua {words}: {said}");
    String::from_utf8(output.stdout).unwrap()
}
