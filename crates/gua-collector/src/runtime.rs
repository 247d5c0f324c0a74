//! What the loop has in front of it: the time, the driver, the signals. The real one is [`crate::HostRuntime`]; tests play one.

use std::time::Duration;

use gua_model::Sample;
use gua_probe::fault::DriverFault;

use crate::clocks::Clocks;

/// Everything outside that the loop depends on.
pub trait Runtime {
    fn clocks(&self) -> Clocks;

    /// Is told when the driver will be asked next, if nothing happens before, and how often from there. A runtime can
    /// prepare for that; nothing depends on it.
    fn expect(&mut self, _at: Duration, _interval: Duration) {}

    /// Begins to read the driver. The answer comes from [`Runtime::wait`], once.
    fn ask(&mut self);

    /// Sleeps until something happens, at the latest until this time on the monotonic clock.
    fn wait(&mut self, until: Duration) -> Wake;
}

/// Why a sleep ended.
#[derive(Debug)]
pub enum Wake {
    Answer(Result<Sample, DriverFault>),
    /// Somebody wants the loop to end.
    Stop,
    /// Somebody wants the settings to be read again.
    Reload,
    /// The time has come.
    Due,
}
