//! One sample of all GPUs and their processes. If a call fails, one reading is missing, with its reason; if a GPU is
//! lost, its readings are missing. The sample fails only if the driver does not respond at all.
//!
//! The probe opens the driver, scans it through a `Backend`, and identifies the processes against `/proc` right after
//! they were listed.

use std::path::PathBuf;
use std::time::Duration;

use gua_model::{Driver, DriverPids, Gpu, Missing, OwnerPolicy, Process, Reading, Sample};
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, Scan};
use crate::backoff::{Backoff, FaultBackoff};
use crate::clock;
use crate::fault::DriverFault;
use crate::host::HostRoot;
use crate::kernel_log::KernelLog;
use crate::nvml::Nvml;
use crate::process::{Passwd, ProcRoot, ProcessTable};

/// Sources of the probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeOptions {
    /// Path of the NVML library; found by its soname by default.
    pub library: Option<PathBuf>,
    pub proc_root: ProcRoot,
    pub passwd: Passwd,
    /// PID namespace of the driver's process IDs.
    pub driver_pids: DriverPids,
    pub state_root: HostRoot,
    /// Rules by which owners are found.
    pub owners: OwnerPolicy,
    /// The kernel log, from which Xid errors are read; `None` to read none.
    pub kernel_log: Option<PathBuf>,
}

/// Reads the driver in this process. It opens the driver at the first sample, keeps it open, and opens it again after a
/// driver reload.
///
/// Concurrent callers have crashed drivers and hosts, so one thread owns it:
///
/// ```compile_fail
/// fn moves_to_another_thread<T: Send>() {}
/// moves_to_another_thread::<gua_probe::probe::Probe>();
/// ```
pub struct Probe {
    backend: Box<dyn Backend>,
    processes: ProcessTable,
    kernel_log: KernelLog,
    /// Buffer for the GPUs of the next sample.
    buffer: Vec<Gpu>,
    opening: FaultBackoff,
    reopening: Backoff,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Probe")
            .field("is_open", &self.backend.is_open())
            .finish_non_exhaustive()
    }
}

impl Probe {
    pub fn new(options: ProbeOptions) -> Self {
        let kernel_log = KernelLog::open(options.kernel_log.as_deref());
        let backend = Box::new(Nvml::new(options.library.clone()));
        Self {
            kernel_log,
            ..Self::with_backend(backend, ProcessTable::of_driver(options))
        }
    }

    fn with_backend(backend: Box<dyn Backend>, processes: ProcessTable) -> Self {
        Self {
            backend,
            processes,
            kernel_log: KernelLog::open(None),
            buffer: Vec::new(),
            opening: FaultBackoff::new(Duration::from_secs(1), Duration::from_secs(60)),
            reopening: Backoff::new(Duration::from_secs(10), Duration::from_secs(300)),
        }
    }

    /// Reads everything once.
    pub fn sample(&mut self) -> Result<Sample, DriverFault> {
        let at = clock::now();
        let since_boot = clock::since_boot();
        let (driver, scan) = self.read()?;
        self.processes.end_tick();
        Ok(Sample {
            at,
            since_boot,
            boot: self.processes.boot(),
            driver,
            gpus: scan.gpus,
            problems: scan.problems,
        })
    }

    /// Takes back the memory of a sample that was sent. Allocating a list of that size at every tick makes the
    /// allocator consolidate its free memory each time.
    pub(crate) fn recycle(&mut self, sample: Sample) {
        self.buffer = sample.gpus;
        self.buffer.clear();
    }

    /// Takes over what the driver has buffered, before it is overwritten. Cheap: it reads nothing else.
    pub fn drain(&mut self) {
        self.backend.drain(clock::monotonic());
    }

    /// Returns when [`Probe::drain`] is due on the monotonic clock: half of what the shortest buffer covers after it
    /// was last read. `None` while no GPU has a buffer.
    pub fn drain_due(&self) -> Option<Duration> {
        self.backend.drain_due()
    }

    /// Scans once, and again with the driver reopened if a GPU is lost or the driver does not answer. Reopening is
    /// retried with back-off: `nvmlInit_v2` succeeds whatever state a single GPU is in.
    fn read(&mut self) -> Result<(Driver, Scan), DriverFault> {
        if !self.backend.is_open() {
            self.open()?;
        }
        let first = self.scan();
        if first.as_ref().is_ok_and(|(_, scan)| !scan.has_lost_gpu) {
            self.reopening.succeeded();
            return first;
        }
        let now = clock::monotonic();
        if self.reopening.remaining(now).is_some() {
            return first;
        }
        self.reopening.failed(now);
        self.backend.close();
        let second = self.open().and_then(|()| self.scan());
        // The readings of the first scan were true when they were taken.
        second.or(first)
    }

    fn open(&mut self) -> Result<(), DriverFault> {
        self.opening.check()?;
        self.opening.record(self.backend.open())
    }

    fn scan(&mut self) -> Result<(Driver, Scan), DriverFault> {
        let count = self.backend.begin_scan()?;
        let driver = self.backend.driver(clock::monotonic());
        let mut scan = Scan {
            gpus: std::mem::take(&mut self.buffer),
            ..Scan::default()
        };
        for index in 0..count {
            let (first, now) = (scan.gpus.len(), clock::monotonic());
            self.backend.read(index, now, &mut scan);
            scan.has_lost_gpu |= scan.gpus.get(first).is_some_and(|gpu| !has_answered(gpu));
            self.identify(first, now, &mut scan);
        }
        self.backend.add_lost(&mut scan);
        if !scan.gpus.is_sorted_by_key(|gpu| gpu.index) {
            scan.gpus.sort_by_key(|gpu| gpu.index);
        }
        self.kernel_log.poll();
        let mut xid = Err(Missing::Unsupported);
        for gpu in &mut scan.gpus {
            // An instance follows its GPU and has its faults.
            if gpu.place.parent().is_none() {
                xid = self.kernel_log.xid(gpu.pci);
            }
            gpu.xid = xid;
        }
        Ok((driver, scan))
    }

    /// Identifies the processes on the GPUs from this place on.
    fn identify(&mut self, first: usize, now: Duration, scan: &mut Scan) {
        let Scan { gpus, problems, .. } = scan;
        for gpu in &mut gpus[first..] {
            for process in &mut gpu.processes {
                process.identity = self.processes.resolve_at(process.pid, now);
            }
            leave_out_ended(&mut *self.backend, gpu, problems);
        }
    }
}

/// Leaves out processes that ended between the driver's list and the read of `/proc`. Only a pid that the driver
/// still lists after that belongs to an orphan.
fn leave_out_ended(
    backend: &mut dyn Backend,
    gpu: &mut Gpu,
    problems: &mut Vec<gua_model::Problem>,
) {
    let is_gone = |process: &Process| matches!(process.identity, Err(Missing::Gone));
    if gpu.processes.iter().any(is_gone)
        && let Some(listed) = backend.list_pids(&gpu.uuid, problems)
    {
        gpu.processes
            .retain(|process| !is_gone(process) || listed.contains(&process.pid));
    }
}

/// Reports whether a GPU answered a call about its present state. One that only repeats its name may be read through an
/// out-of-date library, which remembers names.
fn has_answered(gpu: &Gpu) -> bool {
    fn is_answer<T>(reading: &Reading<T>) -> bool {
        matches!(reading, Ok(_) | Err(Missing::Unsupported | Missing::Denied))
    }
    is_answer(&gpu.memory_used)
        || is_answer(&gpu.util)
        || is_answer(&gpu.power)
        || is_answer(&gpu.compute_list)
}

#[cfg(test)]
mod tests;
