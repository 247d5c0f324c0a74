//! Import speed and resulting size of an old history: twelve GPUs for thirty days at thirty seconds.
//!
//! `cargo bench -p gua-compat --bench import_old` prints rows per second; `--quick` takes a day instead of a month.
//! With `-- write PATH` it leaves the old file at a path, and with `-- read PATH` it only reads one in place.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use gua_compat::gpu_usage_audit::{LegacyError, OldFile};
use gua_model::{GpuQuarter, Period, Quarter, Thresholds};
use gua_query::Records as _;
use gua_query::records::Origin;
use gua_store::{OpenMode, Store, WriterOptions};
use jiff::{SignedDuration, Timestamp};

use gua_test::old_history;

/// Minimum rows per second that docs/speed.md promises.
const PROMISED: f64 = 300_000.0;

fn main() {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let end = "2026-11-01T00:00:00Z"
        .parse::<Timestamp>()
        .expect("this is a time");
    match words.as_slice() {
        ["write", path, rest @ ..] => {
            // A pause may follow: the tool that wrote such files only reports up to now.
            let end = rest
                .first()
                .and_then(|word| word.parse().ok())
                .unwrap_or(end);
            let written = old_history::write(Path::new(path), &old_history::MONTH, end);
            return written.expect("the file can be written");
        }
        ["read", path, ..] => return read(Path::new(path)),
        _ => {}
    }
    let quick = words.contains(&"--quick");
    let month = old_history::MONTH;
    let shape = match quick {
        true => old_history::Shape {
            ticks: month.ticks / 30,
            process_rows: month.process_rows / 30,
            ..month
        },
        false => month,
    };
    let directory = tempfile::tempdir().expect("a temporary directory can be created");
    let (old, ours) = (
        directory.path().join("old.db"),
        directory.path().join("ours.db"),
    );
    let (_, made) = timed(|| old_history::write(&old, &shape, end));
    print_timing("make the old file", made, 0.0);
    let rows = rows(&shape);
    let (imported, first) = timed(|| import(&old, &ours));
    imported.expect("the file is a history");
    print_timing("import", first, rows);
    let (again, second) = timed(|| import(&old, &ours));
    again.expect("the file is the same");
    print_timing("import again", second, rows);
    read(&old);
    let (before, after) = (size(&old), size(&ours));
    output(&format!(
        "size: {before} bytes before, {after} after (1/{:.1})",
        before as f64 / after as f64
    ));
    let rate = rows / first.as_secs_f64();
    assert!(
        quick || rate >= PROMISED,
        "{rate:.0} rows/s are fewer than promised"
    );
}

/// Reads an old file in place as a report does: everything, and the last hour.
fn read(old: &Path) {
    let file = OldFile::open(old).expect("the file is a history");
    let all = Period::new(Timestamp::MIN, Timestamp::MAX);
    let mut last = Timestamp::MIN;
    let (read, took) = timed(|| file.imported_moments(all, &mut |moment| last = moment.at));
    read.expect("the file is a history");
    print_timing("read in place", took, 0.0);
    let hour = Period::new(last - SignedDuration::from_hours(1), Timestamp::MAX);
    for (name, window) in [("all", all), ("last hour", hour)] {
        let (mut totals, mut pieces) = (0, 0);
        let mut count = |_: Quarter, gpus: &[GpuQuarter]| {
            totals += gpus.len();
            let sessions = gpus.iter().map(|gpu| gpu.total.imported_sessions().len());
            pieces += sessions.sum::<usize>();
        };
        let rule = Thresholds::default();
        let (counted, took) = timed(|| file.totals(Origin::Imported, window, rule, &mut count));
        counted.expect("the file is a history");
        print_timing(&format!("report of {name}"), took, 0.0);
        output(&format!("  {totals} totals, {pieces} pieces of sessions"));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    output(peak.unwrap_or_default());
}

fn import(old: &Path, ours: &Path) -> Result<(), LegacyError> {
    let mut store = Store::open(ours, OpenMode::CreateOrAppend, &WriterOptions::default())
        .expect("a history can be created");
    gua_compat::gpu_usage_audit::import(&mut store, old, Timestamp::UNIX_EPOCH, &mut |_| {
        ControlFlow::Continue(())
    })?;
    store.close().expect("a history can be closed");
    Ok(())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a few million rows are far below 2^52"
)]
fn rows(shape: &old_history::Shape) -> f64 {
    (shape.gpu_rows() + shape.process_rows) as f64
}

/// CPU time in user mode and in the kernel.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = processor_time();
    let result = work();
    (result, processor_time() - began)
}

fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |facts| facts.len())
}

fn print_timing(what: &str, took: Duration, rows: f64) {
    let seconds = took.as_secs_f64();
    let rate = if rows > 0.0 {
        format!(", {:.0} rows/s", rows / seconds)
    } else {
        String::new()
    };
    output(&format!("{what}: {seconds:.2} s{rate}"));
}

#[expect(clippy::print_stdout, reason = "a bench prints its numbers")]
fn output(text: &str) {
    println!("{text}");
}
