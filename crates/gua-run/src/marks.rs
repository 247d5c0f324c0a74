//! Marks of a running job: phases, events and values, one per line, through a pipe that it inherits.
//!
//! A line that begins with `{` is one JSON object with one of the keys `phase`, `event` (and perhaps `data`) and `set`; any
//! other line is the name of a phase. Invalid lines are counted and otherwise ignored: they must not make a job fail.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, ioctl_fionread};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::Deserialize;
use serde_json::{Map, Value};

pub use gua_model::run_variables::{DESCRIPTOR_VARIABLE, PIPE_VARIABLE, RUN_VARIABLE};

/// Maximum length of a line that is written atomically (`PIPE_BUF` in pipe(7)).
pub const MAX_MARK_LENGTH: usize = 4096;

/// Number of bytes read at once, so that a job that floods the pipe does not block the loop.
const AT_ONCE: usize = 2 * MAX_MARK_LENGTH;

/// Default capacity of a pipe (pipe(7)).
const WHOLE_PIPE: usize = 64 << 10;

/// Lowest descriptor number to use: some shells (dash) can only name descriptors up to 9, and the first ones are often
/// taken.
const LOWEST_DESCRIPTOR: i32 = 7;

/// A mark of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// Begins a phase, and ends the one before it.
    Phase(String),
    Event {
        name: String,
        data: Map<String, Value>,
    },
    /// Values for the summary.
    Set(Map<String, Value>),
}

impl Mark {
    /// Parses a line; `None` if it is invalid.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        if !line.starts_with('{') {
            return (!line.is_empty()).then(|| Mark::Phase(line.to_owned()));
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct JsonMark {
            phase: Option<String>,
            event: Option<String>,
            data: Option<Map<String, Value>>,
            set: Option<Map<String, Value>>,
        }
        let mark: JsonMark = serde_json::from_str(line).ok()?;
        match (mark.phase, mark.event, mark.data, mark.set) {
            (Some(name), None, None, None) if !name.trim().is_empty() => Some(Mark::Phase(name)),
            (None, Some(name), data, None) => Some(Mark::Event {
                name,
                data: data.unwrap_or_default(),
            }),
            (None, None, None, Some(values)) => Some(Mark::Set(values)),
            _ => None,
        }
    }

    /// The line without its newline, as [`Mark::parse`] reads it.
    pub fn line(&self) -> String {
        let value = match self {
            Mark::Phase(name) => serde_json::json!({ "phase": name }),
            Mark::Event { name, data } => serde_json::json!({ "event": name, "data": data }),
            Mark::Set(values) => serde_json::json!({ "set": values }),
        };
        value.to_string()
    }
}

/// Both ends of the pipe.
#[derive(Debug)]
pub struct Marks {
    read: File,
    /// The job's end, kept open: the file that [`PIPE_VARIABLE`] names is this one, and without it the pipe would end with
    /// the first process that closes it.
    write: OwnedFd,
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
    /// Number of invalid lines.
    pub(crate) garbled: u64,
}

impl Marks {
    pub fn new() -> io::Result<Self> {
        // The job never blocks: if we do not read, its marks are lost.
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let write = fcntl_dupfd_cloexec(own_reader(write), LOWEST_DESCRIPTOR)?;
        Ok(Self {
            read: File::from(read),
            write,
            partial: Vec::new(),
            garbled: 0,
        })
    }

    /// Variables by which the job finds the pipe.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        let (own, number) = (std::process::id(), self.write.as_raw_fd());
        [
            (DESCRIPTOR_VARIABLE, number.to_string()),
            (PIPE_VARIABLE, format!("/proc/{own}/fd/{number}")),
        ]
    }

    /// Starts a program that inherits the descriptor.
    pub(crate) fn hand_down<T>(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        fcntl_setfd(&self.write, FdFlags::empty())?;
        let started = start();
        fcntl_setfd(&self.write, FdFlags::CLOEXEC)?;
        started
    }

    /// Readable when there are marks.
    pub fn waiting(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// Reads some marks without blocking; the rest can be read next.
    pub fn take(&mut self) -> Vec<Mark> {
        self.take_at_most(AT_ONCE)
    }

    /// Reads as many marks as a pipe can hold, after the job has ended.
    pub fn take_last(&mut self) -> Vec<Mark> {
        self.take_at_most(WHOLE_PIPE)
    }

    fn take_at_most(&mut self, most: usize) -> Vec<Mark> {
        let mut marks = Vec::new();
        let mut buffer = [0; MAX_MARK_LENGTH];
        for _ in 0..most / MAX_MARK_LENGTH {
            let Ok(length @ 1..) = self.read.read(&mut buffer) else {
                break;
            };
            self.partial.extend_from_slice(&buffer[..length]);
            while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.partial.drain(..=end).collect();
                match Mark::parse(&String::from_utf8_lossy(&line)) {
                    Some(mark) => marks.push(mark),
                    None if line.trim_ascii().is_empty() => {}
                    None => self.garbled += 1,
                }
            }
            if self.partial.len() > MAX_MARK_LENGTH {
                self.partial.clear();
                self.garbled += 1;
            }
        }
        marks
    }

    /// Whether there is unread data in the pipe.
    pub fn has_unread(&self) -> bool {
        ioctl_fionread(&self.read).is_ok_and(|bytes| bytes > 0)
    }
}

