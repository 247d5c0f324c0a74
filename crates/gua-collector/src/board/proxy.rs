//! The proxy for a board, by the conventional environment variables.

use gua_settings::Proxies;
use gua_wire::ServerUrl;
use gua_wire::server_url::Scheme;
use ureq::{Proxy, ProxyProtocol};

/// Why a proxy variable is invalid. The message does not contain its value, which may include a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    #[error("{0} must have the form http://HOST:PORT")]
    Form(&'static str),
    #[error("{0} has an unsupported scheme; gua supports http:// proxies")]
    Kind(&'static str),
}

/// The proxy for a board. Loopback addresses never use a proxy: their unencrypted traffic must not leave the host.
///
/// # Errors
/// If the variable is invalid. A direct connection instead would ignore the administrator's intention.
pub(super) fn proxy_of(board: &ServerUrl, proxies: &Proxies) -> Result<Option<Proxy>, ProxyError> {
    if board.is_loopback() || is_excluded(board, proxies) {
        return Ok(None);
    }
    let own = match board.scheme() {
        Scheme::Http => (&proxies.http, "http_proxy"),
        Scheme::Https => (&proxies.https, "https_proxy"),
    };
    let set = [own, (&proxies.all, "all_proxy")]
        .into_iter()
        .find_map(|(text, name)| {
            let text = text.as_deref()?.trim();
            (!text.is_empty()).then_some((text, name))
        });
    set.map(|(text, name)| parse(text, name)).transpose()
}

fn is_excluded(board: &ServerUrl, proxies: &Proxies) -> bool {
    let host = board.host().to_ascii_lowercase();
    let excludes = |entry: &str| {
        let entry = entry.trim().to_ascii_lowercase();
        // A host may be followed by a port, except a bare IPv6 address.
        let (name, port) = match entry.rsplit_once(':') {
            Some((name, port)) if !name.contains(':') || name.ends_with(']') => {
                (name, port.parse().ok())
            }
            _ => (entry.as_str(), None),
        };
        if port.is_some_and(|port: u16| port != board.port()) {
            return false;
        }
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let name = name.trim_start_matches("*.").trim_start_matches('.');
        name == "*"
            || !name.is_empty()
                && (host == name
                    || host
                        .strip_suffix(name)
                        .is_some_and(|rest| rest.ends_with('.')))
    };
    let list = proxies.none_for.as_deref().unwrap_or_default();
    list.split([',', ' ']).any(excludes)
}

fn parse(text: &str, name: &'static str) -> Result<Proxy, ProxyError> {
    let proxy = Proxy::new(text).map_err(|_| ProxyError::Form(name))?;
    if proxy.protocol() != ProxyProtocol::Http {
        return Err(ProxyError::Kind(name));
    }
    // ureq would replace an invalid port by the usual one.
    let place = proxy.uri().authority().map_or("", |place| place.as_str());
    let place = place.rsplit('@').next().unwrap_or_default();
    match ServerUrl::parse(&format!("http://{place}")) {
        Ok(_) => Ok(proxy),
        Err(_) => Err(ProxyError::Form(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(proxies: &Proxies, board: &str, expected: Result<Option<&str>, ProxyError>) {
        let board = ServerUrl::parse(board).unwrap();
        let found = proxy_of(&board, proxies);
        let found =
            found.map(|proxy| proxy.map(|proxy| format!("{}:{}", proxy.host(), proxy.port())));
        assert_eq!(
            found,
            expected.map(|text| text.map(str::to_owned)),
            "{board}"
        );
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn the_scheme_of_the_board_selects_the_proxy() {
        let proxies = Proxies {
            http: text("plain.example:3128"),
            https: text("http://secret.example:8080/"),
            ..Proxies::default()
        };
        check(&proxies, "http://b.example", Ok(Some("plain.example:3128")));
        check(
            &proxies,
            "https://b.example",
            Ok(Some("secret.example:8080")),
        );
        check(&proxies, "http://127.0.0.1:80", Ok(None));
        check(&proxies, "https://localhost", Ok(None));
        let all = Proxies {
            all: text("http://all.example"),
            https: text(" "),
            ..Proxies::default()
        };
        check(&all, "https://b.example", Ok(Some("all.example:80")));
        check(&Proxies::default(), "https://b.example", Ok(None));
    }

    #[test]
    fn hosts_are_excluded_by_name_domain_and_port() {
        let except = |list: &str, board: &str, is_direct: bool| {
            let proxies = Proxies {
                https: text("p.example:1"),
                none_for: text(list),
                ..Proxies::default()
            };
            let expected = (!is_direct).then_some("p.example:1");
            check(&proxies, board, Ok(expected));
        };
        except("a.example, .b.example", "https://a.example", true);
        except("a.example, .b.example", "https://x.b.example", true);
        except("a.example", "https://x.A.example", true);
        except("a.example", "https://xa.example", false);
        except("*.a.example", "https://x.a.example", true);
        except("*", "https://a.example", true);
        except("a.example:8443", "https://a.example:8443", true);
        except("a.example:8443", "https://a.example", false);
        except("10.0.0.7", "https://10.0.0.7", true);
        except("fd00::1", "https://[fd00::1]:8443", true);
        except(", ,", "https://a.example", false);
    }

    #[test]
    fn an_invalid_proxy_is_an_error_and_not_a_direct_connection() {
        let check = |proxy: &str, expected| {
            let proxies = Proxies {
                https: text(proxy),
                ..Proxies::default()
            };
            check(&proxies, "https://b.example", Err(expected));
        };
        check("socks5://p.example:1", ProxyError::Kind("https_proxy"));
        check("http://p.example:x", ProxyError::Form("https_proxy"));
        check("http://", ProxyError::Form("https_proxy"));
    }

    #[test]
    fn the_password_of_a_proxy_is_sent_and_never_displayed() {
        let proxies = Proxies {
            https: text("http://ada:s%40crate@p.example:3128"),
            ..Proxies::default()
        };
        let board = ServerUrl::parse("https://b.example").unwrap();
        let proxy = proxy_of(&board, &proxies).unwrap().unwrap();
        assert_eq!(
            proxy.username().zip(proxy.password()),
            Some(("ada", "s@crate"))
        );
        assert!(!format!("{proxy:?} {proxies:?}").contains("crate"));
    }
}
