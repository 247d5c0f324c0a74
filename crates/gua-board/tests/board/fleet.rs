//! Fleets that need more than one page, hosts under maintenance, and the screen on the wall.

use std::collections::BTreeSet;

use gua_board::demo;
use gua_board::live::LiveState;
use gua_board_store::ledger::Form;
use gua_board_store::registry::{HostClaim, Role, Scope};
use gua_board_store::{HostId, Kind, Secret};
use serde_json::{Value, json};

use crate::Board;
use crate::pages::{HTML, text};

/// Names of the people of the simulated fleet.
const PEOPLE: [&str; 7] = ["ada", "grace", "linus", "minji", "jiho", "sofia", "ken"];

impl Board {
    /// Enrols many hosts that report like the simulated fleet.
    fn many_hosts(&self, count: u32) {
        let key = self.enrolment_key(&self.workspace(), count);
        for number in 0..count {
            let token = Secret::generate(Kind::Agent);
            let claim = HostClaim {
                key: gua_board_store::SecretHash::of(&key),
                token: token.hash(),
                token_prefix: token.prefix(),
                hostname: Some(format!("node-{number:04}")),
                agent_version: None,
                driver_version: None,
                address: None,
                at: self.app.now(),
            };
            let host = self.app.registry.claim(&claim).unwrap().id;
            let at = self.app.now();
            let report = demo::report(number % demo::HOSTS, at);
            self.app.live.apply(&host, Form::Live, report, at);
        }
    }

