//! Samples GPUs and processors into the three metric files, on separate threads, until it is stopped.
//!
//! Lines are written as they are read. Without a driver, the two files of the GPUs are missing. A hanging driver costs
//! readings but does not delay the end: [`HwMonitor::stop`] waits a moment for a thread that is blocked in the driver,
//! and then abandons it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use gua_model::{Gpu, Sample, VisibleDevices};
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::host::HostRoot;
use gua_probe::host::processor::processor_time;
use gua_probe::keeper::Keeper;
use gua_probe::probe::{Probe, ProbeOptions};
use gua_wire::run::{file, metrics};
use jiff::tz::TimeZone;

use crate::lines::LineFile;

/// Maximum time to wait for a sampler at the end.
const PATIENCE: Duration = Duration::from_secs(3);

/// Options of sampling.
#[derive(Clone, Debug)]
pub struct MonitorOptions {
    /// Time between two samples.
    pub interval: Duration,
    pub source: GpuSource,
    pub gpus: GpuSelection,
    /// Time zone of `hw_metrics.csv`, which has local times like nvidia-smi's output.
    pub zone: TimeZone,
    pub host: HostRoot,
}

impl Default for MonitorOptions {
    /// Samples all GPUs every two seconds and reads the driver in this process.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(2),
            source: GpuSource::InProcess(ProbeOptions::default()),
            gpus: GpuSelection::All,
            zone: TimeZone::system(),
            host: HostRoot::real(),
        }
    }
}

/// How the driver is read.
#[derive(Clone, Debug)]
pub enum GpuSource {
    /// A thread of this process.
    InProcess(ProbeOptions),
    /// A thread of this process that is shared with other callers: one thread owns the driver.
    Kept(Keeper),
}

/// Selection of the GPUs that are sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuSelection {
    All,
    /// GPUs that are visible to a program.
    Visible(VisibleDevices),
}

impl GpuSelection {
    /// Returns the selected GPUs of a sample. A GPU that is divided into MIG instances is left out in favour of its
    /// instances.
    pub fn of<'a>(&self, sample: &'a Sample) -> impl Iterator<Item = &'a Gpu> + use<'a> {
        let visible = match self {
            GpuSelection::All => None,
            GpuSelection::Visible(list) => Some(list.cards(&sample.gpus)),
        };
        sample.gpus.iter().filter(move |gpu| {
            gpu.place.counts()
                && visible
                    .as_ref()
                    .is_none_or(|given| given.contains(&gpu.uuid))
        })
    }
}

/// The samplers of one run.
#[derive(Debug)]
pub struct HwMonitor {
    directory: PathBuf,
    written: Arc<Written>,
    /// Samplers of the GPUs and of the processors, until they are stopped.
    samplers: Option<[Sampler; 2]>,
}

/// Number of lines so far.
#[derive(Debug, Default)]
struct Written {
    gpu: AtomicU64,
    cpu: AtomicU64,
}

/// Result of a stopped monitor. A path is `None` if nothing was sampled.
#[derive(Debug)]
pub struct MonitorFiles {
    pub gpu: Option<PathBuf>,
    pub cpu: Option<PathBuf>,
    pub dmon: Option<PathBuf>,
    /// Fault of the driver's last answer, if any.
    pub fault: Option<DriverFault>,
    /// Why the last lost line could not be written, if any was lost.
    pub write_error: Option<io::Error>,
}

/// A sampling thread and the channel that stops it.
#[derive(Debug)]
struct Sampler {
    stop: Sender<()>,
    ended: Receiver<Ended>,
}

#[derive(Debug, Default)]
struct Ended {
    fault: Option<DriverFault>,
    write_error: Option<io::Error>,
}

impl HwMonitor {
    /// Creates the directory and starts sampling. The first line about a GPU is written at once, the first about the
    /// processors after one interval.
    pub fn start(directory: &Path, options: MonitorOptions) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let written = Arc::new(Written::default());
        let files = (
            LineFile::create(&directory.join(file::GPU))?,
            LineFile::create(&directory.join(file::DMON))?,
        );
        let cpu_path = directory.join(file::CPU);
        // A file of an earlier run would be mistaken for this run's.
        match std::fs::remove_file(&cpu_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let counted = Arc::clone(&written);
        let (host, interval) = (options.host.clone(), options.interval);
        let cpu = Sampler::start("gua-cpu", move |stop| {
            sample_cpu(&cpu_path, &host, interval, &counted.cpu, stop)
        })?;
        let counted = Arc::clone(&written);
        let gpu = Sampler::start("gua-gpu", move |stop| {
            sample_gpu(files, options, &counted.gpu, stop)
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            written,
            samplers: Some([gpu, cpu]),
        })
    }

    /// Stops the samplers and returns the files. It returns within five seconds, whatever the driver does.
    #[must_use]
    pub fn stop(mut self) -> MonitorFiles {
        let [gpu, cpu] = self.end();
        let path = |lines: &AtomicU64, name: &str| {
            (lines.load(Ordering::Acquire) > 0).then(|| self.directory.join(name))
        };
        MonitorFiles {
            gpu: path(&self.written.gpu, file::GPU),
            cpu: path(&self.written.cpu, file::CPU),
            dmon: path(&self.written.gpu, file::DMON),
            fault: gpu.fault,
            write_error: gpu.write_error.or(cpu.write_error),
        }
    }

