//! Layer around every request: an id, the address of its client, safe response headers, a log record and a counter.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use gua_board_store::SecretHash;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};
use tracing::{debug, error, info};

use crate::app::App;
use crate::error::{Causes, Detail, Problem};
use crate::pages::{self, View};

/// Header with the id of the request, which is also in the log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum time for a request body to arrive.
const BODY_TIME: Duration = Duration::from_secs(60);

/// Header with the secret of a proxy ([`Proxies::secret`]).
const PROXY_SECRET: &str = "x-gua-proxy-secret";

/// Trusted proxies. Their headers for the client's address (`X-Forwarded-For`) and the user name are used.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    pub addresses: Vec<IpAddr>,
    /// Secret that a proxy sends in `X-Gua-Proxy-Secret`. A proxy on loopback must have one to send a user name,
    /// because every user of the host can connect from that address.
    pub secret: Option<SecretHash>,
}

impl Proxies {
    /// Whether a request comes from one of the proxies.
    pub(crate) fn trust(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        let sent = headers.get(PROXY_SECRET).map(HeaderValue::as_bytes);
        let sent = sent.and_then(|sent| str::from_utf8(sent).ok());
        let sent = sent.map(SecretHash::of);
        self.addresses.contains(&peer) && (self.secret.is_none() || self.secret == sent)
    }
}

/// Address of the other end of the connection, set by the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Address of the client: the peer, or the client that a trusted proxy names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientAddress(pub(crate) Option<IpAddr>);

/// Response headers that no page or answer needs to differ from.
const SAFE_HEADERS: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // With `no-referrer`, browsers send `Origin: null` with a form, and the origin could not be checked.
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
];

/// Wraps every request.
pub(crate) async fn observe(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let address = client_address(peer, request.headers(), &app.options.proxies);
    request.extensions_mut().insert(ClientAddress(address));
    let method = request.method().clone();
    // The path may contain a secret, the route cannot.
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or_else(|| "none".to_owned(), |route| route.as_str().to_owned());
    let id = request_id();
    let began = Instant::now();
    let view = wants_page(request.headers())
        .then(|| View::new(request.uri(), request.headers(), app.oidc.is_some()));
    let mut response = next.run(request).await;
    if let Some(view) = view {
        response = as_page(&view, response);
    }
    let headers = response.headers_mut();
    headers.insert(
        REQUEST_ID,
        HeaderValue::from_str(&id).expect("hexadecimal digits"),
    );
    for (name, value) in SAFE_HEADERS {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    let status = response.status();
    let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    app.metrics.answered(&route, status.as_u16());
    let causes = response.extensions().get::<Causes>();
    let causes = causes.map_or("", |causes| causes.0.as_str());
    let (method, status) = (method.as_str(), status.as_u16());
    match status {
        500.. => error!(request = %id, method, route, status, millis, causes, "request failed"),
        400.. => info!(request = %id, method, route, status, millis, causes, "request refused"),
        _ => debug!(request = %id, method, route, status, millis, "request answered"),
    }
    response
}

/// Whether a browser navigates, and a person reads the answer.
fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// Replaces the JSON of a failed request by a page with the same status and headers.
fn as_page(view: &View, response: Response) -> Response {
    let Some(Detail(detail)) = response.extensions().get() else {
        return response;
    };
    let status = response.status();
    let page = pages::problem(view, status, detail);
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(page.headers().clone());
    Response::from_parts(parts, page.into_body())
}

fn request_id() -> String {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("Linux provides random numbers once it has booted");
    format!("{:016x}", u64::from_ne_bytes(bytes))
}

/// Uses the last entry of `X-Forwarded-For`, which the proxy itself added, if the peer is a trusted proxy.
fn client_address(peer: Option<IpAddr>, headers: &HeaderMap, proxies: &Proxies) -> Option<IpAddr> {
    let peer = peer?;
    if !proxies.trust(peer, headers) {
        return Some(peer);
    }
    let values = headers.get_all("x-forwarded-for");
    let last = values
        .iter()
        .next_back()
        .and_then(|value| value.to_str().ok());
    let client = last.and_then(|list| list.rsplit(',').next()?.trim().parse().ok());
    Some(client.unwrap_or(peer))
}

/// Reads a request body of at most `most` bytes.
pub(crate) async fn read_body(body: Body, most: usize) -> Result<Bytes, Problem> {
    let read = axum::body::to_bytes(body, most);
    match timeout(BODY_TIME, read).await {
        Ok(Ok(bytes)) => Ok(bytes),
        // A client that hangs up does not read the answer, so the other error is the only one to distinguish.
        Ok(Err(_)) => Err(Problem::TooLarge(most)),
        Err(_) => Err(Problem::TooSlow),
    }
}

/// Parses a JSON document of the contract. The error says where it deviates.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| Problem::Invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_trusted_proxy_names_the_client() {
        let check = |peer: &str, header: &str, trusted: &[&str], expected: &str| {
            let mut headers = HeaderMap::new();
            headers.append("x-forwarded-for", header.parse().unwrap());
            let proxies = Proxies {
                addresses: trusted.iter().map(|one| one.parse().unwrap()).collect(),
                secret: None,
            };
            let found = client_address(Some(peer.parse().unwrap()), &headers, &proxies);
            assert_eq!(found, Some(expected.parse().unwrap()), "{peer} {header}");
        };
        check("10.0.0.1", "192.0.2.7", &[], "10.0.0.1");
        check("10.0.0.1", "192.0.2.7", &["10.0.0.2"], "10.0.0.1");
        check(
            "10.0.0.1",
            "203.0.113.9, 192.0.2.7",
            &["10.0.0.1"],
            "192.0.2.7",
        );
        check("10.0.0.1", "garbage", &["10.0.0.1"], "10.0.0.1");
    }

    #[test]
    fn a_proxy_with_a_secret_must_send_it() {
        let proxies = Proxies {
            addresses: vec!["127.0.0.1".parse().unwrap()],
            secret: Some(SecretHash::of("right")),
        };
        let check = |peer: &str, secret: Option<&str>, expected: bool| {
            let mut headers = HeaderMap::new();
            if let Some(secret) = secret {
                headers.insert(PROXY_SECRET, secret.parse().unwrap());
            }
            let is_trusted = proxies.trust(peer.parse().unwrap(), &headers);
            assert_eq!(is_trusted, expected, "{peer} {secret:?}");
        };
        check("127.0.0.1", Some("right"), true);
        check("127.0.0.1", Some("wrong"), false);
        check("127.0.0.1", None, false);
        check("10.0.0.1", Some("right"), false);
    }
}
