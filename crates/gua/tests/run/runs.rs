//! Runs in the history: reported by the run itself, imported by a collector, listed, shown and compared.

use std::process::Stdio;

use serde_json::Value;

use super::{Jobs, host};
use crate::GUA;
use gua_test::schema;
use gua_test::{Ended, TestHost, wait_until};

const ONE_GPU: &str = "[[gpu]]\nuuid = \"GPU-a\"\nname = \"NVIDIA A100\"\nutil = 60\nmemory_used_mib = 2048\nmemory_total_mib = 40960\npower_w = 100\n";

fn gua(host: &TestHost, line: &str) -> Ended {
    host.gua(line)
}

fn listed(host: &TestHost, line: &str) -> Vec<Value> {
    let ended = gua(host, line);
    let text: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    text["runs"].as_array().unwrap().clone()
}

#[test]
fn the_last_run_is_listed_first_even_before_a_collector_imports_any() {
    let host = host(ONE_GPU);
    // Each run leaves two events: together more than a collector takes at a time.
    for number in 0..34 {
        host.run_job(&format!("--gpus all --name run-{number}"), "exit 0");
    }
    let runs = listed(&host, "runs list --json --limit 3");
    let names: Vec<&Value> = runs.iter().map(|run| &run["name"]).collect();
    assert_eq!(names, ["run-33", "run-32", "run-31"]);
}

#[test]
fn a_host_without_runs_lists_an_empty_table_and_exits_with_0() {
    let host = host(ONE_GPU);
    let list = |flag: &str| {
        let ended = gua(&host, &format!("runs list {flag}"));
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.stderr.contains("no runs"), "{ended:?}");
        ended.stdout
    };
    let text = list("");
    assert!(
        text.starts_with("run") && text.lines().count() == 1,
        "{text}"
    );
    let csv = list("--csv");
    assert!(csv.starts_with("run,user,name,"), "{csv}");
    assert_eq!(csv.lines().count(), 1, "{csv}");
    let json: Value = serde_json::from_str(&list("--json")).unwrap();
    assert_eq!(json["runs"], serde_json::json!([]));
}

