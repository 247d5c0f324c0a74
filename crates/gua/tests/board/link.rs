//! What `gua status` knows of the link: whoever pushed, whatever history was written, and never of another board.

use rustix::process::Signal;

use super::daemon::daemon;
use super::sync_once::enrolled;
use crate::{TWO_GPUS, host, without_driver};
use gua_test::board::{Behaviour, Board, TOKEN};
use gua_test::{TestHost, wait_for};

/// The lines about the board.
#[track_caller]
fn shown(host: &TestHost) -> String {
    let said = host.fine("status");
    let begins = said.find("  board: ").unwrap_or(said.len());
    said[begins..].to_owned()
}

fn refusing() -> Behaviour {
    Behaviour::Responds(503, String::new())
}

#[test]
fn a_push_is_known_whoever_sent_it_and_whatever_was_written() {
    let check = |host: TestHost, before: &str, push: &str| {
        let board = Board::start();
        let host = enrolled(host, &board);
        if !before.is_empty() {
            host.fine(before);
        }
        let none = format!("  board: lab 1 ({})\n  last push: none yet\n", board.url());
        assert_eq!(shown(&host), none, "{push}");
        host.gua(push);
        let told = shown(&host);
        assert!(told.contains("  last push: 2"), "{push}: {told}");
        assert!(!told.contains("error"), "{push}: {told}");
        board.behaves(refusing());
        host.gua(push);
        let told = shown(&host);
        assert!(told.contains("  last push: 2"), "{push}: {told}");
        assert!(
            told.contains("  failed attempts since: 1\n  last error: 2"),
            "{push}: {told}"
        );
    };
    check(host(TWO_GPUS), "", "sync-once");
    // Beside a collector that reports to nobody.
    check(host(TWO_GPUS), "daemon --interval 1h", "sync-once");
    check(host(TWO_GPUS), "", "sync-once --db elsewhere/x.db");
    // The heartbeats of a host without a driver, of both who send them.
    check(without_driver(), "", "sync-once");
    check(without_driver(), "", "daemon --foreground --cloud");
}

#[test]
fn made_up_cards_say_nothing_about_the_link() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    host.fine("sync-once --fake");
    assert!(shown(&host).ends_with("  last push: none yet\n"));
}

#[test]
fn a_daemon_that_starts_again_knows_what_was_known_and_one_that_ended_has_no_stream() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let line = "daemon --cloud --interval 100ms --append --db a.db";
    host.fine(line);
    wait_for("the stream", || {
        shown(&host).contains("  stream: connected\n").then_some(())
    });
    host.fine("stop");
    let told = shown(&host);
    assert!(
        told.contains("  last push: 2") && !told.contains("stream"),
        "{told}"
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
    // It has no time to say that its stream has ended.
    again.signal(Signal::KILL);
    again.child.wait().unwrap();
    assert!(!shown(&host).contains("stream"), "{}", shown(&host));
}

#[test]
fn another_board_has_a_past_of_its_own() {
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
    // By hand, under a daemon that runs.
    let mut daemon = daemon(&host);
    wait_for("a push", || {
        shown(&host).contains("  last push: 2").then_some(())
    });
    let host = enrolled(host, &old);
    wait_for("the other board's failure", || {
        let told = shown(&host);
        (told.contains(&old.url()) && told.contains("  last error: 2")).then_some(())
    });
    let told = shown(&host);
    assert!(told.contains("  last push: none yet\n"), "{told}");
    daemon.stop();
}

#[test]
fn an_enrolment_that_cannot_be_used_is_one_sentence_with_what_helps() {
    let host = host(TWO_GPUS);
    let check = |told: &str, hint: &str| {
        let said = shown(&host);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.starts_with("  board: unusable enrolment: ") && said.contains(told),
            "{said}"
        );
        let ended = host.gua("sync-once");
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(
            ended.stderr.contains(told) && ended.stderr.contains(hint),
            "{ended:?}"
        );
    };
    host.write(".gua/cloud.json", "{}");
    check(
        "is not a valid enrolment",
        "hint: replace it with `gua enroll --force`",
    );
    // Something that nobody can read, not even root.
    std::fs::remove_file(host.state("cloud.json")).unwrap();
    std::fs::create_dir(host.state("cloud.json")).unwrap();
    check(
        "cannot read",
        "hint: run this as the user who enrolled the host",
    );
}

#[test]
fn what_others_can_read_holds_no_secret_even_where_a_board_calls_us_by_it() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let file = host.read(".gua/cloud.json");
    let file = file.replace("\"h1\"", &format!("\"{TOKEN}\""));
    let file = file.replace("lab 1", &format!("lab {TOKEN}"));
    assert!(file.matches(TOKEN).count() == 3, "{file}");
    host.write(".gua/cloud.json", &file);
    host.fine("sync-once --archive");
    let said = shown(&host);
    assert!(
        said.contains("lab [hidden]") && !said.contains(TOKEN),
        "{said}"
    );
    for name in ["cloud.json-link", "cloud.json-archive"] {
        let text = host.read(&format!(".gua/{name}"));
        assert!(!text.is_empty() && !text.contains(TOKEN), "{name}: {text}");
    }
}

#[test]
fn a_stream_that_comes_and_goes_is_known_also_between_pushes() {
    let board = Board::start();
    board.drops_streams_after(2);
    let host = enrolled(host(TWO_GPUS), &board);
    host.fine("daemon --cloud --interval 1h");
    for line in ["  stream: connected\n", "  stream: not connected\n"].repeat(2) {
        wait_for(line, || shown(&host).contains(line).then_some(()));
    }
}
