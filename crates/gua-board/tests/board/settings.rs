//! Settings of a workspace: who changes them, and what they change. Long lists, which are shown in pages.

use gua_board_store::registry::{AuditView, NewAccount, NewApiToken, Role, Scope};
use gua_board_store::{Kind, Secret};
use serde_json::json;

use crate::pages::text;
use crate::{Board, snapshot};

const SETTINGS: &str = "/api/v1/workspaces/default/settings";

fn headers(cookie: &str) -> [(&str, &str); 2] {
    [("cookie", cookie), ("sec-fetch-site", "same-origin")]
}

#[tokio::test]
async fn an_admin_changes_settings_and_the_log_says_what() {
    let board = Board::start();
    let cookie = board.session_of(Role::Admin);
    let put = async |body: serde_json::Value| {
        let line = format!("PUT {SETTINGS}");
        board.call(&line, &headers(&cookie), body.to_string()).await
    };
    let found = board
        .call(&format!("GET {SETTINGS}"), &headers(&cookie), "")
        .await;
    assert_eq!(found.body["namesFrom"], "member");
    assert_eq!(found.body["board"]["encryption"], "certificate");
    for (wrong, status) in [
        (json!({"sessionDays": 0}), 422),
        (json!({"sessionDays": 91}), 422),
        (json!({"title": "a\nb"}), 422),
        (json!({"namesFrom": "nobody"}), 422),
        (json!({"color": "red"}), 422),
        (json!({"title": "Lab", "sessionDays": 7.0}), 204),
    ] {
        let answer = put(wrong.clone()).await;
        assert_eq!(answer.status, status, "{wrong}: {}", answer.body);
    }
    let log = board
        .app
        .registry
        .audit_log(AuditView::Board(&board.workspace().id), None, 1);
    let log = log.unwrap().remove(0);
    assert_eq!(
        (log.actor.as_str(), log.object.as_str()),
        ("admin", "title:  -> Lab; session days: 14 -> 7")
    );
    // The form of the page does the same, and a field left blank is the default.
    let page = board.page("/w/default/settings", &cookie).await;
    for shown in [
        "<a class=\"brand\" href=\"/\">Lab</a>",
        "value=\"Lab\"",
        "value=\"7\"",
    ] {
        assert!(text(&page).contains(shown), "{shown}");
    }
    let form = "title=&namesFrom=admin&sessionDays=30";
    let saved = board.submit("/w/default/settings", &cookie, form).await;
    assert_eq!(saved.headers["location"], "/w/default/settings");
    let settings = board.workspace().settings;
    assert_eq!((settings.title, settings.session_days), (None, 30));
    assert_eq!(settings.names_from, Role::Admin);
}

#[tokio::test]
async fn names_are_shown_from_the_role_of_the_settings_on_and_never_on_a_screen() {
    let board = Board::start();
    let workspace = board.workspace();
    let (_, agent) = board.enrol(&workspace, "gpu1").await;
    let auth = [("authorization", agent.as_str())];
    let body = snapshot(0, "minji").to_string();
    board.call("POST /agent/v1/observations", &auth, body).await;
    let owner = board.account("boss", &workspace, Role::Owner);
    let cookie = board.session(&owner);
    let screen = Secret::generate(Kind::Screen);
    let token = NewApiToken {
        hash: screen.hash(),
        prefix: screen.prefix(),
        workspace: workspace.id.clone(),
        account: owner,
        scope: Scope::Screen,
        expires: None,
    };
    board
        .app
        .registry
        .add_api_token(&board.change(), &token)
        .unwrap();
    let sessions = Role::ALL.map(|role| (role, board.session_of(role)));
    for least in Role::ALL {
        let body = json!({"namesFrom": least}).to_string();
        let line = format!("PUT {SETTINGS}");
        let set = board.call(&line, &headers(&cookie), body).await;
        assert_eq!(set.status, 204, "{}", set.body);
        for (role, session) in &sessions {
            let page = board.page("/w/default", session).await;
            let is_shown = text(&page).contains("minji");
            assert_eq!(is_shown, *role >= least, "{role} with {least}");
            let line = "GET /api/v1/workspaces/default/live";
            let live = board.call(line, &[("cookie", session)], "").await;
            assert_eq!(live.body.to_string().contains("minji"), *role >= least);
        }
        let wall = board
            .page(&format!("/screen/{}", screen.reveal()), "")
            .await;
        assert_eq!(wall.status, 200);
        assert!(!text(&wall).contains("minji"), "{least}");
    }
}

