//! Connects to a board: directly or through a proxy, with or without TLS, within the time limits.

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

use super::connection::{Connection, Deadline, Limits, TimedSocket, timed_out};
use super::proxy::{Proxies, Proxy, ProxyError};
use super::tls::{TlsError, certificates, client_config};

/// Maximum size of a proxy's response head.
const MAX_PROXY_RESPONSE: usize = 16 * 1024;
/// Time without an acknowledgement after which the kernel drops a connection.
const DEAD_AFTER: Duration = Duration::from_secs(30);

/// A board with the proxy and TLS configuration to reach it. Nothing is contacted before [`Endpoint::connect`].
#[derive(Clone, Debug)]
pub struct Endpoint {
    board: ServerUrl,
    proxy: Option<Proxy>,
    tls: Option<Arc<ClientConfig>>,
}

/// Options for connections to boards.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    pub unencrypted: Unencrypted,
    /// CA certificates that are trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
    pub proxies: Proxies,
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error(transparent)]
    Insecure(#[from] Insecure),
    #[error(transparent)]
    Trust(#[from] TlsError),
    #[error("invalid proxy setting")]
    Proxy(#[from] ProxyError),
}

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot resolve `{host}`")]
    Name { host: String, source: io::Error },
    #[error("cannot connect to `{place}`")]
    Connect { place: String, source: io::Error },
    #[error("the connection to proxy {proxy} failed")]
    Proxy { proxy: Proxy, source: io::Error },
    #[error("proxy {proxy} refused the connection with HTTP {status}")]
    ProxyRefused { proxy: Proxy, status: u16 },
    #[error("proxy {proxy} sent an invalid HTTP response")]
    ProxyGarbage { proxy: Proxy },
    #[error("TLS handshake with `{host}` failed")]
    Tls { host: String, source: io::Error },
}

impl ConnectError {
    /// What the user can do about it, if known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        let ConnectError::Tls { source, .. } = self else {
            return None;
        };
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let cause = source.get_ref()?.downcast_ref::<rustls::Error>()?;
        (*cause == unknown).then_some(
            "if the board's certificate was issued by a private CA, pass the CA certificate with --ca-file",
        )
    }
}

impl Endpoint {
    /// Creates the endpoint of a board.
    ///
    /// # Errors
    /// If a token would be sent unencrypted, certificates cannot be read, or the proxy setting is invalid.
    pub fn new(board: &ServerUrl, options: &ConnectOptions) -> Result<Self, EndpointError> {
        board.check_encrypted(options.unencrypted)?;
        let tls = match board.scheme() {
            Scheme::Https => Some(client_config(options.ca_file.as_deref())?),
            // Not needed here, but an invalid file is still an error.
            Scheme::Http => {
                options.ca_file.as_deref().map(certificates).transpose()?;
                None
            }
        };
        Ok(Self {
            board: board.clone(),
            proxy: options.proxies.for_board(board)?,
            tls,
        })
    }

    #[must_use]
    pub fn board(&self) -> &ServerUrl {
        &self.board
    }

    /// Opens a connection. All time limits start now.
    ///
    /// # Errors
    /// If the board cannot be reached in time, or its certificate is not valid for its name.
    pub fn connect(&self, limits: Limits) -> Result<Connection, ConnectError> {
        let began = clock::monotonic();
        let whole = Deadline::after(began, limits.whole);
        let until = whole.sooner(Deadline::after(began, limits.connect));
        let (host, port) = match &self.proxy {
            Some(proxy) => (proxy.host.as_str(), proxy.port),
            None => (self.board.host(), self.board.port()),
        };
        let socket = connect(host, port, until)?;
        let mut socket = TimedSocket::new(socket, until, limits.silence);
        if let Some(proxy) = &self.proxy {
            self.open_tunnel(proxy, &mut socket)?;
        }
        let mut connection = match &self.tls {
            Some(config) => self.start_tls(config, socket)?,
            None => Connection::plain(socket),
        };
        connection.set_deadline(whole, limits.silence);
        Ok(connection)
    }

