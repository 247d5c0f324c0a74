//! Statements of the page about GPUs, holders, nvidia-smi, the configuration and the path of the history.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::*;

#[test]
fn a_healthy_host_is_ready_to_collect() {
    let host = host(TWO_GPUS).with_smi("echo 'GPU 0: A'; echo 'GPU 1: A'");
    let report = host.report();
    assert_check(&report, "nvidia_smi", "ok: 2 GPUs");
    let nvml = check_of(&report, "nvml");
    assert_eq!(
        (&nvml["status"], &nvml["details"]["device_count"]),
        (&"ok".into(), &2.into())
    );
    assert_check(&report, "unreadable_gpus", "ok: 2 GPUs without problems");
    assert_check(&report, "processes_visible", "ok: no process on any GPU");
    assert_check(&report, "config", "ok: no problems");
    assert_check(
        &report,
        "default_db",
        "ok: absent, its directory will be created",
    );
    assert_eq!(report["plan"]["mode"], "host");
    assert_eq!(
        commands(&report),
        ["gua daemon --interval 30s", "gua report --since 1h"]
    );
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    let expected = "checks generated_at gpus no_system_changes plan read_only recommended_commands schema_version scope";
    assert_eq!(keys, expected.split(' ').collect::<Vec<_>>());
    gua_test::schema::check("gua.doctor.v1", &report.to_string());

    let page = host.doctor(&[]);
    assert_eq!((page.code, page.stderr.as_str()), (0, ""));
    assert!(
        page.stdout.starts_with(
            "gua doctor\n\nScope:\n  machine: local\n\nHost:\n  OS/kernel: ok, Linux "
        )
    );
    assert!(
        page.stdout
            .contains("\n  nvidia-smi: ok, 2 GPUs\n  NVML: ok, initialized, GPU count=2, driver ")
    );
    assert!(!page.stdout.contains("\nFix:"), "{}", page.stdout);
    assert_eq!(host.doctor(&["--strict"]).code, 0);
}

#[test]
fn a_lost_gpu_is_an_error_and_the_other_is_still_read() {
    let host = host("[clock]\nat = 100\n[[gpu]]\n[[gpu]]\nlost = [[0, 1000]]\n");
    let report = host.report();
    assert_eq!(check_of(&report, "nvml")["details"]["device_count"], 2);
    let readings = check_of(&report, "unreadable_gpus");
    assert_eq!(readings["status"], "error");
    assert!(
        readings["summary"].as_str().unwrap().contains("(15)"),
        "{readings:#}"
    );
    assert_eq!(readings["details"]["problems"][0]["why"], "gone");
    assert_eq!(report["plan"]["mode"], "host");
    let notes = report["plan"]["warnings"].to_string();
    assert!(
        notes.contains("See `dmesg | grep -i xid`, then reset GPU 1 or reboot."),
        "{notes}"
    );
    assert_eq!(report["gpus"][1]["state"], "unobserved");
    let page = host.doctor(&[]).stdout;
    assert!(
        page.contains("\n  1    lost ") && page.contains(" lost "),
        "{page}"
    );
    assert!(page.contains("\nFix:\n  - See `dmesg"), "{page}");
    assert!(!page.contains("Recommended commands"), "{page}");
    assert_eq!(
        (host.doctor(&[]).code, host.doctor(&["--strict"]).code),
        (0, 1)
    );
}

#[test]
fn the_page_shows_who_holds_which_gpu() {
    let pid = std::process::id();
    let scenario = format!(
        "[clock]\nat = 100\n[[gpu]]\nname = \"NVIDIA A100\"\nmemory_total_mib = 81920\n\
         [[gpu.process]]\npid = {pid}\nmemory_mib = 11264\n[[gpu]]\n"
    );
    let host = host(&scenario);
    let page = host.doctor(&[]).stdout;
    let mut lines = page.lines().skip_while(|line| *line != "GPUs:").skip(2);
    let (held, free) = (lines.next().unwrap(), lines.next().unwrap());
    assert!(held.starts_with("  0    idle-held "), "{held}");
    assert!(held.contains(" 11.0/80.0 GB "), "{held}");
    assert!(free.starts_with("  1    free "), "{free}");
    let holder = &host.report()["gpus"][0]["holders"][0];
    assert_eq!(
        (&holder["pid"], &holder["unseen_because"]),
        (&pid.into(), &Value::Null)
    );
    assert!(held.contains(&format!(" {pid} ")), "{held}");
    // This test has been running for less than an hour.
    assert!(holder["age_seconds"].as_u64() < Some(3_600), "{holder:#}");
}

