//! Samples GPUs and processors into the three metric files, on separate threads, until it is stopped.
//!
//! Lines are written as they are read. Without a driver, the two files of the GPUs are missing. A hanging driver costs
//! readings but does not delay the end: [`HwMonitor::stop`] waits a moment for a thread that is blocked in the driver,
//! and then abandons it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use gua_model::{Gpu, Sample, VisibleDevices};
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::host::HostRoot;
use gua_probe::host::processor::{ProcessorTime, processor_time};
use gua_probe::keeper::Keeper;
use gua_probe::probe::{Probe, ProbeOptions};
use gua_wire::run::{file, metrics};
use jiff::tz::TimeZone;

use crate::lines::LineFile;
use crate::record::GpuFiles;

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
    /// Samplers of the GPUs and of the processors, until they are stopped.
    samplers: Option<[Sampler; 2]>,
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

impl HwMonitor {
    /// Creates the directory and starts sampling. The first line about a GPU is written at once, the first about the
    /// processors after one interval.
    pub fn start(directory: &Path, options: MonitorOptions) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let files = GpuFiles::open(directory, LineFile::create)?;
        let cpu_path = directory.join(file::CPU);
        // A file of an earlier run would be mistaken for this run's.
        match std::fs::remove_file(&cpu_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (interval, host) = (options.interval, options.host.clone());
        let cpu = Sampler::start("gua-cpu", interval, move || Processors {
            path: cpu_path,
            host,
            file: None,
            earlier: None,
            create_error: None,
        })?;
        let gpu = Sampler::start("gua-gpu", interval, move || Gpus {
            files,
            source: match options.source {
                GpuSource::InProcess(options) => {
                    let mut probe = Probe::new(options);
                    Box::new(move || probe.sample())
                }
                GpuSource::Kept(keeper) => Box::new(move || keeper.sample()),
            },
            gpus: options.gpus,
            zone: options.zone,
            fault: None,
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            samplers: Some([gpu, cpu]),
        })
    }

    /// Stops the samplers and returns the files. It returns within five seconds, whatever the driver does.
    #[must_use]
    pub fn stop(mut self) -> MonitorFiles {
        let [gpu, cpu] = self.end();
        let path = |ended: &Ended, name: &str| {
            let is_written = ended.has_lines;
            is_written.then(|| self.directory.join(name))
        };
        MonitorFiles {
            gpu: path(&gpu, file::GPU),
            cpu: path(&cpu, file::CPU),
            dmon: path(&gpu, file::DMON),
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
            let ended = sampler.ended.recv_timeout(left).unwrap_or(Ended {
                fault: Some(DriverFault::Hung { deadline: PATIENCE }),
                ..Ended::default()
            });
            Ended {
                has_lines: sampler.has_lines.load(Ordering::Acquire),
                ..ended
            }
        })
    }
}

impl Drop for HwMonitor {
    fn drop(&mut self) {
        self.end();
    }
}

/// A sampling thread and the channel that stops it.
#[derive(Debug)]
struct Sampler {
    stop: Sender<()>,
    ended: Receiver<Ended>,
    has_lines: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Ended {
    has_lines: bool,
    fault: Option<DriverFault>,
    write_error: Option<io::Error>,
}

/// What a thread samples.
trait Sampled {
    /// Takes one sample; returns whether it added a line to a file.
    fn sample(&mut self) -> bool;

    fn end(self) -> Ended;
}

impl Sampler {
    /// Samples at once and then at a fixed distance.
    fn start<S: Sampled>(
        name: &str,
        interval: Duration,
        begin: impl FnOnce() -> S + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let (done, ended) = mpsc::channel();
        let has_lines = Arc::<AtomicBool>::default();
        let flag = Arc::clone(&has_lines);
        let work = move || {
            let mut sampled = begin();
            let mut next = clock::monotonic();
            loop {
                if sampled.sample() {
                    flag.store(true, Ordering::Release);
                }
                let now = clock::monotonic();
                next = time_after(next, interval, now);
                if stopped.recv_timeout(next - now) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            // The receiver is gone if the monitor has abandoned this thread.
            let _ = done.send(sampled.end());
        };
        thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self {
            stop,
            ended,
            has_lines,
        })
    }
}

/// Time of the next sample. Times that were missed are skipped: there are no bursts.
fn time_after(last: Duration, interval: Duration, now: Duration) -> Duration {
    (last + interval).max(now)
}

struct Processors {
    path: PathBuf,
    host: HostRoot,
    /// Created with its first line.
    file: Option<LineFile>,
    earlier: Option<ProcessorTime>,
    create_error: Option<io::Error>,
}

impl Sampled for Processors {
    fn sample(&mut self) -> bool {
        let now = processor_time(&self.host).ok();
        let earlier = self.earlier;
        self.earlier = now.or(earlier);
        let Some(shares) = now.zip(earlier).and_then(|(now, then)| now.since(&then)) else {
            return false;
        };
        if self.file.is_none() {
            match LineFile::create(&self.path) {
                Ok(mut file) => {
                    file.write(metrics::CPU_HEADER);
                    self.file = Some(file);
                }
                Err(error) => self.create_error = Some(error),
            }
        }
        let line = metrics::cpu_line(clock::now(), shares.usr_pct, shares.idle_pct);
        self.file.as_mut().is_some_and(|file| file.write(&line))
    }

    fn end(self) -> Ended {
        let of_file = self.file.as_ref().and_then(LineFile::copied_error);
        Ended {
            write_error: self.create_error.or(of_file),
            ..Ended::default()
        }
    }
}

struct Gpus {
    files: GpuFiles,
    source: Box<dyn FnMut() -> Result<Sample, DriverFault>>,
    gpus: GpuSelection,
    zone: TimeZone,
    fault: Option<DriverFault>,
}

impl Sampled for Gpus {
    fn sample(&mut self) -> bool {
        let answer = (self.source)();
        let mut is_written = false;
        if let Ok(sample) = &answer {
            let at = sample.at.to_zoned(self.zone.clone());
            for gpu in self.gpus.of(sample) {
                let lines = (metrics::gpu_line(&at, gpu), metrics::dmon_line(gpu));
                is_written |= self.files.write(&lines.0, &lines.1);
            }
        }
        self.fault = answer.err().map(|new| match (new, self.fault.take()) {
            // Keeps the first fault instead of the back-off that follows it.
            (DriverFault::BackingOff { .. }, Some(first)) => first,
            (new, _) => new,
        });
        is_written
    }

    fn end(self) -> Ended {
        Ended {
            fault: self.fault,
            write_error: self.files.copied_error(),
            ..Ended::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_that_was_missed_is_left_out() {
        let second = Duration::from_secs(1);
        let next = |now: u32| time_after(10 * second, 3 * second, now * second);
        assert_eq!(next(11), 13 * second);
        assert_eq!(next(13), 13 * second);
        assert_eq!(next(60), 60 * second);
    }
}
