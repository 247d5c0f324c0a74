//! One request to a board and what became of it. Each has a connection of its own, time limits, and a bound on what is read.

use std::fs::File;
use std::io::{self, Read as _};

use gua_wire::archive::{Listing, Object, prune_path};
use gua_wire::refusal::{is_success, sentence};
use gua_wire::server_url::{ARCHIVES, CLAIM, OBSERVATIONS};
use gua_wire::{ClaimAnswer, ClaimRequest, CloudConfig, Snapshot, Token};
use ureq::http::Request;

use super::connection::{Limits, Overdue, overdue};
use super::endpoint::{ConnectError, Endpoint};
use super::http::exchange;

/// So much of an answer is looked into where nothing else is asked for: more than any refusal needs.
const REFUSAL_BYTES: u64 = 64 * 1024;

/// A list of files for some tens of years.
const LISTING_BYTES: u64 = 4 * 1024 * 1024;

/// Speaks to one board.
#[derive(Clone, Debug)]
pub struct Client {
    way: Endpoint,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub method: Method,
    /// The path below the board's address, with its query.
    pub path: &'a str,
    /// Sent as the bearer; whether or not it is, the board's words are shown without it.
    pub secret: &'a Token,
    pub bearer: Bearer,
    pub body: Body<'a>,
    pub limits: Limits,
    /// So many bytes of a success are wanted; 0 where the status says all.
    pub wanted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Delete,
}

/// Whether the secret authorizes the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearer {
    Sent,
    /// The claim carries its token in the body.
    NotSent,
}

#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    None,
    Json(&'a str),
    /// A file from its beginning, compressed.
    Gzip(&'a File),
}

/// A success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// At most as much as was wanted.
    pub body: Vec<u8>,
}

/// Why a request was no success. Every message is one sentence, without a secret.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("could not reach GUA Board server")]
    Unreachable(#[source] ConnectError),
    #[error("could not reach GUA Board server: the connection broke off")]
    Broken(#[source] io::Error),
    #[error("could not reach GUA Board server: {0}")]
    Late(Overdue),
    /// The board's sentence, as [`gua_wire::refusal`] makes it.
    #[error("{sentence}")]
    Refused { status: u16, sentence: String },
    #[error("the server did not answer as a GUA Board does")]
    Garbage(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the board's answer is longer than {0} bytes")]
    TooLong(u64),
    #[error("a push failed by a fault of gua itself")]
    Panicked,
}

impl CallError {
    /// Whether the same request may succeed later. Only what a server says about the request itself stays said: a token may
    /// be accepted again, an address come back, a redirect end.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            CallError::Refused { status, .. } => !matches!(status, 400 | 413 | 422),
            _ => true,
        }
    }
}

impl Client {
    #[must_use]
    pub fn new(way: Endpoint) -> Self {
        Self { way }
    }

    #[must_use]
    pub fn way(&self) -> &Endpoint {
        &self.way
    }

    /// Spends a one-time token on a place at the board.
    ///
    /// # Errors
    /// When the board does not grant it, or its answer cannot be used.
    pub fn claim(&self, claim: &ClaimRequest, secret: &Token) -> Result<ClaimAnswer, CallError> {
        let answer = self.call(Call {
            method: Method::Post,
            path: CLAIM,
            secret,
            bearer: Bearer::NotSent,
            body: Body::Json(&claim.body()),
            limits: Limits::CALL,
            wanted: REFUSAL_BYTES,
        })?;
        ClaimAnswer::read(&answer.body).map_err(|error| CallError::Garbage(error.into()))
    }

    /// Sends the state of the host.
    ///
    /// # Errors
    /// When the board did not take it.
    pub fn push(&self, snapshot: &Snapshot, config: &CloudConfig) -> Result<(), CallError> {
        self.push_body(&snapshot.body(), config)
    }

    /// The same for a snapshot that was written down before.
    pub fn push_body(&self, body: &str, config: &CloudConfig) -> Result<(), CallError> {
        let call = Call {
            method: Method::Post,
            path: OBSERVATIONS,
            secret: &config.agent_token,
            bearer: Bearer::Sent,
            body: Body::Json(body),
            limits: Limits::CALL,
            wanted: 0,
        };
        self.call(call).map(|_| ())
    }

    /// Which files of the archive the board has of this host.
    ///
    /// # Errors
    /// When it does not say.
    pub fn archives(&self, config: &CloudConfig) -> Result<Listing, CallError> {
        let answer = self.call(Call {
            wanted: LISTING_BYTES,
            ..Call::get(ARCHIVES, config)
        })?;
        Listing::read(&answer.body).map_err(|error| CallError::Garbage(error.into()))
    }

    /// Asks something that changes nothing, to see whether the board answers and knows this host.
    ///
    /// # Errors
    /// When it does not.
    pub fn ask(&self, config: &CloudConfig, limits: Limits) -> Result<(), CallError> {
        let call = Call {
            limits,
            ..Call::get(ARCHIVES, config)
        };
        self.call(call).map(|_| ())
    }

