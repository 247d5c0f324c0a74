//! Connections to a board: certificates and proxies.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::sync_once::enrolled;
use crate::{TWO_GPUS, host};
use gua_test::board::{Behaviour, Board, TOKEN};
use gua_test::{TestHost, wait_for};

#[test]
fn a_certificate_is_trusted_when_its_authority_is() {
    let host = host(TWO_GPUS);
    let ca_file = host.path("ca.pem");
    let board = Board::encrypted(&ca_file);
    let host = enrolled(host, &board);
    let ended = host.gua("sync-once");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("could not reach GUA Board server: TLS handshake with `localhost` failed: invalid peer certificate"),
        "{ended:?}"
    );
    assert!(
        ended
            .stderr
            .contains("hint: if the board's certificate was issued by a private CA"),
        "{ended:?}"
    );
    assert!(board.take().is_empty(), "the token was not sent");
    assert_eq!(host.ticks(".gua/gua.db").len(), 1);
    host.fine(&format!("sync-once --ca-file {}", ca_file.display()));
    host.write(
        ".gua/config.toml",
        format!("cloud.ca_file = \"{}\"\n", ca_file.display()),
    );
    host.fine("sync-once");
    assert_eq!(board.take().len(), 2);
    board.behaves(Behaviour::Silent);
    assert!(
        host.gua("sync-once")
            .stderr
            .contains("no response within 10 s")
    );
}

#[test]
fn a_daemon_pushes_and_streams_through_tls() {
    let host = host(TWO_GPUS);
    let ca_file = host.path("ca.pem");
    let board = Board::encrypted(&ca_file);
    let host = enrolled(host, &board);
    let line = "daemon --foreground --cloud --interval 200ms --ca-file";
    let mut daemon = host.foreground(&format!("{line} {}", ca_file.display()));
    wait_for("pushes and frames", || {
        (board.attempts() >= 3 && board.streams().frames.len() >= 2).then_some(())
    });
    daemon.stop();
    wait_for("the farewell", || {
        (board.streams().closed == [1000]).then_some(())
    });
}

#[test]
fn a_server_that_never_completes_the_handshake_times_out() {
    let mute = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = mute.local_addr().unwrap().port();
    let host = host(TWO_GPUS);
    let board = Board::encrypted(&host.path("ca.pem"));
    let host = enrolled(host, &board);
    let file = host.read(".gua/cloud.json");
    host.write(
        ".gua/cloud.json",
        file.replace(&board.port().to_string(), &port.to_string()),
    );
    let ended = host.gua("sync-once");
    assert_eq!(ended.code, 1, "{ended:?}");
    let expected = "TLS handshake with `localhost` failed: no response within 5 s\n";
    assert!(ended.stderr.ends_with(expected), "{ended:?}");
}

#[test]
fn a_certificate_for_another_name_is_rejected() {
    let host = host(TWO_GPUS);
    let ca_file = host.path("ca.pem");
    let board = Board::encrypted(&ca_file);
    let host = enrolled(host, &board);
    let file = host
        .read(".gua/cloud.json")
        .replace("localhost", "127.0.0.1");
    host.write(".gua/cloud.json", &file);
    let ended = host.gua(&format!("sync-once --ca-file {}", ca_file.display()));
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("certificate not valid for name"),
        "{ended:?}"
    );
    assert!(board.take().is_empty());
}

/// A proxy that tunnels every request to one port of this machine, and records the requests.
fn proxy(to: u16, answer: &'static str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&asked);
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).unwrap_or(0) == 1 {
                head.extend(byte);
            }
            kept.lock().unwrap().push(String::from_utf8(head).unwrap());
            client.write_all(answer.as_bytes()).unwrap();
            if !answer.contains(" 200 ") {
                continue;
            }
            let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).unwrap();
            let (mut from, mut into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from, &mut into));
            let _ = std::io::copy(&mut server, &mut client);
            let _ = client.shutdown(std::net::Shutdown::Both);
        }
    });
    (port, asked)
}

/// An enrolment whose board is reachable only through a proxy.
fn enrol_behind_proxy(host: &TestHost, board: &Board) {
    let file = host.read(".gua/cloud.json");
    let far = file.replace(&board.url(), "http://board.invalid:7");
    host.write(".gua/cloud.json", &far);
}

const GRANTED: &str = "HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n";

#[test]
fn a_proxy_from_the_environment_is_used_except_for_loopback() {
    let board = Board::start();
    let (port, asked) = proxy(board.port(), GRANTED);
    let host = host(TWO_GPUS).variable("HTTP_PROXY", format!("http://ada:pass@127.0.0.1:{port}"));
    let host = enrolled(host, &board);
    host.fine("sync-once");
    assert!(asked.lock().unwrap().is_empty(), "loopback needs no proxy");
    enrol_behind_proxy(&host, &board);
    host.fine("sync-once --allow-http");
    let asked = asked.lock().unwrap();
    let lines: Vec<&str> = asked.iter().flat_map(|head| head.lines()).collect();
    assert_eq!(
        lines,
        [
            "CONNECT board.invalid:7 HTTP/1.1",
            "Host: board.invalid:7",
            concat!("User-Agent: gua/", env!("CARGO_PKG_VERSION")),
            "Proxy-Connection: Keep-Alive",
            "Proxy-Authorization: Basic YWRhOnBhc3M=",
            "",
        ]
    );
    let sent = board.take();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1].header("host"), Some("board.invalid:7"));
    let ended = host.gua("sync-once");
    assert_eq!(ended.code, 2, "not without --allow-http: {ended:?}");
}

#[test]
fn a_proxy_that_refuses_is_reported_without_its_password() {
    let board = Board::start();
    let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
    let (port, _) = proxy(board.port(), refusal);
    let host = host(TWO_GPUS)
        .variable("http_proxy", format!("http://ada:pass@127.0.0.1:{port}"))
        .variable("GUA_ALLOW_HTTP", "true");
    let host = enrolled(host, &board);
    enrol_behind_proxy(&host, &board);
    let ended = host.gua("sync-once");
    assert_eq!(ended.code, 1, "{ended:?}");
    let expected =
        format!("the connection through proxy 127.0.0.1:{port} failed: proxy server responded 407");
    assert!(ended.stderr.contains(&expected), "{ended:?}");
    assert!(
        !ended.stderr.contains("pass") && !ended.stderr.contains(TOKEN),
        "{ended:?}"
    );
    assert!(board.take().is_empty());
}

#[test]
fn a_host_name_that_does_not_resolve_is_reported() {
    let board = Board::start();
    let host = host(TWO_GPUS)
        .variable("http_proxy", "http://127.0.0.1:9")
        .variable("no_proxy", "board.invalid")
        .variable("GUA_ALLOW_HTTP", "yes");
    let host = enrolled(host, &board);
    enrol_behind_proxy(&host, &board);
    let ended = host.gua("sync-once");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("cannot resolve `board.invalid`"),
        "{ended:?}"
    );
}

#[test]
fn a_missing_certificate_file_is_refused_even_where_none_is_needed() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let nowhere = host.path("nowhere.pem");
    for line in ["sync-once", "daemon --foreground --cloud"] {
        let ended = host.gua(&format!("{line} --ca-file {}", nowhere.display()));
        assert_ne!(ended.code, 0, "{ended:?}");
        let expected = format!("cannot read certificates from `{}`", nowhere.display());
        assert!(ended.stderr.contains(&expected), "{ended:?}");
    }
    assert!(board.take().is_empty());
}
