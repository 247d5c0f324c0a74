//! Tests of the engine with a real history and a real web server on loopback.

mod fleet;

use std::collections::BTreeMap;
use std::fs;

use gua_settings::Inputs;
use gua_store::{NewRun, OpenMode, Store, WriterOptions};
use gua_test::samples;
use gua_test::wait_until;
use gua_test::webhook::{Behaviour, Webhook};
use jiff::SignedDuration;
use tempfile::TempDir;

use super::outbox::Outbox;
use super::state::Pending;
use super::*;
use crate::history::HistorySink;

const INTERVAL: Duration = Duration::from_secs(30);
const OK: Behaviour = Behaviour::Answer(200);

/// A history in which ada has held a GPU without using it, with the configuration of a daemon.
struct Stage {
    directory: TempDir,
    history: HistorySink,
    webhook: Webhook,
    start: Timestamp,
}

impl Stage {
    fn new(behaviour: Behaviour) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let start = clock::now() - SignedDuration::from_hours(2);
        let path = directory.path().join("gua.db");
        let store = Store::open(&path, OpenMode::Create, &WriterOptions::default()).unwrap();
        let run = NewRun {
            started: start,
            interval: INTERVAL,
            host: "h".to_owned(),
            version: "0".to_owned(),
            boot: None,
        };
        let webhook = Webhook::start(behaviour);
        fs::create_dir(directory.path().join(".gua")).unwrap();
        gua_test::write_private(&directory.path().join("url"), &(webhook.url() + "\n"));
        Self {
            history: HistorySink::begin(store, run).unwrap(),
            directory,
            webhook,
            start,
        }
    }

    fn at(&self, second: i64) -> Timestamp {
        self.start + SignedDuration::from_secs(second)
    }

    fn tick(&self, second: i64) -> Tick {
        let ada = samples::process(7, samples::user(1000, "ada"), 900);
        let held = samples::gpu(0, "GPU-a", 0, vec![ada]);
        let free = samples::gpu(1, "GPU-b", 0, Vec::new());
        Tick {
            sample: samples::sample(self.at(second), vec![held, free]),
            interval: INTERVAL,
        }
    }

    /// Records ticks from one second to another.
    fn record(&mut self, from: i64, to: i64) {
        for second in (from..=to).step_by(30) {
            let tick = self.tick(second);
            self.history.deliver(&tick).unwrap();
            self.history.maintain(tick.sample.at).unwrap();
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("gua.db")
    }

    /// The settings with these lines in an alert to the web server, unless they name another destination, and others behind them.
    fn loaded(&self, lines: &str) -> Loaded {
        let url = self.directory.path().join("url");
        let target = match lines.contains("to = ") {
            true => String::new(),
            false => format!("to = \"webhook\"\nurl_file = \"{}\"", url.display()),
        };
        let text = format!("[[alert]]\n{target}\n{lines}\n[claim]\ndir = \"/nonexistent\"\n");
        fs::write(self.directory.path().join(".gua/config.toml"), text).unwrap();
        let inputs = Inputs {
            variables: BTreeMap::new(),
            home: Some(self.directory.path().to_owned()),
            system_file: self.directory.path().join("none.toml"),
        };
        let loaded = Loaded::from(&inputs, &[]);
        assert_eq!(loaded.problems, []);
        loaded
    }

    fn engine(&self, lines: &str) -> Engine {
        let slot = SharedSlot::default();
        Engine::new(self.loaded(lines), Vec::new(), &self.path(), slot)
    }

    /// The conditions and the people of the requests so far.
    fn received(&self) -> Vec<(String, Option<String>)> {
        let requests = self.webhook.requests().into_iter();
        let documents = requests.map(|request| {
            let document: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            assert_eq!(document["schema"], "gua.alert.v1");
            let word = |key: &str| document[key].as_str().map(str::to_owned);
            (word("when").unwrap(), word("user"))
        });
        documents.collect()
    }
}

/// Lets an engine evaluate a tick; `later` is the number of evaluations before.
fn step(engine: &mut Engine, tick: Tick, later: u32) {
    let now = tick.sample.at;
    {
        let mut slot = lock(&engine.slot);
        if slot.tick.is_none() {
            slot.first = Some(now);
        }
        (slot.tick, slot.is_new) = (Some(tick), true);
    }
    engine.step(now, clock::monotonic() + Duration::from_secs(5) * later);
}

const IDLE: &str = "when = [\"idle-held\"]\nlonger_than = \"10m\"";

