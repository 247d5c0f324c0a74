//! The programs that people use today, and a validator of JSON.

#[path = "../../../nvml-sim/tests/shared/python.rs"]
mod python;

use std::path::{Path, PathBuf};

/// A Python environment with them in it, made at first use.
pub(crate) fn environment() -> PathBuf {
    let requirements = include_str!("requirements.txt");
    python::environment(Path::new("python3"), "look-peers", requirements)
}