    fn end(&mut self) -> [Ended; 2] {
        let Some(samplers) = self.samplers.take() else {
            return Default::default();
        };
        for sampler in &samplers {
            // Fails if the thread has ended.
            let _ = sampler.stop.send(());
        }
        let until = clock::monotonic() + PATIENCE;
        samplers.map(|sampler| {
            let left = until.saturating_sub(clock::monotonic());
            sampler.ended.recv_timeout(left).unwrap_or(Ended {
                fault: Some(DriverFault::Hung { deadline: PATIENCE }),
                write_error: None,
            })
        })
    }
}

impl Drop for HwMonitor {
    fn drop(&mut self) {
        self.end();
    }
}

impl Sampler {
    fn start(
        name: &str,
        work: impl FnOnce(&Receiver<()>) -> Ended + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let (done, ended) = mpsc::channel();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // The receiver is gone if the monitor has abandoned this thread.
                let _ = done.send(work(&stopped));
            })?;
        Ok(Self { stop, ended })
    }
}

/// Times at a fixed distance. A missed one is skipped: there are no bursts.
struct Pace {
    next: Duration,
    interval: Duration,
}

impl Pace {
    fn new(interval: Duration) -> Self {
        Self {
            next: clock::monotonic() + interval,
            interval,
        }
    }

    /// Waits for the next time; `false` if a stop was requested.
    fn wait(&mut self, stop: &Receiver<()>) -> bool {
        let now = clock::monotonic();
        if self.next < now {
            self.next = now;
        }
        let received = stop.recv_timeout(self.next - now);
        self.next += self.interval;
        received == Err(RecvTimeoutError::Timeout)
    }
}

fn sample_cpu(
    path: &Path,
    host: &HostRoot,
    interval: Duration,
    lines: &AtomicU64,
    stop: &Receiver<()>,
) -> Ended {
    let mut ended = Ended::default();
    let mut file: Option<LineFile> = None;
    let mut earlier = processor_time(host);
    let mut pace = Pace::new(interval);
    while pace.wait(stop) {
        let now = processor_time(host);
        let Some(shares) = now
            .ok()
            .zip(earlier.ok())
            .and_then(|(now, earlier)| now.since(&earlier))
        else {
            earlier = now.or(earlier);
            continue;
        };
        earlier = now;
        // The file is created with its first line.
        if file.is_none() {
            match LineFile::create(path) {
                Ok(mut made) => {
                    made.write(metrics::CPU_HEADER);
                    file = Some(made);
                }
                Err(error) => ended.write_error = Some(error),
            }
        }
        let line = metrics::cpu_line(clock::now(), shares.usr_pct, shares.idle_pct);
        if file.as_mut().is_some_and(|file| file.write(&line)) {
            lines.fetch_add(1, Ordering::Release);
        }
    }
    ended.write_error = ended
        .write_error
        .or(file.as_ref().and_then(LineFile::copied_error));
    ended
}

fn sample_gpu(
    (mut gpu_file, mut dmon_file): (LineFile, LineFile),
    options: MonitorOptions,
    lines: &AtomicU64,
    stop: &Receiver<()>,
) -> Ended {
    let mut sample: Box<dyn FnMut() -> Result<Sample, DriverFault>> = match options.source {
        GpuSource::InProcess(options) => {
            let mut probe = Probe::new(options);
            Box::new(move || probe.sample())
        }
        GpuSource::Kept(keeper) => Box::new(move || keeper.sample()),
    };
    let mut fault = None;
    let mut pace = Pace::new(options.interval);
    let mut has_head = false;
    loop {
        let answer = sample();
        if let Ok(sample) = &answer {
            let at = sample.at.to_zoned(options.zone.clone());
            for gpu in options.gpus.of(sample) {
                if !has_head {
                    has_head = dmon_file.write(metrics::DMON_HEADER);
                }
                dmon_file.write(&metrics::dmon_line(gpu));
                if gpu_file.write(&metrics::gpu_line(&at, gpu)) {
                    lines.fetch_add(1, Ordering::Release);
                }
            }
        }
        fault = answer.err().map(|new| match (new, fault) {
            // Keeps the first fault instead of the back-off that follows it.
            (DriverFault::BackingOff { .. }, Some(first)) => first,
            (new, _) => new,
        });
        if !pace.wait(stop) {
            break;
        }
    }
    Ended {
        fault,
        write_error: gpu_file.copied_error().or_else(|| dmon_file.copied_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_that_was_missed_is_left_out() {
        let (stop, stopped) = mpsc::channel();
        let mut pace = Pace {
            next: Duration::ZERO,
            interval: Duration::from_secs(3600),
        };
        assert!(pace.wait(&stopped));
        assert!(pace.next > clock::monotonic() + Duration::from_secs(3500));
        stop.send(()).unwrap();
        assert!(!pace.wait(&stopped));
    }
}
