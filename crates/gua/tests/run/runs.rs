//! Runs in the history: told by the run itself, taken in by a collector, listed, shown and compared.

use std::process::Stdio;

use serde_json::Value;

use crate::host::{Ended, GUA, Host, until};

const ONE_CARD: &str = "[[card]]\nuuid = \"GPU-a\"\nname = \"NVIDIA A100\"\nutil = 60\nmemory_used_mib = 2048\nmemory_total_mib = 40960\npower_w = 100\n";

fn gua(host: &Host, line: &str) -> Ended {
    let mut command = host.command(GUA);
    Ended::of(command.args(line.split(' ')).output().unwrap())
}

fn listed(host: &Host, line: &str) -> Vec<Value> {
    let ended = gua(host, line);
    let text: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    text["runs"].as_array().unwrap().clone()
}

#[test]
fn a_run_is_known_at_once_and_in_the_history_once_a_collector_has_seen_it() {
    let host = Host::new(ONE_CARD);
    let none = gua(&host, "runs list");
    assert_eq!(none.code(), Some(3), "{none:?}");
    host.run(
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
    // What is still in the shared directory is not seen from here: this is the history's word.
    let in_history = || {
        let mut command = host.command(GUA);
        command.args(["runs", "list", "--json", "--db", "gua.db"]);
        let ended = Ended::of(command.env("GUA_CLAIM_DIR", &elsewhere).output().unwrap());
        let text: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
        text["runs"].as_array().cloned().unwrap_or_default()
    };
    until("the run in the history", || in_history().len() == 1);
    assert_eq!(in_history(), fresh);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let both = listed(&host, "runs list --json --db gua.db");
    assert_eq!(both, fresh, "the same run is listed once");
}

#[test]
fn runs_can_be_listed_shown_and_compared() {
    let host = Host::new(ONE_CARD);
    host.run("--gpus all --interval 20ms --name first", "sleep 0.3");
    host.run(
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
    assert_eq!(nobody.code(), Some(3));

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
    assert_eq!(gua(&host, "runs show nothing").code(), Some(2));

    let compared = gua(&host, &format!("runs compare {} last", ids[1]));
    assert!(
        compared.stdout.contains("gpu busy %"),
        "{}",
        compared.stdout
    );
    assert_eq!(gua(&host, "runs compare last").code(), Some(2));
}
