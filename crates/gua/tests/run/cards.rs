//! Whose cards are watched: the job's own, and not the neighbours'.

use super::{Jobs, host};
use crate::without_driver;
use gua_test::TestHost;

/// Three cards; the neighbour is on the second, and the job, once `JOB` is its pid, on the first.
const LAB: &str = "[[card]]\nuuid = \"GPU-a\"\nname = \"NVIDIA A100\"\nutil = 60\nmemory_total_mib = 40960\npower_w = 100\nenergy_mj = { from = 0, to = 3600000000, over = 36000 }\n[[card.process]]\npid = JOB\nmemory_mib = 2048\nsm_util = 55\n\
                   [[card]]\nuuid = \"GPU-b\"\nutil = 99\n[[card.process]]\npid = 1\nmemory_mib = 30000\n\
                   [[card]]\nuuid = \"GPU-c\"\nutil = 0\n";

/// A script that comes onto its card, and stays for so long.
fn comes_onto_its_card(seconds: &str) -> String {
    format!("sed s/JOB/$$/ lab > new; mv new nvml-sim.toml; sleep {seconds}")
}

fn lab() -> TestHost {
    let host = host("[[card]]\n");
    let text = LAB.replace(
        "energy_mj = { from = 0, to = 3600000000, over = 36000 }\n",
        "",
    );
    std::fs::write(host.path("lab"), &text).unwrap();
    host.play(&text.replace("JOB", "999999"));
    host
}

fn indices(summary: &serde_json::Value) -> Vec<u64> {
    let cards = summary["gpus"].as_array().unwrap().iter();
    cards.map(|card| card["index"].as_u64().unwrap()).collect()
}

#[test]
fn the_cards_are_those_on_which_the_job_is_seen() {
    let host = lab();
    let ended = host.run_job("--out out --interval 50ms", &comes_onto_its_card("1"));
    assert_eq!(ended.code, 0, "{ended:?}");
    let summary = host.summary();
    assert_eq!(indices(&summary), [0], "{summary:#}");
    let card = &summary["gpus"][0];
    assert_eq!(card["own_memory_max_mb"], 2048);
    assert_eq!(card["util_mean_pct"], 60.0);
    assert_eq!(card["shared_seconds"], 0.0);
    assert!(
        card["states_seconds"]["active"].as_f64().unwrap() > 0.3,
        "{card:#}"
    );
    assert!(card["energy_joules"].as_f64().unwrap() > 10.0, "{card:#}");
    assert_eq!(summary["gpu_util_max_pct"], 60.0);
    assert!(
        ended.stderr.contains("gpu 0 (NVIDIA A100): 60 % busy"),
        "{ended:?}"
    );
}

#[test]
fn the_cards_that_a_job_was_given_count_though_it_does_not_use_them() {
    let host = lab();
    let mut job = host.job("--out out --interval 50ms", &comes_onto_its_card("1"));
    let output = job.env("CUDA_VISIBLE_DEVICES", "GPU-a,2").output().unwrap();
    let summary = host.summary();
    assert_eq!(indices(&summary), [0, 2], "{summary:#}");
    let idle = &summary["gpus"][1]["states_seconds"]["truly-idle"];
    assert!(idle.as_f64().unwrap() > 0.3, "{summary:#}");
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(talk.contains("GPU 2 was never used"), "{talk}");
}

#[test]
fn all_cards_or_a_list_of_them_can_be_asked_for() {
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
fn a_job_on_no_card_is_said_to_be_on_none() {
    let host = lab();
    let mut job = host.job("--out out --interval 20ms", "sleep 0.4");
    let output = job.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    assert!(output.status.success());
    assert_eq!(indices(&host.summary()), [0; 0]);
    assert!(host.summary()["run"]["samples"].as_u64().unwrap() > 0);
}

#[test]
fn a_card_that_is_not_there_is_a_wrong_use_and_nothing_is_started() {
    let host = lab();
    for list in ["77", "0,77", "GPU-x", "0,GPU-x,1"] {
        let ended = host.run_job(&format!("--gpus {list}"), "echo started > started");
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains("there is no such card"), "{ended:?}");
        assert!(!host.path("started").exists(), "{list}");
    }
    // Without a driver nobody knows.
    let host = without_driver();
    let ended = host.run_job("--gpus 77", "exit 4");
    assert_eq!(ended.code, 4, "{ended:?}");
}

#[test]
fn a_variable_that_names_no_card_is_told_once_and_one_that_hides_all_is_not() {
    let host = lab();
    let said = |list: &str| {
        let mut job = host.job("--out out --interval 20ms", "sleep 0.4");
        let output = job.env("CUDA_VISIBLE_DEVICES", list).output().unwrap();
        assert!(output.status.success());
        let notes = host.summary()["notes"].to_string();
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        [notes, talk].map(|text| text.matches("names no card").count())
    };
    assert_eq!(said("77"), [1, 1]);
    assert_eq!(
        said("GPU-x,0"),
        [1, 1],
        "what comes after it counts for nothing"
    );
    assert_eq!(said("0"), [0, 0]);
    assert_eq!(said(""), [0, 0]);
}
