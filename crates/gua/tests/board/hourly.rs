//! A daemon whose next tick is an hour away: what became of the last push is shown meanwhile, and a board that is forgotten
//! stays forgotten.

use super::sync_once::{enrolled, link};
use crate::{TWO_GPUS, host};
use gua_test::board::{Behaviour, Board};
use gua_test::{Running, TestHost, wait_for};

fn hourly(host: &TestHost) -> Running {
    host.foreground("daemon --foreground --cloud --interval 1h")
}

/// What is kept of a link, wherever.
fn kept_of_a_link(host: &TestHost) -> Vec<String> {
    let entries = std::fs::read_dir(host.path(".gua")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.ends_with("-link") || name.ends_with("-spool"))
        .collect()
}

#[test]
fn a_push_is_shown_long_before_the_next() {
    let board = Board::start();
    // A stream that came and went would have the state written, and hide that a push alone does not.
    board.behaves(Behaviour::Rejects("stream", 503));
    let host = enrolled(host(TWO_GPUS), &board);
    let mut daemon = hourly(&host);
    wait_for("the push is known", || {
        link(&host).filter(|link| link.last_push.is_some())
    });
    let said = host.fine("status");
    assert!(!said.contains("none yet"), "{said}");
    daemon.stop();
}

#[test]
fn a_host_that_is_unenrolled_leaves_nothing_of_its_link() {
    let check = |settings: &str, manner: Behaviour| {
        let what = format!("{settings} {manner:?}");
        let board = Board::start();
        let host = enrolled(host(TWO_GPUS), &board);
        host.write(".gua/config.toml", settings);
        board.behaves(manner);
        let mut daemon = hourly(&host);
        wait_for("what became of a push is known", || {
            link(&host).filter(|link| link.last_push.is_some() || link.failures > 0)
        });
        host.fine("unenroll");
        daemon.stop();
        assert_eq!(kept_of_a_link(&host), [""; 0], "{what}");
    };
    check(
        "cloud.spool_mb = 1\n",
        Behaviour::Responds(503, String::new()),
    );
    check("cloud.spool_mb = 1\n", Behaviour::Accepts);
    check("", Behaviour::Accepts);
}
