//! Where a board is: an absolute address in http or https, and the rule that a secret crosses a network only encrypted.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A board's address: scheme, host, perhaps a port and a path, no slash at the end.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    scheme: Scheme,
    /// Host and port, as they were written.
    authority: String,
    /// Empty, or begins with a slash.
    path: String,
}

/// Whether what is sent can be read on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// Whether a token may cross a network unencrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unencrypted {
    /// Only on this machine itself.
    LoopbackOnly,
    /// Somebody has asked for it.
    Allowed,
}

/// Why a text is no address of a board. The text is not in it: it may carry a password.
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

/// The address would show the token to everyone on the way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not encrypted, and the token would be readable on the way")]
pub struct Insecure(pub ServerUrl);

impl ServerUrl {
    /// Reads an address; blanks around it and slashes at its end do not count.
    ///
    /// # Errors
    /// When it is not absolute http or https, or has parts that have no business in a board's address.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let text = text.trim().trim_end_matches('/');
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(UrlError::Unprintable);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::NotAbsolute)?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(UrlError::NotAbsolute),
        };
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

    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host without port and brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        split_port(&self.authority).map_or("", |(host, _)| host)
    }

    /// The port: the one that is written, or the scheme's own.
    #[must_use]
    pub fn port(&self) -> u16 {
        let written = split_port(&self.authority).and_then(|(_, port)| port?.parse().ok());
        written.unwrap_or(match self.scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        })
    }

    /// Whether the address names this machine: a loopback number or `localhost`.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let host = self.host();
        host.eq_ignore_ascii_case("localhost")
            || host.parse().is_ok_and(|ip: Ipv4Addr| ip.is_loopback())
            || host.parse().is_ok_and(|ip: Ipv6Addr| ip.is_loopback())
    }

    /// Demands an encrypted way, unless the way does not leave the machine or somebody has allowed it.
    ///
    /// # Errors
    /// When a token would be readable on the way.
    pub fn check_encrypted(&self, unencrypted: Unencrypted) -> Result<(), Insecure> {
        if self.scheme == Scheme::Https || unencrypted == Unencrypted::Allowed || self.is_loopback()
        {
            Ok(())
        } else {
            Err(Insecure(self.clone()))
        }
    }

    /// The address of a request; the path begins with a slash.
    #[must_use]
    pub fn at(&self, path: &str) -> String {
        format!("{self}{path}")
    }

    /// The address of a WebSocket; the path begins with a slash.
    #[must_use]
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
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(out, "{scheme}://{}{}", self.authority, self.path)
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ServerUrl({self})")
    }
}

/// Host without brackets, and the port's digits where there is a colon. `None` where brackets or colons do not fit.
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn only_loopback_may_be_unencrypted_unless_somebody_allows_it() {
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
