//! Access of all commands to the driver: through the reader child process, with the effective settings.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use gua_model::Sample;
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::probe::ProbeOptions;
use gua_probe::reader::{Reader, ReaderOptions};

use crate::config::{Settings, Source};
use crate::output;

/// Delay after which a message says that the driver is slow.
const PATIENCE: Duration = Duration::from_secs(2);

/// Creates a reader, which starts its child process at the first request.
#[must_use]
pub fn reader(settings: &Settings) -> Reader {
    Reader::new(options(settings))
}

/// Options for starting the child process and its timeouts.
#[must_use]
pub fn options(settings: &Settings) -> ReaderOptions {
    let driver = &settings.driver;
    // By default, the probe chooses the library name itself and reports it if the library is not found.
    let library = (driver.library.source != Source::Default).then(|| driver.library.value.clone());
    let probe = ProbeOptions {
        library,
        driver_pids: driver.pids.value,
        ..ProbeOptions::default()
    };
    ReaderOptions::this_program(probe, driver.deadline.value)
}

/// Takes one sample, with a message on stderr if the driver is slow.
pub fn sample(reader: &mut Reader) -> Result<Sample, DriverFault> {
    reader.begin()?;
    let until = reader.waiting().map(|waiting| waiting.until);
    let longest = until.unwrap_or_default().saturating_sub(clock::monotonic());
    telling_who_waits(longest, || reader.finish())
}

/// Runs `work`, and prints a message if it is slow: a long silence looks like a hang to users and in logs.
fn telling_who_waits<T>(longest: Duration, work: impl FnOnce() -> T) -> T {
    let (done, wait) = mpsc::channel::<()>();
    // If the thread cannot be started, only the message is missing.
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
