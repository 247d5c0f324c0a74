//! The archive: which files are uploaded to the board, their content, and that nothing is uploaded unless requested.

use std::io::Read as _;

use flate2::read::GzDecoder;

use super::originals::succeed;
use super::sync_once::enrolled;
use crate::{TWO_GPUS, host, without_driver};
use gua_test::board::{Behaviour, Board, TOKEN};
use gua_test::http::Request;
use gua_test::tape::{Tape, digest};
use gua_test::{TestHost, wait_for};

/// A host with some days of our own ticks and other days imported from two files.
fn with_days(board: &Board, tape: &Tape) -> TestHost {
    let mut host = enrolled(host(TWO_GPUS), board);
    tape.stop_clock(&mut host);
    for (name, script, ticks, interval) in [
        ("first", "1.1", 200, "20m"),
        ("second", "1.8", 90, "59m"),
        ("ours", "1.8", 3000, "97s"),
    ] {
        let line =
            format!("demo --script {script} --db {name}.db --ticks {ticks} --interval {interval}");
        host.fine(&line);
    }
    for name in ["first", "second"] {
        host.fine(&format!(
            "export --format gpu-usage-audit --db {name}.db --output {name}-old.db"
        ));
        host.fine(&format!("import {name}-old.db --db ours.db"));
    }
    host.fine("export --format gpu-usage-audit --db ours.db --output theirs.db");
    host
}

