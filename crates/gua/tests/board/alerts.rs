//! Alerts of a real board about its hosts, and keeps that a host's agent sends.

use std::time::Duration;

use gua_probe::clock;
use gua_test::recorded::record;
use gua_test::webhook::{Behaviour, Webhook};
use gua_test::{Sleeper, schema, send, wait_for, wait_until};
use jiff::SignedDuration;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::served::{Served, answer};
use crate::{TWO_GPUS, host};

/// A host without a machine: its reports are written here.
struct Reporter<'a> {
    board: &'a Served,
    authorization: String,
}

impl<'a> Reporter<'a> {
    fn enrol(board: &'a Served, name: &str) -> Self {
        let key = board.enrolment_token(name);
        let claim = json!({"enrollmentToken": key, "hostname": name}).to_string();
        let line = "POST /agent/v1/enrollments/claim";
        let (status, answer) = board.request(line, &[], claim.as_bytes());
        assert_eq!(status, 201, "{answer}");
        let token = answer["agentToken"].as_str().unwrap();
        Self {
            board,
            authorization: format!("Bearer {token}"),
        }
    }

    /// Sends a report of some seconds ago: ada holds a faulty GPU without using it.
    fn push(&self, seconds_ago: i64) {
        self.push_gpus(seconds_ago, &["GPU-a"]);
    }

    /// Sends a report of some seconds ago in which ada holds faulty GPUs.
    fn push_gpus(&self, seconds_ago: i64, uuids: &[&str]) {
        let at = clock::now() - SignedDuration::from_secs(seconds_ago);
        let gpus = uuids.iter().map(|uuid| json!({
            "uuid": uuid, "index": 0, "name": "A100", "instance": null, "state": "idle-held", "obstacle": "held",
            "utilPercent": 0, "memoryUsedBytes": 9u64 << 30, "memoryTotalBytes": 40u64 << 30, "temperatureCelsius": 40,
            "powerMilliwatts": 50000, "health": ["remap-failed"], "claim": null,
            "processes": [{"pid": 7, "owner": "ada", "name": "python", "type": "compute", "memoryBytes": 8u64 << 30}],
        }));
        let gpus: Vec<Value> = gpus.collect();
        let report = json!({
            "schemaVersion": "gua.live.v1", "observedAt": at,
            "host": {"hostname": "h", "agentVersion": "1", "driverVersion": null},
            "gpus": gpus, "waiting": 0, "problems": [],
        });
        let headers = [("Authorization", self.authorization.as_str())];
        let body = report.to_string();
        let (status, answer) = self
            .board
            .request("POST /agent/v1/live", &headers, body.as_bytes());
        assert_eq!(status, 202, "{answer}");
    }
}

/// A board with these alerts to a web server.
fn alerting(webhook: &Webhook, alerts: &[&str]) -> Served {
    Served::with_config(|home| {
        let url = gua_test::write_private(&home.path("url"), &webhook.url());
        let alerts = alerts.iter().enumerate();
        let tables = alerts.map(|(number, lines)| {
            let url = url.display();
            format!("[[alert]]\nname = \"a{number}\"\nby = \"board\"\nto = \"webhook\"\nurl_file = \"{url}\"\n{lines}\n")
        });
        tables.collect()
    })
}

/// Conditions of the requests that a web server has received.
fn conditions(webhook: &Webhook) -> Vec<String> {
    let requests = webhook.requests().into_iter();
    let documents = requests.map(|request| {
        schema::check("gua.alert.v1", request.text());
        let document: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(document["host"], "lab1", "{document}");
        assert!(document["host_id"].is_string(), "{document}");
        document["when"].as_str().unwrap().to_owned()
    });
    let mut conditions: Vec<String> = documents.collect();
    conditions.sort();
    conditions
}

/// Statuses of the messages of a board.
fn statuses(board: &Served) -> Vec<(String, String)> {
    let document = board.home().json("board alert history --json");
    let rows = document["messages"].as_array().unwrap().iter();
    let word = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let mut all: Vec<_> = rows
        .map(|row| (word(row, "when"), word(row, "status")))
        .collect();
    all.sort();
    all
}

