//! State of GPUs that is kept between scans: their identity, their settings, and how far their sample buffers were
//! read.

use std::collections::HashMap;
use std::time::Duration;

use gua_model::{Gpu, GpuUuid, Missing, Percent, Pid, Place, Reading, UtilWindow};

use super::calls::record;
use super::code::Code;
use super::library::{Device, Library};
use super::{is_recent, sensors};
use crate::backend::Scan;

/// Maximum number of GPUs to remember. Without it, a driver that reports a new UUID at every scan would fill the
/// memory.
const MAX_GPUS: usize = 1024;

/// Longest meaningful time between two reads of a buffer, in microseconds. It also keeps sums of percentages from
/// overflowing.
const DAY: u64 = 86_400_000_000;

/// Maximum time without new samples that is normal: drivers sample every sixth of a second to every second.
const QUIET: Duration = Duration::from_secs(2);

/// Minimum time between two drains.
const MIN_DRAIN: Duration = Duration::from_secs(1);

/// All GPUs that were ever seen, in the driver's order. A lost one keeps its place and its name.
#[derive(Default)]
pub(super) struct TrackedGpus(Vec<TrackedGpu>);

impl TrackedGpus {
    pub(super) fn begin_scan(&mut self) {
        for gpu in &mut self.0 {
            gpu.is_seen = false;
        }
    }

    /// Finds the GPU that has this index now; `None` if its UUID cannot be read or belongs to another GPU of this scan.
    pub(super) fn identify(
        &mut self,
        library: &Library,
        index: u32,
        now: Duration,
        scan: &mut Scan,
    ) -> Option<(&mut TrackedGpu, Device)> {
        let before = self.0.iter().position(|gpu| gpu.known.index == index);
        let remembered = before.map(|place| self.0[place].known.uuid.clone());
        let mut failed = |name, code| {
            let gpu = (remembered.as_ref(), index);
            record(&mut scan.problems, library, gpu, name, code);
        };
        let device = library
            .device(index)
            .map_err(|code| failed("nvmlDeviceGetHandleByIndex_v2", code))
            .ok()?;
        let is_known = |place: &usize| {
            let gpu = &self.0[*place];
            !gpu.is_seen && gpu.is_identified_by(device, index, now)
        };
        if let Some(place) = before.filter(is_known) {
            let gpu = &mut self.0[place];
            gpu.is_seen = true;
            return Some((gpu, device));
        }
        let uuid = library
            .uuid(device)
            .map_err(|code| failed("nvmlDeviceGetUUID", code))
            .ok()?;
        let known = self.0.iter().position(|gpu| gpu.known.uuid == uuid);
        let is_refused = match known {
            Some(place) => self.0[place].is_seen,
            None => self.0.len() >= MAX_GPUS,
        };
        if is_refused {
            failed("nvmlDeviceGetUUID", Code::IMPLAUSIBLE);
            return None;
        }
        let place = known.unwrap_or_else(|| {
            self.0.push(TrackedGpu::new(uuid));
            self.0.len() - 1
        });
        let gpu = &mut self.0[place];
        gpu.is_seen = true;
        gpu.known.index = index;
        gpu.device = Some(device);
        gpu.refreshed_at = Some(now);
        Some((gpu, device))
    }

    /// Appends the GPUs that were not identified in this scan, without readings.
    pub(super) fn add_lost(&mut self, scan: &mut Scan) {
        for gpu in self.0.iter_mut().filter(|gpu| !gpu.is_seen) {
            gpu.drop_handles();
            scan.has_lost_gpu = true;
            scan.gpus.extend(gpu.without_readings(Missing::Gone));
        }
    }

    /// Finds the GPU, or the parent of the instance, with this UUID, and the handle of the GPU or instance itself.
    pub(super) fn find(&mut self, uuid: &GpuUuid) -> Option<(&mut TrackedGpu, Device)> {
        self.0.iter_mut().find_map(|gpu| {
            let device = match gpu.known.uuid == *uuid {
                true => gpu.device,
                false => {
                    let mut instances = gpu.instances.iter();
                    instances.find(|instance| instance.uuid == *uuid)?.device
                }
            };
            Some((gpu, device?))
        })
    }

    pub(super) fn drop_handles(&mut self) {
        self.0.iter_mut().for_each(TrackedGpu::drop_handles);
    }

    pub(super) fn drain(&mut self, library: &Library, now: Duration) {
        for gpu in &mut self.0 {
            if let Some(device) = gpu.device {
                gpu.read_buffers(library, device, now);
            }
        }
    }

    pub(super) fn drain_due(&self) -> Option<Duration> {
        self.0.iter().filter_map(TrackedGpu::drain_due).min()
    }
}

