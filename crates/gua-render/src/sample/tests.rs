//! Tests that the sample matches its documentation.

use std::time::Duration;

use gua_test::healthy::{gpu, identity, instance, process, sample, uuid};

use super::*;

fn document(sample: &Sample, thresholds: &Thresholds) -> Value {
    serde_json::from_str(&json(sample, thresholds)).unwrap()
}

fn shown(gpus: Vec<Gpu>) -> Value {
    document(&sample(gpus), &Thresholds::default())
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn a_sample_reads_as_it_is_documented() {
    let mut held = gpu(0);
    held.window = Ok(UtilWindow::new(
        Some(0),
        &[(1_000_000, 0), (2_000_000, 30), (3_000_000, 101)],
    ));
    held.processes = vec![
        process(7, Ok(identity(7))),
        process(8, Err(Missing::Denied)),
    ];
    let mut sample = sample(vec![held]);
    sample.boot = Err(Missing::Denied);
    sample.problems = vec![Problem {
        gpu: Some(uuid(0)),
        index: Some(0),
        call: "nvmlDeviceGetTotalEccErrors".into(),
        code: Some(999),
        why: Missing::Failed,
        text: "Unknown Error".into(),
    }];
    let text = json(&sample, &Thresholds::default());
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sample/sample.json");
    gua_test::assert_current(golden.as_ref(), &text);
}

#[test]
fn a_missing_reading_is_null_and_says_why() {
    let value = shown(vec![Gpu::without_readings(uuid(3), 3, Missing::Gone)]);
    let gpu_document = &value["gpus"][0];
    let missing = gpu_document["missing"].as_object().unwrap();
    // Every reading, the name and the window.
    assert_eq!(missing.len(), READINGS.len() + 2);
    for (key, why) in missing {
        assert_eq!(
            (&gpu_document[key], why),
            (&Value::Null, &"gone".into()),
            "{key}"
        );
    }
    assert_eq!(
        (&gpu_document["state"], &gpu_document["roll_up"]),
        (&"unobserved".into(), &Value::Null)
    );
    assert_eq!(gpu_document["evidence"]["unobserved"], "gone");
}

#[test]
fn a_process_that_cannot_be_seen_has_the_same_keys_as_any() {
    let mut held = gpu(0);
    held.processes = vec![process(1, Ok(identity(1))), process(2, Err(Missing::Gone))];
    let value = shown(vec![held]);
    let processes = &value["gpus"][0]["processes"];
    assert_eq!(keys(&processes[0]), keys(&processes[1]));
    assert_eq!(processes[1]["missing"]["owner"], "gone");
}

#[test]
fn a_mig_instance_names_its_parent_and_its_share() {
    let parent = Gpu {
        place: Place::Parent { instances: 1 },
        ..gpu(0)
    };
    let mut part = instance(0, 4);
    if let Place::Instance { slice, .. } = &mut part.place {
        *slice = Ok(Slice { slices: 2, of: 7 });
    }
    let value = shown(vec![parent, part, instance(0, 5)]);
    let gpus = &value["gpus"];
    assert_eq!(
        (&gpus[0]["place"], &gpus[0]["instances"]),
        (&"parent".into(), &1.into())
    );
    assert_eq!(
        (&gpus[0]["state"], &gpus[0]["roll_up"]),
        (&Value::Null, &Value::Null),
        "its instances are counted in its place"
    );
    assert_eq!(
        (&gpus[1]["place"], &gpus[1]["parent_uuid"]),
        (&"instance".into(), &"GPU-0".into())
    );
    assert_eq!(
        (&gpus[1]["gpu_instance"], &gpus[1]["compute_instance"]),
        (&4.into(), &0.into())
    );
    assert_eq!(
        gpus[1]["slice"],
        serde_json::json!({ "slices": 2, "of": 7 })
    );
    assert_eq!(
        (&gpus[2]["slice"], &gpus[2]["missing"]["slice"]),
        (&Value::Null, &"unsupported".into())
    );
}

#[test]
fn the_thresholds_of_the_settings_decide_the_state() {
    let busy = Gpu {
        util: Ok(Percent::HUNDRED),
        ..gpu(0)
    };
    let mut held = gpu(1);
    held.processes = vec![process(1, Ok(identity(1)))];
    let state = |gpus: &[Gpu], thresholds: &Thresholds| -> Vec<String> {
        let value = document(&sample(gpus.to_vec()), thresholds);
        let states = value["gpus"].as_array().unwrap().iter();
        states
            .map(|gpu| gpu["state"].as_str().unwrap().to_owned())
            .collect()
    };
    let gpus = [busy, held, gpu(2)];
    assert_eq!(
        state(&gpus, &Thresholds::default()),
        ["ghost", "idle-held", "truly-idle"]
    );
    let lenient = Thresholds {
        held_mb: 50_000,
        ..Thresholds::default()
    };
    assert_eq!(
        state(&gpus, &lenient),
        ["ghost", "truly-idle", "truly-idle"]
    );
}

#[test]
fn a_window_without_samples_has_no_mean() {
    let empty = Gpu {
        window: Ok(UtilWindow::default()),
        ..gpu(0)
    };
    let window = &shown(vec![empty])["gpus"][0]["util_window"];
    assert_eq!(
        (&window["mean_percent"], &window["samples"]),
        (&Value::Null, &0.into())
    );
    assert_eq!(window["covered_seconds"], Duration::ZERO.as_secs_f64());
}
