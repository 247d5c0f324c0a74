//! `gua doctor` as people run it: the real program, the simulated driver, an empty home. Whatever the driver does, the
//! page is complete, the sentence is clear, the exit code is the promised one, and nothing is left behind.
#![cfg(test)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const TWO_CARDS: &str = "[clock]\nat = 100\n[[card]]\nutil = 50\n[[card]]\n";

/// An empty home, an empty search path and a scenario.
struct Host {
    directory: TempDir,
    library: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl Host {
    fn new(scenario: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["home", "bin"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("scenario.toml"), scenario).unwrap();
        let library = nvml_sim::library_path().unwrap();
        Self {
            directory,
            library,
            variables: Vec::new(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn with(mut self, variable: &'static str, value: &str) -> Self {
        self.variables.push((variable, value.to_owned()));
        self
    }

    fn with_library(self, library: impl Into<PathBuf>) -> Self {
        Self {
            library: library.into(),
            ..self
        }
    }

    fn with_smi(self, script: &str) -> Self {
        fs::write(self.at("script"), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(self.at("script"), PermissionsExt::from_mode(0o755)).unwrap();
        // Copied by another process: a file that we have open for writing, even in a child of another test's thread,
        // cannot be executed.
        let mut copy = Command::new("cp");
        copy.arg(self.at("script")).arg(self.at("bin/nvidia-smi"));
        assert!(copy.status().unwrap().success());
        self
    }

    /// Runs `gua doctor` and holds that it left no trace.
    fn doctor(&self, arguments: &[&str]) -> Answer {
        let before = listing(self.directory.path());
        let output = Command::new(env!("CARGO_BIN_EXE_gua"))
            .arg("doctor")
            .args(arguments)
            .current_dir(self.at("home"))
            .env_clear()
            .env("HOME", self.at("home"))
            .env("PATH", self.at("bin"))
            .env("TZ", "UTC")
            .env("GUA_NVML_LIBRARY", &self.library)
            .env("NVML_SIM_SCENARIO", self.at("scenario.toml"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        assert_eq!(
            listing(self.directory.path()),
            before,
            "something was written"
        );
        Answer::of(&output)
    }

    fn json(&self) -> Value {
        let answer = self.doctor(&["--json"]);
        assert_eq!((answer.code, answer.stderr.as_str()), (0, ""));
        serde_json::from_str(&answer.stdout).unwrap()
    }
}

struct Answer {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Answer {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let answer = Self {
            code: output.status.code().unwrap(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        };
        let is_harmless = |letter: char| letter == '\n' || !letter.is_control();
        assert!(
            answer.stdout.chars().all(is_harmless),
            "{:?}",
            answer.stdout
        );
        answer
    }
}

fn listing(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        if entry.path().is_dir() {
            found.extend(listing(&entry.path()));
        }
        found.push(entry.path());
    }
    found.sort();
    found
}

fn sees_the_hosts_processes() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name == Path::new("pid:[4026531836]"))
}

fn check_of<'a>(report: &'a Value, id: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["id"] == id).unwrap()
}

/// Holds one check of the report against `status: summary`.
#[track_caller]
fn assert_check(report: &Value, id: &str, expected: &str) {
    let check = check_of(report, id);
    let found = format!(
        "{}: {}",
        check["status"].as_str().unwrap(),
        check["summary"].as_str().unwrap()
    );
    assert_eq!(found, expected, "{id}");
}

fn commands(report: &Value) -> Vec<String> {
    let commands = report["recommended_commands"].as_object().unwrap();
    commands
        .values()
        .map(|command| command.as_str().unwrap().to_owned())
        .collect()
}

/// Those of the two that the program knows, or else the one that it always knows.
fn expected_commands(collect: &str, report: &str) -> Vec<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_gua"))
        .arg("help")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let knows = |command: &str| {
        let name = command.split(' ').nth(1).unwrap();
        help.lines()
            .any(|line| line.split_whitespace().next() == Some(name))
    };
    let mut known: Vec<String> = [collect, report]
        .into_iter()
        .filter(|command| knows(command))
        .map(str::to_owned)
        .collect();
    if known.is_empty() {
        known.push("gua doctor --sample".to_owned());
    }
    known
}

#[test]
fn a_healthy_host_is_ready_to_collect() {
    let host = Host::new(TWO_CARDS).with_smi("echo 'GPU 0: A'; echo 'GPU 1: A'");
    let report = host.json();
    assert_check(&report, "nvidia_smi", "ok: 2 GPUs");
    let nvml = check_of(&report, "nvml");
    assert_eq!(
        (&nvml["status"], &nvml["details"]["device_count"]),
        (&"ok".into(), &2.into())
    );
    assert_check(&report, "unreadable_cards", "ok: 2 cards without trouble");
    assert_check(&report, "processes_visible", "ok: no process on any card");
    assert_check(&report, "config", "ok: no problems");
    assert_check(
        &report,
        "default_db",
        "ok: absent, its directory will be created",
    );
    assert_eq!(report["plan"]["mode"], "host");
    assert_eq!(
        commands(&report),
        expected_commands("gua daemon --interval 30s", "gua report --since 1h")
    );

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

/// A driver that gives no sample: exit 0 with the sentence and the deed, 1 for a strict caller and for `--sample`.
#[track_caller]
fn assert_blocked(host: &Host, sentence: &str, deed: &str) {
    let report = host.json();
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
    let host = Host::new("").with_library("/nonexistent/libnvidia-ml.so.1");
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
    let host = Host::new("");
    fs::write(host.at("text.so"), "not a library\n").unwrap();
    let text = host.at("text.so");
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
        &Host::new("").with_library(libc),
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
        let host = Host::new(&format!("[driver]\ninit_code = {code}\n[[card]]\n"));
        assert_blocked(&host, sentence, deed);
        if code == 18 {
            assert_eq!(check_of(&host.json(), "driver_match")["status"], "error");
        }
    }
}

#[test]
fn a_driver_without_a_card_is_told() {
    let host = Host::new("[clock]\nat = 1\n");
    let report = host.json();
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
    let host = Host::new(&hang).with("GUA_DRIVER_DEADLINE", "300ms");
    assert_blocked(&host, "the driver did not answer within", "See `dmesg");
}

#[test]
fn a_driver_that_crashes_takes_only_the_reader_with_it() {
    let crash = format!(
        "{TWO_CARDS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\ncrash = true\n"
    );
    assert_blocked(
        &Host::new(&crash),
        "the driver library crashed (signal ",
        "Run `gua doctor` again",
    );
}

#[test]
fn a_lost_card_is_an_error_and_the_other_is_still_read() {
    let host = Host::new("[clock]\nat = 100\n[[card]]\n[[card]]\nlost = [[0, 1000]]\n");
    let report = host.json();
    assert_eq!(check_of(&report, "nvml")["details"]["device_count"], 2);
    let readings = check_of(&report, "unreadable_cards");
    assert_eq!(readings["status"], "error");
    assert!(
        readings["summary"].as_str().unwrap().contains("(15)"),
        "{readings:#}"
    );
    assert_eq!(readings["details"]["problems"][0]["why"], "gone");
    assert_eq!(report["plan"]["mode"], "host");
    let notes = report["plan"]["warnings"].to_string();
    assert!(
        notes.contains("See `dmesg | grep -i xid`, then reset card 1 or reboot."),
        "{notes}"
    );
    assert_eq!(report["cards"][1]["state"], "unobserved");
    let page = host.doctor(&[]).stdout;
    assert!(
        page.contains("\n  1: ?, unobserved (card lost), -\n"),
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
fn the_page_says_who_holds_which_card() {
    let pid = std::process::id();
    let scenario = format!(
        "[clock]\nat = 100\n[[card]]\nname = \"NVIDIA A100\"\nmemory_total_mib = 81920\n\
         [[card.process]]\npid = {pid}\nmemory_mib = 11264\n[[card]]\n"
    );
    let host = Host::new(&scenario);
    let page = host.doctor(&[]).stdout;
    let mut lines = page.lines().skip_while(|line| *line != "Cards:").skip(1);
    let (held, free) = (lines.next().unwrap(), lines.next().unwrap());
    assert!(
        held.starts_with("  0: NVIDIA A100, idle-held, 11.0 / 80.0 GB, "),
        "{held}"
    );
    assert!(free.ends_with(", no owner"), "{free}");
    let holder = &host.json()["cards"][0]["holders"][0];
    assert_eq!(
        (&holder["pid"], &holder["gone"]),
        (&pid.into(), &false.into())
    );
    if sees_the_hosts_processes() {
        assert!(held.contains(", 11.0 GB, since "), "{held}");
        // This test has not been running for an hour.
        assert!(holder["age_seconds"].as_u64() < Some(3_600), "{holder:#}");
    }
}

#[test]
fn the_sick_scenario_is_sick_whenever_it_is_played() {
    let scenario = include_str!("../../nvml-sim/scenarios/sick.toml");
    for at in [0, 45, 1_000_000] {
        let host = Host::new(&format!("{scenario}\n[clock]\nat = {at}\n"));
        let report = host.json();
        assert_eq!(check_of(&report, "unreadable_cards")["status"], "error");
        assert_check(
            &report,
            "memory_errors",
            "warning: card 3 (Tesla V100-SXM2-32GB): 2 uncorrected",
        );
        assert_eq!(check_of(&report, "utilisation")["status"], "warning");
    }
}

#[test]
fn garbage_from_the_driver_is_never_shown_as_a_reading() {
    let garbage = format!("{TWO_CARDS}[[fault]]\nfunction = \"nvmlDeviceGet*\"\ngarbage = true\n");
    let host = Host::new(&garbage);
    let report = host.json();
    assert_ne!(check_of(&report, "unreadable_cards")["status"], "ok");
    assert_eq!(host.doctor(&[]).code, 0);
    let one = format!(
        "{TWO_CARDS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\ncard = 0\ngarbage = true\n"
    );
    let sample = Host::new(&one).doctor(&["--sample"]);
    let sample: Value = serde_json::from_str(&sample.stdout).unwrap();
    let card = &sample["gpus"][0];
    assert_eq!(
        (&card["util_percent"], &card["missing"]["util_percent"]),
        (&Value::Null, &"failed".into())
    );
    assert_eq!(sample["gpus"][1]["util_percent"], 0);
}

#[test]
fn nvidia_smi_may_fail_or_hang_and_gua_is_ready_all_the_same() {
    let host = Host::new(TWO_CARDS);
    assert_check(&host.json(), "nvidia_smi", "warning: not found on PATH");
    let host = host.with_smi("echo 'NVIDIA-SMI has failed' >&2; exit 9");
    assert_check(
        &host.json(),
        "nvidia_smi",
        "warning: failed: NVIDIA-SMI has failed",
    );
    let host = host.with_smi("echo 'GPU 0: A'; exec /bin/sleep 600");
    let report = host.json();
    assert_check(&report, "nvidia_smi", "warning: timed out after 3 s");
    assert_eq!(
        check_of(&report, "nvidia_smi")["details"]["timed_out"],
        true
    );
    assert_eq!(report["plan"]["mode"], "host");
}

#[test]
fn a_sample_has_every_card_with_its_state_and_no_command_line() {
    let pid = std::process::id();
    let scenario = format!(
        "[clock]\nat = 100\n[[card]]\n[[card.process]]\npid = {pid}\nmemory_mib = 500\n[[card]]\nutil = 90\n"
    );
    let host = Host::new(&scenario);
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
    // In a container the driver's pid would name a stranger, so there nobody is named.
    if sees_the_hosts_processes() {
        assert!(process["owner"]["uid"].is_u64(), "{process:#}");
        assert!(process["comm"].is_string());
    } else {
        assert_eq!(process["missing"]["owner"], "denied");
    }
    assert!(
        !answer.stdout.contains("a_sample_has_every_card"),
        "a command line is in it"
    );
    let lenient = host.with("GUA_HELD_MB", "600").doctor(&["--sample"]);
    let sample: Value = serde_json::from_str(&lenient.stdout).unwrap();
    assert_eq!(sample["gpus"][0]["state"], "truly-idle");
}

#[test]
fn a_broken_configuration_is_a_finding() {
    let host = Host::new(TWO_CARDS).with("GUA_ACTIVE_UTIL", "lots");
    let report = host.json();
    let config = check_of(&report, "config");
    assert_eq!(config["status"], "error");
    assert!(
        config["summary"]
            .as_str()
            .unwrap()
            .starts_with("GUA_ACTIVE_UTIL: "),
        "{config:#}"
    );
    // A sample for a program must not rest on settings that nobody chose.
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
fn the_history_path_is_judged_and_never_touched() {
    let host = Host::new(TWO_CARDS);
    let with_db = |path: &Path| {
        let answer = host.doctor(&["--json", "--db", path.to_str().unwrap()]);
        assert_eq!(answer.code, 0);
        serde_json::from_str::<Value>(&answer.stdout).unwrap()
    };
    let report = with_db(&host.at("a b.db"));
    assert_check(&report, "default_db", "ok: absent and ready to be created");
    let path = host.at("a b.db").display().to_string();
    assert_eq!(
        commands(&report),
        expected_commands(
            &format!("gua daemon --db '{path}' --interval 30s"),
            &format!("gua report --db '{path}' --since 1h")
        )
    );
    assert_check(
        &with_db(&host.at("no/gua.db")),
        "default_db",
        "error: its directory does not exist",
    );
    assert_check(
        &with_db(&host.at("home")),
        "default_db",
        "error: exists and is not a regular file",
    );
    fs::write(host.at("old.db"), "").unwrap();
    let report = with_db(&host.at("old.db"));
    assert_check(
        &report,
        "default_db",
        "warning: exists, a new history would be refused here",
    );
    assert_eq!(report["recommended_commands"].as_object().unwrap().len(), 1);
    let home = host.at("home").join(".gua");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("gua.db"), "").unwrap();
    assert_check(
        &host.json(),
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
fn a_history_that_cannot_be_written_is_one_error_at_its_path() {
    let host = Host::new(TWO_CARDS);
    let nowhere = host.at("no/home").display().to_string();
    let host = host.with("HOME", &nowhere);
    let report = host.json();
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
        page.contains("\nFix:\n  - Give another path with `--db PATH`.\n"),
        "{page}"
    );
}
