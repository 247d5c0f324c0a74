//! The reader child: a child process reads the driver, so that a hanging or crashing driver costs readings but never
//! the program.
//!
//! [`Reader`] is the parent's side: one child, one request at a time, a deadline on every answer. A child that hangs or
//! dies is replaced, with back-off. [`serve_stdio`] is the child's side: the same binary, executed again.

mod child;
mod frame;
mod serve;
mod sleep;

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use gua_model::Sample;

use crate::backoff::FaultBackoff;
use crate::clock;
use crate::fault::DriverFault;
use crate::probe::ProbeOptions;
use child::{ChildReader, has_ended};
pub use frame::{Answer, decode_answer};
pub use serve::serve_stdio;
pub use sleep::{Woken, sleep};

/// Command-line argument that makes the binary run as the reader.
pub const READER_ARGUMENT: &str = "__reader";

/// Options of the child and its deadlines.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// Binary that calls [`serve_stdio`] when it gets `arguments`.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub probe: ProbeOptions,
    /// Maximum time for an answer. The first answer of a child may take three times as long: it opens the driver, which
    /// takes seconds on hosts without persistence mode.
    pub deadline: Duration,
    /// Delay after the first failure; it doubles with each further one.
    pub first_pause: Duration,
    pub longest_pause: Duration,
}

impl ReaderOptions {
    /// Uses the running binary as its own reader.
    pub fn this_program(probe: ProbeOptions, deadline: Duration) -> Self {
        Self {
            // The link and not the path behind it: after an update of the binary on disk it still refers to this
            // program.
            program: PathBuf::from("/proc/self/exe"),
            arguments: vec![READER_ARGUMENT.into()],
            probe,
            deadline,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
        }
    }
}

/// Parent's side of the reader child.
#[derive(Debug)]
pub struct Reader {
    options: ReaderOptions,
    child: Option<ChildReader>,
    /// Killed children that have not ended: signals do not reach a process that is blocked in a driver call.
    stuck: Vec<Child>,
    pause: FaultBackoff,
    request: Option<Request>,
}

/// A request that has no answer yet.
#[derive(Clone, Copy, Debug)]
struct Request {
    until: Duration,
    deadline: Duration,
}

/// Events that the reader waits for.
#[derive(Debug)]
pub struct Waiting<'a> {
    /// Readable when the answer arrives or the child has died.
    pub answers: BorrowedFd<'a>,
    /// Readable when the child writes to standard error: call [`Reader::read_errors`] then.
    pub errors: Option<BorrowedFd<'a>>,
    /// Time on the monotonic clock at which the driver counts as hung.
    pub until: Duration,
}

/// Maximum number of children blocked in the driver. A further one would only be blocked too.
const MAX_STUCK: usize = 3;

impl Reader {
    /// Creates a reader. The child is started with the first sample.
    pub fn new(options: ReaderOptions) -> Self {
        let pause = FaultBackoff::new(options.first_pause, options.longest_pause);
        Self {
            options,
            child: None,
            stuck: Vec::new(),
            pause,
            request: None,
        }
    }

    /// Reads everything once. It always returns within the deadline (three times the deadline until the child has
    /// answered once), plus a short time to end a child that failed.
    pub fn sample(&mut self) -> Result<Sample, DriverFault> {
        self.begin()?;
        self.finish()
    }

    /// As [`Reader::sample`], with a shorter limit: a driver that has not answered within `longest` counts as hung,
    /// even for the first answer.
    pub fn sample_within(&mut self, longest: Duration) -> Result<Sample, DriverFault> {
        let until = clock::monotonic().saturating_add(longest);
        self.begin()?;
        if let Some(request) = &mut self.request {
            request.until = request.until.min(until);
            request.deadline = request.deadline.min(longest);
        }
        self.finish()
    }

    /// Requests a sample without waiting: [`Reader::waiting`] returns the events to poll for, [`Reader::finish`]
    /// returns the answer. A request that has no answer yet is not repeated.
    pub fn begin(&mut self) -> Result<(), DriverFault> {
        self.stuck.retain_mut(|child| !has_ended(child));
        if self.request.is_some() {
            return Ok(());
        }
        let mut child = match self.child.take() {
            Some(child) => child,
            None => self.start()?,
        };
        let deadline = match child.has_answered {
            true => self.options.deadline,
            false => self.options.deadline * 3,
        };
        if let Err(fault) = child.request() {
            self.stuck.extend(child.kill());
            return Err(self.pause.failed(fault));
        }
        self.child = Some(child);
        let until = clock::monotonic().saturating_add(deadline);
        self.request = Some(Request { until, deadline });
        Ok(())
    }

    /// Returns what a caller with its own event loop can poll; `None` while nothing is requested.
    pub fn waiting(&self) -> Option<Waiting<'_>> {
        let (child, request) = (self.child.as_ref()?, self.request.as_ref()?);
        Some(child.waiting(request.until))
    }

    /// Reads the child's standard error, so that a full pipe does not block it.
    pub fn read_errors(&mut self) {
        if let Some(child) = &mut self.child {
            child.read_errors();
        }
    }

    /// Waits for the answer to [`Reader::begin`] until the deadline.
    pub fn finish(&mut self) -> Result<Sample, DriverFault> {
        let (Some(mut child), Some(request)) = (self.child.take(), self.request.take()) else {
            return Err(DriverFault::NoReader {
                detail: "no sample was requested".to_owned(),
            });
        };
        let answer = child.receive(request.until, request.deadline);
        match answer {
            Ok(_) => self.child = Some(child),
            Err(_) => self.stuck.extend(child.kill()),
        }
        self.pause.record(answer)?
    }

    /// Returns the child's pid, if there is a child.
    pub fn child_pid(&self) -> Option<u32> {
        self.child.as_ref().map(|child| child.process.id())
    }

    fn start(&mut self) -> Result<ChildReader, DriverFault> {
        self.pause.check()?;
        let started = match self.stuck.len() {
            0..MAX_STUCK => ChildReader::start(&self.options),
            _ => Err(DriverFault::Hung {
                deadline: self.options.deadline,
            }),
        };
        started.map_err(|fault| self.pause.failed(fault))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            // Idle between two requests, so nothing is interrupted.
            let _ended = child.kill();
        }
    }
}
