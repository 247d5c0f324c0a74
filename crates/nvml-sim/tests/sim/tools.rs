//! Other people's programs, fetched once into a folder beside the build: Python packages and the driver's C header.
//! What cannot be had makes a test fail with a sentence; nothing is skipped.

#[path = "../shared/python.rs"]
mod python;

use std::path::{Path, PathBuf};
use std::process::Command;

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
    let requirements = include_str!("../clients/requirements.txt");
    python::environment(&python(), "nvml-clients", requirements)
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
