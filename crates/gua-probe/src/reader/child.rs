//! One child process: starting it, asking it with a deadline, ending it without ever waiting for it.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use gua_model::text::sanitize;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};

use super::ReaderOptions;
use super::frame::{self, Answer, Request, RequestId};
use crate::clock;
use crate::fault::DriverFault;
use crate::process::wait_for_end;

/// A running child between two questions.
#[derive(Debug)]
pub(super) struct ChildReader {
    process: Child,
    questions: ChildStdin,
    answers: ChildStdout,
    /// `None` once it has closed it.
    errors: Option<ChildStderr>,
    /// What it is told before the first question.
    opening: Option<Request>,
    /// The end of what it said on standard error, for when it dies.
    last_words: Vec<u8>,
    /// Room for an answer, used again. It is as large as the largest so far, so that most are read in one go.
    room: Vec<u8>,
    answered: bool,
}

/// A child that was killed and has not ended yet.
#[derive(Debug)]
pub(super) struct Stuck(Child);

impl Stuck {
    /// Collects it if it has ended. What cannot be asked about any more is not waited for.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

/// How long a killed child is waited for. The kernel takes well under a millisecond unless a driver call holds it.
const END: Duration = Duration::from_millis(100);
const MOST_LAST_WORDS: usize = 4096;
/// The answer about a host of eight cards is half as long.
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
            // Not ours to share: a child caught in the driver would keep the user's pipe open after we have ended.
            .stderr(Stdio::piped())
            // A Ctrl-C at the terminal is for us; the child ends when we close its input.
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
            opening: Some(Request::Open(options.probe.clone())),
            last_words: Vec::new(),
            room: Vec::new(),
            answered: false,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn has_answered(&self) -> bool {
        self.answered
    }

    /// Asks. An error means that the child is of no further use.
    pub(super) fn ask(&mut self, request: &Request) -> Result<(), DriverFault> {
        self.last_words.clear();
        self.send(request).map_err(|error| self.death(&error))
    }

    /// Says something that is not answered at once. Whether it was heard: if not, the next question tells why.
    pub(super) fn tell(&mut self, request: &Request) -> bool {
        self.send(request).is_ok()
    }

    /// Waits for the answer to this request until that time. An error means that the child is of no further use.
    pub(super) fn take(
        &mut self,
        id: RequestId,
        until: Duration,
        deadline: Duration,
    ) -> Result<Answer, DriverFault> {
        match self.answer(id, until) {
            Ok(Some(answer)) => {
                self.answered = true;
                Ok(answer.map_err(|fault| self.with_last_words(fault)))
            }
            Ok(None) => Err(DriverFault::Hung { deadline }),
            Err(error) => Err(self.death(&error)),
        }
    }

