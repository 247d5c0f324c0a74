//! How a board is reached: directly or through a proxy, encrypted or not, within the time that there is.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use gua_probe::clock;
use gua_wire::ServerUrl;
use gua_wire::server_url::{Insecure, Scheme, Unencrypted};
use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, ClientConnection, StreamOwned};

use super::connection::{Connection, Deadline, Limits, TimedSocket, late};
use super::proxy::{Proxies, Proxy, ProxyError};
use super::tls::{TlsError, certificates, encryption};

/// More of a proxy's answer than this is not read.
const LONGEST_PROXY_ANSWER: usize = 16 * 1024;
/// A board that has acknowledged nothing for so long has vanished, be there a farewell or not.
const ABSENCE: Duration = Duration::from_secs(30);

/// The way to one board. Nothing is contacted until a [`Connection`] is opened.
#[derive(Clone, Debug)]
pub struct Endpoint {
    board: ServerUrl,
    proxy: Option<Proxy>,
    encryption: Option<Arc<ClientConfig>>,
}

/// What somebody may say about the way.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    pub unencrypted: Unencrypted,
    /// Certificate authorities that are believed beside the system's.
    pub ca_file: Option<PathBuf>,
    pub proxies: Proxies,
}

/// Why there is no way that may be gone.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error(transparent)]
    Insecure(#[from] Insecure),
    #[error(transparent)]
    Trust(#[from] TlsError),
    #[error("the proxy cannot be used")]
    Proxy(#[from] ProxyError),
}

/// Why a board was not reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("the name `{host}` leads nowhere")]
    Name { host: String, source: io::Error },
    #[error("`{place}` cannot be connected")]
    Connect { place: String, source: io::Error },
    #[error("the proxy {proxy} broke off")]
    Proxy { proxy: Proxy, source: io::Error },
    #[error("the proxy {proxy} refused with HTTP {status}")]
    ProxyRefused { proxy: Proxy, status: u16 },
    #[error("the proxy {proxy} did not answer in HTTP")]
    ProxyGarbage { proxy: Proxy },
    #[error("no encrypted connection with `{host}`")]
    Encryption { host: String, source: io::Error },
}

impl ConnectError {
    /// What can be done about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        let ConnectError::Encryption { source, .. } = self else {
            return None;
        };
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let cause = source.get_ref()?.downcast_ref::<rustls::Error>()?;
        (*cause == unknown).then_some(
            "if the board's certificate is of your company's own authority, name the file of that with --ca-file",
        )
    }
}

impl Endpoint {
    /// Settles the way to a board.
    ///
    /// # Errors
    /// When a token would be readable on the way, when certificates cannot be read, or when a proxy is not understood.
    pub fn to(board: &ServerUrl, options: &ConnectOptions) -> Result<Self, EndpointError> {
        board.check_encrypted(options.unencrypted)?;
        let encryption = match board.scheme() {
            Scheme::Https => Some(encryption(options.ca_file.as_deref())?),
            // It is of no use here, but a wrong one is a mistake.
            Scheme::Http => {
                options.ca_file.as_deref().map(certificates).transpose()?;
                None
            }
        };
        Ok(Self {
            board: board.clone(),
            proxy: options.proxies.for_board(board)?,
            encryption,
        })
    }

    #[must_use]
    pub fn board(&self) -> &ServerUrl {
        &self.board
    }

    /// Opens a connection. The whole time begins to run with this.
    ///
    /// # Errors
    /// When the board cannot be reached within the time, or is not whom its name says.
    pub fn open(&self, limits: Limits) -> Result<Connection, ConnectError> {
        let began = clock::monotonic();
        let whole = Deadline::after(began, limits.whole);
        let until = whole.sooner(Deadline::after(began, limits.connect));
        let (host, port) = match &self.proxy {
            Some(proxy) => (proxy.host.as_str(), proxy.port),
            None => (self.board.host(), self.board.port()),
        };
        let socket = reach(host, port, until)?;
        let mut socket = TimedSocket::new(socket, until, limits.silence);
        if let Some(proxy) = &self.proxy {
            self.pass(proxy, &mut socket)?;
        }
        let mut line = match &self.encryption {
            Some(config) => self.encrypt(config, socket)?,
            None => Connection::plain(socket),
        };
        line.allow(whole, limits.silence);
        Ok(line)
    }