#[test]
fn messages_that_a_target_refused_are_delivered_after_a_restart() {
    let webhook = Webhook::start(Behaviour::Answer(503));
    let mut board = alerting(
        &webhook,
        &[
            "when = [\"idle-held\", \"unhealthy\"]\nlonger_than = \"30s\"",
            "when = [\"silent\"]\nlonger_than = \"5s\"",
        ],
    );
    let authorization = {
        let agent = Reporter::enrol(&board, "lab1");
        for seconds_ago in [60, 30, 0] {
            agent.push(seconds_ago);
        }
        agent.authorization
    };
    let every = |status: &str| {
        let all = ["idle-held", "silent", "unhealthy"];
        all.map(|when| (when.to_owned(), status.to_owned()))
    };
    wait_until("three conditions are found and refused", || {
        statuses(&board) == every("waiting") && webhook.requests().len() >= 2
    });
    let refused = webhook.requests().len();
    board.restart();
    wait_until("the board has tried again", || {
        webhook.requests().len() > refused
    });
    webhook.set(Behaviour::Answer(200));
    board.restart();
    wait_until("the messages are delivered", || {
        statuses(&board) == every("sent")
    });
    let mut last = conditions(&webhook);
    last.dedup();
    assert_eq!(last, ["idle-held", "silent", "unhealthy"]);
    board.restart();
    let list = board.home().json("board alert list --json");
    schema::check("gua.alerts.v1", &list.to_string());
    for row in list["alerts"].as_array().unwrap() {
        assert_eq!(row["by"], "board");
        assert_ne!(row["last_sent"], Value::Null, "{row}");
    }
    let bearer = board.bearer();
    let headers = [("Authorization", bearer.as_str())];
    let path = "GET /api/v1/workspaces/default/alerts";
    let (status, shown) = board.request(path, &headers, b"");
    assert_eq!((status, shown["items"].as_array().unwrap().len()), (200, 3));
    let (status, page) = answer(&board.url, "GET /w/default/servers", &headers, b"");
    assert_eq!(status, 200);
    assert!(page.contains("Last alerts"), "{page}");
    assert!(page.contains("ada holds 1 GPU without using it"), "{page}");
    // The cool-downs survive the restart. ada is idle in the next report too and GPU-a has its fault, but only a new fault and a new
    // silence are reported.
    let agent = Reporter {
        board: &board,
        authorization,
    };
    agent.push_gpus(-40, &["GPU-a", "GPU-b"]);
    wait_until("the fault of GPU-b and the second silence are sent", || {
        let all = statuses(&board);
        let sent = |when: &str| {
            let all = all.iter();
            all.filter(|one| one.0 == when && one.1 == "sent").count()
        };
        sent("unhealthy") >= 2 && sent("silent") >= 2
    });
    let all = statuses(&board).into_iter().map(|(when, _)| when);
    assert_eq!(
        all.collect::<Vec<_>>(),
        ["idle-held", "silent", "silent", "unhealthy", "unhealthy"]
    );
    let host = board.home().gua("alert list");
    assert!(host.stdout.contains("no alerts are configured"), "{host:?}");
    assert!(host.stderr.contains("2 alerts of the board"), "{host:?}");
    assert!(
        board
            .home()
            .fine("board alert test a1")
            .contains("a1: sent to webhook")
    );
}

#[test]
fn alerts_are_read_again_on_sighup_and_a_mistake_keeps_the_previous_ones() {
    let webhook = Webhook::start(Behaviour::Answer(200));
    let board = alerting(&webhook, &[]);
    let agent = Reporter::enrol(&board, "lab1");
    let reload = |config: &str| {
        board.home().write(".gua/config.toml", config);
        send(board.pid(), Signal::HUP);
    };
    let table = |when: &str| {
        let url = board.home().path("url").display().to_string();
        format!(
            "[[alert]]\nby = \"board\"\nto = \"webhook\"\nurl_file = \"{url}\"\nwhen = [\"{when}\"]\n"
        )
    };
    agent.push(0);
    reload(&table("unhealthy"));
    wait_until("the first alert is sent", || {
        conditions(&webhook) == ["unhealthy"]
    });
    reload(&table("nonsense"));
    wait_until("the mistake is logged", || board.log().contains("nonsense"));
    let log = board.log();
    let text = "alerts not reloaded; the previous ones stay in force: ";
    assert_eq!(log.matches(text).count(), 1, "{log}");
    agent.push_gpus(-1, &["GPU-a", "GPU-b"]);
    wait_until("the previous alert is in force", || {
        conditions(&webhook).len() == 2
    });
}

