//! Cost of one request for the metrics of 8 GPUs and 32 processes, over a real connection.
//!
//! The client runs in this process, so the printed time includes the client's share. The program exits with 1 if the median
//! request costs two milliseconds of processor time or more.
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use gua_collector::history::HistorySink;
use gua_collector::metrics::MetricsSink;
use gua_collector::{Progress, Sink as _};
use gua_model::sample::{MemoryRepairs, ThrottleReasons};
use gua_model::unit::{Bytes, Celsius, FanSpeed, Megahertz, Millijoules, Milliwatts};
use gua_model::{Gpu, Missing, Percent, Tick, Xid};
use gua_probe::clock;
use gua_settings::kind::OthersShown;
use gua_settings::{Loaded, Settings};
use gua_store::{NewRun, OpenMode, Store, WriterOptions};
use gua_test::samples;
use jiff::Timestamp;

const GPUS: u32 = 8;
const PROCESSES: u32 = 32;
const ROUNDS: u32 = 20;
const REQUESTS: u32 = 50;
const PROMISE: Duration = Duration::from_millis(2);

fn main() -> ExitCode {
    let directory = tempfile::tempdir().expect("a directory for the history");
    let path = directory.path().join("gua.db");
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("it is bound");
    drop(free);
    let mut settings: Settings = Loaded::of_this_process(&[]).settings;
    settings.claim.dir.value = Some(directory.path().join("claims"));
    settings.privacy.others.value = OthersShown::Names;
    settings.metrics.users.value = true;
    let mut history = history(&path);
    let mut metrics = MetricsSink::start(address, path, settings).expect("threads can be started");
    for second in 0..10 {
        let tick = tick(second);
        history.deliver(&tick).expect("a tick is stored");
        metrics.deliver(&tick).expect("a tick is handed over");
        metrics.ticked(&Progress {
            interval: tick.interval,
            ticks: second.unsigned_abs() + 1,
            lost: 0,
            took: Duration::ZERO,
            outage: None,
        });
    }
    let until = clock::monotonic() + Duration::from_secs(30);
    let text = loop {
        let text = request(address).unwrap_or_default();
        if text.contains("gua_collector_ticks_total 10\n") {
            break text;
        }
        assert!(clock::monotonic() < until, "no metrics: {text}");
        std::thread::park_timeout(Duration::from_millis(5));
    };
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    let round = |_| {
        let before = clock::processor_time();
        for _ in 0..REQUESTS {
            request(address).expect("an answer");
        }
        (clock::processor_time() - before) / REQUESTS
    };
    let mut rounds: Vec<Duration> = (0..ROUNDS).map(round).collect();
    rounds.sort();
    let median = rounds[rounds.len() / 2];
    println!(
        "{GPUS} GPUs, {PROCESSES} processes: {series} series, {} bytes, {median:?} of processor time per request \
         with its client (limit {PROMISE:?})",
        text.len()
    );
    match median < PROMISE {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn history(path: &Path) -> HistorySink {
    let store = Store::open(path, OpenMode::Create, &WriterOptions::default());
    let run = NewRun {
        started: Timestamp::UNIX_EPOCH,
        interval: Duration::from_secs(1),
        host: "bench".to_owned(),
        version: "0".to_owned(),
        boot: None,
    };
    HistorySink::begin(store.expect("a history"), run).expect("a run")
}

fn tick(second: i64) -> Tick {
    let gpu = |index: u32| {
        let uuid = format!("GPU-{index}");
        let holders = (0..PROCESSES / GPUS).map(|number| {
            let user = samples::user(1000 + number, &format!("user{number}"));
            samples::process(1000 + index * 10 + number, user, 500)
        });
        Gpu {
            name: Ok("NVIDIA H100 80GB HBM3".to_owned()),
            memory_used: Ok(Bytes(1 << 30)),
            memory_total: Ok(Bytes(80 << 30)),
            power: Ok(Milliwatts(70_500)),
            power_limit: Ok(Milliwatts(700_000)),
            temperature: Ok(Celsius(40)),
            sm_clock: Ok(Megahertz(1410)),
            memory_clock: Ok(Megahertz(1593)),
            ecc_corrected: Ok(0),
            ecc_uncorrected: Ok(0),
            throttle: Ok(ThrottleReasons(0)),
            memory_util: Percent::new(40).ok_or(Missing::Failed),
            memory_reserved: Ok(Bytes(1 << 20)),
            memory_repairs: Ok(MemoryRepairs(0)),
            energy: Ok(Millijoules(70_500 * (1 + second.unsigned_abs()))),
            fan: Ok(FanSpeed(30)),
            xid: Ok(Some(Xid {
                at: Timestamp::UNIX_EPOCH,
                code: 79,
            })),
            ..samples::gpu(index, &uuid, 50, holders.collect())
        }
    };
    let at = Timestamp::from_second(1_800_000_000 + second).expect("a time");
    Tick {
        sample: samples::sample(at, (0..GPUS).map(gpu).collect()),
        interval: Duration::from_secs(1),
    }
}

fn request(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n")
        .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.starts_with("HTTP/1.1 200 ").then_some(text)
}
