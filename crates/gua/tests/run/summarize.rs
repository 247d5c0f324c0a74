//! `gua summarize`: files of a run, and files of something else.

use std::fs;

use super::{Jobs, host};
use crate::{GUA, without_driver};
use gua_test::{Ended, TestHost};

const ONE_GPU: &str = "[[gpu]]\nutil = 60\nmemory_util = 12\nmemory_used_mib = 2048\nmemory_total_mib = 40960\npower_w = 100\n";

fn summarize(host: &TestHost, line: &str) -> Ended {
    let mut command = host.command(GUA);
    command.arg("summarize").args(line.split(' '));
    Ended::from(command.output().unwrap())
}

#[test]
fn files_are_recognised_by_their_content() {
    let host = host(ONE_GPU);
    host.run_job("--out out --gpus all --interval 20ms", "sleep 0.3");
    for (name, new) in [
        ("hw_metrics.csv", "a"),
        ("cpu_metrics.csv", "b"),
        ("hw_dmon.csv", "c"),
    ] {
        fs::copy(host.path("out").join(name), host.path(new)).unwrap();
    }
    let summarize = |line: &str| summarize(&host, line);
    assert_eq!(
        summarize("c a b --json").stdout,
        summarize("out --json").stdout
    );
    let alone = summarize("a");
    assert_eq!(alone.code, 0);
    assert!(
        alone.stdout.contains("gpu_util_mean_pct       60.0"),
        "{}",
        alone.stdout
    );
    assert!(
        alone.stdout.contains("cpu_usr_mean_pct           -"),
        "{}",
        alone.stdout
    );
    assert!(
        alone
            .stderr
            .contains("not measured: mem_util, cpu_usr, cpu_idle"),
        "{}",
        alone.stderr
    );
    assert_eq!(summarize("a a").code, 2);
    assert_eq!(summarize("nowhere").code, 2);
    assert_eq!(summarize("claims").code, 2);
}

#[test]
fn files_of_the_original_give_its_numbers_and_our_own_count_per_field() {
    let host = without_driver();
    let gpu = "t, 40, 5, 40536, 81920, 50.5, 40, 1, 1\nt, 60, 5, 100, 81920, 50.5, 40, 1, 1\nt, 100, 5, 99999, 81920, [N/A], 40, 1, 1\n";
    fs::create_dir(host.path("out")).unwrap();
    fs::write(host.path("out/hw_metrics.csv"), gpu).unwrap();
    let peak = |line: &str| {
        let ended = summarize(&host, line);
        let numbers: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        (numbers["peak_vram_mb"].as_f64().unwrap(), ended.stderr)
    };
    let (theirs, remark) = peak("out --json");
    assert_eq!(theirs, 40536.0);
    assert!(
        remark.contains("left out 1 line") && remark.contains("--per-field"),
        "{remark}"
    );
    let (better, remark) = peak("out --json --per-field");
    assert_eq!(better, 99999.0);
    assert!(!remark.contains("left out"), "{remark}");
    // Written by `gua run`.
    let started = r#"{"ts":"2026-05-11T00:00:00.000+00:00","type":"event","event":"run_started"}"#;
    fs::write(host.path("out/run.jsonl"), started).unwrap();
    assert_eq!(peak("out --json").0, 99999.0);
}

#[test]
fn the_peak_of_an_earlier_run_in_the_same_log_is_not_reported_for_the_last() {
    let host = host(ONE_GPU);
    let peak = || {
        let ended = summarize(&host, "out --json");
        let numbers: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        numbers["jax_peak_bytes_mb"].as_f64()
    };
    let flags = "--quiet --out out --gpus all --interval 20ms";
    host.run_job(flags, "$GUA phase --set jax_peak_bytes_mb=812.5; sleep 0.2");
    assert_eq!(peak(), Some(812.5));
    host.run_job(flags, "sleep 0.2");
    let log = host.events();
    let starts = log.iter().filter(|line| line["event"] == "run_started");
    assert_eq!(starts.count(), 2, "the log is continued");
    assert_eq!(peak(), None);
}

#[test]
fn files_without_lines_are_recognised_by_their_names() {
    let host = without_driver();
    for name in [
        "hw_metrics.csv",
        "hw_dmon.csv",
        "7-cpu_metrics.csv",
        "run.jsonl",
        "empty",
    ] {
        fs::write(host.path(name), "").unwrap();
    }
    let ended = summarize(
        &host,
        "hw_metrics.csv hw_dmon.csv 7-cpu_metrics.csv run.jsonl",
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    let ended = summarize(&host, "empty");
    assert_eq!(ended.code, 2, "{ended:?}");
    let sentence = "`empty` is empty, and its name is not that of a run file";
    assert!(ended.stderr.contains(sentence), "{ended:?}");
}

#[test]
fn an_unrelated_file_is_refused_and_named() {
    let host = without_driver();
    let check = |name: &str, text: &[u8]| {
        fs::write(host.path(name), text).unwrap();
        let ended = summarize(&host, name);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended:?}");
        let sentence = format!("`{name}` is not a file of a run\n");
        assert!(ended.stderr.contains(&sentence), "{ended:?}");
    };
    check("passwd", b"root:x:0:0:root:/root:/bin/sh\n");
    check("table.csv", b"a,b,c,d,e,f,g,h,i\n1,2,3,4,5,6,7,8,9\n");
    check("prices", b"bread,2.5,3\n");
    check("package.json", b"{\"name\": \"x\"}\n");
    check("words", b"four words in English\n");
    check("bytes", &[0, 159, 146, 150]);
}

#[test]
fn an_unreadable_file_is_named() {
    let host = without_driver();
    for name in ["hw_metrics.csv", "run.jsonl"] {
        let out = format!("of-{name}");
        fs::create_dir_all(host.path(&out).join(name)).unwrap();
        fs::write(host.path(&out).join("cpu_metrics.csv"), "").unwrap();
        let ended = summarize(&host, &out);
        assert_eq!(ended.code, 1, "{ended:?}");
        let sentence = format!("cannot read `{out}/{name}`: it is a directory");
        assert!(ended.stderr.contains(&sentence), "{ended:?}");
    }
}
