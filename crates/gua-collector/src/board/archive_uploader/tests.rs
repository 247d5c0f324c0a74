//! The archive of a daemon over several simulated days, with a clock set by the test and a board on the loopback
//! interface.

use std::cell::Cell;
use std::io::{BufReader, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use gua_model::{Bytes, Driver, Gpu, Missing, Percent, Sample, Tick};
use gua_settings::Proxies;
use gua_store::{NewRun, OpenMode, Store, WriterOptions};
use gua_test::http::{CLAIM_ANSWER, Request};
use gua_wire::server_url::Unencrypted;
use gua_wire::{CloudConfig, ServerUrl};
use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::board::{CloudFile, ConnectOptions, cloud_file};
use crate::captured_log::CapturedLog;

/// A clock that the test advances.
struct ManualClock {
    now: Cell<Timestamp>,
    monotonic: Cell<Duration>,
}

impl ManualClock {
    fn at(now: &str) -> Self {
        Self {
            now: Cell::new(now.parse().unwrap()),
            monotonic: Cell::new(Duration::from_secs(1000)),
        }
    }

    fn now(&self) -> Timestamp {
        self.now.get()
    }

    fn read(&self) -> Clocks {
        Clocks {
            wall: self.now(),
            since_boot: self.monotonic.get(),
            monotonic: self.monotonic.get(),
        }
    }

    fn pass(&self, time: Duration) {
        self.now.set(self.now.get() + time);
        self.monotonic.set(self.monotonic.get() + time);
    }
}

#[derive(Default)]
struct Received {
    lines: Vec<String>,
    /// Requests whose line contains this text get this status.
    refuses: Option<(&'static str, u16)>,
}

/// A board, the history of a host, and the log of its daemon.
struct Scene {
    directory: tempfile::TempDir,
    board: Arc<Mutex<Received>>,
    log: CapturedLog,
    uploader: ArchiveUploader,
    _alive: Sender<()>,
}

impl Scene {
    /// Creates a history with a tick each minute from noon to noon two days later, with this retention.
    fn new(keep_raw: Option<Duration>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let history = directory.path().join("gua.db");
        let options = WriterOptions {
            keep_raw,
            ..WriterOptions::default()
        };
        write(&history, &options);
        let (address, board) = listen();
        let url = ServerUrl::parse(&format!("http://{address}")).unwrap();
        let config = CloudConfig::enrolled(url, CLAIM_ANSWER.as_bytes(), None).unwrap();
        let file = CloudFile::at(directory.path().join("cloud.json"));
        let place = file.prepare().unwrap();
        cloud_file::save(place, &config).unwrap();
        let options = ConnectOptions {
            unencrypted: Unencrypted::LoopbackOnly,
            ca_file: None,
            pin: None,
            proxies: Proxies::default(),
        };
        let (alive, end) = channel();
        let uploader = ArchiveUploader {
            enrolment: Enrolment::new(file, options),
            history,
            users: UserPolicy::Plain,
            retention_days: 30,
            end,
            retry: ArchiveUploader::retry(),
        };
        Self {
            directory,
            board,
            log: CapturedLog::start(),
            uploader,
            _alive: alive,
        }
    }

    fn refuses(&self, refuses: Option<(&'static str, u16)>) {
        self.board.lock().unwrap().refuses = refuses;
    }

    /// Requests that the board received since the last call.
    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.board.lock().unwrap().lines)
    }

    fn state(&self) -> ArchiveState {
        let file = |name: &str| self.directory.path().join(name);
        ArchiveState::read(&LinkFiles::new(&file("cloud.json"), &file("gua.db"))).unwrap()
    }
}

fn listen() -> (std::net::SocketAddr, Arc<Mutex<Received>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let received = Arc::new(Mutex::new(Received::default()));
    let kept = Arc::clone(&received);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let Some(request) = Request::receive(&mut reader) else {
                continue;
            };
            let mut received = kept.lock().unwrap();
            let status = match received.refuses {
                Some((part, status)) if request.line.contains(part) => status,
                _ => 200,
            };
            received.lines.push(request.line);
            drop(received);
            let body = r#"{"archives":[]}"#;
            let answer = format!(
                "HTTP/1.1 {status} Word\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = reader.into_inner().write_all(answer.as_bytes());
        }
    });
    (address, received)
}

fn write(path: &Path, options: &WriterOptions) {
    let first: Timestamp = "2026-11-14T12:00:00Z".parse().unwrap();
    let interval = Duration::from_secs(60);
    let mut store = Store::open(path, OpenMode::Create, options).unwrap();
    let run = NewRun {
        started: first,
        interval,
        host: "node07".to_owned(),
        version: "0.1.0".to_owned(),
        boot: None,
    };
    let run = store.begin_run(&run).unwrap();
    for minute in 0..2 * 24 * 60 {
        let mut gpu = Gpu::without_readings("GPU-0".parse().unwrap(), 0, Missing::Unsupported);
        gpu.name = Ok("card".to_owned());
        gpu.memory_total = Ok(Bytes::from_mb(1000));
        gpu.util = Ok(Percent::new(5).unwrap());
        let at = first + SignedDuration::from_mins(minute);
        let sample = Sample {
            at,
            since_boot: interval * u32::try_from(minute).unwrap(),
            boot: Err(Missing::Unsupported),
            driver: Driver {
                version: Err(Missing::Unsupported),
                cuda: Err(Missing::Unsupported),
            },
            gpus: vec![gpu],
            problems: Vec::new(),
        };
        store.record(run, &Tick { sample, interval }).unwrap();
        store.maintain(at).unwrap();
    }
    store.close().unwrap();
}

