//! Effects of faults: each loses exactly its own readings. Everything else is stored, and on schedule.

use std::process::Command;
use std::time::Duration;

use gua_model::{GapReason, Gpu, Missing, Percent, Tick};

use crate::host;
use gua_test::{Running, TestHost, not_tested, runs_as_root, wait_for};

/// Scenario of three GPUs, of which the second can be faulty. `rest` is appended.
fn gpus(second: &str, rest: &str) -> String {
    let process = "[[gpu.process]]\npid = 1\nmemory_mib = 512\n";
    format!(
        "[[gpu]]\nuuid = \"GPU-a\"\nutil = 50\n{process}\
         [[gpu]]\nuuid = \"GPU-b\"\nutil = 60\n{second}{process}\
         [[gpu]]\nuuid = \"GPU-c\"\nutil = 70\n{process}{rest}"
    )
}

const DB: &str = ".gua/gua.db";

/// The records of a log of JSON objects.
fn records(log: &str) -> Vec<serde_json::Value> {
    let record = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    log.lines().map(record).collect()
}

#[test]
fn the_error_that_ends_a_server_is_one_record_of_its_json_log() {
    let host = crate::without_driver();
    let ended = host.gua("daemon --foreground --log-format json");
    assert_eq!(ended.code, 1, "{ended:?}");
    let foreground = records(&ended.stderr);
    assert_eq!(foreground.len(), 1, "{ended:?}");
    let ended = host.gua("daemon --log-format json");
    assert_eq!(ended.code, 1, "{ended:?}");
    let shown = ["command failed: ", "\nhint: "].map(|text| ended.stderr.contains(text));
    assert_eq!(shown, [true; 2], "{ended:?}");
    assert!(!ended.stderr.contains('{'), "{ended:?}");
    let background = records(&host.log());
    for (log, command) in [
        (foreground, "gua daemon --foreground"),
        (background, "gua daemon"),
    ] {
        let last = log.last().unwrap();
        assert_eq!(last["level"], "ERROR", "{last}");
        assert_eq!(last["message"], "command failed", "{last}");
        assert_eq!(last["command"], command, "{last}");
        let error = last["error"].as_str().unwrap();
        assert!(error.contains("was not found"), "{last}");
        let hint = last["hint"].as_str().unwrap();
        assert!(hint.contains("GUA_NVML_LIBRARY"), "{last}");
    }

    let host = host
        .variable("GUA_LOG_FORMAT", "json")
        .variable("GUA_INTERVAL", "never");
    for command in ["daemon --foreground", "serve", "board serve"] {
        let ended = host.gua(command);
        assert_eq!(ended.code, 2, "{ended:?}");
        let log = records(&ended.stderr);
        assert_eq!(log.len(), 1, "{ended:?}");
        assert_eq!(log[0]["command"], format!("gua {command}"), "{ended:?}");
    }
    // Other commands print errors for people.
    let ended = host.gua("list");
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.starts_with("gua list: "), "{ended:?}");
}

/// Runs a daemon through three scenarios (healthy, faulty, healthy) and returns the ticks of the middle one.
fn middle(host: &TestHost, sick: &str, is_sick: impl Fn(&Tick) -> bool) -> (Vec<Tick>, Running) {
    host.play(&gpus("", ""));
    let daemon = host.foreground("daemon --foreground --interval 30ms");
    wait_for("healthy ticks", || {
        (host.ticks(DB).len() >= 3).then_some(())
    });
    host.play(sick);
    wait_for("sick ticks", || {
        (host.ticks(DB).iter().filter(|tick| is_sick(tick)).count() >= 5).then_some(())
    });
    host.play(&gpus("", ""));
    wait_for("healthy ticks again", || {
        host.ticks(DB)
            .last()
            .is_some_and(|tick| !is_sick(tick))
            .then_some(())
    });
    let sick = host.ticks(DB).into_iter().filter(is_sick).collect();
    (sick, daemon)
}

