//! A connection on which nothing takes longer than it may: every read and write has what is left of the time.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use gua_probe::clock;
use rustls::{ClientConnection, StreamOwned};

/// How long a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the name of the board to a connection that is ready, TLS and proxy included.
    pub connect: Duration,
    /// The longest silence while something is awaited.
    pub silence: Duration,
    /// Everything together, so that an answer of a byte at a time ends too.
    pub whole: Duration,
}

impl Limits {
    /// For all that is small.
    pub const CALL: Limits = Limits {
        connect: Duration::from_secs(5),
        silence: Duration::from_secs(10),
        whole: Duration::from_secs(10),
    };
    /// For a day of the archive. A board may be silent while it stores the file.
    pub const UPLOAD: Limits = Limits {
        silence: Duration::from_secs(60),
        whole: Duration::from_secs(60),
        ..Limits::CALL
    };
}

/// A moment on the monotonic clock, and the limit that ends with it.
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

    /// What is left of the time.
    pub(crate) fn left(self) -> io::Result<Duration> {
        let left = self.at.saturating_sub(clock::monotonic());
        match left.is_zero() {
            true => Err(late(self.limit)),
            false => Ok(left),
        }
    }
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it did not answer within {} s", tenths(*.0))]
pub struct Overdue(pub Duration);

fn tenths(limit: Duration) -> f64 {
    (limit.as_secs_f64() * 10.0).round() / 10.0
}

pub(crate) fn late(limit: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, Overdue(limit))
}

/// The limit of ours that an error tells of. A kernel that has given up on the other side has no limit to name.
pub(crate) fn overdue(error: &io::Error) -> Option<Overdue> {
    error.get_ref()?.downcast_ref().copied()
}

/// A socket with a deadline.
#[derive(Debug)]
pub(crate) struct TimedSocket {
    socket: TcpStream,
    until: Deadline,
    silence: Duration,
    /// Bytes that were read.
    taken: u64,
}

impl TimedSocket {
    pub(crate) fn new(socket: TcpStream, until: Deadline, silence: Duration) -> Self {
        Self {
            socket,
            until,
            silence,
            taken: 0,
        }
    }

    /// What the next read or write may take, and the limit that it reaches by then.
    fn patience(&self) -> io::Result<(Duration, Duration)> {
        let left = self.until.left()?;
        Ok(match left <= self.silence {
            true => (left, self.until.limit),
            false => (self.silence, self.silence),
        })
    }
}

impl Read for TimedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (patience, limit) = self.patience()?;
        self.socket.set_read_timeout(Some(patience))?;
        loop {
            match self.socket.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let read = read.map_err(|error| named(error, limit))?;
                    self.taken += read as u64;
                    return Ok(read);
                }
            }
        }
    }
}

impl Write for TimedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (patience, limit) = self.patience()?;
        self.socket.set_write_timeout(Some(patience))?;
        loop {
            match self.socket.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => return written.map_err(|error| named(error, limit)),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// The kernel says that a socket with a time limit would block when the time is over.
fn named(error: io::Error, limit: Duration) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => late(limit),
        _ => error,
    }
}

/// A connection to a board, encrypted or not.
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

    /// How many bytes came so far.
    pub(super) fn taken(&self) -> u64 {
        self.timed().taken
    }

    /// From now on everything has to be over by `until`, and no silence may be longer than `silence`.
    pub(crate) fn allow(&mut self, until: Deadline, silence: Duration) {
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
    /// To wait for what the other side sends.
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
    fn the_limit_that_was_reached_is_the_one_that_is_told() {
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = silent.local_addr().unwrap();
        let check = |whole: u64, silence: u64, told: &str| {
            let socket = TcpStream::connect(address).unwrap();
            let until = Deadline::after(clock::monotonic(), Duration::from_millis(whole));
            let mut timed = TimedSocket::new(socket, until, Duration::from_millis(silence));
            let error = timed.read(&mut [0]).unwrap_err();
            assert_eq!(error.to_string(), told);
            assert!(overdue(&error).is_some());
        };
        check(60_000, 100, "it did not answer within 0.1 s");
        check(200, 60_000, "it did not answer within 0.2 s");
        check(0, 100, "it did not answer within 0 s");
        assert_eq!(
            Overdue(Duration::from_micros(2_999_900)).to_string(),
            "it did not answer within 3 s"
        );
        // The kernel's own word for a side that has vanished is no limit of ours.
        let vanished = io::Error::from_raw_os_error(rustix::io::Errno::TIMEDOUT.raw_os_error());
        assert_eq!(overdue(&vanished), None);
    }
}
