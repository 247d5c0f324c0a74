//! `gua run` as users and scripts run it: the job behaves as it would without it, and its files and summary are
//! correct.

mod agreement;
mod claim;
mod files;
mod gpus;
mod runs;
mod summarize;
mod terminal;
mod unchanged;

use std::process::Command;

use gua_test::{Ended, TestHost};
use serde_json::Value;

use crate::GUA;

/// A host whose jobs find the program in the variable `GUA`.
fn host(scenario: &str) -> TestHost {
    crate::host(scenario).variable("GUA", GUA)
}

/// Running jobs on a host and reading their files.
trait Jobs {
    /// `gua run FLAGS -- sh -c SCRIPT`.
    fn job(&self, flags: &str, script: &str) -> Command;

    fn run_job(&self, flags: &str, script: &str) -> Ended;

    /// `out/summary.json`.
    fn summary(&self) -> Value;

    /// The lines of `out/run.jsonl`.
    fn events(&self) -> Vec<Value>;
}

impl Jobs for TestHost {
    fn job(&self, flags: &str, script: &str) -> Command {
        let mut command = self.gua_command("run");
        command.args(flags.split_whitespace());
        command.args(["--", "sh", "-c", script]);
        command
    }

    fn run_job(&self, flags: &str, script: &str) -> Ended {
        self.job(flags, script).output().unwrap().into()
    }

    #[track_caller]
    fn summary(&self) -> Value {
        serde_json::from_str(&self.read("out/summary.json")).unwrap()
    }

    #[track_caller]
    fn events(&self) -> Vec<Value> {
        let text = self.read("out/run.jsonl");
        let line = |line: &str| serde_json::from_str(line).unwrap();
        text.lines().map(line).collect()
    }
}
