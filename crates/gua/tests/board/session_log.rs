//! The log of a board over a whole session: it has no secret, and nobody can forge a line of it.

use std::io::Write as _;
use std::process::Stdio;

use gua_test::{Running, TestHost, wait_for};
use serde_json::{Value, json};

use super::served::{PASSWORD, url};
use super::sign_on::{Answer, call};
use crate::{TWO_GPUS, host, without_driver};

fn text(answer: &Answer, field: &str) -> String {
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    let found = body[field].as_str();
    found
        .unwrap_or_else(|| panic!("{}", answer.body))
        .to_owned()
}

fn board_with_owner() -> (TestHost, Running) {
    let home = without_driver();
    let mut add = home.gua_command("board user add ada --role owner --password-stdin");
    let mut child = add.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(PASSWORD.as_bytes()).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    let board = home.foreground("board serve --listen 127.0.0.1:0");
    (home, board)
}

#[test]
fn no_secret_and_no_forged_line_is_in_the_log_of_a_session() {
    let (_home, mut board) = board_with_owner();
    let url = url(&board);
    let own = ("Sec-Fetch-Site", "same-origin");
    let workspace = "/api/v1/workspaces/default";

    let log_in = |password: &str| {
        let body = json!({"name": "ada", "password": password}).to_string();
        call(&url, "POST /api/v1/login", &[own], &body)
    };
    let wrong = "hunter2 hunter2";
    assert_eq!(log_in(wrong).status, 401);
    let session = log_in(PASSWORD).cookies();
    assert!(session.starts_with("gua_session="), "{session}");
    let post = |path: &str, body: &Value| {
        let headers = [own, ("Cookie", session.as_str())];
        let answer = call(&url, &format!("POST {path}"), &headers, &body.to_string());
        assert!(
            (200..300).contains(&answer.status),
            "{path}: {}",
            answer.body
        );
        answer
    };
    let key = post(&format!("{workspace}/enrolment-keys"), &json!({"uses": 2}));
    let key = text(&key, "secret");
    let api = post(
        &format!("{workspace}/api-tokens"),
        &json!({"scope": "read"}),
    );
    let api = text(&api, "secret");
    let invitation = post(
        &format!("{workspace}/invitations"),
        &json!({"role": "member"}),
    );
    let invitation = text(&invitation, "url");
    let invitation = invitation.split('#').nth(1).unwrap().to_owned();
    let code = text(
        &post(&format!("{workspace}/name-codes"), &Value::Null),
        "code",
    );

    // A host whose name pretends to be a line of the log.
    let forged = "gpu\n2026-01-01T00:00:00Z ERROR forged\u{1b}[31m";
    let claim = json!({"enrollmentToken": key, "hostname": forged}).to_string();
    let claimed = call(&url, "POST /agent/v1/enrollments/claim", &[], &claim);
    assert_eq!(claimed.status, 201, "{}", claimed.body);
    let agent = text(&claimed, "agentToken");
    let bearer = format!("Bearer {agent}");
    let auth = [("Authorization", bearer.as_str())];
    let rotated = call(&url, "POST /agent/v1/token", &auth, "");
    let rotated = text(&rotated, "agentToken");
    for line in [
        "POST /agent/v1/observations",
        "GET /no\u{1b}[31m/such%0apath",
        "GET /demo/gua_link_secret",
    ] {
        call(&url, line, &auth, "{\"forged\n\": 1");
    }
    let reader = host(TWO_GPUS);
    reader.fine(&format!(
        "enroll --server-url {url} --enrollment-token {key}"
    ));
    reader.fine("sync-once");
    let enrolment: Value = serde_json::from_str(&reader.read(".gua/cloud.json")).unwrap();
    let linked = reader.fine(&format!("board link {code}"));
    assert!(linked.contains("is ada on the board"), "{linked}");
    let used = reader.gua(&format!("board link {code}"));
    assert_eq!(used.code, 1, "{used:?}");
    board.stop();
    wait_for("the end of the log", || {
        board.stderr().contains("board stopped").then_some(())
    });
    let log = board.stderr();
    let session = session.split('=').nth(1).unwrap();
    let token = enrolment["agentToken"].as_str().unwrap();
    for secret in [
        PASSWORD,
        wrong,
        session,
        &key,
        &api,
        &invitation,
        &code,
        &agent,
        &rotated,
        token,
        "gua_link_secret",
    ] {
        assert!(!log.contains(secret), "{log}");
    }
    assert!(!log.contains('\u{1b}'), "{log}");
    assert!(!log.lines().any(|line| line.contains("ERROR")), "{log}");
}