/// One GPU over the life of the process.
pub(super) struct TrackedGpu {
    /// The GPU with its identity and its settings alone. Its name and its address are read until they are known.
    pub(super) known: Gpu,
    /// Whether it was identified in this scan.
    is_seen: bool,
    /// Handle, valid while the library is open; `None` while the GPU does not answer.
    device: Option<Device>,
    /// Time at which the UUID of the handle and the settings were last read; `None` after a call has failed.
    pub(super) refreshed_at: Option<Duration>,
    /// MIG instances at the time when they could last be listed.
    pub(super) instances: Vec<TrackedInstance>,
    samples: Cursor<UtilWindow>,
    process_samples: Cursor<ProcessShares>,
    /// Time that the driver's buffer covers.
    reach: Option<Duration>,
    /// Time at which the buffers were last read.
    read_at: Duration,
    /// Time at which the buffer last had new samples.
    fresh_at: Duration,
}

/// A MIG instance over the life of the process.
pub(super) struct TrackedInstance {
    uuid: GpuUuid,
    place: Place,
    device: Option<Device>,
}

impl TrackedInstance {
    pub(super) fn new(gpu: &Gpu, device: Option<Device>) -> Self {
        Self {
            uuid: gpu.uuid.clone(),
            place: gpu.place.clone(),
            device,
        }
    }
}

/// A position in a buffer of the driver, and what was read since the last tick.
#[derive(Default)]
struct Cursor<T> {
    /// The driver's time of the last sample that was read.
    since: Option<u64>,
    pending: T,
    failure: Option<Code>,
}

impl<T: Default> Cursor<T> {
    fn take(&mut self) -> (T, Option<Code>) {
        (std::mem::take(&mut self.pending), self.failure.take())
    }
}

/// SM utilisation of each process since the last tick.
///
/// The driver returns one record per process and read: the mean since the read before, and no record for a process that
/// did nothing in that time (see also nvtop#91 and nvtop#110).
#[derive(Default)]
struct ProcessShares {
    /// Percent times weight.
    sums: HashMap<Pid, u64>,
    /// Time of all reads, whether a process was in them or not.
    weight: u64,
}

impl ProcessShares {
    fn add(&mut self, samples: &[(Pid, u64, u32)], weight: u64) {
        let mut means: HashMap<Pid, (u64, u64)> = HashMap::new();
        for (pid, _, value) in samples {
            if let Some(value) = Percent::new(*value) {
                let (sum, count) = means.entry(*pid).or_default();
                *sum += u64::from(value.get());
                *count += 1;
            }
        }
        for (pid, (sum, count)) in means {
            *self.sums.entry(pid).or_default() += sum * weight / count;
        }
        self.weight += weight;
    }

    fn mean(&self, pid: Pid) -> Option<Percent> {
        let sum = self.sums.get(&pid)?;
        let rounded = (sum + self.weight / 2).checked_div(self.weight)?;
        Percent::new(u32::try_from(rounded).ok()?)
    }
}

/// Contents of the driver's buffers since the last tick, and the last failure to read each.
pub(super) struct Buffered {
    window: (UtilWindow, Option<Code>),
    processes: (ProcessShares, Option<Code>),
}

impl Buffered {
    /// Returns the utilisation of the GPU. It is empty if the driver's buffer is empty.
    pub(super) fn window(&self) -> Result<UtilWindow, Code> {
        match self.window {
            (window, Some(code)) if window.samples() == 0 => Err(code),
            (window, _) => Ok(window),
        }
    }

    /// Returns the SM utilisation of a process; `Ok(None)` if the driver has no sample of it.
    pub(super) fn sm_util(&self, pid: Pid) -> Reading<Option<Percent>> {
        match (self.processes.0.mean(pid), self.processes.1) {
            (Some(mean), _) => Ok(Some(mean)),
            (None, None) => Ok(None),
            (None, Some(code)) => Err(code.missing()),
        }
    }

    pub(super) fn process_failure(&self) -> Option<Code> {
        self.processes.1
    }
}

impl TrackedGpu {
    fn new(uuid: GpuUuid) -> Self {
        Self {
            known: Gpu::without_readings(uuid, 0, Missing::Unsupported),
            is_seen: false,
            device: None,
            refreshed_at: None,
            instances: Vec::new(),
            samples: Cursor::default(),
            process_samples: Cursor::default(),
            reach: None,
            read_at: Duration::ZERO,
            fresh_at: Duration::ZERO,
        }
    }

    /// Reports whether this index and handle were recently identified as this GPU. A handle denotes one GPU as long as
    /// the library is open.
    fn is_identified_by(&self, device: Device, index: u32, now: Duration) -> bool {
        self.device == Some(device)
            && self.known.index == index
            && self.refreshed_at.is_some_and(|at| is_recent(at, now))
    }

    /// Drops the handles: the GPU does not answer, or the library is being closed.
    fn drop_handles(&mut self) {
        self.device = None;
        for instance in &mut self.instances {
            instance.device = None;
        }
        self.expire_cache();
    }

    /// Makes the next scan read everything again, because a call for the GPU has failed.
    pub(super) fn expire_cache(&mut self) {
        self.refreshed_at = None;
    }

    fn drain_due(&self) -> Option<Duration> {
        self.device?;
        Some(self.read_at + (self.reach? / 2).max(MIN_DRAIN))
    }