#[test]
fn what_the_servers_page_cannot_show_is_logged_when_it_starts_and_ends() {
    let webhook = Webhook::start(Behaviour::Answer(200));
    let board = alerting(&webhook, &["when = [\"unhealthy\"]"]);
    let agent = Reporter::enrol(&board, "lab1");
    agent.push(0);
    wait_until("the alert is sent", || {
        statuses(&board) == [("unhealthy".to_owned(), "sent".to_owned())]
    });
    let bearer = board.bearer();
    let headers = [("Authorization", bearer.as_str())];
    let views = || {
        for _ in 0..3 {
            let (status, _) = answer(&board.url, "GET /w/default/servers", &headers, b"");
            assert_eq!(status, 200);
        }
    };
    let config = board.home().read(".gua/config.toml");
    let state = board.home().path(".gua/board/alerts.json");
    let messages = std::fs::read(&state).unwrap();
    for _ in 0..2 {
        board
            .home()
            .write(".gua/config.toml", "[[alert]]\nwhen = 7\n");
        std::fs::write(&state, "{").unwrap();
        views();
        board.home().write(".gua/config.toml", &config);
        std::fs::write(&state, &messages).unwrap();
        views();
    }
    let log = board.log();
    for what in ["configuration", "messages"] {
        for text in ["alerts cannot be shown", "alerts can be shown again"] {
            let lines = log.lines().filter(|line| line.contains(text));
            let lines: Vec<&str> = lines.filter(|line| line.contains(what)).collect();
            assert_eq!(lines.len(), 2, "{what}: {lines:?}\n{log}");
        }
    }
}

#[test]
fn a_target_that_hangs_never_delays_a_push() {
    let webhook = Webhook::start(Behaviour::Hang);
    let board = alerting(&webhook, &["when = [\"unhealthy\"]"]);
    let agent = Reporter::enrol(&board, "lab1");
    agent.push(100);
    wait_until("the message is being sent", || {
        !webhook.requests().is_empty()
    });
    let mut longest = Duration::ZERO;
    for seconds_ago in (0..50).rev() {
        let began = clock::monotonic();
        agent.push(seconds_ago);
        longest = longest.max(clock::monotonic() - began);
    }
    println!("longest of 50 pushes: {longest:?}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    assert_eq!(
        statuses(&board),
        [("unhealthy".to_owned(), "waiting".to_owned())]
    );
}

#[test]
fn a_board_refuses_alerts_that_it_cannot_send() {
    let webhook = Webhook::start(Behaviour::Answer(200));
    let home = crate::without_driver();
    let url = gua_test::write_private(&home.path("url"), &webhook.url());
    for (lines, expected) in [
        ("when = [\"nudge\"]", "asks on the host alone"),
        ("when = [\"free\"]", "sends it on the host"),
    ] {
        let url = url.display();
        home.write(
            ".gua/config.toml",
            format!("[[alert]]\nby = \"board\"\nto = \"webhook\"\nurl_file = \"{url}\"\n{lines}\n"),
        );
        let check = home.gua("config check");
        let said = format!("{}{}", check.stdout, check.stderr);
        assert_eq!(check.code, 1, "{said}");
        assert!(said.contains(expected), "{said}");
        let serve = home.gua("board serve --listen 127.0.0.1:0");
        assert!(
            serve.code != 0 && serve.stderr.contains(expected),
            "{serve:?}"
        );
    }
}

