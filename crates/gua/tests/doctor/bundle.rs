//! `gua doctor --bundle` on a host whose configuration, environment, enrolment, history and log are full of secrets. Each of
//! them contains the word "zebra", so one search finds all that leak.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use flate2::read::GzDecoder;
use gua_model::Tick;
use gua_store::{NewRun, OpenMode, Store, WriterOptions};
use gua_test::{Sleeper, TestHost, samples};

use crate::host;

const CONFIG: &str = r#"
[collect]
interval = "17s"
[csv]
dir = "/srv/zebra-project/csv"
[cloud]
url = "https://zebraboard.example"
ca_file = "/etc/zebra/ca.pem"
[serve]
agents = "http://zebraagent:1080"
[[quota]]
user = "zebraperson"
charged = "1h"
per = "month"
[[group]]
name = "vision"
members = ["zebramember", "zebrasecond"]
[[owner]]
namespace = "zebraspace"
owner = "zebralab"
"#;

const LOG: &str = "\
2026/11/15 19:03:43 tick not stored: the history is locked by pid 4711 (zebraprog) of zebrauser, and 3 ticks wait already\n\
2026/11/15 19:03:44 cannot reach the board: https://zebraboard.example:443/api: connection refused (board=zebraboard)\n\
2026/11/15 19:03:45 daemon started (host=zebrahost-7, env=bare, driver=550.54.15)\n\
2026/11/15 19:03:45 no message to zebraldap: alerts of zebramember and zebra_first-2 wait\n\
2026/11/15 19:03:46 cannot read `/home/zebrauser/my zebra/x`: permission denied\n\
{\"time\":\"2026-11-15T19:03:47.5Z\",\"level\":\"WARN\",\"message\":\"push failed\",\"token\":\"zebra_9f8e7d6c\",\"error\":\"no route to zebra-9.example.org\"}\n";

/// A host with secrets wherever a user can put them.
fn host_with_secrets(pid: u32) -> TestHost {
    let scenario = format!(
        "[[gpu]]\nuuid = \"GPU-zebra-a\"\n[[gpu.process]]\npid = {pid}\nmemory_mib = 900\n\
         [[gpu]]\nuuid = \"GPU-zebra-b\"\n[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\ncode = \"UNKNOWN\"\n"
    );
    let host = host(&scenario);
    let home = host.path("zebrauser");
    std::fs::create_dir(&home).unwrap();
    host.write("zebrauser/.gua/config.toml", CONFIG);
    host.write("zebrauser/.gua/gua.log", LOG);
    host.write(
        "zebrauser/.gua/cloud.json",
        "{\"token\": \"zebratoken-1234\", \"server_url\": 7}",
    );
    record(&home.join(".gua/gua.db"));
    host.variable("HOME", home)
        .variable("GUA_LOG_FORMAT", "zebraword")
        .variable("GUA_METRICS_LISTEN", "10.11.12.13:19400")
        .variable("GUA_SOCKET", "/run/zebra.sock")
        .variable("API_KEY", "zebrakey")
}

/// Makes a history with one tick.
fn record(path: &Path) {
    let mut store = Store::open(path, OpenMode::Create, &WriterOptions::default()).unwrap();
    let run = NewRun {
        started: "2026-11-15T19:00:00Z".parse().unwrap(),
        interval: Duration::from_secs(30),
        host: "zebrahost-7".to_owned(),
        version: "1.2.3".to_owned(),
        boot: None,
    };
    let id = store.begin_run(&run).unwrap();
    // Users of a directory service, who are not in passwd. They have no process now.
    let process = |pid, uid, name| samples::process(pid, samples::user(uid, name), 900);
    let users = vec![
        process(7, 1_600_000_001, "zebraldap"),
        process(8, 70_002, "zebra_first"),
    ];
    let sample = samples::sample(run.started, vec![samples::gpu(0, "GPU-a", 0, users)]);
    let interval = run.interval;
    store.record(id, &Tick { sample, interval }).unwrap();
    store.close().unwrap();
}

