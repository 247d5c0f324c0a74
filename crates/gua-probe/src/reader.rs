//! The reader child: a child process reads the driver, so that a hanging or crashing driver costs readings but never
//! the program.
//!
//! [`Reader`] is the parent's side: one child, one request at a time, a deadline on every answer. A child that hangs or
//! dies is replaced, with back-off. A caller with a fixed schedule can announce it ([`Reader::expect`]): the child then
//! reads on time by itself, and the parent wakes up once a tick instead of twice. [`serve_stdio`] is the child's side:
//! the same binary, executed again.

mod child;
mod frame;
mod serve;
mod sleep;

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use gua_model::Sample;

use crate::backoff::Backoff;
use crate::clock;
use crate::fault::DriverFault;
use crate::probe::ProbeOptions;
use child::{ChildReader, Stuck};
pub use frame::{Answer, decode_answer};
use frame::{Request, RequestId};
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
    #[must_use]
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
    stuck: Vec<Stuck>,
    pause: Backoff,
    last_fault: Option<DriverFault>,
    asked: Option<Asked>,
    /// Schedule that the child follows without requests.
    order: Option<Order>,
    last_id: RequestId,
}

/// A request that has no answer yet.
#[derive(Clone, Copy, Debug)]
struct Asked {
    id: RequestId,
    until: Duration,
    deadline: Duration,
}

/// A schedule that the child follows. Every answer before the one at `next` was taken before `next`.
#[derive(Clone, Copy, Debug)]
struct Order {
    id: RequestId,
    next: Duration,
    interval: Duration,
}

/// Events that the reader waits for.
#[derive(Debug)]
pub struct Waiting<'a> {
    /// Readable when the answer arrives or the child has died.
    pub answers: BorrowedFd<'a>,
    /// Readable when the child writes to standard error: call [`Reader::hear`] then.
    pub errors: Option<BorrowedFd<'a>>,
    pub what: Awaited,
}

/// Kind of the awaited answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Requested. At this time on the monotonic clock the driver counts as hung.
    Answer { until: Duration },
    /// Scheduled. The child reads at this time by itself; a request at that time finds the answer in transit.
    Order { at: Duration, interval: Duration },
}

/// Maximum number of children blocked in the driver. A further one would only be blocked too.
const MOST_STUCK: usize = 3;

/// Maximum age of an answer that was read before it was requested. After that the driver is read again.
const FRESH: Duration = Duration::from_millis(500);

impl Reader {
    /// Creates a reader. The child is started with the first sample.
    #[must_use]
    pub fn new(options: ReaderOptions) -> Self {
        let pause = Backoff::new(options.first_pause, options.longest_pause);
        Self {
            options,
            child: None,
            stuck: Vec::new(),
            pause,
            last_fault: None,
            asked: None,
            order: None,
            last_id: 0,
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
        if let Some(asked) = &mut self.asked {
            asked.until = asked.until.min(until);
            asked.deadline = asked.deadline.min(longest);
        }
        self.finish()
    }

    /// Requests a sample without waiting: [`Reader::waiting`] returns the events to poll for, [`Reader::finish`]
    /// returns the answer.
    pub fn begin(&mut self) -> Result<(), DriverFault> {
        self.stuck.retain_mut(|child| !child.has_ended());
        if let Some(asked) = self.answer_on_its_way() {
            self.asked = Some(asked);
            return Ok(());
        }
        self.order = None;
        let mut child = match self.child.take() {
            Some(child) => child,
            None => self.start()?,
        };
        let deadline = if child.has_answered() {
            self.options.deadline
        } else {
            self.options.deadline * 3
        };
        let id = self.new_id();
        match child.ask(&Request::Sample { id }) {
            Ok(()) => {
                self.child = Some(child);
                let until = clock::monotonic().saturating_add(deadline);
                self.asked = Some(Asked {
                    id,
                    until,
                    deadline,
                });
                Ok(())
            }
            Err(fault) => {
                self.stuck.extend(child.kill());
                Err(self.failed(fault))
            }
        }
    }

    /// Announces that the next request comes at `at` on the monotonic clock, and further ones every `interval` from
    /// there. Requests at other times are answered as before.
    pub fn expect(&mut self, at: Duration, interval: Duration) {
        let is_known = |order: &Order| order.next == at && order.interval == interval;
        if self.asked.is_some() || self.order.as_ref().is_some_and(is_known) {
            return;
        }
        self.order = None;
        let id = self.new_id();
        // The first answer of a child has its own deadline, so it is requested.
        let Some(child) = self.child.as_mut().filter(|child| child.has_answered()) else {
            return;
        };
        let order = Request::Every {
            id,
            first: at,
            interval,
        };
        self.order = child.tell(&order).then_some(Order {
            id,
            next: at,
            interval,
        });
    }

    /// Returns what a caller with its own event loop can poll; `None` while nothing is requested or scheduled.
    #[must_use]
    pub fn waiting(&self) -> Option<Waiting<'_>> {
        let child = self.child.as_ref()?;
        let what = match (&self.asked, &self.order) {
            (Some(asked), _) => Awaited::Answer { until: asked.until },
            (None, Some(order)) => Awaited::Order {
                at: order.next,
                interval: order.interval,
            },
            (None, None) => return None,
        };
        Some(Waiting {
            answers: child.answers(),
            errors: child.errors(),
            what,
        })
    }

