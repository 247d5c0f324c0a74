//! How every command reaches the driver: the reader child, with the settings in force.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use gua_model::Sample;
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::probe::ProbeOptions;
use gua_probe::reader::{Awaited, Reader, ReaderOptions};

use crate::config::{Settings, Source};
use crate::output;

/// How long the driver may take before whoever waits is told.
const PATIENCE: Duration = Duration::from_secs(2);

/// A reader that starts its child with the first question.
#[must_use]
pub fn reader(settings: &Settings) -> Reader {
    Reader::new(options(settings))
}

/// How the child is started and waited for.
#[must_use]
pub fn options(settings: &Settings) -> ReaderOptions {
    let driver = &settings.driver;
    // Without a wish the probe knows the name itself, and says so when it is not found.
    let library = (driver.library.source != Source::Default).then(|| driver.library.value.clone());
    let probe = ProbeOptions {
        library,
        driver_pids: driver.pids.value,
        ..ProbeOptions::default()
    };
    ReaderOptions::this_program(probe, driver.deadline.value)
}

/// One sample. Who waits is told when it takes its time.
pub fn sample(reader: &mut Reader) -> Result<Sample, DriverFault> {
    reader.begin()?;
    let longest = match reader.waiting().map(|waiting| waiting.what) {
        Some(Awaited::Answer { until }) => until.saturating_sub(clock::monotonic()),
        _ => Duration::ZERO,
    };
    telling_who_waits(longest, || reader.finish())
}

/// Does something slow, and says so when it takes its time: what is silent for long looks dead, to people and in logs.
fn telling_who_waits<T>(longest: Duration, work: impl FnOnce() -> T) -> T {
    let (done, wait) = mpsc::channel::<()>();
    // Without a thread for it nothing is said; the answer is what counts.
    let _ = thread::Builder::new().spawn(move || {
        if wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            output::talk(&format!(
                "the driver has not answered for {} s; waiting up to {:.0} s\n",
                PATIENCE.as_secs(),
                longest.as_secs_f64()
            ));
        }
    });
    let result = work();
    drop(done);
    result
}
