//! The runtime of a real host: the reader child, the signals of this process and the system clocks. One thread waits for
//! all of them, so a signal ends the loop at once and the watchdog is served, whatever the driver does.

use std::io::{self, IsTerminal as _, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gua_model::Sample;
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::reader::{Awaited, Reader, Woken, sleep};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::clocks::Clocks;
use crate::runtime::{Runtime, Wake};

type ReadResult = Result<Sample, DriverFault>;

/// Reads the driver of this host and receives the signals of this process.
#[derive(Debug)]
pub struct HostRuntime {
    reader: Reader,
    /// Why the last read could not be started.
    refusal: Option<DriverFault>,
    /// A result has arrived before its read was started.
    is_ahead: bool,
    /// The result of the current read had already arrived, so there is nothing to wait for.
    is_here: bool,
    stop: UnixStream,
    reload: UnixStream,
    /// Whether the process was started on a terminal. When that hangs up, SIGHUP means stop, not reload.
    has_terminal: bool,
}

/// Maximum wait for a result that the reader produces on its own at the time of the next read; a quarter of the interval
/// for short intervals. After that the read is started explicitly, with its deadline.
const GRACE: Duration = Duration::from_millis(50);

impl HostRuntime {
    /// Installs handlers for SIGINT, SIGTERM and SIGHUP.
    pub fn new(reader: Reader) -> io::Result<Self> {
        Ok(Self {
            reader,
            refusal: None,
            is_ahead: false,
            is_here: false,
            stop: signalled(&[SIGINT, SIGTERM])?,
            reload: signalled(&[SIGHUP])?,
            has_terminal: io::stderr().is_terminal(),
        })
    }

    /// Reads once before the loop starts, to find out whether there is a driver. `None` if a stop was requested first.
    pub fn first_read(&mut self) -> Option<ReadResult> {
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
    #[must_use]
    pub fn stop_requested(&self) -> bool {
        let polled = sleep([self.stop.as_fd()], None, Duration::ZERO);
        polled.is_ok_and(|ready| ready.others[0])
    }

    /// Sleeps until the reader or a signal is ready; neither is when the time has come.
    fn poll(&self, until: Duration) -> rustix::io::Result<Woken<2>> {
        let mut waiting = self.reader.waiting();
        let until = match waiting.as_ref().map(|waiting| waiting.what) {
            Some(Awaited::Answer { until: hung }) => hung.min(until),
            // A result that has already arrived would end every sleep at once.
            Some(Awaited::Order { .. }) if self.is_ahead => {
                waiting = None;
                until
            }
            Some(Awaited::Order { at, interval }) => extended(until, at, interval),
            None => until,
        };
        sleep(
            [self.stop.as_fd(), self.reload.as_fd()],
            waiting.as_ref(),
            until,
        )
    }

    fn awaited(&self) -> Option<Awaited> {
        self.reader.waiting().map(|waiting| waiting.what)
    }
}

/// End of a sleep if the reader produces a result on its own at `at`: the sleep is extended when both are due together.
fn extended(until: Duration, at: Duration, interval: Duration) -> Duration {
    if until >= at {
        until.max(at.saturating_add(GRACE.min(interval / 4)))
    } else {
        until
    }
}

impl Runtime for HostRuntime {
    fn clocks(&self) -> Clocks {
        Clocks::read()
    }

    fn expect(&mut self, at: Duration, interval: Duration) {
        self.reader.expect(at, interval);
    }

    fn start_read(&mut self) {
        let is_ahead = std::mem::take(&mut self.is_ahead);
        self.refusal = self.reader.begin().err();
        self.is_here = is_ahead && self.refusal.is_none() && self.reader.asked_by_order();
    }

    fn wait(&mut self, until: Duration) -> Wake {
        if let Some(fault) = self.refusal.take() {
            return Wake::Read(Err(fault));
        }
        if std::mem::take(&mut self.is_here) {
            return Wake::Read(self.reader.finish());
        }
        loop {
            let ready = match self.poll(until) {
                Ok(ready) => ready,
                // Retry an interrupted sleep; a failing one must not become a busy loop.
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return Wake::Stop,
            };
            if ready.words {
                self.reader.hear();
            }
            let now = clock::monotonic();
            let due = match self.awaited() {
                // A finished read is delivered even if a signal arrived at the same moment.
                Some(Awaited::Answer { until: hung }) if ready.answer || hung <= now => {
                    return Wake::Read(self.reader.finish());
                }
                Some(Awaited::Order { at, interval }) => {
                    self.is_ahead |= ready.answer;
                    if self.is_ahead {
                        until
                    } else {
                        extended(until, at, interval)
                    }
                }
                _ => until,
            };
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
            if due <= now {
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
