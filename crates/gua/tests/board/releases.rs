//! The real board and the agents of gpu-usage-audit 1.1.0 and 1.8.0. Without a Python that runs them, their recorded requests
//! are replayed, and the test says so.

use std::io::Write as _;
use std::net::TcpStream;

use flate2::Compression;
use flate2::write::GzEncoder;
use gua_test::http::Request;
use gua_test::originals::{self, released};
use gua_test::tape::recording;
use gua_test::{TestHost, wait_for};
use serde_json::Value;
use tungstenite::Message;
use tungstenite::client::IntoClientRequest as _;

use super::served::{Served, answer};
use crate::{TWO_GPUS, host};

/// Starts a command of a release on the simulated GPUs of a host.
fn command(host: &TestHost, version: &str, line: &str) -> std::process::Command {
    let mut command = host.command(released(version));
    command.args(line.split_whitespace());
    // Its NVML binding finds the library through the system's loader.
    command.env("LD_LIBRARY_PATH", host.path(""));
    command
}

#[track_caller]
fn run(host: &TestHost, version: &str, line: &str) {
    let output = command(host, version, line).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{version} {line}: {errors}");
}

/// The real agent of a release enrols and pushes, and that of 1.8.0 streams and archives. Otherwise its recorded requests
/// are replayed.
fn check_release(version: &str) {
    let board = Served::start();
    let token = board.enrolment_token("theirs");
    if !originals::run_live() {
        replay(&board, version, &token);
        return;
    }
    let host = host(TWO_GPUS);
    let line = format!(
        "enroll --server-url {} --enrollment-token {token} --hostname vm",
        board.url
    );
    run(&host, version, &line);
    run(&host, version, "sync-once --fake");
    check_pushed(&board);
    if version == "1.1.0" {
        return;
    }
    let daemon = command(
        &host,
        version,
        "daemon --foreground --cloud --interval 200ms --db theirs.db",
    );
    let daemon = host.start(daemon);
    wait_for("frames of the stream", || {
        (board.frames() >= 2).then_some(())
    });
    drop(daemon);
    host.fine("demo --script 1.8 --db days.db --ticks 100 --interval 1h");
    host.fine("export --format gpu-usage-audit --db days.db --output old.db");
    run(&host, version, "sync-archive --db old.db");
    let config: Value = serde_json::from_str(&host.read(".gua/cloud.json")).unwrap();
    let token = config["agentToken"].as_str().unwrap();
    check_archived(&board, &format!("Bearer {token}"));
}

/// The hosts and GPUs of `sync-once --fake`.
#[track_caller]
fn check_pushed(board: &Served) {
    let live = board.live();
    assert_eq!(live[0]["displayName"], "theirs");
    assert_eq!(live[0]["gpus"].as_array().unwrap().len(), 3, "{live}");
    assert_eq!(live[0]["gpus"][1]["processes"][0]["owner"], "bob");
}

/// Closed days and the files that cover all days are listed.
#[track_caller]
fn check_archived(board: &Served, bearer: &str) {
    let line = "GET /agent/v1/archives";
    let (status, listed) = board.request(line, &[("Authorization", bearer)], b"");
    assert_eq!(status, 200, "{listed}");
    let archives = listed["archives"].as_array().unwrap().iter();
    let is_day = |one: &&Value| one["date"] != "_full" && one["table"] == "gpu_sample";
    assert!(archives.clone().filter(is_day).count() > 0, "{listed}");
    let full = archives.filter(|one| one["date"] == "_full");
    let mut full: Vec<&str> = full.map(|one| one["table"].as_str().unwrap()).collect();
    full.sort_unstable();
    assert_eq!(full, ["daemon_run", "gpu_device"]);
}

/// Sends the recorded requests with the tokens of this board.
fn replay(board: &Served, version: &str, token: &str) {
    let sent = recording(&format!("wire-sent-{version}")).remove(0);
    let request = |value: &Value| serde_json::from_value::<Request>(value.clone()).unwrap();
    let claim = request(&sent["claim"]);
    let body = claim.text().replace("gua_enroll_x", token);
    let (status, answer) = board.request(
        &claim.line,
        &[("Content-Type", "application/json")],
        body.as_bytes(),
    );
    assert_eq!(status, 201, "{answer}");
    let bearer = format!("Bearer {}", answer["agentToken"].as_str().unwrap());
    for push in sent["pushes"].as_array().unwrap() {
        let push = request(push);
        let (status, answer) = board.request(&push.line, &[("Authorization", &bearer)], &push.body);
        assert_eq!(status, 202, "{answer}");
    }
    check_pushed(board);
    if version == "1.8.0" {
        replay_stream(board, &bearer);
        replay_archive(board, &bearer);
    }
}

/// Sends the recorded frame of 1.8.0 over a stream.
fn replay_stream(board: &Served, bearer: &str) {
    let recorded = recording("wire-stream").remove(0);
    let frame = recorded[3].as_str().unwrap();
    let address = board.url.strip_prefix("http://").unwrap();
    let url = format!("ws://{address}/agent/v1/stream");
    let mut request = url.into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("Authorization", bearer.parse().unwrap());
    let stream = TcpStream::connect(address).unwrap();
    let (mut socket, _) = tungstenite::client(request, stream).unwrap();
    let before = board.frames();
    socket.send(Message::text(frame)).unwrap();
    wait_for("the frame", || (board.frames() > before).then_some(()));
}

/// Uploads the recorded files of 1.8.0 to the archive.
fn replay_archive(board: &Served, bearer: &str) {
    let recorded = recording("wire-archive").remove(0);
    for request in recorded["requests"].as_array().unwrap() {
        // The recorded days are over for longer than the agent keeps them.
        if request[0].as_str().unwrap().starts_with("DELETE") {
            check_archived(board, bearer);
        }
        let [line, _, text] = [0, 1, 2].map(|place| request[place].as_str().unwrap_or_default());
        let mut body = Vec::new();
        if !text.is_empty() {
            let mut file = GzEncoder::new(Vec::new(), Compression::default());
            file.write_all(text.as_bytes()).unwrap();
            body = file.finish().unwrap();
        }
        let headers = [
            ("Authorization", bearer),
            ("Content-Type", "application/gzip"),
        ];
        let (status, text) = answer(&board.url, line, &headers, &body);
        assert!((200..300).contains(&status), "{line}: {status} {text}");
    }
}

#[test]
fn release_1_1_enrols_and_pushes() {
    check_release("1.1.0");
}

#[test]
fn release_1_8_enrols_pushes_streams_and_archives() {
    check_release("1.8.0");
}

#[test]
fn recorded_requests_of_the_releases_are_accepted() {
    for version in ["1.1.0", "1.8.0"] {
        let board = Served::start();
        let token = board.enrolment_token("theirs");
        replay(&board, version, &token);
    }
}