    /// Asks the proxy for a tunnel.
    fn pass(&self, proxy: &Proxy, socket: &mut TimedSocket) -> Result<(), ConnectError> {
        let broken = |source| ConnectError::Proxy {
            proxy: proxy.clone(),
            source,
        };
        let place = place(self.board.host(), self.board.port());
        let mut request = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n");
        if let Some(authorization) = &proxy.authorization {
            request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
        }
        request.push_str("\r\n");
        socket.write_all(request.as_bytes()).map_err(broken)?;
        // Byte by byte: what comes after the answer belongs to the board.
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"\r\n\r\n") && answer.len() < LONGEST_PROXY_ANSWER {
            if socket.read(&mut byte).map_err(broken)? == 0 {
                return Err(broken(io::ErrorKind::UnexpectedEof.into()));
            }
            answer.extend(byte);
        }
        match status(&answer) {
            Some(200..300) => Ok(()),
            Some(status) => Err(ConnectError::ProxyRefused {
                proxy: proxy.clone(),
                status,
            }),
            None => Err(ConnectError::ProxyGarbage {
                proxy: proxy.clone(),
            }),
        }
    }

    fn encrypt(
        &self,
        config: &Arc<ClientConfig>,
        socket: TimedSocket,
    ) -> Result<Connection, ConnectError> {
        let host = self.board.host();
        let failed = |source| ConnectError::Encryption {
            host: host.to_owned(),
            source,
        };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        let connection = ClientConnection::new(Arc::clone(config), name)
            .map_err(|error| failed(io::Error::other(error)))?;
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).map_err(failed)?;
        }
        Ok(Connection::encrypted(stream))
    }
}

/// The number in the first line of an HTTP answer.
fn status(answer: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(answer).ok()?.lines().next()?;
    let (version, rest) = line.split_once(' ')?;
    version.starts_with("HTTP/1.").then_some(())?;
    rest.get(..3)?.parse().ok()
}

fn place(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Connects to one of the addresses of a name. Each gets its share of the time, so that one that is dead leaves some for the
/// next.
fn reach(host: &str, port: u16, until: Deadline) -> Result<TcpStream, ConnectError> {
    let addresses = resolve(host, port, until)?;
    let mut problem = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (tried, address) in addresses.iter().enumerate() {
        let shares = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let connected = until.left().and_then(|left| {
            let share = left / shares;
            TcpStream::connect_timeout(address, share).map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => late(share),
                _ => error,
            })
        });
        match connected {
            Ok(socket) => {
                // Without it a small request would wait for more to be sent with it.
                let _ = socket.set_nodelay(true);
                notice_absence(&socket);
                return Ok(socket);
            }
            Err(error) => problem = error,
        }
    }
    Err(ConnectError::Connect {
        place: place(host, port),
        source: problem,
    })
}

/// Lets the kernel end a connection whose other side has vanished, be it that we speak or that we listen. A system that
/// cannot has its own, longer times for that.
fn notice_absence(socket: &TcpStream) {
    let limit = u32::try_from(ABSENCE.as_millis()).unwrap_or(u32::MAX);
    let _ = sockopt::set_tcp_user_timeout(socket, limit);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, ABSENCE / 3);
    let _ = sockopt::set_tcp_keepintvl(socket, ABSENCE / 3);
}

/// The addresses of a name. The system's resolver knows no time limit, so it is asked by a thread that may be left behind.
fn resolve(host: &str, port: u16, until: Deadline) -> Result<Vec<SocketAddr>, ConnectError> {
    let failed = |source| ConnectError::Name {
        host: host.to_owned(),
        source,
    };
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (answer, wait) = mpsc::sync_channel(1);
    let question = (host.to_owned(), port);
    let ask = move || {
        let addresses = question.to_socket_addrs();
        // Nobody waits any more if it took too long.
        let _ = answer.send(addresses.map(Iterator::collect::<Vec<_>>));
    };
    let named = thread::Builder::new().name("resolve".to_owned());
    named.spawn(ask).map_err(failed)?;
    let left = until.left().map_err(failed)?;
    match wait.recv_timeout(left) {
        Ok(addresses) => addresses.map_err(failed),
        Err(_) => Err(failed(late(left))),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_board_that_vanishes_is_noticed_by_the_kernel_within_half_a_minute() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let options = ConnectOptions {
            unencrypted: Unencrypted::LoopbackOnly,
            ca_file: None,
            proxies: Proxies::default(),
        };
        let way = Endpoint::to(&ServerUrl::parse(&url).unwrap(), &options).unwrap();
        let line = way.open(Limits::CALL).unwrap();
        // While something is on its way, and while nothing is.
        assert_eq!(sockopt::tcp_user_timeout(&line).unwrap(), 30_000);
        assert!(sockopt::socket_keepalive(&line).unwrap());
        let idle = sockopt::tcp_keepidle(&line).unwrap();
        let between = sockopt::tcp_keepintvl(&line).unwrap();
        assert!(idle + between <= ABSENCE, "{idle:?} {between:?}");
    }
}
