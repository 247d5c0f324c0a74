//! The contract with agents.

use gua_board_store::HostId;
use gua_board_store::registry::HostEdit;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Board, START, snapshot};

const OBSERVATIONS: &str = "POST /agent/v1/observations";

fn auth(token: &str) -> [(&str, &str); 1] {
    [("authorization", token)]
}

fn stored(board: &Board, host: &str) -> usize {
    let host = HostId(host.to_owned());
    let all = board
        .app
        .ledger
        .snapshots(&host, Timestamp::MIN, Timestamp::MAX);
    all.unwrap().len()
}

#[tokio::test]
async fn a_host_enrols_once_and_pushes_idempotently() {
    let board = Board::start();
    let workspace = board.workspace();
    let key = board.enrolment_key(&workspace, 1);
    let claim =
        json!({"enrollmentToken": format!(" {key} "), "hostname": "gpu1", "agentVersion": "1.1.0"})
            .to_string();
    let answer = board
        .call("POST /agent/v1/enrollments/claim", &[], claim.clone())
        .await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.body["displayName"], "gpu1");
    let token = answer.body["agentToken"].as_str().unwrap();
    assert!(token.starts_with("gua_agent_"));
    let prefix = answer.body["tokenPrefix"].as_str().unwrap();
    assert!(token.starts_with(prefix) && prefix.len() < 20, "{prefix}");
    let again = board
        .call("POST /agent/v1/enrollments/claim", &[], claim)
        .await;
    assert_eq!(again.status, 401);
    assert!(again.body["detail"].as_str().unwrap().contains("not valid"));

    let host = answer.body["hostId"].as_str().unwrap().to_owned();
    let token = format!("Bearer {token}");
    for _ in 0..3 {
        let answer = board
            .call(OBSERVATIONS, &auth(&token), snapshot(0, "ada").to_string())
            .await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        assert_eq!(
            answer.body,
            json!({"status": "accepted", "gpuSlotsSeen": 1})
        );
        assert_eq!(answer.headers["gua-accepts"], "gua.live.v1");
    }
    assert_eq!(stored(&board, &host), 1);
    let live = board.app.live.host(&HostId(host)).unwrap();
    assert_eq!(
        live.report.gpus[0].processes[0].owner.as_deref(),
        Some("ada")
    );
}

#[tokio::test]
async fn what_deviates_from_the_contract_is_422_with_a_reason() {
    let board = Board::start();
    let (host, token) = board.enrol(&board.workspace(), "gpu1").await;
    let check = async |body: String, part: &str| {
        let answer = board.call(OBSERVATIONS, &auth(&token), body).await;
        assert_eq!(answer.status, 422, "{part}: {}", answer.body);
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{detail}");
    };
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut body = snapshot(0, "ada");
        change(&mut body);
        body.to_string()
    };
    check(
        changed(&|body| body["more"] = json!(1)),
        "unknown field `more`",
    )
    .await;
    check(
        changed(&|body| body["gpus"][0]["x"] = json!(1)),
        "unknown field `x`",
    )
    .await;
    check(
        changed(&|body| body["schemaVersion"] = json!("v2")),
        "unknown variant",
    )
    .await;
    check(
        changed(&|body| body["observedAt"] = json!("today")),
        "observedAt",
    )
    .await;
    check(
        changed(&|body| body["gpus"][0]["utilPct"] = json!(101)),
        "utilPct",
    )
    .await;
    check(changed(&|body| body["errors"] = json!(["x"])), "errors").await;
    check("[".to_owned(), "EOF").await;
    check(String::new(), "EOF").await;
    assert_eq!(stored(&board, &host), 0);
    let claim = board
        .call(
            "POST /agent/v1/enrollments/claim",
            &[],
            r#"{"enrollmentToken":" ","hostname":"h"}"#,
        )
        .await;
    assert_eq!(claim.status, 422);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let board = Board::start();
    let (_, token) = board.enrol(&board.workspace(), "gpu1").await;
    let large = " ".repeat((4 << 20) + 1);
    let answer = board.call(OBSERVATIONS, &auth(&token), large).await;
    assert_eq!(answer.status, 413);
}

#[tokio::test]
async fn a_host_that_pushes_too_fast_is_asked_to_wait() {
    let board = Board::start();
    let (_, token) = board.enrol(&board.workspace(), "gpu1").await;
    let (_, other) = board.enrol(&board.workspace(), "gpu2").await;
    let mut answers = Vec::new();
    for _ in 0..260 {
        let answer = board.call(OBSERVATIONS, &auth(&token), "[").await;
        answers.push(answer);
    }
    let refused = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!(refused.headers["retry-after"], "1");
    let answer = board.call(OBSERVATIONS, &auth(&other), "[").await;
    assert_eq!(answer.status, 422);
}

