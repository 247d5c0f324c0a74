//! The reader child: the driver is read by a child process, so that a sick driver costs readings and never the program.
//!
//! [`Reader`] is the parent's side: one child, one question at a time, a deadline on every answer. A child that hangs
//! or dies is replaced, with growing pauses. Who will ask again in a known rhythm can say so ([`Reader::expect`]): the
//! child then reads on time by itself, and the parent is woken once a tick instead of twice. [`serve_stdio`] is the
//! child's side: the same binary, executed again.

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

/// The argument by which the binary knows that it is to be the reader.
pub const READER_ARGUMENT: &str = "__reader";

/// How to run the child, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// The binary that calls [`serve_stdio`] when it gets `arguments`.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub probe: ProbeOptions,
    /// Time for an answer. The first one of a child may take three times as long: it opens the driver, which takes
    /// seconds on hosts without persistence mode.
    pub deadline: Duration,
    /// The pause after a first failure; it doubles with each further one.
    pub first_pause: Duration,
    pub longest_pause: Duration,
}

impl ReaderOptions {
    /// The running binary as its own reader.
    #[must_use]
    pub fn this_program(probe: ProbeOptions, deadline: Duration) -> Self {
        Self {
            // The link and not the path behind it: after an update of the binary on disk it is still this program.
            program: PathBuf::from("/proc/self/exe"),
            arguments: vec![READER_ARGUMENT.into()],
            probe,
            deadline,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
        }
    }
}

/// The parent's side of the reader child.
#[derive(Debug)]
pub struct Reader {
    options: ReaderOptions,
    child: Option<ChildReader>,
    /// Killed children that have not ended: a driver call can keep a process where no signal reaches it.
    stuck: Vec<Stuck>,
    pause: Backoff,
    last_fault: Option<DriverFault>,
    asked: Option<Asked>,
    /// What the child does without being asked, as far as it can be relied on.
    order: Option<Order>,
    last_id: RequestId,
}

/// A question that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    id: RequestId,
    until: Duration,
    deadline: Duration,
}

/// A standing order. Every answer before the one at `next` was taken before `next`, so the child keeps to it.
#[derive(Clone, Copy, Debug)]
struct Order {
    id: RequestId,
    next: Duration,
    interval: Duration,
}

/// What a question waits for.
#[derive(Debug)]
pub struct Waiting<'a> {
    /// Readable when the answer comes, or when the child has died.
    pub answers: BorrowedFd<'a>,
    /// Readable when the child says something: then [`Reader::hear`] is to be called.
    pub errors: Option<BorrowedFd<'a>>,
    pub what: Awaited,
}

/// Whether it was asked already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Asked. At this time on the monotonic clock the driver counts as hung.
    Answer { until: Duration },
    /// Expected. The child reads at this time by itself; who asks then finds the answer on its way.
    Order { at: Duration, interval: Duration },
}

/// With this many children caught in the driver, a further one would only be caught too.
const MOST_STUCK: usize = 3;

/// An answer that was read ahead of the question counts for one that comes this much later at the most: after that the
/// driver is read anew.
const FRESH: Duration = Duration::from_millis(500);

impl Reader {
    /// Starts nothing yet: the child comes with the first sample.
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

    /// Reads everything once. Whatever the driver does, it returns within the deadline, or three times that while the
    /// child has not answered yet, and a moment for ending a child that is of no further use.
    pub fn sample(&mut self) -> Result<Sample, DriverFault> {
        self.begin()?;
        self.finish()
    }

    /// The same for who has less time than that: a driver that has not answered within `longest` counts as hung, though it
    /// be the first answer.
    pub fn sample_within(&mut self, longest: Duration) -> Result<Sample, DriverFault> {
        let until = clock::monotonic().saturating_add(longest);
        self.begin()?;
        if let Some(asked) = &mut self.asked {
            asked.until = asked.until.min(until);
            asked.deadline = asked.deadline.min(longest);
        }
        self.finish()
    }

    /// Asks for a sample and does not wait: [`Reader::waiting`] says for what to wait, [`Reader::finish`] gives the answer.
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

    /// Says that the next question comes at `at` on the monotonic clock, and further ones every `interval` from there.
    /// Nothing depends on it: questions at other times are answered as ever.
    pub fn expect(&mut self, at: Duration, interval: Duration) {
        let is_known = |order: &Order| order.next == at && order.interval == interval;
        if self.asked.is_some() || self.order.as_ref().is_some_and(is_known) {
            return;
        }
        self.order = None;
        let id = self.new_id();
        // The first answer of a child has a deadline of its own, so it is asked for.
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

    /// What a caller that has more to wait for can poll; `None` while nothing was asked and nothing is expected.
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

    /// Whether the answer that is waited for is one that the child was ordered to give by itself.
    #[must_use]
    pub fn asked_by_order(&self) -> bool {
        let (asked, order) = (self.asked.as_ref(), self.order.as_ref());
        asked.is_some_and(|asked| order.is_some_and(|order| order.id == asked.id))
    }

    /// Takes what the child says on standard error, so that a full pipe does not stop it.
    pub fn hear(&mut self) {
        if let Some(child) = &mut self.child {
            child.hear_errors();
        }
    }

    /// The answer to [`Reader::begin`]. It waits for it, until the deadline has passed.
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

    /// The child's process number while there is one.
    #[must_use]
    pub fn child_pid(&self) -> Option<u32> {
        self.child.as_ref().map(ChildReader::pid)
    }

    /// What the child was ordered to read and has begun with, if that was only just now.
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
    /// What is left of it once an answer was taken. A child that finds its answer untaken when the next is due gives the
    /// order up: if it is that late, nothing is relied on. The clock is read after the pipe, so that this cannot miss it.
    fn after_answer(self) -> Option<Self> {
        let next = self.next.saturating_add(self.interval);
        (clock::monotonic() < next).then_some(Self { next, ..self })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            // Idle between two questions, so nothing is cut off.
            let _ended = child.kill();
        }
    }
}
