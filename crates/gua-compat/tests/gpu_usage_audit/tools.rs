//! The real releases of gpu-usage-audit, each in a Python environment of its own beside the build, made at first use.
//! What cannot be had makes a test fail with a sentence; nothing is skipped.

#[path = "../../../nvml-sim/tests/shared/python.rs"]
mod environment;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The releases whose files must be read.
pub(crate) const RELEASES: [&str; 4] = ["1.0.2", "1.0.3", "1.1.0", "1.8.0"];

/// Runs the program `gua` of a release.
pub(crate) fn release(version: &str) -> Command {
    Command::new(environment(version).join("bin/gua"))
}

/// Runs it and insists on success.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

/// A history as the release's own demo writes it.
pub(crate) fn demo(version: &str, db: &Path, ticks: u32) {
    run(release(version)
        .args([
            "demo",
            "--interval",
            "20ms",
            "--ticks",
            &ticks.to_string(),
            "--db",
        ])
        .arg(db));
}

fn environment(version: &str) -> PathBuf {
    let name = format!("gpu-usage-audit-{version}");
    let requirements = format!("gpu-usage-audit=={version}\n");
    environment::environment(&python(), &name, &requirements)
}

/// A Python that runs all four releases: 1.1.0 and later use syntax of 3.12.
fn python() -> PathBuf {
    let on_path = ["python3", "python3.12", "python3.13", "python3.14"].map(PathBuf::from);
    let folder = std::env::home_dir().map(|home| home.join(".pyenv/versions"));
    let entries = folder
        .and_then(|folder| folder.read_dir().ok())
        .into_iter()
        .flatten()
        .flatten();
    let of_pyenv = entries.map(|entry| entry.path().join("bin/python3"));
    let mut found = on_path.into_iter().chain(of_pyenv).filter(|python| {
        let asked = Command::new(python)
            .args(["-c", "import sys; sys.exit(sys.version_info < (3, 12))"])
            .output();
        asked.is_ok_and(|output| output.status.success())
    });
    found.next().expect(
        "gpu-usage-audit needs Python 3.12 or later: install it (python3.12 and its venv module, or `pyenv install \
         3.12`), on PATH or under ~/.pyenv/versions",
    )
}
