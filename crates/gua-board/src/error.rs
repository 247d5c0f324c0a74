//! The one place that turns a failure into a status code and a response body.
//!
//! The client receives a fixed sentence as `detail`, which agents print, and the id of the request. The log receives the
//! whole chain of an internal error under the same id.

use std::error::Error as _;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gua_board_store::StoreError;
use gua_board_store::password::PasswordError;
use gua_board_store::registry::Refusal;
use schemars::JsonSchema;
use serde::Serialize;

use crate::oidc::OidcError;

/// Seconds after which a client should try again when the board is overloaded.
const RETRY_AFTER: u32 = 5;

/// Reason a request fails.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("{0}")]
    Unauthenticated(&'static str),
    #[error("{0}")]
    Forbidden(&'static str),
    /// The enrolment token does not enrol this host; `None` if there is no such token.
    #[error("{}", not_enrolled(.0.as_ref()))]
    NotEnrolled(Option<Refusal>),
    #[error("the log-in at the provider failed; try again")]
    SignOn(#[source] OidcError),
    #[error("this link is invalid or was already used; restart `gua board demo` to get a new one")]
    DemoLinkUsed,
    #[error("no such {0}")]
    NotFound(&'static str),
    #[error("this path does not accept this method")]
    MethodNotAllowed,
    #[error("{0}")]
    Conflict(&'static str),
    /// The request contradicts the contract. The text says how and may quote the request.
    #[error("{0}")]
    Invalid(String),
    /// The query cannot be read.
    #[error("{0}")]
    BadQuery(String),
    #[error("the request body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the request body did not arrive in time")]
    TooSlow,
    #[error("too many requests")]
    TooManyRequests { retry_after: u32 },
    #[error("the board is overloaded; try again later")]
    Overloaded,
    #[error("the board is stopping; try again later")]
    Stopping,
    /// Nothing was stored. The client should send it again.
    #[error("the board cannot store this now; try again later")]
    NotStored,
    /// There is no history to answer from.
    #[error("{0}")]
    NoHistory(String),
    /// The driver of this host cannot be read.
    #[error("{0}")]
    NoDriver(String),
    #[error("this server needs a token: as bearer token, or as the password for any user name")]
    PasswordNeeded,
    #[error("the board failed to answer")]
    Internal(#[source] StoreError),
}

fn not_enrolled(refusal: Option<&Refusal>) -> String {
    match refusal {
        Some(refusal) => format!("the enrolment token is not valid: {refusal}"),
        None => "the enrolment token is not valid: it never existed, or was revoked".to_owned(),
    }
}

impl Problem {
    pub fn status(&self) -> StatusCode {
        match self {
            Problem::NotEnrolled(Some(Refusal::HostName(_))) => StatusCode::FORBIDDEN,
            Problem::Unauthenticated(_) | Problem::PasswordNeeded | Problem::NotEnrolled(_) => {
                StatusCode::UNAUTHORIZED
            }
            Problem::Forbidden(_) | Problem::SignOn(_) => StatusCode::FORBIDDEN,
            Problem::NotFound(_) | Problem::DemoLinkUsed => StatusCode::NOT_FOUND,
            Problem::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Problem::Conflict(_) => StatusCode::CONFLICT,
            Problem::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Problem::BadQuery(_) => StatusCode::BAD_REQUEST,
            Problem::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Problem::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Problem::TooManyRequests { .. } => StatusCode::TOO_MANY_REQUESTS,
            Problem::Overloaded
            | Problem::Stopping
            | Problem::NotStored
            | Problem::NoHistory(_)
            | Problem::NoDriver(_) => StatusCode::SERVICE_UNAVAILABLE,
            Problem::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn retry_after(&self) -> Option<u32> {
        match self {
            Problem::TooManyRequests { retry_after } => Some(*retry_after),
            Problem::Overloaded | Problem::Stopping | Problem::NotStored => Some(RETRY_AFTER),
            _ => None,
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound(what) => Problem::NotFound(what),
            StoreError::Conflict(message) => Problem::Conflict(message),
            StoreError::Refused(refusal) => Problem::NotEnrolled(Some(refusal)),
            error @ (StoreError::Invalid(_) | StoreError::Engine(_)) => Problem::Internal(error),
        }
    }
}

impl From<PasswordError> for Problem {
    fn from(error: PasswordError) -> Self {
        Problem::Invalid(error.to_string())
    }
}

/// Body of a failed request. The id of the request is added by [`crate::request`].
#[derive(Serialize, JsonSchema)]
pub(crate) struct Body<'a> {
    detail: &'a str,
}

/// Message of a failure, from which [`crate::request`] makes a page for a browser.
#[derive(Clone, Debug)]
pub(crate) struct Detail(pub(crate) String);

/// Causes of a failure, for the log.
#[derive(Clone, Debug)]
pub(crate) struct Causes(pub(crate) String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let detail = self.to_string();
        let mut response = (self.status(), Json(Body { detail: &detail })).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        let scheme = match self {
            Problem::Unauthenticated(_) | Problem::NotEnrolled(_) => Some("Bearer"),
            // A browser then asks for it.
            Problem::PasswordNeeded => Some("Basic realm=\"gua\""),
            _ => None,
        };
        if let Some(scheme) = scheme {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
        }
        let mut causes = Vec::new();
        let mut source = self.source();
        while let Some(error) = source {
            causes.push(error.to_string());
            source = error.source();
        }
        // A log-in page would not help where the browser itself asks for a token.
        if !matches!(self, Problem::PasswordNeeded) {
            response.extensions_mut().insert(Detail(detail));
        }
        if !causes.is_empty() {
            response.extensions_mut().insert(Causes(causes.join(": ")));
        }
        response
    }
}
