//! NVML, NVIDIA's management library, as a [`Backend`].
//!
//! [`library`] and [`lists`] wrap the C functions and hold all `unsafe` code; they do not interpret values. The other
//! files decide what a value means for a GPU.

mod calls;
mod code;
mod gpu;
mod library;
mod lists;
mod processes;
mod sensors;
mod tracked;

use std::path::PathBuf;
use std::time::Duration;

use gua_model::{Driver, GpuUuid, Missing, Pid, Problem, Reading};

use crate::backend::{Backend, Scan};
use crate::fault::DriverFault;
use calls::Calls;
use code::Code;
use library::Library;
use processes::Listed;
use tracked::TrackedGpus;

/// Maximum delay until a change of a value that rarely changes is seen: the settings of a GPU, its memory repairs, and the
/// versions of the driver. If ticks are less frequent, these are read at every tick. Nothing is reused after a failure: if a
/// call for a GPU fails, if its handle changes, or if the library is opened again, everything is read at once.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Reports whether a value that was read at this time need not be read again.
fn is_recent(at: Duration, now: Duration) -> bool {
    now.saturating_sub(at) < MAX_AGE
}

/// The NVML library, opened on demand, and the state that is kept between scans.
#[derive(Default)]
pub(crate) struct Nvml {
    path: Option<PathBuf>,
    library: Option<Library>,
    tracked: TrackedGpus,
    /// Versions of the driver, and when they were read.
    driver: Option<(Duration, Driver)>,
}

impl Nvml {
    /// Uses the library at `path`, or the one that the loader finds by its soname.
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            ..Self::default()
        }
    }
}

impl Backend for Nvml {
    fn open(&mut self) -> Result<(), DriverFault> {
        self.library = Some(Library::open(self.path.as_deref())?);
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.library.is_some()
    }

    fn close(&mut self) {
        // Handles are valid only while the library is open.
        self.tracked.drop_handles();
        self.driver = None;
        self.library = None;
    }

    fn begin_scan(&mut self) -> Result<u32, DriverFault> {
        let Some(library) = &self.library else {
            return Ok(0);
        };
        self.tracked.begin_scan();
        library.count().map_err(|code| DriverFault::Lost {
            call: "nvmlDeviceGetCount_v2".to_owned(),
            code: code.0,
            text: library.text(code),
        })
    }

    fn driver(&mut self, now: Duration) -> Driver {
        fn can_be_kept<T>(reading: &Reading<T>) -> bool {
            matches!(reading, Ok(_) | Err(Missing::Unsupported))
        }
        if let Some((at, driver)) = &self.driver
            && is_recent(*at, now)
        {
            return driver.clone();
        }
        let driver = match &self.library {
            Some(library) => Driver {
                version: library.driver_version().map_err(Code::missing),
                cuda: library.cuda_version().map_err(Code::missing),
            },
            None => Driver {
                version: Err(Missing::Failed),
                cuda: Err(Missing::Failed),
            },
        };
        let is_kept = can_be_kept(&driver.version) && can_be_kept(&driver.cuda);
        self.driver = is_kept.then(|| (now, driver.clone()));
        driver
    }

    fn read(&mut self, index: u32, now: Duration, scan: &mut Scan) {
        let Some(library) = &self.library else { return };
        if let Some((gpu, device)) = self.tracked.identify(library, index, now, scan) {
            gpu::read(library, gpu, device, now, scan);
        }
    }

    fn add_lost(&mut self, scan: &mut Scan) {
        self.tracked.add_lost(scan);
    }

    fn list_pids(&mut self, gpu: &GpuUuid, problems: &mut Vec<Problem>) -> Option<Vec<Pid>> {
        let library = self.library.as_ref()?;
        let (tracked, device) = self.tracked.find(gpu)?;
        let mut calls = Calls::new(library, problems, gpu, tracked.known.index);
        let listed = Listed::read(&mut calls, device);
        if calls.has_failed {
            tracked.expire_cache();
        }
        listed.pids()
    }

    fn drain(&mut self, now: Duration) {
        if let Some(library) = &self.library {
            self.tracked.drain(library, now);
        }
    }

    fn drain_due(&self) -> Option<Duration> {
        self.tracked.drain_due()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_again_after_ten_seconds() {
        let at = Duration::from_secs(100);
        assert!(is_recent(at, at));
        assert!(is_recent(at, at + MAX_AGE - Duration::from_nanos(1)));
        assert!(!is_recent(at, at + MAX_AGE));
    }
}
