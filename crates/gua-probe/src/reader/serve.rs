//! The child's side: answers requests on its standard input until the input ends, follows a schedule if there is one,
//! and drains the driver's buffers in between if a tick is longer than they cover.

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

/// Serves the parent on standard input and output; returns when the parent has ended.
#[must_use]
pub fn serve_stdio() -> ExitCode {
    end_with_the_parent();
    // Only for display in process lists.
    let _ = rustix::thread::set_name(c"gua-reader");
    match private_input().and_then(|questions| serve(questions, private_output()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Ends this process when the parent has ended, even while a driver call blocks: a thread waits until the other end of
/// standard input is closed. Without it, Ctrl-C during a hung call would leave the child behind.
fn end_with_the_parent() {
    let watch = || {
        let input = io::stdin();
        loop {
            // No event is requested, so only a hang-up wakes it.
            match poll(&mut [PollFd::new(&input, PollFlags::empty())], None) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => break,
                Err(_) => return,
            }
        }
        // Not an exit, which would run the driver library's destructors; those may wait for the call that hangs.
        let _ = kill_process(getpid(), Signal::KILL);
    };
    // Without the thread the reader still ends when the driver answers, so an error is ignored.
    let _ = std::thread::Builder::new()
        .name("parent".to_owned())
        .stack_size(64 * 1024)
        .spawn(watch);
}

/// Returns standard input unbuffered: poll does not see buffered bytes.
fn private_input() -> io::Result<File> {
    Ok(File::from(rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?))
}

/// Reserves standard output for answers. Output of the driver library goes to standard error, where it cannot break a
/// frame.
fn private_output() -> io::Result<File> {
    let answers = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(File::from(answers))
}

/// A schedule in force.
struct Order {
    id: RequestId,
    next: Duration,
    interval: Duration,
    /// Whether it was answered at all. Before that, an untaken answer can only belong to an earlier schedule.
    is_answered: bool,
}

/// Why a wait ended.
enum Call {
    Question,
    /// A scheduled sample is due.
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
            // A parent that has not taken the last answer by now is late, and sends a request when it wants another.
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
    /// Begins the sample that is due; the next is one interval later.
    fn begin(&mut self) -> RequestId {
        self.next = self.next.saturating_add(self.interval);
        self.is_answered = true;
        self.id
    }
}

fn has_untaken(answers: &File) -> bool {
    rustix::io::ioctl_fionread(answers).is_ok_and(|bytes| bytes > 0)
}

/// Sleeps until a request arrives or the scheduled time has come; wakes up otherwise only to drain buffers that would
/// overflow. A request has priority: it may end the schedule.
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
