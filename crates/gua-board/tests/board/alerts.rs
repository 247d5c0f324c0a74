//! Conditions of alerts on the hosts of a board: one test for each rule.

mod pages;

use std::path::PathBuf;
use std::time::Duration;

use gua_board::alert::Watch;
use gua_board_store::HostId;
use gua_board_store::registry::{HostEdit, Maintenance, Role, Scope};
use gua_model::alert::{Alert, COOL_DOWN, Finding, NEAR_PERCENT, Sender, Shape, Target, When};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{Board, START};

/// A board with one host, and what was found on it before.
struct Stage {
    board: Board,
    watch: Watch,
    host: String,
    token: String,
}

fn alert(when: &[When], longer_than: Option<u64>) -> Alert {
    Alert {
        name: "lab".to_owned(),
        by: Sender::Board,
        when: when.to_vec(),
        target: Target::Webhook {
            shape: Shape::Json,
            url_file: PathBuf::from("/nonexistent"),
        },
        longer_than: longer_than.map(Duration::from_secs),
        percent: NEAR_PERCENT,
        cool_down: COOL_DOWN,
        quiet: None,
        exempt: Vec::new(),
        title: None,
        text: None,
    }
}

/// A GPU of a live report: one that ada holds without using it.
fn held(uuid: &str) -> Value {
    json!({
        "uuid": uuid, "index": 0, "name": "A100", "instance": null, "state": "idle-held", "obstacle": "held", "utilPercent": 0,
        "memoryUsedBytes": 9u64 << 30, "memoryTotalBytes": 40u64 << 30, "temperatureCelsius": 40, "powerMilliwatts": 50000,
        "health": [], "claim": null,
        "processes": [{"pid": 7, "owner": "ada", "name": "python", "type": "compute", "memoryBytes": 8u64 << 30}],
    })
}

impl Stage {
    async fn new() -> Self {
        let board = Board::start();
        Self::of(board).await
    }

    async fn of(board: Board) -> Self {
        let (host, token) = board.enrol(&board.workspace(), "lab1").await;
        Self {
            board,
            watch: Watch::default(),
            host,
            token,
        }
    }

    /// Sends a live report with these GPUs now.
    async fn push(&self, gpus: Value, problems: Value) {
        self.push_late(gpus, problems, 0).await;
    }

    /// Sends a live report of so many seconds ago.
    async fn push_late(&self, gpus: Value, problems: Value, seconds_ago: i64) {
        let body = json!({
            "schemaVersion": "gua.live.v1",
            "observedAt": self.board.app.now() - SignedDuration::from_secs(seconds_ago),
            "host": {"hostname": "lab1", "agentVersion": "1", "driverVersion": null},
            "gpus": gpus, "waiting": 0, "problems": problems,
        });
        let headers = [("authorization", self.token.as_str())];
        let answer = self
            .board
            .call("POST /agent/v1/live", &headers, body.to_string())
            .await;
        assert_eq!(answer.status, 202, "{}", answer.body);
    }

    /// Sends the same report every so many seconds.
    async fn push_for(&self, gpus: &Value, every: i64, times: usize) {
        for _ in 0..times {
            self.push(gpus.clone(), json!([])).await;
            self.board.pass(every);
        }
    }

    /// Cookie of a new member.
    fn session(&self, role: Role) -> String {
        let account = self
            .board
            .account(role.as_str(), &self.board.workspace(), role);
        self.board.session(&account)
    }

    fn find(&mut self, alert: &Alert) -> Vec<Finding> {
        let now = self.board.app.now();
        let mut found = self
            .watch
            .find(&self.board.app, std::slice::from_ref(alert), now);
        found.remove(0)
    }

    fn summaries(&mut self, alert: &Alert) -> Vec<String> {
        let found = self.find(alert).into_iter();
        found.map(|finding| finding.summary).collect()
    }
}