/// Opens the write end for reading too (fifo(7)), so that the job is itself a reader and gets no SIGPIPE after we have exited.
/// Without /proc the end stays as it is.
fn own_reader(write: OwnedFd) -> OwnedFd {
    let path = format!("/proc/self/fd/{}", write.as_raw_fd());
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).unwrap_or(write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_phase_an_event_or_values() {
        let check = |line: &str, expected: Option<Mark>| {
            assert_eq!(Mark::parse(line), expected, "{line}");
        };
        let map = |value: Value| value.as_object().unwrap().clone();
        check("train\n", Some(Mark::Phase("train".to_owned())));
        check(
            r#"{"phase": "train"}"#,
            Some(Mark::Phase("train".to_owned())),
        );
        check(
            r#"{"set": {"jax_peak_bytes_mb": 12.5}}"#,
            Some(Mark::Set(map(
                serde_json::json!({"jax_peak_bytes_mb": 12.5}),
            ))),
        );
        check(
            r#"{"event": "saved"}"#,
            Some(Mark::Event {
                name: "saved".to_owned(),
                data: Map::new(),
            }),
        );
        for nothing in [
            "",
            "  ",
            "{}",
            "{",
            r#"{"phase": "a", "set": {}}"#,
            r#"{"other": 1}"#,
        ] {
            check(nothing, None);
        }
    }

    #[test]
    fn marks_come_through_the_pipe_in_order_and_in_pieces() {
        let mut marks = Marks::new().unwrap();
        let [(_, number), (_, path)] = marks.variables();
        assert!(path.ends_with(&number), "{path}");
        let say = |text: &str| std::fs::write(&path, text).unwrap();
        say("load\ntra");
        assert_eq!(marks.take(), [Mark::Phase("load".to_owned())]);
        say("in\n{broken\n");
        let event = Mark::Event {
            name: "saved".to_owned(),
            data: Map::new(),
        };
        say(&format!("{}\n", event.line()));
        assert_eq!(marks.take(), [Mark::Phase("train".to_owned()), event]);
        assert_eq!(marks.garbled, 1);
        say(&"x".repeat(MAX_MARK_LENGTH + 1));
        assert_eq!(marks.take(), []);
        assert_eq!(marks.garbled, 2);
    }

    #[test]
    fn of_many_marks_some_are_taken_at_a_time_and_a_pipes_worth_at_the_end() {
        let mut marks = Marks::new().unwrap();
        rustix::pipe::fcntl_setpipe_size(&marks.write, 4 * WHOLE_PIPE).unwrap();
        let line = format!("{:15}\n", "phase");
        let many = line.repeat(2 * WHOLE_PIPE / line.len());
        let written = rustix::io::write(&marks.write, many.as_bytes());
        assert_eq!(written, Ok(many.len()));
        assert_eq!(marks.take().len(), AT_ONCE / line.len());
        assert_eq!(marks.take_last().len(), WHOLE_PIPE / line.len());
        assert!(marks.has_unread());
        assert_eq!(marks.take_last().len(), (WHOLE_PIPE - AT_ONCE) / line.len());
        assert!(!marks.has_unread());
        assert_eq!(marks.take(), []);
    }

    #[test]
    fn a_mark_that_nobody_reads_is_lost_and_neither_ends_nor_holds_up_the_job() {
        let marks = Marks::new().unwrap();
        let jobs = marks.write.try_clone().unwrap();
        drop(marks);
        let line = [b'x'; MAX_MARK_LENGTH];
        // The test's program ignores SIGPIPE, so it would see this error.
        let filled = (0..10_000).find_map(|_| rustix::io::write(&jobs, &line).err());
        assert_eq!(filled, Some(rustix::io::Errno::AGAIN));
    }
}
