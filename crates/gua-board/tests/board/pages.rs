//! The pages, rendered in memory for every role, with a simulated fleet and with hostile names.

use std::time::Duration;

use gua_board::demo;
use gua_board_store::HostId;
use gua_board_store::ledger::Form;
use gua_board_store::registry::Role;
use gua_model::{FaultKind, State};
use gua_wire::live::{GpuKeep, ObstacleWord};
use serde_json::Value;

use crate::{Answer, Board, START, snapshot};

pub(crate) const HTML: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");

pub(crate) fn text(answer: &Answer) -> &str {
    match &answer.body {
        Value::String(text) => text,
        other => panic!("not a page: {other}"),
    }
}

impl Board {
    pub(crate) async fn page(&self, path: &str, cookie: &str) -> Answer {
        let headers = [HTML, ("cookie", cookie)];
        self.call(&format!("GET {path}"), &headers, "").await
    }

    /// A page, and the shortest of three times that it took: other work may delay any one of them.
    async fn timed_page(&self, path: &str, cookie: &str) -> (Answer, Duration) {
        let mut best = (self.page(path, cookie).await, Duration::MAX);
        for _ in 0..3 {
            let began = tokio::time::Instant::now();
            best.0 = self.page(path, cookie).await;
            best.1 = best.1.min(began.elapsed());
        }
        best
    }