#[tokio::test]
async fn an_agent_is_silent_after_three_of_its_own_intervals() {
    let silent = alert(&[When::Silent], None);
    // How often the host reports, and the seconds without a report at which it is and is not silent.
    for (every, still, gone) in [(10, 115, 125), (60, 175, 185), (300, 890, 905)] {
        let mut stage = Stage::new().await;
        stage.find(&silent);
        stage.push_for(&json!([held("GPU-a")]), every, 3).await;
        stage.board.pass(still - every);
        assert_eq!(stage.find(&silent), [], "every {every} s");
        stage.board.pass(gone - still);
        let found = stage.find(&silent);
        assert_eq!(found.len(), 1, "every {every} s");
        let place = found[0].host.as_ref().unwrap();
        assert_eq!(
            (place.id.as_ref(), place.name.as_str()),
            (Some(&stage.host), "lab1")
        );
        let line = format!("GET /api/v1/workspaces/default/hosts/{}", stage.host);
        let cookie = stage.session(Role::Viewer);
        let shown = stage.board.call(&line, &[("cookie", &cookie)], "").await;
        assert_eq!(shown.body["host"]["isSilent"], true);
        let page = format!("GET /w/default/hosts/{}", stage.host);
        let page = stage.board.call(&page, &[("cookie", &cookie)], "").await;
        assert!(page.body.as_str().unwrap().contains("agent silent"));
        stage.push(json!([held("GPU-a")]), json!([])).await;
        assert_eq!(stage.find(&silent), []);
    }
}

#[tokio::test]
async fn a_configured_time_replaces_the_intervals() {
    let silent = alert(&[When::Silent], Some(20));
    let mut stage = Stage::new().await;
    stage.find(&silent);
    stage.push_for(&json!([held("GPU-a")]), 10, 2).await;
    assert_eq!(stage.find(&silent), []);
    stage.board.pass(11);
    assert_eq!(
        stage.summaries(&silent),
        ["the agent has sent nothing for 21s"]
    );
}

#[tokio::test]
async fn the_time_in_which_the_board_was_down_is_no_silence() {
    let silent = alert(&[When::Silent], None);
    let mut stage = Stage::new().await;
    stage.push_for(&json!([held("GPU-a")]), 30, 3).await;
    stage.board.restart(20 * 3600);
    let cookie = stage.session(Role::Viewer);
    // The interval of the host is not known yet, so it has three hours.
    for (passed, expected) in [(0, 0), (3 * 3600, 0), (1, 1)] {
        stage.board.pass(passed);
        assert_eq!(stage.find(&silent).len(), expected);
        let line = format!("GET /api/v1/workspaces/default/hosts/{}", stage.host);
        let shown = stage.board.call(&line, &[("cookie", &cookie)], "").await;
        assert_eq!(shown.body["host"]["isSilent"], expected == 1);
    }
    assert_eq!(
        stage.summaries(&silent),
        ["the agent has sent nothing for 23h00m"]
    );
}

#[tokio::test]
async fn a_host_that_never_reported_is_silent_three_hours_after_its_enrolment() {
    let silent = alert(&[When::Silent], None);
    let mut stage = Stage::new().await;
    stage.board.pass(3 * 3600);
    assert_eq!(stage.find(&silent), []);
    stage.board.pass(1);
    let found = stage.find(&silent);
    assert_eq!(
        found[0].details,
        ["no report since it was enrolled at 2026-09-21T14:13:20Z"]
    );
}

#[tokio::test]
async fn a_host_that_was_approved_late_is_silent_three_hours_after_its_approval() {
    let silent = alert(&[When::Silent], None);
    let mut stage = Stage::new().await;
    let workspace = stage.board.workspace();
    let admin = stage.board.account("eve", &workspace, Role::Admin);
    let token = stage.board.api_token(&admin, &workspace, Scope::Write);
    let headers = [("authorization", token.as_str())];
    let api = "POST /api/v1/workspaces/default";
    let line = format!("{api}/enrolment-keys");
    let key = stage
        .board
        .call(&line, &headers, "{\"needsApproval\": true}");
    let claim = json!({"enrollmentToken": key.await.body["secret"], "hostname": "lab2"});
    let line = "POST /agent/v1/enrollments/claim";
    let claimed = stage.board.call(line, &[], claim.to_string()).await.body;
    let is_silent = |stage: &mut Stage| {
        let found = stage.find(&silent).into_iter();
        let mut found = found.filter(|one| one.host.as_ref().unwrap().name == "lab2");
        found.next().map(|one| one.details[0].clone())
    };
    stage.board.pass(20 * 3600);
    assert_eq!(is_silent(&mut stage), None, "its reports are refused");
    let line = format!(
        "{api}/hosts/{}/approve",
        claimed["hostId"].as_str().unwrap()
    );
    let approved = stage.board.call(&line, &headers, "").await;
    assert_eq!(approved.status, 204, "{}", approved.body);
    stage.board.pass(3 * 3600);
    assert_eq!(is_silent(&mut stage), None);
    stage.board.pass(1);
    let expected = "no report since its token became valid at 2026-09-22T10:13:20Z";
    assert_eq!(is_silent(&mut stage).as_deref(), Some(expected));
}