fn unpacked(request: &Request) -> String {
    let mut text = String::new();
    GzDecoder::new(request.body.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// A request as (request line, headers, digest of the unpacked body).
type RequestFacts = (String, Vec<Option<String>>, String);

fn facts(request: &Request) -> RequestFacts {
    let headers = ["authorization", "accept", "content-type"]
        .map(|name| request.header(name).map(str::to_owned));
    let body = match request.body.as_slice() {
        [] => String::new(),
        _ => unpacked(request),
    };
    (request.line.clone(), headers.to_vec(), digest(&body))
}

#[test]
fn release_1_8_sends_the_same_archive() {
    let board = Board::start();
    let tape = Tape::open("board-archive", &["1.8.0"]);
    let host = with_days(&board, &tape);
    let theirs: Vec<RequestFacts> = tape.take(|| {
        succeed(
            &host,
            "1.8.0",
            "sync-archive --db theirs.db --retention-days 4",
        );
        board.take().iter().map(facts).collect()
    });
    assert!(theirs.len() > 8, "{}", theirs.len());
    // Once from our own history, and once from the imported file.
    for db in ["ours.db", "theirs.db"] {
        host.fine(&format!("sync-archive --db {db} --retention-days 4"));
        let ours: Vec<_> = board.take().iter().map(facts).collect();
        let lines = |facts: &[RequestFacts]| {
            facts
                .iter()
                .map(|(line, ..)| line.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(lines(&ours), lines(&theirs), "{db}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours.1, theirs.1, "{db}: {}", theirs.0);
            assert!(ours.2 == theirs.2, "{db}: {} differs", theirs.0);
        }
    }
}

#[test]
fn only_missing_files_are_uploaded_and_counted() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    host.fine("demo --db ours.db --ticks 100 --interval 1h");
    let output = host.fine("sync-archive --db ours.db");
    let sent = board.take();
    let days: Vec<&str> = sent
        .iter()
        .filter_map(|request| request.line.strip_prefix("POST /agent/v1/archives?date=2"))
        .collect();
    assert!((8..=10).contains(&days.len()), "{days:?}");
    let expected = format!(
        "gua sync-archive: {} closed day(s) in 30d window, uploaded {} missing object(s)\n",
        days.len() / 2,
        days.len()
    );
    assert_eq!(output, expected);
    assert_eq!(
        sent.last().unwrap().line,
        "DELETE /agent/v1/archives?olderThanDays=30"
    );
    let bearer = format!("Bearer {TOKEN}");
    assert!(
        sent.iter()
            .all(|request| request.header("authorization") == Some(&bearer))
    );

    let known: Vec<String> = sent
        .iter()
        .filter_map(|request| {
            let (date, table) = request
                .line
                .strip_prefix("POST /agent/v1/archives?date=")?
                .split_once("&table=")?;
            Some(format!(r#"{{"date":"{date}","table":"{table}"}}"#))
        })
        .skip(1)
        .collect();
    let listing = format!(r#"{{"archives":[{}]}}"#, known.join(","));
    board.behaves(Behaviour::Responds(200, listing));
    let output = host.fine("sync-archive --db ours.db --retention-days 2");
    assert_eq!(
        output,
        "gua sync-archive: 2 closed day(s) in 2d window, uploaded 0 missing object(s)\n"
    );
    let lines: Vec<String> = board
        .take()
        .into_iter()
        .map(|request| request.line)
        .collect();
    assert_eq!(
        lines,
        [
            "GET /agent/v1/archives",
            "POST /agent/v1/archives?date=_full&table=daemon_run",
            "POST /agent/v1/archives?date=_full&table=gpu_device",
            "DELETE /agent/v1/archives?olderThanDays=2",
        ]
    );
    let output = host.fine("sync-archive --db ours.db");
    assert!(output.contains("uploaded 1 missing object(s)"), "{output}");
}

#[test]
fn user_names_are_sent_hidden_or_left_out() {
    let check = |policy: &str, inspect: &dyn Fn(&str)| {
        let board = Board::start();
        let host = enrolled(host(TWO_GPUS), &board).variable("GUA_CLOUD_USERS", policy);
        host.fine("demo --db ours.db --ticks 50 --interval 1h");
        host.fine("sync-archive --db ours.db");
        let sent = board.take();
        let processes = sent
            .iter()
            .filter(|request| request.line.ends_with("=proc_sample"));
        let text: String = processes.map(unpacked).collect();
        assert!(text.lines().count() > 20, "{text}");
        inspect(&text);
    };
    check("plain", &|text| assert!(text.contains(",alice,"), "{text}"));
    check("omit", &|text| assert!(!text.contains("alice"), "{text}"));
    check("hash", &|text| {
        assert!(!text.contains("alice") && text.contains(",user-"), "{text}");
    });
}

#[test]
fn a_failed_upload_is_one_sentence_and_the_next_attempt_continues() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let missing = host.gua("sync-archive --db none.db");
    assert_eq!(missing.code, 2, "{missing:?}");
    host.fine("demo --db ours.db --ticks 50 --interval 1h");
    board.behaves(Behaviour::Responds(
        503,
        r#"{"detail":"no room"}"#.to_owned(),
    ));
    let ended = host.gua("sync-archive --db ours.db");
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:?}");
    assert_eq!(
        ended.stderr,
        "gua sync-archive: cannot list the archive files of the board: GUA Board request failed with HTTP 503: no room\n"
    );
    board.behaves(Behaviour::Accepts);
    host.fine("sync-archive --db ours.db");
    let unenrolled = crate::host(TWO_GPUS).gua("sync-archive");
    assert_eq!(unenrolled.code, 2, "{unenrolled:?}");
    assert!(unenrolled.stderr.contains("gua enroll"), "{unenrolled:?}");
}

#[test]
fn the_archive_runs_only_when_enabled_and_once_a_day() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    let archives = || {
        let requests = board.take().into_iter();
        let archives = requests.filter(|request| request.line.contains("/archives"));
        archives.map(|request| request.line).collect::<Vec<_>>()
    };
    host.fine("sync-once");
    assert_eq!(archives(), [""; 0]);
    let output = host.fine("sync-once --archive");
    let expected = "  archive: 0 closed day(s) in 30d window, uploaded 0 missing object(s)\n";
    assert!(output.ends_with(expected), "{output}");
    assert_eq!(archives().len(), 4);
    let output = host.fine("sync-once --archive");
    assert!(!output.contains("archive"), "{output}");
    assert_eq!(archives(), [""; 0]);

    let mut daemon = host.foreground("daemon --foreground --cloud --interval 100ms --db d.db");
    wait_for("some pushes", || (board.attempts() > 10).then_some(()));
    daemon.stop();
    assert_eq!(archives(), [""; 0]);
    let line = "daemon --foreground --cloud --archive --append --interval 100ms --db d.db";
    let mut daemon = host.foreground(line);
    wait_for("an archive", || {
        daemon
            .stderr()
            .contains("archive: 0 closed day(s)")
            .then_some(())
    });
    assert_eq!(archives().len(), 4);
    daemon.stop();
    // A second start on the same day uploads nothing more.
    let before = board.attempts();
    let mut daemon = host.foreground(line);
    wait_for("some pushes", || {
        (board.attempts() > before + 10).then_some(())
    });
    assert_eq!(archives(), [""; 0]);
    daemon.stop();
}

#[test]
fn a_failed_archive_costs_a_daemon_one_log_line_and_no_tick() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    board.behaves(Behaviour::Responds(503, String::new()));
    let line = "daemon --foreground --cloud --archive --interval 100ms --db d.db";
    let mut daemon = host.foreground(line);
    let expected = "archive upload failed: cannot list the archive files of the board: GUA Board request failed with HTTP 503\n";
    wait_for("the line", || {
        daemon.stderr().contains(expected).then_some(())
    });
    wait_for("ticks after it", || {
        (host.ticks("d.db").len() > 5).then_some(())
    });
    daemon.stop();
    assert_eq!(daemon.stderr().matches(expected).count(), 1);
    let state = host.read(".gua/cloud.json-archive");
    assert!(
        state.contains("HTTP 503") && !state.contains(TOKEN),
        "{state}"
    );
}

#[test]
fn the_archive_is_uploaded_even_if_the_snapshot_cannot_be_sent() {
    const NO_LOAD: &str =
        "[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\ncode = \"NOT_SUPPORTED\"\n";
    let expected = "  archive: 0 closed day(s) in 30d window, uploaded 0 missing object(s)\n";
    let check = |scenario: Option<&str>, manner: Behaviour, why: &str| {
        let board = Board::start();
        let host = enrolled(host(TWO_GPUS), &board);
        host.fine("sync-once");
        match scenario {
            Some(scenario) => host.play(scenario),
            None => board.behaves(manner),
        }
        board.take();
        let ended = host.gua("sync-once --archive");
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.stderr.contains(why), "{ended:?}");
        assert_eq!(ended.stdout, expected, "{ended:?}");
        let lines: Vec<String> = board.take().into_iter().map(|one| one.line).collect();
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert_eq!(lines[1], "GET /agent/v1/archives");
        // The upload was complete: the next attempt only has the snapshot to send.
        host.gua("sync-once --archive");
        assert_eq!(board.take().len(), 1);
    };
    let refuses = || Behaviour::Rejects("/observations", 503);
    check(None, refuses(), "cannot push to the board");
    let dead = "[[fault]]\nfunction = \"nvmlInit*\"\ncode = \"DRIVER_NOT_LOADED\"\n";
    let dead = format!("{TWO_GPUS}{dead}");
    check(
        Some(&dead),
        Behaviour::Accepts,
        "the driver could not be read",
    );
    let blind = format!("{TWO_GPUS}{NO_LOAD}");
    check(
        Some(&blind),
        Behaviour::Accepts,
        "no GPU can be represented",
    );
}

#[test]
fn of_two_failures_the_first_ends_the_command_and_the_second_is_reported() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    board.behaves(Behaviour::Responds(503, String::new()));
    let ended = host.gua("sync-once --archive");
    assert_eq!(ended.code, 1, "{ended:?}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{ended:?}");
    assert_eq!(
        lines[0],
        "gua sync-once: the archive is incomplete: cannot list the archive files of the board: GUA Board request failed with HTTP 503"
    );
    assert!(lines[1].contains("cannot push to the board"), "{ended:?}");
    // Without a history there is nothing to archive.
    let bare = enrolled(without_driver(), &board);
    let ended = bare.gua("sync-once --archive");
    assert!(!ended.stderr.contains("archive"), "{ended:?}");
}

#[test]
fn a_rejected_file_ends_the_command_after_the_other_files() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board);
    host.fine("demo --db ours.db --ticks 50 --interval 1h");
    board.behaves(Behaviour::Rejects("table=proc_sample", 413));
    let ended = host.gua("sync-archive --db ours.db");
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:?}");
    assert!(
        ended.stderr.contains("the board rejected ") && ended.stderr.contains("HTTP 413"),
        "{ended:?}"
    );
    let sent = board.take();
    let gpus = sent
        .iter()
        .filter(|request| request.line.ends_with("=gpu_sample"));
    assert!((2..=3).contains(&gpus.count()));
    assert!(sent.last().unwrap().line.starts_with("DELETE "));
}
