//! Real releases of gpu-usage-audit, each in a Python environment beside the build, made at first use. What cannot be had
//! makes a test fail with a sentence; nothing is skipped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Python 3.12 or later: on PATH, else under pyenv's versions folder.
pub(crate) fn python() -> PathBuf {
    let is_new_enough = |python: &Path| {
        let check = "import sys; sys.exit(sys.version_info < (3, 12))";
        let run = Command::new(python).args(["-c", check]).output();
        run.is_ok_and(|output| output.status.success())
    };
    let home = std::env::home_dir().unwrap();
    let mut candidates = vec![PathBuf::from("python3")];
    if let Ok(versions) = std::fs::read_dir(home.join(".pyenv/versions")) {
        candidates.extend(
            versions
                .flatten()
                .map(|version| version.path().join("bin/python3")),
        );
    }
    candidates
        .into_iter()
        .find(|python| is_new_enough(python))
        .expect("Python 3.12 or later, on PATH or under ~/.pyenv/versions")
}

/// The released tool in an environment of its own beside the build, made at first use.
pub(crate) fn released(version: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let tools = target.join("test-tools");
    std::fs::create_dir_all(&tools).unwrap();
    let name = format!("gpu-usage-audit-{version}");
    // Tests run side by side, in this process and in others; one of them makes the environment.
    let lock = File::create(tools.join(format!("{name}-daemon.lock"))).unwrap();
    lock.lock().unwrap();
    let environment = tools.join(format!("{name}-daemon"));
    let finished = environment.join("finished");
    if !finished.exists() {
        let made = Command::new(python())
            .args(["-m", "venv"])
            .arg(&environment)
            .output();
        assert!(
            made.unwrap().status.success(),
            "cannot make a Python environment"
        );
        let fetched = Command::new(environment.join("bin/python"))
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .arg(format!("gpu-usage-audit=={version}"))
            .output()
            .unwrap();
        assert!(
            fetched.status.success(),
            "cannot fetch gpu-usage-audit: connect to a Python package index, or point pip at a mirror: {}",
            String::from_utf8_lossy(&fetched.stderr)
        );
        File::create(finished).unwrap();
    }
    environment.join("bin/gua")
}
