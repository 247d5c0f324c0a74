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
mod settings;
mod tracked;

use std::path::PathBuf;
use std::time::Duration;

use gua_model::{Driver, GpuUuid, Missing, Pid, Problem};

use crate::backend::{Backend, Scan};
use crate::fault::DriverFault;
use calls::Calls;
use library::Library;
use processes::Listed;
use settings::Cached;
use tracked::TrackedGpus;

/// The NVML library, opened on demand, and the state that is kept between scans.
#[derive(Default)]
pub(crate) struct Nvml {
    path: Option<PathBuf>,
    library: Option<Library>,
    tracked: TrackedGpus,
    driver: Option<Cached<Driver>>,
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
        match &self.library {
            Some(library) => settings::driver(&mut self.driver, library, now),
            None => Driver {
                version: Err(Missing::Failed),
                cuda: Err(Missing::Failed),
            },
        }
    }

    fn read(&mut self, index: u32, now: Duration, scan: &mut Scan) {
        let Some(library) = &self.library else { return };
        if let Some((gpu, device)) = self.tracked.identify(library, index, now, scan) {
            gpu::read(library, gpu, device, now, scan);
        }
    }

    fn add_lost(&mut self, scan: &mut Scan) -> bool {
        self.tracked.add_lost(scan)
    }

    fn list_pids(&mut self, gpu: &GpuUuid, problems: &mut Vec<Problem>) -> Option<Vec<Pid>> {
        let library = self.library.as_ref()?;
        let (tracked, device) = self.tracked.find(gpu)?;
        let mut calls = Calls::new(library, problems, gpu, tracked.index);
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
