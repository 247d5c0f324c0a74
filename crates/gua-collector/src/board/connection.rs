//! Time limits of requests, and connections to a board: TCP sockets that ureq speaks HTTP, TLS and to proxies on, and the
//! connection of the stream.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use gua_probe::clock;
use rustix::net::sockopt;
use ureq::config::Config;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};
use ureq::{Error, Timeout};

/// Time without an acknowledgement after which the kernel drops a connection.
const DEAD_AFTER: Duration = Duration::from_secs(30);

/// Time limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time to connect, including proxy and TLS. Name resolution before it has the same limit.
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

    /// The limits of a request or of an agent.
    pub(super) fn of(config: &Config) -> Self {
        let timeouts = config.timeouts();
        Self {
            connect: timeouts.connect.unwrap_or_default(),
            silence: config.timeout_per_read().unwrap_or_default(),
            whole: timeouts.global.unwrap_or_default(),
        }
    }

    /// The limit behind a timeout of ureq.
    pub(super) fn exceeded(self, reason: Timeout) -> TimeoutError {
        TimeoutError(match reason {
            Timeout::Resolve | Timeout::Connect => self.connect,
            Timeout::PerRead | Timeout::PerWrite => self.silence,
            _ => self.whole,
        })
    }
}

/// A time limit was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no response within {} s", tenths(*.0))]
pub struct TimeoutError(pub Duration);

fn tenths(limit: Duration) -> f64 {
    (limit.as_secs_f64() * 10.0).round() / 10.0
}

impl From<TimeoutError> for io::Error {
    fn from(timeout: TimeoutError) -> Self {
        io::Error::new(io::ErrorKind::TimedOut, timeout)
    }
}

/// Whether one of our time limits was exceeded, unlike one of the kernel.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<TimeoutError>())
}

/// Opens TCP sockets for ureq. Unlike its own, they detect a peer that has disappeared.
#[derive(Debug)]
pub(super) struct TcpConnector;

impl<In: Transport> Connector<In> for TcpConnector {
    type Out = Either<In, TcpTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        tunnel: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        if let Some(tunnel) = tunnel {
            return Ok(Some(Either::A(tunnel)));
        }
        let socket = open(&details.addrs, details.timeout)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Either::B(TcpTransport { socket, buffers })))
    }
}

/// Connects to one of the addresses of a host. The remaining time is divided among them, so that a dead address leaves
/// time for the next one.
fn open(addresses: &[SocketAddr], timeout: NextTimeout) -> Result<TcpStream, Error> {
    let until = clock::monotonic().saturating_add(*timeout.after);
    let mut problem = Error::HostNotFound;
    for (tried, address) in addresses.iter().enumerate() {
        let shares = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share = until.saturating_sub(clock::monotonic()) / shares;
        if share.is_zero() {
            return Err(Error::Timeout(timeout.reason));
        }
        match TcpStream::connect_timeout(address, share) {
            Ok(socket) => {
                // Otherwise a small request would wait to be combined with more data.
                let _ = socket.set_nodelay(true);
                detect_dead_peer(&socket);
                return Ok(socket);
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                problem = Error::Timeout(timeout.reason);
            }
            Err(error) => problem = Error::Io(error),
        }
    }
    Err(problem)
}

/// Lets the kernel drop a connection whose peer has disappeared, both while sending and while idle. If an option is not
/// supported, the longer limits of the system apply.
fn detect_dead_peer(socket: &TcpStream) {
    let limit = u32::try_from(DEAD_AFTER.as_millis()).unwrap_or(u32::MAX);
    let _ = sockopt::set_tcp_user_timeout(socket, limit);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, DEAD_AFTER / 3);
    let _ = sockopt::set_tcp_keepintvl(socket, DEAD_AFTER / 3);
}

#[derive(Debug)]
pub(super) struct TcpTransport {
    socket: TcpStream,
    buffers: LazyBuffers,
}

