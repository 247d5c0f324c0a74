//! `gua me` and its log-in message, with real processes on simulated GPUs.

use std::time::Duration;

use gua_probe::clock;
use gua_test::{Sleeper, TestHost, schema, wait_until};

use crate::{TWO_GPUS, host, without_driver};

/// A host with an idle process of this user on GPU 0, and a second GPU.
fn with_idle_process(sleeper: &Sleeper) -> TestHost {
    host(&format!(
        "[[gpu]]\nuuid = \"GPU-a\"\nutil = 0\n[[gpu.process]]\npid = {}\nmemory_mib = 2048\n[[gpu]]\nuuid = \"GPU-b\"\n",
        sleeper.pid()
    ))
}

#[test]
fn it_lists_what_the_user_holds() {
    let sleeper = Sleeper::new();
    let host = with_idle_process(&sleeper);
    let kill = format!("kill {}", sleeper.pid());
    let text = host.gua("me").stdout;
    let expected = [" holds\n", "idle-held", "2.0 GB"];
    for part in expected {
        assert!(text.contains(part), "{part}: {text}");
    }
    // One reading does not show that a process is idle.
    assert!(!text.contains(&kill), "{text}");
    let json = host.gua("me --json").stdout;
    schema::check("gua.me.v1", &json);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["gpus"][0]["pid"], sleeper.pid());
    assert_eq!(json["gpus"][0]["state"], "idle-held");
    assert_eq!(json["releasable"], serde_json::json!([]));
    assert_eq!(json["week"], serde_json::Value::Null, "without a history");
    let hint = "`gua daemon` creates one";
    assert!(json["problems"].to_string().contains(hint), "{json}");
    let csv = host.gua("me --csv").stdout;
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("gpu_index,gpu_uuid,"), "{csv}");
    assert!(
        lines[1].contains(&format!("idle-held,{}", sleeper.pid())),
        "{csv}"
    );
    assert_eq!(lines.len(), 2, "{csv}");
}

#[test]
fn a_lease_that_is_not_used_can_be_released() {
    let sleeper = Sleeper::new();
    let host = host(TWO_GPUS);
    let pid = sleeper.pid();
    host.fine(&format!("available --claim 10m --for {pid} --free-for 0s"));
    let json = host.json("me --json");
    schema::check("gua.me.v1", &json.to_string());
    let id = json["claims"][0]["id"].as_str().unwrap();
    let release = format!("gua claim release {id}");
    assert_eq!(json["releasable"][0]["command"], release);
    let text = host.fine("me");
    assert!(
        text.contains("holds no GPU") && text.contains(&release),
        "{text}"
    );
}

#[test]
fn it_shows_the_place_in_the_queue() {
    let sleeper = Sleeper::new();
    let host = host(TWO_GPUS);
    let pid = sleeper.pid();
    host.fine(&format!(
        "available --claim 10m --for {pid} --limit 0 --free-for 0s"
    ));
    let _waiting = host.foreground(&format!("available --claim 10m --for {pid} --wait"));
    let queue = gua_test::wait_for("a place in the queue", || {
        let queue = host.json("me --json")["queue"].clone();
        queue[0].is_object().then_some(queue)
    });
    let [place, of, wanted] = ["place", "of", "wanted"].map(|key| queue[0][key].as_u64());
    assert_eq!([place, of, wanted], [Some(1); 3], "{queue}");
    let text = host.fine("me");
    assert!(text.contains("is number 1 of 1, waiting for "), "{text}");
}

#[test]
fn the_week_and_the_limits_come_from_the_history() {
    let sleeper = Sleeper::new();
    let host = with_idle_process(&sleeper);
    host.fine("quota set --everyone --held 0h --per week");
    let daemon = host.foreground("daemon --foreground --interval 100ms");
    wait_until("three ticks", || daemon.stdout().lines().count() >= 3);
    let db = host.state("gua.db");
    let text = host.fine(&format!("me --db {}", db.display()));
    assert!(text.contains("This week: "), "{text}");
    assert!(text.contains("OVER"), "{text}");
    let message = host.fine(&format!("me --motd=5m --db {}", db.display()));
    let kill = format!("to release it: kill {}", sleeper.pid());
    assert!(
        message.lines().all(|line| line.starts_with("gua: ")),
        "{message}"
    );
    // The process has been idle for seconds only.
    assert!(!message.contains(&kill), "{message}");
    assert!(message.contains("over the limit: held"), "{message}");
}

#[test]
fn the_login_message_is_silent_without_a_reason_and_never_waits() {
    let hung =
        format!("{TWO_GPUS}[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\nhang = true\n");
    for host in [without_driver(), host(&hung)] {
        let began = clock::monotonic();
        let ended = host.gua("me --motd");
        // The deadline of the driver is 10 s; a login must not depend on it.
        let elapsed = clock::monotonic() - began;
        assert!(elapsed < Duration::from_secs(8), "{elapsed:?}");
        assert_eq!(
            (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
            (0, "", "")
        );
    }
    let quiet = host(TWO_GPUS);
    let daemon = quiet.foreground("daemon --foreground --interval 100ms");
    wait_until("three ticks", || daemon.stdout().lines().count() >= 3);
    let db = quiet.state("gua.db");
    assert_eq!(
        quiet.fine(&format!("me --motd=5m --db {}", db.display())),
        ""
    );
}

#[test]
fn a_mistake_is_a_usage_error_and_a_missing_driver_a_failure() {
    let host = without_driver();
    assert_eq!(host.gua("me --motd --json").code, 2);
    let ended = host.gua("me");
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.starts_with("gua me: "), "{}", ended.stderr);
    // Readings that failed are unknown, which is not the same as none.
    assert!(!ended.stdout.contains("holds no GPU"), "{}", ended.stdout);
    assert!(
        ended.stdout.starts_with("Cannot tell which GPUs "),
        "{}",
        ended.stdout
    );
    let json = host.gua("me --json");
    assert_eq!(json.code, 1);
    schema::check("gua.me.v1", &json.stdout);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["gpus"], serde_json::Value::Null);
}
