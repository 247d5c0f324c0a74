//! The child's side: answers questions on its standard input until the input ends, and drains the driver's buffers in
//! between when a tick is longer than they reach back.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};

use super::frame::{self, Request};
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

fn serve(mut questions: File, mut answers: File) -> io::Result<()> {
    let Some(Request::Open(options)) = frame::read(&mut questions)? else {
        return Ok(());
    };
    let mut probe = Probe::new(options);
    loop {
        wait_for_question(&questions, &mut probe)?;
        match frame::read(&mut questions)? {
            Some(Request::Sample) => frame::write(&mut answers, &probe.sample())?,
            Some(Request::Open(options)) => probe = Probe::new(options),
            None => return Ok(()),
        }
    }
}

/// Sleeps until there is a question, waking only to drain buffers that would overflow before it comes.
fn wait_for_question(questions: &impl AsFd, probe: &mut Probe) -> io::Result<()> {
    loop {
        let wait = probe
            .drain_due()
            .map(|due| due.saturating_sub(clock::monotonic()));
        if wait == Some(Duration::ZERO) {
            probe.drain();
            continue;
        }
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        match poll(&mut [PollFd::new(questions, PollFlags::IN)], wait.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