#[test]
fn a_run_is_listed_at_once_and_stored_when_a_collector_imports_it() {
    let host = host(ONE_GPU);
    host.run_job(
        "--gpus all --interval 20ms --name first",
        "sleep 0.4; exit 7",
    );
    let fresh = listed(&host, "runs list --json");
    assert_eq!(fresh.len(), 1, "{fresh:?}");
    assert_eq!(
        (&fresh[0]["name"], &fresh[0]["exit_code"]),
        (&"first".into(), &7.into())
    );
    assert_eq!(fresh[0]["gpus"], serde_json::json!(["GPU-a"]));
    assert_eq!(fresh[0]["summary"]["gpu_util_mean_pct"], 60.0);

    let mut daemon = host
        .command(GUA)
        .args([
            "daemon",
            "--foreground",
            "--interval",
            "50ms",
            "--db",
            "gua.db",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let elsewhere = host.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    // The shared directory is not visible from here: this answer comes from the history alone.
    let in_history = || {
        let mut command = host.command(GUA);
        command.args(["runs", "list", "--json", "--db", "gua.db"]);
        let ended = Ended::from(command.env("GUA_CLAIM_DIR", &elsewhere).output().unwrap());
        let text: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
        text["runs"].as_array().cloned().unwrap_or_default()
    };
    wait_until("the run in the history", || in_history().len() == 1);
    assert_eq!(in_history(), fresh);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let both = listed(&host, "runs list --json --db gua.db");
    assert_eq!(both, fresh, "the same run is listed once");
}

#[test]
fn runs_can_be_listed_shown_and_compared() {
    let host = host(ONE_GPU);
    host.run_job("--gpus all --interval 20ms --name first", "sleep 0.3");
    host.run_job(
        "--gpus all --interval 20ms --name second",
        "$GUA phase work; sleep 0.3; exit 1",
    );
    let runs = listed(&host, "runs list --json");
    let ids: Vec<&str> = runs
        .iter()
        .map(|run| run["run"].as_str().unwrap())
        .collect();
    assert_eq!(runs[0]["name"], "second");

    let text = gua(&host, "runs list");
    assert!(text.stdout.lines().count() == 3, "{}", text.stdout);
    assert!(text.stdout.contains("60.0"), "{}", text.stdout);
    let csv = gua(&host, "runs list --csv");
    assert!(
        csv.stdout
            .starts_with("run,user,name,started,seconds,exit_code,"),
        "{}",
        csv.stdout
    );
    let nobody = gua(&host, "runs list --user nobody-here");
    assert_eq!(nobody.code, 0, "{nobody:?}");
    assert_eq!(nobody.stdout.lines().count(), 1, "{nobody:?}");

    let shown = gua(&host, "runs show last");
    assert!(shown.stdout.contains("second"), "{}", shown.stdout);
    assert!(
        shown.stdout.contains("gpu 0 NVIDIA A100: 60 % busy"),
        "{}",
        shown.stdout
    );
    assert!(shown.stdout.contains("phase work"), "{}", shown.stdout);
    let shown = gua(&host, &format!("runs show {} --json", ids[1]));
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["name"], "first");
    assert_eq!(gua(&host, "runs show nothing").code, 2);

    let compared = gua(&host, &format!("runs compare {} last", ids[1]));
    assert!(
        compared.stdout.contains("gpu busy %"),
        "{}",
        compared.stdout
    );
    assert_eq!(gua(&host, "runs compare last").code, 2);
}

#[test]
fn a_run_whose_gua_was_killed_is_lost_and_a_watched_one_is_running() {
    let host = host(ONE_GPU);
    let mut job = host.job(
        "--gpus all --interval 20ms",
        "echo $$ > pid; exec sleep 600",
    );
    let mut watcher = job
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let listing = || gua(&host, "runs list --json").stdout;
    let state = || {
        let text: Value = serde_json::from_str(&listing()).unwrap_or_default();
        text["runs"][0]["state"].clone()
    };
    wait_until("the run", || state() == "running");
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    let sleeper = host.read("pid").trim().parse().unwrap();
    let sleeper = rustix::process::Pid::from_raw(sleeper).unwrap();
    rustix::process::kill_process(sleeper, rustix::process::Signal::KILL).unwrap();
    assert_eq!(state(), "lost");
    schema::check("gua.runs.v1", &listing());
    let shown = gua(&host, "runs show last").stdout;
    assert!(
        shown.contains("lost: the watching process exited"),
        "{shown}"
    );
    let list = gua(&host, "runs list").stdout;
    assert!(list.contains("lost"), "{list}");
}

#[test]
fn an_explicit_history_must_exist() {
    let host = host(ONE_GPU);
    host.run_job("--quiet --gpus all --interval 20ms", "true");
    std::fs::write(host.path("notes"), "no database\n").unwrap();
    for command in ["list", "show last", "compare last last"] {
        let check = |db: &str, sentence: &str| {
            let ended = gua(&host, &format!("runs {command} --db {db}"));
            assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:?}");
            assert!(ended.stderr.contains(sentence), "{ended:?}");
        };
        check("nowhere.db", "there is no history at `nowhere.db`");
        check("notes", "`notes` is not a database, not a history of gua");
        check(".", "`.` is a directory, not a history of gua");
    }
    // A configured history may not exist yet.
    let mut command = host.command(GUA);
    command.args(["runs", "list"]).env("GUA_DB", "nowhere.db");
    let ended = Ended::from(command.output().unwrap());
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn unknown_time_has_no_share_and_a_ghost_counts_as_active() {
    let check = |scenario: &str, expected: &str| {
        let host = host(scenario);
        host.run_job("--quiet --gpus all --interval 20ms", "sleep 0.4");
        let csv = gua(&host, "runs list --csv").stdout;
        let mut rows = csv.lines().map(|line| line.split(','));
        let (mut head, mut row) = (rows.next().unwrap(), rows.next().unwrap());
        let place = head.position(|name| name == "active_pct").unwrap();
        assert_eq!(row.nth(place), Some(expected), "{scenario}: {csv}");
    };
    check(ONE_GPU, "100.0");
    check("[[gpu]]\nutil = 0\n", "0.0");
    check("[[gpu]]\nutil = 97\n", "100.0");
    check("", "");
}

#[test]
fn json_output_follows_its_schema() {
    let host = host(ONE_GPU);
    host.run_job("--quiet --gpus all --interval 20ms", "sleep 0.2");
    host.run_job("--quiet --gpus all --interval 20ms", "kill -KILL $$");
    let compared = gua(&host, "runs compare last last --json").stdout;
    schema::check("gua.runs.v1", &compared);
    let list = gua(&host, "runs list --json").stdout;
    schema::check("gua.runs.v1", &list);
    let list: Value = serde_json::from_str(&list).unwrap();
    let shown: Value = serde_json::from_str(&gua(&host, "runs show last --json").stdout).unwrap();
    assert_eq!(shown, list["runs"][0]);
}
