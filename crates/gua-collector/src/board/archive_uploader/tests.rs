//! The archive of a daemon over some made-up days: its clock is set by the test, its board listens on this machine.

use std::cell::Cell;
use std::io::{BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Mutex;

use gua_model::{Bytes, Driver, Gpu, Missing, Percent, Sample, Tick};
use gua_store::{NewRun, OpenMode, Store, WriterOptions};
use gua_test::http::{CLAIM_ANSWER, Request};
use gua_wire::server_url::Unencrypted;
use gua_wire::{ClaimAnswer, CloudConfig, ServerUrl};
use jiff::SignedDuration;

use super::*;
use crate::board::proxy::Proxies;
use crate::board::{CloudFile, ConnectOptions};

/// Set by hand.
struct Set {
    now: Cell<Timestamp>,
    monotonic: Cell<Duration>,
}

impl Set {
    fn at(now: &str) -> Self {
        Self {
            now: Cell::new(now.parse().unwrap()),
            monotonic: Cell::new(Duration::from_secs(1000)),
        }
    }

    fn pass(&self, time: Duration) {
        self.now.set(self.now.get() + time);
        self.monotonic.set(self.monotonic.get() + time);
    }
}

impl Hours for Set {
    fn now(&self) -> Timestamp {
        self.now.get()
    }

    fn monotonic(&self) -> Duration {
        self.monotonic.get()
    }
}

#[derive(Default)]
struct Heard {
    lines: Vec<String>,
    /// Requests with this in their line get this status.
    refuses: Option<(&'static str, u16)>,
}

/// A board, the history of a host, and what its daemon says.
struct Scene {
    directory: tempfile::TempDir,
    board: Arc<Mutex<Heard>>,
    said: Arc<Mutex<Vec<String>>>,
    uploader: ArchiveUploader,
}

impl Scene {
    /// With a tick each minute from noon to noon, two days later, of which the younger are kept.
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
        let answer = ClaimAnswer::read(CLAIM_ANSWER.as_bytes()).unwrap();
        let file = CloudFile::at(directory.path().join("cloud.json"));
        let place = file.prepare().unwrap();
        place.save(&CloudConfig::enrolled(url, answer)).unwrap();
        let options = ConnectOptions {
            unencrypted: Unencrypted::LoopbackOnly,
            ca_file: None,
            proxies: Proxies::default(),
        };
        let said = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&said);
        let uploader = ArchiveUploader::new(
            Enrolment::new(file, options),
            history,
            ArchiveOptions {
                users: UserPolicy::Plain,
                retention_days: 30,
            },
            Arc::new(move |line: &str| kept.lock().unwrap().push(line.to_owned())),
        );
        Self {
            directory,
            board,
            said,
            uploader,
        }
    }

    fn refuses(&self, refuses: Option<(&'static str, u16)>) {
        self.board.lock().unwrap().refuses = refuses;
    }

    /// What was asked of the board since this was last asked.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.board.lock().unwrap().lines)
    }

    fn said(&self) -> Vec<String> {
        std::mem::take(&mut self.said.lock().unwrap())
    }

    fn state(&self) -> ArchiveState {
        let file = |name: &str| self.directory.path().join(name);
        ArchiveState::read(&LinkFiles::new(&file("cloud.json"), &file("gua.db"))).unwrap()
    }
}

