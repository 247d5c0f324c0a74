//! HTTP over a [`Connection`]: ureq implements the protocol but does not open connections itself.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use ureq::config::Config;
use ureq::http::{Request, Response, Uri};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Agent, AsSendBody, Body, Error};

use super::connection::Connection;

/// Maximum size of a response head.
const MAX_HEAD: usize = 64 * 1024;
const BUFFER: usize = 16 * 1024;

/// Sends a request and returns the response when its head has arrived. Redirects are not followed, and no status is an
/// error.
pub(super) fn exchange(
    connection: Connection,
    request: Request<impl AsSendBody>,
) -> Result<Response<Body>, Error> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(0)
        .max_response_header_size(MAX_HEAD)
        .input_buffer_size(BUFFER)
        .output_buffer_size(BUFFER)
        // Otherwise ureq would read the proxy variables itself.
        .proxy(None)
        .user_agent(concat!("gua/", env!("CARGO_PKG_VERSION")))
        .accept("application/json")
        .build();
    let agent = Agent::with_parts(config, SingleUse(Mutex::new(Some(connection))), NoResolver);
    agent.run(request)
}

/// A connector that returns the given connection, once.
struct SingleUse(Mutex<Option<Connection>>);

impl Connector for SingleUse {
    type Out = ConnectionTransport;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<ConnectionTransport>, Error> {
        let connection = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(connection.map(|connection| ConnectionTransport {
            connection,
            buffers: LazyBuffers::new(BUFFER, BUFFER),
        }))
    }
}

impl fmt::Debug for SingleUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SingleUse")
    }
}

/// A resolver that returns a dummy address, because the connection is already open.
#[derive(Debug)]
struct NoResolver;

impl Resolver for NoResolver {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut one = self.empty();
        one.push(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        Ok(one)
    }
}

#[derive(Debug)]
struct ConnectionTransport {
    connection: Connection,
    buffers: LazyBuffers,
}

impl Transport for ConnectionTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
        let bytes = &self.buffers.output()[..amount];
        self.connection.write_all(bytes)?;
        Ok(self.connection.flush()?)
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
        let free = self.buffers.input_append_buf();
        let amount = self.connection.read(free)?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        false
    }

    fn is_tls(&self) -> bool {
        self.connection.is_encrypted()
    }
}