#[tokio::test]
async fn reports_about_the_past_are_not_evaluated() {
    let all = [When::Unhealthy, When::Lost, When::IdleHeld, When::Gap];
    let all = alert(&all, Some(1));
    let mut stage = Stage::new().await;
    let mut faulty = held("GPU-a");
    faulty["health"] = json!(["remap-failed"]);
    for seconds_ago in [4000, 3000] {
        let gpus = json!([faulty.clone()]);
        stage.push_late(gpus, json!([]), seconds_ago).await;
        assert_eq!(stage.find(&all), []);
    }
    stage.push(json!([faulty]), json!([])).await;
    assert_eq!(stage.find(&all).len(), 1);
}

#[tokio::test]
async fn nothing_is_reported_about_a_host_under_maintenance() {
    let all = alert(&[When::Silent, When::IdleHeld, When::Unhealthy], Some(20));
    let mut stage = Stage::new().await;
    stage.find(&all);
    stage.push_for(&json!([held("GPU-a")]), 30, 3).await;
    assert_eq!(stage.find(&all).len(), 2);
    let maintenance = Maintenance {
        note: "new fans".to_owned(),
        until: None,
    };
    let (change, host) = (stage.board.change(), HostId(stage.host.clone()));
    let workspace = stage.board.workspace().id;
    let store = &stage.board.app.registry;
    let begin = HostEdit::SetMaintenance(Some(&maintenance));
    store.edit_host(&change, &workspace, &host, &begin).unwrap();
    assert_eq!(stage.find(&all), []);
}

#[tokio::test]
async fn a_gpu_that_was_removed_during_maintenance_is_not_lost() {
    let lost = alert(&[When::Lost], None);
    let mut stage = Stage::new().await;
    let both = json!([held("GPU-a"), held("GPU-b")]);
    stage.push_for(&both, 30, 1).await;
    assert_eq!(stage.find(&lost), []);
    let maintenance = Maintenance {
        note: "new fans".to_owned(),
        until: None,
    };
    let (change, host) = (stage.board.change(), HostId(stage.host.clone()));
    let workspace = stage.board.workspace().id;
    for maintenance in [Some(&maintenance), None] {
        let store = &stage.board.app.registry;
        let edit = HostEdit::SetMaintenance(maintenance);
        store.edit_host(&change, &workspace, &host, &edit).unwrap();
        stage.push_for(&json!([held("GPU-a")]), 30, 1).await;
        assert_eq!(stage.find(&lost), []);
    }
}

#[tokio::test]
async fn a_host_that_was_replaced_by_another_machine_has_lost_nothing() {
    let lost = alert(&[When::Lost], None);
    let mut stage = Stage::new().await;
    for gpus in [["GPU-a", "GPU-b"], ["GPU-c", "GPU-d"]] {
        stage.push_for(&json!(gpus.map(held)), 30, 1).await;
        assert_eq!(stage.find(&lost), []);
    }
    stage.push_for(&json!([held("GPU-c")]), 30, 1).await;
    assert_eq!(stage.summaries(&lost), ["GPU 0 (A100, GPU-d) is lost"]);
}

#[tokio::test]
async fn a_host_that_names_ever_new_gpus_is_forgotten_and_reported_within_limits() {
    let health = alert(&[When::Unhealthy, When::Lost], None);
    let mut stage = Stage::new().await;
    for round in 0..4 {
        let mut gpus = vec![held("GPU-a")];
        gpus.extend((0..200).map(|number| {
            let mut gpu = held(&format!("GPU-{round}-{number}"));
            gpu["health"] = json!(["remap-failed"]);
            gpu
        }));
        stage.push_for(&json!(gpus), 30, 1).await;
        assert_eq!(stage.find(&health).len(), 128, "round {round}");
    }
    // GPUs of earlier rounds are no longer reported.
    stage.push_for(&json!([held("GPU-a")]), 30, 1).await;
    let found = stage.summaries(&health);
    assert_eq!(found.len(), 128);
    assert!(found.iter().all(|one| one.contains("GPU-3-")), "{found:?}");
}

