//! The environment of the loop: clocks, driver and signals. Production uses [`crate::HostRuntime`], tests a simulation.

use std::time::Duration;

use gua_model::Sample;
use gua_probe::fault::DriverFault;

use crate::clocks::Clocks;

/// Everything outside the process that the loop depends on.
pub trait Runtime {
    fn clocks(&self) -> Clocks;

    /// Starts to read the driver. [`Runtime::wait`] returns the result, once.
    fn start_read(&mut self);

    /// Sleeps until an event, at most until this time on the monotonic clock.
    fn wait(&mut self, until: Duration) -> Wake;
}

/// Why a sleep ended.
#[derive(Debug)]
pub enum Wake {
    /// The read has finished.
    Read(Result<Sample, DriverFault>),
    /// A signal requested the end of the loop.
    Stop,
    /// A signal requested a reload of the settings.
    Reload,
    /// The time given to [`Runtime::wait`] has come.
    Due,
}
