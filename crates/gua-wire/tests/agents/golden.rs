//! Golden files: released formats do not change by a byte. A changed format gets a new version.

use std::path::Path;

use gua_model::{
    Bytes, Celsius, GpuUuid, Milliwatts, Missing, Place, Problem, ProcessKind, Sample, Uid, User,
};
use gua_wire::snapshot::{About, BuildError, ErrorCode, Form, LeftOut, Snapshot, Unrepresentable};
use gua_wire::stream::UtilFrame;
use gua_wire::users::{Salt, UserPolicy};
use jiff::Timestamp;

use crate::gpus::{ABOUT, built, process, sample};

fn at() -> Timestamp {
    "2026-11-16T02:44:34.554909Z".parse().unwrap()
}

/// Compares with a golden file; its last newline is not part of what is sent.
pub(crate) fn check(name: &str, sent: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(golden.trim_end_matches('\n'), sent, "{}", path.display());
}

/// Compares a snapshot, and checks that a board parses the intended values from it.
fn check_snapshot(name: &str, snapshot: &Snapshot) {
    check(name, &snapshot.body());
    let read: Snapshot = serde_json::from_str(&snapshot.body()).unwrap();
    assert_eq!(read, *snapshot);
}

fn snapshot(sample: &Sample, form: Form, users: &UserPolicy) -> Snapshot {
    built(ABOUT, sample, form, users).unwrap().snapshot
}

/// GPUs with every unusual value that does not cause them to be left out.
fn unusual_gpus() -> Sample {
    let mut sample = sample(Form::V1_4, at());
    sample.driver.version = Err(Missing::Failed);
    let [first, second, third] = sample.gpus.as_mut_slice() else {
        panic!("three GPUs");
    };
    first.name = Err(Missing::Failed);
    first.temperature = Ok(Celsius(-5));
    first.power = Ok(Milliwatts(70_999));
    first.memory_used = Ok(Bytes(Bytes::PER_MB * 8 - 1));
    first.memory_reserved = Ok(Bytes(Bytes::PER_MB));
    first.processes[0].memory = Err(Missing::Unsupported);
    first.processes.push(process(0, None, 1));
    let mut both = process(4321, Some(("", "")), 5);
    both.kind = ProcessKind::Both;
    first.processes.push(both);
    second.temperature = Err(Missing::Unsupported);
    second.power = Err(Missing::Denied);
    second.compute_list = Err(Missing::Failed);
    second.processes.clear();
    let nameless = User {
        uid: Uid(77),
        name: None,
    };
    third.processes[0].identity.as_mut().unwrap().login = Ok(Some(nameless));
    sample
}

#[test]
fn released_formats_do_not_change() {
    let plain = UserPolicy::Plain;
    check_snapshot(
        "snapshot-1.1.json",
        &snapshot(&sample(Form::V1_1, at()), Form::V1_1, &plain),
    );
    check_snapshot(
        "snapshot-1.4.json",
        &snapshot(&sample(Form::V1_4, at()), Form::V1_4, &plain),
    );
    check_snapshot(
        "snapshot-1.1-odd.json",
        &snapshot(&unusual_gpus(), Form::V1_1, &plain),
    );
    check_snapshot(
        "snapshot-1.4-odd.json",
        &snapshot(&unusual_gpus(), Form::V1_4, &plain),
    );
    let about = About {
        host_id: None,
        display_name: None,
        ..ABOUT
    };
    let heartbeat = Snapshot::error_heartbeat(about, at(), ErrorCode::NvmlInitFailed);
    check_snapshot("heartbeat.json", &heartbeat);
}

