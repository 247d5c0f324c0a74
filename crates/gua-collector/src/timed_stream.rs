//! A connection with one time limit for all reads and writes together. With a limit for each call, a client that sends one
//! byte at a time could hold its connection for hours.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use gua_probe::clock;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

/// A TCP or Unix connection, and the remaining time to wait for the peer.
pub(crate) struct TimedStream<'a, S> {
    stream: &'a S,
    left: Duration,
}

impl<'a, S: AsFd> TimedStream<'a, S> {
    pub(crate) fn new(stream: &'a S, limit: Duration) -> Self {
        let left = limit;
        Self { stream, left }
    }

    fn timed<T>(&mut self, call: impl FnOnce(&'a S) -> io::Result<T>) -> io::Result<T> {
        if self.left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        set_socket_timeout(self.stream, Timeout::Recv, Some(self.left))?;
        set_socket_timeout(self.stream, Timeout::Send, Some(self.left))?;
        let began = clock::monotonic();
        let result = call(self.stream);
        let waited = clock::monotonic().saturating_sub(began);
        self.left = self.left.saturating_sub(waited);
        result
    }
}

impl<'a, S: AsFd> Read for TimedStream<'a, S>
where
    &'a S: Read,
{
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.timed(|mut stream| stream.read(bytes))
    }
}

impl<'a, S: AsFd> Write for TimedStream<'a, S>
where
    &'a S: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.timed(|mut stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