#[test]
fn an_idle_gpu_sends_one_message_with_the_evidence() {
    let mut stage = Stage::new(OK);
    stage.record(0, 900);
    let mut engine = stage.engine(IDLE);
    step(&mut engine, stage.tick(300), 0);
    assert_eq!(stage.received(), [], "idle for five minutes");
    step(&mut engine, stage.tick(900), 1);
    step(&mut engine, stage.tick(900), 2);
    let idle = ("idle-held".to_owned(), Some("ada".to_owned()));
    assert_eq!(stage.received(), [idle]);
    let request = &stage.webhook.requests()[0];
    assert!(
        request.text().contains("GPU 0: 0.8 GB held, idle for >15m"),
        "{request:?}"
    );
    let past = &engine.outbox.state.history;
    assert_eq!((past.len(), past[0].last.attempts), (1, 1));
    assert!(engine.outbox.state.pending.is_empty());
    // The cool-down survives a restart.
    step(&mut stage.engine(IDLE), stage.tick(900), 0);
    assert_eq!(stage.received().len(), 1);
}

#[test]
fn time_without_ticks_is_no_idle_time() {
    let mut stage = Stage::new(OK);
    stage.record(0, 300);
    let mut engine = stage.engine(IDLE);
    step(&mut engine, stage.tick(300), 0);
    // The driver hangs for an hour.
    let later = clock::monotonic() + Duration::from_secs(3600);
    engine.step(stage.at(3900), later);
    assert_eq!(stage.received(), []);
}