#[tokio::test]
async fn a_person_who_holds_an_idle_gpu_is_reported_unless_they_keep_it() {
    let idle = alert(&[When::IdleHeld], Some(600));
    let mut stage = Stage::new().await;
    stage.push_for(&json!([held("GPU-a")]), 30, 20).await;
    assert_eq!(stage.find(&idle), [], "idle for less than ten minutes");
    stage.push_for(&json!([held("GPU-a")]), 30, 2).await;
    let found = stage.find(&idle);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].summary, "ada holds 1 GPU without using it");
    assert_eq!(found[0].details, ["GPU 0: 8.0 GB held, idle for >10m"]);
    let mut hidden = held("GPU-a");
    hidden["processes"][0]["memoryBytes"] = json!({"missing": "denied"});
    stage.push_for(&json!([hidden]), 30, 1).await;
    let found = stage.find(&idle);
    assert_eq!(found[0].details, ["GPU 0: memory unknown, idle for >11m"]);
    let keep = |second: i64, owner: &str| {
        let until = Timestamp::from_second(START + second).unwrap();
        let mut gpu = held("GPU-a");
        gpu["keeps"] = json!([{"owner": owner, "until": until, "why": "evaluation"}]);
        json!([gpu])
    };
    stage.push(keep(3600, "ada"), json!([])).await;
    assert_eq!(stage.find(&idle), [], "ada keeps it");
    stage.board.pass(1);
    stage.push(keep(3600, "bob"), json!([])).await;
    assert_eq!(stage.find(&idle).len(), 1, "another person keeps it");
    stage.board.pass(1);
    stage.push(keep(100, "ada"), json!([])).await;
    assert_eq!(stage.find(&idle).len(), 1, "the keep has ended");
    // Nobody knows what the GPU of a host does that stopped reporting.
    stage.board.pass(300);
    assert_eq!(stage.find(&idle), []);
}

#[tokio::test]
async fn faults_and_lost_gpus_are_reported() {
    let health = alert(&[When::Unhealthy, When::Lost], None);
    let mut stage = Stage::new().await;
    let gpus = json!([held("GPU-a"), held("GPU-b")]);
    stage.push_for(&gpus, 30, 1).await;
    assert_eq!(stage.find(&health), []);
    let mut faulty = held("GPU-a");
    faulty["health"] = json!(["uncorrected-errors"]);
    stage.push(json!([faulty, held("GPU-b")]), json!([])).await;
    let found = stage.find(&health);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].summary, "GPU 0 (A100, GPU-a) has a fault");
    assert_eq!(found[0].details, ["uncorrected memory errors"]);
    let mut lost = held("GPU-a");
    lost["health"] = json!(["lost"]);
    stage.board.pass(30);
    stage.push(json!([lost]), json!([])).await;
    let found = stage.find(&health);
    let details: Vec<&str> = found.iter().map(|one| one.details[0].as_str()).collect();
    assert_eq!(
        details,
        [
            "the driver reports it as lost",
            "the driver no longer lists it"
        ]
    );
    assert!(found.iter().all(|one| one.when == When::Lost));
    // A driver that cannot be read has lost nothing.
    stage.board.pass(30);
    stage.push(json!([]), json!(["nvml_init_failed"])).await;
    assert_eq!(stage.find(&health), []);
}