fn listen() -> (std::net::SocketAddr, Arc<Mutex<Heard>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(Heard::default()));
    let kept = Arc::clone(&heard);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let Some(request) = Request::receive(&mut reader) else {
                continue;
            };
            let mut heard = kept.lock().unwrap();
            let status = match heard.refuses {
                Some((part, status)) if request.line.contains(part) => status,
                _ => 200,
            };
            heard.lines.push(request.line);
            drop(heard);
            let body = r#"{"archives":[]}"#;
            let answer = format!(
                "HTTP/1.1 {status} Word\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = reader.into_inner().write_all(answer.as_bytes());
        }
    });
    (address, heard)
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
fn an_archive_that_failed_is_tried_again_within_the_day_and_once_for_each_day() {
    let mut scene = Scene::new(None);
    let hours = Set::at("2026-11-16T12:00:00Z");
    scene.refuses(Some(("GET", 503)));
    // Pauses double, up to an hour, with up to half of themselves on top.
    for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
        let rest = scene.uploader.turn(&hours);
        assert_eq!(scene.asked(), ["GET /agent/v1/archives"]);
        let least = Duration::from_secs(60 * minutes);
        assert!((least..=least * 3 / 2).contains(&rest), "{rest:?}");
        assert_eq!(scene.state().last_error.unwrap().at, hours.now());
        // Who comes too early waits for what is left.
        hours.pass(rest / 2);
        let left = scene.uploader.turn(&hours);
        assert_eq!(scene.asked(), [""; 0]);
        hours.pass(left);
    }
    let told = "archive: the board did not tell which files it has: GUA Board request failed with HTTP 503; the history stays as it is, and gua tries again within the day";
    assert_eq!(scene.said(), [told]);

    scene.refuses(None);
    assert_eq!(open_day(hours.now()).to_string(), "2026-11-16");
    let rest = scene.uploader.turn(&hours);
    assert_eq!(rest, WAITS.look);
    assert_eq!(scene.asked().len(), 1 + 4 + 2 + 1);
    assert_eq!(
        scene.said(),
        ["archive: 2 closed day(s) in 30d window, uploaded 4 missing object(s)"]
    );
    assert_eq!(scene.state().completed, Some(hours.now()));

    // Nothing more on that day, nor in the first minutes of the next.
    hours.now.set("2026-11-17T00:04:59Z".parse().unwrap());
    assert_eq!(scene.uploader.turn(&hours), WAITS.look);
    assert_eq!(scene.asked(), [""; 0]);
    hours.pass(Duration::from_secs(1));
    scene.uploader.turn(&hours);
    assert_eq!(scene.asked().len(), 1 + 6 + 2 + 1);
}

#[test]
fn a_file_that_the_board_does_not_take_leaves_the_later_days_their_turn() {
    let mut scene = Scene::new(None);
    let hours = Set::at("2026-11-16T12:00:00Z");
    scene.refuses(Some(("2026-11-14&table=gpu_sample", 413)));
    assert!(scene.uploader.turn(&hours) >= WAITS.first_pause);
    let asked = scene.asked();
    assert_eq!(asked.len(), 1 + 4 + 2 + 1, "{asked:?}");
    assert!(asked[7].starts_with("DELETE "), "{asked:?}");
    let said = scene.said().join("\n");
    let told = "archive: the board did not take 1 file(s), the first of them gpu_sample of 2026-11-14 (2 closed day(s) in 30d window, uploaded 3 missing object(s)): GUA Board request failed with HTTP 413; ";
    assert!(said.starts_with(told), "{said}");
    assert_eq!(scene.state().completed, None);

    // A token that is no longer known is no matter of one file.
    hours.pass(2 * WAITS.longest_pause);
    scene.refuses(Some(("2026-11-14&table=gpu_sample", 401)));
    scene.uploader.turn(&hours);
    assert_eq!(scene.asked().len(), 2);
}

#[test]
fn a_day_of_which_ticks_are_gone_does_not_go_up_as_if_it_were_whole() {
    let mut scene = Scene::new(Some(Duration::from_secs(18 * 3600)));
    let hours = Set::at("2026-11-17T12:00:00Z");
    scene.uploader.turn(&hours);
    let days: Vec<String> = scene
        .asked()
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
    let said = scene.said().join("\n");
    assert!(
        said.starts_with("archive: 1 closed day(s) in 30d window, uploaded 2 missing object(s); 2 day(s) left out, since the history keeps no ticks from before 2026-11-15T1"),
        "{said}"
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