#[tokio::test(start_paused = true)]
async fn tokens_that_are_missing_wrong_or_revoked_are_401() {
    let board = Board::start();
    let workspace = board.workspace();
    let (host, token) = board.enrol(&workspace, "gpu1").await;
    let body = snapshot(0, "ada").to_string();
    for headers in [
        vec![],
        vec![("authorization", "Bearer gua_agent_x")],
        vec![("authorization", "Basic x")],
        vec![("authorization", "Bearer")],
    ] {
        let answer = board.call(OBSERVATIONS, &headers, body.clone()).await;
        assert_eq!(answer.status, 401, "{headers:?}");
    }
    let answer = board.call(OBSERVATIONS, &auth(&token), body.clone()).await;
    assert_eq!(answer.status, 202);
    let store = &*board.app.registry;
    let (change, host) = (board.change(), HostId(host));
    store
        .edit_host(&change, &workspace.id, &host, &HostEdit::Revoke)
        .unwrap();
    // The cache notices within a second, also when another process revoked the token.
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let answer = board.call(OBSERVATIONS, &auth(&token), body).await;
    assert_eq!(answer.status, 401);
}

#[tokio::test]
async fn archives_are_listed_replaced_and_pruned_for_their_own_host() {
    let board = Board::start();
    let (_, token) = board.enrol(&board.workspace(), "gpu1").await;
    let (_, other) = board.enrol(&board.workspace(), "gpu2").await;
    let gzip = || vec![0x1f, 0x8b, 8, 0];
    let path =
        |date: &str, table: &str| format!("POST /agent/v1/archives?date={date}&table={table}");
    for (date, table) in [
        ("2026-09-20", "gpu_sample"),
        ("2026-09-01", "gpu_sample"),
        ("_full", "daemon_run"),
    ] {
        for _ in 0..2 {
            let answer = board.call(&path(date, table), &auth(&token), gzip()).await;
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
    }
    for (line, body) in [
        (path("2026-09-20", "users"), gzip()),
        (path("..%2F..", "gpu_sample"), gzip()),
        (path("2026-09-20", "gpu_sample"), b"plain".to_vec()),
        ("POST /agent/v1/archives?date=2026-09-20".to_owned(), gzip()),
        (
            "DELETE /agent/v1/archives?olderThanDays=-1".to_owned(),
            gzip(),
        ),
    ] {
        let answer = board.call(&line, &auth(&token), body).await;
        assert_eq!(answer.status, 422, "{line}");
    }
    let pruned = board
        .call(
            "DELETE /agent/v1/archives?olderThanDays=5",
            &auth(&token),
            "",
        )
        .await;
    assert_eq!(pruned.body, json!({"deleted": 1}));
    let listed = board
        .call("GET /agent/v1/archives", &auth(&token), "")
        .await;
    let expected = json!({"archives": [{"date": "2026-09-20", "table": "gpu_sample"}, {"date": "_full", "table": "daemon_run"}]});
    assert_eq!(listed.body, expected);
    let listed = board
        .call("GET /agent/v1/archives", &auth(&other), "")
        .await;
    assert_eq!(listed.body, json!({"archives": []}));
}

#[tokio::test]
async fn a_live_report_supersedes_the_snapshot_of_its_tick() {
    let board = Board::start();
    let (host, token) = board.enrol(&board.workspace(), "gpu1").await;
    let at = Timestamp::from_second(START).unwrap();
    let live = json!({
        "schemaVersion": "gua.live.v1", "observedAt": at.to_string(), "waiting": 2, "problems": [],
        "host": {"hostname": "h", "agentVersion": "0.1.0", "driverVersion": "560"},
        "gpus": [{
            "uuid": "MIG-1", "index": 0, "name": "A100", "instance": {"parent": "GPU-a", "slices": 1, "slicesOf": 7},
            "state": "truly-idle", "obstacle": "claimed", "utilPercent": {"missing": "unsupported"},
            "memoryUsedBytes": 1, "memoryTotalBytes": 2, "temperatureCelsius": {"missing": "denied"}, "powerMilliwatts": 1,
            "health": [], "claim": {"owner": "ada", "until": null}, "processes": [],
        }],
    });
    let answer = board
        .call(OBSERVATIONS, &auth(&token), snapshot(0, "ada").to_string())
        .await;
    assert_eq!(answer.status, 202);
    let answer = board
        .call("POST /agent/v1/live", &auth(&token), live.to_string())
        .await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let answer = board
        .call(OBSERVATIONS, &auth(&token), snapshot(30, "ada").to_string())
        .await;
    assert_eq!(answer.status, 202);
    let report = board.app.live.host(&HostId(host)).unwrap().report;
    assert_eq!((report.waiting, report.gpus[0].is_free()), (2, false));
    let mut bad = live;
    bad["gpus"][0]["more"] = json!(1);
    let answer = board
        .call("POST /agent/v1/live", &auth(&token), bad.to_string())
        .await;
    assert_eq!(answer.status, 422);
}

#[tokio::test]
async fn the_last_state_is_there_after_a_restart() {
    let board = Board::start();
    let (host, token) = board.enrol(&board.workspace(), "gpu1").await;
    board
        .call(OBSERVATIONS, &auth(&token), snapshot(5, "ada").to_string())
        .await;
    let latest = board.app.ledger.latest().unwrap();
    let state = gua_board::live::LiveState::load(&latest);
    let live = state.host(&HostId(host)).unwrap();
    assert_eq!(
        live.report.gpus[0].processes[0].owner.as_deref(),
        Some("ada")
    );
    assert_eq!(live.received_at.as_second(), START);
}
