//! Spooled pushes: none is lost, and none goes to another board.

use std::collections::BTreeSet;
use std::path::PathBuf;

use gua_wire::Snapshot;

use super::daemon::{daemon, kept, pushes};
use super::sync_once::{enrolled, link};
use crate::{TWO_GPUS, host};
use gua_test::board::{Behaviour, Board};
use gua_test::{TestHost, wait_for};

fn spooling(board: &Board) -> TestHost {
    let host = enrolled(host(TWO_GPUS), board);
    host.write(".gua/config.toml", "cloud.spool_mb = 1\n");
    host
}

fn waiting(host: &TestHost) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(host.state("cloud.json-spool"));
    let paths = entries.into_iter().flatten().flatten();
    let paths = paths.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect()
}

/// Sample times of the spooled pushes.
fn spooled(host: &TestHost) -> BTreeSet<String> {
    let read = waiting(host).into_iter().map(|path| {
        let push: Snapshot = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        push.observed_at
    });
    read.collect()
}

/// Runs a daemon with a board that accepts nothing until some pushes have failed, then stops it.
fn miss(host: &TestHost, board: &Board, behaviour: Behaviour) {
    board.behaves(behaviour);
    let before = board.attempts();
    let mut daemon = daemon(host);
    wait_for("some ticks", || {
        (kept(host).len() > 5 && board.attempts() > before).then_some(())
    });
    daemon.stop();
}

#[test]
fn spooled_pushes_outlive_the_daemon_and_are_sent_later() {
    let check = |behaviour: Behaviour| {
        let what = format!("{behaviour:?}");
        let board = Board::start();
        let host = spooling(&board);
        miss(&host, &board, behaviour);
        let missed = kept(&host);
        assert_eq!(spooled(&host), missed, "{what}");
        let expected = format!("  spooled pushes: {}\n", missed.len());
        assert!(host.fine("status").contains(&expected), "{what}");
        board.behaves(Behaviour::Accepts);
        board.take();
        let line = "daemon --foreground --cloud --interval 100ms --append";
        let mut daemon = host.foreground(line);
        let mut got = BTreeSet::new();
        wait_for("all that was missed", || {
            got.extend(pushes(&board).into_iter().map(|push| push.observed_at));
            missed.is_subset(&got).then_some(())
        });
        wait_for("nothing waits", || waiting(&host).is_empty().then_some(()));
        daemon.stop();
        assert_eq!(link(&host).unwrap().dropped, 0, "{what}");
    };
    // A push in flight, and those queued behind it, must not be lost when the daemon stops.
    check(Behaviour::Silent);
    check(Behaviour::Responds(503, String::new()));
    // A token that is accepted again, and an address that is reachable again.
    check(Behaviour::Responds(401, String::new()));
    check(Behaviour::Redirects("http://127.0.0.1:9/".to_owned()));
}

#[test]
fn a_spool_that_cannot_be_opened_costs_only_failed_pushes() {
    let check = |why: &str, host: &TestHost| {
        let mut daemon = host.foreground(
            "daemon --foreground --cloud --interval 100ms --append --db second.db --pid-file second.pid",
        );
        wait_for("ticks", || {
            (host.ticks("second.db").len() > 2).then_some(())
        });
        let place = host.state("cloud.json-spool");
        let expected = format!("cannot use spool `{}`: {why}", place.display());
        wait_for("the error in the status", || {
            host.fine("status").contains(&expected).then_some(())
        });
        daemon.stop();
        assert_eq!(daemon.stderr().matches(&expected).count(), 1);
    };
    let board = Board::start();
    let host = spooling(&board);
    host.write(".gua/cloud.json-spool", "not a directory");
    check("File exists", &host);
    std::fs::remove_file(host.state("cloud.json-spool")).unwrap();
    // Of two daemons with one enrolment, the second runs without a spool.
    host.fine("daemon --cloud --interval 1h");
    wait_for("the spool", || {
        host.state("cloud.json-spool").exists().then_some(())
    });
    check("another daemon with this enrolment", &host);
    host.fine("stop");
}

