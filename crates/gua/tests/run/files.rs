//! The files of a run: present while it runs, readable by existing tools, correct at the end.

use std::process::Stdio;

use serde_json::Value;

use super::{Jobs, host};
use crate::{GUA, without_driver};
use gua_test::schema;
use gua_test::{Ended, TestHost, runs_as_root, wait_until};

const ONE_GPU: &str = "[[gpu]]\nuuid = \"GPU-a\"\nname = \"NVIDIA A100\"\nutil = 60\nmemory_util = 12\nmemory_used_mib = 2048\nmemory_total_mib = 40960\npower_w = 100\n";

#[test]
fn lines_can_be_read_while_the_job_runs() {
    let host = host(ONE_GPU);
    let script = "while [ ! -e stop ]; do sleep 0.01; done";
    let mut child = host
        .job("--out out --gpus all --interval 20ms", script)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("samples", || {
        host.read("out/run.jsonl").matches("\"sample\"").count() > 2
            && host.read("out/cpu_metrics.csv").lines().count() > 2
    });
    for name in ["hw_metrics.csv", "hw_dmon.csv"] {
        wait_until(name, || {
            host.read(&format!("out/{name}")).lines().count() > 2
        });
    }
    assert!(!host.path("out/summary.json").exists());
    std::fs::write(host.path("stop"), "").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(host.path("out/summary.json").exists());
}

#[test]
fn the_summary_matches_its_own_files_in_the_order_of_the_original() {
    let host = host(ONE_GPU);
    host.run_job("--out out --gpus all --interval 20ms", "sleep 0.5");
    let text = host.read("out/summary.json");
    let again = Ended::from(
        host.command(GUA)
            .args(["summarize", "out", "--json"])
            .output()
            .unwrap(),
    );
    let numbers: serde_json::Map<String, Value> = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(numbers["gpu_util_mean_pct"], 60.0);
    assert_eq!(numbers["peak_vram_mb"], 2048.0);
    assert_eq!(numbers["mem_util_mean_pct"], 12.0);
    let summary = host.summary();
    for (name, value) in &numbers {
        assert_eq!(summary[name], *value, "{name}");
    }
    let order = [
        "peak_vram_mb",
        "gpu_util_mean_pct",
        "gpu_util_max_pct",
        "power_watts_mean",
        "power_watts_max",
        "cpu_usr_mean_pct",
        "cpu_idle_mean_pct",
        "mem_util_mean_pct",
        "mem_util_max_pct",
        "run",
    ];
    let places: Vec<_> = order
        .map(|name| text.find(&format!("\"{name}\":")).unwrap())
        .into();
    assert!(places.is_sorted(), "{text}");
    assert_eq!(
        host.read("out/hw_dmon.csv").lines().next(),
        Some("# gpu     sm    mem     fb")
    );
}

