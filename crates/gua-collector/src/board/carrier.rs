//! Carries pushes to the board, one at a time, in a thread that may be left behind. Whoever hands one over goes on at once,
//! and is woken when there is an answer: a server that is silent holds up nobody but this thread.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::client::CallError;
use super::enrolment::Enrolled;

pub(super) struct Carrier {
    loads: SyncSender<Load>,
    answers: Receiver<Answer>,
}

/// What became of a push.
pub(super) type Answer = Result<(), CallError>;

struct Load {
    enrolled: Arc<Enrolled>,
    body: String,
}

impl Carrier {
    /// Starts the thread. It ends when this is dropped and nothing is on its way.
    pub(super) fn start(wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (loads, to_carry) = sync_channel::<Load>(1);
        let (answered, answers) = sync_channel(1);
        let carry = move || {
            for Load { enrolled, body } in to_carry {
                let answer = enrolled.client.push_body(&body, &enrolled.config);
                if answered.send(answer).is_err() {
                    return;
                }
                wake();
            }
        };
        thread::Builder::new()
            .name("gua-push".to_owned())
            .spawn(carry)?;
        Ok(Self { loads, answers })
    }

    /// Hands a push over. The one before has been answered.
    pub(super) fn carry(&self, enrolled: Arc<Enrolled>, body: String) {
        // A thread that is gone gives no answer, and so the push counts as not sent.
        let _ = self.loads.try_send(Load { enrolled, body });
    }

    /// The answer, if it is there.
    pub(super) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }

    /// The answer, if it comes in time.
    pub(super) fn answer_within(&self, time: Duration) -> Option<Answer> {
        self.answers.recv_timeout(time).ok()
    }
}
