//! Requests to a board. Each has its own connection, time limits and a maximum response size.

use std::fs::File;
use std::io::{self, Read as _};

use gua_wire::archive::{Listing, Object, prune_path};
use gua_wire::refusal::{is_success, sentence};
use gua_wire::server_url::{ARCHIVES, CLAIM, OBSERVATIONS};
use gua_wire::{ClaimAnswer, ClaimRequest, CloudConfig, Snapshot, Token};
use ureq::http::Request;

use super::connection::{Limits, TimeoutError, timeout_of};
use super::endpoint::{ConnectError, Endpoint};
use super::http::exchange;

/// Maximum size of an error response, and of a response without a larger limit.
const REFUSAL_BYTES: u64 = 64 * 1024;

/// Maximum size of the archive listing: enough for decades.
const LISTING_BYTES: u64 = 4 * 1024 * 1024;

/// Client of one board.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: Endpoint,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub method: Method,
    /// Path and query below the board's URL.
    pub path: &'a str,
    /// The token; it is removed from the board's messages in any case.
    pub secret: &'a Token,
    pub bearer: Bearer,
    pub body: Body<'a>,
    pub limits: Limits,
    /// Maximum size of the response body; 0 ignores the body.
    pub max_body: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Delete,
}

/// Whether the token is sent in the `Authorization` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearer {
    Sent,
    /// The claim has its token in the body.
    NotSent,
}

#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    None,
    Json(&'a str),
    /// A gzip file.
    Gzip(&'a File),
}

/// A successful response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// At most [`Call::max_body`] bytes.
    pub body: Vec<u8>,
}

/// Why a request failed. No message contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("could not reach GUA Board server")]
    Unreachable(#[source] ConnectError),
    #[error("could not reach GUA Board server: the connection was lost")]
    Broken(#[source] io::Error),
    #[error("could not reach GUA Board server: {0}")]
    Timeout(TimeoutError),
    /// The board's message, formatted by [`gua_wire::refusal`].
    #[error("{sentence}")]
    Refused { status: u16, sentence: String },
    #[error("the response is not that of a GUA Board")]
    Garbage(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the board's response is longer than {0} bytes")]
    TooLong(u64),
    #[error("internal error: the push panicked")]
    Panicked,
}

impl CallError {
    /// Whether the same request may succeed later. Only errors about the request itself are final: a token may be accepted
    /// again, a host may come back, a redirect may end.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            CallError::Refused { status, .. } => !matches!(status, 400 | 413 | 422),
            _ => true,
        }
    }
}

impl Client {
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Enrols this host with a one-time token.
    ///
    /// # Errors
    /// If the board refuses, or its response is invalid.
    pub fn claim(&self, claim: &ClaimRequest, secret: &Token) -> Result<ClaimAnswer, CallError> {
        let answer = self.call(Call {
            method: Method::Post,
            path: CLAIM,
            secret,
            bearer: Bearer::NotSent,
            body: Body::Json(&claim.body()),
            limits: Limits::CALL,
            max_body: REFUSAL_BYTES,
        })?;
        ClaimAnswer::read(&answer.body).map_err(|error| CallError::Garbage(error.into()))
    }

    /// Pushes the state of the host.
    ///
    /// # Errors
    /// If the board did not accept it.
    pub fn push(&self, snapshot: &Snapshot, config: &CloudConfig) -> Result<(), CallError> {
        self.push_body(&snapshot.body(), config)
    }

    /// Pushes an encoded snapshot.
    pub fn push_body(&self, body: &str, config: &CloudConfig) -> Result<(), CallError> {
        let call = Call {
            method: Method::Post,
            path: OBSERVATIONS,
            secret: &config.agent_token,
            bearer: Bearer::Sent,
            body: Body::Json(body),
            limits: Limits::CALL,
            max_body: 0,
        };
        self.call(call).map(|_| ())
    }

    /// Lists the archive files that the board has of this host.
    ///
    /// # Errors
    /// If the request fails.
    pub fn archives(&self, config: &CloudConfig) -> Result<Listing, CallError> {
        let answer = self.call(Call {
            max_body: LISTING_BYTES,
            ..Call::get(ARCHIVES, config)
        })?;
        Listing::read(&answer.body).map_err(|error| CallError::Garbage(error.into()))
    }

