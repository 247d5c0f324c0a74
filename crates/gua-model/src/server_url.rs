//! Address of a board: an absolute http or https URL, and the rule that a secret crosses a network only encrypted.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A board's URL: scheme, host, optional port and path, without a trailing slash.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    scheme: Scheme,
    /// Host and port, as written.
    authority: String,
    /// Empty, or starts with a slash.
    path: String,
}

crate::words! {
    /// Whether the connection is encrypted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Scheme {
        Http = "http",
        Https = "https",
    }
}

/// Whether a token may cross a network unencrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unencrypted {
    /// Only to the local host.
    LoopbackOnly,
    /// Explicitly allowed by the user.
    Allowed,
}

/// Error for a text that is not a board's URL. It does not contain the text, which may include a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("the server URL must be an absolute http(s) URL, such as https://board.example.com")]
    NotAbsolute,
    #[error("the server URL has a user name or password in it")]
    Credentials,
    #[error("the server URL has a query or a fragment")]
    Query,
    #[error("the server URL has a blank or a character that is not printable ASCII")]
    Unprintable,
    #[error("the server URL's port is not a number from 1 to 65535")]
    Port,
}

/// Error for a URL that would send the token unencrypted over a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not encrypted, and the token would be readable on the way")]
pub struct Insecure(pub ServerUrl);

impl ServerUrl {
    /// Parses a URL; surrounding blanks and trailing slashes are ignored.
    ///
    /// # Errors
    /// If it is not an absolute http or https URL, or has parts that a board's URL must not have.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let text = text.trim().trim_end_matches('/');
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(UrlError::Unprintable);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::NotAbsolute)?;
        let scheme = Scheme::from_word(&scheme.to_ascii_lowercase());
        let scheme = scheme.ok_or(UrlError::NotAbsolute)?;
        if rest.contains(['?', '#']) {
            return Err(UrlError::Query);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(UrlError::Credentials);
        }
        let (host, port) = split_port(authority).ok_or(UrlError::NotAbsolute)?;
        if host.is_empty() || host.contains(['\\', '%']) || path.contains('\\') {
            return Err(UrlError::NotAbsolute);
        }
        if let Some(port) = port
            && (port.starts_with('+') || !port.parse::<u16>().is_ok_and(|port| port > 0))
        {
            return Err(UrlError::Port);
        }
        Ok(Self {
            scheme,
            authority: authority.to_owned(),
            path: path.to_owned(),
        })
    }

    /// Returns the path; empty, or starting with a slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the host without port and brackets.
    pub fn host(&self) -> &str {
        split_port(&self.authority).map_or("", |(host, _)| host)
    }

    /// Returns the port in the URL, or the default port of the scheme.
    pub fn port(&self) -> u16 {
        let written = split_port(&self.authority).and_then(|(_, port)| port?.parse().ok());
        written.unwrap_or(match self.scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        })
    }

    /// Reports whether the URL refers to the local host: a loopback address or `localhost`.
    pub fn is_loopback(&self) -> bool {
        let host = self.host();
        host.eq_ignore_ascii_case("localhost")
            || host.parse().is_ok_and(|ip: Ipv4Addr| ip.is_loopback())
            || host.parse().is_ok_and(|ip: Ipv6Addr| ip.is_loopback())
    }

    /// Requires an encrypted connection, unless it stays on the local host or an unencrypted one is allowed.
    ///
    /// # Errors
    /// If the token could be read in transit.
    pub fn check_encrypted(&self, unencrypted: Unencrypted) -> Result<(), Insecure> {
        if self.scheme == Scheme::Https || unencrypted == Unencrypted::Allowed || self.is_loopback()
        {
            Ok(())
        } else {
            Err(Insecure(self.clone()))
        }
    }

    /// Returns the URL of a request; the path starts with a slash.
    pub fn at(&self, path: &str) -> String {
        format!("{self}{path}")
    }

    /// Returns the URL of a WebSocket; the path starts with a slash.
    pub fn websocket_at(&self, path: &str) -> String {
        let scheme = match self.scheme {
            Scheme::Http => "ws",
            Scheme::Https => "wss",
        };
        format!("{scheme}://{}{}{path}", self.authority, self.path)
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ServerUrl({self})")
    }
}

