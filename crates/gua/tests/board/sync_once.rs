//! `gua sync-once`: what is stored locally, what is sent and what is printed.

use gua_collector::board::{CloudFile, LinkFiles, LinkState, Peer};
use gua_wire::Snapshot;
use serde_json::Value;

use crate::{TWO_GPUS, host, without_driver};
use gua_test::TestHost;
use gua_test::board::{Behaviour, Board, TOKEN};
use gua_test::http::CLAIM_ANSWER;

/// Enrols a host with the board.
pub(crate) fn enrolled(host: TestHost, board: &Board) -> TestHost {
    let mut file: Value = serde_json::from_str(CLAIM_ANSWER).unwrap();
    file["serverUrl"] = board.url().into();
    host.write(".gua/cloud.json", file.to_string());
    host
}

/// Link state of the board with which the host is enrolled.
pub(crate) fn link(host: &TestHost) -> Option<LinkState> {
    let enrolment = host.state("cloud.json");
    let config = CloudFile::at(&enrolment).load().ok()?;
    LinkFiles::new(&enrolment, &host.state("gua.db")).read(&Peer::of(&config))
}

fn only(board: &Board) -> Snapshot {
    let [request] = board.take().try_into().unwrap();
    assert_eq!(request.line, "POST /agent/v1/observations");
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(request.header("authorization"), Some(bearer.as_str()));
    assert_eq!(request.header("content-type"), Some("application/json"));
    serde_json::from_slice(&request.body).unwrap()
}

#[test]
fn a_sample_is_stored_locally_and_pushed() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let output = host.fine("sync-once");
    let db = host.state("gua.db");
    assert_eq!(
        output,
        format!(
            "gua sync-once: pushed 2 GPUs to lab 1 ({})\n  local snapshot saved to {}\n",
            board.url(),
            db.display()
        )
    );
    let sent = only(&board);
    assert_eq!(sent.errors, [""; 0]);
    assert_eq!(sent.gpus.len(), 2);
    assert_eq!(sent.gpus[0].util_pct, 50);
    let kept = host.ticks(".gua/gua.db");
    assert_eq!(kept.len(), 1);
    assert_eq!(
        gua_wire::snapshot::stamp(kept[0].sample.at),
        sent.observed_at
    );
    let link = link(&host).unwrap();
    assert_eq!((link.peer.board, link.failures), (board.url(), 0));
    // A second time, and with a path in a directory that does not exist yet.
    host.fine("sync-once");
    assert_eq!(host.ticks(".gua/gua.db").len(), 2);
    let elsewhere = host.path("a/b/c.db");
    for ticks in 1..3 {
        host.fine(&format!("sync-once --db {}", elsewhere.display()));
        assert_eq!(host.ticks("a/b/c.db").len(), ticks);
    }
}

#[test]
fn a_failed_push_keeps_the_local_rows_and_is_one_sentence() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    board.behaves(Behaviour::Responds(500, String::new()));
    let ended = host.gua("sync-once");
    assert_eq!(ended.code, 1);
    let db = host.state("gua.db");
    assert_eq!(
        ended.stderr,
        format!(
            "gua sync-once: cannot push to the board, the local snapshot is saved to {}: GUA Board request failed with HTTP 500\n",
            db.display()
        )
    );
    assert_eq!(ended.stdout, "");
    assert_eq!(host.ticks(".gua/gua.db").len(), 1);
    let link = link(&host).unwrap();
    assert_eq!((link.failures, link.last_push), (1, None));
    host.fine("unenroll");
    assert!(!host.state("cloud.json-link").exists());
    host.fine("db check");
}

#[test]
fn without_an_enrolment_nothing_is_read_or_written() {
    let host = host(TWO_GPUS);
    let check = |content: Option<&str>, expected: &str| {
        if let Some(content) = content {
            host.write(".gua/cloud.json", content);
        }
        let ended = host.gua("sync-once");
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains(expected), "{ended:?}");
        assert!(ended.stderr.contains("gua enroll"), "{ended:?}");
        assert!(!host.state("gua.db").exists());
    };
    check(None, "no enrolment at");
    check(Some("nope"), "it is not valid JSON");
    check(Some("[]"), "it is not a JSON object");
    check(
        Some(r#"{"hostId":"h"}"#),
        "serverUrl, displayName, agentToken, tokenPrefix",
    );
}

