//! `gua explain` as users run it: the real program, a simulated driver, histories recorded tick by tick.

use std::path::Path;
use std::time::Duration;

use gua_model::{GapReason, Gpu, Milliwatts, Missing, Outage, UtilWindow};
use gua_store::WriterOptions;
use gua_test::recorded::Recorder;
use gua_test::{Ended, TestHost, samples};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{host, without_driver};

const UUID: &str = "GPU-5e1f0000-0000-4000-8000-000000000000";

/// Running `gua explain` on a host.
trait Explain {
    fn explain(&self, line: &str) -> Ended;

    /// Checks that the page contains all of these texts.
    fn says(&self, line: &str, parts: &[&str]);

    fn answer(&self, line: &str) -> Value;
}

impl Explain for TestHost {
    fn explain(&self, line: &str) -> Ended {
        self.gua(&format!("explain {line}"))
    }

    #[track_caller]
    fn says(&self, line: &str, parts: &[&str]) {
        let ended = self.explain(line);
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        for part in parts {
            assert!(
                ended.stdout.contains(part),
                "{line}: no `{part}` in\n{}",
                ended.stdout
            );
        }
    }

    #[track_caller]
    fn answer(&self, line: &str) -> Value {
        let ended = self.explain(&format!("{line} --json"));
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        serde_json::from_str(&ended.stdout).unwrap()
    }
}

/// Checks that a scenario of one GPU gives a state, and that the page gives these reasons for it.
#[track_caller]
fn check(scenario: &str, state: &str, parts: &[&str]) {
    let host = host(&scenario.replace("SELF", &std::process::id().to_string()));
    let answer = host.answer("0");
    assert_eq!(answer["state"], state, "{scenario}: {answer:#}");
    let head = match parts.first() {
        Some(part) if part.starts_with("counts as") => format!("\n{state}: {part}"),
        _ => format!("\n{state}"),
    };
    host.says("0", &[&[head.as_str()], parts].concat());
}

const HOLDER: &str = "[[gpu.process]]\npid = SELF\nmemory_mib = 500\n";

#[test]
fn every_state_of_a_single_sample_is_explained() {
    check(
        &format!("[[gpu]]\nutil = 60\n{HOLDER}"),
        "active",
        &["60 %, at or over 10 %", "Rule: "],
    );
    check(
        "[[gpu]]\nutil = 60\n",
        "ghost",
        &["counts as active", "No process is on the GPU"],
    );
    check(
        &format!("[[gpu]]\nutil = 9\n{HOLDER}"),
        "idle-held",
        &[
            "9 %, below 10 %",
            "One process holds 500 MB, more than 100 MB (states.held_mb).",
            "the user that it runs as",
        ],
    );
    check(
        "[[gpu]]\n[[gpu.process]]\npid = SELF\nmemory_mib = \"unknown\"\n",
        "idle-held",
        &[
            "a missing reading is never zero",
            "memory unknown (not supported by the GPU or its driver), computes",
        ],
    );
    check(
        "[[gpu]]\n[[gpu.process]]\npid = 4194303\nmemory_mib = 700\n",
        "orphan-held",
        &[
            "counts as idle-held",
            "According to the kernel, it has exited.",
            "exited: the kernel no longer has this process",
        ],
    );
    check(
        &format!(
            "[[gpu]]\n{HOLDER}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\ncode = \"NOT_SUPPORTED\"\n"
        ),
        "held-unknown",
        &["a share of its own", "The GPU has no utilisation reading."],
    );
    check(
        "[[gpu]]\n[[gpu.process]]\npid = SELF\nmemory_mib = 90\n[[gpu.process]]\npid = 1\nmemory_mib = 300\ntype = \"graphics\"\n",
        "truly-idle",
        &[
            "One process has 90 MB, not more than 100 MB",
            "not holders     graphics only",
        ],
    );
    check(
        "[[gpu]]\nlost = [[0, inf]]\n",
        "unobserved",
        &[
            "a gap, not as idle time",
            "The GPU does not respond",
            "(15)",
        ],
    );
    check(
        "[[gpu]]\n[[fault]]\nfunction = \"nvmlDeviceGetComputeRunningProcesses*\"\ncode = \"NO_PERMISSION\"\n",
        "unobserved",
        &["denied", "the list could not be read", "RunningProcesses"],
    );
}

