//! `gua export`: the same numbers in every form, beside the report and the plots; files that are whole; wrong use.

#![cfg(test)]

mod equal;
mod files;
mod python;

use std::path::Path;
use std::process::{Command, Output};

use jiff::{SignedDuration, Timestamp};

pub(crate) fn gua(home: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gua"))
        .env_clear()
        .env("HOME", home)
        .current_dir(home)
        .args(line.split_whitespace())
        .output()
        .unwrap()
}

pub(crate) fn printed(home: &Path, line: &str) -> String {
    let output = gua(home, line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "gua {line}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A home with a history of our own of the last hour, into which an older one of gpu-usage-audit was imported, and the
/// moment that the last of its ticks stands for.
pub(crate) fn home() -> (tempfile::TempDir, Timestamp) {
    let home = tempfile::tempdir().unwrap();
    let run = |line: &str| printed(home.path(), line);
    run("demo --db long.db --interval 30s --ticks 500");
    run("export --db long.db --format gpu-usage-audit -o old.db");
    run("demo --db both.db --interval 30s --ticks 120");
    run("import old.db --db both.db");
    let report = run("report --db both.db --json --tz UTC");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let made: Timestamp = report["made_at"].as_str().unwrap().parse().unwrap();
    (home, made)
}

/// Flags for a window that ends at `until` and is so many minutes long.
pub(crate) fn window(until: Timestamp, minutes: i64) -> String {
    let moment = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let since = until - SignedDuration::from_mins(minutes);
    format!(
        "--since {} --until {} --tz UTC",
        moment(since),
        moment(until)
    )
}
