//! Tests of the publisher with a real history, and of the server on loopback.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::Receiver;

use gua_model::unit::Millijoules;
use gua_model::{GapReason, Gpu};
use gua_store::{NewRun, OpenMode, Store, WriterOptions};
use gua_test::{samples, wait_for};

use super::*;
use crate::history::HistorySink;
use crate::lock;

fn settings() -> Settings {
    let mut settings = Settings::defaults(&gua_settings::kind::Home(None));
    // No claims of the host that the test runs on.
    settings.claim.dir.value = Some("/nonexistent".into());
    settings
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// Two GPUs: one works every third second and belongs to ada, the other one is free and loses a reading now and then.
fn tick(second: i64) -> Tick {
    let util = if second % 3 == 0 { 80 } else { 0 };
    let ada = samples::process(7, samples::user(1000, "ada"), 900);
    let mut held = samples::gpu(0, "GPU-a", util, vec![ada]);
    held.energy = Ok(Millijoules(second.unsigned_abs() * 70_001));
    let mut free = samples::gpu(1, "GPU-b", 0, Vec::new());
    if second % 10 == 4 {
        free = Gpu::without_readings(free.uuid, 1, gua_model::Missing::Denied);
    }
    Tick {
        sample: samples::sample(at(second), vec![held, free]),
        interval: Duration::from_secs(1),
    }
}

fn progress(ticks: u64) -> Progress {
    Progress {
        interval: Duration::from_secs(1),
        ticks,
        lost: 0,
        took: Duration::from_millis(3),
        outage: None,
    }
}

fn new_history(path: &Path, started: Timestamp) -> HistorySink {
    let store = Store::open(path, OpenMode::Create, &WriterOptions::default()).unwrap();
    let run = NewRun {
        started,
        interval: Duration::from_secs(1),
        host: "h".to_owned(),
        version: "0".to_owned(),
        boot: None,
    };
    HistorySink::begin(store, run).unwrap()
}

#[test]
fn counters_equal_the_accounts_of_the_history() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gua.db");
    let mut history = new_history(&path, at(0));
    for second in 0..1000 {
        history.deliver(&tick(second)).unwrap();
        history.maintain(at(second)).unwrap();
    }
    // The daemon that serves metrics begins after a gap, and has an outage of its own.
    let published = Arc::<Published>::default();
    let reached = |second: i64| {
        wait_for("the tick", || {
            let snapshot = lock(&published).clone()?;
            let last = snapshot.metrics.collector?.last_tick?;
            (last == at(second)).then_some(snapshot)
        })
    };
    let mut metrics =
        MetricsSink::publish_to(Arc::clone(&published), path.clone(), settings()).unwrap();
    for second in (1100..1900).chain(2000..2100) {
        history.deliver(&tick(second)).unwrap();
        metrics.deliver(&tick(second)).unwrap();
        if second == 2000 {
            let outage = Outage {
                from: at(1900),
                to: at(2000),
                reason: GapReason::DriverHung,
                detail: "hung".to_owned(),
                ticks_lost: 100,
            };
            history.outage(&outage).unwrap();
            metrics.outage(&outage).unwrap();
        }
        history.maintain(at(second)).unwrap();
        metrics.ticked(&progress(second.unsigned_abs()));
        // Faster than any daemon: the queue would be full.
        if second % 100 == 99 {
            reached(second);
        }
    }
    let snapshot = reached(2099);
    let counted = snapshot.metrics.accounts.as_ref().unwrap();
    let question = AccountsQuestion { until: at(2099) };
    let expected = location::file_at(path).accounts(&question).unwrap();
    assert_eq!(counted.people, expected.people);
    assert!(counted.people.contains_key("ada"));
    for (gpu, expected) in &expected.gpus {
        let counted = &counted.gpus[gpu];
        assert_eq!(counted.states, expected.states, "{gpu}");
        assert_eq!(counted.unobserved, expected.unobserved, "{gpu}");
        assert_eq!(counted.held, expected.held, "{gpu}");
        assert_eq!(counted.energy, expected.energy, "{gpu}");
    }
    let hung = counted
        .gpus
        .values()
        .map(|gpu| gpu.unobserved[&GapReason::DriverHung].0);
    assert!(hung.into_iter().all(|micros| micros > 90_000_000));
}

