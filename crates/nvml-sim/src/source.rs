//! Location of the scenario, and whether it has changed. Reads the environment and the scenario file only.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Environment variable with the path of the scenario.
pub const VARIABLE: &str = "NVML_SIM_SCENARIO";

/// File name of the scenario beside the library, if the environment names none.
pub const BESIDE: &str = "nvml-sim.toml";

/// Identifies a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    modified: (i64, i64),
    size: u64,
    inode: u64,
}

impl Identity {
    pub(crate) fn of(path: &Path) -> Option<Identity> {
        let facts = std::fs::metadata(path).ok()?;
        Some(Identity {
            modified: (facts.mtime(), facts.mtime_nsec()),
            size: facts.size(),
            inode: facts.ino(),
        })
    }

    /// Returns the modification time in seconds since 1970.
    // Microseconds since 1970 fit a double.
    pub(crate) fn modified(self) -> f64 {
        self.modified.0 as f64 + self.modified.1 as f64 / 1e9
    }
}

/// Returns the file that the environment names, or the one beside the library.
#[expect(
    clippy::disallowed_methods,
    reason = "the environment names the scenario"
)]
pub(crate) fn scenario_path() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    Some(own_file()?.with_file_name(BESIDE))
}

/// Returns the file that this code was loaded from, according to `/proc/self/maps`.
fn own_file() -> Option<PathBuf> {
    let here = own_file as fn() -> Option<PathBuf> as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, _) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        let path = &line[line.find('/')?..];
        (start..end).contains(&here).then(|| PathBuf::from(path))
    })
}

/// Returns the calling thread as `PID TID`. It uses system calls, because a thread handle of the standard library would
/// prevent unloading.
pub(crate) fn thread() -> String {
    let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    let text = link.to_string_lossy();
    match text.split_once("/task/") {
        Some((pid, tid)) => format!("{pid} {tid}"),
        None => format!("{} ?", std::process::id()),
    }
}