#[test]
fn the_sick_scenario_is_reported_as_sick_at_any_time() {
    let scenario = include_str!("../../../nvml-sim/scenarios/sick.toml");
    for at in [0, 45, 1_000_000] {
        let host = host(&format!("{scenario}\n[clock]\nat = {at}\n"));
        let report = host.report();
        assert_eq!(check_of(&report, "unreadable_gpus")["status"], "error");
        assert_check(
            &report,
            "memory_errors",
            "warning: GPU 3 (Tesla V100-SXM2-32GB): 2 uncorrected",
        );
        assert_eq!(check_of(&report, "utilisation")["status"], "warning");
    }
}

#[test]
fn invalid_driver_values_are_never_shown_as_readings() {
    let garbage = format!("{TWO_GPUS}[[fault]]\nfunction = \"nvmlDeviceGet*\"\ngarbage = true\n");
    let host = host(&garbage);
    let report = host.report();
    assert_ne!(check_of(&report, "unreadable_gpus")["status"], "ok");
    assert_eq!(host.doctor(&[]).code, 0);
    let one = format!(
        "{TWO_GPUS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\ngpu = 0\ngarbage = true\n"
    );
    let sample = super::host(&one).doctor(&["--sample"]);
    let sample: Value = serde_json::from_str(&sample.stdout).unwrap();
    let gpu = &sample["gpus"][0];
    assert_eq!(
        (&gpu["util_percent"], &gpu["missing"]["util_percent"]),
        (&Value::Null, &"failed".into())
    );
    assert_eq!(sample["gpus"][1]["util_percent"], 0);
}

#[test]
fn a_failing_or_hanging_nvidia_smi_does_not_block_collecting() {
    let host = host(TWO_GPUS);
    assert_check(&host.report(), "nvidia_smi", "warning: not found on PATH");
    let host = host.with_smi("echo 'NVIDIA-SMI has failed' >&2; exit 9");
    assert_check(
        &host.report(),
        "nvidia_smi",
        "warning: failed: NVIDIA-SMI has failed",
    );
    let host = host.with_smi("echo 'GPU 0: A'; exec /bin/sleep 600");
    let report = host.report();
    assert_check(&report, "nvidia_smi", "warning: timed out after 3 s");
    assert_eq!(
        check_of(&report, "nvidia_smi")["details"]["timed_out"],
        true
    );
    assert_eq!(report["plan"]["mode"], "host");
}

#[test]
fn a_sample_has_every_gpu_with_its_state_and_no_command_line() {
    let pid = std::process::id();
    let scenario = format!(
        "[clock]\nat = 100\n[[gpu]]\n[[gpu.process]]\npid = {pid}\nmemory_mib = 500\n[[gpu]]\nutil = 90\n"
    );
    let host = host(&scenario);
    let answer = host.doctor(&["--sample"]);
    assert_eq!((answer.code, answer.stderr.as_str()), (0, ""));
    let sample: Value = serde_json::from_str(&answer.stdout).unwrap();
    let states: Vec<_> = sample["gpus"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gpu| &gpu["state"])
        .collect();
    assert_eq!(states, ["idle-held", "ghost"]);
    let process = &sample["gpus"][0]["processes"][0];
    assert_eq!(
        (&process["pid"], &process["memory_used_bytes"]),
        (&pid.into(), &(500u64 << 20).into())
    );
    assert!(process["owner"]["uid"].is_u64(), "{process:#}");
    assert!(process["comm"].is_string());
    assert!(
        !answer.stdout.contains("a_sample_has_every_gpu"),
        "it contains a command line"
    );
    let lenient = host.variable("GUA_HELD_MB", "600").doctor(&["--sample"]);
    let sample: Value = serde_json::from_str(&lenient.stdout).unwrap();
    assert_eq!(sample["gpus"][0]["state"], "truly-idle");
}

