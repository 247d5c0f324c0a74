//! `gua status` about the board link: any command's push counts, with any history, but never one to another board.

use rustix::process::Signal;

use super::daemon::daemon;
use super::sync_once::enrolled;
use crate::{TWO_GPUS, host, without_driver};
use gua_test::board::{Behaviour, Board, TOKEN};
use gua_test::{TestHost, wait_for};

/// Lines of `gua status` about the board.
#[track_caller]
fn shown(host: &TestHost) -> String {
    let output = host.fine("status");
    let begins = output.find("  board: ").unwrap_or(output.len());
    output[begins..].to_owned()
}

fn refusing() -> Behaviour {
    Behaviour::Responds(503, String::new())
}

#[test]
fn a_push_is_shown_for_any_sender_and_any_history() {
    let check = |host: TestHost, before: &str, push: &str| {
        let board = Board::start();
        let host = enrolled(host, &board);
        if !before.is_empty() {
            host.fine(before);
        }
        let none = match before {
            "" => "none yet",
            _ => {
                "none: the daemon was started without --cloud (`gua stop`, then `gua daemon --cloud`)"
            }
        };
        let none = format!("  board: lab 1 ({})\n  last push: {none}\n", board.url());
        assert_eq!(shown(&host), none, "{push}");
        host.gua(push);
        let status = shown(&host);
        assert!(status.contains("  last push: 2"), "{push}: {status}");
        assert!(!status.contains("error"), "{push}: {status}");
        board.behaves(refusing());
        host.gua(push);
        let status = shown(&host);
        assert!(status.contains("  last push: 2"), "{push}: {status}");
        assert!(
            status.contains("  failed attempts since: 1\n  last error: 2"),
            "{push}: {status}"
        );
    };
    check(host(TWO_GPUS), "", "sync-once");
    // Next to a collector that does not push.
    check(host(TWO_GPUS), "daemon --interval 1h", "sync-once");
    check(host(TWO_GPUS), "", "sync-once --db elsewhere/x.db");
    // Error heartbeats of a host without a driver, from both commands that send them.
    check(without_driver(), "", "sync-once");
    check(without_driver(), "", "daemon --foreground --cloud");
}

#[test]
fn demo_gpus_do_not_change_the_link() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    host.fine("sync-once --fake");
    assert!(shown(&host).ends_with("  last push: none yet\n"));
}

#[test]
fn a_restarted_daemon_keeps_the_link_state_and_a_stopped_one_has_no_stream() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let line = "daemon --cloud --interval 100ms --append --db a.db";
    host.fine(line);
    wait_for("the stream", || {
        shown(&host).contains("  stream: connected\n").then_some(())
    });
    host.fine("stop");
    let status = shown(&host);
    assert!(
        status.contains("  last push: 2") && !status.contains("stream"),
        "{status}"
    );
    board.behaves(refusing());
    let mut again = daemon(&host);
    wait_for("a failure", || {
        shown(&host).contains("  last error: 2").then_some(())
    });
    assert!(shown(&host).contains("  last push: 2"), "{}", shown(&host));
    wait_for("the stream", || {
        shown(&host).contains("  stream: connected\n").then_some(())
    });
    // The daemon is killed before it can record the end of its stream.
    again.signal(Signal::KILL);
    again.child.wait().unwrap();
    assert!(!shown(&host).contains("stream"), "{}", shown(&host));
}

#[test]
fn another_board_has_its_own_link_state() {
    let (old, new) = (Board::start(), Board::start());
    let host = enrolled(host(TWO_GPUS), &old);
    old.behaves(refusing());
    host.gua("sync-once");
    assert!(shown(&host).contains("  last error: 2"));
    host.fine(&format!(
        "enroll --force --server-url {} --enrollment-token gua_enroll_x",
        new.url()
    ));
    let none = format!("  board: lab 1 ({})\n  last push: none yet\n", new.url());
    assert_eq!(shown(&host), none);
    // The enrolment file is replaced by hand under a running daemon.
    let mut daemon = daemon(&host);
    wait_for("a push", || {
        shown(&host).contains("  last push: 2").then_some(())
    });
    let host = enrolled(host, &old);
    wait_for("the other board's failure", || {
        let status = shown(&host);
        (status.contains(&old.url()) && status.contains("  last error: 2")).then_some(())
    });
    let status = shown(&host);
    assert!(status.contains("  last push: none yet\n"), "{status}");
    daemon.stop();
}

#[test]
fn an_unusable_enrolment_is_one_sentence_with_a_hint() {
    let host = host(TWO_GPUS);
    let check = |expected: &str, hint: &str| {
        let output = shown(&host);
        assert_eq!(output.lines().count(), 1, "{output}");
        assert!(
            output.starts_with("  board: unusable enrolment: ") && output.contains(expected),
            "{output}"
        );
        let ended = host.gua("sync-once");
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(
            ended.stderr.contains(expected) && ended.stderr.contains(hint),
            "{ended:?}"
        );
    };
    host.write(".gua/cloud.json", "{}");
    check(
        "is not a valid enrolment",
        "hint: replace it with `gua enroll --force`",
    );
    // A directory, which cannot be read as a file even by root.
    std::fs::remove_file(host.state("cloud.json")).unwrap();
    std::fs::create_dir(host.state("cloud.json")).unwrap();
    check(
        "cannot read",
        "hint: run this as the user who enrolled the host",
    );
}

#[test]
fn world_readable_state_holds_no_secret_even_if_a_board_uses_it_as_a_name() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let file = host.read(".gua/cloud.json");
    let file = file.replace("\"h1\"", &format!("\"{TOKEN}\""));
    let file = file.replace("lab 1", &format!("lab {TOKEN}"));
    assert!(file.matches(TOKEN).count() == 3, "{file}");
    host.write(".gua/cloud.json", &file);
    host.fine("sync-once --archive");
    let output = shown(&host);
    assert!(
        output.contains("lab [hidden]") && !output.contains(TOKEN),
        "{output}"
    );
    for name in ["cloud.json-link", "cloud.json-archive"] {
        let text = host.read(&format!(".gua/{name}"));
        assert!(!text.is_empty() && !text.contains(TOKEN), "{name}: {text}");
    }
}

#[test]
fn a_stream_that_connects_and_drops_is_shown_between_pushes() {
    let board = Board::start();
    board.drops_streams_after(2);
    let host = enrolled(host(TWO_GPUS), &board);
    host.fine("daemon --cloud --interval 1h");
    for line in ["  stream: connected\n", "  stream: not connected\n"].repeat(2) {
        wait_for(line, || shown(&host).contains(line).then_some(()));
    }
}