    async fn availability(&self, cookie: &str, query: &str) -> Value {
        let path = format!("GET /api/v1/workspaces/default/availability{query}");
        let answer = self.call(&path, &[("cookie", cookie)], "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    }
}

#[tokio::test]
async fn a_large_fleet_is_paged_and_found_by_name() {
    let board = Board::start();
    let cookie = board.session_of(Role::Owner);
    board.many_hosts(130);
    let all = board.availability(&cookie, "").await;
    let counts = all["counts"].as_array().unwrap().iter();
    let total: u64 = counts.map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(total, 130 * 8);
    let pages = all["pages"].as_u64().unwrap();
    let mut seen = 0;
    for page in 1..=pages {
        let part = board.availability(&cookie, &format!("?page={page}")).await;
        seen += part["rows"].as_array().unwrap().len() as u64;
    }
    assert_eq!(seen, total);
    for (path, expected) in [
        ("/w/default", format!("Page 1 of {pages}")),
        ("/w/default?page=2", "?page=1\"".to_owned()),
        ("/w/default?form=compact", "Page 1 of 2".to_owned()),
        (
            "/w/default?form=compact&page=2",
            "?page=1&amp;form=compact".to_owned(),
        ),
        (
            "/w/default?form=compact&gpus=2&model=4090",
            "4090".to_owned(),
        ),
        ("/w/default/servers", "Page 1 of 4".to_owned()),
        ("/w/default/servers?name=node-012", "node-0129".to_owned()),
        (
            "/w/default/servers?name=nothing",
            "No server has this name".to_owned(),
        ),
    ] {
        let answer = board.page(path, &cookie).await;
        let page = text(&answer);
        assert!(page.contains(&expected), "{path}: {expected}");
        assert!(page.len() < 100_000, "{path}: {} bytes", page.len());
    }
    for (query, (first, count, page)) in [
        ("", ("node-0000", 40, 1)),
        ("?page=4", ("node-0120", 10, 4)),
        ("?name=NODE-012&page=9", ("node-0120", 10, 1)),
    ] {
        let line = format!("GET /api/v1/workspaces/default/hosts{query}");
        let hosts = board.call(&line, &[("cookie", &cookie)], "").await.body;
        let items = hosts["items"].as_array().unwrap();
        assert_eq!(
            (&items[0]["displayName"], items.len()),
            (&first.into(), count)
        );
        assert_eq!(hosts["page"], page, "{query}");
    }
    let found = board
        .page("/w/default/servers?name=node-012", &cookie)
        .await;
    assert!(!text(&found).contains("node-0001"));
}

#[tokio::test]
async fn a_claim_that_ends_makes_a_gpu_free_soon() {
    let board = Board::start();
    let cookie = board.session_of(Role::Member);
    board.fleet().await;
    let at = board.app.now();
    let reports = (0..demo::HOSTS).map(|host| demo::report(host, at));
    let gpus = reports.flat_map(|report| report.gpus);
    let claimed = gpus.filter(|gpu| gpu.claim.is_some()).count() as u64;
    assert!(claimed > 0);
    let found = board.availability(&cookie, "").await;
    assert_eq!(found["counts"][2], claimed);
    let page = board.page("/w/default?page=1", &cookie).await;
    assert!(text(&page).contains("claim ends in 9m"), "{}", page.body);
}

#[tokio::test]
async fn a_host_under_maintenance_offers_nothing() {
    let board = Board::start();
    let cookie = board.session_of(Role::Admin);
    let host = board.fleet().await.remove(0);
    let free = async || {
        let name = demo::host_name(0);
        let found = board.availability(&cookie, "?model=A100").await;
        let rows = found["rows"].as_array().unwrap().clone();
        let own = rows.iter().filter(|row| row["hostName"] == name.as_str());
        own.filter(|row| row["group"] == "free").count()
    };
    let before = free().await;
    assert!(before > 0);
    let path = format!("/w/default/servers/{host}/maintenance");
    let begun = board
        .submit(&path, &cookie, "note=new+cooler+%3Cb%3E&endsInHours=2")
        .await;
    assert_eq!(begun.headers["location"], "/w/default/servers");
    assert_eq!(free().await, 0);
    for page in [
        "/w/default/servers".to_owned(),
        format!("/w/default/hosts/{host}"),
        "/w/default?form=compact".to_owned(),
    ] {
        let answer = board.page(&page, &cookie).await;
        assert!(text(&answer).contains("new cooler &lt;b&gt;"), "{page}");
    }
    let live = board
        .call(
            "GET /api/v1/workspaces/default/live",
            &[("cookie", &cookie)],
            "",
        )
        .await;
    let hosts = live.body["hosts"].as_array().unwrap().iter();
    let notes: Vec<&str> = hosts
        .filter_map(|host| host["maintenance"].as_str())
        .collect();
    assert_eq!(notes, ["new cooler <b>"]);

    board.submit(&format!("{path}/end"), &cookie, "").await;
    assert_eq!(free().await, before);
    // It ends by itself, too.
    board
        .submit(&path, &cookie, "note=reboot&endsInHours=1")
        .await;
    assert_eq!(free().await, 0);
    let hosts = board.app.registry.hosts(None).unwrap();
    let host = hosts.iter().find(|one| one.id.as_str() == host).unwrap();
    let end = host.maintenance.as_ref().unwrap().until.unwrap();
    assert!(host.maintenance(end).is_none());
    let unknown = "/w/default/servers/host_x/maintenance";
    assert_eq!(board.submit(unknown, &cookie, "note=x").await.status, 404);
    let log = board.page("/w/default/audit", &cookie).await;
    for action in ["maintenance-set", "maintenance-ended"] {
        assert!(text(&log).contains(action), "{action}");
    }
}

#[tokio::test]
async fn a_screen_shows_states_without_names_until_its_link_expires() {
    let board = Board::start();
    let cookie = board.session_of(Role::Member);
    board.fleet().await;
    let endless = board
        .submit("/w/default/tokens", &cookie, "scope=screen&expiresInDays=")
        .await;
    assert_eq!(endless.status, 422);
    let added = board
        .submit("/w/default/tokens", &cookie, "scope=screen&expiresInDays=1")
        .await;
    let page = text(&added);
    let url = page.split("https://board.example.com/screen/").nth(1);
    let secret = url.unwrap().split('<').next().unwrap().to_owned();
    let path = format!("/screen/{secret}");
    let shown = board.page(&path, "").await;
    assert_eq!(shown.status, 200);
    let page = text(&shown);
    assert!(
        page.contains("of 96 GPUs are free") && page.contains("20 GPUs are held but idle"),
        "{page}"
    );
    assert!(page.matches("<li").count() <= 16, "{page}");
    assert!(!page.contains("href=\"/w/"), "{page}");
    assert!(
        page.contains(&format!("data-live=\"{path}/events\"")),
        "{page}"
    );
    for name in PEOPLE {
        assert!(!page.contains(name), "{name}");
    }
    let events = board.page(&format!("{path}/events"), "").await;
    assert_eq!(events.status, 200);
    // The link opens nothing else.
    let bearer = format!("Bearer {secret}");
    for line in ["GET /w/default", "GET /api/v1/workspaces/default/live"] {
        let answer = board
            .call(line, &[HTML, ("authorization", &bearer)], "")
            .await;
        assert_eq!(answer.status, 401, "{line}");
    }
    board.pass(24 * 3600);
    assert_eq!(board.page(&path, "").await.status, 404);
}

#[tokio::test]
async fn what_gpus_did_is_there_after_a_restart() {
    let board = Board::start();
    let host = HostId(board.fleet().await.remove(0));
    let strip = |live: &LiveState| {
        let state = live.host(&host).unwrap();
        let uuid = &state.report.gpus[0].uuid;
        let until = board.app.now().as_second();
        state.days[uuid].cells(until).flatten().count()
    };
    assert_eq!(strip(&board.app.live), 5);
    let again = LiveState::default();
    let at = board.app.now();
    again.apply(&host, Form::Live, demo::report(0, at), at);
    for (host, stored) in board.app.live.days() {
        again.restore_day(&host, &stored);
    }
    assert_eq!(strip(&again), 5);
}

#[tokio::test]
async fn metrics_show_the_fleet_as_totals_and_each_host_only_when_asked() {
    let board = Board::start();
    let cookie = board.session_of(Role::Owner);
    board.many_hosts(60);
    let metrics = async |query: &str, accept: &str| {
        let headers = [("cookie", cookie.as_str()), ("accept", accept)];
        let answer = board
            .call(&format!("GET /metrics{query}"), &headers, "")
            .await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let kind = answer.headers["content-type"].to_str().unwrap().to_owned();
        (kind, answer.body.as_str().unwrap().to_owned())
    };
    let sum = |page: &str, family: &str| -> f64 {
        let samples = page.lines().filter(|line| line.starts_with(family));
        samples
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    };
    let (kind, text) = metrics("", "text/plain").await;
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    assert!(
        text.contains("\ngua_board_hosts{freshness=\"fresh\"} 60\n"),
        "{text}"
    );
    assert_eq!(sum(&text, "gua_board_gpus{"), 480.0);
    // The number of series does not depend on the number of hosts.
    assert!(!text.contains("host="), "{text}");
    let (kind, text) = metrics("?hosts", "application/openmetrics-text").await;
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert_eq!(sum(&text, "gua_board_host_gpus{"), 480.0);
    let mut series: Vec<&str> = text
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, _)| name)
        .collect();
    let all = series.len();
    series.sort_unstable();
    series.dedup();
    assert_eq!(series.len(), all, "a series is written twice");
}

