//! `gua enroll` and `gua unenroll`: order of checks, messages, stored files, and that no token is printed.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::json;

use crate::{GUA, TWO_GPUS, host, without_driver};
use gua_test::board::{Behaviour, Board, TOKEN};
use gua_test::http::CLAIM_ANSWER;
use gua_test::{Ended, TestHost};

const ONCE: &str = "gua_enroll_once";

/// Runs `gua` with text on its standard input.
fn with_input(host: &TestHost, line: &str, input: &str) -> Ended {
    let mut child = host
        .command(GUA)
        .args(line.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The program can exit before it reads its input.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    Ended::from(child.wait_with_output().unwrap())
}

#[track_caller]
fn assert_hides_secrets(ended: &Ended) {
    for text in [&ended.stdout, &ended.stderr] {
        assert!(!text.contains(TOKEN) && !text.contains(ONCE), "{text}");
    }
}

#[test]
fn a_host_enrols_stores_the_secret_privately_and_removes_it() {
    let host = host(TWO_GPUS);
    let board = Board::start();
    let line = format!(
        "enroll --server-url {}/ --hostname vm --enrollment-token -",
        board.url()
    );
    let ended = with_input(&host, &line, &format!(" {ONCE} \n"));
    assert_hides_secrets(&ended);
    assert_eq!(ended.code, 0, "{ended:?}");
    let file = host.state("cloud.json");
    assert_eq!(
        ended.stdout,
        format!(
            "gua enroll: connected host lab 1 (h1)\n  token prefix: gua_agent_se\n  config: {}\n  next: {}\n",
            file.display(),
            match rustix::process::geteuid().is_root() {
                true => "gua service install --cloud",
                false => "gua daemon --cloud",
            }
        )
    );
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let [request] = board.take().try_into().unwrap();
    assert_eq!(request.line, "POST /agent/v1/enrollments/claim");
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("accept"), Some("application/json"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    let body: serde_json::Value = serde_json::from_str(request.text()).unwrap();
    let driver = body["driverVersion"].as_str().unwrap();
    assert!(driver.starts_with(|first: char| first.is_ascii_digit()));
    let expected = json!({
        "enrollmentToken": ONCE,
        "hostname": "vm",
        "agentVersion": env!("CARGO_PKG_VERSION"),
        "driverVersion": driver,
    });
    assert_eq!(body, expected);

    // A second enrolment without --force sends no request.
    let again = with_input(&host, &line, ONCE);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.stderr.contains("already enrolled"), "{again:?}");
    assert!(board.take().is_empty());
    let forced = with_input(&host, &format!("{line} --force --allow-http"), ONCE);
    assert_eq!(forced.code, 0, "{forced:?}");
    let next = "next: gua daemon --cloud --allow-http\n";
    assert!(forced.stdout.ends_with(next), "{forced:?}");

    let forgot = host.fine("unenroll");
    assert!(
        forgot.starts_with("gua unenroll: removed the enrolment of lab 1 (http://127.0.0.1:"),
        "{forgot}"
    );
    assert!(!file.exists());
    assert!(host.fine("unenroll").contains("not enrolled"));
}

#[test]
fn the_token_comes_from_the_flag_the_variable_or_standard_input() {
    let board = Board::start();
    let url = board.url();
    let sent = || {
        let [request] = board.take().try_into().unwrap();
        let body: serde_json::Value = serde_json::from_str(request.text()).unwrap();
        assert_eq!(body.get("driverVersion"), None, "there is no driver");
        body["enrollmentToken"].as_str().unwrap().to_owned()
    };
    let host = without_driver();
    host.fine(&format!(
        "enroll --server-url {url} --enrollment-token gua_enroll_flag"
    ));
    assert_eq!(sent(), "gua_enroll_flag");
    let host = without_driver().variable("GUA_ENROLLMENT_TOKEN", "gua_enroll_variable");
    host.fine(&format!("enroll --server-url {url}"));
    assert_eq!(sent(), "gua_enroll_variable");
    // The configuration can name the board.
    let host = without_driver();
    host.write(".gua/config.toml", format!("[cloud]\nurl = \"{url}\"\n"));
    let ended = with_input(
        &host,
        "enroll --enrollment-token -",
        "gua_enroll_typed\nmore\n",
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(sent(), "gua_enroll_typed");
}

#[test]
fn invalid_arguments_are_found_before_any_request() {
    let board = Board::start();
    let host = without_driver();
    let check = |line: &str, code: i32, expected: &str| {
        let ended = with_input(&host, line, "bad token\n");
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        assert!(ended.stderr.contains(expected), "{line}: {ended:?}");
        assert!(!ended.stderr.contains("bad token"), "{line}: {ended:?}");
        assert!(!host.state("cloud.json").exists());
        assert!(board.take().is_empty(), "{line}");
    };
    let here = board.url();
    check("enroll --enrollment-token x", 2, "--server-url is missing");
    check(&format!("enroll --server-url {here}"), 2, "no token");
    check(
        &format!("enroll --server-url {here} --enrollment-token -"),
        2,
        "printable ASCII",
    );
    check(
        "enroll --server-url ftp://x --enrollment-token x",
        2,
        "absolute http(s) URL",
    );
    check(
        "enroll --server-url http://board.example.com --enrollment-token x",
        2,
        "is not encrypted, and the token would be readable on the way",
    );
    check(
        "enroll --server-url https://board.example.com --ca-file /nonexistent --enrollment-token x",
        2,
        "cannot read certificates from `/nonexistent`",
    );
    let long = "n".repeat(256);
    check(
        &format!("enroll --server-url {here} --enrollment-token x --hostname {long}"),
        2,
        "hostname is longer than the 255 characters",
    );
    // An unwritable path is detected before the one-time token is spent.
    check(
        &format!("enroll --server-url {here} --enrollment-token x --config /proc/no/cloud.json"),
        1,
        "cannot save enrolment `/proc/no/cloud.json`",
    );
}

#[test]
fn a_refused_enrolment_leaves_nothing_behind() {
    let board = Board::start();
    let host = without_driver();
    let check = |behaviour: Behaviour, expected: &str| {
        board.behaves(behaviour);
        let line = format!("enroll --server-url {} --enrollment-token -", board.url());
        let ended = with_input(&host, &line, ONCE);
        assert_hides_secrets(&ended);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.stderr.contains(expected), "{ended:?}");
        assert!(!host.state("cloud.json").exists());
        let left = std::fs::read_dir(host.path(".gua")).unwrap();
        assert_eq!(left.count(), 0, "no temporary file remains");
    };
    check(
        Behaviour::Responds(401, format!(r#"{{"detail":"the token {ONCE} is spent"}}"#)),
        "gua enroll: GUA Board request failed with HTTP 401: the token [hidden] is spent\n",
    );
    check(
        Behaviour::Responds(201, CLAIM_ANSWER.replace("h1", "")),
        "gua enroll: the response is not that of a GUA Board: the board's answer to the claim cannot be used: fields are missing, empty or not a string: hostId\n",
    );
    check(
        Behaviour::Responds(200, "[".to_owned()),
        "it is not valid JSON",
    );
    check(
        Behaviour::CutsBody,
        "could not reach GUA Board server: the connection was lost",
    );
}
