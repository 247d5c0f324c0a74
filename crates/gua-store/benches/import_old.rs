//! How fast an old history is imported, and how large it is then: twelve cards for thirty days at thirty seconds.
//!
//! `cargo bench -p gua-store --bench import_old` prints rows a second; `--quick` takes a day instead of a month.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use gua_store::legacy::{LegacyError, OldFile};
use gua_store::{OpenMode, Store, WriterOptions};
use jiff::Timestamp;

#[path = "synthetic/old.rs"]
mod synthetic;

/// The least that is promised.
const PROMISED: f64 = 300_000.0;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let month = synthetic::MONTH;
    let shape = match quick {
        true => synthetic::Shape {
            ticks: month.ticks / 30,
            process_rows: month.process_rows / 30,
            ..month
        },
        false => month,
    };
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let (old, ours) = (
        directory.path().join("old.db"),
        directory.path().join("ours.db"),
    );
    let end = "2026-11-01T00:00:00Z"
        .parse::<Timestamp>()
        .expect("this is a time");
    let (_, made) = timed(|| synthetic::write(&old, &shape, end));
    say("make the old file", made, 0.0);
    let rows = rows(&shape);
    let (imported, first) = timed(|| import(&old, &ours));
    imported.expect("the file is a history");
    say("import", first, rows);
    let (again, second) = timed(|| import(&old, &ours));
    again.expect("the file is the same");
    say("import again", second, rows);
    let all = gua_model::Period::new(Timestamp::MIN, Timestamp::MAX);
    let (folded, third) = timed(|| {
        let old = OldFile::open(&old)?;
        old.fold(all, || 0_u64, |sum, _| *sum += 1)
    });
    folded.expect("the file is a history");
    say("read in place", third, rows);
    let (before, after) = (size(&old), size(&ours));
    output(&format!(
        "size: {before} bytes there, {after} here (1/{:.1})",
        before as f64 / after as f64
    ));
    let rate = rows / first.as_secs_f64();
    assert!(
        quick || rate >= PROMISED,
        "{rate:.0} rows/s are fewer than promised"
    );
}

fn import(old: &Path, ours: &Path) -> Result<(), LegacyError> {
    let mut store = Store::open(ours, OpenMode::CreateOrAppend, &WriterOptions::default())
        .expect("a history can be made");
    store.import_old(old, Timestamp::UNIX_EPOCH, &mut |_| {
        ControlFlow::Continue(())
    })?;
    store.close().expect("a history can be closed");
    Ok(())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a few million rows are far below 2^52"
)]
fn rows(shape: &synthetic::Shape) -> f64 {
    (shape.card_rows() + shape.process_rows) as f64
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = std::time::Instant::now();
    let result = work();
    (result, began.elapsed())
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |facts| facts.len())
}

fn say(what: &str, took: Duration, rows: f64) {
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
