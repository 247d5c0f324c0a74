//! The real runtime of the loop: the reader child, the signals of this process, the clocks. One thread waits for all of
//! them, so a signal ends the loop at once and systemd hears that it is alive, whatever the driver does.

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

type Answer = Result<Sample, DriverFault>;

/// The host that the loop runs on.
#[derive(Debug)]
pub struct HostRuntime {
    reader: Reader,
    /// Why the last question could not even be asked.
    refusal: Option<DriverFault>,
    /// An answer is there before its question.
    is_ahead: bool,
    /// The answer to what was asked last was there already, so nothing need be waited for.
    is_here: bool,
    stop: UnixStream,
    reload: UnixStream,
    /// Whether it was started at a terminal. Once that is hung up, nobody wants it any more.
    has_terminal: bool,
}

/// An answer that comes by itself at the time of the next question is waited for this long, and a quarter of an interval
/// at the most. Longer, and the question is asked: then its deadline counts.
const PATIENCE: Duration = Duration::from_millis(50);

impl HostRuntime {
    /// Takes over SIGINT, SIGTERM and SIGHUP.
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

    /// One answer before the loop begins: whether there is a driver at all. `None` if a signal came first.
    pub fn first_answer(&mut self) -> Option<Answer> {
        self.ask();
        loop {
            match self.wait(Duration::MAX) {
                Wake::Answer(answer) => return Some(answer),
                Wake::Stop => return None,
                Wake::Reload | Wake::Due => {}
            }
        }
    }

    /// Whether a signal has come that ends the loop, without waiting for one. It is then still there.
    #[must_use]
    pub fn stop_requested(&self) -> bool {
        let looked = sleep([self.stop.as_fd()], None, Duration::ZERO);
        looked.is_ok_and(|heard| heard.others[0])
    }

    /// Sleeps until something can be heard. Nothing at all is heard when the time has come.
    fn hear(&self, until: Duration) -> rustix::io::Result<Woken<2>> {
        let mut waiting = self.reader.waiting();
        let until = match waiting.as_ref().map(|waiting| waiting.what) {
            Some(Awaited::Answer { until: hung }) => hung.min(until),
            // What is there already would wake us again and again.
            Some(Awaited::Order { .. }) if self.is_ahead => {
                waiting = None;
                until
            }
            Some(Awaited::Order { at, interval }) => patient(until, at, interval),
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

/// Until when to sleep if an answer is to come by itself at `at`: one that is due when we would wake is waited for.
fn patient(until: Duration, at: Duration, interval: Duration) -> Duration {
    if until >= at {
        until.max(at.saturating_add(PATIENCE.min(interval / 4)))
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

    fn ask(&mut self) {
        let is_ahead = std::mem::take(&mut self.is_ahead);
        self.refusal = self.reader.begin().err();
        self.is_here = is_ahead && self.refusal.is_none() && self.reader.asked_by_order();
    }

    fn wait(&mut self, until: Duration) -> Wake {
        if let Some(fault) = self.refusal.take() {
            return Wake::Answer(Err(fault));
        }
        if std::mem::take(&mut self.is_here) {
            return Wake::Answer(self.reader.finish());
        }
        loop {
            let heard = match self.hear(until) {
                Ok(heard) => heard,
                // An interrupted sleep is begun again; a failing one must not become a busy loop.
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return Wake::Stop,
            };
            if heard.words {
                self.reader.hear();
            }
            let now = clock::monotonic();
            let due = match self.awaited() {
                // The tick that was read is not thrown away for a signal of the same moment.
                Some(Awaited::Answer { until: hung }) if heard.answer || hung <= now => {
                    return Wake::Answer(self.reader.finish());
                }
                Some(Awaited::Order { at, interval }) => {
                    self.is_ahead |= heard.answer;
                    if self.is_ahead {
                        until
                    } else {
                        patient(until, at, interval)
                    }
                }
                _ => until,
            };
            let [stop, reload] = heard.others;
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

/// A stream that has something to read after one of these signals.
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
