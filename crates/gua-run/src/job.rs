//! The job's first process: started as it would be without us, in our process group and with our terminal, so that what is
//! typed there reaches it and us alike. A signal that somebody sends to us alone is passed on. Its end becomes ours.

use std::ffi::OsString;
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

use crate::marks::{HandedDown, Marks};

/// What is passed on. Others end or stop us as they would any program, and the job goes on.
const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// What to run.
#[derive(Clone, Debug)]
pub struct JobCommand {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Besides what it inherits.
    pub variables: Vec<(String, OsString)>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Code(i32),
    Signal(i32),
}

impl End {
    /// As a shell tells it: 128 and the number of the signal for a job that was killed.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        match self {
            End::Code(code) => code,
            End::Signal(signal) => 128 + signal,
        }
    }
}

/// What signals were about that are not passed on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    /// A child of ours has ended, stopped or gone on.
    pub is_of_children: bool,
}

/// A running job.
#[derive(Debug)]
pub struct Job {
    child: Child,
    number: Number,
    signals: SignalDelivery<UnixStream, WithOrigin>,
}

impl Job {
    /// Starts it. From here on this process is given the orphans among its descendants, until it ends itself.
    pub fn start(command: &JobCommand, marks: &Marks) -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        // What was ignored when we were started (nohup, a background job) stays so: a handler would become the default
        // in the job.
        let wanted = PASSED_ON
            .into_iter()
            .filter(|signal| !was_ignored(*signal))
            .chain([SIGCHLD]);
        let signals = SignalDelivery::with_pipe(read, write, WithOrigin::default(), wanted)?;
        // A kernel that cannot costs the orphans' numbers.
        let _ = set_child_subreaper(Some(getpid()));
        marks.hand_down(HandedDown::Yes)?;
        let mut program = Command::new(&command.program);
        program
            .args(&command.arguments)
            .envs(command.variables.iter().map(|(name, value)| (name, value)));
        ignored::hand_down(&mut program);
        let child = program.spawn();
        marks.hand_down(HandedDown::No)?;
        let child = child?;
        let number = i32::try_from(child.id())
            .ok()
            .and_then(Number::from_raw)
            .expect("the kernel numbers processes from 1");
        Ok(Self {
            child,
            number,
            signals,
        })
    }

    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Readable when there is a signal to [`Job::attend`] to.
    #[must_use]
    pub fn waiting(&self) -> BorrowedFd<'_> {
        self.signals.get_read().as_fd()
    }

    /// Passes signals on. What the terminal sent has reached the job by itself.
    pub fn attend(&mut self) -> Heard {
        let mut heard = Heard::default();
        for origin in self.signals.pending() {
            let is_sent = matches!(
                origin.cause,
                Cause::Sent(Sent::User | Sent::Queue | Sent::TKill)
            );
            heard.is_of_children |= origin.signal == SIGCHLD;
            if origin.signal != SIGCHLD
                && is_sent
                && let Some(signal) = Signal::from_named_raw(origin.signal)
            {
                // A job that has just ended is not reaped yet, so its number is no other's.
                let _ = kill_process(self.number, signal);
            }
        }
        heard
    }

    /// Whether its first process has ended. It is not reaped by this, and what it has used can still be read.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.number), options), Ok(None))
    }

    /// A job that gives the terminal back (SIGTSTP) stops us, so that the shell takes it; when we are continued, so is the
    /// job. One that is stopped without a shell that waits for us, or by SIGSTOP, is continued by whoever stopped it.
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

    /// Buries it once it has ended, and says how it did.
    pub fn end(&mut self) -> io::Result<End> {
        let status = self.child.wait()?;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => End::Code(code),
            (None, Some(signal)) => End::Signal(signal),
            (None, None) => End::Code(1),
        })
    }
}

/// Whether our process group is the one that a terminal belongs to: a shell with job control waits for it.
fn has_terminal() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal) == Ok(getpgrp()))
}

/// Buries a process that was given to us.
pub(crate) fn reap(pid: Pid) {
    let number = i32::try_from(pid.0).ok().and_then(Number::from_raw);
    if let Some(number) = number {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let _ = waitid(WaitId::Pid(number), options);
    }
}

/// Ends this process by the signal that ended the job, so that a shell sees what it would have seen. It returns where that
/// is not possible.
pub fn end_by(signal: i32) {
    // The job has left its memory behind where that was wanted; ours would only be in the way.
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
