//! Builds the history with which gpu-usage-audit 1.1.0 was measured (12 GPUs, 30 days, a tick every 30 seconds, 1.44
//! processes per GPU and tick) and prints its size, the bytes written per tick, and the time taken.
//!
//! The figures of the Python tool, 492.1 MB and 222 KB per tick, were measured on a 2-core machine with its own schema
//! and Python 3.11: 1,036,800 GPU rows and 1,488,752 process rows, one transaction per tick, bytes from
//! `/proc/self/io`. Ours stores more readings per GPU (the histogram of the driver's buffer, energy, clocks), and
//! totals and sessions.
//!
//! `cargo bench -p gua-store --bench history -- write PATH [DAYS]` leaves such a history at a path, and `-- read PATH`
//! measures what a report reads of one: CPU time, and the peak memory of the process.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use gua_model::{GpuQuarter, Ledger, Period, Quarter, Session, Thresholds};
use gua_store::{History, NewRun, OpenMode, Store, WriterOptions};
use gua_test::synthetic::SyntheticHost;
use jiff::{SignedDuration, Timestamp};

const GPUS: usize = 12;
const DAYS: u32 = 30;
const INTERVAL: Duration = Duration::from_secs(30);
const TICKS_PER_DAY: u32 = 2880;
const PYTHON_FILE_BYTES: f64 = 492.1e6;
const PYTHON_TICK_BYTES: f64 = 222e3;

type Anything = Result<(), Box<dyn std::error::Error>>;