    /// Gives the board a file of the archive, which takes the place of one that it has.
    ///
    /// # Errors
    /// When the board did not take it.
    pub fn put_archive(
        &self,
        object: Object,
        file: &File,
        config: &CloudConfig,
    ) -> Result<(), CallError> {
        let path = object.path();
        let call = Call {
            method: Method::Post,
            body: Body::Gzip(file),
            limits: Limits::UPLOAD,
            ..Call::get(&path, config)
        };
        self.call(call).map(|_| ())
    }

    /// Asks the board to delete what is older.
    ///
    /// # Errors
    /// When the board does not.
    pub fn prune_archives(
        &self,
        retention_days: u32,
        config: &CloudConfig,
    ) -> Result<(), CallError> {
        let path = prune_path(retention_days);
        let call = Call {
            method: Method::Delete,
            ..Call::get(&path, config)
        };
        self.call(call).map(|_| ())
    }

    /// Makes one request.
    ///
    /// # Errors
    /// When there was no answer in time, none that could be understood, or none that is a success.
    pub fn call(&self, call: Call<'_>) -> Result<Answer, CallError> {
        let line = self.way.open(call.limits).map_err(CallError::Unreachable)?;
        let failed = |error: ureq::Error| call.failed(error);
        let response = match call.body {
            Body::None => exchange(line, call.request(&self.way, None, &[][..])),
            Body::Json(text) => exchange(
                line,
                call.request(&self.way, Some("application/json"), text),
            ),
            Body::Gzip(file) => exchange(
                line,
                call.request(&self.way, Some("application/gzip"), file),
            ),
        };
        let mut response = response.map_err(failed)?;
        let status = response.status().as_u16();
        let body = response.body_mut();
        if !is_success(status) {
            let mut told = Vec::new();
            // What did not come in time is not shown; the status was enough to know.
            let _ = body.as_reader().take(REFUSAL_BYTES).read_to_end(&mut told);
            return Err(CallError::Refused {
                status,
                sentence: refused(status, &told, call.secret),
            });
        }
        let mut bytes = Vec::new();
        if call.wanted > 0 {
            let mut bounded = body.as_reader().take(call.wanted + 1);
            let read = bounded.read_to_end(&mut bytes);
            read.map_err(|error| failed(error.into()))?;
            if bytes.len() as u64 > call.wanted {
                return Err(CallError::TooLong(call.wanted));
            }
        }
        Ok(Answer {
            status,
            body: bytes,
        })
    }
}

impl<'a> Call<'a> {
    /// A request of an enrolled host that sends nothing and wants only the status.
    fn get(path: &'a str, config: &'a CloudConfig) -> Self {
        Call {
            method: Method::Get,
            path,
            secret: &config.agent_token,
            bearer: Bearer::Sent,
            body: Body::None,
            limits: Limits::CALL,
            wanted: 0,
        }
    }

    fn request<B>(&self, way: &Endpoint, kind: Option<&str>, body: B) -> Request<B> {
        let method = match self.method {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        };
        let mut request = Request::builder()
            .method(method)
            .uri(way.board().at(self.path));
        if self.bearer == Bearer::Sent {
            request = request.header("Authorization", self.secret.bearer());
        }
        if let Some(kind) = kind {
            request = request.header("Content-Type", kind);
        }
        request
            .body(body)
            .expect("the address and the token have only printable ASCII characters")
    }

    /// What a failed exchange was.
    fn failed(&self, error: ureq::Error) -> CallError {
        match error {
            ureq::Error::Io(error) => match as_http(error) {
                Ok(error) => match overdue(&error) {
                    Some(limit) => CallError::Late(limit),
                    None => CallError::Broken(error),
                },
                Err(error) => CallError::Garbage(error.into()),
            },
            error => CallError::Garbage(error.into()),
        }
    }
}

/// While a body is read, ureq puts its own errors into those of `io`.
fn as_http(error: io::Error) -> Result<io::Error, ureq::Error> {
    if !error
        .get_ref()
        .is_some_and(|inner| inner.is::<ureq::Error>())
    {
        return Ok(error);
    }
    match ureq::Error::from(error) {
        ureq::Error::Io(error) => Ok(error),
        other => Err(other),
    }
}

fn refused(status: u16, body: &[u8], secret: &Token) -> String {
    let mut told = sentence(status, body, secret);
    if (300..400).contains(&status) {
        told.push_str("; gua follows no redirect, since the token would go along");
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_server_says_about_the_request_itself_is_final() {
        let may_pass = |status: u16| {
            let sentence = String::new();
            CallError::Refused { status, sentence }.may_pass()
        };
        let is_final: Vec<u16> = (100..600).filter(|status| !may_pass(*status)).collect();
        assert_eq!(is_final, [400, 413, 422]);
        assert!(CallError::TooLong(1).may_pass());
    }
}
