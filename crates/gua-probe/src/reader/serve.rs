//! The child's side: answers requests on its standard input until the input ends, and drains the driver's buffers in
//! between if a tick is longer than they cover.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};

use super::frame;
use crate::clock;
use crate::probe::Probe;

/// Serves the parent on standard input and output; returns when the parent has ended.
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

fn serve(mut questions: File, mut answers: File) -> io::Result<()> {
    let Some(options) = frame::read(&mut questions)? else {
        return Ok(());
    };
    let mut probe = Probe::new(options);
    let mut buffer = Vec::new();
    loop {
        wait(&questions, &mut probe)?;
        if frame::read::<()>(&mut questions)?.is_none() {
            return Ok(());
        }
        let answer = probe.sample();
        frame::write(&mut answers, &mut buffer, &answer)?;
        if let Ok(sample) = answer {
            probe.recycle(sample);
        }
    }
}

/// Sleeps until a request arrives; wakes up otherwise only to drain buffers that would overflow.
fn wait(questions: &impl AsFd, probe: &mut Probe) -> io::Result<()> {
    loop {
        let due = probe.drain_due();
        let left = due.map(|due| due.saturating_sub(clock::monotonic()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(questions, PollFlags::IN)], left.as_ref()) {
            Ok(0) if due.is_some_and(|due| due <= clock::monotonic()) => probe.drain(),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