#[tokio::test]
async fn a_shorter_lifetime_of_sessions_holds_for_new_and_old_ones() {
    let board = Board::start();
    board.with_password("ada", "correct horse", Role::Owner);
    let log_in = json!({"name": "ada", "password": "correct horse"}).to_string();
    let cookie = async || {
        let answer = board.call("POST /api/v1/login", &[], log_in.clone()).await;
        let text = answer.headers["set-cookie"].to_str().unwrap();
        (text.split(';').next().unwrap().to_owned(), text.to_owned())
    };
    let (old, _) = cookie().await;
    let body = json!({"sessionDays": 1}).to_string();
    let set = board
        .call(&format!("PUT {SETTINGS}"), &headers(&old), body)
        .await;
    assert_eq!(set.status, 204, "{}", set.body);
    let (new, attributes) = cookie().await;
    assert!(attributes.contains("Max-Age=86400"), "{attributes}");
    board.pass(24 * 3600 + 1);
    for session in [old, new] {
        let me = board
            .call("GET /api/v1/me", &[("cookie", &session)], "")
            .await;
        assert_eq!(me.status, 401);
    }
}

#[tokio::test]
async fn long_lists_of_members_tokens_and_entries_are_shown_in_small_pages() {
    let board = Board::start();
    let workspace = board.workspace();
    let cookie = board.session_of(Role::Owner);
    for number in 0..1000 {
        let account = NewAccount {
            name: format!("person {number:04} with a long name"),
            password: None,
            workspace: workspace.id.clone(),
            role: Role::Member,
        };
        let account = board
            .app
            .registry
            .add_account(&board.change(), &account)
            .unwrap();
        board.api_token(&account.id, &workspace, Scope::Read);
    }
    for _ in 0..100 {
        board.enrolment_key(&workspace, 1);
    }
    let servers = board.page("/w/default/servers", &cookie).await;
    assert!(text(&servers).contains("60 older keys are not shown."));
    assert!(text(&servers).len() < 100_000, "{}", text(&servers).len());
    let mut seen = std::collections::BTreeSet::new();
    for page in 1..=26 {
        for list in ["members", "tokens"] {
            let path = format!("/w/default/{list}?page={page}");
            let answer = board.page(&path, &cookie).await;
            let html = text(&answer);
            assert!(html.len() < 100_000, "{path}: {} bytes", html.len());
            let names = html.split("person ").skip(1);
            seen.extend(names.map(|rest| format!("{list} {}", &rest[..4])));
        }
    }
    assert_eq!(seen.len(), 2000);
    let found = board
        .page("/w/default/members?name=PERSON+0999", &cookie)
        .await;
    assert_eq!(text(&found).matches("person 0999").count(), 4);
    let line = "GET /api/v1/workspaces/default/members?page=26&name=person";
    let page = board.call(line, &headers(&cookie), "").await;
    assert_eq!(
        (&page.body["page"], &page.body["pages"]),
        (&json!(25), &json!(25))
    );
    // The audit log is read backwards, to its first entry.
    let mut path = "/w/default/audit".to_owned();
    let mut entries = 0;
    loop {
        let answer = board.page(&path, &cookie).await;
        let html = text(&answer);
        assert!(html.len() < 100_000, "{path}: {} bytes", html.len());
        entries += html.matches("<tr><td>").count();
        let Some(next) = html.split("rel=\"next\" href=\"").nth(1) else {
            break;
        };
        path = format!("/w/default/audit{}", next.split('"').next().unwrap());
    }
    assert!(entries >= 2000, "{entries}");
}
