//! PID files of every kind, and the rule that only a collector is ever signalled.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use crate::{GUA, TWO_GPUS, host};
use gua_test::{Ended, is_running, runs_as_root, wait_for};

/// A PID that no process has: the kernel assigns at most four million.
const NO_PROCESS: u32 = 4_194_999;

/// A process with the command line of the Python tool's collector. It runs a script.
fn python_shaped(script: &str) -> Child {
    Command::new("/bin/bash")
        .args(["-c", script, "-m", "gpu_usage_audit", "daemon"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap()
}

#[test]
fn a_pid_file_without_a_number_counts_as_missing_and_stays() {
    let host = host(TWO_GPUS);
    for content in ["", "\n", "gua", "0\n", "-1\n", "12x", "1e3", "99999999999"] {
        let file = host.write(".gua/gua.pid", content);
        for command in ["status", "stop"] {
            assert_eq!(
                host.fine(command),
                "gua daemon: not running\n",
                "{command} with {content:?}"
            );
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), content);
    }
    host.write(".gua/gua.pid", "nonsense that is longer than a pid");
    host.fine("start --interval 1h");
    let pid = host.pid().expect("it was overwritten");
    assert!(is_running(pid));
}

#[test]
fn a_pid_file_of_a_dead_process_is_stale_and_removed() {
    let host = host(TWO_GPUS);
    let file = host.state("gua.pid");
    for (command, expected) in [
        (
            "status",
            format!("gua daemon: not running (stale pid {NO_PROCESS})\n"),
        ),
        (
            "stop",
            format!("gua daemon: not running (removed stale pid {NO_PROCESS})\n"),
        ),
    ] {
        host.write(".gua/gua.pid", format!("  {NO_PROCESS} \n"));
        assert_eq!(host.fine(command), expected);
        assert!(!file.exists(), "{command}");
    }
    host.write(".gua/gua.pid", NO_PROCESS.to_string());
    let output = host.fine("start --interval 1h");
    assert!(
        output.starts_with("gua daemon: started pid "),
        "silently: {output}"
    );
}

#[test]
fn a_foreign_process_is_never_signalled() {
    let host = host(TWO_GPUS);
    let mut foreign = Command::new("/bin/cat")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = foreign.id();
    for command in ["status", "stop"] {
        host.write(".gua/gua.pid", format!("{pid}\n"));
        assert_eq!(
            host.fine(command),
            format!(
                "gua daemon: not running (pid {pid} belongs to another process; cleared stale pid file)\n"
            )
        );
        assert!(!host.state("gua.pid").exists());
    }
    host.write(".gua/gua.pid", format!("{pid}\n"));
    let output = host.fine("start --interval 1h");
    let mut lines = output.lines();
    assert_eq!(
        lines.next(),
        Some(&*format!(
            "gua daemon: pid {pid} belongs to another process; cleared stale pid file"
        ))
    );
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("gua daemon: started pid ")
    );
    assert!(is_running(pid), "still running");
    drop(foreign.stdin.take());
    foreign.wait().unwrap();
}

#[test]
fn our_daemon_with_another_pid_file_is_not_stopped() {
    let host = host(TWO_GPUS);
    host.fine("start --interval 1h --pid-file other.pid --log-file other.log");
    let pid: u32 = host.read("other.pid").trim().parse().unwrap();
    host.write(".gua/gua.pid", format!("{pid}\n"));
    let output = host.fine("stop");
    assert!(output.contains("belongs to another process"), "{output}");
    assert!(is_running(pid), "still running");
    assert_eq!(
        host.fine("stop --pid-file other.pid"),
        format!("gua daemon: stopped pid {pid}\n")
    );
}

#[test]
fn a_collector_of_the_python_tool_is_shown_and_stopped() {
    let host = host(TWO_GPUS);
    let mut python = python_shaped("read line");
    let pid = python.id();
    host.write(".gua/gua.pid", format!("{pid}\n"));
    assert_eq!(
        host.fine("start"),
        format!("gua daemon: already running (pid {pid})\n")
    );
    let status = host.fine("status");
    assert!(
        status.starts_with(&format!("gua daemon: running (pid {pid})\n  pid file: ")),
        "{status}"
    );
    assert_eq!(
        host.fine("stop"),
        format!("gua daemon: stopped pid {pid}\n")
    );
    assert!(!host.state("gua.pid").exists());
    assert!(!python.wait().unwrap().success());
}

#[test]
fn a_collector_that_ignores_the_signal_is_reported_and_its_file_kept() {
    let host = host(TWO_GPUS);
    let mut stubborn =
        python_shaped("trap '' TERM; echo ready; while true; do read -t 60 line; done");
    let mut ready = [0; 6];
    std::io::Read::read_exact(stubborn.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let pid = stubborn.id();
    host.write(".gua/gua.pid", format!("{pid}\n"));
    let ended = host.gua("stop");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("still alive after 5 s"), "{ended:?}");
    assert_eq!(host.pid(), Some(pid));
    stubborn.kill().unwrap();
    stubborn.wait().unwrap();
}

#[test]
fn without_permission_nothing_is_stopped_and_the_file_stays() {
    if !runs_as_root("a collector of another user") {
        return;
    }
    let host = host(TWO_GPUS);
    let mut python = python_shaped("read line");
    let pid = python.id();
    host.write(".gua/gua.pid", format!("{pid}\n"));
    // The other user needs access to the program and the files.
    let program = host.path("gua");
    std::fs::copy(GUA, &program).unwrap();
    for path in [host.path(""), host.path(".gua"), program.clone()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = host
        .command(&program)
        .arg("stop")
        .uid(65534)
        .gid(65534)
        .output();
    let ended = Ended::from(output.unwrap());
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended
            .stderr
            .contains(&format!("not permitted to stop pid {pid}")),
        "{ended:?}"
    );
    assert_eq!(host.pid(), Some(pid));
    assert!(is_running(pid));
    python.kill().unwrap();
    python.wait().unwrap();
}

#[test]
fn an_unwritable_pid_file_is_one_sentence() {
    let host = host(TWO_GPUS);
    std::fs::create_dir_all(host.path("directory.pid")).unwrap();
    let ended = host.gua("start --pid-file directory.pid");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended
            .stderr
            .starts_with("gua daemon: failed to start (exit 1); log: ")
    );
    assert!(ended.stderr.contains("cannot write PID file"), "{ended:?}");
    assert!(!host.state("gua.db").exists());
    wait_for("no daemon", || {
        host.fine("status --pid-file directory.pid")
            .contains("not running")
            .then_some(())
    });
}

#[test]
fn a_custom_pid_file_is_named_in_the_stop_command() {
    let host = host(TWO_GPUS);
    let output = host.fine("start --interval 1h --pid-file other.pid");
    let (_, stop) = output.split_once("  stop: gua ").expect("a way to stop it");
    assert!(stop.starts_with("stop --pid-file "), "{output}");
    let stopped = host.fine(stop.trim());
    assert!(stopped.contains("stopped pid"), "{stopped}");
}
