//! Programs that read the driver, and its C header, as Python packages.

use std::path::{Path, PathBuf};

use gua_test::python;

/// A Python environment with the clients and the header package.
pub(crate) fn environment() -> PathBuf {
    python::CLIENTS.directory()
}

/// Directory of `nvml.h`.
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
