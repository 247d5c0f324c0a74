//! Where the scenario comes from, and whether it has changed. Reads the environment and the scenario file, and nothing
//! else of the machine.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The environment variable that names the scenario.
pub const VARIABLE: &str = "NVML_SIM_SCENARIO";

/// The scenario's name beside the library, if the environment names none.
pub const BESIDE: &str = "nvml-sim.toml";

/// What tells one version of a file from the next.
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

    /// The modification time in seconds since 1970.
    #[expect(
        clippy::cast_precision_loss,
        reason = "microseconds since 1970 fit a double"
    )]
    pub(crate) fn modified(self) -> f64 {
        self.modified.0 as f64 + self.modified.1 as f64 / 1e9
    }
}

/// The file that the environment names, else the one beside the library.
#[expect(
    clippy::disallowed_methods,
    reason = "which scenario is played is said in the environment"
)]
pub(crate) fn scenario_path() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    Some(own_file()?.with_file_name(BESIDE))
}

/// The file that this code was loaded from, as the kernel's map of the process says.
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

/// The calling thread, as `PID TID`. The kernel is asked because a thread handle of the standard library would keep
/// the library from being unloaded.
pub(crate) fn thread() -> String {
    let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    let text = link.to_string_lossy();
    match text.split_once("/task/") {
        Some((pid, tid)) => format!("{pid} {tid}"),
        None => format!("{} ?", std::process::id()),
    }
}
