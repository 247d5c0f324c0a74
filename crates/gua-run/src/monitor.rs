//! Samples GPUs and processors into the three metric files, on separate threads, until it is stopped.
//!
//! Lines are written as they are read. Without a driver, the two files of the GPUs are missing. If the driver hangs,
//! readings are lost, but the end is not delayed: [`HwMonitor::stop`] waits briefly for a thread that is blocked in the
//! driver, and then abandons it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use gua_model::VisibleDevices;
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::host::HostRoot;
use gua_probe::host::processor::processor_time;
use gua_probe::keeper::Keeper;
use gua_wire::run::kind::RunFile;
use gua_wire::run::metrics;
use jiff::tz::TimeZone;

use crate::lines::LineFile;
use crate::record::GpuFiles;

/// Maximum time to wait for a sampler at the end.
const END_TIMEOUT: Duration = Duration::from_secs(3);

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
    /// processors after one interval. `visible` selects GPUs as `CUDA_VISIBLE_DEVICES` does; `None` means all.
    pub fn start(
        directory: &Path,
        interval: Duration,
        driver: Keeper,
        visible: Option<VisibleDevices>,
    ) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let files = GpuFiles::open(directory, LineFile::create)?;
        let cpu_path = directory.join(RunFile::Cpu.as_str());
        // A file of an earlier run would be mistaken for this run's.
        match std::fs::remove_file(&cpu_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let cpu = Sampler::start("gua-cpu", interval, sample_processors(cpu_path))?;
        let gpu = Sampler::start("gua-gpu", interval, sample_gpus(driver, visible, files))?;
        Ok(Self {
            directory: directory.to_owned(),
            samplers: Some([gpu, cpu]),
        })
    }

    /// Stops the samplers and returns the files. It returns within five seconds, whatever the driver does.
    #[must_use]
    pub fn stop(mut self) -> MonitorFiles {
        let [gpu, cpu] = self.end();
        let path =
            |of: &Sampled, file: RunFile| of.has_lines.then(|| self.directory.join(file.as_str()));
        MonitorFiles {
            gpu: path(&gpu, RunFile::Gpu),
            cpu: path(&cpu, RunFile::Cpu),
            dmon: path(&gpu, RunFile::Dmon),
            fault: gpu.fault,
            write_error: gpu.write_error.or(cpu.write_error),
        }
    }

    fn end(&mut self) -> [Sampled; 2] {
        let Some(samplers) = self.samplers.take() else {
            return Default::default();
        };
        let until = clock::monotonic() + END_TIMEOUT;
        // Stop both threads before waiting for either.
        let stopped = samplers.map(|Sampler { stop, ended, total }| {
            drop(stop);
            (ended, total)
        });
        stopped.map(|(ended, total)| {
            let left = until.saturating_sub(clock::monotonic());
            // A thread that panicked sends nothing either.
            let is_hung = ended.recv_timeout(left).is_err();
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            if is_hung {
                total.fault = Some(DriverFault::Hung {
                    deadline: END_TIMEOUT,
                });
            }
            std::mem::take(&mut *total)
        })
    }
}

impl Drop for HwMonitor {
    fn drop(&mut self) {
        self.end();
    }
}

/// Result of one sample, or of all samples of a thread.
#[derive(Debug, Default)]
struct Sampled {
    has_lines: bool,
    fault: Option<DriverFault>,
    write_error: Option<io::Error>,
}

/// A sampling thread. It stops when `stop` is dropped, and sends to `ended` when it has stopped.
#[derive(Debug)]
struct Sampler {
    stop: Sender<()>,
    ended: Receiver<()>,
    total: Arc<Mutex<Sampled>>,
}

impl Sampler {
    /// Samples at once and then at a fixed distance.
    fn start(
        name: &str,
        interval: Duration,
        mut sample: impl FnMut() -> Sampled + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let (done, ended) = mpsc::channel::<()>();
        let total = Arc::<Mutex<Sampled>>::default();
        let shared = Arc::clone(&total);
        let work = move || {
            let mut next = clock::monotonic();
            loop {
                let new = sample();
                {
                    let mut total = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    total.has_lines |= new.has_lines;
                    total.fault = new.fault;
                    total.write_error = new.write_error.or(total.write_error.take());
                }
                let now = clock::monotonic();
                next = time_after(next, interval, now);
                if stopped.recv_timeout(next - now) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            // The receiver is gone if the monitor has abandoned this thread.
            let _ = done.send(());
        };
        thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { stop, ended, total })
    }
}

/// Time of the next sample. Times that were missed are skipped: there are no bursts.
fn time_after(last: Duration, interval: Duration, now: Duration) -> Duration {
    (last + interval).max(now)
}

/// Samples the processors. The file is created with its first line.
fn sample_processors(path: PathBuf) -> impl FnMut() -> Sampled {
    let host = HostRoot::real();
    let (mut file, mut earlier) = (None, None);
    let create = move || -> io::Result<LineFile> {
        let mut file = LineFile::create(&path)?;
        file.write(metrics::CPU_HEADER);
        Ok(file)
    };
    let mut sample = move || -> io::Result<Sampled> {
        let now = processor_time(&host).ok();
        let shares = now.zip(earlier).and_then(|(now, then)| now.since(&then));
        earlier = now.or(earlier);
        let Some(shares) = shares else {
            return Ok(Sampled::default());
        };
        let line = metrics::cpu_line(clock::now(), shares.usr_pct, shares.idle_pct);
        let file = match &mut file {
            Some(file) => file,
            none => none.insert(create()?),
        };
        Ok(Sampled {
            has_lines: file.write(&line),
            fault: None,
            write_error: file.take_error(),
        })
    };
    move || {
        sample().unwrap_or_else(|error| Sampled {
            write_error: Some(error),
            ..Sampled::default()
        })
    }
}

/// Samples the selected GPUs. A GPU that is divided into MIG instances is left out in favour of its instances.
fn sample_gpus(
    driver: Keeper,
    visible: Option<VisibleDevices>,
    mut files: GpuFiles,
) -> impl FnMut() -> Sampled {
    // `hw_metrics.csv` has local times, like nvidia-smi's output.
    let zone = TimeZone::system();
    move || {
        let answer = driver.sample();
        let mut has_lines = false;
        if let Ok(sample) = &answer {
            let at = sample.at.to_zoned(zone.clone());
            let visible = visible.as_ref().map(|list| list.gpus(&sample.gpus));
            for gpu in sample.gpus.iter().filter(|gpu| gpu.place.counts()) {
                if visible
                    .as_ref()
                    .is_none_or(|given| given.contains(&gpu.uuid))
                {
                    let lines = (metrics::gpu_line(&at, gpu), metrics::dmon_line(gpu));
                    has_lines |= files.write(&lines.0, &lines.1);
                }
            }
        }
        Sampled {
            has_lines,
            fault: answer.err().map(|fault| match fault {
                DriverFault::BackingOff { last, .. } => *last,
                fault => fault,
            }),
            write_error: files.take_error(),
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
