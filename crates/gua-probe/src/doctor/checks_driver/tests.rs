//! Tests of the checks of the driver.

use std::time::Duration;

use crate::host::device::Devices;
use gua_model::{Missing, Problem};

use super::*;
use crate::doctor::fixture::{
    VERSION, assert_check, gpu, healthy, instance, json, listing, sample,
};
use crate::doctor::program::Run;

fn check(
    judge: fn(&Facts) -> Finding,
    spoil: impl FnOnce(&mut Facts),
    (status, summary): (Status, &str),
    advice: &[&str],
) {
    let mut facts = healthy();
    spoil(&mut facts);
    assert_check(&judge(&facts), status, summary, advice);
}

fn fault() -> DriverFault {
    DriverFault::Init {
        code: 9,
        text: "Driver Not Loaded".into(),
    }
}

#[test]
fn device_files_are_counted() {
    check(
        nvidia_devices,
        |_| {},
        (Status::Ok, "2 GPU device files"),
        &[],
    );
    let one = |facts: &mut Facts| facts.devices.gpus.truncate(1);
    check(nvidia_devices, one, (Status::Ok, "1 GPU device file"), &[]);
}

#[test]
fn without_a_device_file_nothing_works() {
    let none = |facts: &mut Facts| {
        facts.devices = Devices::default();
        facts.module = None;
        facts.driver = Err(fault());
    };
    check(
        nvidia_devices,
        none,
        (Status::Error, "no device files"),
        &["blocker: Load the NVIDIA kernel driver"],
    );
    let controls = |facts: &mut Facts| {
        facts.devices.gpus.clear();
        facts.driver = Err(fault());
    };
    let summary = "no GPU device file, only 2 control files";
    check(
        nvidia_devices,
        controls,
        (Status::Warning, summary),
        &["blocker: Create the device files"],
    );
}

#[test]
fn where_nvml_sees_gpus_device_files_are_not_needed() {
    let wsl = |facts: &mut Facts| facts.devices = Devices::default();
    check(
        nvidia_devices,
        wsl,
        (Status::Warning, "no device files, yet NVML sees 2 GPUs"),
        &["advice: Nothing to do under WSL"],
    );
}

fn smi(answer: Option<Run>) -> impl FnOnce(&mut Facts) {
    move |facts| facts.smi = answer
}

#[test]
fn nvidia_smi_lists_gpus_and_instances() {
    check(nvidia_smi, |_| {}, (Status::Ok, "2 GPUs"), &[]);
    let mig = "GPU 0: NVIDIA A100 (UUID: GPU-0)\n  MIG 1g.10gb     Device  0: (UUID: MIG-0)\n";
    check(
        nvidia_smi,
        smi(listing(0, mig, "")),
        (Status::Ok, "1 GPU, 1 MIG instance"),
        &[],
    );
    let more = format!("{mig}  MIG 1g.10gb     Device  1: (UUID: MIG-1)\n");
    check(
        nvidia_smi,
        smi(listing(0, &more, "")),
        (Status::Ok, "1 GPU, 2 MIG instances"),
        &[],
    );
}

#[test]
fn a_failing_nvidia_smi_is_a_warning_and_no_blocker() {
    check(
        nvidia_smi,
        smi(None),
        (Status::Warning, "not found on PATH"),
        &["advice: Put nvidia-smi on PATH"],
    );
    let ended = |end| listing(0, "", "").map(|run| Run { end, ..run });
    let late = ended(End::TimedOut(Duration::from_secs(3)));
    check(
        nvidia_smi,
        smi(late),
        (Status::Warning, "timed out after 3 s"),
        &["advice: See `dmesg"],
    );
    let broken = ended(End::NotStarted("Exec format error".into()));
    let summary = "cannot be started: Exec format error";
    check(
        nvidia_smi,
        smi(broken),
        (Status::Warning, summary),
        &["advice: Check /usr/bin/nvidia-smi"],
    );
    check(
        nvidia_smi,
        smi(listing(0, "", "")),
        (Status::Warning, "no GPUs"),
        &["advice: Check that the GPUs"],
    );
    let failed = listing(9, "ignored", "NVIDIA-SMI has failed\nbecause\u{7}");
    let summary = "failed: NVIDIA-SMI has failed because\u{fffd}";
    check(
        nvidia_smi,
        smi(failed),
        (Status::Warning, summary),
        &["advice: Run `nvidia-smi -L`"],
    );
    check(
        nvidia_smi,
        smi(listing(3, "said here", "")),
        (Status::Warning, "failed: said here"),
        &["advice: Run"],
    );
    check(
        nvidia_smi,
        smi(listing(3, "", "")),
        (Status::Warning, "failed with exit code 3"),
        &["advice: Run"],
    );
    let long = listing(1, "", &"x".repeat(1000));
    let summary = format!("failed: {}...", "x".repeat(157));
    check(
        nvidia_smi,
        smi(long),
        (Status::Warning, &summary),
        &["advice: Run"],
    );
}

