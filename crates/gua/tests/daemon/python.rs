//! The Python tool and ours on one host: each manages the other's collector, and neither touches the other's file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use gua_store::legacy::OldFile;

use crate::host::{Host, TWO_CARDS, always, ended, exists, until};

/// Python 3.12 or later: on PATH, else under pyenv's versions folder.
fn python() -> PathBuf {
    let is_new_enough = |python: &Path| {
        let check = "import sys; sys.exit(sys.version_info < (3, 12))";
        let run = Command::new(python).args(["-c", check]).output();
        run.is_ok_and(|output| output.status.success())
    };
    let home = std::env::home_dir().unwrap();
    let mut candidates = vec![PathBuf::from("python3")];
    if let Ok(versions) = std::fs::read_dir(home.join(".pyenv/versions")) {
        candidates.extend(
            versions
                .flatten()
                .map(|version| version.path().join("bin/python3")),
        );
    }
    candidates
        .into_iter()
        .find(|python| is_new_enough(python))
        .expect("Python 3.12 or later, on PATH or under ~/.pyenv/versions")
}

/// The released tool in an environment of its own beside the build, made at first use.
fn released(version: &str) -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_gua"));
    let target = binary.ancestors().nth(2).unwrap();
    let tools = target.join("test-tools");
    std::fs::create_dir_all(&tools).unwrap();
    let name = format!("gpu-usage-audit-{version}");
    // Tests run side by side, in this process and in others; one of them makes the environment.
    let lock = File::create(tools.join(format!("{name}-daemon.lock"))).unwrap();
    lock.lock().unwrap();
    let environment = tools.join(format!("{name}-daemon"));
    let finished = environment.join("finished");
    if !finished.exists() {
        let made = Command::new(python())
            .args(["-m", "venv"])
            .arg(&environment)
            .output();
        assert!(
            made.unwrap().status.success(),
            "cannot make a Python environment"
        );
        let fetched = Command::new(environment.join("bin/python"))
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .arg(format!("gpu-usage-audit=={version}"))
            .output()
            .unwrap();
        assert!(
            fetched.status.success(),
            "cannot fetch gpu-usage-audit: connect to a Python package index, or point pip at a mirror: {}",
            String::from_utf8_lossy(&fetched.stderr)
        );
        File::create(finished).unwrap();
    }
    environment.join("bin/gua")
}

fn run(host: &Host, program: &Path, line: &str) -> String {
    let mut command = host.command(program);
    command.args(line.split(' '));
    // Its NVML binding asks the system's loader.
    command.env("LD_LIBRARY_PATH", host.path(""));
    let ended = ended(command.output().unwrap());
    assert_eq!(ended.code, 0, "{line}: {ended:?}");
    ended.stdout
}

#[test]
fn the_python_tool_sees_and_stops_our_daemon() {
    let host = Host::new(TWO_CARDS);
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
    assert!(!exists(pid));
    assert!(
        host.log().ends_with("total gpu_sample rows\n"),
        "an orderly end"
    );
}

#[test]
fn ours_waits_for_the_python_collector_and_then_takes_its_history_over() {
    let host = Host::new(TWO_CARDS);
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
    // Its own start does not wait for it: one that is stopped too early says nothing.
    until("rows of the Python tool", || {
        let old = OldFile::open(&host.state("gua.db")).ok()?;
        let rows = old.fold(always(), || 0, |rows, _| *rows += 1).ok()?;
        (rows >= 2).then_some(())
    });
    assert_eq!(
        host.fine("stop"),
        format!("gua daemon: stopped pid {pid}\n")
    );
    assert!(!exists(pid));

    let rows: usize = until("the last line of the Python tool", || {
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
        log.contains("was taken over and checked; the old file is now `"),
        "{log}"
    );
    let aside = log.rsplit_once("the old file is now `").unwrap().1;
    let aside = Path::new(aside.split('`').next().unwrap());
    assert!(aside.exists(), "{}", aside.display());
    assert_eq!(host.ticks(".gua/gua.db").len(), 1);
    assert!(
        log.ends_with(&format!("gua.db: {} total gpu_sample rows\n", rows + 2)),
        "the old and the new together: {log}"
    );
}
