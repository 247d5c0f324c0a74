//! The examination behind `gua doctor`: [`gather`] collects facts about this host, [`checks::all`] judges them,
//! [`plan::plan`] says what to do first, and [`render`] turns the findings into text or JSON. Nothing is printed or
//! changed.
//!
//! The checks depend on [`facts::Facts`] alone, so a test can describe any host. The caller passes facts from outside
//! this crate (the settings, the claim directory, the board) as [`Known`]. Every step has a time limit: an unresponsive
//! driver or file server affects only its own verdict.

pub mod cards;
pub mod check;
pub mod checks;
mod checks_card;
mod checks_claims;
mod checks_driver;
mod checks_host;
mod checks_link;
mod checks_store;
pub mod facts;
#[cfg(test)]
mod fixture;
mod page;
pub mod plan;
pub mod render;
pub mod sample_json;
pub mod smi;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::{Sample, Thresholds};
use jiff::tz::TimeZone;

pub use checks_driver::absent;

pub use crate::clock::within;

use crate::clock;
use crate::fault::DriverFault;
use crate::host::mount::Mount;
use crate::host::{self, HostRoot};
use facts::{
    Choice, Claims, Facts, FileSystem, History, Link, NamedLibrary, PidSetting, Presence, Reach,
};

/// Time limit of `nvidia-smi`, and of a file system.
pub const LIMIT: Duration = Duration::from_secs(3);

/// Facts that come from outside this crate.
#[derive(Clone, Debug)]
pub struct Known {
    /// Value of PATH, where `nvidia-smi` is looked up.
    pub search_path: Option<OsString>,
    /// Problems of the configuration, one sentence each.
    pub configuration: Vec<String>,
    /// Configuration files that this user may not read.
    pub unreadable_files: Vec<PathBuf>,
    /// The claim directory, or why there is none.
    pub claims: Result<PathBuf, String>,
    pub link: Link,
    /// Path of the history file.
    pub db: PathBuf,
    pub choice: Choice,
    /// Names of the commands that this version has.
    pub commands: Vec<String>,
    pub thresholds: Thresholds,
    pub driver_pids: PidSetting,
    pub library: Option<NamedLibrary>,
}

/// Collects the facts about a host. `driver` reads one sample.
pub fn gather(
    root: &HostRoot,
    known: Known,
    driver: impl FnOnce() -> Result<Sample, DriverFault>,
) -> Facts {
    let mounts = host::mount::mounts(root);
    let owned = root.clone();
    let collectors = within(LIMIT, move || host::collector::collectors(&owned));
    let smi = within(LIMIT, move || smi::find(&known.search_path?)).flatten();
    Facts {
        now: clock::now().to_zoned(TimeZone::system()),
        kernel: host::kernel(),
        time_keeping: host::time::time_keeping(root),
        surroundings: host::namespace::surroundings(root),
        hiding: host::mount::hiding(&mounts, &root.proc),
        privilege: host::privilege::privilege(root),
        devices: host::device::devices(root),
        module: host::driver::kernel_module(root),
        collectors,
        configuration: known.configuration,
        unreadable_files: known.unreadable_files,
        claims: Claims {
            place: known.claims,
            remove_ipc: host::logind::remove_ipc(root),
        },
        link: known.link,
        history: history(known.db, known.choice, &mounts),
        commands: known.commands,
        thresholds: known.thresholds,
        ticks_per_second: host::time::ticks_per_second(),
        library: known.library,
        // Not in parallel with reading the driver: two concurrent programs have crashed some drivers.
        smi: smi.and_then(|path| smi::ask(path, LIMIT)),
        driver_pids: known.driver_pids,
        driver: driver(),
    }
}

/// Reports whether a library exists. A bare name is resolved by the loader, so its absence cannot be determined.
#[must_use]
pub fn presence(library: &Path) -> Presence {
    let has_directory = library.as_os_str().as_encoded_bytes().contains(&b'/');
    let path = library.to_owned();
    match within(LIMIT, move || path.exists()) {
        Some(true) => Presence::Present,
        Some(false) if has_directory => Presence::Absent,
        Some(false) | None => Presence::Unknown,
    }
}

fn history(path: PathBuf, choice: Choice, mounts: &[Mount]) -> History {
    let mount = std::path::absolute(&path)
        .ok()
        .and_then(|path| host::mount::holding(mounts, &path));
    let file_system = mount.map(|mount| FileSystem {
        name: mount.kind.clone(),
        reach: if mount.is_network() {
            Reach::Network
        } else if mount.is_made_up() {
            Reach::Kernel
        } else {
            Reach::Local
        },
    });
    let asked = path.clone();
    let spot = within(LIMIT, move || host::disk::spot(&asked));
    History {
        path,
        choice,
        spot,
        file_system,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn work_that_never_ends_is_left_behind() {
        let (_keep, wait) = mpsc::channel::<()>();
        assert_eq!(
            within(Duration::from_millis(10), move || wait.recv().is_ok()),
            None
        );
        assert_eq!(within(LIMIT, || 7), Some(7));
    }
}
