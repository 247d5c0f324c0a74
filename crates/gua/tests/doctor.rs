//! `gua doctor` as users run it: the real program, the simulated driver, an empty home directory. Whatever the driver
//! does, the page is complete, the message is clear, the exit code is as documented, and nothing is left behind.

mod bundle;
mod driver;
mod page;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use gua_test::{Ended, TestHost};
use serde_json::Value;

const TWO_GPUS: &str = "[clock]\nat = 100\n[[gpu]]\nutil = 50\n[[gpu]]\n";

/// A host with an empty home directory and an empty PATH.
fn host(scenario: &str) -> TestHost {
    let host = crate::host(scenario);
    let [home, bin] = ["home", "bin"].map(|name| host.path(name));
    fs::create_dir(&home).unwrap();
    fs::create_dir(&bin).unwrap();
    host.variable("HOME", home).variable("PATH", bin)
}

trait Doctor {
    /// Puts a script named nvidia-smi on the PATH.
    fn with_smi(self, script: &str) -> Self;

    fn with_library(self, library: impl Into<PathBuf>) -> Self;

    /// Runs `gua doctor`, which must not write anything.
    fn doctor(&self, arguments: &[&str]) -> Ended;

    /// `gua doctor --json`.
    fn report(&self) -> Value;
}

impl Doctor for TestHost {
    fn with_smi(self, script: &str) -> Self {
        let file = self.write("script", format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        // Copied by another process: a file that this process has open for writing, even in a child that another thread
        // starts, cannot be executed.
        let mut copy = self.command("/bin/cp");
        copy.arg(file).arg(self.path("bin/nvidia-smi"));
        assert!(copy.status().unwrap().success());
        self
    }

    fn with_library(mut self, library: impl Into<PathBuf>) -> Self {
        self.set_library(library);
        self
    }

    fn doctor(&self, arguments: &[&str]) -> Ended {
        let before = listing(self.directory());
        let mut command = self.gua_command("doctor");
        let ended = Ended::from(command.args(arguments).output().unwrap());
        assert_eq!(listing(self.directory()), before, "something was written");
        let is_harmless = |letter: char| letter == '\n' || !letter.is_control();
        assert!(ended.stdout.chars().all(is_harmless), "{ended:?}");
        ended
    }

    fn report(&self) -> Value {
        let ended = self.doctor(&["--json"]);
        assert_eq!(ended.stderr, "");
        ended.json()
    }
}

fn listing(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        if entry.path().is_dir() {
            found.extend(listing(&entry.path()));
        }
        found.push(entry.path());
    }
    found.sort();
    found
}

fn check_of<'a>(report: &'a Value, id: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["id"] == id).unwrap()
}

/// Compares one check of the report with `status: summary`.
#[track_caller]
fn assert_check(report: &Value, id: &str, expected: &str) {
    let check = check_of(report, id);
    let found = format!(
        "{}: {}",
        check["status"].as_str().unwrap(),
        check["summary"].as_str().unwrap()
    );
    assert_eq!(found, expected, "{id}");
}

fn commands(report: &Value) -> Vec<String> {
    let commands = report["recommended_commands"].as_object().unwrap();
    commands
        .values()
        .map(|command| command.as_str().unwrap().to_owned())
        .collect()
}
