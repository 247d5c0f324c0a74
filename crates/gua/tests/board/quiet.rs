//! Without an enrolment no network connection is made: strace lists the sockets that were opened.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Pid, Signal};

use super::sync_once::enrolled;
use crate::{GUA, TWO_GPUS, host};
use gua_test::board::Board;
use gua_test::{TestHost, wait_for};

/// `gua` under strace, which records the sockets that it and its children open.
fn strace(host: &TestHost, line: &str) -> Command {
    let mut command = host.command("strace");
    command
        .args(["-f", "-qq", "--seccomp-bpf", "-e", "trace=socket", "-o"])
        .arg(host.path("trace"))
        .arg(GUA)
        .args(line.split_whitespace());
    command
}

/// Internet sockets among those that were opened.
fn internet(host: &TestHost) -> Vec<String> {
    let trace = host.read("trace");
    let calls = trace.lines().filter(|call| call.contains("AF_INET"));
    calls.map(str::to_owned).collect()
}

fn sockets(host: &TestHost, line: &str) -> Vec<String> {
    let traced = strace(host, line)
        .output()
        .expect("strace is needed to list the sockets");
    let complaint = String::from_utf8_lossy(&traced.stderr);
    assert!(traced.status.success(), "{line}: {complaint}");
    internet(host)
}

#[test]
fn without_enrolment_collecting_listing_and_reporting_open_no_internet_socket() {
    let host = host(TWO_GPUS);
    host.fine("daemon --interval 50ms");
    wait_for("some ticks", || {
        (host.ticks(".gua/gua.db").len() > 5).then_some(())
    });
    host.fine("stop");
    for line in [
        "list",
        "available",
        "report",
        "doctor",
        "status",
        "top --once",
        "explain 0",
        "statement",
        "plot -o week.svg",
        "export -o samples.csv",
        "quota show",
        "runs list",
        "config show",
        "unenroll",
    ] {
        assert_eq!(sockets(&host, line), [""; 0], "{line}");
    }
}

#[test]
fn a_collector_opens_no_internet_socket_unless_it_pushes() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let collect = |line: &str| {
        let mut command = strace(&host, line);
        // The signal goes to strace and the traced process.
        command.process_group(0);
        let mut daemon = host.start(command);
        wait_for("some ticks", || {
            daemon.stdout().contains("Tick 3").then_some(())
        });
        let group = Pid::from_child(&daemon.child);
        rustix::process::kill_process_group(group, Signal::TERM).unwrap();
        daemon.child.wait().unwrap();
        !internet(&host).is_empty()
    };
    assert!(!collect("daemon --foreground --interval 100ms"));
    assert!(board.take().is_empty());
    // The same method does see the sockets of a collector that pushes.
    assert!(collect("daemon --foreground --interval 100ms --cloud"));
}
