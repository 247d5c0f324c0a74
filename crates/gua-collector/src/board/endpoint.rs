//! Connection to a board: directly or through a proxy, with or without TLS. ureq connects, for requests and for the
//! stream; each step of a connection has its own error.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use gua_model::chain::chain;
use gua_probe::clock;
use gua_settings::Proxies;
use gua_wire::server_url::{Insecure, Scheme, Unencrypted};
use gua_wire::{Pin, ServerUrl};
use rustls::CertificateError;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::time::Instant;
use ureq::unversioned::transport::{
    ConnectProxyConnector, ConnectionDetails, Connector, NextTimeout, Transport, TransportAdapter,
};
use ureq::{Agent, Error, Timeout};

use super::connection::{Connection, Limits, TcpConnector};
use super::proxy::{ProxyError, proxy_of};
use super::tls::{TlsConnector, TlsError, certificates, trust_authorities, trust_pin};

/// Maximum size of a response head.
const MAX_HEAD: usize = 64 * 1024;
const BUFFER: usize = 16 * 1024;

/// A board with the proxy and TLS configuration to reach it. Nothing is contacted before a request.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(super) board: ServerUrl,
    pub(super) agent: Agent,
    tls: TlsConnector,
}

/// Options for connections to boards.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    pub unencrypted: Unencrypted,
    /// CA certificates that are trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// Pin of the only certificate to accept, for a board with a self-signed certificate.
    pub pin: Option<Pin>,
    pub proxies: Proxies,
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error(transparent)]
    Insecure(#[from] Insecure),
    #[error(transparent)]
    Trust(#[from] TlsError),
    #[error("a pin needs an https URL")]
    PinWithoutTls,
    #[error("invalid proxy setting")]
    Proxy(#[from] ProxyError),
}

/// Why a connection failed: the step and its error.
#[derive(Debug, thiserror::Error)]
#[error("{step}")]
pub struct ConnectError {
    step: String,
    source: io::Error,
}

impl ConnectError {
    /// Advice for the user, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self.source.get_ref()?.downcast_ref::<rustls::Error>()? {
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => Some(
                "if the board's certificate was issued by a private CA, pass the CA certificate with --ca-file; if the board made it, enrol with the line of its page Servers, which has a --pin",
            ),
            rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
                Some(
                    "the board's certificate is not the one of the --pin that this host was enrolled with; if it was replaced on purpose, enrol again",
                )
            }
            _ => None,
        }
    }
}

