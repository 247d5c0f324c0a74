//! Requests to a board, and to other servers with the same connection options. Each has its own connection, time limits and a
//! maximum response size.

use std::fs::File;
use std::io::{self, Read as _};

use gua_model::chain::chain;
use gua_wire::archive::{Listing, Object, prune_path};
use gua_wire::live::{ACCEPTS_HEADER, FORMAT, NEW_TOKEN as TOKEN_FORMAT};
use gua_wire::refusal::sentence;
use gua_wire::server_url::{ARCHIVES, CLAIM, LIVE, NAMES, NEW_TOKEN, OBSERVATIONS};
use gua_wire::{ClaimRequest, CloudConfig, Pin, ServerUrl, Token};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use ureq::AsSendBody;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE};
use ureq::http::request::Builder;
use ureq::http::{HeaderMap, Request, Response};

use super::connection::{Limits, TimeoutError};
use super::endpoint::{ConnectError, ConnectOptions, Endpoint, cause};
use super::enrolment::Enrolled;

/// Maximum size of an error response, and of a response without a larger limit.
const REFUSAL_BYTES: u64 = 64 * 1024;

/// Maximum size of the archive listing: enough for decades.
const LISTING_BYTES: u64 = 4 * 1024 * 1024;

/// Maximum size of a document of the API: enough for 100,000 GPUs with their processes.
const DOCUMENT_BYTES: u64 = 512 * 1024 * 1024;

/// Maximum size of the answer of a server other than a board.
const ANSWER_BYTES: u64 = 1 << 20;

const JSON: &str = "application/json";

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
    pub fn is_retryable(&self) -> bool {
        match self {
            CallError::Refused { status, .. } => !matches!(status, 400 | 413 | 422),
            _ => true,
        }
    }
}

impl Endpoint {
    /// Enrols this host with a one-time token.
    ///
    /// # Errors
    /// If the board refuses, or its response is invalid.
    pub fn claim(
        &self,
        claim: &ClaimRequest,
        secret: &Token,
        pin: Option<Pin>,
    ) -> Result<CloudConfig, CallError> {
        // The token is in the body.
        let request = self.request("POST", CLAIM).header(CONTENT_TYPE, JSON);
        let (_, answer) = self.call(request, claim.body(), secret, Limits::CALL, REFUSAL_BYTES)?;
        let board = self.board.clone();
        CloudConfig::enrolled(board, &answer, pin).map_err(garbage)
    }

    /// Reads a document of the board's API with a token of a person.
    ///
    /// # Errors
    /// If the request fails, or the answer is not such a document.
    pub fn read<T: DeserializeOwned>(&self, path: &str, token: &Token) -> Result<T, CallError> {
        let request = self
            .request("GET", path)
            .header(AUTHORIZATION, token.bearer());
        let (_, answer) = self.call(request, (), token, Limits::UPLOAD, DOCUMENT_BYTES)?;
        serde_json::from_slice(&answer).map_err(garbage)
    }

    fn request(&self, method: &str, path: &str) -> Builder {
        let url = self.board.at(path);
        Request::builder().method(method).uri(url)
    }

    /// Makes one request and returns the headers and the body of a successful response, which has at most `max_body`
    /// bytes; 0 ignores the body. The secret is removed from the board's messages.
    fn call(
        &self,
        request: Builder,
        body: impl AsSendBody,
        secret: &Token,
        limits: Limits,
        max_body: u64,
    ) -> Result<(HeaderMap, Vec<u8>), CallError> {
        let agent = &self.agent;
        let request = request
            .body(body)
            .expect("the URL and the token consist of printable ASCII characters");
        let request = agent
            .configure_request(request)
            .timeout_resolve(Some(limits.connect))
            .timeout_connect(Some(limits.connect))
            .timeout_per_read(Some(limits.silence))
            .timeout_per_write(Some(limits.silence))
            .timeout_global(Some(limits.whole))
            .build();
        let failed = |error| failed(error, limits);
        let mut response = agent.run(request).map_err(failed)?;
        let status = response.status().as_u16();
        let body = response.body_mut();
        let mut bytes = Vec::new();
        if !(200..300).contains(&status) {
            // The status is sufficient if the body does not arrive in time.
            let _ = body.as_reader().take(REFUSAL_BYTES).read_to_end(&mut bytes);
            return Err(CallError::Refused {
                status,
                sentence: refused(status, &bytes, secret),
            });
        }
        if max_body > 0 {
            let mut bounded = body.as_reader().take(max_body + 1);
            let read = bounded.read_to_end(&mut bytes);
            read.map_err(|error| failed(error.into()))?;
            if bytes.len() as u64 > max_body {
                return Err(CallError::TooLong(max_body));
            }
        }
        let (parts, _) = response.into_parts();
        Ok((parts.headers, bytes))
    }
}

/// Requests of an enrolled host, with its token.
impl Enrolled {
    /// Pushes an encoded snapshot, and then the live report if the board announces that it accepts one. Returns whether the
    /// board wants this host to replace its token.
    pub(super) fn post(
        &self,
        snapshot: &str,
        live: impl FnOnce() -> Option<String>,
    ) -> Result<bool, CallError> {
        let post = |path: &str, body: &str| {
            let request = self.request("POST", path).header(CONTENT_TYPE, JSON);
            self.call(request, body, Limits::CALL, 0)
        };
        let (headers, _) = post(OBSERVATIONS, snapshot)?;
        if is_announced(&headers, FORMAT)
            && let Some(live) = live()
        {
            post(LIVE, &live)?;
        }
        Ok(is_announced(&headers, TOKEN_FORMAT))
    }

