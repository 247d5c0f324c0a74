//! Python environments beside the build, each made at first use and shared by all tests. An environment that cannot be made
//! fails the test with the reason; nothing is skipped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// First line of requirements whose dependencies must not be installed. pip knows this as a flag only.
const ALONE: &str = "--no-deps\n";

/// The Python of the machine.
#[must_use]
pub fn system() -> PathBuf {
    let works = Command::new("python3").arg("--version").output();
    assert!(
        works.is_ok_and(|output| output.status.success()),
        "python3 is not on PATH: install Python 3.9 or later, with venv and pip"
    );
    PathBuf::from("python3")
}

/// The GPU listing programs that people use today and a JSON schema validator.
pub fn peers() -> PathBuf {
    environment(&system(), "look-peers", include_str!("peers.txt"))
}

/// The environment of this name with these requirements, in the format of pip's file.
#[must_use]
pub fn environment(python: &Path, name: &str, requirements: &str) -> PathBuf {
    let tools = target_directory().join("test-tools");
    std::fs::create_dir_all(&tools).unwrap();
    let environment = tools.join(name);
    // Tests run side by side, in this process and in others; one of them makes the environment.
    let lock = File::create(tools.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let finished = environment.join("requirements.txt");
    if std::fs::read_to_string(&finished).ok().as_deref() != Some(requirements) {
        make(python, &environment, requirements);
        std::fs::write(finished, requirements).unwrap();
    }
    environment
}

fn make(python: &Path, environment: &Path, requirements: &str) {
    if environment.exists() {
        std::fs::remove_dir_all(environment).unwrap();
    }
    run(
        Command::new(python).args(["-m", "venv"]).arg(environment),
        "cannot make a Python environment: install Python 3.9 or later with its venv module (python3-venv on Debian)",
    );
    let wanted = environment.join("wanted.txt");
    let alone = requirements.strip_prefix(ALONE);
    std::fs::write(&wanted, alone.unwrap_or(requirements)).unwrap();
    run(
        Command::new(environment.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet"])
            .arg("--disable-pip-version-check")
            .args(alone.map(|_| ALONE.trim_end()))
            .arg("-r")
            .arg(wanted),
        "cannot fetch what the tests compare with: connect to a Python package index, or point pip at a mirror, and run \
         the tests again",
    );
}

fn run(command: &mut Command, otherwise: &str) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("{otherwise}\n{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => panic!("{otherwise}\n{error}"),
    }
}

/// The build directory: a test runs from `TARGET/PROFILE/deps`.
fn target_directory() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program
        .ancestors()
        .nth(3)
        .expect("a test runs from TARGET/PROFILE/deps")
        .to_owned()
}
