//! The real agents of gpu-usage-audit and ours, with the same GPUs and the same board, send the same keys, types and
//! values.

use std::process::Output;

use serde_json::Value;

use super::sync_once::enrolled;
use crate::{host, without_driver};
use gua_test::board::Board;
use gua_test::http::Request;
use gua_test::originals::{self, released};
use gua_test::{TestHost, wait_for};

/// Runs a real agent on the simulated GPUs of a host.
fn agent(host: &TestHost, version: &str, line: &str) -> Output {
    let mut command = host.command(released(version));
    command.args(line.split_whitespace());
    // Its NVML binding finds the library through the system's loader.
    command.env("LD_LIBRARY_PATH", host.path(""));
    command.output().unwrap()
}

#[track_caller]
pub(crate) fn succeed(host: &TestHost, version: &str, line: &str) {
    let run = agent(host, version, line);
    let complaint = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{version} {line}: {complaint}");
}

/// A request without the parts in which two agents must differ: the time and the agent's identity.
fn comparable(request: &Request) -> (String, Vec<(String, String)>, Value) {
    let mut body: Value = serde_json::from_slice(&request.body).unwrap();
    if body.get("observedAt").is_some() {
        let moment = body["observedAt"].take();
        assert!(moment.as_str().unwrap().ends_with("+00:00"), "{moment}");
        body["host"]["agentVersion"] = Value::Null;
    }
    let compared = ["authorization", "accept", "content-type"];
    let headers = request.headers.iter();
    let mut headers: Vec<_> = headers
        .filter(|(name, _)| compared.contains(&name.as_str()))
        .cloned()
        .collect();
    headers.sort();
    (request.line.clone(), headers, body)
}

#[track_caller]
fn same(board: &Board) {
    let [theirs, ours] = board.take().try_into().unwrap();
    assert_eq!(comparable(&theirs), comparable(&ours));
    // The order of keys and the formatting of numbers must match too.
    let shape = |request: &Request| {
        let text = request.text().replace(": ", ":").replace(", ", ",");
        let (head, tail) = text.split_once("\"observedAt\":\"").unwrap_or((&text, ""));
        let tail = tail
            .split_once("\"driverVersion\"")
            .map_or(tail, |(_, rest)| rest);
        format!("{head}|{tail}")
    };
    assert_eq!(shape(&theirs), shape(&ours));
}

/// GPUs with every kind of holder: this process, pid 1, a graphics process, and one with hidden memory.
fn gpus() -> String {
    let own = std::process::id();
    format!(
        "[[gpu]]\nuuid = \"GPU-a\"\nname = \"NVIDIA A100\"\nutil = 37\nmemory_total_mib = 40000\nmemory_used_mib = 12345\n\
         [[gpu.process]]\npid = {own}\nmemory_mib = 9000\n\
         [[gpu.process]]\npid = 1\nmemory_mib = 300\n\
         [[gpu]]\nuuid = \"GPU-b\"\nname = \"NVIDIA A100\"\nutil = 3\n\
         [[gpu.process]]\npid = {own}\ntype = \"graphics\"\nmemory_mib = 77\n\
         [[gpu.process]]\npid = 1\nmemory_mib = \"unknown\"\n\
         [[gpu]]\nuuid = \"GPU-c\"\nutil = 0\n"
    )
}

fn check_pushes(version: &str, form: &str) {
    if !originals::run_live() {
        return;
    }
    let board = Board::start();
    let host = host(&gpus()).variable("GUA_CLOUD_FORM", form);
    let enrolment = format!(
        "enroll --server-url {} --enrollment-token gua_enroll_x --hostname vm --agent-version 7",
        board.url()
    );
    succeed(&host, version, &enrolment);
    let theirs = host.read(".gua/cloud.json");
    // Our agent uses their enrolment file unchanged, and writes the same bytes.
    host.fine("sync-once --fake");
    board.take();
    host.fine("unenroll");
    succeed(&host, version, &enrolment);
    host.fine(&format!("{enrolment} --force"));
    same(&board);
    assert_eq!(host.read(".gua/cloud.json"), theirs);
    // Their agent uses ours.
    succeed(&host, version, "sync-once --fake --db theirs.db");
    host.fine("sync-once --fake --db ours.db");
    same(&board);
    succeed(&host, version, "sync-once --db theirs.db");
    host.fine("sync-once --db ours.db");
    same(&board);
}

#[test]
fn release_1_1_enrols_and_pushes_the_same() {
    check_pushes("1.1.0", "1.1");
}

#[test]
fn release_1_8_enrols_and_pushes_the_same() {
    check_pushes("1.8.0", "1.4");
}

#[test]
fn a_missing_driver_is_pushed_with_the_same_words() {
    if !originals::run_live() {
        return;
    }
    let board = Board::start();
    let host = enrolled(without_driver(), &board);
    // An unusable library path guarantees that there is no driver, even on a host with GPUs.
    host.write("libnvidia-ml.so.1", "");
    assert_eq!(agent(&host, "1.8.0", "sync-once").status.code(), Some(1));
    assert_eq!(host.gua("sync-once").code, 1);
    same(&board);
}

#[test]
fn both_daemons_push_the_same_states_and_stream_the_same_load() {
    if !originals::run_live() {
        return;
    }
    let own = std::process::id();
    let gpus = |util: u32| {
        format!(
            "[[gpu]]\nuuid = \"GPU-a\"\nutil = {util}\n[[gpu.process]]\npid = {own}\nmemory_mib = 9000\n"
        )
    };
    let watch = |host: &TestHost, board: &Board| {
        let mut states = Vec::new();
        let mut collect = |wanted: (u64, &str)| {
            wait_for("a state", || {
                // Their daemon uploads its archive too.
                let pushes = board.take().into_iter();
                for request in pushes.filter(|one| one.line == "POST /agent/v1/observations") {
                    let body: Value = serde_json::from_slice(&request.body).unwrap();
                    let gpu = &body["gpus"][0];
                    let state = gpu["usageState"].as_str().unwrap().to_owned();
                    let state = (gpu["utilPct"].as_u64().unwrap(), state);
                    if states.last() != Some(&state) {
                        states.push(state);
                    }
                }
                let (util, word) = wanted;
                let found = states
                    .last()
                    .is_some_and(|state| *state == (util, word.to_owned()));
                found.then_some(())
            });
        };
        collect((50, "active"));
        host.play(&gpus(2));
        collect((2, "idle_held"));
        host.play(&gpus(60));
        collect((60, "active"));
        let mut frame = wait_for("a frame", || {
            let frames = board.streams().frames;
            let last: Value = serde_json::from_str(frames.last()?).unwrap();
            (last["gpus"][0]["utilPct"] == 60).then_some(last)
        });
        assert!(frame["ts"].take().is_f64());
        (states, frame, board.streams().opened[0].line.clone())
    };
    let board = Board::start();
    let host = enrolled(host(&gpus(50)), &board);
    let mut theirs = host.command(released("1.8.0"));
    theirs
        .args("daemon --foreground --cloud --interval 100ms --db theirs.db".split(' '))
        .env("LD_LIBRARY_PATH", host.path(""));
    let theirs = host.start(theirs);
    let expected = watch(&host, &board);
    drop(theirs);

    let board = Board::start();
    let host = enrolled(crate::host(&gpus(50)), &board);
    let ours = host.foreground("daemon --foreground --cloud --interval 100ms --db ours.db");
    assert_eq!(watch(&host, &board), expected);
    drop(ours);
}