impl Endpoint {
    /// Creates the endpoint of a board.
    ///
    /// # Errors
    /// If a token would be sent unencrypted, certificates cannot be read, or the proxy setting is invalid.
    pub fn new(board: &ServerUrl, options: &ConnectOptions) -> Result<Self, EndpointError> {
        board.check_encrypted(options.unencrypted)?;
        let ca_file = options.ca_file.as_deref();
        let tls = TlsConnector(match (board.scheme(), options.pin) {
            (Scheme::Https, Some(pin)) => Some(trust_pin(pin)),
            (Scheme::Https, None) => Some(trust_authorities(ca_file)?),
            (Scheme::Http, Some(_)) => return Err(EndpointError::PinWithoutTls),
            // Not needed here, but an invalid file is still an error.
            (Scheme::Http, None) => {
                ca_file.map(certificates).transpose()?;
                None
            }
        });
        // Redirects are not followed, and no status is an error.
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(0)
            .max_response_header_size(MAX_HEAD)
            .input_buffer_size(BUFFER)
            .output_buffer_size(BUFFER)
            .proxy(proxy_of(board, &options.proxies)?)
            .timeout_connect(Some(Limits::CALL.connect))
            .timeout_global(Some(Limits::CALL.whole))
            .user_agent(concat!("gua/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .build();
        Ok(Self {
            board: board.clone(),
            agent: Agent::with_parts(config, steps(tls.clone()), NamingResolver::default()),
            tls,
        })
    }

    /// Opens the connection of the stream within [`Limits::CALL`], which also limits its handshake.
    ///
    /// # Errors
    /// If the board cannot be reached in time, or its certificate is not valid for its name.
    pub(super) fn connect(&self) -> Result<Connection, Error> {
        let began = clock::monotonic();
        let config = self.agent.config();
        let uri: Uri = self
            .board
            .to_string()
            .parse()
            .map_err(ureq::http::Error::from)?;
        let timeout = |reason| NextTimeout {
            after: Limits::CALL.connect.into(),
            reason,
            ..NextTimeout::default()
        };
        let resolver = NamingResolver::default();
        let addrs = match config.proxy() {
            None => resolver.resolve(&uri, config, timeout(Timeout::Resolve))?,
            Some(_) => resolver.empty(),
        };
        let now = Arc::new(Instant::now);
        let tls = self.tls.clone();
        let run = move |details: &ConnectionDetails<'_>| {
            let transport = steps(tls.clone()).connect(details, None)?;
            Ok(transport.ok_or(Error::ConnectionFailed)?.boxed())
        };
        let transport = run(&ConnectionDetails {
            uri: &uri,
            addrs,
            config,
            request_level: false,
            resolver: &resolver,
            now: Instant::now(),
            timeout: timeout(Timeout::Connect),
            current_time: now.clone(),
            run_connector: Arc::new(run.clone()),
            register_shutdown: Arc::new(|_| Ok(())),
        })?;
        let took = clock::monotonic().saturating_sub(began);
        let left = Limits::CALL.whole.saturating_sub(took);
        Ok(Connection::new(TransportAdapter::new(transport, now), left))
    }
}

/// The steps of a connection: a tunnel if there is a proxy, else a socket; then TLS if the board has it.
fn steps(tls: TlsConnector) -> impl Connector {
    let tunnel = Step(ConnectProxyConnector::default(), |details| {
        let proxy = details.config.proxy();
        let proxy = proxy.map_or_else(String::new, |it| format!("{}:{}", it.host(), it.port()));
        format!("the connection through proxy {proxy} failed")
    });
    let socket = Step(TcpConnector, |details| {
        format!("cannot connect to `{}`", place(details.uri))
    });
    let tls = Step(tls, |details| {
        format!("TLS handshake with `{}` failed", host(details.uri))
    });
    ().chain(tunnel).chain(socket).chain(tls)
}

/// A step of a connection, and what its failure is called.
#[derive(Debug)]
struct Step<C>(C, fn(&ConnectionDetails<'_>) -> String);

impl<In: Transport, C: Connector<In>> Connector<In> for Step<C> {
    type Out = C::Out;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<C::Out>, Error> {
        let connected = self.0.connect(details, chained);
        connected.map_err(|error| named(error, details.config, || (self.1)(details)))
    }
}

/// Resolves host names, and names the one that cannot be resolved.
#[derive(Debug, Default)]
struct NamingResolver(DefaultResolver);

impl Resolver for NamingResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let resolved = self.0.resolve(uri, config, timeout);
        resolved.map_err(|error| named(error, config, || format!("cannot resolve `{}`", host(uri))))
    }
}

/// Wraps the error of a step, unless that has happened: the tunnel consists of steps, too.
fn named(error: Error, config: &Config, step: impl FnOnce() -> String) -> Error {
    let source = match error {
        Error::Other(_) => return error,
        Error::Timeout(reason) => Limits::of(config).exceeded(reason).into(),
        Error::ConnectProxyFailed(reason) => io::Error::other(reason),
        error => error.into_io(),
    };
    let step = step();
    Error::Other(Box::new(ConnectError { step, source }))
}

/// Describes the error of a request or of a connection. ureq would add text of its own to the error of a step.
pub(super) fn cause(error: Error) -> String {
    match error {
        Error::Other(error) => chain(&*error),
        error => chain(&error),
    }
}

fn host(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    host.trim_matches(['[', ']']).to_owned()
}

fn place(uri: &Uri) -> String {
    let port = match uri.scheme_str() {
        Some("https") => 443,
        _ => 80,
    };
    let port = uri.port_u16().unwrap_or(port);
    format!("{}:{port}", uri.host().unwrap_or_default())
}
