//! Drivers that give no sample: each has its own message and its own next step.

use std::fs;

use serde_json::Value;

use super::*;

/// Checks a driver that gives no sample: exit 0 with the message and the next step, 1 for `--strict` and `--sample`.
#[track_caller]
fn assert_blocked(host: &TestHost, sentence: &str, next_step: &str) {
    let report = host.report();
    let nvml = check_of(&report, "nvml");
    let summary = nvml["summary"].as_str().unwrap();
    assert_eq!(nvml["status"], "error");
    assert!(summary.contains(sentence), "{summary}");
    assert_eq!(report["plan"]["mode"], "unsupported");
    assert_eq!(report["recommended_commands"], serde_json::json!({}));
    assert_eq!(report["gpus"], Value::Null);
    assert_eq!(check_of(&report, "mig")["status"], "skipped");
    let blockers = report["plan"]["blockers"].as_array().unwrap();
    let says_so = |blocker: &Value| blocker.as_str().unwrap().starts_with(next_step);
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
fn a_configured_library_that_does_not_exist_is_reported() {
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
fn a_library_that_is_not_a_driver_is_recognised() {
    let host = host("");
    fs::write(host.path("text.so"), "not a library\n").unwrap();
    let text = host.path("text.so");
    assert_blocked(
        &host.with_library(text),
        "is not a usable NVIDIA driver library",
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
        "is not a usable NVIDIA driver library",
        "Correct GUA_NVML_LIBRARY or unset it.",
    );
}

#[test]
fn each_driver_error_has_its_own_message() {
    for (code, sentence, next_step) in [
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
        let host = host(&format!("[driver]\ninit_code = {code}\n[[gpu]]\n"));
        assert_blocked(&host, sentence, next_step);
        if code == 18 {
            assert_eq!(check_of(&host.report(), "driver_match")["status"], "error");
        }
    }
}

#[test]
fn a_driver_without_gpus_is_reported() {
    let host = host("[clock]\nat = 1\n");
    let report = host.report();
    assert_check(&report, "nvml", "error: initialized, GPU count=0");
    assert_check(&report, "persistence", "skipped: no GPU");
    assert_eq!(report["plan"]["mode"], "unsupported");
    assert_eq!(host.doctor(&["--strict"]).code, 1);
    assert_eq!(host.doctor(&["--sample"]).code, 0);
}

#[test]
fn a_hung_driver_costs_only_its_own_check() {
    let hang =
        format!("{TWO_GPUS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\nhang = true\n");
    let host = host(&hang).variable("GUA_DRIVER_DEADLINE", "300ms");
    assert_blocked(&host, "the driver did not answer within", "See `dmesg");
}

#[test]
fn a_crashing_driver_ends_only_the_reader() {
    let crash = format!(
        "{TWO_GPUS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\ncrash = true\n"
    );
    assert_blocked(
        &host(&crash),
        "the driver library crashed (signal ",
        "Run `gua doctor` again",
    );
}