    pub(crate) async fn submit(&self, path: &str, cookie: &str, form: &str) -> Answer {
        let headers = [
            HTML,
            ("cookie", cookie),
            ("sec-fetch-site", "same-origin"),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        let line = format!("POST {path}");
        self.call(&line, &headers, form.to_owned()).await
    }

    pub(crate) fn session_of(&self, role: Role) -> String {
        self.session(&self.account(role.as_str(), &self.workspace(), role))
    }

    /// Enrols the simulated fleet and lets it report for an hour.
    pub(crate) async fn fleet(&self) -> Vec<String> {
        let mut ids = Vec::new();
        for host in 0..demo::HOSTS {
            let (id, _) = self.enrol(&self.workspace(), &demo::host_name(host)).await;
            for _ in 0..2 {
                let at = self.app.now();
                let report = demo::report(host, at);
                self.app
                    .live
                    .apply(&HostId(id.clone()), Form::Live, report, at);
            }
            ids.push(id);
        }
        for _ in 0..60 {
            self.pass(60);
            let at = self.app.now();
            for (host, id) in (0..).zip(&ids) {
                let report = demo::report(host, at);
                self.app
                    .live
                    .apply(&HostId(id.clone()), Form::Live, report, at);
            }
        }
        ids
    }
}

/// Replaces what is random in a page: identifiers and hashes of assets.
fn stable(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some(place) = [
        "host_",
        "acc_",
        "key_",
        "tok_",
        "board-",
        "gua_enr_",
        "gua_link_",
        "gua_api_",
        "gua_agent_",
    ]
    .iter()
    .filter_map(|mark| rest.find(mark).map(|place| place + mark.len()))
    .min()
    {
        out.push_str(&rest[..place]);
        out.push('*');
        rest = rest[place..].trim_start_matches(|letter: char| {
            letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
        });
    }
    out.push_str(rest);
    // One element per line makes a difference readable.
    out.replace("><", ">\n<")
}

#[tokio::test]
async fn the_main_pages_show_what_they_promise() {
    let board = Board::start();
    let cookie = board.session_of(Role::Owner);
    let (id, token) = board.enrol(&board.workspace(), "gpu1").await;
    let auth = [("authorization", token.as_str())];
    for second in [0, 30] {
        let body = snapshot(second, "ada").to_string();
        board.call("POST /agent/v1/observations", &auth, body).await;
    }
    board.pass(3600);
    for (name, path) in [
        ("availability", "/w/default".to_owned()),
        ("host", format!("/w/default/hosts/{id}")),
        ("gpu", format!("/w/default/hosts/{id}/gpus/GPU-a?lang=ko")),
        ("servers", "/w/default/servers".to_owned()),
        ("members", "/w/default/members".to_owned()),
        ("tokens", "/w/default/tokens".to_owned()),
        ("settings", "/w/default/settings".to_owned()),
        ("join", "/join".to_owned()),
    ] {
        let answer = board.page(&path, &cookie).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        insta::assert_snapshot!(name, stable(text(&answer)));
    }
}

#[tokio::test]
async fn the_first_line_says_what_is_free() {
    let board = Board::start();
    let cookie = board.session_of(Role::Member);
    board.fleet().await;
    let check = async |query: &str, expected: &str| {
        let answer = board.page(&format!("/w/default{query}"), &cookie).await;
        let page = text(&answer);
        let line = page.split("<h1 class=\"summary\"").nth(1).unwrap();
        let (_, line) = line.split_once('>').unwrap();
        assert_eq!(line.split("</h1>").next().unwrap(), expected, "{query}");
    };
    let all = board.page("/w/default", &cookie).await;
    let free = text(&all).matches("CUDA_VISIBLE_DEVICES=GPU-").count();
    assert!(free > 5, "{free}");
    let at = board.app.now();
    let expected = |hosts: std::ops::Range<u32>, least: usize, model: &str| {
        let reports = hosts.map(|host| demo::report(host, at));
        let free =
            |report: &gua_wire::LiveReport| report.gpus.iter().filter(|gpu| gpu.is_free()).count();
        let found: Vec<_> = reports.filter(|report| free(report) >= least).collect();
        let all: usize = found.iter().map(free).sum();
        let hosts = found.iter().filter(|report| free(report) > 0).count();
        let gpus = found.iter().flat_map(|report| &report.gpus);
        let held = gpus.filter(|gpu| gpu.state == State::IdleHeld);
        format!(
            "Free now: {all} × {model} on {hosts} hosts; {} idle-held",
            held.count()
        )
    };
    check("?model=4090", &expected(9..12, 0, "GeForce RTX 4090 24 GB")).await;
    check("?model=A100&gpus=2", &expected(0..3, 2, "A100-SXM4-80GB")).await;
    check("?model=H100&gpus=9", "No GPU is free now; 0 idle-held").await;
    check("?memory=100", "No GPU is free now; 0 idle-held").await;
    // A GB has 2^30 bytes: an A100 has 80 of them, and not 85.
    check("?memory=81", "No GPU is free now; 0 idle-held").await;
    check(
        "?memory=100&lang=ko",
        "지금 사용 가능한 GPU가 없습니다. 유휴 점유 0개",
    )
    .await;
    // Without news for a while nothing is known to be free.
    board.pass(3600);
    check("", "No GPU is free now; 0 idle-held").await;
}

#[tokio::test]
async fn every_page_is_small_and_serves_every_role() {
    let board = Board::start();
    let host = board.fleet().await.remove(0);
    let gpu = demo::report(0, board.app.now()).gpus.remove(0).uuid;
    for role in Role::ALL {
        let cookie = board.session_of(role);
        for (least, path) in [
            (Role::Viewer, "/w/default".to_owned()),
            (Role::Viewer, "/w/default?lang=ko&page=99".to_owned()),
            (Role::Viewer, "/w/default?form=compact".to_owned()),
            (Role::Viewer, format!("/w/default/hosts/{host}")),
            (
                Role::Viewer,
                format!("/w/default/hosts/{host}/gpus/{}", gpu.as_str()),
            ),
            (Role::Member, "/w/default/tokens".to_owned()),
            (Role::Admin, "/w/default/servers".to_owned()),
            (Role::Admin, "/w/default/members".to_owned()),
            (Role::Admin, "/w/default/settings".to_owned()),
            (Role::Admin, "/w/default/audit".to_owned()),
        ] {
            let (answer, took) = board.timed_page(&path, &cookie).await;
            let page = text(&answer);
            assert!(took < Duration::from_millis(100), "{path}: {took:?}");
            let expected = if role >= least { 200 } else { 403 };
            assert_eq!(answer.status, expected, "{path} as {role}");
            assert!(page.len() < 100_000, "{path}: {} bytes", page.len());
            assert!(page.starts_with("<!DOCTYPE html>"), "{path}");
            assert!(
                !page.contains(" style=") && !page.contains("<style"),
                "{path}"
            );
            assert!(
                !page.contains("http://") && !page.contains("//cdn"),
                "{path}"
            );
            // Names of people are for members.
            if role == Role::Viewer {
                for name in ["grace", "minji", "sofia", "train.py"] {
                    assert!(!page.contains(name), "{path} shows {name}");
                }
            }
        }
    }
}

#[tokio::test]
async fn hostile_names_are_escaped_on_every_page() {
    const EVIL: &str = "<script>alert(1)</script>\"'`$(rm)&";
    let board = Board::start();
    let cookie = board.session_of(Role::Owner);
    board.account(
        "\"><img src=x onerror=alert(1)>",
        &board.workspace(),
        Role::Member,
    );
    let (id, token) = board.enrol(&board.workspace(), EVIL).await;
    let mut body = snapshot(0, EVIL);
    body["gpus"][0]["name"] = EVIL.into();
    body["gpus"][0]["uuid"] = "GPU-\"><u>;$(rm)".into();
    body["gpus"][0]["processes"][0]["name"] = EVIL.into();
    body["host"]["agentVersion"] = "<u>".into();
    let auth = [("authorization", token.as_str())];
    let pushed = board
        .call("POST /agent/v1/observations", &auth, body.to_string())
        .await;
    assert_eq!(pushed.status, 202, "{}", pushed.body);
    for path in [
        "/w/default".to_owned(),
        "/w/default?model=%3Cscript%3E%22".to_owned(),
        format!("/w/default/hosts/{id}"),
        format!("/w/default/hosts/{id}/gpus/GPU-%22%3E%3Cu%3E%3B%24%28rm%29"),
        format!("/w/default/hosts/{id}/gpus/%3Cscript%3E"),
        "/w/default/servers".to_owned(),
        "/w/default/members".to_owned(),
        "/w/default/audit".to_owned(),
        "/w/default/members?name=%3Cscript%3E&page=%3Cu%3E".to_owned(),
        "/w/default/tokens?name=%22%3E%3Cu%3E".to_owned(),
        "/w/%3Cscript%3E".to_owned(),
    ] {
        let answer = board.page(&path, &cookie).await;
        let page = text(&answer);
        assert!(
            answer.status == 200 || answer.status == 404,
            "{path}: {}",
            answer.status
        );
        for bad in ["<script>", "<img", "<u>", "onerror=alert(1)>"] {
            assert!(!page.contains(bad), "{path} contains {bad}");
        }
        assert!(!page.contains("ssh -t &lt;"), "{path}");
    }
}

#[tokio::test]
async fn a_person_joins_logs_out_and_logs_in_with_forms_alone() {
    let board = Board::start();
    let setup = gua_board::set_up::SetUp {
        registry: &*board.app.registry,
        now: board.app.now(),
    };
    let link = setup.add_first_link("default").unwrap().unwrap();
    let url = gua_board::set_up::join_url("https://board.example.com", &link);
    let url = url
        .replace(':', "%3A")
        .replace('/', "%2F")
        .replace('#', "%23");
    let joined = board
        .submit(
            "/join",
            "",
            &format!("link={url}&name=ada&password=correct+horse"),
        )
        .await;
    assert_eq!(joined.status, 303, "{}", joined.body);
    let set = joined.headers["set-cookie"].to_str().unwrap();
    let cookie = set.split(';').next().unwrap().to_owned();
    let home = board.page("/", &cookie).await;
    assert_eq!(home.headers["location"], "/w/default");
    let out = board.submit("/logout", &cookie, "").await;
    assert_eq!(out.headers["location"], "/login");

    // The page itself answers with the form, which returns to it.
    let refused = board.page("/w/default?page=2", &cookie).await;
    assert_eq!(refused.status, 401);
    assert!(text(&refused).contains("action=\"/login?next=%2Fw%2Fdefault%3Fpage%3D2\""));
    let wrong = board
        .submit(
            "/login?next=%2Fw%2Fdefault",
            "",
            "name=ada&password=wrong+horse",
        )
        .await;
    assert_eq!(wrong.status, 401);
    assert!(text(&wrong).contains("the name or the password is wrong"));
    assert!(text(&wrong).contains("action=\"/login?next=%2Fw%2Fdefault\""));
    let right = board
        .submit(
            "/login?next=%2Fw%2Fdefault",
            "",
            "name=ada&password=correct+horse",
        )
        .await;
    assert_eq!(
        (right.status, right.headers["location"].to_str().unwrap()),
        (303, "/w/default")
    );
    let evil = board
        .submit(
            "/login?next=%2F%2Fevil.example.com",
            "",
            "name=ada&password=correct+horse",
        )
        .await;
    assert_eq!(evil.headers["location"], "/");
}

#[tokio::test]
async fn forms_of_administration_change_what_the_api_changes() {
    let board = Board::start();
    let cookie = board.session_of(Role::Owner);
    let answer = board
        .submit("/w/default/keys", &cookie, "name=&uses=2&expiresInHours=1")
        .await;
    let page = text(&answer);
    let line = page
        .split("echo ")
        .nth(1)
        .unwrap()
        .split("</code>")
        .next()
        .unwrap();
    let key = line.split(' ').next().unwrap();
    assert!(
        line.contains("gua enroll --server-url https://board.example.com"),
        "{line}"
    );
    let claim = serde_json::json!({"enrollmentToken": key, "hostname": "gpu1"}).to_string();
    let claimed = board
        .call("POST /agent/v1/enrollments/claim", &[], claim)
        .await;
    let host = claimed.body["hostId"].as_str().unwrap();

    let renamed = board
        .submit(
            &format!("/w/default/servers/{host}/rename"),
            &cookie,
            "displayName=lab+1",
        )
        .await;
    assert_eq!(renamed.headers["location"], "/w/default/servers");
    assert!(text(&board.page("/w/default/servers", &cookie).await).contains("lab 1"));
    board
        .submit(&format!("/w/default/servers/{host}/revoke"), &cookie, "")
        .await;
    assert!(!text(&board.page("/w/default/servers", &cookie).await).contains("lab 1"));

    let invited = board
        .submit("/w/default/invitations", &cookie, "role=viewer")
        .await;
    assert!(
        text(&invited).contains("https://board.example.com/join#"),
        "{}",
        invited.body
    );
    let token = board
        .submit("/w/default/tokens", &cookie, "scope=read&expiresInDays=")
        .await;
    assert!(text(&token).contains("never"), "{}", token.body);
    let bad = board
        .submit("/w/default/tokens", &cookie, "scope=everything")
        .await;
    assert_eq!(bad.status, 422);
    let log = board.page("/w/default/audit", &cookie).await;
    for action in [
        "enrolment-key-added",
        "host-renamed",
        "host-revoked",
        "link-added",
        "api-token-added",
    ] {
        assert!(text(&log).contains(action), "{action}");
    }
}

#[tokio::test]
async fn assets_are_kept_by_browsers_and_pages_are_not() {
    let board = Board::start();
    let page = board.page("/login", "").await;
    assert_eq!(page.headers["cache-control"], "no-store");
    let html = text(&page);
    for (start, kind) in [
        ("href=\"/assets/", "text/css"),
        ("src=\"/assets/", "text/javascript"),
    ] {
        let name = html.split(start).nth(1).unwrap().split('"').next().unwrap();
        let asset = board.page(&format!("/assets/{name}"), "").await;
        assert_eq!(asset.status, 200);
        assert!(
            asset.headers["content-type"]
                .to_str()
                .unwrap()
                .starts_with(kind)
        );
        assert!(
            asset.headers["cache-control"]
                .to_str()
                .unwrap()
                .contains("immutable")
        );
    }
    assert_eq!(board.page("/assets/board.css", "").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn an_open_page_learns_of_a_change_and_the_stream_ends_when_the_board_stops() {
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    let board = Board::start();
    let cookie = board.session_of(Role::Viewer);
    let request = axum::http::Request::get("/w/default/events").header("cookie", cookie);
    let request = request.body(axum::body::Body::empty()).unwrap();
    let router = gua_board::routes::router(&board.app);
    let mut body = router.oneshot(request).await.unwrap().into_body();
    let at = at_second(START);
    board.app.live.apply(
        &HostId("host_a".to_owned()),
        Form::Live,
        demo::report(0, at),
        at,
    );
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(frame, "event: change\ndata: \n\n");
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(frame, ": heartbeat\n\n");
    board.app.finish();
    assert!(body.frame().await.is_none());
}

fn at_second(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).unwrap()
}

#[tokio::test]
async fn the_page_of_a_free_gpu_with_a_fault_speaks_of_that_gpu() {
    let board = Board::start();
    let cookie = board.session_of(Role::Owner);
    let (id, _) = board.enrol(&board.workspace(), "gpu1").await;
    let at = board.app.now();
    let mut report = demo::report(0, at);
    let gpu = &mut report.gpus[0];
    gpu.processes.clear();
    (gpu.state, gpu.health) = (State::TrulyIdle, vec![FaultKind::UncorrectedErrors]);
    gpu.obstacle = Some(ObstacleWord::Unhealthy);
    let uuid = gpu.uuid.clone();
    let live = &board.app.live;
    live.apply(&HostId(id.clone()), Form::Live, report, at);
    let path = format!("/w/default/hosts/{id}/gpus/{}", uuid.as_str());
    let answer = board.page(&path, &cookie).await;
    let page = text(&answer);
    assert!(page.contains("No process is on this GPU."), "{page}");
    assert!(!page.contains("this host's GPUs"), "{page}");
    let state = "free <small class=\"bad\">uncorrected memory errors";
    assert!(page.contains(state), "{page}");
}

#[tokio::test]
async fn a_link_of_a_demonstration_that_was_used_says_how_to_get_another() {
    let board = Board::start();
    let answer = board.page("/demo/gua_link_used", "").await;
    assert_eq!(answer.status, 404);
    let page = text(&answer);
    assert!(page.contains("was already used"), "{page}");
    assert!(page.contains("gua board demo"), "{page}");
}

#[tokio::test]
async fn a_reason_to_keep_a_gpu_has_a_line_across_the_table() {
    let board = Board::start();
    let cookie = board.session_of(Role::Owner);
    let (id, _) = board.enrol(&board.workspace(), "gpu1").await;
    let at = board.app.now();
    let mut report = demo::report(0, at);
    let held = report
        .gpus
        .iter_mut()
        .find(|gpu| !gpu.processes.is_empty())
        .unwrap();
    held.keeps = vec![GpuKeep {
        owner: Some("minji".to_owned()),
        until: at_second(START + 3600),
        why: Some("evaluation after the download".to_owned()),
    }];
    let uuid = held.uuid.clone();
    let live = &board.app.live;
    live.apply(&HostId(id.clone()), Form::Live, report, at);
    let answer = board.page(&format!("/w/default/hosts/{id}"), &cookie).await;
    let page = text(&answer);
    let reason = "minji · kept until 2026-09-21 15:13 UTC: evaluation after the download";
    let columns = page.split("<table class=\"gpus\">").nth(1).unwrap();
    let columns = columns.split("</thead>").next().unwrap();
    let columns = columns.matches("<th ").count();
    let line =
        format!("<tr class=\"kept\"><td colspan=\"{columns}\"> <small>{reason}</small></td></tr>");
    assert!(page.contains(&line), "{page}");
    let path = format!("/w/default/hosts/{id}/gpus/{}", uuid.as_str());
    let answer = board.page(&path, &cookie).await;
    assert!(text(&answer).contains(reason), "{}", text(&answer));
}
