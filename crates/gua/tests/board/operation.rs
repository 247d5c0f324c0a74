//! The operation of a real board: its log, its health and its backups.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use gua_test::{not_tested, wait_for};

use super::served::{Served, answer};
use crate::{TWO_GPUS, host};

#[test]
fn the_log_names_a_refused_request_by_the_id_of_its_answer() {
    let board = Served::start();
    let address = board.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "GET /api/v1/me?secret=hidden HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let id = answer
        .lines()
        .find_map(|line| line.strip_prefix("x-request-id: "))
        .unwrap();
    let line = wait_for("the request in the log", || {
        let log = board.log();
        let line = log.lines().find(|line| line.contains(id))?;
        Some(line.to_owned())
    });
    assert!(line.contains("request refused"), "{line}");
    assert!(
        line.contains("route=") && line.contains("/api/v1/me"),
        "{line}"
    );
    assert!(line.contains("status=401"), "{line}");
    assert!(!line.contains("hidden"), "{line}");
}

#[test]
fn as_many_files_as_allowed_are_open_at_once() {
    let board = Served::start();
    let path = format!("/proc/{}/limits", board.pid());
    let limits = std::fs::read_to_string(path).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let [.., soft, hard, _] = line.unwrap().split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{limits}");
    };
    assert_eq!(soft, hard);
}

#[test]
fn a_url_that_cannot_work_is_refused_before_the_board_starts() {
    for (url, expected) in [
        (
            "board.example.com",
            "the server URL must be an absolute http(s) URL",
        ),
        ("https://example.com/gua", "leave out `/gua`"),
    ] {
        let refused = host(TWO_GPUS).gua(&format!("board serve --data board --url {url}"));
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains(expected), "{refused:?}");
    }
}

#[test]
fn health_is_public_and_metrics_are_not() {
    let board = Served::start();
    let get = |path: &str| answer(&board.url, &format!("GET {path}"), &[], b"");
    assert_eq!(get("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(get("/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(get("/metrics").0, 401);
    assert_eq!(board.frames(), 0);
}

#[test]
fn a_backup_of_a_running_board_is_a_board() {
    let board = Served::start();
    let agent = board.enrol(host(TWO_GPUS), "lab-a100");
    agent.fine("sync-once");
    let home = board.home();
    home.fine("board backup copy.db");
    let again = home.gua("board backup copy.db");
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("already exists"), "{again:?}");
    let copy = home.path("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::rename(home.path("copy.db"), copy.join("board.db")).unwrap();
    let said = home.fine("board check --data copy");
    assert_eq!(said, "gua board check: no errors\n");
    let restored = home.foreground("board serve --listen 127.0.0.1:0 --data copy");
    let url = super::served::url(&restored);
    assert_eq!(answer(&url, "GET /readyz", &[], b"").0, 200);
    // The agent does not notice that the board was restored.
    let enrolment = agent.read(".gua/cloud.json").replace(&board.url, &url);
    agent.write(".gua/cloud.json", enrolment);
    agent.fine("sync-once");
}

#[test]
fn promtool_accepts_the_metrics_of_a_board() {
    let board = Served::start();
    let host = board.enrol(host(TWO_GPUS), "lab1");
    host.fine("sync-once");
    let bearer = board.bearer();
    let headers = [("Authorization", bearer.as_str())];
    let (status, text) = answer(&board.url, "GET /metrics?hosts", &headers, b"");
    assert_eq!(status, 200, "{text}");
    for family in [
        "gua_board_cpu_seconds_total",
        "gua_board_resident_memory_bytes",
    ] {
        let sample = text.lines().find(|line| line.starts_with(family));
        let value: f64 = sample.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        assert!(value > 0.0, "{text}");
    }
    let file = board.home().write("page.prom", &text);
    let mut check = Command::new("promtool");
    check
        .args(["check", "metrics"])
        .stdin(File::open(file).unwrap());
    match check.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            not_tested("no Debian package prometheus", "promtool");
        }
        output => {
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && said.is_empty(), "{said}\n{text}");
        }
    }
}