#[test]
fn the_spool_is_counted_when_status_is_called() {
    let board = Board::start();
    let host = spooling(&board);
    miss(&host, &board, Behaviour::Responds(503, String::new()));
    let files = waiting(&host);
    std::fs::remove_file(&files[0]).unwrap();
    let expected = format!("  spooled pushes: {}\n", files.len() - 1);
    let output = host.fine("status");
    assert!(output.contains(&expected), "{output}");
}

#[test]
fn spooled_pushes_are_dropped_when_their_board_is_removed() {
    let check = |command: &dyn Fn(&TestHost, &Board) -> String| {
        let (old, new) = (Board::start(), Board::start());
        let host = spooling(&old);
        miss(&host, &old, Behaviour::Responds(503, String::new()));
        let missed = waiting(&host).len();
        let output = command(&host, &new);
        let expected = format!("  dropped: {missed} spooled pushes for the previous board");
        assert!(output.contains(&expected), "{output}");
        assert!(!host.state("cloud.json-spool").exists());
        assert!(!host.state("cloud.json-link").exists());
        assert!(new.take().iter().all(|one| one.line.contains("claim")));
    };
    check(&|host, _| host.fine("unenroll"));
    check(&|host, new| {
        host.fine(&format!(
            "enroll --force --server-url {} --enrollment-token gua_enroll_x",
            new.url()
        ))
    });
}

#[test]
fn pushes_spooled_for_another_board_are_dropped_and_logged() {
    let check = |change: &dyn Fn(&TestHost, &Board)| {
        let (old, new) = (Board::start(), Board::start());
        let host = spooling(&old);
        miss(&host, &old, Behaviour::Responds(503, String::new()));
        old.behaves(Behaviour::Accepts);
        old.take();
        let missed = kept(&host);
        change(&host, &new);
        let mut daemon = host.foreground("daemon --foreground --cloud --interval 100ms --append");
        wait_for("a push", || {
            let got = [pushes(&old), pushes(&new)].concat();
            assert!(got.iter().all(|push| !missed.contains(&push.observed_at)));
            (!got.is_empty() && waiting(&host).is_empty()).then_some(())
        });
        daemon.stop();
        let expected = format!(
            "dropped missed pushes for another board, host or setting of cloud.users (dropped={})",
            missed.len()
        );
        let output = daemon.stderr();
        assert!(output.contains(&expected), "{output}");
    };
    // The enrolment file is replaced by hand, without `gua enroll`.
    check(&|host, new| {
        let file = host.read(".gua/cloud.json");
        let old = file
            .split("http")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        host.write(
            ".gua/cloud.json",
            file.replace(&format!("http{old}"), &new.url()),
        );
    });
    check(&|host, _| {
        let file = host.read(".gua/cloud.json").replace("\"h1\"", "\"h2\"");
        host.write(".gua/cloud.json", &file);
    });
    check(&|host, _| {
        let settings = "cloud.spool_mb = 1\ncloud.users = \"omit\"\n";
        host.write(".gua/config.toml", settings);
    });
}

#[test]
fn no_link_state_is_left_next_to_any_history() {
    let board = Board::start();
    let host = spooling(&board);
    board.behaves(Behaviour::Responds(503, String::new()));
    std::fs::create_dir(host.path("a")).unwrap();
    let mut daemon = host.foreground("daemon --foreground --cloud --interval 100ms --db a/b.db");
    wait_for("some wait", || (waiting(&host).len() > 1).then_some(()));
    daemon.stop();
    board.behaves(Behaviour::Accepts);
    host.fine("sync-archive --db a/b.db");
    assert!(host.state("cloud.json-archive").exists());
    host.fine("unenroll");
    for directory in ["a", ".gua"] {
        let names = std::fs::read_dir(host.path(directory)).unwrap();
        for name in names.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
            for ending in ["-link", "-spool", "-archive"] {
                assert!(!name.ends_with(ending), "{name}");
            }
        }
    }
}
