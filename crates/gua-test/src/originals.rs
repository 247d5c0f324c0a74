//! Real releases of gpu-usage-audit, each in a Python environment of its own beside the build, made at first use.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::{not_tested, python, variable};

/// The releases whose files must be read.
pub const RELEASES: [&str; 4] = ["1.0.2", "1.0.3", "1.1.0", "1.8.0"];

/// Python 3.12 or later, which releases from 1.1.0 on need: `GUA_TEST_PYTHON`, PATH, then pyenv's versions.
pub fn find_python() -> Option<PathBuf> {
    let on_path = ["python3", "python3.12", "python3.13", "python3.14"].map(PathBuf::from);
    let versions = std::env::home_dir().map(|home| home.join(".pyenv/versions"));
    let entries = versions.and_then(|versions| versions.read_dir().ok());
    let of_pyenv = entries.into_iter().flatten().flatten();
    let named = variable("GUA_TEST_PYTHON").map(PathBuf::from);
    let mut candidates = named
        .into_iter()
        .chain(on_path)
        .chain(of_pyenv.map(|entry| entry.path().join("bin/python3")));
    candidates.find(|python| {
        let check = "import sys; sys.exit(sys.version_info < (3, 12))";
        let run = Command::new(python).args(["-c", check]).output();
        run.is_ok_and(|output| output.status.success())
    })
}

/// Whether a test of two running programs can run at all. Prints which it is: there is nothing to record of such a test.
pub fn run_live() -> bool {
    match find_python() {
        Some(python) => eprintln!("originals: live, with {}", python.display()),
        None => {
            not_tested("no Python 3.12", "originals that run beside gua");
            return false;
        }
    }
    true
}

/// Like [`find_python`], for tests that cannot do without.
pub fn python() -> PathBuf {
    find_python().expect(
        "gpu-usage-audit needs Python 3.12 or later: install it (python3.12 and its venv module, or `pyenv install \
         3.12`), on PATH or under ~/.pyenv/versions, or name it in GUA_TEST_PYTHON",
    )
}

/// The program `gua` of a release.
pub fn released(version: &str) -> PathBuf {
    let name = format!("gpu-usage-audit-{version}");
    let requirements = format!("gpu-usage-audit=={version}\n");
    python::environment(python, &name, &requirements).join("bin/gua")
}

/// A command that runs the program `gua` of a release.
pub fn release(version: &str) -> Command {
    Command::new(released(version))
}

/// Runs a command, which must succeed.
#[track_caller]
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    output
}

/// Writes a history with the release's own demo.
pub fn demo(version: &str, db: &Path, ticks: u32) {
    let ticks = ticks.to_string();
    let mut command = release(version);
    command.args(["demo", "--interval", "20ms", "--ticks", &ticks, "--db"]);
    run(command.arg(db));
}