#[test]
fn a_gpu_in_mig_mode_points_to_its_instances() {
    let host = host("[[gpu]]\n[[gpu.mig]]\nuuid = \"MIG-one\"\n[[gpu.mig]]\nuuid = \"MIG-two\"\n");
    host.says(
        "0",
        &[
            "its MIG instances are counted in its place",
            "gua explain MIG-two",
        ],
    );
    host.says(
        "MIG-two",
        &[
            "MIG instance of GPU 0",
            "truly-idle",
            "no utilisation reading",
        ],
    );
    assert_eq!(host.answer("0")["state"], Value::Null);
}

#[test]
fn an_unknown_gpu_is_a_usage_error_and_a_missing_driver_a_failure() {
    let host = host("[[gpu]]\n[[gpu]]\n");
    let ended = host.explain("7");
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(
        ended.stderr.contains("no GPU `7`; this host has 0 (GPU-"),
        "{ended:?}"
    );
    assert_eq!(host.explain("0 --at tomorrow").code, 2);
    assert_eq!(host.explain("0 --at 2999-01-01").code, 2);
    let ended = host.explain("0 --at 1h");
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("there is no history at"), "{ended:?}");
    assert_eq!(without_driver().explain("0").code, 1);
}

// Histories of one GPU, recorded tick by tick.

const START: Timestamp = Timestamp::constant(1_780_000_200, 0);
const INTERVAL: Duration = Duration::from_secs(30);

fn at(seconds: i64) -> Timestamp {
    START + SignedDuration::from_secs(seconds)
}

fn recorder(path: &Path, options: &WriterOptions) -> Recorder {
    Recorder::new(path, options, START, INTERVAL)
}

fn gpu(util: u32, power: u64, held_mb: Option<u64>) -> Gpu {
    let process = |mb| samples::process(4711, samples::user(1001, "ada"), mb);
    let processes = held_mb.map(process).into_iter().collect();
    Gpu {
        power: Ok(Milliwatts(power * 1000)),
        ..samples::gpu(0, UUID, util, processes)
    }
}

/// The utilisation buffer of a whole interval with so many busy and so many idle samples.
fn window(busy: u64, idle: u64) -> UtilWindow {
    let step = 30_000_000 / (busy + idle);
    let value = |place: u64| if place < busy { 90 } else { 0 };
    let samples: Vec<(u64, u32)> = (0..busy + idle)
        .map(|place| ((place + 1) * step, value(place)))
        .collect();
    UtilWindow::new(Some(0), &samples)
}

#[test]
fn a_stalled_gpu_is_recognised_by_its_idle_power() {
    let host = host(&format!(
        "[[gpu]]\nutil = 100\npower_w = 52\n[[gpu.process]]\npid = {}\nmemory_mib = 500\n",
        std::process::id()
    ));
    let now = gua_probe::clock::now();
    let mut recorder = recorder(&host.path("h.db"), &WriterOptions::default());
    let first = now - SignedDuration::from_hours(50);
    for tick in 0..240 {
        recorder.tick(
            first + SignedDuration::from_secs(30 * tick),
            vec![gpu(0, 50, None)],
        );
    }
    recorder.tick(now - SignedDuration::from_hours(26), vec![gpu(0, 50, None)]);
    recorder.close(now);
    host.says(
        "0 --db h.db",
        &[
            "\nstalled: counts as active",
            "It draws 52 W, and its idle floor is 50 W.",
            "idle floor 50 W",
        ],
    );
    assert_eq!(host.answer("0 --db h.db")["state"], "stalled");
}