#[test]
fn a_driver_failure_is_pushed_and_nothing_is_written() {
    let board = Board::start();
    let host = enrolled(without_driver(), &board);
    let ended = host.gua("sync-once");
    assert_eq!(ended.code, 1);
    let expected = format!(
        "gua sync-once: pushed an error heartbeat to lab 1 ({}), because the driver could not be read: ",
        board.url()
    );
    assert!(ended.stderr.starts_with(&expected), "{ended:?}");
    let sent = only(&board);
    assert_eq!(sent.errors, ["nvml_init_failed"]);
    assert_eq!(
        (sent.gpus.len(), sent.host.driver_version.as_str()),
        (0, "unknown")
    );
    assert!(!host.state("gua.db").exists());
    board.behaves(Behaviour::Responds(503, String::new()));
    let ended = host.gua("sync-once");
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("cannot push the error heartbeat (GUA Board request failed with HTTP 503), and the driver could not be read: "), "{ended:?}");
}

#[test]
fn an_unreadable_gpu_is_left_out_and_named() {
    let board = Board::start();
    let gpus = format!(
        "{TWO_GPUS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\ngpu = 1\ncode = \"NOT_SUPPORTED\"\n"
    );
    let host = enrolled(host(&gpus), &board);
    let ended = host.gua("sync-once");
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("pushed 1 GPUs to lab 1"), "{ended:?}");
    assert!(
        ended
            .stdout
            .contains(" [partial: gpu_reading_unavailable]\n"),
        "{ended:?}"
    );
    assert!(
        ended
            .stderr
            .contains("GPU 1 was left out: its utilisation is unknown"),
        "{ended:?}"
    );
    assert_eq!(only(&board).errors, ["gpu_reading_unavailable"]);
}

#[test]
fn user_names_are_sent_as_configured() {
    let board = Board::start();
    let names = |settings: &str| {
        let host = enrolled(without_driver(), &board);
        host.write(".gua/config.toml", settings);
        let output = host.fine("sync-once --fake --db fake.db");
        assert!(
            output.contains("local snapshot saved to fake.db"),
            "{output}"
        );
        let sent = only(&board);
        let processes = sent.gpus.iter().flat_map(|gpu| &gpu.processes);
        let names: Vec<String> = processes.map(|one| one.linux_user.clone()).collect();
        names.join(" ")
    };
    assert_eq!(names(""), "alice bob unknown gdm");
    assert_eq!(
        names("cloud.users = \"omit\""),
        "unknown unknown unknown unknown"
    );
    let hidden = names("cloud.users = \"hash\"");
    assert!(
        hidden.starts_with("user-") && !hidden.contains("alice"),
        "{hidden}"
    );
    assert_ne!(
        names("cloud.users = \"hash\""),
        hidden,
        "each host creates its own salt"
    );
}

#[test]
fn demo_gpus_are_never_written_to_a_real_history() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let output = host.fine("sync-once --fake");
    assert!(
        output.starts_with("gua sync-once: pushed 3 GPUs to lab 1"),
        "{output}"
    );
    assert!(!host.state("gua.db").exists(), "{output}");
    host.fine("sync-once");
    let db = host.state("gua.db");
    let ended = host.gua(&format!("sync-once --fake --db {}", db.display()));
    assert_eq!(ended.code, 2, "{ended:?}");
    assert_eq!(host.ticks(".gua/gua.db").len(), 1);
}

#[test]
fn the_history_of_a_running_collector_is_left_alone() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    host.fine("daemon --interval 1h");
    let output = host.fine("sync-once");
    assert!(
        output.contains("belongs to the running collector") && output.contains("nothing was added"),
        "{output}"
    );
    assert_eq!(only(&board).gpus.len(), 2);
    assert_eq!(host.ticks(".gua/gua.db").len(), 1);
}