#[test]
fn a_stream_frame_has_only_utilisation_and_memory() {
    let mut sample = sample(Form::V1_4, at());
    sample.gpus[1].util = Err(Missing::Unsupported);
    let frame = UtilFrame::of(&sample);
    check("stream.json", &frame.text());
    assert_eq!(
        serde_json::from_str::<UtilFrame>(&frame.text()).unwrap(),
        frame
    );
    sample.at = "2026-11-16T02:44:34Z".parse().unwrap();
    assert!(
        UtilFrame::of(&sample)
            .text()
            .starts_with(r#"{"type":"util","ts":1794797074.0,"#)
    );
}

#[test]
fn user_names_follow_the_policy() {
    let users = |policy: &UserPolicy| -> Vec<String> {
        let sent = snapshot(&sample(Form::V1_4, at()), Form::V1_4, policy);
        let processes = sent.gpus.into_iter().flat_map(|gpu| gpu.processes);
        processes.map(|process| process.linux_user).collect()
    };
    assert_eq!(
        users(&UserPolicy::Plain),
        ["alice", "bob", "unknown", "gdm"]
    );
    assert_eq!(users(&UserPolicy::Omit), ["unknown"; 4]);
    let hidden = users(&UserPolicy::Hash(Salt::new(&[7; 16]).unwrap()));
    assert!(hidden[0].starts_with("user-") && hidden[0] != hidden[1]);
    assert_eq!(hidden[2], "unknown");
}

#[test]
fn a_gpu_without_required_readings_is_left_out_and_named() {
    let reason = |change: fn(&mut Sample)| {
        let mut sample = sample(Form::V1_4, at());
        change(&mut sample);
        let built = built(ABOUT, &sample, Form::V1_4, &UserPolicy::Plain).unwrap();
        let uuids: Vec<_> = built.snapshot.gpus.iter().map(|gpu| gpu.index).collect();
        let errors = built.snapshot.errors.join(" ");
        let left_out = built
            .left_out
            .iter()
            .map(|LeftOut { index, why }| format!("{index}: {why}"));
        (uuids, errors, left_out.collect::<Vec<_>>().join("; "))
    };
    let check = |change: fn(&mut Sample), why: &str| {
        let expected = (
            vec![0, 2],
            "gpu_reading_unavailable".to_owned(),
            format!("1: {why}"),
        );
        assert_eq!(reason(change), expected);
    };
    check(
        |sample| sample.gpus[1].util = Err(Missing::Unsupported),
        "its utilisation is unknown (unsupported)",
    );
    check(
        |sample| sample.gpus[1].memory_total = Err(Missing::Gone),
        "its total memory is unknown (gone)",
    );
    check(
        |sample| sample.gpus[1].memory_total = Ok(Bytes(1000)),
        "its total memory is less than a megabyte",
    );
    check(
        |sample| sample.gpus[1].memory_used = Err(Missing::Denied),
        "its used memory is unknown (denied)",
    );
    check(
        |sample| {
            let parent: GpuUuid = sample.gpus[1].uuid.clone();
            let mut instance = sample.gpus[1].clone();
            instance.uuid = "MIG-1".parse().unwrap();
            instance.place = Place::Instance {
                parent,
                gpu_instance: Ok(1),
                compute_instance: Ok(0),
                slice: Err(Missing::Unsupported),
            };
            sample.gpus[1].place = Place::Parent { instances: 1 };
            sample.gpus.insert(2, instance);
        },
        "it is divided into MIG instances, which a snapshot cannot represent",
    );
    check(
        |sample| {
            sample.gpus.remove(1);
            for call in ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID"] {
                sample.problems.push(Problem {
                    gpu: None,
                    index: Some(1),
                    call: call.to_owned(),
                    code: Some(15),
                    why: Missing::Gone,
                    text: "lost".to_owned(),
                });
            }
        },
        "the driver returned no UUID",
    );
}

#[test]
fn unreadable_gpus_alone_make_no_snapshot() {
    let mut sample = sample(Form::V1_4, at());
    sample.gpus.truncate(1);
    sample.gpus[0].memory_total = Err(Missing::Gone);
    let refused = built(ABOUT, &sample, Form::V1_4, &UserPolicy::Plain).unwrap_err();
    let why = Unrepresentable::NoTotalMemory(Missing::Gone);
    assert_eq!(refused, BuildError(vec![LeftOut { index: 0, why }]));
    assert_eq!(
        refused.to_string(),
        "no GPU can be represented: gpu 0: its total memory is unknown (gone)"
    );
    sample.gpus.clear();
    let empty = built(ABOUT, &sample, Form::V1_4, &UserPolicy::Plain).unwrap();
    assert!(empty.snapshot.errors.is_empty() && empty.snapshot.gpus.is_empty());
}
