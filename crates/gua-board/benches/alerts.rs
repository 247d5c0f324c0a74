//! Measures the evaluation of a board's alerts for 12,500 hosts with 8 GPUs each. A board repeats it every two seconds on its
//! own thread. Three cases are measured: when everything is well, when every host has idle-held GPUs and a fault, and
//! when every agent is silent.
//! Messages about all of them were sent before, so that each cool-down is looked up. The program exits with 1 if an evaluation
//! takes longer than the limit.
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use gua_board::alert::Watch;
use gua_board::{App, AppOptions};
use gua_board_store::ledger::Form;
use gua_board_store::registry::{Actor, Change, HostClaim, KeyLimits, NewEnrolmentKey};
use gua_board_store::{HostId, Kind, Registry, Secret, SqliteStore};
use gua_model::alert::{Alert, COOL_DOWN, LastSent, NEAR_PERCENT, Sender, Target, When};
use gua_wire::live::LiveReport;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tokio::time::Instant;

const HOSTS: u32 = 12_500;
const GPUS: u32 = 8;
const ROUNDS: u32 = 10;
/// Maximum duration of an evaluation: a quarter of the time between two evaluations.
const LIMIT: Duration = Duration::from_millis(500);
/// Start of the calendar: 2026-09-21.
const START: i64 = 1_790_000_000;
/// Time between two reports of a host, in seconds.
const INTERVAL: i64 = 30;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(directory.path())?);
    let hosts = enrol(&*store)?;
    let seconds = Arc::new(AtomicI64::new(START));
    let clock = {
        let seconds = Arc::clone(&seconds);
        move || Timestamp::from_second(seconds.load(Ordering::Relaxed)).unwrap_or_default()
    };
    let url = "https://board.example.com".to_owned();
    let app = App::start(AppOptions::new(store, Arc::new(clock), url))?;
    let alert = Alert {
        name: "fleet".to_owned(),
        by: Sender::Board,
        when: vec![
            When::Silent,
            When::IdleHeld,
            When::Unhealthy,
            When::Lost,
            When::Gap,
        ],
        target: Target::Command(Vec::new()),
        longer_than: Some(Duration::from_secs(60)),
        percent: NEAR_PERCENT,
        cool_down: COOL_DOWN,
        quiet: None,
        exempt: vec!["svc-*".to_owned()],
        title: None,
        text: None,
    };
    let alerts = [alert];
    let push = |gpu: &dyn Fn(u32, u32) -> Value| -> Result<(), Box<dyn Error>> {
        for _ in 0..4 {
            seconds.fetch_add(INTERVAL, Ordering::Relaxed);
            for (number, host) in (0..).zip(&hosts) {
                let report = report(number, app.now(), gpu)?;
                app.live.apply(host, Form::Live, report, app.now());
            }
        }
        Ok(())
    };
    let mut watch = Watch::default();
    let mut worst = Duration::ZERO;
    println!("{HOSTS} hosts with {GPUS} GPUs each; best of {ROUNDS} evaluations");
    for (what, expected, change) in [
        ("everything is well", 0, Fleet::Well),
        (
            "idle-held GPUs and a fault on every host",
            2 * HOSTS,
            Fleet::Troubled,
        ),
        ("every agent is silent", HOSTS, Fleet::Silent),
    ] {
        match change {
            Fleet::Well => push(&|host, gpu| gpu_of(host, gpu, "active", &[]))?,
            Fleet::Troubled => push(&|host, gpu| {
                let faults: &[&str] = if gpu == 0 { &["remap-failed"] } else { &[] };
                gpu_of(host, gpu, "idle-held", faults)
            })?,
            Fleet::Silent => {
                seconds.fetch_add(600, Ordering::Relaxed);
            }
        }
        let mut best = Duration::MAX;
        let mut last_sent = LastSent::new();
        for _ in 0..ROUNDS {
            let (began, now) = (Instant::now(), app.now());
            let found = watch.find(&app, &alerts, now).remove(0);
            let keys: Vec<String> = found.iter().map(|one| alerts[0].key(one)).collect();
            let due = alerts[0].due(found, &last_sent, now, &TimeZone::UTC);
            best = best.min(began.elapsed());
            if last_sent.is_empty() {
                assert_eq!(due.len(), expected as usize, "{what}");
            } else {
                assert_eq!(due, []);
            }
            last_sent.extend(keys.into_iter().map(|key| (key, now)));
        }
        println!("  {what:<42} {:>7.1} ms", best.as_secs_f64() * 1000.0);
        worst = worst.max(best);
    }
    app.finish();
    if worst > LIMIT {
        println!("an evaluation took {worst:?}, longer than {LIMIT:?}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Condition of all hosts of the board.
enum Fleet {
    Well,
    Troubled,
    Silent,
}

fn enrol(store: &dyn Registry) -> Result<Vec<HostId>, Box<dyn Error>> {
    let at = Timestamp::from_second(START)?;
    let workspaces = store.workspaces()?;
    let workspace = workspaces.into_iter().next().ok_or("no workspace")?;
    let secret = Secret::generate(Kind::Enrolment);
    let by = Change {
        actor: Actor::Account("bench".to_owned()),
        address: None,
        at,
    };
    let key = NewEnrolmentKey {
        hash: secret.hash(),
        prefix: secret.prefix(),
        workspace: workspace.id,
        name: None,
        limits: KeyLimits::default(),
        uses: HOSTS,
        expires: None,
    };
    store.add_enrolment_key(&by, &key)?;
    let claim = |number: u32| {
        let token = Secret::generate(Kind::Agent);
        let claim = HostClaim {
            key: secret.hash(),
            token: token.hash(),
            token_prefix: token.prefix(),
            hostname: Some(format!("gpu{number}")),
            agent_version: None,
            driver_version: None,
            address: None,
            at,
        };
        Ok(store.claim(&claim)?.id)
    };
    (0..HOSTS).map(claim).collect()
}

fn report(
    host: u32,
    at: Timestamp,
    gpu: &dyn Fn(u32, u32) -> Value,
) -> Result<LiveReport, serde_json::Error> {
    let gpus: Vec<Value> = (0..GPUS).map(|index| gpu(host, index)).collect();
    serde_json::from_value(json!({
        "schemaVersion": "gua.live.v1", "observedAt": at, "gpus": gpus, "waiting": 0, "problems": [],
        "host": {"hostname": format!("gpu{host}"), "agentVersion": "1", "driverVersion": null},
    }))
}

/// A GPU with a process of one of a thousand people.
fn gpu_of(host: u32, index: u32, state: &str, faults: &[&str]) -> Value {
    let owner = format!("user{}", host % 1000);
    json!({
        "uuid": format!("GPU-{host:08}-{index}"), "index": index, "name": "NVIDIA A100-SXM4-40GB", "instance": null,
        "state": state, "obstacle": "held", "utilPercent": 0, "memoryUsedBytes": 9u64 << 30,
        "memoryTotalBytes": 40u64 << 30, "temperatureCelsius": 40, "powerMilliwatts": 50000, "health": faults, "claim": null,
        "processes": [{"pid": 7, "owner": owner, "name": "python", "type": "compute", "memoryBytes": 8u64 << 30}],
    })
}
