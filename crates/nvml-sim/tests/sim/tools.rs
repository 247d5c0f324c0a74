//! Other people's programs, fetched once into a folder beside the build: Python packages and the driver's C header.
//! What cannot be had makes a test fail with a sentence; nothing is skipped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

const REQUIREMENTS: &str = include_str!("../clients/requirements.txt");

/// The Python of the machine.
pub(crate) fn python() -> PathBuf {
    let works = Command::new("python3").arg("--version").output();
    assert!(
        works.is_ok_and(|output| output.status.success()),
        "python3 is not on PATH: install Python 3.9 or later, with venv and pip"
    );
    PathBuf::from("python3")
}

/// A Python environment with the clients and the header's package in it, made at first use.
pub(crate) fn environment() -> PathBuf {
    let tools = target_directory().join("test-tools");
    std::fs::create_dir_all(&tools).unwrap();
    let environment = tools.join("nvml-clients");
    // Tests run side by side, in this process and in others; one of them makes the environment.
    let lock = File::create(tools.join("nvml-clients.lock")).unwrap();
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
        Command::new(python()).args(["-m", "venv"]).arg(environment),
        "cannot make a Python environment: install Python's venv module (python3-venv on Debian)",
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
        "cannot fetch the clients named in tests/clients/requirements.txt: connect to a Python package index, or point \
         pip at a mirror, and run the tests again",
    );
}

fn run(command: &mut Command, otherwise: &str) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("{otherwise}\n{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => panic!("{otherwise}\n{error}"),
    }
}

/// The folder of `nvml.h`.
pub(crate) fn header_folder() -> PathBuf {
    find(&environment(), "nvml.h").expect("the package nvidia-nvml-dev brings nvml.h")
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    if folder.join(name).is_file() {
        return Some(folder.to_owned());
    }
    let entries = folder.read_dir().ok()?.flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .find_map(|entry| find(&entry.path(), name))
}

/// The build folder: a test runs from `TARGET/PROFILE/deps`.
fn target_directory() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program
        .ancestors()
        .nth(3)
        .expect("a test runs from TARGET/PROFILE/deps")
        .to_owned()
}