    /// Reads both buffers to their end and keeps what is new.
    pub(super) fn read_buffers(&mut self, library: &Library, device: Device, now: Duration) {
        let elapsed = now.saturating_sub(self.read_at);
        self.read_at = now;
        let covered = match self.read_samples(library, device, (now, elapsed)) {
            Ok(Some(samples)) => self.add_samples(&samples),
            Ok(None) => Some(Duration::ZERO),
            Err(code) => {
                self.samples.failure = Some(code);
                self.reach = None;
                None
            }
        };
        let weight = u64::try_from(covered.unwrap_or(elapsed).as_micros()).unwrap_or(u64::MAX);
        match self.read_process_samples(library, device) {
            Ok(samples) => self
                .process_samples
                .pending
                .add(&samples, weight.clamp(1, DAY)),
            Err(code) => self.process_samples.failure = Some(code),
        }
    }

    /// Reads the GPU's samples since the last read; `None` if nothing is new yet.
    ///
    /// The whole buffer is read at first and whenever the last read is not recent: this measures how far it reaches
    /// back, which grows after the driver was loaded. It is also read if nothing was new for a while: this detects that
    /// the driver's sample clock was set back.
    fn read_samples(
        &mut self,
        library: &Library,
        device: Device,
        (now, elapsed): (Duration, Duration),
    ) -> Result<Option<Vec<(u64, u32)>>, Code> {
        let is_recent = self.reach.is_some_and(|reach| elapsed < reach / 2);
        if let Some(since) = self.samples.since.filter(|_| is_recent) {
            let fresh = library.utilisation(device, since)?;
            if !fresh.is_empty() {
                self.fresh_at = now;
                return Ok(Some(fresh));
            }
            if now.saturating_sub(self.fresh_at) < QUIET {
                return Ok(None);
            }
        }
        let all = library.utilisation(device, 0)?;
        self.reach = (all.len() > 1).then(|| UtilWindow::new(None, &all).covered);
        Ok(Some(all))
    }

    /// Reads the samples of processes since the last read. If there are none, either no process did anything or the
    /// driver's clock was set back; the whole buffer shows which.
    fn read_process_samples(
        &mut self,
        library: &Library,
        device: Device,
    ) -> Result<Vec<(Pid, u64, u32)>, Code> {
        let newest = |samples: &[(Pid, u64, u32)]| samples.iter().map(|(_, at, _)| *at).max();
        let since = self.process_samples.since;
        let samples = library.process_utilisation(device, since.unwrap_or(0))?;
        // If the GPU has samples, those show a change of the clock.
        if samples.is_empty() && since.is_some() && self.samples.since.is_none() {
            let all = newest(&library.process_utilisation(device, 0)?);
            if all.is_some_and(|newest| Some(newest) < since) {
                self.process_samples.since = all;
            }
        } else {
            self.process_samples.since = since.max(newest(&samples)).max(self.samples.since);
        }
        Ok(samples)
    }

    /// Adds the new ones of these samples to the window. Returns the time that they cover, if there are any.
    fn add_samples(&mut self, samples: &[(u64, u32)]) -> Option<Duration> {
        let (newest, _) = samples.last()?;
        if self.samples.since.is_some_and(|since| *newest < since) {
            self.samples.since = Some(*newest);
            self.process_samples.since = None;
            return None;
        }
        let first_new =
            samples.partition_point(|(at, _)| self.samples.since.is_some_and(|since| *at <= since));
        let window = UtilWindow::new(self.samples.since, &samples[first_new..]);
        self.samples.pending = self.samples.pending.followed_by(&window);
        self.samples.since = Some(*newest);
        Some(window.covered)
    }

    /// Returns what was buffered since the last tick, and begins the next.
    pub(super) fn take_buffered(&mut self) -> Buffered {
        Buffered {
            window: self.samples.take(),
            processes: self.process_samples.take(),
        }
    }

    /// Returns the GPU and its instances without readings. They stay in the sample: capacity does not shrink because it
    /// cannot be read.
    fn without_readings(&self, why: Missing) -> Vec<Gpu> {
        let known = &self.known;
        let mut gpu = Gpu::without_readings(known.uuid.clone(), known.index, why);
        sensors::copy_identity(known, &mut gpu, why);
        if !self.instances.is_empty() {
            let instances = u32::try_from(self.instances.len()).unwrap_or(u32::MAX);
            gpu.place = Place::Parent { instances };
        }
        let mut gpus = vec![gpu];
        gpus.extend(self.instances_without_readings(why));
        gpus
    }

    /// Returns the known instances without readings.
    pub(super) fn instances_without_readings(&self, why: Missing) -> Vec<Gpu> {
        let gpu = |instance: &TrackedInstance| Gpu {
            place: instance.place.clone(),
            ..Gpu::without_readings(instance.uuid.clone(), self.known.index, why)
        };
        self.instances.iter().map(gpu).collect()
    }
}