#[tokio::test]
async fn metrics_sum_the_present_and_every_family_is_documented() {
    let board = Board::start();
    let workspace = board.workspace();
    let (_, token) = board.enrol(&workspace, "lab1").await;
    let cookie = board.session_of(Role::Owner);
    let headers = [("authorization", token.as_str())];
    let gpu = |uuid: &str| {
        json!({
            "uuid": uuid, "index": 0, "name": "A100", "instance": null, "state": "idle-held", "obstacle": "held",
            "utilPercent": 0, "memoryUsedBytes": 9, "memoryTotalBytes": 90, "temperatureCelsius": 40, "powerMilliwatts": 50500,
            "health": ["hot", "remap-pending"], "claim": null,
            "processes": [{"pid": 7, "owner": "ada", "name": "python", "type": "compute", "memoryBytes": 8}],
        })
    };
    let report = json!({
        "schemaVersion": "gua.live.v1", "observedAt": board.app.now(), "waiting": 0, "problems": [],
        "host": {"hostname": "lab1", "agentVersion": "1", "driverVersion": null}, "gpus": [gpu("GPU-a"), gpu("GPU-b")],
    });
    let answer = board
        .call("POST /agent/v1/live", &headers, report.to_string())
        .await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let page = async |board: &Board| {
        let answer = board
            .call("GET /metrics?hosts", &[("cookie", &cookie)], "")
            .await;
        answer.body.as_str().unwrap().to_owned()
    };
    board.pass(60);
    let text = page(&board).await;
    for sample in [
        "gua_board_faulty_gpus{fault=\"hot\"} 2",
        "gua_board_faulty_gpus{fault=\"lost\"} 0",
        "gua_board_holders 1",
        "gua_board_idle_held_seconds 120",
        "gua_board_power_watts 101",
    ] {
        assert!(text.contains(&format!("\n{sample}\n")), "{sample}: {text}");
    }
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families: Vec<&str> = families.filter_map(|line| line.split(' ').next()).collect();
    assert!(families.len() > 12, "{families:?}");
    for family in families {
        assert!(docs.contains(&format!("| `{family}` |")), "{family}");
    }
    // Nobody knows what the GPUs of a stale host do now.
    board.pass(7200);
    let text = page(&board).await;
    for sample in [
        "gua_board_faulty_gpus{fault=\"hot\"} 0",
        "gua_board_holders 0",
        "gua_board_idle_held_seconds 0",
    ] {
        assert!(text.contains(&format!("\n{sample}\n")), "{sample}: {text}");
    }
}

#[tokio::test]
async fn metrics_list_only_hosts_of_workspaces_that_the_caller_administers() {
    let board = Board::start();
    board.many_hosts(2);
    let other = board
        .app
        .registry
        .add_workspace(&board.change(), "other")
        .unwrap();
    let account = board.account("eve", &other, Role::Admin);
    let token = board.api_token(&account, &other, Scope::Read);
    let cookie = board.session(&account);
    // Two hosts with one name.
    for _ in 0..2 {
        let (id, _) = board.enrol(&other, "twin").await;
        let at = board.app.now();
        let report = demo::report(0, at);
        board.app.live.apply(&HostId(id), Form::Live, report, at);
    }
    for credentials in [("authorization", &token), ("cookie", &cookie)] {
        let headers = [(credentials.0, credentials.1.as_str())];
        let answer = board.call("GET /metrics?hosts", &headers, "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let text = answer.body.as_str().unwrap();
        let hosts: BTreeSet<&str> = text
            .lines()
            .filter(|line| line.starts_with("gua_board_host_gpus{"))
            .filter_map(|line| line.split(",state=").next())
            .collect();
        assert_eq!(hosts.len(), 2, "{text}");
        let is_twin = |line: &&str| line.contains("host=\"twin");
        assert!(hosts.iter().all(is_twin), "{text}");
    }
}