#[test]
fn a_restart_delivers_what_no_target_has_acknowledged_and_nothing_twice() {
    let mut stage = Stage::new(Behaviour::Answer(503));
    stage.record(0, 900);
    let mut engine = stage.engine(IDLE);
    step(&mut engine, stage.tick(900), 0);
    let refused = stage.webhook.requests();
    assert_eq!(refused.len(), 1);
    step(&mut engine, stage.tick(900), 0);
    assert_eq!(stage.received().len(), 1, "the target is given time");
    drop(engine);
    stage.webhook.set(OK);
    let mut engine = stage.engine(IDLE);
    assert_eq!(engine.outbox.state.pending.len(), 1);
    step(&mut engine, stage.tick(900), 0);
    let all = stage.webhook.requests();
    assert_eq!(all.len(), 2);
    assert_eq!(
        all[0].body, all[1].body,
        "the same message, with the same id"
    );
    assert_eq!(engine.outbox.state.history[0].last.attempts, 2);
    for _ in 0..2 {
        step(&mut stage.engine(IDLE), stage.tick(900), 0);
    }
    assert_eq!(stage.received().len(), 2);
    let mode = fs::metadata(state_file(&stage.path())).unwrap();
    let mode = std::os::unix::fs::MetadataExt::mode(&mode) & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn a_message_that_is_permanently_refused_is_not_repeated() {
    let mut stage = Stage::new(Behaviour::Answer(400));
    stage.record(0, 900);
    let mut engine = stage.engine(IDLE);
    step(&mut engine, stage.tick(900), 0);
    let error = engine.outbox.state.history[0]
        .last
        .error
        .as_deref()
        .unwrap();
    assert_eq!(error, "the destination answered with HTTP status 400");
    let log = serde_json::to_string(&engine.outbox.state).unwrap();
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn the_page_of_a_board_shows_no_errors_of_messages() {
    let stage = Stage::new(OK);
    let loaded = stage.loaded("by = \"board\"\nname = \"lab\"\nwhen = [\"lost\"]");
    let sender = SenderState::board(stage.directory.path());
    let mut outbox = Outbox::open(sender.state_file.clone());
    let message = AlertMessage {
        id: "1".to_owned(),
        at: stage.start,
        alert: "lab".to_owned(),
        when: "lost".to_owned(),
        host: "lab1".to_owned(),
        host_id: None,
        workspace: Some("another".to_owned()),
        user: None,
        title: String::new(),
        text: String::new(),
        details: Vec::new(),
    };
    outbox.state.pending.push(Pending {
        message,
        to: "email".to_owned(),
        attempts: 1,
        error: Some("550 no mailbox ada@example.com".to_owned()),
    });
    outbox.state.save(&sender.state_file).unwrap();
    let problem = |document: AlertsDocument| document.alerts[0].problem.clone().unwrap();
    let (of_administrator, _) = listed(&loaded, &sender);
    assert!(problem(of_administrator).contains("ada@example.com"));
    let of_page = listed_for_page(&loaded, &sender);
    assert_eq!(problem(of_page), UNDELIVERED);
    // A problem of the target is shown.
    fs::remove_file(stage.directory.path().join("url")).unwrap();
    let of_page = listed_for_page(&loaded, &sender);
    assert!(problem(of_page).contains("url"));
}

#[test]
fn the_time_before_the_start_is_read_again_after_an_error() {
    let mut stage = Stage::new(OK);
    stage.record(0, 300);
    let mut engine = stage.engine("when = [\"gap\"]\nlonger_than = \"10m\"");
    let (path, moved) = (stage.path(), stage.directory.path().join("moved.db"));
    fs::rename(&path, &moved).unwrap();
    fs::write(&path, "no history").unwrap();
    let tick = stage.tick(3900);
    step(&mut engine, tick.clone(), 0);
    assert_eq!(lock(&engine.slot).first, Some(tick.sample.at));
    fs::rename(&moved, &path).unwrap();
    step(&mut engine, tick, 1);
    assert_eq!(lock(&engine.slot).first, None);
    assert_eq!(stage.webhook.requests().len(), 1);
}

#[test]
fn a_message_to_a_holder_without_an_account_is_given_up_at_once() {
    let mut stage = Stage::new(OK);
    stage.record(0, 900);
    let mut engine = stage.engine(&format!("to = \"write\"\n{IDLE}"));
    let mut tick = stage.tick(900);
    let pod = samples::user(1000, "pod:vision/run");
    tick.sample.gpus[0].processes = vec![samples::process(7, pod, 900)];
    for later in 0..3 {
        step(&mut engine, tick.clone(), later);
    }
    assert!(engine.outbox.state.pending.is_empty());
    let past = &engine.outbox.state.history;
    assert_eq!((past.len(), past[0].last.attempts), (1, 1));
    let error = past[0].last.error.as_deref();
    assert_eq!(error, Some("pod:vision/run is not a user of this host"));
}

#[test]
fn a_target_that_hangs_never_delays_a_tick() {
    let mut stage = Stage::new(Behaviour::Hang);
    stage.record(0, 900);
    let loaded = stage.loaded(IDLE);
    let mut sink = AlertSink::start(&loaded, &[], &stage.path()).unwrap();
    sink.deliver(&stage.tick(900)).unwrap();
    wait_until("the message is being sent", || !stage.received().is_empty());
    let mut longest = Duration::ZERO;
    for second in 901..2901 {
        let tick = stage.tick(second);
        let began = clock::monotonic();
        sink.deliver(&tick).unwrap();
        longest = longest.max(clock::monotonic() - began);
    }
    // The target has not answered in the meantime.
    assert_eq!(
        State::load(&state_file(&stage.path()))
            .unwrap()
            .pending
            .len(),
        1
    );
    let began = clock::monotonic();
    Box::new(sink).finish(stage.at(2901));
    let end = clock::monotonic() - began;
    println!("longest of 2000 ticks: {longest:?}; end: {end:?}");
    assert!(longest < Duration::from_millis(200), "{longest:?}");
    assert!(end < Duration::from_secs(3), "{end:?}");
}

#[test]
fn a_lost_gpu_a_fault_and_gaps_are_reported_once() {
    let mut stage = Stage::new(OK);
    stage.record(0, 60);
    let lines = "when = [\"lost\", \"unhealthy\", \"gap\"]";
    let mut engine = stage.engine(lines);
    // The daemon was down for 14 minutes.
    step(&mut engine, stage.tick(900), 0);
    let mut tick = stage.tick(930);
    tick.sample.gpus.truncate(1);
    tick.sample.gpus[0].ecc_uncorrected = Ok(3);
    step(&mut engine, tick.clone(), 1);
    step(&mut engine, tick.clone(), 2);
    // No tick has arrived for 15 minutes.
    engine.step(stage.at(1830), clock::monotonic() + Duration::from_secs(20));
    engine.step(stage.at(1860), clock::monotonic() + Duration::from_secs(25));
    let conditions = stage.received().into_iter().map(|(when, _)| when);
    let conditions: Vec<String> = conditions.collect();
    assert_eq!(conditions, ["gap", "unhealthy", "lost", "gap"]);
}

#[test]
fn a_gpu_that_was_lost_before_the_daemon_started_is_reported_once() {
    let mut stage = Stage::new(OK);
    stage.record(0, 60);
    for start in [90, 150] {
        let mut engine = stage.engine("when = [\"lost\"]\ncool_down = \"1m\"");
        let mut tick = stage.tick(start);
        tick.sample.gpus.truncate(1);
        stage.history.deliver(&tick).unwrap();
        // The first tick that is evaluated need not be the first one.
        lock(&engine.slot).tick = Some(tick);
        lock(&engine.slot).first = Some(stage.at(start));
        let mut tick = stage.tick(start + 30);
        tick.sample.gpus.truncate(1);
        stage.history.deliver(&tick).unwrap();
        step(&mut engine, tick, 0);
        let message = stage.webhook.requests();
        let text = message[0].text();
        assert!(
            text.contains("GPU 1 (") && text.contains("is lost"),
            "{text}"
        );
        assert_eq!(message.len(), 1);
    }
}

#[test]
fn an_alert_that_is_added_later_reports_the_time_before_the_start_too() {
    let mut stage = Stage::new(OK);
    stage.record(0, 60);
    let mut engine = stage.engine("by = \"board\"\nwhen = [\"gap\"]");
    step(&mut engine, stage.tick(900), 0);
    assert_eq!(stage.received(), []);
    stage.loaded("when = [\"gap\"]");
    lock(&engine.slot).is_reloaded = true;
    step(&mut engine, stage.tick(930), 1);
    assert_eq!(stage.received(), [("gap".to_owned(), None)]);
}

#[test]
fn a_list_shows_what_was_not_delivered() {
    let mut stage = Stage::new(Behaviour::Answer(503));
    stage.record(0, 900);
    let lines = format!("name = \"lab\"\n{IDLE}");
    step(&mut stage.engine(&lines), stage.tick(900), 0);
    let loaded = stage.loaded(&lines);
    let sender = SenderState {
        by: Sender::Daemon,
        state_file: state_file(&stage.path()),
    };
    let problem = |expected: &str| {
        let (document, problems) = listed(&loaded, &sender);
        let row = document.alerts[0].problem().unwrap_or_default();
        let problems = problems.join("\n");
        assert!(
            row.contains(expected) || problems.contains(expected),
            "{row}\n{problems}"
        );
    };
    problem(
        "alert lab: a message is waiting to be sent: the destination answered with HTTP status 503",
    );
    problem("no daemon sends the alerts of this user now: ");
    fs::write(&sender.state_file, "{").unwrap();
    problem("cannot read the alerts");
}

#[test]
fn a_sink_reports_the_gap_between_two_ticks() {
    let stage = Stage::new(OK);
    let loaded = stage.loaded("when = [\"gap\"]");
    let mut sink = AlertSink::start(&loaded, &[], &stage.path()).unwrap();
    for second in [5400, 5430, 6300, 6330] {
        sink.deliver(&stage.tick(second)).unwrap();
    }
    wait_until("the gap is reported", || {
        let found = stage.received();
        found.iter().any(|(when, _)| when == "gap")
    });
    let text = stage.webhook.requests()[0].text().to_owned();
    assert!(
        text.contains("the GPUs were not observed for 14m"),
        "{text}"
    );
    Box::new(sink).finish(stage.at(6330));
}

#[test]
fn a_quota_that_is_exceeded_is_reported() {
    let mut stage = Stage::new(OK);
    stage.record(0, 3600);
    let quota = "[[quota]]\nheld = \"30m\"\nper = \"30d\"";
    let mut engine = stage.engine(&format!("when = [\"quota-over\", \"quota-near\"]\n{quota}"));
    step(&mut engine, stage.tick(3600), 0);
    let over = ("quota-over".to_owned(), Some("ada".to_owned()));
    assert_eq!(stage.received(), [over]);
    let text = stage.webhook.requests()[0].text().to_owned();
    assert!(text.contains("held 1.00 of 0.50 h per 30 d"), "{text}");
}

#[test]
fn an_alert_that_is_removed_sends_nothing_more() {
    let mut stage = Stage::new(Behaviour::Answer(503));
    stage.record(0, 900);
    let mut engine = stage.engine(IDLE);
    step(&mut engine, stage.tick(900), 0);
    assert_eq!(engine.outbox.state.pending.len(), 1);
    stage.loaded("name = \"other\"\nwhen = [\"lost\"]");
    lock(&engine.slot).is_reloaded = true;
    step(&mut engine, stage.tick(930), 1);
    let error = engine.outbox.state.history[0].last.error.as_deref();
    assert_eq!(error, Some("the alert is no longer configured"));
    assert_eq!(stage.received().len(), 1);
}
