//! HTTP requests to an OpenID Connect provider, with the connection options of the settings.

use std::io::Read as _;

use gua_model::chain::chain;
use gua_wire::ServerUrl;
use ureq::http::{Request, Response};

use super::endpoint::{ConnectOptions, Endpoint, cause};

/// Maximum size of an answer.
const MAX_BYTES: u64 = 1 << 20;

/// Makes a request and returns its answer, whatever its status. Redirects are not followed. Plain HTTP is used on loopback
/// only.
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
    let read = body.as_reader().take(MAX_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    Ok(Response::from_parts(parts, bytes))
}
