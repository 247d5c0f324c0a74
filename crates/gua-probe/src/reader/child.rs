//! One child process: starting it, sending requests with a deadline, and ending it without blocking.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use gua_model::text::sanitize;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};

use super::frame::{self, Answer};
use super::{ReaderOptions, Waiting, sleep};
use crate::clock;
use crate::fault::DriverFault;
use crate::probe::ProbeOptions;
use crate::process::wait_for_end;

/// A running child between two requests.
#[derive(Debug)]
pub(super) struct ChildReader {
    pub(super) process: Child,
    questions: ChildStdin,
    answers: ChildStdout,
    /// `None` once the child has closed it.
    errors: Option<ChildStderr>,
    /// Options of the reads, sent before the first request.
    opening: Option<ProbeOptions>,
    /// Last output on standard error, for the message when the child dies.
    last_output: Vec<u8>,
    /// Buffer for answers. It keeps the size of the largest so far, so that most are read in one call.
    room: Vec<u8>,
    pub(super) has_answered: bool,
}

/// Reaps a child if it has ended. One whose state cannot be read counts as ended.
pub(super) fn has_ended(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

/// Maximum time to wait for a killed child. The kernel takes well under a millisecond unless a driver call blocks it.
const END: Duration = Duration::from_millis(100);
const MAX_LAST_OUTPUT: usize = 4096;
/// Initial buffer size; twice the answer of a host with eight GPUs.
const FIRST_ROOM: usize = 4096;

impl ChildReader {
    pub(super) fn start(options: &ReaderOptions) -> Result<Self, DriverFault> {
        let no_reader = |error: io::Error| DriverFault::NoReader {
            detail: error.to_string(),
        };
        let mut process = Command::new(&options.program)
            .args(&options.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Not inherited: a child blocked in the driver would keep the user's pipe open after this process has
            // ended.
            .stderr(Stdio::piped())
            // Ctrl-C at the terminal is for the parent; the child ends when its input is closed.
            .process_group(0)
            .spawn()
            .map_err(no_reader)?;
        let questions = process.stdin.take().expect("standard input was piped");
        let answers = process.stdout.take().expect("standard output was piped");
        let errors = process.stderr.take().expect("standard error was piped");
        Ok(Self {
            process,
            questions,
            answers,
            errors: Some(errors),
            opening: Some(options.probe.clone()),
            last_output: Vec::new(),
            room: Vec::new(),
            has_answered: false,
        })
    }

    /// Requests a sample. An error means that the child cannot be used any more.
    pub(super) fn request(&mut self) -> Result<(), DriverFault> {
        self.last_output.clear();
        self.send().map_err(|error| self.death(&error))
    }

    /// Waits for the answer until that time. An error means that the child cannot be used any more.
    pub(super) fn receive(
        &mut self,
        until: Duration,
        deadline: Duration,
    ) -> Result<Answer, DriverFault> {
        match self.answer(until) {
            Ok(Some(answer)) => {
                self.has_answered = true;
                Ok(answer.map_err(|fault| self.with_last_output(fault)))
            }
            Ok(None) => Err(DriverFault::Hung { deadline }),
            Err(error) => Err(self.death(&error)),
        }
    }

    /// Returns the pipes to poll for an answer until that time.
    pub(super) fn waiting(&self, until: Duration) -> Waiting<'_> {
        Waiting {
            answers: self.answers.as_fd(),
            errors: self.errors.as_ref().map(AsFd::as_fd),
            until,
        }
    }

    /// Requests are a few bytes and the pipe is empty, so this does not block.
    fn send(&mut self) -> io::Result<()> {
        if let Some(opening) = self.opening.take() {
            let Waiting {
                answers, errors, ..
            } = self.waiting(Duration::MAX);
            for output in errors.into_iter().chain([answers]) {
                fcntl_setfl(output, fcntl_getfl(output)? | OFlags::NONBLOCK)?;
            }
            frame::write(&mut self.questions, &mut Vec::new(), &opening)?;
        }
        frame::write(&mut self.questions, &mut Vec::new(), &())
    }

    fn answer(&mut self, until: Duration) -> io::Result<Option<Answer>> {
        self.room.resize(self.room.len().max(FIRST_ROOM), 0);
        let mut filled = 0;
        if !self.read_until(&mut filled, frame::HEAD, until)? {
            return Ok(None);
        }
        let head = self
            .room
            .first_chunk()
            .expect("the room is larger than a head");
        let end = frame::HEAD + frame::length(*head)?;
        self.room.resize(self.room.len().max(end), 0);
        if !self.read_until(&mut filled, end, until)? {
            return Ok(None);
        }
        if filled > end {
            let surplus = "more than one answer to a request";
            return Err(io::Error::new(io::ErrorKind::InvalidData, surplus));
        }
        frame::decode_answer(&self.room[frame::HEAD..end]).map(Some)
    }

    /// Reads until the buffer is filled up to `wanted`, or further; `false` if the deadline came first.
    fn read_until(
        &mut self,
        filled: &mut usize,
        wanted: usize,
        until: Duration,
    ) -> io::Result<bool> {
        while *filled < wanted {
            match self.answers.read(&mut self.room[*filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => *filled += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if until <= clock::monotonic() {
                        return Ok(false);
                    }
                    self.wait(until)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Sleeps until there is something to read. Standard error is read too: a full pipe would block the child.
    fn wait(&mut self, until: Duration) -> io::Result<()> {
        match sleep([], Some(&self.waiting(until)), until) {
            Ok(woken) if woken.errors => self.read_errors(),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Reads standard error, and drops it at its end: a closed pipe would wake the poll for ever.
    pub(super) fn read_errors(&mut self) {
        let Some(errors) = &mut self.errors else {
            return;
        };
        let mut buffer = [0; 1024];
        loop {
            match errors.read(&mut buffer) {
                Ok(length @ 1..) => {
                    self.last_output.extend_from_slice(&buffer[..length]);
                    let surplus = self.last_output.len().saturating_sub(MAX_LAST_OUTPUT);
                    self.last_output.drain(..surplus);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        self.errors = None;
    }

    /// Returns why the child failed, with its last line on standard error.
    fn death(&mut self, error: &io::Error) -> DriverFault {
        self.wait_for_end();
        self.read_errors();
        let mut how = match self.process.try_wait() {
            Ok(Some(status)) => describe(status),
            Ok(None) if error.kind() == io::ErrorKind::InvalidData => {
                format!("{ENDED}: invalid answer ({error})")
            }
            Ok(None) | Err(_) => format!("{ENDED}: {error}"),
        };
        if let Some(line) = self.last_line() {
            how = format!("{how}, last output: {line}");
        }
        DriverFault::ReaderDied { how }
    }

    /// Adds the last line on standard error to an initialisation error: some libraries print more than their code says.
    fn with_last_output(&mut self, mut fault: DriverFault) -> DriverFault {
        self.read_errors();
        if let (DriverFault::Init { text, .. }, Some(line)) = (&mut fault, self.last_line()) {
            text.push_str(&format!(", last output: {line}"));
        }
        fault
    }

    /// Returns the last line on standard error, safe for a terminal.
    fn last_line(&self) -> Option<String> {
        let words = String::from_utf8_lossy(&self.last_output);
        let line = words.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(sanitize(line.trim()).chars().take(300).collect())
    }

    /// Kills the child; returns it if it has not ended yet.
    pub(super) fn kill(mut self) -> Option<Child> {
        // The child leads its own process group, with whatever the driver library may have started. An error means that
        // all of them have ended already.
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        self.wait_for_end();
        (!has_ended(&mut self.process)).then_some(self.process)
    }

    /// Waits a short time for the end of the child. On kernels without pidfd (before 5.3) this returns at once, and the
    /// child is reaped at the next sample.
    fn wait_for_end(&self) {
        // The caller checks next whether it has ended, so an error does not matter.
        let _ = wait_for_end(&self.process, END);
    }
}

/// Signals that report a crash (signal(7)): illegal instruction, trap, abort, bus error, floating point, segmentation
/// fault, bad system call. No other code runs in the reader during a driver call, so the crash is the library's.
const CRASHES: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];
const ENDED: &str = "the reader of the driver ended unexpectedly";

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) if CRASHES.contains(&signal) => {
            format!("the driver library crashed (signal {signal})")
        }
        (Some(signal), _) => format!("the reader of the driver was killed (signal {signal})"),
        (None, Some(code)) => format!("{ENDED}: exit code {code}"),
        (None, None) => format!("{ENDED}: {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_of_the_library_differs_from_other_ends_of_the_reader() {
        let check = |status, expected: &str| {
            assert_eq!(describe(ExitStatus::from_raw(status)), expected);
        };
        check(6, "the driver library crashed (signal 6)");
        check(11, "the driver library crashed (signal 11)");
        check(9, "the reader of the driver was killed (signal 9)");
        check(
            3 << 8,
            "the reader of the driver ended unexpectedly: exit code 3",
        );
    }
}
