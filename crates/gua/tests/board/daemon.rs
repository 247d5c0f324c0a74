//! `gua daemon --cloud`: each tick to the board, the load each second, and a board that comes and goes.

use std::collections::BTreeSet;
use std::time::Duration;

use gua_wire::Snapshot;
use gua_wire::snapshot::{CollectionStatus, stamp};
use gua_wire::stream::UtilFrame;

use super::sync_once::{enrolled, link};
use crate::{TWO_GPUS, host, without_driver};
use gua_test::board::{Behaviour, Board, TOKEN};
use gua_test::{Running, TestHost, wait_for};

/// An end that takes so long waits for something that it must not wait for, however busy the machine is.
const LONG: Duration = Duration::from_secs(30);

pub(crate) fn daemon(host: &TestHost) -> Running {
    host.foreground("daemon --foreground --cloud --interval 100ms")
}

/// The pushes that came since this was last asked.
pub(crate) fn pushes(board: &Board) -> Vec<Snapshot> {
    let requests = board.take();
    let read = requests.iter().map(|request| {
        assert_eq!(request.line, "POST /agent/v1/observations");
        let bearer = format!("Bearer {TOKEN}");
        assert_eq!(request.header("authorization"), Some(bearer.as_str()));
        serde_json::from_slice(&request.body).unwrap()
    });
    read.collect()
}

/// The moments of all ticks in the history, as pushes tell them.
pub(crate) fn kept(host: &TestHost) -> BTreeSet<String> {
    let ticks = host.ticks(".gua/gua.db");
    ticks.iter().map(|tick| stamp(tick.sample.at)).collect()
}

#[test]
fn each_tick_is_kept_and_then_pushed_and_the_load_is_streamed() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let mut daemon = daemon(&host);
    let mut pushed = Vec::new();
    wait_for("ten pushes and two frames", || {
        pushed.extend(pushes(&board));
        let streams = board.streams();
        (pushed.len() >= 10 && streams.frames.len() >= 2 && streams.pongs >= 1).then_some(())
    });
    assert!(daemon.stop() < LONG);
    pushed.extend(pushes(&board));
    let kept = kept(&host);
    for push in &pushed {
        assert_eq!(push.collection_status, CollectionStatus::Ok);
        assert!(kept.contains(&push.observed_at), "{}", push.observed_at);
        assert_eq!(push.host.host_id.as_deref(), Some("h1"));
    }
    let streams = board.streams();
    assert_eq!(streams.opened[0].line, "GET /agent/v1/stream");
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(
        streams.opened[0].header("authorization"),
        Some(bearer.as_str())
    );
    let frame: UtilFrame = serde_json::from_str(&streams.frames[0]).unwrap();
    assert_eq!(frame.gpus.len(), 2);
    assert_eq!(frame.gpus[0].util_pct, 50);
    wait_for("the farewell", || {
        (board.streams().closed == [1000]).then_some(())
    });
    let said = daemon.stderr();
    let enabled = format!("cloud sync enabled -> lab 1 ({})", board.url());
    assert!(
        said.contains(&enabled) && said.contains("stream connected"),
        "{said}"
    );
    assert!(!said.contains(TOKEN) && !daemon.stdout().contains(TOKEN));
    let link = link(&host).unwrap();
    assert_eq!((link.peer.board, link.failures), (board.url(), 0));
    assert!(link.last_push.is_some() && link.last_error.is_none());
}

#[test]
fn a_daemon_that_is_to_report_and_is_not_enrolled_does_not_start() {
    let host = host(TWO_GPUS);
    for line in [
        "daemon --cloud",
        "start --cloud",
        "daemon --foreground --cloud",
    ] {
        let ended = host.gua(line);
        assert_eq!(ended.code, 2, "{line}: {ended:?}");
        assert!(ended.stderr.contains("no enrolment at"), "{ended:?}");
        assert!(!host.state("gua.db").exists());
    }
    let elsewhere = host.write("elsewhere.json", "{}");
    let ended = host.gua(&format!("daemon --cloud --config {}", elsewhere.display()));
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("elsewhere.json` is not a valid enrolment"),
        "{ended:?}"
    );
}

#[test]
fn a_daemon_in_the_background_reports_too_and_its_arguments_hold_no_secret() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    std::fs::rename(host.state("cloud.json"), host.path("other.json")).unwrap();
    host.fine("daemon --cloud --config other.json --allow-http --interval 100ms");
    wait_for("a push", || (!pushes(&board).is_empty()).then_some(()));
    let pid = host.pid().unwrap();
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(line.contains("--cloud") && !line.contains(TOKEN), "{line}");
    host.fine("stop");
    assert!(
        host.log().contains("cloud sync enabled -> lab 1"),
        "{}",
        host.log()
    );
}

#[test]
fn a_driver_that_dies_is_told_and_so_is_its_return() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let mut daemon = daemon(&host);
    let wait_for = |status: CollectionStatus| {
        wait_for("a push", || {
            let pushed = pushes(&board);
            pushed
                .into_iter()
                .find(|push| push.collection_status == status)
        })
    };
    wait_for(CollectionStatus::Ok);
    host.play(&format!(
        "{TWO_GPUS}[[fault]]\nfunction = \"nvml*\"\ncode = \"DRIVER_NOT_LOADED\"\n"
    ));
    let heartbeat = wait_for(CollectionStatus::Error);
    assert_eq!(heartbeat.errors, ["nvml_init_failed"]);
    assert_eq!(
        (heartbeat.gpus.len(), heartbeat.host.driver_version.as_str()),
        (0, "unknown")
    );
    host.play(TWO_GPUS);
    assert_eq!(wait_for(CollectionStatus::Ok).gpus.len(), 2);
    daemon.stop();
}

