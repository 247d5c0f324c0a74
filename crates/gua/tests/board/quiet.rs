//! Who is not enrolled contacts nobody: the kernel is asked which sockets were made.

use std::process::{Command, Stdio};

use crate::host::{Host, TWO_CARDS, until};
use crate::server::Board;
use crate::sync_once::enrolled;

/// Runs `gua` under strace and returns the sockets of the internet that it or its children made.
fn sockets(host: &Host, line: &str) -> Vec<String> {
    let trace = host.path("trace");
    let traced = host
        .command("strace")
        .args(["-f", "-qq", "-e", "trace=socket", "-o"])
        .arg(&trace)
        .arg(env!("CARGO_BIN_EXE_gua"))
        .args(line.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .expect("strace is needed to see which sockets are made");
    let complaint = String::from_utf8_lossy(&traced.stderr);
    assert!(traced.status.success(), "{line}: {complaint}");
    let trace = std::fs::read_to_string(trace).unwrap();
    let internet = trace.lines().filter(|call| call.contains("AF_INET"));
    internet.map(str::to_owned).collect()
}

#[test]
fn without_enrolment_collecting_listing_and_reporting_open_no_internet_socket() {
    let host = Host::new(TWO_CARDS);
    host.fine("daemon --interval 50ms");
    until("some ticks", || {
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
        "config show",
        "unenroll",
    ] {
        assert_eq!(sockets(&host, line), [""; 0], "{line}");
    }
}

#[test]
fn a_collector_opens_no_internet_socket_unless_it_is_to_report() {
    let board = Board::start();
    let host = enrolled(Host::new(TWO_CARDS), &board);
    let collect = |line: &str| {
        // Ended by its own timer, since strace hands on no signal to the one it traces.
        let trace = host.path("trace");
        let mut traced = Command::new("timeout");
        let traced = traced
            .args([
                "--signal=TERM",
                "2",
                "strace",
                "-f",
                "-qq",
                "-e",
                "trace=socket",
                "-o",
            ])
            .arg(&trace)
            .arg(env!("CARGO_BIN_EXE_gua"))
            .args(line.split_whitespace())
            .envs(
                host.command("true")
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .current_dir(host.path(""))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&traced.stdout);
        assert!(said.contains("Tick 3"), "{line}: {said}");
        let trace = std::fs::read_to_string(trace).unwrap();
        trace.contains("AF_INET")
    };
    assert!(!collect("daemon --foreground --interval 100ms"));
    assert!(board.take().is_empty());
    // The same look sees the sockets of one that reports.
    assert!(collect("daemon --foreground --interval 100ms --cloud"));
}
