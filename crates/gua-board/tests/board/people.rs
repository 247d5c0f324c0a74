//! Accounts, sessions, roles and what each may see.

use gua_board_store::registry::{AuditView, LinkPurpose, NewLink, Role, Scope};
use gua_board_store::{Kind, Secret};
use serde_json::{Value, json};

use crate::{Answer, Board, snapshot};

const PASSWORD: &str = "correct horse";

fn log_in(name: &str, password: &str) -> String {
    json!({"name": name, "password": password}).to_string()
}

fn cookie(answer: &Answer) -> String {
    let text = answer.headers["set-cookie"].to_str().unwrap();
    text.split_once(';').unwrap().0.to_owned()
}

#[tokio::test]
async fn a_session_starts_with_the_password_and_ends_with_log_out() {
    let board = Board::start();
    board.with_password("Ada", PASSWORD, Role::Owner);
    let answer = board
        .call(
            "POST /api/v1/login",
            &[
                ("cookie", "gua_session=fixed"),
                ("sec-fetch-site", "same-origin"),
            ],
            log_in("ada", PASSWORD),
        )
        .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let set = answer.headers["set-cookie"].to_str().unwrap();
    for part in ["HttpOnly", "Secure", "SameSite=Lax", "Path=/"] {
        assert!(set.contains(part), "{set}");
    }
    let session = cookie(&answer);
    assert_ne!(session, "gua_session=fixed");
    let me = board
        .call("GET /api/v1/me", &[("cookie", &session)], "")
        .await;
    assert_eq!(me.body["name"], "Ada");
    assert_eq!(me.body["memberships"][0]["role"], "owner");
    // A page of another site cannot log the person out.
    let foreign = [
        ("cookie", session.as_str()),
        ("sec-fetch-site", "cross-site"),
    ];
    assert_eq!(
        board.call("POST /api/v1/logout", &foreign, "").await.status,
        403
    );
    let own = [
        ("cookie", session.as_str()),
        ("sec-fetch-site", "same-origin"),
    ];
    assert_eq!(
        board.call("POST /api/v1/logout", &own, "").await.status,
        204
    );
    assert_eq!(board.call("GET /api/v1/me", &own, "").await.status, 401);
}

#[tokio::test]
async fn guessing_passwords_is_slowed_down_and_logged() {
    let board = Board::start();
    board.with_password("ada", PASSWORD, Role::Owner);
    let mut statuses = Vec::new();
    for name in ["ada", "ADA", "ada", " ada", "ada", "ada"] {
        let answer = board
            .call("POST /api/v1/login", &[], log_in(name, "wrong password"))
            .await;
        statuses.push(answer.status);
    }
    assert_eq!(statuses, [401, 401, 401, 401, 401, 429]);
    let unknown = board
        .call("POST /api/v1/login", &[], log_in("nobody", PASSWORD))
        .await;
    let known = json!({"detail": "the name or the password is wrong"});
    assert_eq!((unknown.status, unknown.body), (401, known));
    let log = board
        .app
        .registry
        .audit_log(AuditView::Board(&board.workspace().id), None, 100)
        .unwrap();
    let failed = log
        .iter()
        .filter(|entry| entry.action.as_str() == "log-in-failed");
    assert_eq!(failed.count(), 6);
}

#[tokio::test]
async fn the_set_up_link_makes_the_first_owner_and_invitations_the_others() {
    let board = Board::start();
    let secret = Secret::generate(Kind::Link);
    let link = NewLink {
        hash: secret.hash(),
        purpose: LinkPurpose::Join {
            workspace: board.workspace().id,
            role: Role::Owner,
        },
        expires: jiff::Timestamp::MAX,
    };
    board.app.registry.add_link(&board.change(), &link).unwrap();
    let join = |link: &str, name: &str, password: &str| {
        json!({"link": link, "name": name, "password": password}).to_string()
    };
    let short = board
        .call(
            "POST /api/v1/join",
            &[],
            join(secret.reveal(), "ada", "short"),
        )
        .await;
    assert_eq!(short.status, 422);
    let first = board
        .call(
            "POST /api/v1/join",
            &[],
            join(secret.reveal(), "ada", PASSWORD),
        )
        .await;
    assert_eq!(first.status, 201, "{}", first.body);
    let again = board
        .call(
            "POST /api/v1/join",
            &[],
            join(secret.reveal(), "bob", PASSWORD),
        )
        .await;
    assert_eq!(again.status, 404);

    let session = cookie(&first);
    let headers = [
        ("cookie", session.as_str()),
        ("sec-fetch-site", "same-origin"),
    ];
    let invited = board
        .call(
            "POST /api/v1/workspaces/default/invitations",
            &headers,
            r#"{"role":"member"}"#,
        )
        .await;
    let url = invited.body["url"].as_str().unwrap();
    let (page, link) = url.split_once('#').unwrap();
    assert_eq!(page, "https://board.example.com/join");
    let second = board
        .call("POST /api/v1/join", &[], join(link, "bob", PASSWORD))
        .await;
    assert_eq!(second.body["memberships"][0]["role"], "member");
}