    /// Reports whether the awaited answer is a scheduled one.
    #[must_use]
    pub fn asked_by_order(&self) -> bool {
        let (asked, order) = (self.asked.as_ref(), self.order.as_ref());
        asked.is_some_and(|asked| order.is_some_and(|order| order.id == asked.id))
    }

    /// Reads the child's standard error, so that a full pipe does not block it.
    pub fn hear(&mut self) {
        if let Some(child) = &mut self.child {
            child.hear_errors();
        }
    }

    /// Waits for the answer to [`Reader::begin`] until the deadline.
    pub fn finish(&mut self) -> Result<Sample, DriverFault> {
        let (Some(mut child), Some(asked)) = (self.child.take(), self.asked.take()) else {
            return Err(DriverFault::NoReader {
                detail: "nothing was asked".to_owned(),
            });
        };
        match child.take(asked.id, asked.until, asked.deadline) {
            Ok(answer) => {
                self.child = Some(child);
                self.order = self.order.and_then(Order::after_answer);
                self.pause.succeeded();
                self.last_fault = None;
                answer
            }
            Err(fault) => {
                self.stuck.extend(child.kill());
                Err(self.failed(fault))
            }
        }
    }

    /// Returns the child's pid, if there is a child.
    #[must_use]
    pub fn child_pid(&self) -> Option<u32> {
        self.child.as_ref().map(ChildReader::pid)
    }

    /// Returns the scheduled answer that the child has just begun to read.
    fn answer_on_its_way(&self) -> Option<Asked> {
        let order = self.order.filter(|_| self.child.is_some())?;
        let since = clock::monotonic().checked_sub(order.next)?;
        let deadline = self.options.deadline;
        (since <= FRESH.min(deadline)).then(|| Asked {
            id: order.id,
            until: order.next.saturating_add(deadline),
            deadline,
        })
    }

    fn new_id(&mut self) -> RequestId {
        self.last_id += 1;
        self.last_id
    }

    fn start(&mut self) -> Result<ChildReader, DriverFault> {
        if let (Some(retry_in), Some(last)) =
            (self.pause.remaining(clock::monotonic()), &self.last_fault)
        {
            return Err(DriverFault::BackingOff {
                retry_in,
                last: Box::new(last.clone()),
            });
        }
        if self.stuck.len() >= MOST_STUCK {
            return Err(self.failed(DriverFault::Hung {
                deadline: self.options.deadline,
            }));
        }
        ChildReader::start(&self.options).map_err(|fault| self.failed(fault))
    }

    fn failed(&mut self, fault: DriverFault) -> DriverFault {
        self.order = None;
        self.pause.failed(clock::monotonic());
        self.last_fault = Some(fault.clone());
        fault
    }
}

impl Order {
    /// Returns the rest of the schedule after an answer was taken. A child that finds its answer untaken when the next
    /// one is due drops the schedule, so a late one is not relied on. The clock is read after the pipe, so that this
    /// cannot miss it.
    fn after_answer(self) -> Option<Self> {
        let next = self.next.saturating_add(self.interval);
        (clock::monotonic() < next).then_some(Self { next, ..self })
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
