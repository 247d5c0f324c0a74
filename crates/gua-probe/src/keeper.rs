//! One thread of this process owns the driver, and others ask it: for programs that cannot be their own reader child,
//! as a library that was loaded into somebody's interpreter.
//!
//! A driver that hangs costs whoever asks a deadline and never more: the thread stays where it is caught, and answers
//! again should the driver ever return. Where a child is possible, [`crate::reader::Reader`] is better: it can be replaced.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use gua_model::Sample;

use crate::clock;
use crate::fault::DriverFault;
use crate::probe::{Probe, ProbeOptions};

/// A handle of the thread. It ends when the last handle is gone.
#[derive(Clone, Debug)]
pub struct Keeper {
    questions: Sender<Question>,
    deadline: Duration,
    has_answered: Arc<AtomicBool>,
}

/// Somebody waits for a sample, up to a moment on the monotonic clock.
#[derive(Debug)]
struct Question {
    answer: Sender<Result<Sample, DriverFault>>,
    until: Duration,
}

/// A sample that was asked for.
#[derive(Debug)]
pub struct Pending {
    answer: Receiver<Result<Sample, DriverFault>>,
    until: Duration,
    deadline: Duration,
}

impl Keeper {
    /// Starts the thread. It opens the driver with the first question.
    pub fn start(options: ProbeOptions, deadline: Duration) -> io::Result<Self> {
        let (questions, asked) = mpsc::channel();
        let has_answered = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&has_answered);
        thread::Builder::new()
            .name("gua-driver".to_owned())
            .spawn(move || serve(options, &asked, &told))?;
        Ok(Self {
            questions,
            deadline,
            has_answered,
        })
    }

    /// Reads everything once. Whatever the driver does, it returns within the deadline, or three times that while the
    /// driver has not answered yet: opening it takes seconds on hosts without persistence mode.
    pub fn sample(&self) -> Result<Sample, DriverFault> {
        let mut pending = self.begin();
        loop {
            if let Some(answer) = pending.wait(Duration::MAX) {
                return answer;
            }
        }
    }

    /// Asks for a sample and does not wait for it.
    #[must_use]
    pub fn begin(&self) -> Pending {
        let deadline = match self.has_answered.load(Ordering::Acquire) {
            true => self.deadline,
            false => self.deadline.saturating_mul(3),
        };
        let until = clock::monotonic().saturating_add(deadline);
        let (answer, wait) = mpsc::channel();
        // Where the thread is gone, so is the sender, which the wait notices.
        let _ = self.questions.send(Question { answer, until });
        Pending {
            answer: wait,
            until,
            deadline,
        }
    }
}

impl Pending {
    /// The answer, or that the deadline has passed; `None` when neither came within `patience`.
    pub fn wait(&mut self, patience: Duration) -> Option<Result<Sample, DriverFault>> {
        let left = self.until.saturating_sub(clock::monotonic());
        match self.answer.recv_timeout(left.min(patience)) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) if patience < left => None,
            Err(RecvTimeoutError::Timeout) => Some(Err(DriverFault::Hung {
                deadline: self.deadline,
            })),
            Err(RecvTimeoutError::Disconnected) => Some(Err(DriverFault::NoReader {
                detail: "its thread has ended".to_owned(),
            })),
        }
    }
}

fn serve(options: ProbeOptions, asked: &Receiver<Question>, has_answered: &AtomicBool) {
    let mut probe = Probe::new(options);
    while let Ok(question) = asked.recv() {
        // Who asked while the driver hung has given up.
        if question.until < clock::monotonic() {
            continue;
        }
        let answer = probe.sample();
        has_answered.store(true, Ordering::Release);
        let _ = question.answer.send(answer);
    }
}