/// A history, and a publisher that handles events only when the test lets it.
struct Stepwise {
    directory: tempfile::TempDir,
    history: HistorySink,
    sink: MetricsSink,
    events: Receiver<Numbered>,
    publisher: Publisher,
    published: Arc<Published>,
}

impl Stepwise {
    /// The queue has space for the events of one tick.
    fn start(second: i64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let (sender, events) = sync_channel(2);
        let published = Arc::<Published>::default();
        Self {
            history: new_history(&path, at(second)),
            sink: MetricsSink {
                events: sender,
                count: 0,
            },
            events,
            publisher: Publisher::new(Arc::clone(&published), path, settings()),
            published,
            directory,
        }
    }

    fn tick(&mut self, second: i64) {
        self.history.deliver(&tick(second)).unwrap();
        self.history.maintain(at(second)).unwrap();
        self.sink.deliver(&tick(second)).unwrap();
        self.sink.ticked(&progress(second.unsigned_abs()));
    }

    fn handle(&mut self) {
        for event in self.events.try_iter() {
            self.publisher.handle(event);
        }
    }

    /// Compares the counters with the history.
    fn check(&self, second: i64) {
        let snapshot = lock(&self.published).clone().unwrap();
        let counted = snapshot.metrics.accounts.as_ref().unwrap();
        let source = location::file_at(self.directory.path().join("gua.db"));
        let question = AccountsQuestion { until: at(second) };
        let expected = source.accounts(&question).unwrap();
        assert!(!expected.gpus.is_empty());
        for (gpu, expected) in &expected.gpus {
            assert_eq!(counted.gpus[gpu].states, expected.states, "{gpu}");
        }
    }
}

#[test]
fn a_tick_that_the_queue_drops_is_read_from_the_history() {
    let mut host = Stepwise::start(10);
    host.tick(10);
    host.handle();
    host.tick(11);
    // The queue is full. An earlier tick is still in it.
    host.tick(12);
    host.handle();
    for second in 13..16 {
        host.tick(second);
        host.handle();
    }
    host.check(15);
}

#[test]
fn a_history_that_cannot_be_read_at_midnight_costs_no_time() {
    let midnight = 57_600;
    assert_eq!(at(midnight).as_second() % 86_400, 0);
    let mut host = Stepwise::start(midnight - 4);
    let (path, hidden) = ("gua.db", "hidden.db");
    let rename = |host: &Stepwise, from: &str, to: &str| {
        let path = host.directory.path();
        std::fs::rename(path.join(from), path.join(to)).unwrap();
    };
    for second in midnight - 4..midnight + 4 {
        host.tick(second);
        let is_hidden = second == midnight;
        if is_hidden {
            rename(&host, path, hidden);
        }
        host.handle();
        if is_hidden {
            rename(&host, hidden, path);
        }
    }
    host.check(midnight + 3);
}

#[test]
fn names_need_the_consent_of_both_settings() {
    let mut settings = settings();
    let check = |settings: &Settings, users: Names, workloads: Names| {
        let mut metrics = HostMetrics::without_gpus(VERSION);
        allow_names(&mut metrics, settings);
        assert_eq!((metrics.users, metrics.workloads), (users, workloads));
    };
    check(&settings, Names::Hidden, Names::Hidden);
    settings.metrics.users.value = true;
    check(&settings, Names::Shown, Names::Hidden);
    settings.metrics.workloads.value = true;
    check(&settings, Names::Shown, Names::Shown);
    for others in [OthersShown::Pseudonyms, OthersShown::Totals] {
        settings.privacy.others.value = others;
        check(&settings, Names::Hidden, Names::Hidden);
    }
}