/// The bytes of the archive without compression.
fn unpacked(host: &TestHost, name: &str) -> String {
    let bytes = std::fs::read(host.path(name)).unwrap();
    let mut text = Vec::new();
    GzDecoder::new(bytes.as_slice())
        .read_to_end(&mut text)
        .unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_bundle_contains_no_secret_and_says_what_it_contains() {
    let sleeper = Sleeper::with(&["600", "600.0001"]);
    let host = host_with_secrets(sleeper.pid());
    let listed = host.fine("doctor --bundle");
    assert!(listed.starts_with("gua-bundle.tar.gz:\n"), "{listed}");
    let again = host.gua("doctor --bundle");
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.stderr.contains("already exists"), "{again:?}");
    let text = unpacked(&host, "gua-bundle.tar.gz");

    let directory = host.directory().display().to_string();
    let private = ["zebra", "10.11.12.13", "600.0001", &directory];
    for word in private {
        let place = text.to_lowercase().find(&word.to_lowercase());
        let around = place.map(|place| &text[place.saturating_sub(200)..place + word.len()]);
        assert_eq!(around, None, "{word}");
    }
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let is_in_name = |letter: char| letter.is_alphanumeric() || "-.".contains(letter);
    let mut words = text.split(|letter: char| !is_in_name(letter));
    assert!(!words.any(|word| word == machine.trim()), "{machine}");
    // Text that helps to find a problem stays.
    for kept in [
        "tick not stored: the history is locked by pid 4711 (hidden)",
        "push failed: no route to (hidden)",
        "no message to (hidden): alerts of (hidden) and (hidden) wait",
        "daemon started (host=(hidden), env=bare, driver=550.54.15)",
        "\"value\": \"17s\"",
        "\"quotas\": 1",
        "\"runs\": [",
        "\"version\": \"1.2.3\"",
        "\"uuid\": \"GPU-0\"",
        "nvmlDeviceGetPowerUsage",
    ] {
        assert!(text.contains(kept), "{kept}\n{text}");
    }

    // tar reads the archive, and both lists name the same files.
    let ended = host.run("tar", "-tzf gua-bundle.tar.gz");
    assert_eq!(ended.code, 0, "{ended:?}");
    let names: Vec<&str> = ended.stdout.lines().collect();
    assert!(names.contains(&"gua-bundle/README.txt"), "{names:?}");
    assert_eq!(names.len(), listed.lines().count() - 1, "{listed}");
    for name in names {
        let name = name.strip_prefix("gua-bundle/").unwrap();
        assert!(listed.contains(&format!("  {name} ")), "{listed}");
    }
    let mode = std::os::unix::fs::MetadataExt::mode(
        &std::fs::metadata(host.path("gua-bundle.tar.gz")).unwrap(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

/// A host whose history is that of the service, with an imitation of journalctl.
fn host_with_service(script: &str) -> TestHost {
    let host = host(crate::TWO_GPUS);
    record(&host.path("service.db"));
    let program = host.write("bin/journalctl", format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", host.path("bin").display());
    host.variable("PATH", path)
}

#[test]
fn the_log_of_a_service_is_read_from_the_journal() {
    let host = host_with_service(
        "echo \"$*\" >\"$HOME/asked\"\n\
         echo 'cannot read `/srv/zebra/x`: permission denied'\n\
         echo 'Tick 7  ts=08:00:00.000  GPU-zebra=IDLE'\n\
         echo 'history of zebraldap opened'\n\
         printf 'a truncated zebral'",
    );
    host.write(".gua/gua.log", "the log of another daemon\n");
    let listed = host.fine("doctor --bundle");
    assert!(
        listed.contains("last lines of the service's log"),
        "{listed}"
    );
    let asked = host.read("asked");
    assert!(asked.contains("--unit=gua.service "), "{asked}");
    let text = unpacked(&host, "gua-bundle.tar.gz");
    let log = "history of (hidden) opened\ncannot read (hidden): permission denied\n";
    assert!(text.contains(log), "{text}");
    assert!(
        !text.contains("zebra") && !text.contains("another daemon"),
        "{text}"
    );
}

#[test]
fn a_service_that_logged_only_ticks_has_a_readable_log() {
    let host = host_with_service("echo 'Tick 7  ts=08:00:00.000  GPU-a=active'");
    let listed = host.fine("doctor --bundle");
    let line = listed.lines().find(|line| line.contains("log.txt"));
    let line = line.unwrap();
    assert!(
        line.contains(" 0 bytes  last lines of the service"),
        "{line}"
    );
}

#[test]
fn a_bundle_says_that_the_journal_cannot_be_read() {
    for script in ["exit 0", "echo 'no permission'; exit 1"] {
        let host = host_with_service(script);
        let listed = host.fine("doctor --bundle");
        let line = listed.lines().find(|line| line.contains("log.txt"));
        let line = line.unwrap();
        assert!(
            line.contains(" 0 bytes  empty: the service's log"),
            "{line}"
        );
        let text = unpacked(&host, "gua-bundle.tar.gz");
        assert!(
            text.contains("empty: the service's log in the journal cannot be read"),
            "{text}"
        );
    }
}

#[test]
fn a_bundle_is_written_without_a_driver_and_without_a_history() {
    let host = crate::without_driver();
    host.fine("doctor --bundle support.tar.gz");
    let text = unpacked(&host, "support.tar.gz");
    assert!(text.contains("\"error\": "), "{text}");
    assert!(!text.contains("sample.json"), "{text}");
    let failed = host.gua("doctor --bundle missing/support.tar.gz");
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stderr.contains("cannot write"), "{failed:?}");
}