    /// Opens a tunnel through the proxy.
    fn open_tunnel(&self, proxy: &Proxy, socket: &mut TimedSocket) -> Result<(), ConnectError> {
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
        // Byte by byte, because data after the response comes from the board.
        let mut response = Vec::new();
        let mut byte = [0];
        while !response.ends_with(b"\r\n\r\n") && response.len() < MAX_PROXY_RESPONSE {
            if socket.read(&mut byte).map_err(broken)? == 0 {
                return Err(broken(io::ErrorKind::UnexpectedEof.into()));
            }
            response.extend(byte);
        }
        match status(&response) {
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

    fn start_tls(
        &self,
        config: &Arc<ClientConfig>,
        socket: TimedSocket,
    ) -> Result<Connection, ConnectError> {
        let host = self.board.host();
        let failed = |source| ConnectError::Tls {
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

/// Status code of an HTTP response.
fn status(response: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(response).ok()?.lines().next()?;
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

/// Connects to one of the addresses of a host name. The remaining time is divided among them, so that a dead address
/// leaves time for the next one.
fn connect(host: &str, port: u16, until: Deadline) -> Result<TcpStream, ConnectError> {
    let addresses = resolve(host, port, until)?;
    let mut problem = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for (tried, address) in addresses.iter().enumerate() {
        let shares = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let connected = until.left().and_then(|left| {
            let share = left / shares;
            TcpStream::connect_timeout(address, share).map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => timed_out(share),
                _ => error,
            })
        });
        match connected {
            Ok(socket) => {
                // Otherwise a small request would wait to be combined with more data.
                let _ = socket.set_nodelay(true);
                detect_dead_peer(&socket);
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

/// Lets the kernel drop a connection whose peer has disappeared, both while sending and while idle. If an option is not
/// supported, the longer limits of the system apply.
fn detect_dead_peer(socket: &TcpStream) {
    let limit = u32::try_from(DEAD_AFTER.as_millis()).unwrap_or(u32::MAX);
    let _ = sockopt::set_tcp_user_timeout(socket, limit);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, DEAD_AFTER / 3);
    let _ = sockopt::set_tcp_keepintvl(socket, DEAD_AFTER / 3);
}

/// Resolves a host name. The system's resolver has no time limit, so it runs on a thread that is abandoned after a timeout.
fn resolve(host: &str, port: u16, until: Deadline) -> Result<Vec<SocketAddr>, ConnectError> {
    let failed = |source| ConnectError::Name {
        host: host.to_owned(),
        source,
    };
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    let name = (host.to_owned(), port);
    let resolve = move || {
        let addresses = name.to_socket_addrs();
        // Fails if the receiver has timed out.
        let _ = sender.send(addresses.map(Iterator::collect::<Vec<_>>));
    };
    thread::Builder::new()
        .name("resolve".to_owned())
        .spawn(resolve)
        .map_err(failed)?;
    let left = until.left().map_err(failed)?;
    match receiver.recv_timeout(left) {
        Ok(addresses) => addresses.map_err(failed),
        Err(_) => Err(failed(timed_out(left))),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn the_kernel_detects_a_dead_board_within_half_a_minute() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let options = ConnectOptions {
            unencrypted: Unencrypted::LoopbackOnly,
            ca_file: None,
            proxies: Proxies::default(),
        };
        let endpoint = Endpoint::new(&ServerUrl::parse(&url).unwrap(), &options).unwrap();
        let connection = endpoint.connect(Limits::CALL).unwrap();
        // While sending, and while idle.
        assert_eq!(sockopt::tcp_user_timeout(&connection).unwrap(), 30_000);
        assert!(sockopt::socket_keepalive(&connection).unwrap());
        let idle = sockopt::tcp_keepidle(&connection).unwrap();
        let between = sockopt::tcp_keepintvl(&connection).unwrap();
        assert!(idle + between <= DEAD_AFTER, "{idle:?} {between:?}");
    }
}
