//! `gua run --claim`: the run's GPUs are exclusive, and released when it ends.

use std::process::Stdio;

use serde_json::Value;

use super::{Jobs, host};
use crate::GUA;
use gua_test::{Ended, TestHost, wait_until};

/// The first GPU is held by an idle process; two are free.
const LAB: &str = "[[gpu]]\nuuid = \"GPU-a\"\n[[gpu.process]]\npid = 1\nmemory_mib = 2048\n\
                   [[gpu]]\nuuid = \"GPU-b\"\n[[gpu]]\nuuid = \"GPU-c\"\n";

fn claims(host: &TestHost) -> Vec<Value> {
    let mut command = host.command(GUA);
    let ended = Ended::from(command.args(["claim", "list", "--json"]).output().unwrap());
    let listed: Value = serde_json::from_str(&ended.stdout).unwrap();
    listed["claims"].as_array().unwrap().clone()
}

#[test]
fn the_job_sees_its_gpus_by_uuid_and_releases_them() {
    let host = host(LAB);
    let script = "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER; $GUA claim list --json > during; sleep 0.3; exit 5";
    let ended = host.run_job("--claim 2 --out out --interval 20ms", script);
    assert_eq!(ended.stdout, "GPU-b,GPU-c PCI_BUS_ID\n", "{ended:?}");
    assert_eq!(ended.code, 5);
    let during: Value = serde_json::from_str(&host.read("during")).unwrap();
    assert_eq!(during["claims"].as_array().unwrap().len(), 1, "{during:#}");
    assert_eq!(claims(&host), Vec::<Value>::new());
    let summary = host.summary();
    let indices: Vec<_> = summary["gpus"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gpu| gpu["index"].clone())
        .collect();
    assert_eq!(indices, [1, 2]);
}

#[test]
fn without_gpus_nothing_is_started() {
    let host = host(LAB);
    let ended = host.run_job("--claim 3", "echo started > started");
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(!host.path("started").exists());
    assert!(ended.stderr.contains("held"), "{ended:?}");
    let is_ours = |line: &str| line.starts_with("gua run: ");
    assert!(ended.stderr.lines().all(is_ours), "{ended:?}");
    for wait in ["--wait=50ms", "--wait 50ms"] {
        let ended = host.run_job(&format!("--claim 3 {wait}"), "echo started > started");
        assert_eq!(ended.code, 3, "{ended:?}");
        assert!(ended.stderr.lines().all(is_ours), "{ended:?}");
    }
    let ended = host.run_job("--claim 9", "echo started > started");
    assert!(ended.stderr.lines().all(is_ours), "{ended:?}");
    let ended = host.run_job("--wait", "true");
    assert_eq!(ended.code, 2, "{ended:?}");
}

#[test]
fn a_timeout_without_an_equals_sign_is_not_taken_for_the_program() {
    let host = host(LAB);
    let ended = host.run_job("--quiet --claim 1 --wait 1h", "echo $CUDA_VISIBLE_DEVICES");
    assert_eq!((ended.code, &*ended.stdout), (0, "GPU-b\n"), "{ended:?}");
    let ended = host.gua("run --claim 1 --wait 1h true");
    assert_eq!(ended.code, 127, "{ended:?}");
    let hint = "hint: to wait at most 1h, pass `--wait=1h`\n";
    assert!(ended.stderr.ends_with(hint), "{ended:?}");
}

#[test]
fn a_waiting_job_gets_the_gpus_of_the_one_before_it() {
    let host = host(LAB);
    let mut first = host
        .job(
            "--claim 2 --quiet",
            "echo > first; while [ ! -e stop ]; do sleep 0.01; done",
        )
        .spawn()
        .unwrap();
    wait_until("the first job", || host.path("first").exists());
    let mut second = host
        .job(
            "--claim 2 --wait",
            "echo $CUDA_VISIBLE_DEVICES > second; kill -TERM $$",
        )
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the queue", || {
        let mut command = host.command(GUA);
        let ended = Ended::from(command.args(["claim", "list", "--json"]).output().unwrap());
        let listed: Value = serde_json::from_str(&ended.stdout).unwrap();
        listed["queue"].as_array().unwrap().len() == 1
    });
    assert!(!host.path("second").exists());
    std::fs::write(host.path("stop"), "").unwrap();
    assert!(first.wait().unwrap().success());
    wait_until("the second job", || host.path("second").exists());
    // It was killed by a signal, and has released its GPUs all the same.
    assert!(!second.wait().unwrap().success());
    assert_eq!(claims(&host), Vec::<Value>::new());
}

#[test]
fn a_run_that_is_killed_leaves_no_claim() {
    let host = host(LAB);
    let mut child = host
        .job(
            "--claim 1 --quiet",
            "echo > ready; while [ ! -e stop ]; do sleep 0.01; done; echo > done",
        )
        .spawn()
        .unwrap();
    wait_until("the job", || host.path("ready").exists());
    assert_eq!(claims(&host).len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the end of the claim", || claims(&host).is_empty());
    std::fs::write(host.path("stop"), "").unwrap();
    wait_until("the end of the job", || host.path("done").exists());
}
