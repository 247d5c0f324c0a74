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

/// A socket with a deadline.
#[derive(Debug)]
pub(crate) struct Timed {
    socket: TcpStream,
    /// On the monotonic clock.
    until: Duration,
    silence: Duration,
}

impl Timed {
    pub(crate) fn new(socket: TcpStream, until: Duration, silence: Duration) -> Self {
        Self {
            socket,
            until,
            silence,
        }
    }

    /// What the next read or write may take.
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_sub(clock::monotonic());
        if left.is_zero() {
            return Err(late());
        }
        Ok(left.min(self.silence))
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        loop {
            match self.socket.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(named),
            }
        }
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        loop {
            match self.socket.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => return written.map_err(named),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// The kernel says that a socket with a time limit would block when the time is over.
fn named(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => late(),
        _ => error,
    }
}

pub(crate) fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time")
}

/// A connection to a board, encrypted or not.
pub struct Line(Kind);

enum Kind {
    Plain(Timed),
    Encrypted(Box<StreamOwned<ClientConnection, Timed>>),
}

impl Line {
    pub(crate) fn plain(socket: Timed) -> Self {
        Self(Kind::Plain(socket))
    }

    pub(crate) fn encrypted(stream: StreamOwned<ClientConnection, Timed>) -> Self {
        Self(Kind::Encrypted(Box::new(stream)))
    }

    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self.0, Kind::Encrypted(_))
    }

    fn timed(&self) -> &Timed {
        match &self.0 {
            Kind::Plain(timed) => timed,
            Kind::Encrypted(stream) => &stream.sock,
        }
    }

    /// From now on everything has to be over at `until`, and no silence may be longer than `silence`.
    pub fn allow(&mut self, until: Duration, silence: Duration) {
        let timed = match &mut self.0 {
            Kind::Plain(timed) => timed,
            Kind::Encrypted(stream) => &mut stream.sock,
        };
        timed.until = until;
        timed.silence = silence;
    }
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Plain(timed) => timed.read(buffer),
            Kind::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Line {
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

impl AsFd for Line {
    /// To wait for what the other side sends.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timed().socket.as_fd()
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Line")
            .field("is_encrypted", &self.is_encrypted())
            .finish_non_exhaustive()
    }
}
