//! `gua list` in front of healthy, divided, lost, hung and changing cards.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use gua_probe::clock;
use serde_json::Value;

use super::Machine;
use crate::GUA;
use gua_test::{Ended, Sleeper};

const TWO_CARDS: &str = "[clock]\nat = 100\n[[card]]\nuuid = \"GPU-a\"\nutil = 50\n[[card.process]]\npid = ONE\nmemory_mib = 2048\n[[card]]\nuuid = \"GPU-b\"\n";

#[test]
fn wide_shows_the_whole_command_line_of_every_holder() {
    let words = ["600", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let long = Sleeper::with(&words);
    let holder = format!("[[card.process]]\npid = {}\nmemory_mib = 512\n", long.pid());
    let host = Machine::new(&format!(
        "{TWO_CARDS}[[card]]\n[[card.process]]\npid = ONE\nmemory_mib = 2048\n{holder}"
    ));
    let line = |arguments: &str| {
        let text = host.gua(arguments).stdout;
        text.lines().last().unwrap_or_default().to_owned()
    };
    let whole = line("list --wide");
    let expected = [
        String::from("sleep 600"),
        format!("sleep {}", words.join(" ")),
    ];
    let found = expected
        .iter()
        .filter(|command| whole.contains(command.as_str()));
    assert_eq!(found.count(), 2, "{whole}");
    assert!(
        whole.contains("; sleep") && !whole.contains("..."),
        "{whole}"
    );
    let usual = line("list");
    assert!(!usual.contains(&expected[1]), "{usual}");
}

#[test]
fn instances_stand_below_their_card() {
    let host = Machine::new(
        "[[card]]\n[[card.mig]]\nuuid = \"MIG-a\"\nprofile = \"3g.40gb\"\n[[card.mig.process]]\npid = ONE\nmemory_mib = 512\n[[card]]\n",
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
    let first: Vec<&str> = text.lines().skip(2).map(|line| &line[..1]).collect();
    assert_eq!(first, ["1", "0", " "], "{text}");
}

#[test]
fn a_lost_card_costs_its_own_line() {
    let host = Machine::new("[[card]]\nutil = 20\n[[card]]\nlost = [[0, inf]]\n");
    let listing = host.listing();
    assert_eq!(listing["gpus"][0]["util_percent"], 20);
    assert_eq!(listing["gpus"][1]["state"], "unobserved");
    assert_eq!(listing["gpus"][1]["unobserved_because"], "gone");
    let text = host.gua("list").stdout;
    assert!(
        text.lines()
            .nth(3)
            .is_some_and(|line| line.contains("[!]") && line.ends_with("lost")),
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
fn who_waits_for_a_hung_driver_is_told_after_two_seconds() {
    let host = Machine::new(&format!(
        "{TWO_CARDS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\nhang = true\n"
    ));
    for line in ["list", "available", "list --json"] {
        let mut command = host.command(GUA);
        command
            .args(line.split(' '))
            .env("GUA_DRIVER_DEADLINE", "1s");
        let ended = Ended::from(command.output().unwrap());
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{line}");
        let said: Vec<&str> = ended.stderr.lines().collect();
        assert_eq!(
            said[0],
            "the driver has not answered for 2 s; waiting up to 3 s"
        );
        assert!(said[1].contains("did not answer"), "{}", ended.stderr);
    }
}

#[test]
fn a_hung_driver_and_a_missing_one_end_in_a_sentence() {
    let mut host = Machine::new(&format!(
        "{TWO_CARDS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\nhang = true\n"
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
fn watching_follows_the_cards_as_they_come_and_go() {
    let host = Machine::new(TWO_CARDS);
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
    host.play(
        "[[card]]\nuuid = \"GPU-a\"\n[[card]]\nuuid = \"GPU-b\"\n[[card]]\nuuid = \"GPU-c\"\n",
    );
    until("three cards", |listing| {
        listing["gpus"][2]["state"] == "truly-idle"
    });
    // A card that was there and is not any more is lost, and not forgotten.
    host.play("[[card]]\nuuid = \"GPU-c\"\n");
    until("two lost cards", |listing| {
        let cards = listing["gpus"].as_array().unwrap();
        let is_lost = |card: &&Value| card["unobserved_because"] == "gone";
        cards.iter().filter(is_lost).count() == 2
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let wrong = host.gua("list --watch 1ms");
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
}

#[test]
fn a_fault_while_watching_is_said_once_and_once_that_it_is_over() {
    let host = Machine::new(TWO_CARDS);
    let mut child = host
        .command(GUA)
        .args(["list", "--watch", "100ms", "--json"])
        .env("GUA_DRIVER_DEADLINE", "200ms")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pages = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    pages.next().unwrap().unwrap();
    host.play(&format!(
        "{TWO_CARDS}[[fault]]\nfunction = \"nvmlDeviceGetUtilizationRates\"\nhang = true\n"
    ));
    let fault = said.next().unwrap().unwrap();
    assert!(fault.contains("did not answer"), "{fault}");
    host.play(TWO_CARDS);
    // Whatever it says next has to be that it is over, though it has asked in vain several times by then.
    let over = said.next().unwrap().unwrap();
    let looks = over
        .strip_prefix("gua list: the driver answers again, after ")
        .and_then(|rest| rest.strip_suffix(" looks without an answer"))
        .and_then(|number| number.parse::<u32>().ok());
    assert!(looks.is_some_and(|looks| looks > 1), "{over}");
    pages.next().unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.next().is_none());
}

#[test]
fn a_terminal_of_any_width_is_not_overrun() {
    for width in [20, 40, 80, 120, 200] {
        let host = Machine::new(TWO_CARDS);
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
        // A heading, its rule and a line a card: nothing was broken in two.
        assert_eq!(lines.len(), 4, "{width}:\n{screen}");
        assert!(
            lines[2].contains("[~]") && lines[3].contains("[ ]"),
            "{width}:\n{screen}"
        );
    }
}

#[test]
fn a_running_daemon_says_since_when() {
    let host = Machine::new(
        "[[card]]\nuuid = \"GPU-a\"\n[[card.process]]\npid = ONE\nmemory_mib = 2048\n[[card]]\nuuid = \"GPU-b\"\n",
    );
    assert_eq!(host.listing()["gpus"][0]["state_since"], Value::Null);
    let started = host.gua("start --interval 50ms");
    assert_eq!(started.code, 0, "{}", started.stderr);
    let limit = clock::monotonic() + Duration::from_secs(20);
    let since = loop {
        let listing = host.listing();
        let card = &listing["gpus"][0];
        if card["state_since"].is_string() {
            break card.clone();
        }
        assert!(clock::monotonic() < limit, "{listing}");
    };
    assert_eq!(since["state"], "idle-held");
    assert_eq!(since["state_since_is_bound"], true, "nobody looked before");
    let csv = host.gua("list --csv").stdout;
    let line = csv.lines().nth(1).unwrap_or_default();
    assert!(line.contains("Z,true,"), "{csv}");
    // Just freed, so history speaks against it; a person who does not care can say so.
    host.play("[[card]]\nuuid = \"GPU-a\"\n[[card]]\nuuid = \"GPU-b\"\n");
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