#[tokio::test]
async fn admins_cannot_make_admins() {
    let board = Board::start();
    let workspace = board.workspace();
    let owner = board.account("owner", &workspace, Role::Owner);
    let admin = board.account("admin", &workspace, Role::Admin);
    let member = board.account("member", &workspace, Role::Member);
    let token = board.api_token(&admin, &workspace, Scope::Write);
    let call = async |line: String, body: &str| {
        let headers = [("authorization", token.as_str())];
        board.call(&line, &headers, body.to_owned()).await.status
    };
    let path =
        |method: &str, account| format!("{method} /api/v1/workspaces/default/members/{account}");
    assert_eq!(call(path("PUT", &member), r#"{"role":"admin"}"#).await, 403);
    assert_eq!(call(path("PUT", &owner), r#"{"role":"viewer"}"#).await, 403);
    assert_eq!(call(path("DELETE", &owner), "").await, 403);
    assert_eq!(
        call(path("PUT", &member), r#"{"role":"viewer"}"#).await,
        204
    );
    assert_eq!(call(path("DELETE", &member), "").await, 204);
    assert_eq!(call(path("DELETE", &member), "").await, 404);
    let invite = "POST /api/v1/workspaces/default/invitations".to_owned();
    assert_eq!(call(invite.clone(), r#"{"role":"owner"}"#).await, 403);
    // A leaked token cannot make further tokens.
    let tokens = "POST /api/v1/workspaces/default/api-tokens".to_owned();
    assert_eq!(call(tokens, r#"{"scope":"read"}"#).await, 403);
}

#[tokio::test]
async fn viewers_see_states_without_names_and_members_see_holders() {
    let board = Board::start();
    let workspace = board.workspace();
    let (_, agent) = board.enrol(&workspace, "gpu1").await;
    board
        .call(
            "POST /agent/v1/observations",
            &[("authorization", &agent)],
            snapshot(0, "ada").to_string(),
        )
        .await;
    let live = async |name: &str, role| {
        let account = board.account(name, &workspace, role);
        let token = board.api_token(&account, &workspace, Scope::Read);
        let answer = board
            .call(
                "GET /api/v1/workspaces/default/live",
                &[("authorization", &token)],
                "",
            )
            .await;
        assert_eq!(answer.status, 200);
        answer.body
    };
    let seen: Value = live("viewer", Role::Viewer).await;
    assert!(
        !seen.to_string().contains("ada") && !seen.to_string().contains("python"),
        "{seen}"
    );
    assert_eq!(seen["hosts"][0]["gpus"][0]["state"], "idle-held");
    assert_eq!(seen["hosts"][0]["gpus"][0]["obstacle"], "held");
    let seen = live("member", Role::Member).await;
    assert_eq!(seen["hosts"][0]["gpus"][0]["processes"][0]["owner"], "ada");
    assert_eq!(seen["hosts"][0]["displayName"], "gpu1");
    assert_eq!(seen["hosts"][0]["isStale"], false);
    board.pass(121);
    let seen = live("other", Role::Member).await;
    assert_eq!(seen["hosts"][0]["isStale"], true);
}

#[tokio::test]
async fn a_session_ends_after_two_weeks() {
    let board = Board::start();
    board.with_password("ada", PASSWORD, Role::Owner);
    let answer = board
        .call("POST /api/v1/login", &[], log_in("ada", PASSWORD))
        .await;
    let session = cookie(&answer);
    let me = async || {
        let headers = [("cookie", session.as_str())];
        board.call("GET /api/v1/me", &headers, "").await.status
    };
    board.pass(14 * 24 * 3600 - 1);
    assert_eq!(me().await, 200);
    board.pass(1);
    assert_eq!(me().await, 401);
}

#[tokio::test]
async fn every_answer_has_safe_headers_and_a_request_id() {
    let board = Board::start();
    for line in [
        "GET /healthz",
        "GET /none",
        "POST /healthz",
        "GET /api/v1/me",
    ] {
        let answer = board.call(line, &[("x-request-id", "evil\tid")], "").await;
        assert_eq!(answer.headers["x-frame-options"], "DENY", "{line}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["x-request-id"].len(), 16);
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    }
    assert_eq!(board.call("POST /healthz", &[], "").await.status, 405);
    assert_eq!(board.call("GET /readyz", &[], "").await.status, 200);
    board.app.finish();
    assert_eq!(board.call("GET /readyz", &[], "").await.status, 503);
}
