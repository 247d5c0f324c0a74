//! The job's first process. It is started as it would be without us, in our process group and with our terminal, so that
//! signals of the terminal reach both. A signal that is sent to us alone is forwarded. We exit as the job exits.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};

use gua_model::Pid;
use gua_probe::process::ignored::{self, was_ignored};
use rustix::process::{
    Pid as Number, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getpgrp, getpid, kill_process,
    set_child_subreaper, setrlimit, waitid,
};
use rustix::termios::tcgetpgrp;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Sent};

use crate::marks::Marks;

/// Signals that are forwarded. Others end or stop us like any program, and the job continues.
const FORWARDED: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Exit status of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Code(i32),
    Signal(i32),
}

impl End {
    /// As in a shell: 128 plus the number of the signal for a job that was killed.
    pub fn shell_code(self) -> i32 {
        match self {
            End::Code(code) => code,
            End::Signal(signal) => 128 + signal,
        }
    }
}

/// A running job.
#[derive(Debug)]
pub struct Job {
    child: Child,
    number: Number,
    signals: SignalDelivery<UnixStream, WithOrigin>,
}

impl Job {
    /// Starts the job. From here on this process is the reaper of orphans among its descendants (prctl(2)).
    pub fn start(command: &mut Command, marks: &Marks) -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        // A signal that was ignored when we were started (nohup, a background job) stays ignored: a handler would become
        // the default action in the job.
        let wanted = FORWARDED
            .into_iter()
            .filter(|signal| !was_ignored(*signal))
            .chain([SIGCHLD]);
        let signals = SignalDelivery::with_pipe(read, write, WithOrigin::default(), wanted)?;
        // Without it, resource use of orphans is not counted.
        let _ = set_child_subreaper(Some(getpid()));
        ignored::hand_down(command);
        let child = marks.hand_down(|| command.spawn())?;
        Ok(Self {
            number: Number::from_child(&child),
            child,
            signals,
        })
    }

    pub fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Readable when there are signals for [`Job::forward_signals`].
    pub fn waiting(&self) -> BorrowedFd<'_> {
        self.signals.get_read().as_fd()
    }

    /// Forwards signals to the job; those of the terminal reached it directly. Returns whether a child has ended, stopped
    /// or continued (SIGCHLD).
    pub fn forward_signals(&mut self) -> bool {
        let mut has_child_event = false;
        for origin in self.signals.pending() {
            let is_sent = matches!(
                origin.cause,
                Cause::Sent(Sent::User | Sent::Queue | Sent::TKill)
            );
            has_child_event |= origin.signal == SIGCHLD;
            if origin.signal != SIGCHLD
                && is_sent
                && let Some(signal) = Signal::from_named_raw(origin.signal)
            {
                // A job that has just ended is not reaped yet, so its pid is not reused.
                let _ = kill_process(self.number, signal);
            }
        }
        has_child_event
    }

    /// Whether the first process has ended. This does not reap it, so its resource use can still be read.
    pub fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.number), options), Ok(None))
    }

    /// Stops this process when the job gives the terminal back (SIGTSTP), so that the shell takes it; when we are
    /// continued, so is the job. A job that is stopped by SIGSTOP, or without a shell that waits for us, must be
    /// continued by the process that stopped it.
    pub fn stop_with_it(&self) {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let Ok(Some(stopped)) = waitid(WaitId::Pid(self.number), options) else {
            return;
        };
        if stopped.stopping_signal() != Some(Signal::STOP.as_raw()) && has_terminal() {
            let _ = kill_process(getpid(), Signal::STOP);
            let _ = kill_process(self.number, Signal::CONT);
        }
    }

    /// Waits for the job, reaps it and returns its exit status.
    pub fn end(&mut self) -> io::Result<End> {
        let status = self.child.wait()?;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => End::Code(code),
            (None, Some(signal)) => End::Signal(signal),
            (None, None) => End::Code(1),
        })
    }
}

/// Whether our process group is the foreground one of a terminal: a shell with job control waits for it.
fn has_terminal() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal) == Ok(getpgrp()))
}

/// Reaps an orphan that was given to us.
pub(crate) fn reap(pid: Pid) {
    let number = i32::try_from(pid.0).ok().and_then(Number::from_raw);
    if let Some(number) = number {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let _ = waitid(WaitId::Pid(number), options);
    }
}

/// Ends this process by the signal that ended the job, so that a shell sees the job's own status. Returns if that is
/// not possible.
pub fn end_by(signal: i32) {
    // The job has dumped its own core if core dumps are enabled; ours would be useless.
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = kill_process(getpid(), signal);
    }
}
