//! Log-in at an OpenID Connect provider and by the header of a proxy, against the real board.

use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use gua_board_store::registry::{Action, AuditView};
use gua_board_store::{Registry, SqliteStore};
use gua_test::oidc::{CLIENT, CLIENT_SECRET, Mistake, Provider};
use gua_test::{Running, TestHost};
use serde_json::json;

use super::served::url;
use crate::without_driver;

struct Board {
    home: TestHost,
    running: Running,
    url: String,
}

/// An answer: status, headers and body as text.
pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    pub(super) body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    }

    /// Cookies that the answer sets, as a browser would send them.
    pub(super) fn cookies(&self) -> String {
        let all = self.header("set-cookie").into_iter();
        let pairs: Vec<&str> = all.filter_map(|one| one.split(';').next()).collect();
        pairs.join("; ")
    }
}

fn get(url: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    call(url, &format!("GET {path}"), headers, "")
}

pub(super) fn call(url: &str, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let mut head = format!(
        "{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let request = format!("{head}\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

impl Board {
    fn start(provider: &Provider, more: &str) -> Self {
        let home = without_driver();
        let secret = home.write("secret", format!("{CLIENT_SECRET}\n"));
        let running = home.foreground(&format!(
            "board serve --listen 127.0.0.1:0 --oidc-issuer {} --oidc-client-id {CLIENT} --oidc-client-secret-file {} {more}",
            provider.issuer(),
            secret.display()
        ));
        let url = url(&running);
        Self { home, running, url }
    }

    /// Goes to the provider and back. Returns the cookie of the log-in and the path of the callback.
    fn approved(&self, provider: &Provider, next: &str) -> (String, String) {
        let begun = get(&self.url, &format!("/oidc/login?next={next}"), &[]);
        assert_eq!(begun.status, 303, "{}", begun.body);
        let location = begun.header("location")[0].to_owned();
        let path = location.strip_prefix(&provider.issuer()).unwrap();
        let approved = get(&provider.issuer(), path, &[]);
        let back = approved.header("location")[0];
        let path = back.strip_prefix(&self.url).unwrap();
        (begun.cookies(), path.to_owned())
    }

    fn log_in(&self, provider: &Provider, next: &str) -> Answer {
        let (cookie, path) = self.approved(provider, next);
        get(&self.url, &path, &[("Cookie", &cookie)])
    }

    /// Name of the account of a session.
    fn me(&self, cookie: &str) -> String {
        let me = get(&self.url, "/api/v1/me", &[("Cookie", cookie)]);
        assert_eq!(me.status, 200, "{}", me.body);
        me.body
    }
}

#[test]
fn a_person_logs_in_at_the_provider_and_is_known_by_the_subject() {
    let provider = Provider::start();
    let board = Board::start(&provider, "--new-accounts viewer");
    let form = get(&board.url, "/login", &[("Accept", "text/html")]);
    assert!(form.body.contains("/oidc/login"), "{}", form.body);
    let answer = board.log_in(&provider, "%2Fw%2Fdefault");
    assert_eq!(answer.status, 303, "{}", answer.body);
    assert_eq!(answer.header("location"), ["/w/default"]);
    let session = answer.cookies();
    let me = board.me(&session);
    assert!(
        me.contains(r#""name":"ada""#) && me.contains("viewer"),
        "{me}"
    );

    // A new name at the provider is the same person, and an equal name is not.
    provider.person("subject-1", "ada lovelace");
    let me = board.me(&board.log_in(&provider, "").cookies());
    assert!(me.contains(r#""name":"ada""#), "{me}");
    provider.person("subject-2", "ada");
    let me = board.me(&board.log_in(&provider, "").cookies());
    assert!(me.contains(r#""name":"ada (2)""#), "{me}");
    let log = board.running.stderr();
    for secret in [CLIENT_SECRET, "gua_session_", "code-"] {
        assert!(!log.contains(secret), "{log}");
    }
    // The audit log shows accounts and not the names that the provider sends.
    let data = board.home.state("board");
    let store: &dyn Registry = &SqliteStore::open_existing(&data).unwrap();
    let workspace = store.workspaces().unwrap().remove(0).id;
    let log = store
        .audit_log(AuditView::Board(&workspace), None, 100)
        .unwrap();
    let actors: Vec<String> = log.into_iter().rev().map(|entry| entry.actor).collect();
    let expected = ["[command line]", "ada", "ada", "ada", "ada (2)", "ada (2)"];
    assert_eq!(actors, expected);
}

#[test]
fn a_provider_can_replace_its_keys_at_any_time() {
    let provider = Provider::start();
    let board = Board::start(&provider, "--new-accounts viewer");
    assert_eq!(board.log_in(&provider, "").status, 303);
    provider.rotates_its_key();
    assert_eq!(board.log_in(&provider, "").status, 303);
    // Tokens with invented keys do not make the board ask the provider again and again.
    provider.makes(Mistake::UnknownKey);
    for _ in 0..10 {
        assert_eq!(board.log_in(&provider, "").status, 403);
    }
    assert!(provider.key_reads() <= 4, "{}", provider.key_reads());
}

#[test]
fn a_log_in_that_was_tampered_with_is_refused() {
    let provider = Provider::start();
    let board = Board::start(&provider, "--new-accounts viewer");
    for mistake in [
        Mistake::Nonce,
        Mistake::Audience,
        Mistake::Issuer,
        Mistake::Signature,
        Mistake::UnknownKey,
        Mistake::Expired,
        Mistake::Unsigned,
        Mistake::SharedSecret,
    ] {
        provider.makes(mistake);
        let answer = board.log_in(&provider, "");
        assert_eq!(answer.status, 403, "{mistake:?}: {}", answer.body);
        assert!(
            answer.body.contains("log-in at the provider failed"),
            "{}",
            answer.body
        );
        assert!(!answer.cookies().contains("gua_session"), "{mistake:?}");
    }
    provider.makes(Mistake::None);

    // Another browser cannot finish the log-in, and neither can this one twice.
    let (cookie, path) = board.approved(&provider, "");
    assert_eq!(get(&board.url, &path, &[]).status, 403);
    let (other, _) = board.approved(&provider, "");
    assert_eq!(get(&board.url, &path, &[("Cookie", &other)]).status, 403);
    assert_eq!(get(&board.url, &path, &[("Cookie", &cookie)]).status, 303);
    assert_eq!(get(&board.url, &path, &[("Cookie", &cookie)]).status, 403);
    // A code that was used already, with a new state.
    let code = path
        .split("code=")
        .nth(1)
        .unwrap()
        .split('&')
        .next()
        .unwrap();
    let (cookie, fresh) = board.approved(&provider, "");
    let state = fresh.split("state=").nth(1).unwrap();
    let reused = format!("/oidc/callback?code={code}&state={state}");
    assert_eq!(get(&board.url, &reused, &[("Cookie", &cookie)]).status, 403);
    let refused = get(&board.url, "/oidc/callback?error=access_denied", &[]);
    assert_eq!(refused.status, 403);

    // Nobody is sent to another site afterwards.
    for evil in [
        "https:%2F%2Fevil.example.com",
        "%2F%2Fevil.example.com",
        "%2F%5Cevil.example.com",
        "%2Fw%2F%0D%0ASet-Cookie:%20a=b",
    ] {
        let answer = board.log_in(&provider, evil);
        let location = answer.header("location")[0].to_owned();
        assert!(
            location.starts_with('/') && !location.starts_with("//"),
            "{location}"
        );
        assert!(!location.contains("evil"), "{location}");
        assert!(!answer.head.contains("a=b"), "{}", answer.head);
    }
}

#[test]
fn without_a_role_for_everyone_a_person_needs_an_invitation() {
    let provider = Provider::start();
    let board = Board::start(&provider, "");
    let answer = board.log_in(&provider, "");
    assert_eq!(answer.status, 403);
    assert!(
        answer.body.contains("ask an admin for an invitation"),
        "{}",
        answer.body
    );

    // The set-up link invites the first owner.
    let said = board.running.stdout();
    let link = said.split("/join#").nth(1).unwrap().lines().next().unwrap();
    let form = format!("link={link}");
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    let page = call(&board.url, "POST /oidc/join", &[kind], &form);
    let cookie = page.cookies();
    let href = page
        .body
        .split("href=\"")
        .find(|part| part.starts_with(&provider.issuer()));
    let href = href
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .replace("&amp;", "&");
    let approved = get(
        &provider.issuer(),
        href.strip_prefix(&provider.issuer()).unwrap(),
        &[],
    );
    let back = approved.header("location")[0].to_owned();
    let path = back.strip_prefix(&board.url).unwrap();
    let answer = get(&board.url, path, &[("Cookie", &cookie)]);
    assert_eq!(answer.status, 303, "{}", answer.body);
    let me = board.me(&answer.cookies());
    assert!(me.contains("owner"), "{me}");
    let again = board.log_in(&provider, "");
    assert_eq!(again.status, 303, "the account exists now: {}", again.body);
}

#[test]
fn only_a_named_proxy_can_name_the_person() {
    let serve = |home: &TestHost, proxy: &str| {
        let running = home.foreground(&format!(
            "board serve --listen 127.0.0.1:0 --proxy {proxy} --user-header X-Remote-User --new-accounts member"
        ));
        let url = url(&running);
        (running, url)
    };
    let user = ("X-Remote-User", "eve");
    let right = "right-0123456789abcdef";
    let private = |home: &TestHost, name: &str, text: &str| {
        let file = home.write(name, text);
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        format!("--proxy-secret-file {}", file.display())
    };
    let secret = |secret| ("X-Gua-Proxy-Secret", secret);
    let far = without_driver();
    let file = private(&far, "proxy-secret", right);
    let (_running, url) = serve(&far, &format!("192.0.2.1 {file}"));
    for forged in [&[user][..], &[user, secret(right)]] {
        assert_eq!(get(&url, "/api/v1/me", forged).status, 401, "{forged:?}");
    }

    let near = without_driver();
    let file = private(&near, "proxy-secret", &format!("{right}\n"));
    let (_running, url) = serve(&near, &format!("127.0.0.1 {file}"));
    assert_eq!(get(&url, "/api/v1/me", &[secret(right)]).status, 401);
    // Another user of the host connects from the same address.
    for forged in [&[user][..], &[user, secret("wrong")]] {
        assert_eq!(get(&url, "/api/v1/me", forged).status, 401, "{forged:?}");
    }
    let me = get(&url, "/api/v1/me", &[user, secret(right)]);
    assert_eq!(me.status, 200, "{}", me.body);
    assert!(
        me.body.contains(r#""name":"eve""#) && me.body.contains("member"),
        "{}",
        me.body
    );
    let again = get(&url, "/api/v1/me", &[user, secret(right)]);
    assert_eq!(again.body, me.body);

    let serve = "board serve --listen 127.0.0.1:0 --user-header X-Remote-User";
    let empty = private(&near, "empty", "\n");
    let short = private(&near, "short", "0123456789abcde\n");
    let open = near.write("open", right);
    std::fs::set_permissions(&open, Permissions::from_mode(0o644)).unwrap();
    let open = format!("--proxy-secret-file {}", open.display());
    // Reading a pipe would block.
    let pipe = near.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let pipe = format!("--proxy-secret-file {}", pipe.display());
    for (more, code, expected) in [
        (String::new(), 2, "--proxy"),
        ("--proxy 127.0.0.1".to_owned(), 2, "--proxy-secret-file"),
        ("--proxy 192.0.2.1".to_owned(), 2, "--proxy-secret-file"),
        (format!("--proxy ::1 {empty}"), 2, "has no secret"),
        (
            format!("--proxy ::1 {short}"),
            2,
            "fewer than 16 characters",
        ),
        (format!("--proxy ::1 {open}"), 2, "chmod o="),
        (format!("--proxy ::1 {pipe}"), 1, "a pipe, not a file"),
    ] {
        let refused = near.gua(&format!("{serve} {more}"));
        assert_eq!(refused.code, code, "{refused:?}");
        assert!(refused.stderr.contains(expected), "{refused:?}");
    }
}

#[test]
fn groups_of_the_provider_replace_those_of_the_member_at_each_log_in() {
    let provider = Provider::start();
    let board = Board::start(&provider, "--new-accounts member --oidc-groups");
    let begun = get(&board.url, "/oidc/login", &[]);
    assert!(
        begun.header("location")[0].contains("+groups"),
        "{}",
        begun.head
    );
    let groups = |claims: serde_json::Value| {
        provider.claims(claims);
        let me = board.me(&board.log_in(&provider, "").cookies());
        let me: serde_json::Value = serde_json::from_str(&me).unwrap();
        me["memberships"][0]["groups"].clone()
    };
    let names = json!(["Vision", "speech", "a, b", "line\nbreak", "vision"]);
    assert_eq!(
        groups(json!({ "groups": names })),
        json!(["speech", "vision"])
    );
    assert_eq!(groups(json!({ "groups": "speech" })), json!(["speech"]));
    assert_eq!(groups(json!({ "groups": ["speech"] })), json!(["speech"]));
    assert_eq!(groups(json!({ "roles": ["vision"] })), json!([]));
    let store: &dyn Registry = &SqliteStore::open_existing(&board.home.state("board")).unwrap();
    let workspace = store.workspaces().unwrap().remove(0).id;
    let log = store.audit_log(AuditView::Workspace(&workspace), None, 100);
    let log = log.unwrap().into_iter();
    let set = log.filter(|entry| entry.action == Action::MemberGroupsSet);
    let set: Vec<(String, String)> = set.map(|entry| (entry.actor, entry.object)).collect();
    let by_provider = |object: &str| ("[OIDC provider]".to_owned(), object.to_owned());
    // A log-in with the same groups changes nothing.
    assert_eq!(
        set,
        ["ada: ", "ada: speech", "ada: speech, vision"].map(by_provider)
    );
}

#[test]
fn groups_are_left_to_the_admins_by_default_and_another_claim_can_be_read() {
    for (option, expected) in [("", json!([])), ("--oidc-groups=roles", json!(["vision"]))] {
        let provider = Provider::start();
        let board = Board::start(&provider, &format!("--new-accounts member {option}"));
        provider.claims(json!({ "groups": ["speech"], "roles": ["vision"] }));
        let me = board.me(&board.log_in(&provider, "").cookies());
        let me: serde_json::Value = serde_json::from_str(&me).unwrap();
        assert_eq!(me["memberships"][0]["groups"], expected, "{option}");
    }
}