#[test]
fn a_driver_that_is_away_from_the_beginning_is_told_before_the_daemon_ends() {
    let board = Board::start();
    let host = enrolled(without_driver(), &board);
    let ended = host.gua("daemon --foreground --cloud");
    assert_eq!(ended.code, 1, "{ended:?}");
    let [heartbeat] = pushes(&board).try_into().unwrap();
    assert_eq!(heartbeat.errors, ["nvml_init_failed"]);
    // A board that could not be told either is said beside it.
    board.behaves(Behaviour::Silent);
    let ended = host.gua("daemon --foreground --cloud");
    assert_eq!(ended.code, 1, "{ended:?}");
    let told = "cannot push the error heartbeat (could not reach GUA Board server: no response within 10 s), and the driver could not be read: ";
    assert!(ended.stderr.contains(told), "{ended:?}");
}

#[test]
fn a_board_that_is_away_is_told_once_and_only_the_latest_state_is_sent_afterwards() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    board.behaves(Behaviour::Responds(503, String::new()));
    let mut daemon = daemon(&host);
    wait_for("two attempts", || {
        let failures = link(&host).map_or(0, |link| link.failures);
        // The state is written at the first failure; the attempts are counted at the board.
        (failures >= 1 && board.attempts() >= 2).then_some(())
    });
    let before = kept(&host);
    board.behaves(Behaviour::Accepts);
    let first = wait_for("a push", || {
        let pushed = pushes(&board);
        let refused = |push: &Snapshot| before.contains(&push.observed_at);
        pushed.into_iter().find(|push| !refused(push))
    });
    assert!(before.iter().all(|old| *old < first.observed_at));
    wait_for("the return is told", || {
        daemon
            .stderr()
            .contains("board accepts pushes again (failures=")
            .then_some(())
    });
    daemon.stop();
    let said = daemon.stderr();
    let told = "board push failed: GUA Board request failed with HTTP 503";
    assert_eq!(said.matches(told).count(), 1, "{said}");
    assert!(!said.contains("sink=board"), "{said}");
    let link = link(&host).unwrap();
    assert_eq!(link.failures, 0);
    assert_eq!(
        link.last_error.unwrap().what,
        "GUA Board request failed with HTTP 503"
    );
}

#[test]
fn a_host_that_is_unenrolled_says_nothing_more_until_it_is_enrolled_again() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let mut daemon = daemon(&host);
    wait_for("a push", || (!pushes(&board).is_empty()).then_some(()));
    host.fine("unenroll");
    wait_for("silence is told", || {
        daemon.stderr().contains("no enrolment at").then_some(())
    });
    wait_for("the farewell of the stream", || {
        (board.streams().closed == [1000]).then_some(())
    });
    board.take();
    let frames = board.streams().frames.len();
    let ticks = kept(&host).len();
    wait_for("ticks go on", || {
        (kept(&host).len() > ticks + 5).then_some(())
    });
    assert!(board.take().is_empty());
    assert_eq!(board.streams().frames.len(), frames);
    let _host = enrolled(host, &board);
    wait_for("a push again", || {
        (!pushes(&board).is_empty()).then_some(())
    });
    daemon.stop();
}

#[test]
fn a_stream_that_is_dropped_again_and_again_comes_back_and_costs_nothing() {
    let board = Board::start();
    board.drops_streams_after(1);
    let host = enrolled(host(TWO_GPUS), &board);
    let mut daemon = daemon(&host);
    wait_for("three streams", || {
        (board.streams().opened.len() >= 3).then_some(())
    });
    daemon.stop();
    let said = daemon.stderr();
    assert_eq!(said.matches("stream connected").count(), 1, "{said}");
    assert!(said.matches("stream lost").count() <= 2, "{said}");
}

#[test]
fn a_board_that_talks_without_pause_starves_neither_frames_nor_the_end() {
    let check = |first: &[u8], then: &[u8]| {
        let board = Board::start();
        board.floods_streams(first, then);
        let host = enrolled(host(TWO_GPUS), &board);
        let mut daemon = daemon(&host);
        wait_for("the flood is told", || {
            let told = "stream lost: the board sends too many messages";
            daemon.stderr().contains(told).then_some(())
        });
        wait_for("it is tried again", || {
            (board.streams().opened.len() >= 2).then_some(())
        });
        assert!(daemon.stop() < LONG);
    };
    // Texts of one letter (RFC 6455, section 5.2).
    check(&[], &[0x81, 1, b'!']);
    // One text that goes on and on, and never gets longer.
    check(&[0x01, 0], &[0x00, 0]);
}

#[test]
fn a_driver_slower_than_the_frames_does_not_make_the_stream_deaf() {
    let board = Board::start();
    let slow =
        "[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\ncard = 0\ndelay_ms = 1100\n";
    let host = enrolled(host(&format!("{TWO_GPUS}{slow}")), &board);
    let mut daemon = host.foreground("daemon --foreground --cloud --interval 10s");
    wait_for("three answers to pings", || {
        (board.streams().pongs >= 3).then_some(())
    });
    daemon.stop();
}
