//! Enrolment keys with limits, approval, machines that share a token, hosts that enrol again, and new tokens.

use gua_board_store::registry::{Role, Scope};
use serde_json::{Value, json};

use crate::{Answer, Board, snapshot};

const CLAIM: &str = "POST /agent/v1/enrollments/claim";
const OBSERVATIONS: &str = "POST /agent/v1/observations";
const WORKSPACE: &str = "/api/v1/workspaces/default";

/// A board with an admin.
struct Admin {
    board: Board,
    token: String,
}

impl Admin {
    fn start() -> Self {
        let board = Board::start();
        let workspace = board.workspace();
        let account = board.account("ada", &workspace, Role::Admin);
        let token = board.api_token(&account, &workspace, Scope::Write);
        Self { board, token }
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [("authorization", self.token.as_str())];
        let line = format!("{method} {WORKSPACE}{path}");
        self.board.call(&line, &headers, body.to_string()).await
    }

    async fn page(&self) -> String {
        let headers = [
            ("authorization", self.token.as_str()),
            ("accept", "text/html"),
        ];
        let answer = self
            .board
            .call("GET /w/default/servers", &headers, "")
            .await;
        assert_eq!(answer.status, 200);
        answer.body.as_str().unwrap().to_owned()
    }

    async fn key(&self, wanted: Value) -> String {
        let answer = self.call("POST", "/enrolment-keys", &wanted).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.body["secret"].as_str().unwrap().to_owned()
    }

    async fn claim(&self, key: &str, hostname: &str) -> Answer {
        let claim = json!({"enrollmentToken": key, "hostname": hostname}).to_string();
        self.board.call(CLAIM, &[], claim).await
    }

    async fn hosts(&self) -> Vec<Value> {
        let answer = self.call("GET", "/hosts", &Value::Null).await;
        answer.body["items"].as_array().unwrap().clone()
    }

    /// Pushes a snapshot of a host with one GPU.
    async fn push(&self, bearer: &str, second: i64, hostname: &str, gpu: &str) -> Answer {
        let mut body = snapshot(second, "eve");
        body["host"]["hostname"] = json!(hostname);
        body["gpus"][0]["uuid"] = json!(gpu);
        let headers = [("authorization", bearer)];
        self.board
            .call(OBSERVATIONS, &headers, body.to_string())
            .await
    }
}

fn bearer(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{}", answer.body);
    format!("Bearer {}", answer.body["agentToken"].as_str().unwrap())
}

