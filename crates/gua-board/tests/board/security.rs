//! Attacks on the board that are not about access: redirects, paths, sizes, headers, garbage, and names that a host or a
//! member does not own.

use axum::http::HeaderValue;
use gua_board::access::Access;
use gua_board::routes::board_routes;
use gua_board_store::registry::{AuditView, Role, Scope};
use serde_json::{Value, json};

use crate::{Board, snapshot};

const PASSWORD: &str = "correct horse";
const WORKSPACE: &str = "/api/v1/workspaces/default";

/// Numbers that look random and are the same in every run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(most).unwrap()).unwrap()
    }
}

fn headers(cookie: &str) -> [(&str, &str); 2] {
    [("cookie", cookie), ("sec-fetch-site", "same-origin")]
}

#[tokio::test]
async fn a_log_in_redirects_to_pages_of_this_board_only() {
    let board = Board::start();
    board.with_password("ada", PASSWORD, Role::Owner);
    let form = format!("name=ada&password={}", PASSWORD.replace(' ', "+"));
    let kind = ("content-type", "application/x-www-form-urlencoded");
    for evil in [
        "//evil.example.com",
        "https://evil.example.com",
        "/%5Cevil.example.com",
        "/w/%0d%0aSet-Cookie:%20a=b",
        "javascript:alert(1)",
    ] {
        let line = format!("POST /login?next={evil}");
        let answer = board.call(&line, &[kind], form.clone()).await;
        board.pass(3600);
        assert_eq!(answer.status, 303, "{evil}: {}", answer.body);
        let location = answer.headers["location"].to_str().unwrap();
        assert!(location == "/" || location.starts_with("/w/"), "{location}");
        let cookies: Vec<&HeaderValue> = answer.headers.get_all("set-cookie").iter().collect();
        assert_eq!(cookies.len(), 1, "{evil}");
    }
}

