//! Builds the history that gpu-usage-audit 1.1.0 was measured with (12 cards, 30 days, a tick every 30 seconds, 1.44
//! processes a card and tick) and prints its size, what a tick writes, and how long it takes.
//!
//! The figures of the Python tool, 492.1 MB and 222 KB a tick, were measured on a 2-core machine with its own schema and
//! Python 3.11: 1,036,800 card rows and 1,488,752 process rows, one transaction a tick, bytes from `/proc/self/io`.
//! Ours hold more readings a card (the histogram of the driver's buffer, energy, clocks), and totals and sessions.

#[path = "../tests/history/synthetic.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    reason = "the tests that share it use all of it, and may unwrap"
)]
mod synthetic;

use std::io::Write as _;
use std::time::Duration;

use gua_model::{Period, Thresholds};
use gua_store::{History, NewRun, OpenMode, Store, WriterOptions};
use jiff::{SignedDuration, Timestamp};
use synthetic::Host;

const CARDS: usize = 12;
const DAYS: u32 = 30;
const INTERVAL: Duration = Duration::from_secs(30);
const TICKS_PER_DAY: u32 = 2880;
const PYTHON_FILE_BYTES: f64 = 492.1e6;
const PYTHON_TICK_BYTES: f64 = 222e3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"));
    if arguments
        .next()
        .is_some_and(|wanted| !"history".contains(&wanted))
    {
        return Ok(());
    }
    // Not in memory: what is written to a disk is to be counted.
    let directory = tempfile::tempdir_in(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target"))
        .or_else(|_| tempfile::tempdir())?;
    let path = directory.path().join("gua.db");
    let mut out = std::io::stdout();

    let mut host = Host::new(CARDS, INTERVAL, Timestamp::from_second(synthetic::START)?);
    let mut store = Store::open(&path, OpenMode::Create, &WriterOptions::default())?;
    let run = store.begin_run(&NewRun {
        started: host.now(),
        interval: INTERVAL,
        host: "node1".to_owned(),
        version: "bench".to_owned(),
        boot: None,
    })?;
    let ticks = DAYS * TICKS_PER_DAY;
    let (mut recording, mut upkeep, mut slowest) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut processes = 0;
    let before = bytes_written()?;
    for _ in 0..ticks {
        let tick = host.tick();
        processes += tick
            .sample
            .gpus
            .iter()
            .map(|gpu| gpu.processes.len())
            .sum::<usize>();
        let began = monotonic();
        store.record(run, &tick)?;
        let stored = monotonic();
        store.maintain(tick.sample.at)?;
        let ended = monotonic();
        recording += stored - began;
        upkeep += ended - stored;
        slowest = slowest.max(ended - began);
    }
    store.close()?;
    let written = bytes_written()? - before;
    let history = History::open(&path)?;
    let stats = history.stats()?;

    let file = stats.file_bytes as f64;
    let per_tick = written as f64 / f64::from(ticks);
    writeln!(
        out,
        "processes a card and tick  {:.2}",
        processes as f64 / f64::from(ticks) / CARDS as f64
    )?;
    writeln!(
        out,
        "file                       {:.1} MB = 1/{:.0} of gpu-usage-audit's 492.1 MB",
        file / 1e6,
        PYTHON_FILE_BYTES / file
    )?;
    for table in &stats.tables {
        writeln!(
            out,
            "  {:<24} {:>7.2} MB {:>8} rows",
            table.name,
            table.bytes as f64 / 1e6,
            table.rows
        )?;
    }
    writeln!(
        out,
        "written a tick             {:.1} KB = 1/{:.0} of gpu-usage-audit's 222 KB",
        per_tick / 1e3,
        PYTHON_TICK_BYTES / per_tick
    )?;
    writeln!(
        out,
        "record                     {:.0} us a tick",
        micros(recording) / f64::from(ticks)
    )?;
    writeln!(
        out,
        "maintain                   {:.0} us a tick",
        micros(upkeep) / f64::from(ticks)
    )?;
    writeln!(
        out,
        "slowest tick               {:.1} ms",
        micros(slowest) / 1e3
    )?;

    let end = host.now();
    for (name, hours) in [("30 d", 720), ("7 d", 168), ("24 h", 24), ("1 h", 1)] {
        let window = Period::new(
            end - SignedDuration::from_hours(hours) + SignedDuration::from_secs(77),
            end,
        );
        let began = monotonic();
        let totals = history.totals(window)?;
        let took = monotonic() - began;
        writeln!(
            out,
            "totals of {name:<16} {:.1} ms, {} quarters",
            micros(took) / 1e3,
            totals.totals.quarters.len()
        )?;
    }
    let other = Thresholds {
        held_mb: 1000,
        ..history.thresholds()?
    };
    let month = Period::new(end - SignedDuration::from_hours(720), end);
    let began = monotonic();
    history.totals_by(other, month)?;
    let took = micros(monotonic() - began) / 1e3;
    writeln!(out, "30 d, other thresholds     {took:.0} ms")?;
    let began = monotonic();
    let report = history.check(|_| {})?;
    writeln!(
        out,
        "check                      {:.0} ms, clean: {}",
        micros(monotonic() - began) / 1e3,
        report.is_clean()
    )?;
    Ok(())
}

/// What this process sent to disks, as the kernel counts it.
fn bytes_written() -> Result<u64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.ok_or("no write_bytes in /proc/self/io")?.parse()?)
}

fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
