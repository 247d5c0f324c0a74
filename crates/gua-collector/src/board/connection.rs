//! A connection with deadlines: every read and write is limited to the remaining time.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use gua_probe::clock;
use rustls::{ClientConnection, StreamOwned};

/// Time limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time to connect, including name resolution, proxy and TLS.
    pub connect: Duration,
    /// Maximum time without progress.
    pub silence: Duration,
    /// Total time, which also ends a response that arrives byte by byte.
    pub whole: Duration,
}

impl Limits {
    /// Limits of small requests.
    pub const CALL: Limits = Limits {
        connect: Duration::from_secs(5),
        silence: Duration::from_secs(10),
        whole: Duration::from_secs(10),
    };
    /// Limits of archive uploads. A board may be silent while it stores the file.
    pub const UPLOAD: Limits = Limits {
        silence: Duration::from_secs(60),
        whole: Duration::from_secs(60),
        ..Limits::CALL
    };
}

/// A deadline on the monotonic clock, and the time limit that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    at: Duration,
    limit: Duration,
}

impl Deadline {
    pub(crate) fn after(began: Duration, limit: Duration) -> Self {
        Self {
            at: began.saturating_add(limit),
            limit,
        }
    }

    pub(crate) fn sooner(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }

    /// Remaining time.
    pub(crate) fn left(self) -> io::Result<Duration> {
        let left = self.at.saturating_sub(clock::monotonic());
        match left.is_zero() {
            true => Err(timed_out(self.limit)),
            false => Ok(left),
        }
    }
}

/// A time limit was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no response within {} s", tenths(*.0))]
pub struct TimeoutError(pub Duration);

fn tenths(limit: Duration) -> f64 {
    (limit.as_secs_f64() * 10.0).round() / 10.0
}

pub(crate) fn timed_out(limit: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, TimeoutError(limit))
}

/// The time limit behind an error; `None` for other errors, such as a timeout of the kernel.
pub(crate) fn timeout_of(error: &io::Error) -> Option<TimeoutError> {
    error.get_ref()?.downcast_ref().copied()
}

/// A socket with a deadline.
#[derive(Debug)]
pub(crate) struct TimedSocket {
    socket: TcpStream,
    until: Deadline,
    silence: Duration,
    /// Number of bytes read.
    bytes_read: u64,
}

impl TimedSocket {
    pub(crate) fn new(socket: TcpStream, until: Deadline, silence: Duration) -> Self {
        Self {
            socket,
            until,
            silence,
            bytes_read: 0,
        }
    }

    /// Timeout of the next read or write, and the limit that it comes from.
    fn timeout(&self) -> io::Result<(Duration, Duration)> {
        let left = self.until.left()?;
        Ok(match left <= self.silence {
            true => (left, self.until.limit),
            false => (self.silence, self.silence),
        })
    }
}

impl Read for TimedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (timeout, limit) = self.timeout()?;
        self.socket.set_read_timeout(Some(timeout))?;
        loop {
            match self.socket.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let read = read.map_err(|error| translate(error, limit))?;
                    self.bytes_read += read as u64;
                    return Ok(read);
                }
            }
        }
    }
}

impl Write for TimedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (timeout, limit) = self.timeout()?;
        self.socket.set_write_timeout(Some(timeout))?;
        loop {
            match self.socket.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => return written.map_err(|error| translate(error, limit)),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Translates the kernel's error for a socket timeout, which is "would block".
fn translate(error: io::Error, limit: Duration) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => timed_out(limit),
        _ => error,
    }
}

/// A connection to a board, with or without TLS.
pub struct Connection(Kind);

enum Kind {
    Plain(TimedSocket),
    Encrypted(Box<StreamOwned<ClientConnection, TimedSocket>>),
}

impl Connection {
    pub(crate) fn plain(socket: TimedSocket) -> Self {
        Self(Kind::Plain(socket))
    }

    pub(crate) fn encrypted(stream: StreamOwned<ClientConnection, TimedSocket>) -> Self {
        Self(Kind::Encrypted(Box::new(stream)))
    }

    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self.0, Kind::Encrypted(_))
    }

    fn timed(&self) -> &TimedSocket {
        match &self.0 {
            Kind::Plain(timed) => timed,
            Kind::Encrypted(stream) => &stream.sock,
        }
    }

    /// Number of bytes received so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.timed().bytes_read
    }

    /// Sets the deadline and the maximum time without progress from now on.
    pub(crate) fn set_deadline(&mut self, until: Deadline, silence: Duration) {
        let timed = match &mut self.0 {
            Kind::Plain(timed) => timed,
            Kind::Encrypted(stream) => &mut stream.sock,
        };
        timed.until = until;
        timed.silence = silence;
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Plain(timed) => timed.read(buffer),
            Kind::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Plain(timed) => timed.write(bytes),
            Kind::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Plain(timed) => timed.flush(),
            Kind::Encrypted(stream) => stream.flush(),
        }
    }
}

impl AsFd for Connection {
    /// For polling.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timed().socket.as_fd()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Connection")
            .field("is_encrypted", &self.is_encrypted())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn the_error_names_the_limit_that_was_exceeded() {
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = silent.local_addr().unwrap();
        let check = |whole: u64, silence: u64, message: &str| {
            let socket = TcpStream::connect(address).unwrap();
            let until = Deadline::after(clock::monotonic(), Duration::from_millis(whole));
            let mut timed = TimedSocket::new(socket, until, Duration::from_millis(silence));
            let error = timed.read(&mut [0]).unwrap_err();
            assert_eq!(error.to_string(), message);
            assert!(timeout_of(&error).is_some());
        };
        check(60_000, 100, "no response within 0.1 s");
        check(200, 60_000, "no response within 0.2 s");
        check(0, 100, "no response within 0 s");
        assert_eq!(
            TimeoutError(Duration::from_micros(2_999_900)).to_string(),
            "no response within 3 s"
        );
        // A timeout of the kernel is not one of our limits.
        let dropped = io::Error::from_raw_os_error(rustix::io::Errno::TIMEDOUT.raw_os_error());
        assert_eq!(timeout_of(&dropped), None);
    }
}
