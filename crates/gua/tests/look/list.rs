//! `gua list` on healthy, partitioned, lost, hung and changing GPUs.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use gua_probe::clock;
use serde_json::Value;

use super::Machine;
use crate::GUA;
use gua_test::{Ended, Sleeper, Terminal};

const TWO_GPUS: &str = "[clock]\nat = 100\n[[gpu]]\nuuid = \"GPU-a\"\nutil = 50\n[[gpu.process]]\npid = ONE\nmemory_mib = 2048\n[[gpu]]\nuuid = \"GPU-b\"\n";

#[test]
fn wide_shows_the_whole_command_line_of_every_holder() {
    let words = ["600", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let long = Sleeper::with(&words);
    let holder = format!("[[gpu.process]]\npid = {}\nmemory_mib = 512\n", long.pid());
    let host = Machine::new(&format!(
        "{TWO_GPUS}[[gpu]]\n[[gpu.process]]\npid = ONE\nmemory_mib = 2048\n{holder}"
    ));
    let last_two = |arguments: &str| {
        let text = host.gua(arguments).stdout;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[lines.len() - 2..].to_vec()
    };
    let expected = [
        String::from("  sleep 600"),
        format!("  sleep {}", words.join(" ")),
    ];
    let whole = last_two("list --wide");
    for (line, command) in whole.iter().zip(&expected) {
        assert!(line.contains(command.as_str()), "{line}");
    }
    let usual = last_two("list").join("\n");
    assert!(!usual.contains(&expected[1]), "{usual}");
}

#[test]
fn instances_are_listed_below_their_gpu() {
    let host = Machine::new(
        "[[gpu]]\n[[gpu.mig]]\nuuid = \"MIG-a\"\nprofile = \"3g.40gb\"\n[[gpu.mig.process]]\npid = ONE\nmemory_mib = 512\n[[gpu]]\n",
    );
    let listing = host.listing();
    let places: Vec<&str> = listing["gpus"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gpu| gpu["place"].as_str().unwrap())
        .collect();
    assert_eq!(places, ["parent", "instance", "whole"]);
    assert_eq!(listing["gpus"][1]["holders"][0]["pid"], host.one.pid());
    let text = host.gua("list --order -index").stdout;
    let label = |line: &str| {
        line.split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let first: Vec<String> = text.lines().skip(1).map(label).collect();
    assert_eq!(first, ["1", "0", "0:1"], "{text}");
}

#[test]
fn a_lost_gpu_costs_only_its_own_line() {
    let host = Machine::new("[[gpu]]\nutil = 20\n[[gpu]]\nlost = [[0, inf]]\n");
    let listing = host.listing();
    assert_eq!(listing["gpus"][0]["util_percent"], 20);
    assert_eq!(listing["gpus"][1]["state"], "unobserved");
    assert_eq!(listing["gpus"][1]["unobserved_because"], "gone");
    let text = host.gua("list").stdout;
    assert!(
        text.lines()
            .nth(2)
            .is_some_and(|line| line.starts_with("1    lost ") && line.contains(" lost ")),
        "{text}"
    );
    let nvl = host.named("nvl", "");
    assert_eq!(nvl.code, 0);
    assert!(
        nvl.stdout
            .lines()
            .nth(3)
            .is_some_and(|line| line.contains("[!]")),
        "{}",
        nvl.stdout
    );
}

#[test]
fn waiting_for_a_hung_driver_is_announced_after_two_seconds() {
    let host = Machine::new(&format!(
        "{TWO_GPUS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\nhang = true\n"
    ));
    for line in ["list", "available", "list --json"] {
        let mut command = host.command(GUA);
        command
            .args(line.split(' '))
            .env("GUA_DRIVER_DEADLINE", "1s");
        let ended = Ended::from(command.output().unwrap());
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{line}");
        let output: Vec<&str> = ended.stderr.lines().collect();
        assert_eq!(
            output[0],
            "the driver has not answered for 2 s; waiting up to 3 s"
        );
        assert!(output[1].contains("did not answer"), "{}", ended.stderr);
    }
}

#[test]
fn a_hung_or_missing_driver_ends_with_one_sentence() {
    let mut host = Machine::new(&format!(
        "{TWO_GPUS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\nhang = true\n"
    ));
    let gua = || std::path::PathBuf::from(GUA);
    for (program, line) in [
        (gua(), "list"),
        (gua(), "available"),
        (host.path("nvgpu"), "available"),
    ] {
        let began = clock::monotonic();
        let output = host
            .command(program)
            .args(line.split(' '))
            .env("GUA_DRIVER_DEADLINE", "300ms")
            .output()
            .unwrap();
        assert!(clock::monotonic() - began < Duration::from_secs(10));
        let ended = Ended::from(output);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{line}");
        assert!(ended.stderr.contains("did not answer"), "{}", ended.stderr);
    }
    host.host.remove_library();
    for line in ["list", "list --json", "list --watch 100ms", "available"] {
        let ended = host.gua(line);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{line}");
        assert!(ended.stderr.contains("was not found"), "{}", ended.stderr);
    }
}

#[test]
fn watch_follows_gpus_that_come_and_go() {
    let host = Machine::new(TWO_GPUS);
    let mut child = host
        .command(GUA)
        .args(["list", "--watch", "100ms", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut until = |what: &str, is_so: fn(&Value) -> bool| {
        lines
            .by_ref()
            .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
            .take(200)
            .find(is_so)
            .unwrap_or_else(|| panic!("never {what}"));
    };
    let number = |listing: &Value| listing["gpus"].as_array().unwrap().len();
    until("two cards", |listing| listing["gpus"][2].is_null());
    assert_eq!(number(&host.listing()), 2);
    host.play("[[gpu]]\nuuid = \"GPU-a\"\n[[gpu]]\nuuid = \"GPU-b\"\n[[gpu]]\nuuid = \"GPU-c\"\n");
    until("three cards", |listing| {
        listing["gpus"][2]["state"] == "truly-idle"
    });
    // A GPU that disappears is shown as lost, not dropped.
    host.play("[[gpu]]\nuuid = \"GPU-c\"\n");
    until("two lost cards", |listing| {
        let gpus = listing["gpus"].as_array().unwrap();
        let is_lost = |gpu: &&Value| gpu["unobserved_because"] == "gone";
        gpus.iter().filter(is_lost).count() == 2
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let wrong = host.gua("list --watch 1ms");
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
}

#[test]
fn a_fault_while_watching_is_reported_when_it_starts_and_when_it_ends() {
    let host = Machine::new(TWO_GPUS);
    let mut child = host
        .command(GUA)
        .args(["list", "--watch", "100ms", "--json"])
        .env("GUA_DRIVER_DEADLINE", "200ms")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pages = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut output = BufReader::new(child.stderr.take().unwrap()).lines();
    pages.next().unwrap().unwrap();
    host.play(&format!(
        "{TWO_GPUS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\nhang = true\n"
    ));
    let fault = output.next().unwrap().unwrap();
    assert!(fault.contains("did not answer"), "{fault}");
    host.play(TWO_GPUS);
    // The next message must be that the fault is over, although several reads have failed by then.
    let over = output.next().unwrap().unwrap();
    let failed = over
        .strip_prefix("gua list: the driver answers again after ")
        .and_then(|rest| rest.strip_suffix(" failed samples"))
        .and_then(|number| number.parse::<u32>().ok());
    assert!(failed.is_some_and(|samples| samples > 1), "{over}");
    pages.next().unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(output.next().is_none());
}

#[test]
fn lines_fit_a_terminal_of_any_width() {
    for width in [20, 40, 80, 120, 200] {
        let host = Machine::new(TWO_GPUS);
        let session = format!("gua-look-{}-{width}", std::process::id());
        let done = host.path("done");
        let gua = GUA;
        let line = format!("{gua} list; touch {}; sleep 60", done.display());
        let size = width.to_string();
        let tmux = |arguments: &[&str]| {
            let output = host
                .command("tmux")
                .args(["-L", &session])
                .args(arguments)
                .env("TERM", "xterm")
                .env("LANG", "C.UTF-8")
                .output()
                .unwrap();
            Ended::from(output)
        };
        let started = tmux(&[
            "-u",
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &size,
            "-y",
            "20",
            &line,
        ]);
        assert_eq!(started.code, 0, "{}", started.stderr);
        let limit = clock::monotonic() + Duration::from_secs(20);
        while !done.exists() && clock::monotonic() < limit {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        let screen = tmux(&["capture-pane", "-p"]).stdout;
        tmux(&["kill-server"]);
        let lines: Vec<&str> = screen
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        // A heading and one line per GPU: no line was wrapped.
        assert_eq!(lines.len(), 3, "{width}:\n{screen}");
        assert!(
            lines[1].contains(" active") && lines[2].contains(" free"),
            "{width}:\n{screen}"
        );
    }
}

#[test]
fn gua_alone_shows_the_list_on_a_terminal_of_a_host_with_gpus_and_the_usage_elsewhere() {
    let line = format!("{GUA}; echo code=$?; exec cat");
    let host = Machine::new(TWO_GPUS);
    let screen = Terminal::new(&host, &line, (80, 24)).shows("code=");
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[0].starts_with("GPU  state"), "{screen}");
    assert!(lines[2].starts_with("1    free"), "{screen}");
    assert!(lines[3].contains("gua --help"), "{screen}");
    assert_eq!(lines[4], "code=0", "{screen}");
    let piped = Ended::from(host.command(GUA).output().unwrap());
    assert_eq!((piped.code, piped.stdout.as_str()), (2, ""));
    assert!(piped.stderr.contains("Usage: gua"), "{}", piped.stderr);
    let none = Machine::new("");
    let screen = Terminal::new(&none, &line, (80, 120)).shows("code=");
    assert!(screen.contains("Usage: gua"), "{screen}");
    assert!(screen.contains("code=2"), "{screen}");
}

#[test]
fn with_a_running_daemon_the_listing_shows_since_when() {
    let host = Machine::new(
        "[[gpu]]\nuuid = \"GPU-a\"\n[[gpu.process]]\npid = ONE\nmemory_mib = 2048\n[[gpu]]\nuuid = \"GPU-b\"\n",
    );
    assert_eq!(host.listing()["gpus"][0]["state_since"], Value::Null);
    let started = host.gua("start --interval 50ms");
    assert_eq!(started.code, 0, "{}", started.stderr);
    let limit = clock::monotonic() + Duration::from_secs(20);
    let since = loop {
        let listing = host.listing();
        let gpu = &listing["gpus"][0];
        if gpu["state_since"].is_string() {
            break gpu.clone();
        }
        assert!(clock::monotonic() < limit, "{listing}");
    };
    assert_eq!(since["state"], "idle-held");
    assert_eq!(
        since["state_since_is_bound"], true,
        "nothing was observed before"
    );
    let csv = host.gua("list --csv").stdout;
    let line = csv.lines().nth(1).unwrap_or_default();
    assert!(line.contains("Z,true,"), "{csv}");
    // It was just freed, so recent history counts against it; a flag overrides that.
    host.play("[[gpu]]\nuuid = \"GPU-a\"\n[[gpu]]\nuuid = \"GPU-b\"\n");
    let picked = host.gua("available");
    assert_eq!(
        (picked.code, picked.stdout.as_str()),
        (0, "1\n"),
        "{}",
        picked.stderr
    );
    assert!(
        picked.stderr.contains("gpu 0 was in use"),
        "{}",
        picked.stderr
    );
    let picked: Value = serde_json::from_str(&host.gua("available --json").stdout).unwrap();
    let used = &picked["not_available"][0];
    assert!(used["used_seconds_ago"].is_u64(), "{used}");
    assert_eq!(host.gua("available --free-for 0s").stdout, "0,1\n");
    assert_eq!(host.gua("stop").code, 0);
}
