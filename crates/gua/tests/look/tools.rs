//! Other people's programs, fetched once into a folder beside the build. What cannot be had makes a test fail with a
//! sentence; nothing is skipped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

const REQUIREMENTS: &str = include_str!("requirements.txt");

/// A Python environment with the peers in it, made at first use.
pub(crate) fn environment() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let target = program.ancestors().nth(3);
    let tools = target
        .expect("a test runs from TARGET/PROFILE/deps")
        .join("test-tools");
    std::fs::create_dir_all(&tools).unwrap();
    let environment = tools.join("look-peers");
    // Tests run side by side, in this process and in others; one of them makes the environment.
    let lock = File::create(tools.join("look-peers.lock")).unwrap();
    lock.lock().unwrap();
    let finished = environment.join("requirements.txt");
    if std::fs::read_to_string(&finished).ok().as_deref() != Some(REQUIREMENTS) {
        make(&environment);
        std::fs::write(finished, REQUIREMENTS).unwrap();
    }
    environment
}

fn make(environment: &Path) {
    if environment.exists() {
        std::fs::remove_dir_all(environment).unwrap();
    }
    run(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(environment),
        "cannot make a Python environment: install Python 3.9 or later with its venv module (python3-venv on Debian)",
    );
    let wanted = environment.join("wanted.txt");
    std::fs::write(&wanted, REQUIREMENTS).unwrap();
    run(
        Command::new(environment.join("bin/python"))
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "-r",
            ])
            .arg(wanted),
        "cannot fetch the programs named in tests/look/requirements.txt: connect to a Python package index, or point pip \
         at a mirror, and run the tests again",
    );
}

fn run(command: &mut Command, otherwise: &str) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("{otherwise}\n{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => panic!("{otherwise}\n{error}"),
    }
}