    /// Where the answer comes from.
    pub(super) fn answers(&self) -> BorrowedFd<'_> {
        self.answers.as_fd()
    }

    /// Where its words come from, as long as it has any.
    pub(super) fn errors(&self) -> Option<BorrowedFd<'_>> {
        self.errors.as_ref().map(AsFd::as_fd)
    }

    /// Questions are a few bytes and the pipe is empty, so this does not block.
    fn send(&mut self, request: &Request) -> io::Result<()> {
        if let Some(opening) = self.opening.take() {
            let outputs = [
                Some(self.answers.as_fd()),
                self.errors.as_ref().map(AsFd::as_fd),
            ];
            for output in outputs.into_iter().flatten() {
                fcntl_setfl(output, fcntl_getfl(output)? | OFlags::NONBLOCK)?;
            }
            frame::write(&mut self.questions, &opening)?;
        }
        frame::write(&mut self.questions, request)
    }

    fn answer(&mut self, id: RequestId, until: Duration) -> io::Result<Option<Answer>> {
        let mut room = std::mem::take(&mut self.room);
        let answer = self.answer_by_way_of(&mut room, id, until);
        self.room = room;
        answer
    }

    fn answer_by_way_of(
        &mut self,
        room: &mut Vec<u8>,
        id: RequestId,
        until: Duration,
    ) -> io::Result<Option<Answer>> {
        let unasked = || {
            let unasked = "nobody asked for this answer";
            io::Error::new(io::ErrorKind::InvalidData, unasked)
        };
        room.resize(room.len().max(FIRST_ROOM), 0);
        // What was read of the pipe so far; it begins with an answer.
        let mut filled = 0;
        loop {
            if !self.read_until(room, &mut filled, frame::ANSWER_HEAD, until)? {
                return Ok(None);
            }
            let head = room.first_chunk().expect("the room is larger than a head");
            let (length, answered) = frame::answer_head(*head)?;
            if !(1..=id).contains(&answered) {
                return Err(unasked());
            }
            let end = frame::ANSWER_HEAD + length;
            room.resize(room.len().max(end), 0);
            if !self.read_until(room, &mut filled, end, until)? {
                return Ok(None);
            }
            if answered == id {
                // The child reads ahead of a question only once its last answer was taken, so nothing can follow.
                if filled > end {
                    return Err(unasked());
                }
                return frame::decode_answer(&room[frame::ANSWER_HEAD..end]).map(Some);
            }
            // An order that was given up may have been under way: nobody wants that answer any more.
            room.copy_within(end..filled, 0);
            filled -= end;
        }
    }

    /// Reads on until the room is filled up to `wanted`, or further; `false` when the deadline came first.
    fn read_until(
        &mut self,
        room: &mut [u8],
        filled: &mut usize,
        wanted: usize,
        until: Duration,
    ) -> io::Result<bool> {
        while *filled < wanted {
            match self.answers.read(&mut room[*filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => *filled += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = until.saturating_sub(clock::monotonic());
                    if left.is_zero() {
                        return Ok(false);
                    }
                    self.wait(left)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Sleeps until there is something to read. Standard error is read too: a full pipe would stop the child.
    fn wait(&mut self, left: Duration) -> io::Result<()> {
        let left = Timespec::try_from(left).ok();
        let answers = PollFd::new(&self.answers, PollFlags::IN);
        let spoke = match &self.errors {
            Some(errors) => {
                let mut outputs = [answers, PollFd::new(errors, PollFlags::IN)];
                interruptible(poll(&mut outputs, left.as_ref()))?;
                !outputs[1].revents().is_empty()
            }
            None => {
                interruptible(poll(&mut [answers], left.as_ref()))?;
                false
            }
        };
        if spoke {
            self.hear_errors();
        }
        Ok(())
    }

    /// Reads what there is on standard error, and lets go of it at its end: a closed pipe would wake us for ever.
    pub(super) fn hear_errors(&mut self) {
        let Some(errors) = &mut self.errors else {
            return;
        };
        let mut buffer = [0; 1024];
        loop {
            match errors.read(&mut buffer) {
                Ok(length @ 1..) => {
                    self.last_words.extend_from_slice(&buffer[..length]);
                    let surplus = self.last_words.len().saturating_sub(MOST_LAST_WORDS);
                    self.last_words.drain(..surplus);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        self.errors = None;
    }

    /// Why the conversation ended, in the child's last words where it had any.
    fn death(&mut self, error: &io::Error) -> DriverFault {
        self.wait_for_end();
        self.hear_errors();
        let mut how = match self.process.try_wait() {
            Ok(Some(status)) => describe(status),
            Ok(None) if error.kind() == io::ErrorKind::InvalidData => {
                format!("it answered nonsense ({error})")
            }
            Ok(None) | Err(_) => error.to_string(),
        };
        if let Some(line) = self.last_line() {
            how = format!("{how}, saying: {line}");
        }
        DriverFault::ReaderDied { how }
    }

    /// A library that refuses to start may have said more on standard error than its code does.
    fn with_last_words(&mut self, mut fault: DriverFault) -> DriverFault {
        self.hear_errors();
        if let (DriverFault::Init { text, .. }, Some(line)) = (&mut fault, self.last_line()) {
            text.push_str(&format!(", saying: {line}"));
        }
        fault
    }

    /// The last line that it said on standard error, fit for a terminal.
    fn last_line(&self) -> Option<String> {
        let words = String::from_utf8_lossy(&self.last_words);
        let line = words.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(sanitize(line.trim()).chars().take(300).collect())
    }

    /// Ends the child; returns it where it cannot be ended now.
    pub(super) fn kill(mut self) -> Option<Stuck> {
        // It leads a group of its own, with whatever the driver library may have started. An error means that all of
        // them have ended already.
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        self.wait_for_end();
        match self.process.try_wait() {
            Ok(None) => Some(Stuck(self.process)),
            Ok(Some(_)) | Err(_) => None,
        }
    }

    /// Sleeps until it has ended, for a moment at the most. A kernel without pidfd (before 5.3) is not waited for: the
    /// child is then collected at the next sample.
    fn wait_for_end(&self) {
        // An error or the limit: either way it is asked next whether it has ended.
        let _ = wait_for_end(&self.process, END);
    }
}

fn interruptible(polled: rustix::io::Result<usize>) -> io::Result<()> {
    match polled {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("killed by signal {signal}"),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => status.to_string(),
    }
}
