//! The environment of the loop: clocks, driver and signals. Production uses [`HostRuntime`], tests a simulation.
//!
//! The runtime of a host has the reader child, the signals of this process and the system clocks. One thread waits for all
//! of them, so a signal ends the loop at once and the watchdog is served, whatever the driver does.

use std::io::{self, IsTerminal as _, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gua_probe::clock;
use gua_probe::clocks::Clocks;
use gua_probe::fault::DriverFault;
use gua_probe::reader::{Answer, Reader, Woken, sleep};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

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
    Read(Answer),
    /// A signal requested the end of the loop.
    Stop,
    /// A signal requested a reload of the settings.
    Reload,
    /// The time given to [`Runtime::wait`] has come.
    Due,
}

/// Reads the driver of this host and receives the signals of this process.
#[derive(Debug)]
pub struct HostRuntime {
    reader: Reader,
    /// Why the last read could not be started.
    refusal: Option<DriverFault>,
    stop: UnixStream,
    reload: UnixStream,
    /// Whether the process was started on a terminal. If the terminal hangs up, SIGHUP means stop, not reload.
    has_terminal: bool,
}

impl HostRuntime {
    /// Installs handlers for SIGINT, SIGTERM and SIGHUP.
    pub fn new(reader: Reader) -> io::Result<Self> {
        Ok(Self {
            reader,
            refusal: None,
            stop: signalled(&[SIGINT, SIGTERM])?,
            reload: signalled(&[SIGHUP])?,
            has_terminal: io::stderr().is_terminal(),
        })
    }

    /// Reads once before the loop starts, to find out whether there is a driver. `None` if a stop was requested first.
    pub fn first_read(&mut self) -> Option<Answer> {
        self.start_read();
        loop {
            match self.wait(Duration::MAX) {
                Wake::Read(result) => return Some(result),
                Wake::Stop => return None,
                Wake::Reload | Wake::Due => {}
            }
        }
    }

    /// Whether a stop signal has arrived. Does not wait and does not consume the signal.
    pub fn stop_requested(&self) -> bool {
        let polled = sleep([self.stop.as_fd()], None, Duration::ZERO);
        polled.is_ok_and(|ready| ready.others[0])
    }

    /// Sleeps until the reader or a signal is ready; neither is when the time has come.
    fn poll(&self, until: Duration) -> rustix::io::Result<Woken<2>> {
        let waiting = self.reader.waiting();
        let hung = waiting.as_ref().map(|waiting| waiting.until);
        let until = hung.map_or(until, |hung| hung.min(until));
        sleep(
            [self.stop.as_fd(), self.reload.as_fd()],
            waiting.as_ref(),
            until,
        )
    }
}

impl Runtime for HostRuntime {
    fn clocks(&self) -> Clocks {
        Clocks::read()
    }

    fn start_read(&mut self) {
        self.refusal = self.reader.begin().err();
    }

    fn wait(&mut self, until: Duration) -> Wake {
        if let Some(fault) = self.refusal.take() {
            return Wake::Read(Err(fault));
        }
        loop {
            let ready = match self.poll(until) {
                Ok(ready) => ready,
                // Retry an interrupted sleep; a failing one must not become a busy loop.
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return Wake::Stop,
            };
            if ready.errors {
                self.reader.read_errors();
            }
            let now = clock::monotonic();
            let hung = self.reader.waiting().map(|waiting| waiting.until);
            // A finished read is delivered even if a signal arrived at the same moment.
            if hung.is_some_and(|hung| ready.answer || hung <= now) {
                return Wake::Read(self.reader.finish());
            }
            let [stop, reload] = ready.others;
            if stop {
                drain(&mut self.stop);
                return Wake::Stop;
            }
            if reload {
                drain(&mut self.reload);
                let is_hung_up = self.has_terminal && !io::stderr().is_terminal();
                return if is_hung_up { Wake::Stop } else { Wake::Reload };
            }
            if until <= now {
                return Wake::Due;
            }
        }
    }
}

/// Returns a stream that becomes readable after one of these signals.
fn signalled(signals: &[i32]) -> io::Result<UnixStream> {
    let (inside, outside) = UnixStream::pair()?;
    outside.set_nonblocking(true)?;
    for signal in signals {
        pipe::register(*signal, inside.try_clone()?)?;
    }
    Ok(outside)
}

fn drain(stream: &mut UnixStream) {
    let mut buffer = [0; 64];
    while matches!(stream.read(&mut buffer), Ok(1..)) {}
}