/// Splits host (without brackets) and the digits of the port, if there is a colon. `None` if brackets or colons are
/// malformed.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(inside) = authority.strip_prefix('[') {
        let (host, rest) = inside.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    match authority.split_once(':') {
        Some((_, port)) if port.contains(':') => None,
        Some((host, port)) => Some((host, Some(port))),
        None => Some((authority, None)),
    }
}

/// Reports whether the `Host` header of a request to a server on loopback has an IP address or `localhost`. A page of another
/// site can let its own name resolve to 127.0.0.1, and could then read the responses (DNS rebinding).
pub fn names_this_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_name_for_this_host_is_recognised() {
        for (host, expected) in [
            ("localhost:8090", true),
            ("LOCALHOST", true),
            ("127.0.0.1:8090", true),
            ("[::1]:8090", true),
            ("evil.example:8090", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(names_this_host(host), expected, "{host}");
        }
    }

    fn check(text: &str, expected: Result<&str, UrlError>) {
        let found = ServerUrl::parse(text).map(|url| url.to_string());
        assert_eq!(found.as_deref(), expected.as_ref().copied(), "{text:?}");
    }

    #[test]
    fn an_address_loses_blanks_around_it_and_slashes_at_its_end() {
        check("https://board.example.com", Ok("https://board.example.com"));
        check(
            " HTTPS://b.example:8443/gua// \n",
            Ok("https://b.example:8443/gua"),
        );
        check("http://[::1]:80/", Ok("http://[::1]:80"));
    }

    #[test]
    fn an_address_must_be_absolute_http_without_secrets() {
        let absolute = "board.example /board ftp://x mailto:x http:// https:/// http://:80 http://[::1 http://a:1:2";
        for text in absolute.split(' ').chain([""]) {
            check(text, Err(UrlError::NotAbsolute));
        }
        check("http://u:p@b.example", Err(UrlError::Credentials));
        check("http://b.example/x?y=1", Err(UrlError::Query));
        check("http://b.example#y", Err(UrlError::Query));
        check("http://b.exa mple", Err(UrlError::Unprintable));
        check("http://b.example\u{e9}", Err(UrlError::Unprintable));
        for port in ["0", "65536", "", "x", "+1"] {
            check(&format!("http://b:{port}"), Err(UrlError::Port));
        }
    }

    #[test]
    fn only_loopback_may_be_unencrypted_unless_allowed_explicitly() {
        let refused = |text: &str, unencrypted| {
            ServerUrl::parse(text)
                .unwrap()
                .check_encrypted(unencrypted)
                .is_err()
        };
        for loopback in [
            "localhost:80",
            "LocalHost",
            "127.0.0.1",
            "127.9.9.9:1",
            "[::1]:8000",
        ] {
            assert!(!refused(
                &format!("http://{loopback}"),
                Unencrypted::LoopbackOnly
            ));
        }
        for away in [
            "10.0.0.1",
            "127.1",
            "localhost.example",
            "127.0.0.1.example",
            "[::2]",
        ] {
            assert!(
                refused(&format!("http://{away}"), Unencrypted::LoopbackOnly),
                "{away}"
            );
            assert!(!refused(&format!("http://{away}"), Unencrypted::Allowed));
            assert!(!refused(
                &format!("https://{away}"),
                Unencrypted::LoopbackOnly
            ));
        }
    }

    #[test]
    fn requests_and_the_stream_keep_the_path_of_the_server() {
        let url = ServerUrl::parse("https://b.example:8443/gua/").unwrap();
        assert_eq!(
            url.at("/agent/v1/observations"),
            "https://b.example:8443/gua/agent/v1/observations"
        );
        assert_eq!(
            url.websocket_at("/agent/v1/stream"),
            "wss://b.example:8443/gua/agent/v1/stream"
        );
        let url = ServerUrl::parse("http://localhost:80").unwrap();
        assert_eq!(
            url.websocket_at("/agent/v1/stream"),
            "ws://localhost:80/agent/v1/stream"
        );
    }
}