impl Transport for TcpTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        self.socket.set_write_timeout(Some(left(timeout)?))?;
        let written = self.socket.write_all(&self.buffers.output()[..amount]);
        written.map_err(|error| translate(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        self.socket.set_read_timeout(Some(left(timeout)?))?;
        let free = self.buffers.input_append_buf();
        let amount = loop {
            match self.socket.read(free) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(|error| translate(error, timeout))?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// No connection is used for a second request.
    fn is_open(&mut self) -> bool {
        false
    }
}

fn left(timeout: NextTimeout) -> Result<Duration, Error> {
    match timeout.after.is_zero() {
        true => Err(Error::Timeout(timeout.reason)),
        // Without a limit, ureq passes a time that the kernel does not take.
        false => Ok((*timeout.after).min(Limits::UPLOAD.whole)),
    }
}

/// Translates the kernel's error for a socket timeout, which is "would block".
fn translate(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}

/// The connection of the stream, with or without TLS.
pub(super) struct Connection {
    transport: TransportAdapter,
    limit: Duration,
    /// Number of bytes received so far.
    pub(super) bytes_read: u64,
}

impl Connection {
    pub(super) fn new(transport: TransportAdapter, limit: Duration) -> Self {
        let mut connection = Self {
            transport,
            limit,
            bytes_read: 0,
        };
        connection.set_limit(limit);
        connection
    }

    /// Limits the time of all reads and writes from now on.
    pub(super) fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
        self.transport.set_timeout(NextTimeout {
            after: limit.into(),
            ..NextTimeout::default()
        });
    }

    fn failed(&self, error: io::Error) -> io::Error {
        match Error::from(error) {
            Error::Timeout(_) => TimeoutError(self.limit).into(),
            error => error.into_io(),
        }
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.transport.read(buffer);
        let read = read.map_err(|error| self.failed(error))?;
        self.bytes_read += read as u64;
        Ok(read)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.transport.write(bytes);
        written.map_err(|error| self.failed(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.transport.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    fn timeout(millis: u64) -> NextTimeout {
        NextTimeout {
            after: Duration::from_millis(millis).into(),
            reason: Timeout::Connect,
            ..NextTimeout::default()
        }
    }

    #[test]
    fn the_kernel_detects_a_dead_board_within_half_a_minute() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = open(&[listener.local_addr().unwrap()], timeout(5000)).unwrap();
        // While sending, and while idle.
        assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), 30_000);
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        let idle = sockopt::tcp_keepidle(&socket).unwrap();
        let between = sockopt::tcp_keepintvl(&socket).unwrap();
        assert!(idle + between <= DEAD_AFTER, "{idle:?} {between:?}");
    }

    #[test]
    fn the_error_names_the_limit_that_was_exceeded() {
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = silent.local_addr().unwrap();
        let check = |limit: u64, message: &str| {
            let transport = TcpTransport {
                socket: TcpStream::connect(address).unwrap(),
                buffers: LazyBuffers::new(64, 64),
            };
            let now = std::sync::Arc::new(ureq::unversioned::transport::time::Instant::now);
            let adapter = TransportAdapter::new(transport.boxed(), now);
            let mut connection = Connection::new(adapter, Duration::from_millis(limit));
            let error = connection.read(&mut [0]).unwrap_err();
            assert_eq!(error.to_string(), message);
            assert!(is_timeout(&error));
        };
        check(100, "no response within 0.1 s");
        check(200, "no response within 0.2 s");
        check(0, "no response within 0 s");
        assert_eq!(
            TimeoutError(Duration::from_micros(2_999_900)).to_string(),
            "no response within 3 s"
        );
        assert_eq!(
            Limits::CALL.exceeded(Timeout::Connect).0,
            Limits::CALL.connect
        );
        // A timeout of the kernel is not one of our limits.
        let dropped = io::Error::from_raw_os_error(rustix::io::Errno::TIMEDOUT.raw_os_error());
        assert!(!is_timeout(&dropped));
    }
}
