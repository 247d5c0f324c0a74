//! A thread that owns the driver, for programs that cannot execute themselves as a reader child, such as the Python
//! module.
//!
//! A hanging driver delays each caller by at most a deadline: the thread stays blocked, and answers again if the driver
//! returns. Where a child is possible, [`crate::reader::Reader`] is better, because a child can be replaced.

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

/// Handle of the thread, which ends with the last handle.
#[derive(Clone, Debug)]
pub struct Keeper {
    questions: Sender<Question>,
    deadline: Duration,
    has_answered: Arc<AtomicBool>,
}

/// A request for a sample, up to a time on the monotonic clock.
#[derive(Debug)]
struct Question {
    answer: Sender<Result<Sample, DriverFault>>,
    until: Duration,
}

/// A sample that was requested.
#[derive(Debug)]
pub struct Pending {
    answer: Receiver<Result<Sample, DriverFault>>,
    until: Duration,
    deadline: Duration,
}

impl Keeper {
    /// Starts the thread. It opens the driver with the first request.
    pub fn start(options: ProbeOptions, deadline: Duration) -> io::Result<Self> {
        let (questions, asked) = mpsc::channel();
        let has_answered = Arc::new(AtomicBool::new(false));
        let answered = Arc::clone(&has_answered);
        thread::Builder::new()
            .name("gua-driver".to_owned())
            .spawn(move || serve(options, &asked, &answered))?;
        Ok(Self {
            questions,
            deadline,
            has_answered,
        })
    }

    /// Reads everything once. It always returns within the deadline, or three times the deadline until the driver has
    /// answered once: opening it takes seconds on hosts without persistence mode.
    pub fn sample(&self) -> Result<Sample, DriverFault> {
        let mut pending = self.begin();
        loop {
            if let Some(answer) = pending.wait(Duration::MAX) {
                return answer;
            }
        }
    }

    /// Requests a sample without waiting for it.
    pub fn begin(&self) -> Pending {
        let deadline = match self.has_answered.load(Ordering::Acquire) {
            true => self.deadline,
            false => self.deadline.saturating_mul(3),
        };
        let until = clock::monotonic().saturating_add(deadline);
        let (answer, wait) = mpsc::channel();
        // If the thread has ended, so has its sender, which the wait notices.
        let _ = self.questions.send(Question { answer, until });
        Pending {
            answer: wait,
            until,
            deadline,
        }
    }
}

impl Pending {
    /// Waits for the answer or the deadline; `None` if neither came within `patience`.
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
        // The caller has given up while the driver was hanging.
        if question.until < clock::monotonic() {
            continue;
        }
        let answer = probe.sample();
        has_answered.store(true, Ordering::Release);
        let _ = question.answer.send(answer);
    }
}
