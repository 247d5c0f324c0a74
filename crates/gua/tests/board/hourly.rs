//! A daemon whose next tick is an hour away: `gua status` shows the result of the last push meanwhile, and an
//! unenrolled board stays removed.

use super::sync_once::{enrolled, link};
use crate::{TWO_GPUS, host};
use gua_test::board::{Behaviour, Board};
use gua_test::{Running, TestHost, wait_for};

fn hourly(host: &TestHost) -> Running {
    host.foreground("daemon --foreground --cloud --interval 1h")
}

/// All files that hold state about a board link.
fn link_files(host: &TestHost) -> Vec<String> {
    let entries = std::fs::read_dir(host.path(".gua")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.ends_with("-link") || name.ends_with("-spool"))
        .collect()
}

#[test]
fn a_push_is_shown_long_before_the_next_tick() {
    let board = Board::start();
    // A stream that connects would cause the state to be written, and hide that a push alone does not.
    board.behaves(Behaviour::Rejects("stream", 503));
    let host = enrolled(host(TWO_GPUS), &board);
    let mut daemon = hourly(&host);
    wait_for("the push in the status", || {
        link(&host).filter(|link| link.last_push.is_some())
    });
    let output = host.fine("status");
    assert!(!output.contains("none yet"), "{output}");
    daemon.stop();
}

#[test]
fn an_unenrolled_host_keeps_nothing_of_its_link() {
    let check = |settings: &str, manner: Behaviour| {
        let what = format!("{settings} {manner:?}");
        let board = Board::start();
        let host = enrolled(host(TWO_GPUS), &board);
        host.write(".gua/config.toml", settings);
        board.behaves(manner);
        let mut daemon = hourly(&host);
        wait_for("the result of a push in the status", || {
            link(&host).filter(|link| link.last_push.is_some() || link.failures > 0)
        });
        host.fine("unenroll");
        daemon.stop();
        assert_eq!(link_files(&host), [""; 0], "{what}");
    };
    check(
        "cloud.spool_mb = 1\n",
        Behaviour::Responds(503, String::new()),
    );
    check("cloud.spool_mb = 1\n", Behaviour::Accepts);
    check("", Behaviour::Accepts);
}
