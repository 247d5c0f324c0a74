//! The interface between the probe and a vendor's driver.
//!
//! A [`Backend`] lists GPUs, reads them, lists the processes on them, and reports the driver's versions and faults. It
//! knows nothing about owners, `/proc` or the reader child: the probe ([`crate::probe`]) does the rest the same way for
//! every backend. NVML ([`crate::nvml`]) is the first one.

use std::time::Duration;

use gua_model::{Driver, Gpu, GpuUuid, Pid, Problem};

use crate::fault::DriverFault;

/// A driver that can be scanned for GPUs. One thread owns it.
pub(crate) trait Backend {
    /// Opens the driver.
    fn open(&mut self) -> Result<(), DriverFault>;

    fn is_open(&self) -> bool;

    /// Closes the driver and drops everything that is valid only while it is open. GPUs that were seen stay known.
    fn close(&mut self);

    /// Begins a scan and returns the number of GPUs. An error means that the driver as a whole does not answer.
    fn begin_scan(&mut self) -> Result<u32, DriverFault>;

    /// Returns the driver's versions.
    fn driver(&mut self, now: Duration) -> Driver;

    /// Reads one GPU and its MIG instances, and appends them to the scan. Processes are listed, with no identity yet. A
    /// GPU that cannot be identified is left out.
    fn read(&mut self, index: u32, now: Duration, scan: &mut Scan);

    /// Appends the GPUs that were seen in earlier scans and not in this one, without readings.
    fn add_lost(&mut self, scan: &mut Scan);

    /// Lists the processes of a GPU of this scan again; `None` if the list cannot be read.
    fn list_pids(&mut self, gpu: &GpuUuid, problems: &mut Vec<Problem>) -> Option<Vec<Pid>>;

    /// Takes over what the driver has buffered since the last scan, before it is overwritten.
    fn drain(&mut self, now: Duration);

    /// Returns when [`Backend::drain`] is due on the monotonic clock; `None` while nothing is buffered.
    fn drain_due(&self) -> Option<Duration>;
}

/// The result of one pass over all GPUs.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) problems: Vec<Problem>,
    /// A known GPU is gone or answers no call. The cause may be that the open library is out of date.
    pub(crate) has_lost_gpu: bool,
}
