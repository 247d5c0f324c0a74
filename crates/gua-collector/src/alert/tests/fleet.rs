//! Tests of the alerts of a board: the outbox with findings on several hosts, and the thread.

use gua_model::alert::{BoardHost, Finding, finding};

use super::*;

const OF_BOARD: &str =
    "by = \"board\"\nwhen = [\"idle-held\", \"lost\", \"silent\"]\nlonger_than = \"10m\"";

fn board_host(id: &str) -> BoardHost {
    BoardHost {
        id: Some(id.to_owned()),
        workspace: "w".to_owned(),
        name: "lab1".to_owned(),
    }
}

/// A lost GPU with this number on a host of a board.
fn lost(number: usize, host: &str) -> Finding {
    let gpu = finding::KnownGpu {
        uuid: format!("GPU-{number}").parse().unwrap(),
        index: 0,
        name: None,
    };
    finding::lost_gpu(&gpu, finding::Loss::NotListed).on(board_host(host))
}

#[test]
fn one_host_of_a_board_leaves_room_for_messages_about_others() {
    let stage = Stage::new(OK);
    let loaded = stage.loaded(OF_BOARD);
    let alert = &loaded.settings.alerts[0].value;
    let path = stage.directory.path().join("alerts.json");
    let mut outbox = Outbox::open(path.clone());
    let now = stage.start;
    let mut queue = |host: &str| {
        let found = (0..100).map(|number| lost(number, host));
        outbox.queue([(alert, found.collect())], now);
        (outbox.state.pending.len(), outbox.dropped.is_open())
    };
    assert_eq!(queue("a"), (64, true));
    fs::remove_file(&path).unwrap();
    assert_eq!(queue("a"), (64, true));
    assert!(!path.exists(), "written although nothing was added");
    for (host, expected) in [("b", 128), ("c", 192), ("d", 256), ("e", 256)] {
        assert_eq!(queue(host).0, expected, "{host}");
    }
}

#[test]
fn agents_that_stop_reporting_within_a_minute_are_reported_together() {
    let stage = Stage::new(OK);
    let loaded = stage.loaded(OF_BOARD);
    let alert = &loaded.settings.alerts[0].value;
    let mut outbox = Outbox::open(stage.directory.path().join("alerts.json"));
    let mut queue = |silent: std::ops::Range<usize>, second: i64| {
        let found = silent.map(|number| {
            let host = BoardHost {
                workspace: match number {
                    0..12_500 | 20_000.. => "w".to_owned(),
                    _ => "other".to_owned(),
                },
                ..board_host(&format!("host_{number}"))
            };
            let last = finding::LastContact::Report(stage.start);
            finding::silent(last, stage.at(second)).on(host)
        });
        outbox.queue([(alert, found.collect())], stage.at(second));
        let waiting = std::mem::take(&mut outbox.state.pending).into_iter();
        let waiting: Vec<AlertMessage> = waiting.map(|one| one.message).collect();
        (waiting, outbox.state.last_sent.len())
    };
    let titles = |messages: &[AlertMessage]| -> Vec<String> {
        messages.iter().map(|one| one.title.clone()).collect()
    };
    // The hosts become silent at different times within a minute.
    assert_eq!(queue(0..1, 600), (Vec::new(), 0));
    assert_eq!(queue(0..6000, 630), (Vec::new(), 0));
    // There is one message for all hosts, and a cool-down for each host.
    let (sent, cool_downs) = queue(0..12_500, 660);
    let expected = "lab1, lab1, lab1 and 12497 more: 12500 agents are silent";
    assert_eq!(
        (titles(&sent), cool_downs),
        (vec![expected.to_owned()], 12_500)
    );
    assert!(serde_json::to_string(&sent).unwrap().len() < 4000);
    let place = (sent[0].host_id.as_deref(), sent[0].workspace.as_deref());
    assert_eq!(place, (None, Some("w")));
    assert_eq!(queue(0..12_500, 760), (Vec::new(), 12_500));
    // Silent agents of another workspace are reported in a separate message.
    assert_eq!(queue(0..12_510, 800).0, []);
    let (sent, cool_downs) = queue(0..12_510, 860);
    assert_eq!((sent.len(), cool_downs), (1, 12_510));
    assert!(sent[0].title.ends_with(": 10 agents are silent"));
    // An agent that reports again within the minute is not reported.
    assert_eq!(queue(12_510..12_512, 900).0, []);
    assert_eq!(queue(12_510..12_511, 920).0, []);
    let (sent, _) = queue(12_510..12_511, 960);
    assert_eq!(titles(&sent), ["lab1: the agent has sent nothing for 16m"]);
    // Each workspace has its own minute.
    assert_eq!(queue(19_999..20_000, 1000).0, []);
    assert_eq!(queue(19_999..20_001, 1055).0, []);
    assert_eq!(queue(19_999..20_001, 1060).0.len(), 1);
    assert_eq!(queue(19_999..20_001, 1114).0, []);
    assert_eq!(queue(19_999..20_001, 1115).0.len(), 1);
}

