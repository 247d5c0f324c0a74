//! Look-ups in the host's user directory for requests and messages. A directory service (LDAP, SSSD) may hang, and a look-up in the
//! C library cannot be interrupted. One thread therefore answers all questions in order. Those that it cannot answer in
//! time are refused, so that a hung service costs one thread, however many questions arrive.

use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::lock;

/// Maximum time that a question waits for its answer.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of questions that wait.
const MAX_QUESTIONS: usize = 8;

/// A function that may block, and the thread that calls it.
#[derive(Debug)]
pub(crate) struct Lookup<Q, A> {
    answer: fn(Q) -> A,
    /// `None` before the first question.
    thread: Mutex<Option<SyncSender<Question<Q, A>>>>,
    timeout: Duration,
}

#[derive(Debug)]
struct Question<Q, A> {
    about: Q,
    answer: SyncSender<A>,
}

impl<Q: Send + 'static, A: Send + 'static> Lookup<Q, A> {
    pub(crate) fn new(answer: fn(Q) -> A) -> Self {
        Self {
            answer,
            thread: Mutex::new(None),
            timeout: TIMEOUT,
        }
    }

    /// Returns the answer; `None` if it is not known in time.
    pub(crate) fn ask(&self, about: Q) -> Option<A> {
        let (answer, answered) = sync_channel(1);
        self.send(Question { about, answer });
        answered.recv_timeout(self.timeout).ok()
    }

    /// Passes a question to the thread. If too many wait, it is dropped, and with it the sender of its answer.
    fn send(&self, mut question: Question<Q, A>) {
        let mut thread = lock(&self.thread);
        // A module of the C library can end the thread. Another one is started then.
        for _ in 0..2 {
            if thread.is_none() {
                *thread = started(self.answer).ok();
            }
            let Some(sender) = thread.as_ref() else {
                return;
            };
            match sender.try_send(question) {
                Err(TrySendError::Disconnected(unsent)) => question = unsent,
                Ok(()) | Err(TrySendError::Full(_)) => return,
            }
            *thread = None;
        }
    }
}

fn started<Q: Send + 'static, A: Send + 'static>(
    answer: fn(Q) -> A,
) -> io::Result<SyncSender<Question<Q, A>>> {
    let (sender, questions) = sync_channel::<Question<Q, A>>(MAX_QUESTIONS);
    let answer_all = move || {
        for question in questions {
            // The requester may have given up.
            let _ = question.answer.try_send(answer(question.about));
        }
    };
    thread::Builder::new()
        .name("user-lookup".to_owned())
        .spawn(answer_all)?;
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    static HANGS: AtomicBool = AtomicBool::new(true);
    static THREADS: AtomicUsize = AtomicUsize::new(0);

    thread_local! {
        static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
    }

    /// Hangs until the test ends that.
    fn hung(number: u32) -> u32 {
        if !IS_COUNTED.replace(true) {
            THREADS.fetch_add(1, Ordering::SeqCst);
        }
        while HANGS.load(Ordering::SeqCst) {
            thread::park_timeout(Duration::from_millis(5));
        }
        number + 1
    }

    #[test]
    fn a_hung_directory_costs_one_thread_and_every_question_is_refused_in_time() {
        let mut lookup = Lookup::new(hung);
        lookup.timeout = Duration::from_millis(1);
        for number in 0..200 {
            assert_eq!(lookup.ask(number), None);
        }
        HANGS.store(false, Ordering::SeqCst);
        lookup.timeout = Duration::from_secs(60);
        gua_test::wait_until("questions are answered again", || lookup.ask(1) == Some(2));
        assert_eq!(THREADS.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_thread_that_ends_is_replaced() {
        let mut lookup = Lookup::new(|number: u32| {
            assert!(number != 7, "a module of the C library fails");
            number
        });
        lookup.timeout = Duration::from_secs(60);
        assert_eq!(lookup.ask(7), None);
        // A question that arrives while the thread ends is lost.
        gua_test::wait_until("another thread answers", || lookup.ask(1) == Some(1));
    }
}
