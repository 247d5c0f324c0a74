//! How every command reaches the driver: the reader child, with the settings in force.

use std::io::IsTerminal as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use gua_model::Sample;
use gua_probe::fault::DriverFault;
use gua_probe::probe::ProbeOptions;
use gua_probe::reader::{Reader, ReaderOptions};

use crate::config::{Settings, Source};
use crate::output;

/// How long the driver may take before a waiting person is told.
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
        ..ProbeOptions::default()
    };
    ReaderOptions::this_program(probe, driver.deadline.value)
}

/// One sample. A person at the terminal is told when it takes its time.
pub fn sample(reader: &mut Reader, settings: &Settings) -> Result<Sample, DriverFault> {
    // The first answer may take three times the deadline, because it opens the driver.
    let longest = settings.driver.deadline.value * 3;
    telling_who_waits(longest, || reader.sample())
}

/// Does something slow, and says so to a person at the terminal when it takes its time.
fn telling_who_waits<T>(longest: Duration, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let (done, wait) = mpsc::channel::<()>();
    thread::spawn(move || {
        if wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            output::talk(&format!(
                "waiting for the NVIDIA driver (up to {} s; Ctrl-C stops)\n",
                longest.as_secs().max(1)
            ));
        }
    });
    let result = work();
    drop(done);
    result
}