#[test]
fn the_details_of_nvidia_smi_have_the_keys_that_scripts_know() {
    let keys = |answer: Option<Run>| -> Vec<String> {
        let facts = Facts {
            smi: answer,
            ..healthy()
        };
        json(&nvidia_smi(&facts))
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    };
    assert_eq!(keys(None), ["found"]);
    let all = [
        "found",
        "gpu_lines",
        "mig_lines",
        "path",
        "returncode",
        "stderr",
        "stdout",
        "timed_out",
    ];
    assert_eq!(keys(listing(0, "", "")), all);
}

#[test]
fn nvml_says_how_many_gpus_and_which_driver() {
    check(
        nvml,
        |_| {},
        (Status::Ok, "initialized, GPU count=2, driver 550.54.14"),
        &[],
    );
    let none = |facts: &mut Facts| facts.driver = Ok(sample(Vec::new()));
    check(
        nvml,
        none,
        (Status::Error, "initialized, GPU count=0"),
        &["blocker: Check that the GPUs"],
    );
    let nameless = |facts: &mut Facts| {
        let mut sample = sample(vec![gpu(0)]);
        sample.driver.version = Err(Missing::Failed);
        facts.driver = Ok(sample);
    };
    check(
        nvml,
        nameless,
        (
            Status::Ok,
            "initialized, GPU count=1, driver unknown (failed)",
        ),
        &[],
    );
}

#[test]
fn a_gpu_without_a_name_counts_and_an_instance_does_not() {
    let mut sample = sample(vec![gpu(0), instance(0, 1), instance(0, 2)]);
    let problem = |index| Problem {
        gpu: None,
        index: Some(index),
        call: "nvmlDeviceGetUUID".into(),
        code: Some(15),
        why: Missing::Gone,
        text: "GPU is lost".into(),
    };
    sample.problems = vec![problem(1), problem(1)];
    assert_eq!(gpu_count(&sample), 2);
}

/// Compares a fault with the expected progress, the beginning of the summary and the beginning of the fix.
fn check_fault(
    fault: DriverFault,
    reached: (Option<bool>, Option<bool>),
    summary: &str,
    fix: &str,
) {
    let facts = Facts {
        driver: Err(fault),
        ..healthy()
    };
    let check = nvml(&facts);
    let details = (
        json(&check)["loadable"].as_bool(),
        json(&check)["initialized"].as_bool(),
    );
    assert_eq!(
        (check.status, details),
        (Status::Error, reached),
        "{check:?}"
    );
    assert!(check.summary.starts_with(summary), "{}", check.summary);
    let full = check.summary.clone();
    assert_check(&check, Status::Error, &full, &[&format!("blocker: {fix}")]);
    assert!(json(&check)["error"].is_string());
}

#[test]
fn every_fault_of_the_driver_says_what_happened_and_what_to_do() {
    let (no, not_yet, unknown) = (
        (Some(false), Some(false)),
        (Some(true), Some(false)),
        (None, None),
    );
    let library = || "libnvidia-ml.so.1".to_owned();
    let detail = || "no such file".to_owned();
    let missing = DriverFault::LibraryNotFound {
        library: library(),
        detail: detail(),
    };
    check_fault(
        missing,
        no,
        "not loadable: the NVIDIA driver library",
        "Install the library of the loaded NVIDIA driver",
    );
    let wrong = DriverFault::NotADriver {
        library: library(),
        detail: detail(),
    };
    check_fault(
        wrong,
        no,
        "not loadable: `libnvidia-ml.so.1` is not a usable",
        "Reinstall the NVIDIA driver",
    );
    for (code, fix) in [
        (4, "Ask for"),
        (9, "Load the NVIDIA kernel driver"),
        (18, "Reboot, or reload"),
        (999, "See `dmesg"),
        (777, "See"),
    ] {
        let fault = DriverFault::Init {
            code,
            text: "oh".into(),
        };
        check_fault(fault, not_yet, "loadable but init failed: ", fix);
    }
    let hung = || DriverFault::Hung {
        deadline: Duration::from_millis(300),
    };
    check_fault(
        hung(),
        unknown,
        "the driver did not answer within 0.3 s",
        "See `dmesg",
    );
    let waiting = DriverFault::BackingOff {
        retry_in: Duration::from_secs(2),
        last: Box::new(hung()),
    };
    check_fault(waiting, unknown, "backing off for", "See `dmesg");
    let died = DriverFault::ReaderDied {
        how: "the reader of the driver ended unexpectedly: exit code 3".into(),
    };
    check_fault(
        died,
        unknown,
        "the reader of the driver ended unexpectedly: exit code 3",
        "Run `gua doctor` again",
    );
    let unstarted = DriverFault::NoReader {
        detail: "no memory".into(),
    };
    check_fault(
        unstarted,
        unknown,
        "the reader of the driver could not be started",
        "",
    );
    let lost = DriverFault::Lost {
        call: "nvmlDeviceGetCount_v2".into(),
        code: 999,
        text: "Unknown".into(),
    };
    check_fault(
        lost,
        (Some(true), Some(true)),
        "the driver answered nvmlDeviceGetCount_v2",
        "",
    );
}