#[test]
fn readings_of_a_driver_that_fails_are_withdrawn() {
    let published = Arc::<Published>::default();
    let directory = tempfile::tempdir().unwrap();
    let history = directory.path().join("none.db");
    let mut sink = MetricsSink::publish_to(Arc::clone(&published), history, settings()).unwrap();
    let powers = |ticks: u64| {
        wait_for("the tick", || {
            let snapshot = lock(&published).clone()?;
            let found = snapshot
                .metrics
                .gpus
                .iter()
                .filter(|gpu| gpu.live.is_some());
            (snapshot.metrics.collector?.ticks == ticks).then(|| found.count())
        })
    };
    sink.deliver(&tick(1)).unwrap();
    sink.ticked(&progress(1));
    assert_eq!(powers(1), 2);
    sink.driver_failed(at(2));
    sink.ticked(&progress(2));
    assert_eq!(powers(2), 0);
    let mut without_b = tick(3);
    without_b.sample.gpus.pop();
    sink.deliver(&without_b).unwrap();
    sink.ticked(&progress(3));
    assert_eq!(powers(3), 1);
    let gpus = lock(&published).clone().unwrap().metrics.gpus.clone();
    assert_eq!(gpus.len(), 2);
    assert_eq!(gpus[1].state, Some(State::Unobserved));
    let snapshot = lock(&published).clone().unwrap();
    let taken = snapshot.taken.unwrap();
    assert!(snapshot.is_fresh(taken + Duration::from_secs(3)));
    assert!(!snapshot.is_fresh(taken + Duration::from_secs(4)));
}

/// A server on a free port, with one published tick.
fn served() -> (SocketAddr, Arc<Published>) {
    let published = Arc::<Published>::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let shared = Arc::clone(&published);
    std::thread::spawn(move || server::serve(&listener, &shared));
    let metrics = HostMetrics::of_sample(&tick(3).sample, &settings().thresholds(), VERSION);
    *lock(&published) = Some(Arc::new(Snapshot {
        metrics,
        taken: Some(gua_probe::clock::monotonic()),
        interval: Duration::from_secs(3600),
    }));
    (address, published)
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_server_answers_get_in_the_format_that_is_asked_for() {
    let (address, _published) = served();
    let text = ask(
        address,
        "GET /metrics HTTP/1.1\r\nHost: localhost:1\r\n\r\n",
    );
    assert!(
        text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"),
        "{text}"
    );
    assert!(
        text.contains("\ngua_gpu_utilization_ratio{gpu=\"0\",uuid=\"GPU-a\",model=\"\"} 0.8\n"),
        "{text}"
    );
    let open = ask(
        address,
        "GET /metrics?x=1 HTTP/1.1\r\naccept: application/openmetrics-text; version=1.0.0,*/*;q=0.1\r\n\r\n",
    );
    assert!(
        open.contains("Content-Type: application/openmetrics-text; version=1.0.0"),
        "{open}"
    );
    assert!(open.ends_with("# EOF\n"), "{open}");
    let head = ask(address, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(
        head.contains("Content-Length: ") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    for (request, status) in [
        ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        ("GET /etc/passwd HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("GET / HTTP/1.1\r\n\r\n", "200 OK"),
        ("\r\n\r\n", "405 Method Not Allowed"),
        (
            "GET /metrics HTTP/1.1\r\nhost: [::1]:19400\r\n\r\n",
            "200 OK",
        ),
        (
            "GET /metrics HTTP/1.1\r\nHost: evil.example:19400\r\n\r\n",
            "403 Forbidden",
        ),
        (
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
            "403 Forbidden",
        ),
    ] {
        let answer = ask(address, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}\r\n")),
            "{request}{answer}"
        );
    }
    let large = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(9000));
    assert!(ask(address, &large).starts_with("HTTP/1.1 431 "));
}

#[test]
fn clients_that_say_nothing_are_bounded_and_time_out() {
    let (address, _published) = served();
    let silent: Vec<TcpStream> = (0..8)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    // All places are taken: the next one is refused at once.
    wait_for("a refusal", || {
        let mut stream = TcpStream::connect(address).ok()?;
        let mut answer = String::new();
        stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .ok()?;
        let _ = stream.read_to_string(&mut answer);
        answer.starts_with("HTTP/1.1 503 ").then_some(())
    });
    // The silent ones are closed after the time limit, and others are served again.
    wait_for("an answer", || {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.starts_with("HTTP/1.1 200 OK").then_some(())
    });
    drop(silent);
}