    /// Requests a new agent token, and returns the enrolment with it. The current token is valid until the new one is used.
    pub(super) fn new_token(&self) -> Result<CloudConfig, CallError> {
        let request = self.request("POST", NEW_TOKEN);
        let (_, answer) = self.call(request, (), Limits::CALL, REFUSAL_BYTES)?;
        self.config.with_new_token(&answer).map_err(garbage)
    }

    /// Confirms that a member of the board is a user of this host. Returns the name of the member.
    ///
    /// # Errors
    /// If the code is not valid, or the name belongs to another member.
    pub fn prove_name(&self, code: &Token, user: &str) -> Result<String, CallError> {
        #[derive(Serialize)]
        struct Proof<'a> {
            code: &'a str,
            user: &'a str,
        }
        #[derive(Deserialize)]
        struct Linked {
            account: String,
        }
        let code = code.reveal();
        let body = serde_json::to_string(&Proof { code, user }).expect("strings are always JSON");
        let request = self.request("POST", NAMES).header(CONTENT_TYPE, JSON);
        let (_, answer) = self.call(request, body, Limits::CALL, REFUSAL_BYTES)?;
        let linked: Linked = serde_json::from_slice(&answer).map_err(garbage)?;
        Ok(linked.account)
    }

    /// Lists the archive files that the board has of this host.
    ///
    /// # Errors
    /// If the request fails.
    pub fn archives(&self) -> Result<Listing, CallError> {
        let request = self.request("GET", ARCHIVES);
        let (_, answer) = self.call(request, (), Limits::CALL, LISTING_BYTES)?;
        Listing::read(&answer).map_err(garbage)
    }

    /// Sends a request without effect, to check that the board responds and knows this host.
    ///
    /// # Errors
    /// If the request fails.
    pub fn check(&self, limits: Limits) -> Result<(), CallError> {
        let request = self.request("GET", ARCHIVES);
        self.call(request, (), limits, 0).map(drop)
    }

    /// Uploads a file of the archive; it replaces an existing one.
    ///
    /// # Errors
    /// If the board did not accept it.
    pub fn put_archive(&self, object: Object, file: &File) -> Result<(), CallError> {
        let request = self.request("POST", &object.path());
        let request = request.header(CONTENT_TYPE, "application/gzip");
        self.call(request, file, Limits::UPLOAD, 0).map(drop)
    }

    /// Deletes archive files that are older than the retention.
    ///
    /// # Errors
    /// If the request fails.
    pub fn prune_archives(&self, retention_days: u32) -> Result<(), CallError> {
        let request = self.request("DELETE", &prune_path(retention_days));
        self.call(request, (), Limits::CALL, 0).map(drop)
    }

    fn request(&self, method: &str, path: &str) -> Builder {
        let request = self.endpoint.request(method, path);
        request.header(AUTHORIZATION, self.config.agent_token.bearer())
    }

    fn call(
        &self,
        request: Builder,
        body: impl AsSendBody,
        limits: Limits,
        max_body: u64,
    ) -> Result<(HeaderMap, Vec<u8>), CallError> {
        let secret = &self.config.agent_token;
        self.endpoint.call(request, body, secret, limits, max_body)
    }
}

/// Makes a request to a server other than a board, such as an OpenID Connect provider, and returns its answer, whatever its status.
/// Redirects are not followed. Plain HTTP is used on loopback only.
pub fn fetch(
    options: &ConnectOptions,
    request: Request<Vec<u8>>,
) -> Result<Response<Vec<u8>>, String> {
    let uri = request.uri();
    let origin = format!(
        "{}://{}",
        uri.scheme_str().unwrap_or_default(),
        uri.authority().map_or("", |authority| authority.as_str())
    );
    let origin = ServerUrl::parse(&origin).map_err(|error| chain(&error))?;
    let endpoint = Endpoint::new(&origin, options).map_err(|error| chain(&error))?;
    let answer = endpoint.agent.run(request).map_err(cause)?;
    let (parts, mut body) = answer.into_parts();
    let mut bytes = Vec::new();
    let read = body.as_reader().take(ANSWER_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    Ok(Response::from_parts(parts, bytes))
}

fn garbage(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CallError {
    CallError::Garbage(error.into())
}

/// Whether the board announces a format. Proxies may join the lines of a header with commas (RFC 9110, section 5.3).
fn is_announced(headers: &HeaderMap, wanted: &str) -> bool {
    let lines = headers.get_all(ACCEPTS_HEADER).iter();
    let mut formats = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    formats.any(|format| format.trim() == wanted)
}

/// Classifies the error of a request.
fn failed(error: ureq::Error, limits: Limits) -> CallError {
    match error {
        ureq::Error::Timeout(reason) => CallError::Timeout(limits.exceeded(reason)),
        ureq::Error::Io(error) => CallError::Broken(error),
        ureq::Error::Other(error) => match error.downcast() {
            Ok(error) => CallError::Unreachable(*error),
            Err(error) => CallError::Garbage(error),
        },
        error => CallError::Garbage(error.into()),
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
    use ureq::http::HeaderValue;

    use super::*;

    #[test]
    fn announced_formats_are_found_in_one_line_and_in_many() {
        let check = |lines: &[&'static str], expected: [bool; 2]| {
            let lines = lines.iter();
            let headers: HeaderMap = lines
                .map(|line| {
                    (
                        ACCEPTS_HEADER.parse().unwrap(),
                        HeaderValue::from_static(line),
                    )
                })
                .collect();
            let found = [FORMAT, TOKEN_FORMAT].map(|format| is_announced(&headers, format));
            assert_eq!(found, expected, "{headers:?}");
        };
        check(&[], [false, false]);
        check(&["gua.live.v1", "gua.token.v1"], [true, true]);
        check(&["gua.live.v1, gua.token.v1"], [true, true]);
        check(&["gua.live.v12"], [false, false]);
    }

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
