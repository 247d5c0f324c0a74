//! The child's side: answers questions on its standard input until the input ends, keeps a standing order while there
//! is one, and drains the driver's buffers in between when a tick is longer than they reach back.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};

use super::frame::{self, Request, RequestId};
use crate::clock;
use crate::probe::Probe;

/// Serves the parent at the other end of standard input and output; returns when the parent is gone.
#[must_use]
pub fn serve_stdio() -> ExitCode {
    end_with_the_parent();
    // Only for people who look at the process list; the program does not depend on it.
    let _ = rustix::thread::set_name(c"gua-reader");
    match private_input().and_then(|questions| serve(questions, private_output()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Ends this process when the parent is gone, also while a driver call does not return: a thread waits for the other end
/// of standard input to be closed. Without it, a Ctrl-C in front of a hung driver would leave us behind.
fn end_with_the_parent() {
    let watch = || {
        let input = io::stdin();
        loop {
            // No event is asked for, so only the end of the parent wakes it.
            match poll(&mut [PollFd::new(&input, PollFlags::empty())], None) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => break,
                Err(_) => return,
            }
        }
        // Not an exit: that would run the driver library's own end, which may wait for the call that hangs.
        let _ = kill_process(getpid(), Signal::KILL);
    };
    // Without the thread the reader still ends when the driver answers; it is not worth failing for.
    let _ = std::thread::Builder::new()
        .name("parent".to_owned())
        .stack_size(64 * 1024)
        .spawn(watch);
}

/// Standard input without a buffer: what is buffered could not be waited for.
fn private_input() -> io::Result<File> {
    Ok(File::from(rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?))
}

/// Takes standard output for the answers alone. Whatever the driver library prints there goes to standard error, where
/// it cannot break a frame.
fn private_output() -> io::Result<File> {
    let answers = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(File::from(answers))
}

/// What was ordered and not called off.
struct Order {
    id: RequestId,
    next: Duration,
    interval: Duration,
    /// Whether it was answered at all. An answer that nobody takes can before that only be one to an earlier order.
    is_answered: bool,
}

/// Why a sleep ended.
enum Call {
    Question,
    /// The order says so.
    Order,
}

fn serve(mut questions: File, mut answers: File) -> io::Result<()> {
    let Some(Request::Open(options)) = frame::read(&mut questions)? else {
        return Ok(());
    };
    let mut probe = Probe::new(options);
    let mut order: Option<Order> = None;
    let mut buffer = Vec::new();
    loop {
        let due = order.as_ref().map(|order| order.next);
        let id = match wait(&questions, &mut probe, due)? {
            // Whoever did not take the last answer by now is behind, and will ask when it wants another.
            Call::Order => {
                order = order.filter(|order| !(order.is_answered && has_untaken(&answers)));
                order.as_mut().map(Order::begin)
            }
            Call::Question => {
                order = None;
                match frame::read(&mut questions)? {
                    Some(Request::Sample { id }) => Some(id),
                    Some(Request::Every {
                        id,
                        first: next,
                        interval,
                    }) => {
                        order = Some(Order {
                            id,
                            next,
                            interval,
                            is_answered: false,
                        });
                        None
                    }
                    Some(Request::Open(options)) => {
                        probe = Probe::new(options);
                        None
                    }
                    None => return Ok(()),
                }
            }
        };
        if let Some(id) = id {
            let answer = probe.sample();
            frame::write_answer(&mut answers, &mut buffer, id, &answer)?;
            if let Ok(sample) = answer {
                probe.recycle(sample);
            }
        }
    }
}

impl Order {
    /// The sample that is due begins; the next is one interval later.
    fn begin(&mut self) -> RequestId {
        self.next = self.next.saturating_add(self.interval);
        self.is_answered = true;
        self.id
    }
}

fn has_untaken(answers: &File) -> bool {
    rustix::io::ioctl_fionread(answers).is_ok_and(|bytes| bytes > 0)
}

/// Sleeps until there is a question or the order's time has come, waking otherwise only to drain buffers that would
/// overflow before that. A question comes first: it may call the order off.
fn wait(questions: &impl AsFd, probe: &mut Probe, due: Option<Duration>) -> io::Result<Call> {
    loop {
        let drain = probe.drain_due();
        let wake = [drain, due].into_iter().flatten().min();
        let left = wake.map(|wake| wake.saturating_sub(clock::monotonic()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(questions, PollFlags::IN)], left.as_ref()) {
            Ok(0) => {}
            Ok(_) => return Ok(Call::Question),
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let now = clock::monotonic();
        if due.is_some_and(|due| due <= now) {
            return Ok(Call::Order);
        }
        if drain.is_some_and(|drain| drain <= now) {
            probe.drain();
        }
    }
}