#[tokio::test]
async fn a_path_cannot_leave_its_directory() {
    let board = Board::start();
    for path in [
        "/assets/..%2F..%2Fetc%2Fpasswd",
        "/assets/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/assets/../Cargo.toml",
        "/assets//etc/passwd",
        "/assets/board.js%00.css",
        "/../etc/passwd",
        "/%2e%2e/etc/passwd",
    ] {
        let answer = board.call(&format!("GET {path}"), &[], "").await;
        assert_eq!(answer.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_by_every_route() {
    let board = Board::start();
    let workspace = board.workspace();
    let account = board.account("ada", &workspace, Role::Owner);
    let cookie = board.session(&account);
    let (_, agent) = board.enrol(&workspace, "gpu").await;
    // Larger than every limit but that of an archive, which is compressed history.
    let large = vec![b' '; (4 << 20) + 1];
    let is_change = |path: &str, method: &str| method != "GET" && !path.ends_with("/logout");
    let changes = board_routes().filter(|route| is_change(route.path, route.method));
    for route in changes {
        let path = route
            .path
            .replace("{workspace}", "default")
            .replace("{account}", account.as_str());
        let line = format!("{} {path}", route.method);
        let answer = match route.access {
            Access::Agent => {
                let auth = [("authorization", agent.as_str())];
                board.call(&line, &auth, large.clone()).await
            }
            _ => board.call(&line, &headers(&cookie), large.clone()).await,
        };
        // A route that reads no body, or refuses the request before, does not care.
        let reads_none = [204, 201, 303, 404, 409].contains(&answer.status)
            || path.ends_with("/archives")
            || path.ends_with("/token")
            || path.ends_with("/code");
        assert!(
            answer.status == 413 || reads_none,
            "{line}: {}",
            answer.status
        );
        assert!(answer.status < 500, "{line}: {}", answer.status);
    }
}

#[tokio::test]
async fn names_cannot_add_headers_or_lines() {
    let board = Board::start();
    let workspace = board.workspace();
    let account = board.account("ada", &workspace, Role::Owner);
    let cookie = board.session(&account);
    let (host, _) = board.enrol(&workspace, "gpu").await;
    for name in [
        "a\r\nSet-Cookie: b=c",
        "a\nb",
        "a\u{0}b",
        "a\u{202e}b",
        "a\u{1b}[31m",
    ] {
        let body = json!({"displayName": name}).to_string();
        let line = format!("PATCH {WORKSPACE}/hosts/{host}");
        let answer = board.call(&line, &headers(&cookie), body).await;
        assert_eq!(answer.status, 422, "{name:?}");
        let key = json!({"name": name}).to_string();
        let line = format!("POST {WORKSPACE}/enrolment-keys");
        let answer = board.call(&line, &headers(&cookie), key).await;
        assert_eq!(answer.status, 422, "{name:?}");
    }
    let evil = "/w/default%0d%0aSet-Cookie:%20a=b";
    let answer = board
        .call(&format!("GET {evil}"), &headers(&cookie), "")
        .await;
    assert_eq!(answer.status, 404);
    assert!(!answer.headers.contains_key("set-cookie"));
}

/// Changes some bytes of a text: flips, removes, repeats and inserts.
fn mutated(text: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    const PARTS: [&[u8]; 12] = [
        b"null",
        b"-1",
        b"1e999",
        b"\"",
        b"{",
        b"]",
        b"\\u0000",
        b"\xff",
        b"99999999999999999999",
        b"[[[[[[[[",
        b"\\ud800",
        b"0.1",
    ];
    let mut bytes = text.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len().max(1));
        match numbers.below(5) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << numbers.below(8),
            1 => bytes.truncate(at),
            2 => {
                let end = (at + numbers.below(20)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            3 => {
                let end = (at + numbers.below(20)).min(bytes.len());
                let again = bytes[at.min(end)..end].to_vec();
                bytes.splice(at.min(end)..at.min(end), again);
            }
            _ => {
                let part = PARTS[numbers.below(PARTS.len())].iter().copied();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

#[tokio::test]
async fn garbled_documents_are_refused_and_never_panic() {
    let board = Board::start();
    let workspace = board.workspace();
    let account = board.account("ada", &workspace, Role::Owner);
    let cookie = board.session(&account);
    let live = include_str!("../../../gua-wire/tests/golden/live.json");
    let claim = json!({"enrollmentToken": "x", "hostname": "h", "agentVersion": "1"}).to_string();
    let key = json!({"name": "a", "uses": 2, "tags": "a,b", "expiresInHours": 5}).to_string();
    let report = snapshot(0, "ada").to_string();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    // Many hosts, because a host may only push so often.
    let mut agents = Vec::new();
    for number in 0..40 {
        let (_, agent) = board.enrol(&workspace, &format!("gpu {number}")).await;
        agents.push(agent);
    }
    for agent in agents {
        let auth = [("authorization", agent.as_str())];
        for _ in 0..10 {
            for (line, text, is_agent) in [
                ("POST /agent/v1/observations", report.as_str(), true),
                ("POST /agent/v1/live", live, true),
                ("POST /agent/v1/enrollments/claim", &claim, false),
                (&format!("POST {WORKSPACE}/enrolment-keys"), &key, false),
            ] {
                let body = mutated(text.as_bytes(), &mut numbers);
                let shown = String::from_utf8_lossy(&body).into_owned();
                let answer = match is_agent {
                    true => board.call(line, &auth, body).await,
                    false => board.call(line, &headers(&cookie), body).await,
                };
                assert!(answer.status < 500, "{line} {}: {shown}", answer.status);
            }
        }
    }
    assert_eq!(board.call("GET /readyz", &[], "").await.status, 200);
}

#[tokio::test]
async fn a_reset_link_is_for_members_that_the_admin_manages_everywhere() {
    let board = Board::start();
    let workspace = board.workspace();
    let owner = board.account("owner", &workspace, Role::Owner);
    let admin = board.account("admin", &workspace, Role::Admin);
    let without = board.account("sso", &workspace, Role::Member);
    board.with_password("bob", PASSWORD, Role::Member);
    let registry = &*board.app.registry;
    let bob = registry.account("bob").unwrap().unwrap().id;
    let token = board.api_token(&admin, &workspace, Scope::Write);
    let auth = [("authorization", token.as_str())];
    let reset = async |account: &gua_board_store::AccountId| {
        let line = format!("POST {WORKSPACE}/members/{account}/reset");
        board.call(&line, &auth, "").await
    };
    assert_eq!(reset(&owner).await.status, 409, "it has no password here");
    assert_eq!(reset(&without).await.status, 409);
    board.with_password("boss", PASSWORD, Role::Owner);
    let boss = registry.account("boss").unwrap().unwrap().id;
    assert_eq!(reset(&boss).await.status, 403);

    let old = board
        .call(
            "POST /api/v1/login",
            &[],
            json!({"name": "bob", "password": PASSWORD}).to_string(),
        )
        .await;
    let session = old.headers["set-cookie"].to_str().unwrap();
    let session = session.split(';').next().unwrap().to_owned();
    let added = reset(&bob).await;
    assert_eq!(added.status, 201, "{}", added.body);
    let url = added.body["url"].as_str().unwrap();
    let (page, link) = url.split_once('#').unwrap();
    assert_eq!(page, "https://board.example.com/reset");
    let set = async |link: &str, password: &str| {
        let body = json!({"link": link, "password": password}).to_string();
        board.call("POST /api/v1/reset", &[], body).await.status
    };
    assert_eq!(set(link, "short").await, 422);
    assert_eq!(set(link, "another horse").await, 200);
    assert_eq!(set(link, "third horse!!").await, 404);
    let me = board
        .call("GET /api/v1/me", &[("cookie", &session)], "")
        .await;
    assert_eq!(me.status, 401, "a reset ends all sessions");
    let again = json!({"name": "bob", "password": "another horse"}).to_string();
    assert_eq!(
        board.call("POST /api/v1/login", &[], again).await.status,
        200
    );

    // In another workspace, bob may be more than here.
    let other = registry.add_workspace(&board.change(), "other").unwrap();
    let set = registry.set_role(&board.change(), &other.id, &boss, Some(Role::Owner));
    set.unwrap();
    let set = registry.set_role(&board.change(), &other.id, &bob, Some(Role::Viewer));
    set.unwrap();
    let refused = reset(&bob).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
}

#[tokio::test]
async fn the_own_password_is_changed_with_the_present_one() {
    let board = Board::start();
    board.with_password("ada", PASSWORD, Role::Owner);
    let registry = &*board.app.registry;
    let ada = registry.account("ada").unwrap().unwrap().id;
    let cookie = board.session(&ada);
    let change = async |current: &str| {
        let body = json!({"current": current, "password": "another horse"}).to_string();
        board
            .call("POST /api/v1/password", &headers(&cookie), body)
            .await
    };
    assert_eq!(change("wrong horse").await.status, 403);
    let token = board.api_token(&ada, &board.workspace(), Scope::Write);
    let auth = [("authorization", token.as_str())];
    let body = json!({"current": PASSWORD, "password": "another horse"}).to_string();
    let by_token = board.call("POST /api/v1/password", &auth, body).await;
    assert_eq!(by_token.status, 403);
    let changed = change(PASSWORD).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    assert!(changed.headers.contains_key("set-cookie"));
    let me = board.call("GET /api/v1/me", &headers(&cookie), "").await;
    assert_eq!(me.status, 401, "the old session has ended");
}

#[tokio::test]
async fn a_host_vouches_for_its_own_users_only() {
    let board = Board::start();
    let workspace = board.workspace();
    let ada = board.account("ada", &workspace, Role::Member);
    let admin = board.account("root", &workspace, Role::Admin);
    let (host, agent) = board.enrol(&workspace, "gpu1").await;
    let (_, second) = board.enrol(&workspace, "gpu2").await;
    let registry = &*board.app.registry;
    let other = registry.add_workspace(&board.change(), "other").unwrap();
    let (_, stranger) = board.enrol(&other, "far").await;
    let member = board.session(&ada);
    let code = async || {
        let line = format!("POST {WORKSPACE}/name-codes");
        let answer = board.call(&line, &headers(&member), "").await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.body["code"].as_str().unwrap().to_owned()
    };
    let prove = async |agent: &str, code: &str, user: &str| {
        let body = json!({"code": code, "user": user}).to_string();
        let auth = [("authorization", agent)];
        board.call("POST /agent/v1/names", &auth, body).await
    };
    let first = code().await;
    assert_eq!(prove(&stranger, &first, "ada").await.status, 404);
    let proven = prove(&agent, &first, "al").await;
    assert_eq!(
        (proven.status, &proven.body["account"]),
        (200, &json!("ada"))
    );
    assert_eq!(prove(&agent, &first, "eve").await.status, 404);
    let late = code().await;
    board.pass(15 * 60);
    assert_eq!(prove(&agent, &late, "late").await.status, 404);

    // The name is that of the host: the same name on another host is another person.
    for (token, gpu) in [(&agent, "GPU-1"), (&second, "GPU-2")] {
        let mut body = snapshot(900, "al");
        body["gpus"][0]["uuid"] = json!(gpu);
        let auth = [("authorization", token.as_str())];
        let pushed = board
            .call("POST /agent/v1/observations", &auth, body.to_string())
            .await;
        assert_eq!(pushed.status, 202, "{}", pushed.body);
    }
    let line = format!("GET {WORKSPACE}/members/{ada}");
    let person = board.call(&line, &headers(&member), "").await;
    assert_eq!(person.status, 200, "{}", person.body);
    assert_eq!(person.body["names"][0]["host"], json!(host));
    let gpus = person.body["gpus"].as_array().unwrap();
    assert_eq!((gpus.len(), &gpus[0]["uuid"]), (1, &json!("GPU-1")));

    // An admin confirms it for all hosts; a view of the admin is logged, and one of others refused.
    let admin = board.session(&admin);
    let names = format!("POST {WORKSPACE}/members/{ada}/names");
    let linked = board
        .call(&names, &headers(&admin), json!({"name": "al"}).to_string())
        .await;
    assert_eq!(linked.status, 204, "{}", linked.body);
    let viewed = board.call(&line, &headers(&admin), "").await;
    assert_eq!(viewed.body["gpus"].as_array().unwrap().len(), 2);
    let log = &*board.app.registry;
    let log = log
        .audit_log(AuditView::Board(&workspace.id), None, 5)
        .unwrap();
    assert_eq!(
        (log[0].action.as_str(), log[0].object.as_str()),
        ("person-viewed", "ada")
    );
    let eve = board.account("eve", &workspace, Role::Member);
    let refused = board.call(&line, &headers(&board.session(&eve)), "").await;
    assert_eq!(refused.status, 404);
    let page = format!("GET /w/default/members/{ada}");
    let html = [("accept", "text/html"), ("cookie", member.as_str())];
    let page = board.call(&page, &html, "").await;
    assert_eq!(page.status, 200);
    let Value::String(text) = page.body else {
        panic!("not a page");
    };
    assert!(text.contains("gpu1") && text.contains("Prove a user name"));
    let remove = format!("{names}/remove");
    let other = json!({"name": "nobody"}).to_string();
    assert_eq!(
        board.call(&remove, &headers(&admin), other).await.status,
        404
    );
    let removed = json!({"name": "al"}).to_string();
    assert_eq!(
        board.call(&remove, &headers(&admin), removed).await.status,
        204
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_refused_after_a_minute() {
    let board = Board::start();
    let never = futures_util::stream::pending::<Result<&[u8], std::convert::Infallible>>();
    let began = tokio::time::Instant::now();
    let body = axum::body::Body::from_stream(never);
    let answer = board.call("POST /api/v1/login", &[], body).await;
    assert_eq!(answer.status, 408, "{}", answer.body);
    assert_eq!(began.elapsed().as_secs(), 60);
}

#[tokio::test]
async fn nobody_else_appears_as_an_account_in_the_audit_log() {
    let board = Board::start();
    board.with_password("ada", PASSWORD, Role::Owner);
    let workspace = board.workspace();
    // A stranger and two hosts claim to be ada.
    let wrong = json!({"name": "ada", "password": "wrong horse"}).to_string();
    board.call("POST /api/v1/login", &[], wrong).await;
    let long = json!({"name": "x".repeat(60_000), "password": "wrong horse"}).to_string();
    board.call("POST /api/v1/login", &[], long).await;
    let (_, agent) = board.enrol(&workspace, "ada").await;
    let registry = &*board.app.registry;
    let ada = registry.account("ada").unwrap().unwrap().id;
    let line = format!("POST {WORKSPACE}/name-codes");
    let code = board.call(&line, &headers(&board.session(&ada)), "").await;
    let proof = json!({"code": code.body["code"], "user": "ada"}).to_string();
    let auth = [("authorization", agent.as_str())];
    let proven = board.call("POST /agent/v1/names", &auth, proof).await;
    assert_eq!(proven.status, 200, "{}", proven.body);
    let key = board.enrolment_key(&workspace, 1);
    for _ in 0..2 {
        let claim = json!({"enrollmentToken": key, "hostname": "ada"}).to_string();
        let line = "POST /agent/v1/enrollments/claim";
        board.call(line, &[], claim).await;
    }
    let log = registry
        .audit_log(AuditView::Board(&workspace.id), None, 100)
        .unwrap();
    for entry in &log {
        let is_own =
            ["account-added", "enrolment-key-added", "logged-in"].contains(&entry.action.as_str());
        let is_hidden = entry.actor.starts_with('[');
        assert!(is_own != is_hidden, "{entry:?}");
        assert!(entry.object.len() <= 300, "{}", entry.object.len());
    }
    let refused = log.iter().filter(|entry| entry.actor == "[host ada]");
    assert_eq!(refused.count(), 2);
    // A link cannot make an account with such a name either.
    let setup = gua_board::set_up::SetUp {
        registry,
        now: board.app.now(),
    };
    let added = setup.add_user("default", "[command line]", Role::Owner, Some(PASSWORD));
    assert!(added.is_err());
}
