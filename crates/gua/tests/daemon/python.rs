//! The Python tool and ours on one host: each manages the other's collector, and neither touches the other's file.

use std::path::Path;

use gua_compat::gpu_usage_audit::OldFile;
use gua_query::Records as _;

use crate::{TWO_GPUS, host};
use gua_test::originals::{self, released};
use gua_test::recorded::always;
use gua_test::{Ended, TestHost, is_running, wait_for};

fn run(host: &TestHost, program: &Path, line: &str) -> String {
    let mut command = host.command(program);
    command.args(line.split(' '));
    // Its NVML binding finds the library through the system's loader.
    command.env("LD_LIBRARY_PATH", host.path(""));
    let ended = Ended::from(command.output().unwrap());
    assert_eq!(ended.code, 0, "{line}: {ended:?}");
    ended.stdout
}

#[test]
fn the_python_tool_sees_and_stops_our_daemon() {
    if !originals::run_live() {
        return;
    }
    let host = host(TWO_GPUS);
    let python = released("1.8.0");
    host.fine("start --interval 20ms");
    let pid = host.pid().unwrap();
    let status = run(&host, &python, "status");
    assert!(status.contains(&format!("running (pid {pid})")), "{status}");
    let start = run(&host, &python, "start");
    assert!(
        start.contains(&format!("already running (pid {pid})")),
        "{start}"
    );
    assert_eq!(
        run(&host, &python, "stop"),
        format!("gua daemon: stopped pid {pid}\n")
    );
    assert!(!is_running(pid));
    let log = host.log();
    // On a busy machine a line about lost ticks can follow.
    let ended = |line: &str| line.ends_with("total gpu_sample rows");
    assert!(log.lines().any(ended), "no clean shutdown: {log}");
}

#[test]
fn our_daemon_waits_for_the_python_collector_and_then_imports_its_history() {
    if !originals::run_live() {
        return;
    }
    let host = host(TWO_GPUS);
    let python = released("1.1.0");
    run(&host, &python, "start --interval 100ms");
    let pid = host.pid().unwrap();
    assert_eq!(
        host.fine("start"),
        format!("gua daemon: already running (pid {pid})\n")
    );
    let ended = host.gua("daemon --foreground");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains(&format!("pid {pid}")) && ended.stderr.contains("stop"),
        "{ended:?}"
    );
    let status = host.fine("status");
    assert!(
        status.contains("  collector: gpu-usage-audit (Python)\n"),
        "{status}"
    );
    // Its start command does not wait for the first tick, and a collector stopped too early prints nothing.
    wait_for("rows of the Python tool", || {
        let old = OldFile::open(&host.state("gua.db")).ok()?;
        let mut rows = 0;
        old.imported_moments(always(), &mut |_| rows += 1).ok()?;
        (rows >= 2).then_some(())
    });
    assert_eq!(
        host.fine("stop"),
        format!("gua daemon: stopped pid {pid}\n")
    );
    assert!(!is_running(pid));

    let rows: usize = wait_for("the last line of the Python tool", || {
        let log = host.log();
        let line = log
            .lines()
            .rev()
            .find(|line| line.ends_with(" total gpu_sample rows"))?;
        line.rsplit(' ').nth(3)?.parse().ok()
    });
    assert!(rows >= 2, "{}", host.log());
    host.fine("start --interval 1h");
    host.fine("stop");
    let log = host.log();
    assert!(
        log.contains("history of gpu-usage-audit imported and verified (renamed_to="),
        "{log}"
    );
    let aside = log.rsplit_once("(renamed_to=").unwrap().1;
    let aside = Path::new(aside.split(')').next().unwrap());
    assert!(aside.exists(), "{}", aside.display());
    assert_eq!(host.ticks(".gua/gua.db").len(), 1);
    assert!(
        log.ends_with(&format!("gua.db: {} total gpu_sample rows\n", rows + 2)),
        "old and new rows together: {log}"
    );
}