#[tokio::test]
async fn a_key_is_refused_with_its_reason_to_the_host_and_on_the_page() {
    let admin = Admin::start();
    let key = admin
        .key(json!({"uses": 1, "hostNames": "gpu-*", "tags": "lab, a100,lab"}))
        .await;
    let refused = admin.claim(&key, "<b>evil</b>").await;
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.body["detail"],
        "the enrolment token is not valid: the enrolment token is for hosts named gpu-*"
    );
    bearer(&admin.claim(&key, "gpu-1").await);
    let again = admin.claim(&key, "gpu-2").await;
    assert_eq!(again.status, 401);
    let detail = again.body["detail"].as_str().unwrap();
    assert!(detail.ends_with("has been used already"), "{detail}");
    let unknown = admin.claim("gua_enroll_none", "gpu-3").await;
    assert_eq!(unknown.status, 401);

    let hosts = admin.hosts().await;
    assert_eq!(hosts.len(), 1);
    assert_eq!(hosts[0]["tags"], json!(["a100", "lab"]));
    let page = admin.page().await;
    assert!(page.contains("gpu-2: the enrolment token has been used already"));
    assert!(page.contains("&lt;b&gt;evil&lt;/b&gt;: ") && !page.contains("<b>evil"));
    // A token that never existed belongs to no workspace.
    assert!(!page.contains("gpu-3"));
    let refusals = admin.call("GET", "/enrolment-refusals", &Value::Null).await;
    assert_eq!(refusals.body["items"].as_array().unwrap().len(), 2);
    admin.board.pass(24 * 3600 + 1);
    let refusals = admin.call("GET", "/enrolment-refusals", &Value::Null).await;
    assert_eq!(refusals.body["items"], json!([]));
    for (field, value) in [
        ("tags", json!("a\u{7}b")),
        ("hostNames", json!(" ")),
        (
            "tags",
            json!(
                (0..21)
                    .map(|tag| tag.to_string())
                    .collect::<Vec<_>>()
                    .join(",")
            ),
        ),
    ] {
        let wrong = admin
            .call("POST", "/enrolment-keys", &json!({field: value}))
            .await;
        assert_eq!(wrong.status, 422, "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_waits_for_approval_cannot_report() {
    let admin = Admin::start();
    let key = admin.key(json!({"needsApproval": true})).await;
    let token = bearer(&admin.claim(&key, "gpu-1").await);
    let refused = admin.push(&token, 0, "gpu-1", "GPU-a").await;
    assert_eq!(refused.status, 403);
    let hosts = admin.hosts().await;
    assert_eq!(hosts[0]["isApproved"], false);
    assert_eq!(hosts[0]["lastSeen"], Value::Null);
    assert!(admin.page().await.contains("Waits for approval"));
    let path = format!("/hosts/{}/approve", hosts[0]["id"].as_str().unwrap());
    assert_eq!(admin.call("POST", &path, &Value::Null).await.status, 204);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let accepted = admin.push(&token, 0, "gpu-1", "GPU-a").await;
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    assert!(!admin.page().await.contains("Waits for approval"));
}

#[tokio::test]
async fn two_machines_with_one_token_are_flagged_and_not_merged() {
    let admin = Admin::start();
    let key = admin.key(json!({})).await;
    let token = bearer(&admin.claim(&key, "gpu-1").await);
    let push = async |second, machine: &str| {
        let gpu = format!("GPU-{machine}");
        admin.push(&token, second, machine, &gpu).await.status
    };
    assert_eq!(push(0, "original").await, 202);
    // All GPUs of a host may be exchanged, once.
    assert_eq!(push(1, "copy").await, 202);
    assert_eq!(admin.hosts().await[0]["otherMachine"], Value::Null);
    assert_eq!(push(2, "original").await, 202);
    assert_eq!(push(3, "copy").await, 409);
    assert_eq!(push(4, "original").await, 202);
    let hosts = admin.hosts().await;
    assert_eq!((hosts.len(), &hosts[0]["gpus"]), (1, &json!(1)));
    assert_eq!(hosts[0]["otherMachine"], "copy");
    assert!(
        admin
            .page()
            .await
            .contains("A second machine, copy, reports")
    );
    // A day after the copy was last seen, the GPUs may be exchanged again.
    admin.board.pass(24 * 3600);
    assert_eq!(admin.hosts().await[0]["otherMachine"], Value::Null);
    assert_eq!(push(24 * 3600, "copy").await, 202);
}

#[tokio::test(start_paused = true)]
async fn late_reports_of_the_gpus_before_an_exchange_are_no_second_machine() {
    let admin = Admin::start();
    let key = admin.key(json!({})).await;
    let token = bearer(&admin.claim(&key, "gpu-1").await);
    let push = async |second, gpu: &str| admin.push(&token, second, "gpu-1", gpu).await.status;
    assert_eq!(push(0, "GPU-old").await, 202);
    admin.board.pass(3600);
    assert_eq!(push(3600, "GPU-new").await, 202);
    assert_eq!(push(1, "GPU-old").await, 202);
    assert_eq!(push(3601, "GPU-new").await, 202);
    assert_eq!(admin.hosts().await[0]["otherMachine"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_enrols_again_can_replace_its_old_host() {
    let admin = Admin::start();
    let key = admin.key(json!({"uses": 2})).await;
    let first = bearer(&admin.claim(&key, "gpu-1").await);
    assert_eq!(admin.push(&first, 0, "gpu-1", "GPU-a").await.status, 202);
    let old = admin.hosts().await[0]["id"].clone();
    admin.board.pass(60);
    let second = bearer(&admin.claim(&key, "gpu-1 again").await);
    assert_eq!(admin.push(&second, 60, "gpu-1", "GPU-a").await.status, 202);
    let hosts = admin.hosts().await;
    assert_eq!(hosts[0]["sameGpusAs"], Value::Null);
    assert_eq!(hosts[1]["sameGpusAs"], old);
    assert!(
        admin
            .page()
            .await
            .contains("This server reports the same GPUs as gpu-1.")
    );
    let path = format!("/hosts/{}/replace", hosts[1]["id"].as_str().unwrap());
    let unknown = json!({"replaced": "host_x"});
    assert_eq!(admin.call("POST", &path, &unknown).await.status, 404);
    let replaced = json!({"replaced": old});
    assert_eq!(admin.call("POST", &path, &replaced).await.status, 204);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(admin.push(&first, 61, "gpu-1", "GPU-a").await.status, 401);
    assert_eq!(admin.push(&second, 62, "gpu-1", "GPU-a").await.status, 202);
    let hosts = admin.hosts().await;
    assert_eq!(hosts.len(), 1);
    assert_eq!(
        (&hosts[0]["id"], &hosts[0]["displayName"]),
        (&old, &json!("gpu-1"))
    );
}

#[tokio::test(start_paused = true)]
async fn an_agent_replaces_a_token_that_is_a_month_old() {
    let admin = Admin::start();
    let key = admin.key(json!({})).await;
    let old = bearer(&admin.claim(&key, "gpu-1").await);
    let announced = |answer: &Answer| {
        let all = answer.headers.get_all("gua-accepts").iter();
        { all }.any(|value| value == "gua.token.v1")
    };
    let first = admin.push(&old, 0, "gpu-1", "GPU-a").await;
    assert!(!announced(&first));
    let month = 30 * 24 * 3600 + 1;
    admin.board.pass(month);
    let later = admin.push(&old, month, "gpu-1", "GPU-a").await;
    assert!(announced(&later));
    let headers = [("authorization", old.as_str())];
    let answer = admin.board.call("POST /agent/v1/token", &headers, "").await;
    let new = bearer(&answer);
    let prefix = answer.body["tokenPrefix"].as_str().unwrap();
    assert!(new.contains(prefix) && new != old);
    let accepted = admin.push(&old, month + 1, "gpu-1", "GPU-a").await;
    assert_eq!(accepted.status, 202, "the old token is valid until then");
    let accepted = admin.push(&new, month + 2, "gpu-1", "GPU-a").await;
    assert_eq!(accepted.status, 202);
    assert!(!announced(&accepted));
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let refused = admin.push(&old, month + 3, "gpu-1", "GPU-a").await;
    assert_eq!(refused.status, 401);
}
