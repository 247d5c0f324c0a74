//! A home with a simulated driver in it, in which jobs are run.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use gua_probe::clock;
use nvml_sim::driver::{self, Generation};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const GUA: &str = env!("CARGO_BIN_EXE_gua");

pub(crate) struct Host {
    home: TempDir,
    library: PathBuf,
}

impl Host {
    pub(crate) fn new(scenario: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let library = driver::install(home.path(), Generation::LATEST).unwrap();
        std::fs::create_dir(home.path().join("claims")).unwrap();
        let host = Self { home, library };
        host.play(scenario);
        host
    }

    /// A host whose driver library is not there.
    pub(crate) fn without_driver() -> Self {
        let mut host = Self::new("");
        host.library = "/nonexistent/libnvidia-ml.so.1".into();
        host
    }

    pub(crate) fn play(&self, scenario: &str) {
        nvml_sim::scenario::write_text(&self.path(nvml_sim::BESIDE), scenario).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let home = self.home.path().display().to_string();
        vec![
            ("HOME", home.clone()),
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("TZ", "UTC".to_owned()),
            ("LC_ALL", "C.UTF-8".to_owned()),
            ("TMUX_TMPDIR", home.clone()),
            ("GUA", GUA.to_owned()),
            ("GUA_NVML_LIBRARY", self.library.display().to_string()),
            ("GUA_CLAIM_DIR", format!("{home}/claims")),
        ]
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.variables())
            .current_dir(self.home.path())
            .stdin(Stdio::null());
        command
    }

    /// `gua run FLAGS -- sh -c SCRIPT`.
    pub(crate) fn job(&self, flags: &str, script: &str) -> Command {
        let mut command = self.command(GUA);
        command.arg("run").args(flags.split_whitespace());
        command.args(["--", "sh", "-c", script]);
        command
    }

    #[track_caller]
    pub(crate) fn run(&self, flags: &str, script: &str) -> Ended {
        Ended::of(self.job(flags, script).output().unwrap())
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// `out/summary.json`.
    #[track_caller]
    pub(crate) fn summary(&self) -> Value {
        serde_json::from_str(&self.read("out/summary.json")).unwrap()
    }

    /// The lines of `out/run.jsonl`.
    #[track_caller]
    pub(crate) fn log(&self) -> Vec<Value> {
        let text = self.read("out/run.jsonl");
        let line = |line: &str| serde_json::from_str(line).unwrap();
        text.lines().map(line).collect()
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) output: Output,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            output,
        }
    }

    pub(crate) fn code(&self) -> Option<i32> {
        self.output.status.code()
    }
}

/// Waits until it is so; a minute means never.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = clock::monotonic() + Duration::from_secs(60);
    while !is_so() {
        assert!(clock::monotonic() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}