#[track_caller]
fn is_whole(gpu: &Gpu, util: u32) {
    assert_eq!(gpu.util, Ok(Percent::new(util).unwrap()), "{}", gpu.uuid);
    assert!(gpu.power.is_ok() && gpu.memory_used.is_ok() && gpu.temperature.is_ok());
    assert_eq!(gpu.compute_list, Ok(()));
    assert_eq!(gpu.processes.len(), 1, "{}", gpu.uuid);
}

/// Checks that only the second GPU is affected: the others are complete in every tick, and no tick is missing.
#[track_caller]
fn costs_only(host: &TestHost, ticks: &[Tick], judge: impl Fn(&Gpu)) {
    assert!(ticks.len() >= 5);
    for tick in ticks {
        assert_eq!(tick.sample.gpus.len(), 3);
        is_whole(&tick.sample.gpus[0], 50);
        is_whole(&tick.sample.gpus[2], 70);
        judge(&tick.sample.gpus[1]);
    }
    assert_eq!(host.outages(DB), [], "the host was observed all the time");
}

#[test]
fn a_gpu_without_utilisation_costs_only_that_reading() {
    let host = host("");
    let sick = gpus(
        "",
        "[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\ngpu = 1\ncode = \"NOT_SUPPORTED\"\n",
    );
    let (ticks, mut daemon) = middle(&host, &sick, |tick| tick.sample.gpus[1].util.is_err());
    costs_only(&host, &ticks, |gpu| {
        assert_eq!(gpu.util, Err(Missing::Unsupported));
        assert!(gpu.power.is_ok());
        assert_eq!(gpu.processes.len(), 1);
    });
    daemon.stop();
    assert!(
        !daemon.stderr().contains("unavailable"),
        "this is not a fault: {}",
        daemon.stderr()
    );
}

#[test]
fn a_denied_process_list_costs_only_that_list_and_is_logged_twice() {
    let host = host("");
    let sick = gpus(
        "",
        "[[fault]]\nfunction = \"nvmlDeviceGetComputeRunningProcesses*\"\ngpu = 1\ncode = \"NO_PERMISSION\"\n",
    );
    let (ticks, mut daemon) = middle(&host, &sick, |tick| {
        tick.sample.gpus[1].compute_list.is_err()
    });
    costs_only(&host, &ticks, |gpu| {
        assert_eq!(gpu.compute_list, Err(Missing::Denied));
        assert_eq!(gpu.util, Ok(Percent::new(60).unwrap()));
    });
    daemon.stop();
    let logged: Vec<String> = daemon
        .stderr()
        .lines()
        .filter(|line| line.contains("RunningProcesses"))
        .map(str::to_owned)
        .collect();
    assert_eq!(
        logged.len(),
        2,
        "when it began and when it ended: {logged:?}"
    );
    assert!(
        logged[0].contains("reading unavailable: GPU-b: "),
        "{logged:?}"
    );
    assert!(
        logged[1].contains("reading available again: GPU-b: ")
            && logged[1].ends_with(&format!(" (ticks={})", ticks.len())),
        "{logged:?}"
    );
}

#[test]
fn a_lost_gpu_costs_only_its_own_readings_and_keeps_its_name() {
    let host = host("");
    let sick = gpus(
        "",
        "[[fault]]\nfunction = \"nvmlDeviceGet*\"\ngpu = 1\ncode = \"GPU_IS_LOST\"\n",
    );
    let (ticks, mut daemon) = middle(&host, &sick, |tick| {
        tick.sample.gpus[1].util == Err(Missing::Gone)
    });
    costs_only(&host, &ticks, |gpu| {
        assert_eq!(gpu.uuid.as_str(), "GPU-b");
        assert_eq!(gpu.power, Err(Missing::Gone));
    });
    daemon.stop();
    assert!(daemon.stdout().contains("GPU-b=unobserved"));
}