fn main() -> Anything {
    let arguments: Vec<_> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["write", path] => write(Path::new(path), DAYS),
        ["write", path, days] => write(Path::new(path), days.parse()?),
        ["read", path] => read(Path::new(path)),
        [] | ["history"] => {
            // Not in memory: bytes written to a disk are counted.
            let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target");
            let directory = tempfile::tempdir_in(target).or_else(|_| tempfile::tempdir())?;
            let path = directory.path().join("gua.db");
            write(&path, DAYS)?;
            read(&path)?;
            check(&path)
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, days: u32) -> Anything {
    let mut out = std::io::stdout();
    // It ends when the month does, however long it is: a report does not cover the future.
    let earlier = (i64::from(days) - i64::from(DAYS)) * 86_400;
    let start = Timestamp::from_second(gua_test::synthetic::START - earlier)?;
    let mut host = SyntheticHost::new(GPUS, INTERVAL, start);
    let mut store = Store::open(path, OpenMode::Create, &WriterOptions::default())?;
    let run = store.begin_run(&NewRun {
        started: host.now(),
        interval: INTERVAL,
        host: "node1".to_owned(),
        version: "bench".to_owned(),
        boot: None,
    })?;
    let ticks = days * TICKS_PER_DAY;
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
    let stats = History::open(path)?.stats()?;
    let file = stats.file_bytes as f64 / f64::from(days) * f64::from(DAYS);
    let per_tick = written as f64 / f64::from(ticks);
    writeln!(
        out,
        "processes per GPU and tick  {:.2}",
        processes as f64 / f64::from(ticks) / GPUS as f64
    )?;
    writeln!(
        out,
        "file, for {DAYS} days          {:.1} MB = 1/{:.0} of gpu-usage-audit's 492.1 MB",
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
        "written per tick            {:.1} KB = 1/{:.0} of gpu-usage-audit's 222 KB",
        per_tick / 1e3,
        PYTHON_TICK_BYTES / per_tick
    )?;
    writeln!(
        out,
        "record                     {:.0} us per tick",
        micros(recording) / f64::from(ticks)
    )?;
    writeln!(
        out,
        "maintain                   {:.0} us per tick",
        micros(upkeep) / f64::from(ticks)
    )?;
    writeln!(
        out,
        "slowest tick               {:.1} ms",
        micros(slowest) / 1e3
    )?;
    Ok(())
}

/// Measures what a report reads, one query after the other.
fn read(path: &Path) -> Anything {
    let (history, opened) = timed(|| History::open(path))?;
    print("open", opened, "")?;
    let (info, asked) = timed(|| history.last_tick_before(Timestamp::MAX))?;
    print("last tick", asked, "")?;
    let last = info.ok_or("an empty history")?.tick.sample.at;
    let end = last + SignedDuration::from_secs(30);
    for (name, hours) in [
        ("1 y", 8760),
        ("30 d", 720),
        ("7 d", 168),
        ("24 h", 24),
        ("1 h", 1),
    ] {
        let window = Period::new(
            end - SignedDuration::from_hours(hours) + SignedDuration::from_secs(77),
            end,
        );
        let (quarters, took) = timed(|| {
            let mut count = 0_u64;
            let mut visit = |_: Quarter, _: &[GpuQuarter]| count += 1;
            history.quarters(window, history.thresholds()?, &mut visit)?;
            Ok::<_, gua_store::ReadError>(count)
        })?;
        print(
            &format!("totals of {name}"),
            took,
            &format!("{quarters} quarters"),
        )?;
        let (gaps, took) = timed(|| coverage(&history, window))?;
        print(
            &format!("coverage of {name}"),
            took,
            &format!("{gaps} gaps"),
        )?;
        let (sessions, took) = timed(|| {
            let mut sessions = 0;
            history.sessions(window, &mut |_: &Session| sessions += 1)?;
            Ok::<_, gua_store::ReadError>(sessions)
        })?;
        print(
            &format!("sessions of {name}"),
            took,
            &format!("{sessions} sessions"),
        )?;
    }
    let (_, took) = timed(|| {
        history.runs()?;
        history.gpus()?;
        history.owners()?;
        history.outages(Period::new(Timestamp::MIN, Timestamp::MAX))
    })?;
    print("runs, GPUs, users, outages", took, "")?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    writeln!(std::io::stdout(), "{}", peak.unwrap_or_default())?;
    Ok(())
}

/// Number of gaps in a window.
fn coverage(history: &History, window: Period) -> Result<usize, gua_store::ReadError> {
    let gpus = history.gpus()?.into_iter();
    let known = gpus.map(|gpu| (gpu.uuid.clone(), gpu.known())).collect();
    let outages = history.outages(window)?;
    let mut ledger = Ledger::new(window, known, &outages);
    let mut visit =
        |_: Quarter, gpus: &[GpuQuarter]| ledger.push_totals(gpus.iter().map(GpuQuarter::named));
    history.quarters(window, history.thresholds()?, &mut visit)?;
    let covered = ledger.finish();
    Ok(covered.values().map(|gpu| gpu.gaps.len()).sum())
}

fn check(path: &Path) -> Anything {
    let history = History::open(path)?;
    let end = history.info()?.last_tick.ok_or("an empty history")?;
    let other = Thresholds {
        held_mb: 1000,
        ..history.thresholds()?
    };
    let month = Period::new(end - SignedDuration::from_hours(720), end);
    let (_, took) =
        timed(|| history.quarters(month, other, &mut |_: Quarter, _: &[GpuQuarter]| ()))?;
    print("30 d, other thresholds", took, "")?;
    let (report, took) = timed(|| history.check(|_| {}))?;
    print("check", took, &format!("clean: {}", report.is_clean()))?;
    Ok(())
}

/// CPU time of `work`, in user mode and in the kernel.
fn timed<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(T, Duration), E> {
    let began = clock(rustix::time::ClockId::ProcessCPUTime);
    let answer = work()?;
    Ok((answer, clock(rustix::time::ClockId::ProcessCPUTime) - began))
}

fn print(what: &str, took: Duration, more: &str) -> Anything {
    let took = micros(took) / 1e3;
    writeln!(std::io::stdout(), "{what:<28} {took:>8.2} ms CPU  {more}")?;
    Ok(())
}

/// Bytes that this process sent to disks, as the kernel counts them.
fn bytes_written() -> Result<u64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.ok_or("no write_bytes in /proc/self/io")?.parse()?)
}

fn monotonic() -> Duration {
    clock(rustix::time::ClockId::Monotonic)
}

fn clock(id: rustix::time::ClockId) -> Duration {
    let now = rustix::time::clock_gettime(id);
    Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
