//! A board that misbehaves: each time one sentence, within the time, without the token, and the local rows are there.

use std::net::TcpListener;

use gua_probe::clock;

use super::sync_once::enrolled;
use crate::{TWO_GPUS, host};
use gua_test::TestHost;
use gua_test::board::{Behaviour, Board, TOKEN};

/// The limits of a request, and something for a slow machine.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(25);

#[track_caller]
fn fails(host: &TestHost, told: &str) {
    let before = host.ticks(".gua/gua.db").len();
    let began = clock::monotonic();
    let ended = host.gua("sync-once");
    let took = clock::monotonic() - began;
    assert!(took < LONGEST, "{told}: {took:?}");
    assert_eq!(ended.code, 1, "{told}: {ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(
        ended.stderr.contains("the local snapshot is saved to"),
        "{ended:?}"
    );
    assert!(ended.stderr.contains(told), "{told}: {ended:?}");
    assert!(!ended.stderr.contains(TOKEN), "{ended:?}");
    assert_eq!(host.ticks(".gua/gua.db").len(), before + 1);
}

#[track_caller]
fn check(manner: Behaviour, told: &str) {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    board.behaves(manner);
    fails(&host, told);
    assert_eq!(board.take().len(), 1, "one attempt, no more");
}

#[test]
fn a_board_that_refuses_the_token() {
    let detail = format!(r#"{{"detail":"unknown token {TOKEN}"}}"#);
    check(
        Behaviour::Responds(401, detail),
        ": GUA Board request failed with HTTP 401: unknown token [hidden]\n",
    );
}

#[test]
fn a_board_that_has_a_list_of_complaints() {
    let detail = r#"{"detail":[{"loc":["body","gpus"],"msg":"field required"}]}"#;
    check(
        Behaviour::Responds(422, detail.to_owned()),
        ": GUA Board request failed with HTTP 422\n",
    );
}

#[test]
fn a_board_that_is_broken() {
    check(
        Behaviour::Responds(500, "<html>oops</html>".to_owned()),
        ": GUA Board request failed with HTTP 500\n",
    );
}

#[test]
fn a_board_that_accepts_and_never_answers() {
    check(
        Behaviour::Silent,
        ": could not reach GUA Board server: no response within 10 s\n",
    );
}

#[test]
fn a_board_that_answers_a_byte_at_a_time() {
    check(
        Behaviour::Trickles,
        ": could not reach GUA Board server: no response within 10 s\n",
    );
}

#[test]
fn a_connection_that_is_cut_in_the_middle() {
    check(
        Behaviour::CutsHead,
        ": could not reach GUA Board server: the connection was lost",
    );
}

#[test]
fn a_server_that_does_not_speak_http() {
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
fn ten_megabytes_of_answer_are_not_read() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    board.behaves(Behaviour::Floods);
    fails(&host, ": GUA Board request failed with HTTP 422\n");
    // What the kernel holds on both sides of a connection may have been taken too.
    assert!(board.taken() < 8 << 20, "{} bytes", board.taken());
}

#[test]
fn a_board_that_takes_a_push_and_says_nonsense_about_it_has_taken_it() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    for manner in [
        Behaviour::CutsBody,
        Behaviour::Responds(200, "{garbage".to_owned()),
        Behaviour::Responds(204, String::new()),
    ] {
        board.behaves(manner);
        host.fine("sync-once");
    }
}

#[test]
fn nobody_listens() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let file = host.read(".gua/cloud.json");
    host.write(
        ".gua/cloud.json",
        file.replace(&board.port().to_string(), &port.to_string()),
    );
    fails(
        &host,
        ": could not reach GUA Board server: cannot connect to `127.0.0.1:",
    );
}