#[test]
fn a_daemon_leaves_the_alerts_of_a_board_to_the_board() {
    let mut stage = Stage::new(OK);
    stage.record(0, 900);
    let loaded = stage.loaded(OF_BOARD);
    step(&mut stage.engine(OF_BOARD), stage.tick(900), 0);
    assert_eq!(stage.received(), []);
    assert_eq!(
        listed(&loaded, &SenderState::daemon(&loaded))
            .0
            .alerts
            .len(),
        0
    );
    let board = SenderState::board(stage.directory.path());
    assert_eq!(listed(&loaded, &board).0.alerts.len(), 1);
}

#[test]
fn the_alerts_of_a_board_end_at_once_and_keep_what_a_hanging_target_has_not_acknowledged() {
    let stage = Stage::new(Behaviour::Hang);
    let directory = stage.directory.path();
    let find = |alerts: &[Alert], _: Timestamp| {
        let found = alerts.iter().map(|_| vec![lost(1, "host_1")]);
        found.collect()
    };
    let start = || FleetAlerts::start(&stage.loaded(OF_BOARD), &[], directory, find).unwrap();
    let alerts = start();
    wait_until("the message is being sent", || !stage.received().is_empty());
    let began = clock::monotonic();
    alerts.stop();
    let end = clock::monotonic() - began;
    assert!(end < Duration::from_secs(3), "{end:?}");
    let waiting = history(&SenderState::board(directory), 10)
        .unwrap()
        .messages;
    assert_eq!((waiting.len(), waiting[0].status), (1, "waiting"));
    assert_eq!(waiting[0].host_id.as_deref(), Some("host_1"));
    stage.webhook.set(OK);
    let alerts = start();
    wait_until("the message is delivered", || {
        let sent = history(&SenderState::board(directory), 10)
            .unwrap()
            .messages;
        sent.iter().any(|row| row.status == "sent")
    });
    alerts.stop();
    let bodies = stage.webhook.requests();
    assert_eq!((bodies.len(), &bodies[0].body), (2, &bodies[1].body));
}

#[test]
fn a_board_reads_its_alerts_again_and_keeps_them_if_the_file_is_broken() {
    let stage = Stage::new(OK);
    let directory = stage.directory.path();
    let found = Arc::new(Mutex::new(0));
    let find = {
        let found = Arc::clone(&found);
        move |alerts: &[Alert], _: Timestamp| {
            *found.lock().unwrap() += 1;
            let host = |alert: &Alert| format!("{}-{}", alert.name, alert.cool_down.as_secs());
            let found = alerts.iter().map(|alert| vec![lost(1, &host(alert))]);
            found.collect()
        }
    };
    // The board does not send the alerts of the daemon.
    let alerts = FleetAlerts::start(&stage.loaded(IDLE), &[], directory, find).unwrap();
    let hosts = || -> Vec<String> {
        let rows = history(&SenderState::board(directory), 10)
            .unwrap()
            .messages;
        rows.into_iter().filter_map(|row| row.host_id).collect()
    };
    let reload = |lines: &str| {
        stage.loaded(lines);
        alerts.reload();
    };
    reload(&format!("name = \"a\"\ncool_down = \"1h\"\n{OF_BOARD}"));
    wait_until("the first alert is read", || hosts() == ["a-3600"]);
    fs::write(directory.join(".gua/config.toml"), "[[alert]]\nwhen = 1").unwrap();
    alerts.reload();
    let before = *found.lock().unwrap();
    wait_until("the alerts are evaluated", || {
        *found.lock().unwrap() > before + 1
    });
    reload(&format!("name = \"a\"\ncool_down = \"2h\"\n{OF_BOARD}"));
    wait_until("the changed alert is read", || hosts().len() == 2);
    assert_eq!(hosts(), ["a-7200", "a-3600"]);
    alerts.stop();
}
