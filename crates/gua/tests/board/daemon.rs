//! `gua daemon --cloud`: one push per tick, one stream frame per second, and a board that becomes unreachable and comes
//! back.

use std::collections::BTreeSet;
use std::time::Duration;

use gua_wire::Snapshot;
use gua_wire::snapshot::{CollectionStatus, stamp};
use gua_wire::stream::UtilFrame;

use super::sync_once::{enrolled, link};
use crate::{TWO_GPUS, host, without_driver};
use gua_test::board::{Behaviour, Board, TOKEN};
use gua_test::{Running, TestHost, wait_for};

/// A shutdown that takes this long is waiting for something it must not wait for, however busy the machine is.
const LONG: Duration = Duration::from_secs(30);

pub(crate) fn daemon(host: &TestHost) -> Running {
    host.foreground("daemon --foreground --cloud --interval 100ms")
}

/// Pushes received since the last call.
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

/// Times of all ticks in the history, in the format of a push.
pub(crate) fn kept(host: &TestHost) -> BTreeSet<String> {
    let ticks = host.ticks(".gua/gua.db");
    ticks.iter().map(|tick| stamp(tick.sample.at)).collect()
}

#[test]
fn each_tick_is_stored_then_pushed_and_the_load_is_streamed() {
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
    wait_for("the close frame", || {
        (board.streams().closed == [1000]).then_some(())
    });
    let output = daemon.stderr();
    let enabled = format!("cloud sync enabled -> lab 1 ({})", board.url());
    assert!(
        output.contains(&enabled) && output.contains("stream connected"),
        "{output}"
    );
    assert!(!output.contains(TOKEN) && !daemon.stdout().contains(TOKEN));
    let link = link(&host).unwrap();
    assert_eq!((link.peer.board, link.failures), (board.url(), 0));
    assert!(link.last_push.is_some() && link.last_error.is_none());
}

#[test]
fn daemon_cloud_without_an_enrolment_does_not_start() {
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
fn a_background_daemon_pushes_and_its_arguments_hold_no_secret() {
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
fn a_driver_failure_and_its_recovery_are_pushed() {
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
fn a_driver_that_fails_at_startup_is_pushed_before_the_daemon_exits() {
    let board = Board::start();
    let host = enrolled(without_driver(), &board);
    let ended = host.gua("daemon --foreground --cloud");
    assert_eq!(ended.code, 1, "{ended:?}");
    let [heartbeat] = pushes(&board).try_into().unwrap();
    assert_eq!(heartbeat.errors, ["nvml_init_failed"]);
    // An unreachable board is reported next to the driver failure.
    board.behaves(Behaviour::Silent);
    let ended = host.gua("daemon --foreground --cloud");
    assert_eq!(ended.code, 1, "{ended:?}");
    let expected = "cannot push the error heartbeat (could not reach GUA Board server: no response within 10 s), and the driver could not be read: ";
    assert!(ended.stderr.contains(expected), "{ended:?}");
}

#[test]
fn an_unreachable_board_is_logged_once_and_only_the_latest_state_is_sent_later() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    board.behaves(Behaviour::Responds(503, String::new()));
    let mut daemon = daemon(&host);
    wait_for("two attempts", || {
        let failures = link(&host).map_or(0, |link| link.failures);
        // The state file is written at the first failure; the board counts the attempts.
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
    wait_for("the recovery message", || {
        daemon
            .stderr()
            .contains("board accepts pushes again (failures=")
            .then_some(())
    });
    daemon.stop();
    let output = daemon.stderr();
    let expected = "board push failed: GUA Board request failed with HTTP 503";
    assert_eq!(output.matches(expected).count(), 1, "{output}");
    assert!(!output.contains("sink=board"), "{output}");
    let link = link(&host).unwrap();
    assert_eq!(link.failures, 0);
    assert_eq!(
        link.last_error.unwrap().what,
        "GUA Board request failed with HTTP 503"
    );
}

#[test]
fn an_unenrolled_host_sends_nothing_until_it_is_enrolled_again() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let mut daemon = daemon(&host);
    wait_for("a push", || (!pushes(&board).is_empty()).then_some(()));
    host.fine("unenroll");
    wait_for("the message that pushes have stopped", || {
        daemon.stderr().contains("no enrolment at").then_some(())
    });
    wait_for("the close frame of the stream", || {
        (board.streams().closed == [1000]).then_some(())
    });
    board.take();
    let frames = board.streams().frames.len();
    let ticks = kept(&host).len();
    wait_for("more ticks", || {
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
fn a_stream_that_is_dropped_repeatedly_reconnects_and_delays_nothing() {
    let board = Board::start();
    board.drops_streams_after(1);
    let host = enrolled(host(TWO_GPUS), &board);
    let mut daemon = daemon(&host);
    wait_for("three streams", || {
        (board.streams().opened.len() >= 3).then_some(())
    });
    daemon.stop();
    let output = daemon.stderr();
    assert_eq!(output.matches("stream connected").count(), 1, "{output}");
    assert!(output.matches("stream lost").count() <= 2, "{output}");
}

#[test]
fn a_board_that_floods_the_stream_starves_neither_frames_nor_shutdown() {
    let check = |first: &[u8], then: &[u8]| {
        let board = Board::start();
        board.floods_streams(first, then);
        let host = enrolled(host(TWO_GPUS), &board);
        let mut daemon = daemon(&host);
        wait_for("the message about the flood", || {
            let expected = "stream lost: the board sends too many messages";
            daemon.stderr().contains(expected).then_some(())
        });
        wait_for("another attempt", || {
            (board.streams().opened.len() >= 2).then_some(())
        });
        assert!(daemon.stop() < LONG);
    };
    // Text messages of one character (RFC 6455, section 5.2).
    check(&[], &[0x81, 1, b'!']);
    // One fragmented text message that never ends and never grows.
    check(&[0x01, 0], &[0x00, 0]);
}

#[test]
fn a_driver_slower_than_the_frames_does_not_block_the_stream() {
    let board = Board::start();
    let slow =
        "[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\ngpu = 0\ndelay_ms = 1100\n";
    let host = enrolled(host(&format!("{TWO_GPUS}{slow}")), &board);
    let mut daemon = host.foreground("daemon --foreground --cloud --interval 10s");
    wait_for("three answers to pings", || {
        (board.streams().pongs >= 3).then_some(())
    });
    daemon.stop();
}
