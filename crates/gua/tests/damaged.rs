//! Histories with impossible rows: every command ends, without a panic, and takes no longer than on a healthy one.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use gua_probe::clock;
use gua_probe::process::parse;
use gua_test::TestHost;
use gua_test::damage::{DAMAGES, damage};
use gua_test::recorded::record;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::{TWO_GPUS, host};

const DB: &str = ".gua/gua.db";

/// Commands that read a history, with windows that reach over all of it.
const COMMANDS: [&str; 19] = [
    "report --since 1990-01-01 --tz UTC",
    "report --since 2025-10-01 --until 2025-10-04 --tz UTC --json",
    "statement --month 2025-10 --tz UTC",
    "plot --since 1990-01-01 --tz UTC --format text",
    "explain 0 --at 2025-10-02T01:00:00Z --tz UTC",
    "explain 0 --at 2025-10-02T12:00:00Z --tz UTC",
    "export --what samples --output samples.csv",
    "export --what processes --format jsonl --output samples.csv",
    "export --what sessions --output samples.csv",
    "export --what totals --output samples.csv",
    "export --what user-totals --format parquet --output samples.csv",
    "export --by job --output samples.csv",
    "export --format gpu-usage-audit --output old.db",
    "quota show",
    "db check",
    "list",
    "runs list",
    "db stats",
    "db repair",
];

/// Processor time that a command on a damaged history may take beyond that on a healthy one.
const LIMIT: Duration = Duration::from_secs(1);
/// Time after which a command does not end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Three hours of two GPUs on each of two days, after some imported rows.
fn recorded() -> TestHost {
    let host = host(TWO_GPUS);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../gua-compat/tests/golden/gpu-usage-audit-1.8.0.db");
    let db = host.path(DB);
    let gpus = |_| vec![(50, &["ada"][..]), (0, &["bob"][..])];
    record(&db, "2025-10-02T00:00:00Z".parse().unwrap(), 180, gpus);
    record(&db, "2025-10-03T13:00:00Z".parse().unwrap(), 180, gpus);
    host.fine(&format!("import {}", golden.display()));
    host.fine("quota set --everyone --held 3h --per 1000d");
    host
}

/// Runs a command to its end. Returns its exit status, and the processor time of it and of the processes that it started. The
/// time on the clock would depend on what else the machine does.
fn run(host: &TestHost, line: &str) -> (Option<i32>, Duration, String) {
    let mut command = host.gua_command(line);
    let error = host.path("stderr");
    command.stdout(Stdio::null());
    command.stderr(File::create(&error).unwrap());
    let mut child = command.spawn().unwrap();
    let time = processor_time(&mut child);
    let status = child.wait().unwrap();
    (status.code(), time, fs::read_to_string(error).unwrap())
}

/// Waits for the end of a process. One that does not end is killed.
fn processor_time(child: &mut Child) -> Duration {
    let deadline = clock::monotonic() + TIMEOUT;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while waitid(WaitId::Pid(Pid::from_child(child)), options)
        .unwrap()
        .is_none()
    {
        if clock::monotonic() > deadline {
            child.kill().unwrap();
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    // A process that has ended and was not waited for still has its times.
    let stat = fs::read(format!("/proc/{}/stat", child.id())).unwrap();
    let (_, stat) = parse::stat(&stat).unwrap();
    // A hundred ticks per second on every Linux.
    Duration::from_millis(stat.ticks * 10)
}

#[test]
fn every_command_on_a_damaged_history_ends_as_soon_as_on_a_healthy_one() {
    let host = recorded();
    let healthy = host.path("healthy.db");
    fs::copy(host.path(DB), &healthy).unwrap();
    let results = ["samples.csv", "old.db"].map(|name| host.path(name));
    let run = |line: &str| {
        let ended = run(&host, line);
        for file in &results {
            // Only exports leave one.
            let _ = fs::remove_file(file);
        }
        ended
    };
    let expected = COMMANDS.map(|line| {
        let (code, time, error) = run(line);
        assert_eq!(code, Some(0), "{line}: {error}");
        time
    });
    let mut faults = Vec::new();
    for (kind, statements) in DAMAGES {
        fs::copy(&healthy, host.path(DB)).unwrap();
        damage(&host.path(DB), statements);
        for (line, expected) in COMMANDS.iter().zip(expected) {
            let (code, time, error) = run(line);
            // Whatever is stored, a report is of the rest.
            let reports = ["report", "statement", "plot", "quota"];
            let is_report = reports.iter().any(|name| line.starts_with(name));
            let last_code = if is_report { 0 } else { 3 };
            let has_ended = code.is_some_and(|code| (0..=last_code).contains(&code));
            if !has_ended || error.contains("panicked") || time > expected + LIMIT {
                faults.push(format!(
                    "{line} with {kind}: {code:?} after {time:?}, healthy {expected:?}: {error}"
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
