//! `gua status` and `gua doctor` show the board link without its secret.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::sync_once::enrolled;
use crate::{TWO_GPUS, host};
use gua_test::board::{Behaviour, Board, TOKEN};
use gua_test::{TestHost, wait_for};

/// Result of doctor's check of the board link.
fn verdict(host: &TestHost) -> (String, Value) {
    let output = host.fine("doctor --json");
    assert!(!output.contains(TOKEN), "{output}");
    let page: Value = serde_json::from_str(&output).unwrap();
    let checks = page["checks"].as_array().unwrap();
    let link = checks.iter().find(|check| check["id"] == "board_link");
    let link = link.unwrap().clone();
    (link["status"].as_str().unwrap().to_owned(), link)
}

#[test]
fn status_shows_the_board_the_last_push_and_the_last_error() {
    let board = Board::start();
    let host = host(TWO_GPUS);
    assert_eq!(host.fine("status"), "gua daemon: not running\n");
    let host = enrolled(host, &board);
    let named = format!("  board: lab 1 ({})\n", board.url());
    let output = host.fine("status");
    assert!(
        output.ends_with(&format!("{named}  last push: none yet\n")),
        "{output}"
    );
    host.fine("sync-once --archive");
    let output = host.fine("status");
    assert!(
        output.contains(&named) && output.contains("  last push: 2"),
        "{output}"
    );
    assert!(output.contains("  archive: complete as of 2"), "{output}");
    assert!(!output.contains("error"), "{output}");
    board.behaves(Behaviour::Responds(
        500,
        format!(r#"{{"detail":"{TOKEN}"}}"#),
    ));
    assert_eq!(host.gua("sync-once").code, 1);
    let output = host.fine("status");
    assert!(output.contains("  failed attempts since: 1\n"), "{output}");
    assert!(
        output.contains("HTTP 500") && !output.contains(TOKEN),
        "{output}"
    );
    board.behaves(Behaviour::Accepts);
    host.fine("daemon --cloud --interval 100ms --append");
    wait_for("the stream in the status", || {
        host.fine("status")
            .contains("  stream: connected\n")
            .then_some(())
    });
    host.fine("stop");
    host.fine("unenroll");
    assert_eq!(host.fine("status"), "gua daemon: not running\n");
}

#[test]
fn doctor_checks_that_the_board_answers_and_the_secret_is_private() {
    let board = Board::start();
    let host = host(TWO_GPUS);
    assert_eq!(verdict(&host).0, "ok");
    let host = enrolled(host, &board);
    let secret = host.state("cloud.json");
    let allow = |mode| std::fs::set_permissions(&secret, Permissions::from_mode(mode)).unwrap();
    allow(0o600);
    let check = |manner: Behaviour, status: &str, answer: &str| {
        board.behaves(manner);
        let (found, link) = verdict(&host);
        assert_eq!(
            (found.as_str(), link["details"]["answer"].as_str()),
            (status, Some(answer)),
            "{link}"
        );
    };
    check(Behaviour::Accepts, "ok", "accepted");
    check(Behaviour::Responds(404, String::new()), "ok", "reached");
    check(Behaviour::Responds(401, String::new()), "warning", "denied");
    check(Behaviour::Responds(500, String::new()), "warning", "none");
    check(Behaviour::Garbage, "warning", "none");
    check(Behaviour::Silent, "warning", "none");
    // The timeout that was reached, which is shorter than that of the whole request.
    let summary = verdict(&host).1["summary"].to_string();
    assert!(summary.contains("no response within 3 s"), "{summary}");
    let asked = board.take();
    assert!(
        asked
            .iter()
            .all(|request| request.line == "GET /agent/v1/archives"),
        "{asked:?}"
    );
    allow(0o644);
    check(Behaviour::Accepts, "warning", "accepted");
    assert_eq!(verdict(&host).1["details"]["secret_is_private"], false);
    host.write(".gua/cloud.json", "{}");
    assert_eq!(verdict(&host).0, "warning");
}
