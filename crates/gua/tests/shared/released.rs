//! Real releases of gpu-usage-audit, each in a Python environment beside the build, made at first use. What cannot be had
//! makes a test fail with a sentence; nothing is skipped.

#[path = "../../../nvml-sim/tests/shared/python.rs"]
mod environment;

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
    let name = format!("gpu-usage-audit-{version}");
    let requirements = format!("gpu-usage-audit=={version}\n");
    environment::environment(&python(), &name, &requirements).join("bin/gua")
}