#[test]
fn a_failed_upload_is_retried_and_a_complete_one_is_repeated_the_next_day() {
    let mut scene = Scene::new(None);
    let clock = ManualClock::at("2026-11-16T12:00:00Z");
    scene.refuses(Some(("GET", 503)));
    // Delays double, up to an hour, with a random addition of up to half.
    for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
        let rest = scene.uploader.step(|| clock.read());
        assert_eq!(scene.requests(), ["GET /agent/v1/archives"]);
        let least = Duration::from_secs(60 * minutes);
        assert!((least..=least * 3 / 2).contains(&rest), "{rest:?}");
        assert_eq!(scene.state().last_error.unwrap().at, clock.now());
        // A step that comes too early returns the remaining delay.
        clock.pass(rest / 2);
        let left = scene.uploader.step(|| clock.read());
        assert_eq!(scene.requests(), [""; 0]);
        clock.pass(left);
    }
    let line = "WARN archive upload failed: cannot list the archive files of the board: GUA Board request failed with HTTP 503";
    assert_eq!(scene.log.take(), [line]);

    scene.refuses(None);
    assert_eq!(open_day(clock.now()).to_string(), "2026-11-16");
    let rest = scene.uploader.step(|| clock.read());
    assert_eq!(rest, CHECK_PERIOD);
    assert_eq!(scene.requests().len(), 1 + 4 + 2 + 1);
    assert_eq!(
        scene.log.take(),
        [
            "INFO archive uploads work again (failures=8)",
            "INFO archive: 2 closed day(s) in 30d window, uploaded 4 missing object(s)"
        ]
    );
    assert_eq!(scene.state().completed, Some(clock.now()));

    // No further upload on that day, nor in the first minutes of the next.
    clock.now.set("2026-11-17T00:04:59Z".parse().unwrap());
    assert_eq!(scene.uploader.step(|| clock.read()), CHECK_PERIOD);
    assert_eq!(scene.requests(), [""; 0]);
    clock.pass(Duration::from_secs(1));
    scene.uploader.step(|| clock.read());
    assert_eq!(scene.requests().len(), 1 + 6 + 2 + 1);
}

#[test]
fn a_file_that_the_board_rejects_does_not_hold_up_later_days() {
    let mut scene = Scene::new(None);
    let clock = ManualClock::at("2026-11-16T12:00:00Z");
    scene.refuses(Some(("2026-11-14&table=gpu_sample", 413)));
    assert!(scene.uploader.step(|| clock.read()) >= FIRST_DELAY);
    let requests = scene.requests();
    assert_eq!(requests.len(), 1 + 4 + 2 + 1, "{requests:?}");
    assert!(requests[7].starts_with("DELETE "), "{requests:?}");
    let lines = scene.log.take().join("\n");
    let expected = "WARN archive upload failed: the board rejected 1 file(s), first gpu_sample of 2026-11-14 (2 closed day(s) in 30d window, uploaded 3 missing object(s)): GUA Board request failed with HTTP 413";
    assert!(lines.starts_with(expected), "{lines}");
    assert_eq!(scene.state().completed, None);

    // A rejected token concerns every file, so the upload stops.
    clock.pass(2 * MAX_DELAY);
    scene.refuses(Some(("2026-11-14&table=gpu_sample", 401)));
    scene.uploader.step(|| clock.read());
    assert_eq!(scene.requests().len(), 2);
}

#[test]
fn a_day_with_deleted_ticks_is_not_uploaded() {
    let mut scene = Scene::new(Some(Duration::from_secs(18 * 3600)));
    let clock = ManualClock::at("2026-11-17T12:00:00Z");
    scene.uploader.step(|| clock.read());
    let days: Vec<String> = scene
        .requests()
        .into_iter()
        .filter(|line| line.contains("date=2"))
        .collect();
    assert_eq!(
        days,
        [
            "POST /agent/v1/archives?date=2026-11-16&table=gpu_sample",
            "POST /agent/v1/archives?date=2026-11-16&table=proc_sample"
        ]
    );
    let lines = scene.log.take().join("\n");
    assert!(
        lines.starts_with("INFO archive: 1 closed day(s) in 30d window, uploaded 2 missing object(s); 2 day(s) left out: the history has no ticks before 2026-11-15T1"),
        "{lines}"
    );
}

#[test]
fn a_day_is_closed_some_minutes_after_its_end() {
    let check = |now: &str, day: &str| {
        assert_eq!(open_day(now.parse().unwrap()).to_string(), day, "{now}");
    };
    check("2026-11-16T23:59:59Z", "2026-11-16");
    check("2026-11-17T00:04:59Z", "2026-11-16");
    check("2026-11-17T00:05:00Z", "2026-11-17");
    check("2026-11-17T09:04:59+09:00", "2026-11-16");
}
