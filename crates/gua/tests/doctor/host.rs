//! An empty home with a simulated driver, and what `gua doctor` says in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const TWO_CARDS: &str = "[clock]\nat = 100\n[[card]]\nutil = 50\n[[card]]\n";

/// An empty home, an empty search path and a scenario.
pub(crate) struct Host {
    pub(crate) directory: TempDir,
    pub(crate) library: PathBuf,
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Host {
    pub(crate) fn new(scenario: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["home", "bin"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("scenario.toml"), scenario).unwrap();
        let library = nvml_sim::library_path().unwrap();
        Self {
            directory,
            library,
            variables: Vec::new(),
        }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn with(mut self, variable: &'static str, value: &str) -> Self {
        self.variables.push((variable, value.to_owned()));
        self
    }

    pub(crate) fn with_library(self, library: impl Into<PathBuf>) -> Self {
        Self {
            library: library.into(),
            ..self
        }
    }

    pub(crate) fn with_smi(self, script: &str) -> Self {
        fs::write(self.at("script"), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(self.at("script"), PermissionsExt::from_mode(0o755)).unwrap();
        // Copied by another process: a file that we have open for writing, even in a child of another test's thread,
        // cannot be executed.
        let mut copy = Command::new("cp");
        copy.arg(self.at("script")).arg(self.at("bin/nvidia-smi"));
        assert!(copy.status().unwrap().success());
        self
    }

    /// Runs `gua doctor` and holds that it left no trace.
    pub(crate) fn doctor(&self, arguments: &[&str]) -> Answer {
        let before = listing(self.directory.path());
        let output = Command::new(env!("CARGO_BIN_EXE_gua"))
            .arg("doctor")
            .args(arguments)
            .current_dir(self.at("home"))
            .env_clear()
            .env("HOME", self.at("home"))
            .env("PATH", self.at("bin"))
            .env("TZ", "UTC")
            .env("GUA_NVML_LIBRARY", &self.library)
            .env("NVML_SIM_SCENARIO", self.at("scenario.toml"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        assert_eq!(
            listing(self.directory.path()),
            before,
            "something was written"
        );
        Answer::of(&output)
    }

    pub(crate) fn json(&self) -> Value {
        let answer = self.doctor(&["--json"]);
        assert_eq!((answer.code, answer.stderr.as_str()), (0, ""));
        serde_json::from_str(&answer.stdout).unwrap()
    }
}

pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let answer = Self {
            code: output.status.code().unwrap(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        };
        let is_harmless = |letter: char| letter == '\n' || !letter.is_control();
        assert!(
            answer.stdout.chars().all(is_harmless),
            "{:?}",
            answer.stdout
        );
        answer
    }
}

pub(crate) fn listing(directory: &Path) -> Vec<PathBuf> {
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

pub(crate) fn sees_the_hosts_processes() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name == Path::new("pid:[4026531836]"))
}

pub(crate) fn check_of<'a>(report: &'a Value, id: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["id"] == id).unwrap()
}

/// Holds one check of the report against `status: summary`.
#[track_caller]
pub(crate) fn assert_check(report: &Value, id: &str, expected: &str) {
    let check = check_of(report, id);
    let found = format!(
        "{}: {}",
        check["status"].as_str().unwrap(),
        check["summary"].as_str().unwrap()
    );
    assert_eq!(found, expected, "{id}");
}

pub(crate) fn commands(report: &Value) -> Vec<String> {
    let commands = report["recommended_commands"].as_object().unwrap();
    commands
        .values()
        .map(|command| command.as_str().unwrap().to_owned())
        .collect()
}

/// Those of the two that the program knows, or else the one that it always knows.
pub(crate) fn expected_commands(collect: &str, report: &str) -> Vec<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_gua"))
        .arg("help")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let knows = |command: &str| {
        let name = command.split(' ').nth(1).unwrap();
        help.lines()
            .any(|line| line.split_whitespace().next() == Some(name))
    };
    let mut known: Vec<String> = [collect, report]
        .into_iter()
        .filter(|command| knows(command))
        .map(str::to_owned)
        .collect();
    if known.is_empty() {
        known.push("gua doctor --sample".to_owned());
    }
    known
}