    /// Sends a request without effect, to check that the board responds and knows this host.
    ///
    /// # Errors
    /// If the request fails.
    pub fn check(&self, config: &CloudConfig, limits: Limits) -> Result<(), CallError> {
        let call = Call {
            limits,
            ..Call::get(ARCHIVES, config)
        };
        self.call(call).map(|_| ())
    }

    /// Uploads a file of the archive; it replaces an existing one.
    ///
    /// # Errors
    /// If the board did not accept it.
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

    /// Deletes archive files that are older than the retention.
    ///
    /// # Errors
    /// If the request fails.
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
    /// If there is no response in time, or it is invalid or not a success.
    pub fn call(&self, call: Call<'_>) -> Result<Answer, CallError> {
        let connection = self
            .endpoint
            .connect(call.limits)
            .map_err(CallError::Unreachable)?;
        let failed = |error: ureq::Error| call.failed(error);
        let response = match call.body {
            Body::None => exchange(connection, call.request(&self.endpoint, None, &[][..])),
            Body::Json(text) => exchange(
                connection,
                call.request(&self.endpoint, Some("application/json"), text),
            ),
            Body::Gzip(file) => exchange(
                connection,
                call.request(&self.endpoint, Some("application/gzip"), file),
            ),
        };
        let mut response = response.map_err(failed)?;
        let status = response.status().as_u16();
        let body = response.body_mut();
        if !is_success(status) {
            let mut bytes = Vec::new();
            // The status is sufficient if the body does not arrive in time.
            let _ = body.as_reader().take(REFUSAL_BYTES).read_to_end(&mut bytes);
            return Err(CallError::Refused {
                status,
                sentence: refused(status, &bytes, call.secret),
            });
        }
        let mut bytes = Vec::new();
        if call.max_body > 0 {
            let mut bounded = body.as_reader().take(call.max_body + 1);
            let read = bounded.read_to_end(&mut bytes);
            read.map_err(|error| failed(error.into()))?;
            if bytes.len() as u64 > call.max_body {
                return Err(CallError::TooLong(call.max_body));
            }
        }
        Ok(Answer {
            status,
            body: bytes,
        })
    }
}

impl<'a> Call<'a> {
    /// A request of an enrolled host without a body, of which only the status matters.
    fn get(path: &'a str, config: &'a CloudConfig) -> Self {
        Call {
            method: Method::Get,
            path,
            secret: &config.agent_token,
            bearer: Bearer::Sent,
            body: Body::None,
            limits: Limits::CALL,
            max_body: 0,
        }
    }

    fn request<B>(&self, endpoint: &Endpoint, kind: Option<&str>, body: B) -> Request<B> {
        let method = match self.method {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        };
        let mut request = Request::builder()
            .method(method)
            .uri(endpoint.board().at(self.path));
        if self.bearer == Bearer::Sent {
            request = request.header("Authorization", self.secret.bearer());
        }
        if let Some(kind) = kind {
            request = request.header("Content-Type", kind);
        }
        request
            .body(body)
            .expect("the URL and the token consist of printable ASCII characters")
    }

    /// Classifies the error of an exchange.
    fn failed(&self, error: ureq::Error) -> CallError {
        match error {
            ureq::Error::Io(error) => match as_http(error) {
                Ok(error) => match timeout_of(&error) {
                    Some(limit) => CallError::Timeout(limit),
                    None => CallError::Broken(error),
                },
                Err(error) => CallError::Garbage(error.into()),
            },
            error => CallError::Garbage(error.into()),
        }
    }
}

/// Unwraps an error of ureq, which wraps its own errors in `io::Error` while a body is read.
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
    let mut message = sentence(status, body, secret);
    if (300..400).contains(&status) {
        message.push_str("; gua does not follow redirects, because it would send the token along");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_about_the_request_itself_are_final() {
        let is_retryable = |status: u16| {
            let sentence = String::new();
            CallError::Refused { status, sentence }.is_retryable()
        };
        let is_final: Vec<u16> = (100..600).filter(|status| !is_retryable(*status)).collect();
        assert_eq!(is_final, [400, 413, 422]);
        assert!(CallError::TooLong(1).is_retryable());
    }
}
