//! The load bench of a board: 12,500 hosts with 8 GPUs each push every 30 s into SQLite for five minutes, 1,000 of them
//! with streams, while the availability page is loaded; then the board is killed twenty times under that load. Every
//! acknowledged push must be stored. It exits with 1 if a limit is exceeded.
//!
//! `scripts/bench board` runs it. `--hosts 1000 --seconds 30 --kills 3` makes it smaller; streams shrink with the hosts.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints its figures"
)]

use std::process::ExitCode;
use std::time::Duration;

use gua_test::load::{Limits, Load};

const LIMITS: Limits = Limits {
    push_p99: Duration::from_millis(200),
    page_p99: Duration::from_millis(200),
    page_bytes: 100_000,
    start: Duration::from_secs(1),
    memory_growth: 10,
};

const USAGE: &str = "usage: scripts/bench board [--hosts N] [--streams N] [--period SECONDS] [--seconds N] [--pages PER_SECOND] [--kills N]";

fn main() -> ExitCode {
    let data = tempfile::tempdir().expect("a temporary directory can be created");
    let Some(load) = load(data.path().join("board")) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    println!(
        "{} hosts with {} GPUs every {:?} for {:?}, {} streams, {} pages a second, {} kills",
        load.hosts, load.gpus, load.period, load.duration, load.streams, load.pages, load.kills
    );
    let outcome = load.run();
    print!("{outcome}");
    let breaches = outcome.breaches(&LIMITS);
    for breach in &breaches {
        eprintln!("over the limit: {breach}");
    }
    match breaches.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Reads the arguments; `None` if they are wrong.
fn load(directory: std::path::PathBuf) -> Option<Load> {
    let mut load = Load {
        gua: env!("CARGO_BIN_EXE_gua").into(),
        directory,
        hosts: 12_500,
        gpus: 8,
        streams: 1000,
        period: Duration::from_secs(30),
        duration: Duration::from_secs(300),
        pages: 4,
        kills: 20,
    };
    // `cargo bench` passes `--bench`.
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let mut streams = None;
    while let Some(name) = words.next() {
        let value: u32 = words.next()?.parse().ok()?;
        match name.as_str() {
            "--hosts" => load.hosts = value,
            "--streams" => streams = Some(value),
            "--period" => load.period = Duration::from_secs(value.into()),
            "--seconds" => load.duration = Duration::from_secs(value.into()),
            "--pages" => load.pages = value,
            "--kills" => load.kills = value,
            _ => return None,
        }
    }
    load.streams = streams.unwrap_or(load.streams * load.hosts / 12_500);
    (load.hosts > 0 && !load.period.is_zero()).then_some(load)
}
