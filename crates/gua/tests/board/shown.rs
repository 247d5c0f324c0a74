//! What `gua status` and `gua doctor` say of the link, without its secret.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::sync_once::enrolled;
use crate::{TWO_GPUS, host};
use gua_test::board::{Behaviour, Board, TOKEN};
use gua_test::{TestHost, wait_for};

/// The verdict of doctor on the link.
fn verdict(host: &TestHost) -> (String, Value) {
    let said = host.fine("doctor --json");
    assert!(!said.contains(TOKEN), "{said}");
    let page: Value = serde_json::from_str(&said).unwrap();
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
    let said = host.fine("status");
    assert!(
        said.ends_with(&format!("{named}  last push: none yet\n")),
        "{said}"
    );
    host.fine("sync-once --archive");
    let said = host.fine("status");
    assert!(
        said.contains(&named) && said.contains("  last push: 2"),
        "{said}"
    );
    assert!(said.contains("  archive: complete as of 2"), "{said}");
    assert!(!said.contains("error"), "{said}");
    board.behaves(Behaviour::Responds(
        500,
        format!(r#"{{"detail":"{TOKEN}"}}"#),
    ));
    assert_eq!(host.gua("sync-once").code, 1);
    let said = host.fine("status");
    assert!(said.contains("  failed attempts since: 1\n"), "{said}");
    assert!(said.contains("HTTP 500") && !said.contains(TOKEN), "{said}");
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
fn doctor_tells_whether_the_board_answers_and_the_secret_is_kept() {
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
    // The limit that was reached, which is not that of the whole request.
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