#[test]
fn a_hung_driver_costs_its_ticks_and_is_logged_with_its_reason() {
    let host = host("").variable("GUA_DRIVER_DEADLINE", "200ms");
    host.play(&gpus("", ""));
    let mut daemon = host.foreground("daemon --foreground --interval 50ms");
    wait_for("healthy ticks", || {
        (host.ticks(DB).len() >= 3).then_some(())
    });
    host.play(&gpus(
        "",
        "[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\nhang = true\n",
    ));
    wait_for("the message", || {
        daemon
            .stderr()
            .contains("failed: the driver did not answer")
            .then_some(())
    });
    let before = host.ticks(DB).len();
    host.play(&gpus("", ""));
    wait_for("healthy ticks again", || {
        (host.ticks(DB).len() >= before + 3).then_some(())
    });
    daemon.stop();
    let outages = host.outages(DB);
    let [outage] = outages.as_slice() else {
        panic!("one outage: {outages:?}\n{}", daemon.stderr());
    };
    assert_eq!(outage.reason, GapReason::DriverHung);
    let length = outage.to.duration_since(outage.from).unsigned_abs();
    assert!(length >= Duration::from_millis(200), "{outage:?}");
    // A tick was due every 50 ms; the last one came on time.
    let due = u32::try_from(length.as_millis() / 50).unwrap();
    assert!(
        outage.ticks_lost.abs_diff(due) <= 2,
        "{due} were due: {outage:?}"
    );
    // The history stores microseconds.
    let during = outage.from.as_microsecond()..outage.to.as_microsecond();
    let ticks = host.ticks(DB);
    let mut times = ticks.iter().map(|tick| tick.sample.at.as_microsecond());
    assert!(
        times.clone().any(|at| at == during.end),
        "it ends with a tick"
    );
    assert!(!times.any(|at| during.contains(&at)), "and holds none");
    let stderr = daemon.stderr();
    assert_eq!(stderr.matches(" failed: ").count(), 1, "{stderr}");
    assert!(
        stderr.contains(&format!("ticks_lost={})", outage.ticks_lost)),
        "{stderr}"
    );
}

#[test]
fn a_driver_that_fails_and_recovers_is_read_again() {
    let host = host("");
    host.play(&gpus("", ""));
    let mut daemon = host.foreground("daemon --foreground --interval 30ms");
    wait_for("healthy ticks", || {
        (host.ticks(DB).len() >= 3).then_some(())
    });
    host.play("[driver]\nepoch = 2\ninit_code = \"DRIVER_NOT_LOADED\"\n");
    wait_for("the message", || {
        daemon.stderr().contains(" failed: ").then_some(())
    });
    let before = host.ticks(DB).len();
    host.play(&format!("[driver]\nepoch = 3\n{}", gpus("", "")));
    wait_for("healthy ticks again", || {
        (host.ticks(DB).len() >= before + 3).then_some(())
    });
    daemon.stop();
    let outages = host.outages(DB);
    assert!(
        outages
            .iter()
            .all(|outage| outage.reason == GapReason::DriverUnavailable)
            && !outages.is_empty(),
        "{outages:?}"
    );
}

#[test]
fn a_disk_that_is_full_at_the_start_is_named() {
    if !runs_as_root("a disk that is full, as a small tmpfs") {
        return;
    }
    let host = host(&gpus("", ""));
    let state = host.state("");
    std::fs::create_dir_all(&state).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=64k", "gua-test"]);
    if !mount.arg(&state).status().is_ok_and(|it| it.success()) {
        not_tested("no mounts here", "a full disk");
        return;
    }
    // It fails once the disk is full.
    std::fs::write(state.join("ballast"), vec![0; 1 << 20]).unwrap_err();
    let ended = [
        host.gua("start --interval 1s"),
        host.gua("daemon --foreground --interval 1s"),
    ];
    let unmounted = Command::new("umount").arg(&state).status();
    assert!(unmounted.unwrap().success());
    for ended in ended {
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.stderr.contains("is full"), "{ended:?}");
    }
}
