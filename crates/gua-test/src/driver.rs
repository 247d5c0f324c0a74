//! A temporary directory that holds the simulated driver library and the scenario that it plays.

use std::path::{Path, PathBuf};

use nvml_sim::driver::{self, Generation};
use nvml_sim::scenario;
use tempfile::TempDir;

/// Installs the simulated driver into `directory`, or a copy of the library that `GUA_NVML_LIBRARY` names in its place, so
/// that the same tests can run on another driver library. Returns its path.
fn install(directory: &Path, generation: Generation) -> PathBuf {
    let Some(other) = crate::variable("GUA_NVML_LIBRARY") else {
        return driver::install(directory, generation).unwrap();
    };
    let library = directory.join("libnvidia-ml.so.1");
    std::fs::copy(other, &library).unwrap();
    library
}

/// A simulated driver in a temporary directory of its own.
#[derive(Debug)]
pub struct SimulatedDriver {
    directory: TempDir,
    library: PathBuf,
}

impl SimulatedDriver {
    /// Installs a driver of the newest generation.
    pub fn new(scenario: &str) -> Self {
        Self::of(Generation::LATEST, scenario)
    }

    pub fn of(generation: Generation, scenario: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let library = install(directory.path(), generation);
        let driver = Self { directory, library };
        driver.play(scenario);
        driver
    }

    /// Replaces the scenario. The driver has noticed when this returns, or notices at its next call.
    pub fn play(&self, scenario: &str) {
        scenario::write_text(&self.scenario(), scenario).unwrap();
    }

    /// Path of the scenario file.
    pub fn scenario(&self) -> PathBuf {
        self.path(nvml_sim::BESIDE)
    }

    /// Path of the driver library.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// Points at a driver library that does not exist, as on a machine without a driver.
    pub fn remove_library(&mut self) {
        self.set_library("/nonexistent/libnvidia-ml.so.1");
    }

    /// Points at another driver library.
    pub fn set_library(&mut self, library: impl Into<PathBuf>) {
        self.library = library.into();
    }

    /// The temporary directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file in the directory, with its parent directories.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Content of a file in the directory; empty if it does not exist.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}