#[test]
fn the_past_is_explained_by_its_tick_its_gap_or_its_stored_totals() {
    let host = host("");
    let mut recorder = recorder(&host.path("h.db"), &WriterOptions::default());
    recorder.tick(at(0), vec![gpu(0, 60, Some(700))]);
    let buffered = Gpu {
        window: Ok(window(3, 7)),
        ..gpu(0, 60, Some(700))
    };
    recorder.tick(at(30), vec![buffered]);
    // The driver hangs from second 60 to 150; the collector is down from 180 to 1000.
    let outage = Outage {
        from: at(60),
        to: at(150),
        reason: GapReason::DriverHung,
        detail: "the driver did not answer within 5 s".to_owned(),
        ticks_lost: 3,
    };
    recorder.store.record_outage(&outage).unwrap();
    recorder.tick(at(150), vec![gpu(80, 300, Some(700))]);
    let lost = Gpu::without_readings(UUID.parse().unwrap(), 0, Missing::Gone);
    recorder.tick(at(1000), vec![lost]);
    recorder.tick(at(1030), vec![gpu(0, 60, None)]);
    recorder.close(at(1100));

    let asked = |seconds: i64| format!("0 --db h.db --at {}", at(seconds));
    host.says(
        &asked(15),
        &[
            "as the history has it",
            "covers this time, until the next tick: 30 s of 30 s.",
            "30.0 % of it active\n",
            "70.0 % of it idle-held",
            "Of the 10 samples that the driver buffered in this time, 7 were below 10 %",
            "0 %: 7, 90-100 %: 3",
            "pid 4711 python, 700 MB, computes",
            "ada, from its login session",
            "on the GPU since 2026-05-28 20:30:00 UTC",
        ],
    );
    host.says(
        &asked(45),
        &[
            "\nidle-held\n",
            "One reading covers the whole time",
            "for its interval",
        ],
    );
    host.says(
        &asked(100),
        &[
            "unobserved: counts as a gap",
            "The driver did not respond in time.",
            "from 2026-05-28 20:31:00 UTC to 2026-05-28 20:32:30 UTC: 90 s.",
            "the driver did not answer within 5 s (3 ticks lost)",
        ],
    );
    host.says(
        &asked(500),
        &[
            "No collector was running.",
            "to 2026-05-28 20:46:40 UTC: 0:13:40.",
        ],
    );
    host.says(
        &asked(1010),
        &["unobserved: counts as a gap", "The GPU does not respond"],
    );
    host.says(&asked(1045), &["truly-idle", "No process is on the GPU."]);
    host.says(&asked(2000), &["No collector was running.", "until now"]);
    host.says(
        &asked(-5),
        &[
            "before the first sample",
            "first seen at 2026-05-28 20:30:00 UTC",
        ],
    );
    let gap = host.answer(&asked(100));
    assert_eq!(
        (&gap["found"], &gap["gap"]["reason"]),
        (&"gap".into(), &"driver-hung".into())
    );
    assert_eq!(host.answer(&asked(15))["shares"][0]["weight"], 3);
    assert_eq!(host.explain("1 --db h.db --at 1h").code, 2);

    // A read-only copy gives the same answer.
    std::fs::copy(host.path("h.db"), host.path("copy.db")).unwrap();
    let read_only = std::os::unix::fs::PermissionsExt::from_mode(0o444);
    std::fs::set_permissions(host.path("copy.db"), read_only).unwrap();
    let copy = host.explain(&asked(100).replace("h.db", "copy.db"));
    assert_eq!(copy.stdout, host.explain(&asked(100)).stdout, "{copy:?}");
}

#[test]
fn without_raw_ticks_the_quarter_totals_explain() {
    let host = host("");
    let options = WriterOptions {
        keep_raw: Some(Duration::from_secs(3600)),
        ..WriterOptions::default()
    };
    let mut recorder = recorder(&host.path("h.db"), &options);
    for tick in 0..600 {
        recorder.tick(at(30 * tick), vec![gpu(0, 60, Some(700))]);
        recorder.store.maintain(at(30 * tick)).unwrap();
    }
    recorder.close(at(30 * 600));
    let asked = format!("0 --db h.db --at {}", at(1000));
    host.says(
        &asked,
        &[
            "only the total of its quarter hour is known",
            "From 2026-05-28 20:45:00 UTC to 2026-05-28 21:00:00 UTC",
            "idle-held       0:15:00, from single readings\n",
            "holder          ada, 0:15:00",
        ],
    );
    assert_eq!(host.answer(&asked)["states"][0]["seconds"], 900.0);
}

#[test]
fn a_row_of_gpu_usage_audit_is_counted_by_the_rules_of_that_tool() {
    let host = host("");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../gua-compat/tests/golden/gpu-usage-audit-1.1.0.db");
    std::fs::copy(golden, host.path("old.db")).unwrap();
    let asked = "1 --db old.db --at 2026-11-15T22:47:36.40Z";
    host.says(
        asked,
        &[
            "a row of gpu-usage-audit",
            "\nidle-held: as counted by the tool that wrote it",
            "The utilisation was 2 %, below 10 %.",
        ],
    );
    assert_eq!(host.answer(asked)["roll_up"], "idle-held");
    host.says(
        "1 --db old.db --at 2026-11-01",
        &["no row of this file covers this time"],
    );
}
