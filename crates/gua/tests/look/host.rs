//! A home with a simulated driver in it, and processes that are really there.

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use nvml_sim::driver::{self, Generation};
use serde_json::Value;
use tempfile::TempDir;

/// A process that sleeps until the test ends.
pub(crate) struct Sleeper(Child);

impl Sleeper {
    pub(crate) fn new() -> Self {
        Self::with(&["600"])
    }

    pub(crate) fn with(arguments: &[&str]) -> Self {
        let child = Command::new("sleep")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Self(child.expect("sleep is part of every system"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Host {
    home: TempDir,
    pub(crate) library: PathBuf,
    pub(crate) one: Sleeper,
    pub(crate) other: Sleeper,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Host {
    pub(crate) fn new(scenario: &str) -> Self {
        Self::of(Generation::LATEST, scenario)
    }

    /// `ONE` and `OTHER` in the scenario become pids of real processes.
    pub(crate) fn of(generation: Generation, scenario: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let library = driver::install(home.path(), generation).unwrap();
        for name in ["nvgpu", "nvl"] {
            symlink(env!("CARGO_BIN_EXE_gua"), home.path().join(name)).unwrap();
        }
        std::fs::create_dir(home.path().join("claims")).unwrap();
        let host = Self {
            home,
            library,
            one: Sleeper::new(),
            other: Sleeper::new(),
        };
        host.play(scenario);
        host
    }

    /// What the cards do from now on.
    pub(crate) fn play(&self, scenario: &str) {
        let text = scenario
            .replace("ONE", &self.one.pid().to_string())
            .replace("OTHER", &self.other.pid().to_string());
        // A mistake in it would be another fault than the one that a test is about.
        nvml_sim::scenario::Scenario::parse(&text).unwrap();
        nvml_sim::scenario::write_text(&self.path("nvml-sim.toml"), &text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", "/usr/bin:/bin")
            .env("TZ", "UTC")
            .env("GUA_NVML_LIBRARY", &self.library)
            .env("LD_LIBRARY_PATH", self.home.path())
            .env("GUA_CLAIM_DIR", self.path("claims"))
            .env("NVML_SIM_SCENARIO", self.path("nvml-sim.toml"))
            .current_dir(self.home.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, program: impl AsRef<OsStr>, line: &str) -> Ended {
        let output = self
            .command(program)
            .args(line.split_whitespace())
            .output()
            .unwrap();
        ended(output)
    }

    pub(crate) fn gua(&self, line: &str) -> Ended {
        self.run(env!("CARGO_BIN_EXE_gua"), line)
    }

    /// Runs it under another name.
    pub(crate) fn named(&self, name: &str, line: &str) -> Ended {
        self.run(self.path(name), line)
    }

    /// `gua list --json`.
    #[track_caller]
    pub(crate) fn listing(&self) -> Value {
        let ended = self.gua("list --json");
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
        serde_json::from_str(&ended.stdout).unwrap()
    }
}

pub(crate) fn ended(output: Output) -> Ended {
    Ended {
        code: output.status.code().expect("no signal ended it"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
