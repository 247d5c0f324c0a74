//! Drivers that give no sample: each has its own sentence and its own deed.

use std::fs;

use serde_json::Value;

use super::*;

/// A driver that gives no sample: exit 0 with the sentence and the deed, 1 for a strict caller and for `--sample`.
#[track_caller]
fn assert_blocked(host: &TestHost, sentence: &str, deed: &str) {
    let report = host.report();
    let nvml = check_of(&report, "nvml");
    let summary = nvml["summary"].as_str().unwrap();
    assert_eq!(nvml["status"], "error");
    assert!(summary.contains(sentence), "{summary}");
    assert_eq!(report["plan"]["mode"], "unsupported");
    assert_eq!(check_of(&report, "mig")["status"], "skipped");
    let blockers = report["plan"]["blockers"].as_array().unwrap();
    let says_so = |blocker: &Value| blocker.as_str().unwrap().starts_with(deed);
    assert!(blockers.iter().any(says_so), "{blockers:#?}");

    let strict = host.doctor(&["--strict"]);
    assert_eq!(strict.code, 1);
    assert!(strict.stdout.contains("\nFix:\n  - "), "{}", strict.stdout);
    assert!(!strict.stdout.contains("Recommended commands"));

    let sample = host.doctor(&["--sample"]);
    assert_eq!((sample.code, sample.stdout.as_str()), (1, ""));
    assert!(
        sample.stderr.starts_with("gua doctor: "),
        "{}",
        sample.stderr
    );
    assert!(sample.stderr.contains(sentence), "{}", sample.stderr);
}

#[test]
fn a_library_that_is_not_where_it_is_said_to_be_is_told() {
    let host = host("").with_library("/nonexistent/libnvidia-ml.so.1");
    assert_blocked(
        &host,
        "`/nonexistent/libnvidia-ml.so.1` (from GUA_NVML_LIBRARY) does not exist",
        "Correct GUA_NVML_LIBRARY or unset it.",
    );
    assert!(
        host.doctor(&["--sample"])
            .stderr
            .contains("\nhint: correct GUA_NVML_LIBRARY or unset it\n")
    );
}

#[test]
fn a_library_that_is_no_driver_is_told_from_one() {
    let host = host("");
    fs::write(host.path("text.so"), "not a library\n").unwrap();
    let text = host.path("text.so");
    assert_blocked(
        &host.with_library(text),
        "is no usable NVIDIA driver library",
        "Correct GUA_NVML_LIBRARY or unset it.",
    );
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .split_whitespace()
        .find(|word| word.contains("/libc.so"))
        .unwrap()
        .to_owned();
    assert_blocked(
        &super::host("").with_library(libc),
        "is no usable NVIDIA driver library",
        "Correct GUA_NVML_LIBRARY or unset it.",
    );
}

#[test]
fn every_way_in_which_the_driver_refuses_has_its_own_sentence() {
    for (code, sentence, deed) in [
        (
            4,
            "this user may not open the NVIDIA devices",
            "Ask for read and write access",
        ),
        (
            9,
            "the NVIDIA kernel driver is not loaded",
            "Load the NVIDIA kernel driver",
        ),
        (
            18,
            "are of different versions",
            "Reboot, or reload the NVIDIA kernel module.",
        ),
        (999, "reports an unknown error", "See `dmesg"),
        (777, "(NVML code 777)", "See `dmesg"),
    ] {
        let host = host(&format!("[driver]\ninit_code = {code}\n[[card]]\n"));
        assert_blocked(&host, sentence, deed);
        if code == 18 {
            assert_eq!(check_of(&host.report(), "driver_match")["status"], "error");
        }
    }
}

#[test]
fn a_driver_without_a_card_is_told() {
    let host = host("[clock]\nat = 1\n");
    let report = host.report();
    assert_check(&report, "nvml", "error: initialized, GPU count=0");
    assert_check(&report, "persistence", "skipped: no card");
    assert_eq!(report["plan"]["mode"], "unsupported");
    assert_eq!(host.doctor(&["--strict"]).code, 1);
    assert_eq!(host.doctor(&["--sample"]).code, 0);
}

#[test]
fn a_driver_that_hangs_costs_its_verdict_and_not_the_page() {
    let hang = format!(
        "{TWO_CARDS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\nhang = true\n"
    );
    let host = host(&hang).variable("GUA_DRIVER_DEADLINE", "300ms");
    assert_blocked(&host, "the driver did not answer within", "See `dmesg");
}

#[test]
fn a_driver_that_crashes_takes_only_the_reader_with_it() {
    let crash = format!(
        "{TWO_CARDS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\ncrash = true\n"
    );
    assert_blocked(
        &host(&crash),
        "the driver library crashed (signal ",
        "Run `gua doctor` again",
    );
}