#[test]
fn a_job_marks_phases_events_and_values_by_command_and_by_descriptor() {
    let host = host(ONE_GPU);
    let script = "$GUA phase load; sleep 0.2; echo train >&$GUA_RUN_FD; \
                  echo '{\"event\": \"saved\", \"data\": {\"epoch\": 3}}' >&$GUA_RUN_FD; \
                  $GUA phase --set jax_peak_bytes_mb=812.5 --set note=fine; \
                  python3 -c 'import os, subprocess; subprocess.run([os.environ[\"GUA\"], \"phase\", \"end\"], check=True)'; \
                  sleep 0.1";
    let ended = host.run_job("--out out --gpus all --interval 20ms", script);
    assert_eq!(ended.code, 0, "{ended:?}");
    let summary = host.summary();
    let names: Vec<&str> = summary["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["load", "train", "end"]);
    // A mark counts from when it is received, which is late on a busy machine.
    assert!(summary["phases"][0]["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(summary["phases"][0]["gpu_util_mean_pct"], 60.0);
    assert_eq!(summary["jax_peak_bytes_mb"], 812.5);
    assert_eq!(summary["values"]["note"], "fine");
    let log = host.events();
    let saved = log.iter().find(|line| line["event"] == "saved").unwrap();
    assert_eq!(saved["data"]["epoch"], 3);
    let phase = log.iter().find(|line| line["type"] == "phase").unwrap();
    assert_eq!(phase["name"], "load");
    let again = Ended::from(
        host.command(GUA)
            .args(["summarize", "out", "--json"])
            .output()
            .unwrap(),
    );
    assert!(
        again.stdout.contains("\"jax_peak_bytes_mb\": 812.5"),
        "{again:?}"
    );
}

#[test]
fn a_mark_outside_a_run_changes_nothing() {
    let host = host(ONE_GPU);
    let mark = |line: &str| {
        let mut command = host.command(GUA);
        Ended::from(command.args(line.split(' ')).output().unwrap())
    };
    let ended = mark("phase train");
    assert_eq!(ended.code, 0);
    assert!(ended.stderr.contains("not inside `gua run`"), "{ended:?}");
    assert_eq!(mark("phase --quiet train").stderr, "");
    assert_eq!(mark("phase").code, 2);
    for empty in [["phase", ""], ["phase", " "], ["phase", "--event="]] {
        let mut command = host.command(GUA);
        let ended = Ended::from(command.args(empty).output().unwrap());
        assert_eq!(ended.code, 2, "{ended:?}");
    }
    assert_eq!(mark("phase --set novalue").code, 2);
    // A descriptor that has been reused for something else is not written to.
    std::fs::write(host.path("precious"), "mine").unwrap();
    let mut command = host.command("sh");
    let script = "GUA_RUN_FD=7 GUA_RUN_PIPE=/proc/self/fd/7 $GUA phase x 7>>precious";
    command.args(["-c", script]).output().unwrap();
    assert_eq!(host.read("precious"), "mine");
}

#[test]
fn the_summary_follows_its_schema_whatever_was_measured() {
    let check = |host: &TestHost, script: &str| {
        host.run_job("--quiet --out out --gpus all --interval 20ms", script);
        schema::check("gua.summary.v1", &host.read("out/summary.json"));
        host.summary()
    };
    let marks = "$GUA phase load; $GUA phase --set jax_peak_bytes_mb=1.5 --set note=x; sleep 0.6";
    let summary = check(&host(ONE_GPU), marks);
    assert_eq!(summary["phases"][0]["name"], "load");
    assert!(summary["gpus"][0]["missing"].is_object());
    let silent =
        "[[gpu]]\n[[fault]]\nfunction = \"nvmlDeviceGetTemperature*\"\ncode = \"NOT_SUPPORTED\"\n";
    let summary = check(&host(silent), "sleep 0.3; kill -KILL $$");
    assert_eq!(summary["run"]["signal"], 9);
    assert_eq!(summary["gpus"][0]["missing"]["temperature"], "unsupported");
    let summary = check(&without_driver(), "true");
    assert_eq!(summary["gpus"], serde_json::json!([]));
}

#[test]
fn events_missing_from_the_history_are_noted_in_the_summary() {
    let host = host("[[gpu]]\n");
    std::fs::remove_dir(host.path("claims")).unwrap();
    std::fs::write(host.path("claims"), "").unwrap();
    let ended = host.run_job("--out out", "exit 3");
    assert_eq!(ended.code, 3);
    let note = "cannot record the run in the history";
    assert!(ended.stderr.contains(note), "{ended:?}");
    let notes = host.summary()["notes"].to_string();
    assert!(notes.contains(note), "{notes}");
}

/// Only root can create files of another user.
#[test]
fn files_that_another_user_planted_in_the_directory_are_refused_before_the_job_starts() {
    if !runs_as_root("files of another user in the directory of a run") {
        return;
    }
    let host = host(ONE_GPU);
    let victim = host.path("victim");
    std::fs::write(&victim, "kept").unwrap();
    for name in [
        "run.jsonl",
        "hw_metrics.csv",
        "hw_dmon.csv",
        "cpu_metrics.csv",
        "summary.json",
    ] {
        let path = host.path("out").join(name);
        std::fs::create_dir_all(host.path("out")).unwrap();
        for kind in ["link", "pipe"] {
            match kind {
                "link" => std::os::unix::fs::symlink(&victim, &path).unwrap(),
                _ => {
                    let mode = rustix::fs::Mode::from_raw_mode(0o666);
                    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
                }
            }
            std::os::unix::fs::lchown(&path, Some(65534), Some(65534)).unwrap();
            let ended = host.run_job("--out out", "echo started");
            assert_eq!(
                (ended.code, ended.stdout.as_str()),
                (2, ""),
                "{kind} {ended:?}"
            );
            assert!(ended.stderr.contains(name), "{ended:?}");
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
            std::fs::remove_file(&path).unwrap();
        }
    }
}
