//! The examination behind `gua doctor`: [`gather`] collects facts about this host, [`checks::all`] judges them,
//! [`plan::plan`] says what to do first, and [`page::text`] shows the result. Nothing is printed or changed.
//!
//! The checks depend on [`facts::Facts`] alone, so a test can describe any host. The caller passes facts from outside
//! this crate (the settings, the claim directory, the board) as [`facts::Known`]. Every step has a time limit: an
//! unresponsive driver or file server affects only its own verdict.

pub mod check;
pub mod checks;
mod checks_claims;
mod checks_driver;
mod checks_gpu;
mod checks_host;
mod checks_link;
mod checks_store;
pub mod details;
pub mod facts;
#[cfg(test)]
mod fixture;
pub mod page;
pub mod plan;
pub mod program;

use std::path::Path;
use std::time::Duration;

use gua_model::Sample;
use jiff::tz::TimeZone;

pub use checks_driver::absent;

pub use crate::clock::within;

use crate::clock;
use crate::fault::DriverFault;
use crate::host::{self, HostRoot};
use facts::{Facts, Known};

/// Time limit of `nvidia-smi`, and of a file system.
pub const LIMIT: Duration = Duration::from_secs(3);

/// Collects the facts about a host. `driver` reads one sample.
pub fn gather(
    root: &HostRoot,
    known: Known,
    driver: impl FnOnce() -> Result<Sample, DriverFault>,
) -> Facts {
    let mounts = host::mount::mounts(root);
    let mount = std::path::absolute(&known.db)
        .ok()
        .and_then(|path| host::mount::holding(&mounts, &path));
    let (owned, db, search_path) = (root.clone(), known.db.clone(), known.search_path.clone());
    let collectors = within(LIMIT, move || host::collector::collectors(&owned));
    let smi = within(LIMIT, move || program::find(&search_path?, "nvidia-smi")).flatten();
    Facts {
        now: clock::now().to_zoned(TimeZone::system()),
        kernel: host::kernel(),
        time_keeping: host::time::time_keeping(root),
        surroundings: host::namespace::surroundings(root),
        hiding: host::mount::hiding(&mounts, &root.join("proc")),
        privilege: host::privilege::privilege(root),
        devices: host::device::devices(root),
        module: host::driver::kernel_module(root),
        collectors,
        remove_ipc: host::logind::remove_ipc(root),
        spot: within(LIMIT, move || host::disk::spot(&db)),
        mount: mount.cloned(),
        known,
        // Not in parallel with reading the driver: two concurrent programs have crashed some drivers.
        smi: smi.and_then(|path| program::ask(path, &["-L"], LIMIT)),
        driver: driver(),
    }
}

/// Reports whether a library exists. A bare name is resolved by the loader, so its absence cannot be determined.
pub fn exists(library: &Path) -> Option<bool> {
    let has_directory = library.as_os_str().as_encoded_bytes().contains(&b'/');
    let path = library.to_owned();
    within(LIMIT, move || path.exists()).filter(|exists| *exists || has_directory)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn work_that_never_ends_is_abandoned() {
        let (_keep, wait) = mpsc::channel::<()>();
        assert_eq!(
            within(Duration::from_millis(10), move || wait.recv().is_ok()),
            None
        );
        assert_eq!(within(LIMIT, || 7), Some(7));
    }
}