#[test]
fn kernel_module_and_library_are_compared() {
    let both = format!("kernel module and library are both {VERSION}");
    check(driver_match, |_| {}, (Status::Ok, &both), &[]);
    let older = |facts: &mut Facts| facts.module.as_mut().unwrap().version = "535.1".into();
    let summary = "kernel module 535.1, library 550.54.14";
    check(
        driver_match,
        older,
        (Status::Warning, summary),
        &["advice: Reboot, or reload"],
    );
    let silent = |facts: &mut Facts| facts.module = None;
    let summary = "library 550.54.14, the version of the kernel module is unknown";
    check(driver_match, silent, (Status::Ok, summary), &[]);
}

#[test]
fn a_mismatch_that_the_library_reports_is_an_error() {
    let mismatch = |module: bool| {
        move |facts: &mut Facts| {
            facts.driver = Err(DriverFault::Init {
                code: 18,
                text: "mismatch".into(),
            });
            if !module {
                facts.module = None;
            }
        }
    };
    let summary = "the library and the loaded kernel module (550.54.14) have different versions";
    let advice = &["advice: Reboot, or reload"];
    check(
        driver_match,
        mismatch(true),
        (Status::Error, summary),
        advice,
    );
    let summary = "the library and the loaded kernel module have different versions";
    check(
        driver_match,
        mismatch(false),
        (Status::Error, summary),
        advice,
    );
}

#[test]
fn without_the_librarys_version_nothing_is_compared() {
    let silent = |facts: &mut Facts| facts.driver = Err(fault());
    let summary = "kernel module 550.54.14, the version of the library is unknown";
    check(driver_match, silent, (Status::Skipped, summary), &[]);
    let nothing = |facts: &mut Facts| {
        facts.driver = Err(fault());
        facts.module = None;
    };
    check(
        driver_match,
        nothing,
        (Status::Skipped, "no version is known"),
        &[],
    );
}

fn not_found() -> DriverFault {
    DriverFault::LibraryNotFound {
        library: "x".into(),
        detail: "no such file".into(),
    }
}

/// Checks a host without any part of a driver, with this `driver` and `library`, and the one advice of both checks.
fn check_bare(driver: DriverFault, library: Option<NamedLibrary>, action: &str) {
    let mut facts = Facts {
        devices: Devices::default(),
        module: None,
        driver: Err(driver),
        ..healthy()
    };
    facts.known.library = library;
    for check in [nvml(&facts), nvidia_devices(&facts)] {
        let summary = check.summary.clone();
        let action = format!("blocker: {action}");
        assert_check(&check, Status::Error, &summary, &[&action]);
    }
}

#[test]
fn without_any_driver_both_checks_say_the_same_action() {
    check_bare(
        not_found(),
        None,
        "Install the NVIDIA driver; in a container",
    );
    check_bare(fault(), None, "Load the NVIDIA kernel driver");
}

#[test]
fn a_wrong_library_setting_is_to_be_corrected() {
    let library = |exists| NamedLibrary {
        path: "/nope/lib\u{1b}.so".into(),
        source: "GUA_NVML_LIBRARY".into(),
        exists,
    };
    let action = "Correct GUA_NVML_LIBRARY or unset it.";
    check_bare(not_found(), Some(library(Some(false))), action);
    check_bare(not_found(), Some(library(None)), action);
    let mut facts = healthy();
    facts.driver = Err(not_found());
    facts.known.library = Some(library(Some(false)));
    let summary = "not loadable: `/nope/lib\u{fffd}.so` (from GUA_NVML_LIBRARY) does not exist";
    assert_eq!(nvml(&facts).summary, summary);
}

#[test]
fn where_nvml_loads_the_advice_is_not_to_install_a_driver() {
    for code in [4, 9, 18, 999] {
        let facts = Facts {
            devices: Devices::default(),
            module: None,
            driver: Err(DriverFault::Init {
                code,
                text: "oh".into(),
            }),
            ..healthy()
        };
        let action = device_action(&facts);
        assert!(!action.to_lowercase().contains("install"), "{action}");
    }
}
