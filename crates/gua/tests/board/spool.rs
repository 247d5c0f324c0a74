//! What could not be sent and is wished to be sent late: nothing of it is lost, and none of it goes to another.

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

/// When the pushes were observed that wait.
fn spooled(host: &TestHost) -> BTreeSet<String> {
    let read = waiting(host).into_iter().map(|path| {
        let push: Snapshot = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        push.observed_at
    });
    read.collect()
}

/// Runs a daemon in front of a board that takes nothing, until some ticks are missed, and ends it.
fn miss(host: &TestHost, board: &Board, manner: Behaviour) {
    board.behaves(manner);
    let before = board.attempts();
    let mut daemon = daemon(host);
    wait_for("some ticks", || {
        (kept(host).len() > 5 && board.attempts() > before).then_some(())
    });
    daemon.stop();
}

#[test]
fn what_was_missed_outlives_the_daemon_and_is_sent_late() {
    let check = |manner: Behaviour| {
        let what = format!("{manner:?}");
        let board = Board::start();
        let host = spooling(&board);
        miss(&host, &board, manner);
        let missed = kept(&host);
        assert_eq!(spooled(&host), missed, "{what}");
        let told = format!("  spooled pushes: {}\n", missed.len());
        assert!(host.fine("status").contains(&told), "{what}");
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
    // The push that is on its way, and those that came meanwhile, are in nobody's hands when the daemon is to end.
    check(Behaviour::Silent);
    check(Behaviour::Responds(503, String::new()));
    // A token that is accepted again, an address that comes back.
    check(Behaviour::Responds(401, String::new()));
    check(Behaviour::Redirects("http://127.0.0.1:9/".to_owned()));
}

#[test]
fn a_spool_that_cannot_be_opened_costs_only_what_is_missed() {
    let check = |why: &str, host: &TestHost| {
        let mut daemon = host.foreground(
            "daemon --foreground --cloud --interval 100ms --append --db second.db --pid-file second.pid",
        );
        wait_for("ticks", || {
            (host.ticks("second.db").len() > 2).then_some(())
        });
        let place = host.state("cloud.json-spool");
        let told = format!("cannot use spool `{}`: {why}", place.display());
        wait_for("it is shown", || {
            host.fine("status").contains(&told).then_some(())
        });
        daemon.stop();
        assert_eq!(daemon.stderr().matches(&told).count(), 1);
    };
    let board = Board::start();
    let host = spooling(&board);
    host.write(".gua/cloud.json-spool", "not a directory");
    check("File exists", &host);
    std::fs::remove_file(host.state("cloud.json-spool")).unwrap();
    // Of two daemons of one enrolment, the second does without.
    host.fine("daemon --cloud --interval 1h");
    wait_for("it has a spool", || {
        host.state("cloud.json-spool").exists().then_some(())
    });
    check("another daemon with this enrolment", &host);
    host.fine("stop");
}

#[test]
fn what_waits_is_counted_when_it_is_asked_for() {
    let board = Board::start();
    let host = spooling(&board);
    miss(&host, &board, Behaviour::Responds(503, String::new()));
    let files = waiting(&host);
    std::fs::remove_file(&files[0]).unwrap();
    let told = format!("  spooled pushes: {}\n", files.len() - 1);
    let said = host.fine("status");
    assert!(said.contains(&told), "{said}");
}

#[test]
fn what_waits_for_a_board_is_dropped_with_it() {
    let check = |command: &dyn Fn(&TestHost, &Board) -> String| {
        let (old, new) = (Board::start(), Board::start());
        let host = spooling(&old);
        miss(&host, &old, Behaviour::Responds(503, String::new()));
        let missed = waiting(&host).len();
        let said = command(&host, &new);
        let told = format!("  dropped: {missed} spooled pushes for the previous board");
        assert!(said.contains(&told), "{said}");
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
fn what_was_kept_for_another_is_dropped_and_told() {
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
        let told = format!(
            "dropped missed pushes for another board, host or setting of cloud.users (dropped={})",
            missed.len()
        );
        let said = daemon.stderr();
        assert!(said.contains(&told), "{said}");
    };
    // By hand, without `gua enroll`.
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
fn nothing_of_a_link_is_left_beside_any_history() {
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