#[tokio::test]
async fn a_host_that_reports_and_cannot_observe_its_gpus_has_a_gap() {
    let gap = alert(&[When::Gap], None);
    let mut stage = Stage::new().await;
    stage.push_for(&json!([held("GPU-a")]), 60, 1).await;
    for minute in 0..12 {
        stage.push(json!([]), json!(["nvml_init_failed"])).await;
        let expected = usize::from(minute >= 10);
        assert_eq!(stage.find(&gap).len(), expected, "minute {minute}");
        stage.board.pass(60);
    }
    let found = stage.find(&gap);
    assert_eq!(found[0].summary, "the GPUs are not observed for 12m");
    // A restarted board knows a later start. The gap is the same.
    stage.board.restart(0);
    for _ in 0..11 {
        stage.push(json!([]), json!(["nvml_init_failed"])).await;
        stage.board.pass(60);
    }
    let again = stage.find(&gap);
    assert_eq!(gap.key(&again[0]), gap.key(&found[0]));
    stage.push(json!([held("GPU-a")]), json!([])).await;
    assert_eq!(stage.find(&gap), []);
    // A host without GPUs has nothing to observe.
    stage.board.pass(60);
    stage.push(json!([]), json!([])).await;
    stage.board.pass(100);
    assert_eq!(stage.find(&gap), []);
}

/// The report of a host on which a person has used so many of 10 hours a day.
fn report_with_quota(at: Timestamp, hours: u64) -> Value {
    json!({
        "schemaVersion": "gua.live.v1", "observedAt": at,
        "host": {"hostname": "lab1", "agentVersion": "1", "driverVersion": null},
        "gpus": [held("GPU-a")], "waiting": 0, "problems": [],
        "quotas": [{
            "who": {"person": "ada"}, "measure": "held", "per": "day", "from": "2026-01-02T00:00:00Z", "to": "2026-01-03T00:00:00Z",
            "used": hours * 3_600_000_000, "isComplete": true, "limit": 36_000_000_000u64,
        }],
    })
}

#[tokio::test]
async fn quotas_that_are_nearly_and_completely_used_are_found() {
    let quotas = alert(&[When::QuotaNear, When::QuotaOver], None);
    for (hours, expected) in [
        (7, None),
        (8, Some("near")),
        (10, Some("near")),
        (11, Some("over")),
    ] {
        let mut stage = Stage::new().await;
        let headers = [("authorization", stage.token.as_str())];
        let report = report_with_quota(stage.board.app.now(), hours).to_string();
        let answer = stage
            .board
            .call("POST /agent/v1/live", &headers, report)
            .await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        let found = stage.find(&quotas);
        let summary = expected.map(|word| format!("ada: {word} a limit on GPU use"));
        assert_eq!(
            found.first().map(|one| one.summary.clone()),
            summary,
            "{hours}"
        );
        for one in &found {
            assert_eq!(one.person.as_deref(), Some("ada"));
            assert_eq!(one.details, [format!("held {hours}.00 of 10.00 h per day")]);
        }
        // Neither members nor admins see it in the live state.
        let cookie = stage.session(Role::Admin);
        let live = "GET /api/v1/workspaces/default/live?since=0";
        let live = stage.board.call(live, &[("cookie", &cookie)], "").await;
        assert!(!live.body.to_string().contains("quota"), "{}", live.body);
        // It is known after a restart, and forgotten with the next report.
        let latest = stage.board.app.ledger.latest().unwrap();
        let again = gua_board::live::LiveState::load(&latest);
        let host = HostId(stage.host.clone());
        assert_eq!(again.host(&host).unwrap().quotas.len(), 1);
        stage.board.pass(1);
        stage.push(json!([held("GPU-a")]), json!([])).await;
        assert_eq!(stage.find(&quotas), []);
    }
}

#[tokio::test]
async fn many_quotas_displace_no_fault_and_only_configured_conditions_are_found() {
    let mut stage = Stage::new().await;
    let headers = [("authorization", stage.token.as_str())];
    let mut report = report_with_quota(stage.board.app.now(), 11);
    let quotas = (0..200).map(|number| {
        let mut quota = report["quotas"][0].clone();
        quota["who"] = json!({"person": format!("user{number}")});
        quota
    });
    report["quotas"] = quotas.collect();
    report["gpus"][0]["health"] = json!(["uncorrected-errors"]);
    let board = &stage.board;
    let answer = board.call("POST /agent/v1/live", &headers, report.to_string());
    assert_eq!(answer.await.status, 202);
    let found = stage.find(&alert(&[When::QuotaOver, When::Unhealthy], None));
    assert_eq!((found.len(), found[0].when), (128, When::Unhealthy));
    assert_eq!(stage.find(&alert(&[When::QuotaNear], None)), []);
}
