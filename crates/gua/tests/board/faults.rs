//! A misbehaving board: each fault gives one sentence, within the timeout and without the token, and the local rows are
//! stored.

use std::net::TcpListener;

use gua_probe::clock;

use super::sync_once::enrolled;
use crate::{TWO_GPUS, host};
use gua_test::TestHost;
use gua_test::board::{Behaviour, Board, TOKEN};

/// The request timeouts plus a margin for a slow machine.
const MAX_TIME: std::time::Duration = std::time::Duration::from_secs(25);

#[track_caller]
fn assert_push_fails(host: &TestHost, expected: &str) {
    let before = host.ticks(".gua/gua.db").len();
    let began = clock::monotonic();
    let ended = host.gua("sync-once");
    let took = clock::monotonic() - began;
    assert!(took < MAX_TIME, "{expected}: {took:?}");
    assert_eq!(ended.code, 1, "{expected}: {ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(
        ended.stderr.contains("the local snapshot is saved to"),
        "{ended:?}"
    );
    assert!(ended.stderr.contains(expected), "{expected}: {ended:?}");
    assert!(!ended.stderr.contains(TOKEN), "{ended:?}");
    assert_eq!(host.ticks(".gua/gua.db").len(), before + 1);
}

#[track_caller]
fn check(behaviour: Behaviour, expected: &str) {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    board.behaves(behaviour);
    assert_push_fails(&host, expected);
    assert_eq!(board.take().len(), 1, "exactly one attempt");
}

#[test]
fn a_rejected_token_is_reported_without_the_token() {
    let detail = format!(r#"{{"detail":"unknown token {TOKEN}"}}"#);
    check(
        Behaviour::Responds(401, detail),
        ": GUA Board request failed with HTTP 401: unknown token [hidden]\n",
    );
}

#[test]
fn a_list_of_validation_errors_is_reduced_to_the_status() {
    let detail = r#"{"detail":[{"loc":["body","gpus"],"msg":"field required"}]}"#;
    check(
        Behaviour::Responds(422, detail.to_owned()),
        ": GUA Board request failed with HTTP 422\n",
    );
}

#[test]
fn a_server_error_is_reported_with_its_status() {
    check(
        Behaviour::Responds(500, "<html>oops</html>".to_owned()),
        ": GUA Board request failed with HTTP 500\n",
    );
}

#[test]
fn a_board_that_never_answers_times_out() {
    check(
        Behaviour::Silent,
        ": could not reach GUA Board server: no response within 10 s\n",
    );
}

#[test]
fn a_board_that_sends_a_byte_at_a_time_times_out() {
    check(
        Behaviour::Trickles,
        ": could not reach GUA Board server: no response within 10 s\n",
    );
}

#[test]
fn a_connection_cut_in_the_middle_is_reported() {
    check(
        Behaviour::CutsHead,
        ": could not reach GUA Board server: the connection was lost",
    );
}

#[test]
fn a_server_that_does_not_speak_http_is_reported() {
    check(
        Behaviour::Garbage,
        ": the response is not that of a GUA Board",
    );
}

#[test]
fn a_redirect_is_not_followed_with_the_token() {
    let elsewhere = Board::start();
    check(
        Behaviour::Redirects(format!("{}/agent/v1/observations", elsewhere.url())),
        "HTTP 302; gua does not follow redirects, because it would send the token along\n",
    );
    assert!(elsewhere.take().is_empty());
}

#[test]
fn a_response_of_ten_megabytes_is_not_read() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    board.behaves(Behaviour::Floods);
    assert_push_fails(&host, ": GUA Board request failed with HTTP 422\n");
    // The kernel's buffers on both sides of the connection can have taken data too.
    assert!(board.taken() < 8 << 20, "{} bytes", board.taken());
}

#[test]
fn an_accepted_push_with_an_invalid_response_counts_as_accepted() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    for behaviour in [
        Behaviour::CutsBody,
        Behaviour::Responds(200, "{garbage".to_owned()),
        Behaviour::Responds(204, String::new()),
    ] {
        board.behaves(behaviour);
        host.fine("sync-once");
    }
}

#[test]
fn a_refused_connection_is_reported() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let file = host.read(".gua/cloud.json");
    host.write(
        ".gua/cloud.json",
        file.replace(&board.port().to_string(), &port.to_string()),
    );
    assert_push_fails(
        &host,
        ": could not reach GUA Board server: cannot connect to `127.0.0.1:",
    );
}