#[test]
fn a_keep_is_shown_on_the_board_with_its_reason_only_where_names_are_plain() {
    let board = Served::start();
    let sleeper = Sleeper::new();
    let pid = sleeper.pid();
    let host = host(&format!(
        "[[gpu]]\nuuid = \"GPU-a\"\nutil = 0\n[[gpu.process]]\npid = {pid}\nmemory_mib = 2048\n[[gpu]]\nuuid = \"GPU-b\"\n"
    ));
    let host = board.enrol(host, "lab1");
    let kept = host
        .gua_command("keep 2h --why")
        .arg("<u>long</u> evaluation\u{1b}")
        .output()
        .unwrap();
    assert!(kept.status.success(), "{kept:?}");
    host.fine("sync-once");
    let bearer = board.bearer();
    let headers = [("Authorization", bearer.as_str())];
    let live = wait_for("the live report", || {
        let live = board.live();
        live[0]["gpus"][0]["keeps"].is_array().then_some(live)
    });
    let keep = &live[0]["gpus"][0]["keeps"][0];
    assert_eq!(keep["owner"], live[0]["gpus"][0]["processes"][0]["owner"]);
    let why = keep["why"].as_str().unwrap();
    assert!(why.starts_with("<u>long</u> evaluation"), "{keep}");
    assert_eq!(live[0]["gpus"][1].get("keeps"), None);
    let id = live[0]["id"].as_str().unwrap();
    for path in [
        "",
        &format!("/hosts/{id}"),
        &format!("/hosts/{id}/gpus/GPU-a"),
    ] {
        let (status, page) = answer(&board.url, &format!("GET /w/default{path}"), &headers, b"");
        assert_eq!(status, 200, "{page}");
        assert!(page.contains("kept until "), "{path}: {page}");
        assert!(
            page.contains(": &lt;u&gt;long&lt;/u&gt; evaluation"),
            "{page}"
        );
        assert!(!page.contains("<u>") && !page.contains('\u{1b}'), "{page}");
    }
    for users in ["hash", "omit"] {
        let pushed = host
            .gua_command("sync-once")
            .env("GUA_CLOUD_USERS", users)
            .output()
            .unwrap();
        assert!(pushed.status.success(), "{pushed:?}");
        let live = board.live();
        let keep = &live[0]["gpus"][0]["keeps"][0];
        assert!(keep["until"].is_string(), "{users}: {live}");
        assert_eq!(keep["why"], Value::Null, "{users}");
        assert_eq!(keep["owner"], live[0]["gpus"][0]["processes"][0]["owner"]);
    }
}

#[test]
fn a_board_reports_quotas_from_what_the_daemon_of_a_host_has_counted() {
    let webhook = Webhook::start(Behaviour::Answer(200));
    let board = alerting(
        &webhook,
        &["when = [\"quota-near\", \"quota-over\"]\npercent = 60"],
    );
    let host = board.enrol(host(TWO_GPUS), "lab1");
    let from = clock::now() - SignedDuration::from_hours(2);
    // ada holds 2 hours and bob 1 hour of a limit of 1.5 hours each.
    record(&host.path(".gua/gua.db"), from, 120, |minute| {
        let bob: &[&str] = if minute < 60 { &["bob"] } else { &[] };
        vec![(90, &["ada"]), (90, bob)]
    });
    host.fine("quota set --everyone --held 90m --per 5d");
    let mut daemon = host.foreground("daemon --foreground --append --cloud --interval 100ms");
    wait_until("both conditions are sent", || webhook.requests().len() >= 2);
    daemon.stop();
    assert_eq!(conditions(&webhook), ["quota-near", "quota-over"]);
    let requests = webhook.requests().into_iter();
    let texts = requests.map(|request| request.text().to_owned());
    let texts = texts.collect::<String>();
    assert!(texts.contains("lab1: ada: over a limit"), "{texts}");
    assert!(texts.contains("lab1: bob: near a limit"), "{texts}");
    assert!(texts.contains("of 1.50 h per 5 d"), "{texts}");
    // Members see the live state of the hosts, but not the use of others.
    let live = board.live();
    assert_eq!(live[0]["host"]["hostname"], json!(gua_probe::host::name()));
    assert_eq!(live[0].get("quotas"), None, "{live}");
    // The Servers page shows the alert itself, too.
    let bearer = board.bearer();
    let headers = [("Authorization", bearer.as_str())];
    let path = "GET /api/v1/workspaces/default/alerts/configured";
    let (status, list) = board.request(path, &headers, b"");
    assert_eq!((status, &list["items"][0]["problem"]), (200, &Value::Null));
    std::fs::remove_file(board.home().path("url")).unwrap();
    let (_, list) = board.request(path, &headers, b"");
    let problem = list["items"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("url"), "{list}");
    let (_, page) = answer(&board.url, "GET /w/default/servers", &headers, b"");
    assert!(page.contains("quota-near, quota-over"), "{page}");
    assert!(page.contains("small class=\"bad\""), "{page}");
    assert!(!page.contains(&webhook.url()), "{page}");
}
