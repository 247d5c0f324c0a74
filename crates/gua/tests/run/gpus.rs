//! The GPUs that are watched: the job's own, and not those of other users.

use super::{Jobs, host};
use crate::without_driver;
use gua_test::TestHost;

/// Three GPUs; another process is on the second, and the job, once `JOB` is its pid, on the first.
const LAB: &str = "[[gpu]]\nuuid = \"GPU-a\"\nname = \"NVIDIA A100\"\nutil = 60\nmemory_total_mib = 40960\npower_w = 100\nenergy_mj = { from = 0, to = 3600000000, over = 36000 }\n[[gpu.process]]\npid = JOB\nmemory_mib = 2048\nsm_util = 55\n\
                   [[gpu]]\nuuid = \"GPU-b\"\nutil = 99\n[[gpu.process]]\npid = 1\nmemory_mib = 30000\n\
                   [[gpu]]\nuuid = \"GPU-c\"\nutil = 0\n";

/// A script that gets onto its GPU and stays there for so many seconds.
fn gets_onto_its_gpu(seconds: &str) -> String {
    format!("sed s/JOB/$$/ lab > new; mv new nvml-sim.toml; sleep {seconds}")
}

fn lab() -> TestHost {
    let host = host("[[gpu]]\n");
    let text = LAB.replace(
        "energy_mj = { from = 0, to = 3600000000, over = 36000 }\n",
        "",
    );
    std::fs::write(host.path("lab"), &text).unwrap();
    host.play(&text.replace("JOB", "999999"));
    host
}

fn indices(summary: &serde_json::Value) -> Vec<u64> {
    let gpus = summary["gpus"].as_array().unwrap().iter();
    gpus.map(|gpu| gpu["index"].as_u64().unwrap()).collect()
}

#[test]
fn the_gpus_on_which_the_job_runs_are_watched() {
    let host = lab();
    let ended = host.run_job("--out out --interval 50ms", &gets_onto_its_gpu("1"));
    assert_eq!(ended.code, 0, "{ended:?}");
    let summary = host.summary();
    assert_eq!(indices(&summary), [0], "{summary:#}");
    let gpu = &summary["gpus"][0];
    assert_eq!(gpu["own_memory_max_mb"], 2048);
    assert_eq!(gpu["util_mean_pct"], 60.0);
    assert_eq!(gpu["shared_seconds"], 0.0);
    assert!(
        gpu["states_seconds"]["active"].as_f64().unwrap() > 0.3,
        "{gpu:#}"
    );
    assert!(gpu["energy_joules"].as_f64().unwrap() > 10.0, "{gpu:#}");
    assert_eq!(summary["gpu_util_max_pct"], 60.0);
    assert!(
        ended.stderr.contains("gpu 0 (NVIDIA A100): 60 % busy"),
        "{ended:?}"
    );
}

#[test]
fn gpus_that_a_job_was_given_are_watched_even_if_unused() {
    let host = lab();
    let mut job = host.job("--out out --interval 50ms", &gets_onto_its_gpu("1"));
    let output = job.env("CUDA_VISIBLE_DEVICES", "GPU-a,2").output().unwrap();
    let summary = host.summary();
    assert_eq!(indices(&summary), [0, 2], "{summary:#}");
    let idle = &summary["gpus"][1]["states_seconds"]["truly-idle"];
    assert!(idle.as_f64().unwrap() > 0.3, "{summary:#}");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("GPU 2 was never used"), "{stderr}");
}

#[test]
fn all_gpus_or_a_list_can_be_selected() {
    let host = lab();
    for (flags, expected) in [("all", &[0, 1, 2][..]), ("1", &[1]), ("GPU-c,0", &[0, 2])] {
        host.run_job(
            &format!("--out out --interval 20ms --gpus {flags}"),
            "sleep 0.5",
        );
        let mut found = indices(&host.summary());
        found.sort_unstable();
        assert_eq!(found, expected, "{flags}");
    }
}

#[test]
fn a_job_on_no_gpu_is_reported_as_such() {
    let host = lab();
    let mut job = host.job("--out out --interval 20ms", "sleep 0.4");
    let output = job.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    assert!(output.status.success());
    assert_eq!(indices(&host.summary()), [0; 0]);
    assert!(host.summary()["run"]["samples"].as_u64().unwrap() > 0);
}

#[test]
fn an_unknown_gpu_is_a_usage_error_and_nothing_is_started() {
    let host = lab();
    for list in ["77", "0,77", "GPU-x", "0,GPU-x,1"] {
        let ended = host.run_job(&format!("--gpus {list}"), "echo started > started");
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains("no such GPU"), "{ended:?}");
        assert!(!host.path("started").exists(), "{list}");
    }
    // Without a driver the GPUs are unknown.
    let host = without_driver();
    let ended = host.run_job("--gpus 77", "exit 4");
    assert_eq!(ended.code, 4, "{ended:?}");
}

#[test]
fn a_variable_that_names_no_gpu_is_reported_once_and_one_that_hides_all_is_not() {
    let host = lab();
    let warnings = |list: &str| {
        let mut job = host.job("--out out --interval 20ms", "sleep 0.4");
        let output = job.env("CUDA_VISIBLE_DEVICES", list).output().unwrap();
        assert!(output.status.success());
        let notes = host.summary()["notes"].to_string();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        [notes, stderr].map(|text| text.matches("names no GPU").count())
    };
    assert_eq!(warnings("77"), [1, 1]);
    assert_eq!(
        warnings("GPU-x,0"),
        [1, 1],
        "everything after it is ignored"
    );
    assert_eq!(warnings("0"), [0, 0]);
    assert_eq!(warnings(""), [0, 0]);
}
