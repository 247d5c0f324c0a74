//! HTTP over a [`Connection`]: ureq speaks it, and brings no connection of its own.

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

/// A head of an answer that is longer is refused.
const LONGEST_HEAD: usize = 64 * 1024;
const BUFFER: usize = 16 * 1024;

/// Sends a request and returns its answer once the head is there. Redirects are not followed, and no status is an error.
pub(super) fn exchange(
    line: Connection,
    request: Request<impl AsSendBody>,
) -> Result<Response<Body>, Error> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(0)
        .max_response_header_size(LONGEST_HEAD)
        .input_buffer_size(BUFFER)
        .output_buffer_size(BUFFER)
        // Otherwise it would look into the environment by itself.
        .proxy(None)
        .user_agent(concat!("gua/", env!("CARGO_PKG_VERSION")))
        .accept("application/json")
        .build();
    let agent = Agent::with_parts(config, HandOver(Mutex::new(Some(line))), Nowhere);
    agent.run(request)
}

/// Gives the connection away, once.
struct HandOver(Mutex<Option<Connection>>);

impl Connector for HandOver {
    type Out = OverLine;

    fn connect(&self, _: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<OverLine>, Error> {
        let line = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(line.map(|line| OverLine {
            line,
            buffers: LazyBuffers::new(BUFFER, BUFFER),
        }))
    }
}

impl fmt::Debug for HandOver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("HandOver")
    }
}

/// The connection is there already, and a proxy resolves the name itself: there is nothing to look up.
#[derive(Debug)]
struct Nowhere;

impl Resolver for Nowhere {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut one = self.empty();
        one.push(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        Ok(one)
    }
}

#[derive(Debug)]
struct OverLine {
    line: Connection,
    buffers: LazyBuffers,
}

impl Transport for OverLine {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
        let bytes = &self.buffers.output()[..amount];
        self.line.write_all(bytes)?;
        Ok(self.line.flush()?)
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
        let free = self.buffers.input_append_buf();
        let amount = self.line.read(free)?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        false
    }

    fn is_tls(&self) -> bool {
        self.line.is_encrypted()
    }
}