#[test]
fn a_broken_configuration_is_a_finding() {
    let host = host(TWO_GPUS).variable("GUA_ACTIVE_UTIL", "lots");
    let report = host.report();
    let config = check_of(&report, "config");
    assert_eq!(config["status"], "error");
    assert!(
        config["summary"]
            .as_str()
            .unwrap()
            .starts_with("GUA_ACTIVE_UTIL: "),
        "{config:#}"
    );
    // A machine-readable sample must not be based on settings that nobody chose.
    let sample = host.doctor(&["--sample"]);
    assert_eq!((sample.code, sample.stdout.as_str()), (2, ""));
    assert!(
        sample
            .stderr
            .starts_with("gua doctor: the configuration has mistakes: GUA_ACTIVE_UTIL: ")
            && sample.stderr.contains("\nhint: `gua config check`"),
        "{}",
        sample.stderr
    );
    assert_eq!(
        (host.doctor(&[]).code, host.doctor(&["--strict"]).code),
        (0, 1)
    );
}

#[test]
fn the_history_path_is_checked_and_never_touched() {
    let host = host(TWO_GPUS);
    let with_db = |path: &Path| {
        let answer = host.doctor(&["--json", "--db", path.to_str().unwrap()]);
        assert_eq!(answer.code, 0);
        serde_json::from_str::<Value>(&answer.stdout).unwrap()
    };
    let report = with_db(&host.path("a b.db"));
    assert_check(&report, "default_db", "ok: absent and ready to be created");
    let path = host.path("a b.db").display().to_string();
    assert_eq!(
        commands(&report),
        [
            format!("gua daemon --db '{path}' --interval 30s"),
            format!("gua report --db '{path}' --since 1h")
        ]
    );
    assert_check(
        &with_db(&host.path("no/gua.db")),
        "default_db",
        "error: its directory does not exist",
    );
    assert_check(
        &with_db(&host.path("home")),
        "default_db",
        "error: exists and is not a regular file",
    );
    fs::write(host.path("old.db"), "").unwrap();
    let report = with_db(&host.path("old.db"));
    assert_check(
        &report,
        "default_db",
        "warning: exists, a new history would be refused here",
    );
    assert_eq!(report["recommended_commands"].as_object().unwrap().len(), 1);
    let home = host.path("home").join(".gua");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("gua.db"), "").unwrap();
    assert_check(
        &host.report(),
        "default_db",
        "ok: exists and will be appended to",
    );
    assert_check(
        &with_db(&home.join("./gua.db")),
        "default_db",
        "ok: exists and will be appended to",
    );
    assert_check(
        &with_db(Path::new("~/.gua/gua.db")),
        "default_db",
        "ok: exists and will be appended to",
    );
}

#[test]
fn an_unwritable_history_is_one_error_at_its_path() {
    let host = host(TWO_GPUS);
    let nowhere = host.path("no/home").display().to_string();
    let host = host.variable("HOME", &nowhere);
    let report = host.report();
    assert_check(
        &report,
        "default_db",
        &format!("error: the home directory {nowhere} does not exist"),
    );
    assert_eq!(check_of(&report, "disk_space")["status"], "ok");
    assert_eq!(report["plan"]["mode"], "host");
    let page = host.doctor(&["--db", "/sys/gua.db"]).stdout;
    assert!(
        page.contains(
            "\n  target: /sys/gua.db\n  status: error, on sysfs, where no file can be created\n"
        ),
        "{page}"
    );
    assert!(
        page.contains("\nFix:\n  - Pass another path with `--db PATH`.\n"),
        "{page}"
    );
}
