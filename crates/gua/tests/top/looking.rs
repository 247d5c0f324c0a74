//! What is shown and what keys do, in front of healthy, lost, hung and changing cards.

use std::process::Stdio;
use std::time::Duration;

use gua_probe::clock;

use crate::host::{Host, Sleeper, TWO_CARDS};

#[test]
fn another_size_is_another_picture() {
    let host = Host::new(TWO_CARDS);
    let terminal = host.top("--interval 200ms", (120, 40));
    terminal.shows("JOB/POD/CONTAINER");
    terminal.tmux(&["resize-window", "-t", "top", "-x", "20", "-y", "10"]);
    let screen = terminal.until("a narrow picture", |screen| {
        screen.lines().all(|line| line.chars().count() <= 20) && screen.contains("GPU USER")
    });
    assert!(screen.contains("truly-idle"), "{screen}");
    terminal.tmux(&["resize-window", "-t", "top", "-x", "150", "-y", "30"]);
    terminal.shows("JOB/POD/CONTAINER");
    terminal.keys(&["q"]);
    terminal.shows("code=0");
}

#[test]
fn an_own_process_is_signalled_after_a_confirmation_and_not_before() {
    let mut sleeper = Sleeper::new();
    let host = Host::new(&sleeper.card());
    let pid = sleeper.0.id();
    let terminal = host.top("--interval 200ms", (80, 24));
    terminal.shows("idle-held");
    terminal.shows("sleep");
    terminal.keys(&["x"]);
    terminal.shows(&format!("Send TERM to {pid}"));
    terminal.keys(&["n"]);
    terminal.shows("nothing was sent");
    assert!(sleeper.lives());
    terminal.keys(&["x"]);
    terminal.shows(&format!("Send TERM to {pid}"));
    terminal.keys(&["y"]);
    terminal.shows(&format!("TERM was sent to {pid}"));
    let status = sleeper.0.wait().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(15)
    );
    terminal.keys(&["t"]);
    terminal.shows("(gone)");
}

#[test]
fn read_only_signals_nobody() {
    let mut sleeper = Sleeper::new();
    let host = Host::new(&sleeper.card());
    let terminal = host.top("--readonly", (80, 24));
    terminal.shows("sleep");
    terminal.keys(&["x", "y"]);
    terminal.keys(&["x"]);
    terminal.shows("read-only");
    assert!(sleeper.lives());
}

#[test]
fn made_up_processes_cannot_be_signalled() {
    let host = Host::new(TWO_CARDS);
    let terminal = host.top("--fake", (80, 24));
    terminal.shows("live");
    terminal.keys(&["x"]);
    terminal.shows("made-up processes cannot be signalled");
}

#[test]
fn a_lost_card_is_shown_as_lost() {
    let lost = "[[card]]\nuuid = \"GPU-a\"\nutil = 50\n[[card]]\nlost = [[0, inf]]\n";
    let host = Host::new(lost);
    let text = String::from_utf8(host.gua("top --once").stdout).unwrap();
    assert!(text.contains("1 other"), "{text}");
    assert!(text.contains("unobserved  the card is lost"), "{text}");
    let terminal = host.top("", (80, 24));
    terminal.shows("the card is lost");
}

#[test]
fn a_hung_driver_is_told_and_keys_still_work() {
    let host = Host::new(TWO_CARDS);
    let terminal = host.top("--interval 200ms", (80, 24));
    terminal.shows("1 active");
    host.play(&format!(
        "{TWO_CARDS}[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\nhang = true\n"
    ));
    terminal.shows("driver does not answer since");
    terminal.keys(&["?"]);
    terminal.shows("keys and words");
    terminal.keys(&["Escape"]);
    terminal.until("no help", |screen| !screen.contains("keys and words"));
    host.play(TWO_CARDS);
    terminal.until("an answer", |screen| !screen.contains("does not answer"));
    terminal.keys(&["q"]);
    terminal.shows("code=0");
}

#[test]
fn cards_come_and_go() {
    let host = Host::new(TWO_CARDS);
    let terminal = host.top("--interval 200ms", (80, 24));
    terminal.shows("1 active");
    host.play("[[card]]\nuuid = \"GPU-b\"\nutil = 90\n[[card]]\nuuid = \"GPU-c\"\nutil = 91\n[[card]]\nuuid = \"GPU-d\"\nutil = 92\n");
    terminal.shows("3 active");
    host.play(
        "[[card]]\nuuid = \"GPU-c\"\nlost = [[0, inf]]\n[[card]]\nuuid = \"GPU-d\"\nutil = 92\n",
    );
    terminal.until("a lost card beside one at work", |screen| {
        screen.contains("the card is lost") && screen.contains("1 active")
    });
    host.play("");
    terminal.keys(&["q"]);
    terminal.shows("code=0");
}

#[test]
fn the_recorded_history_can_be_scrolled_into() {
    let sleeper = Sleeper::new();
    let host = Host::new(&sleeper.card());
    let home = host.home.path().to_owned();
    let log = std::fs::File::create(home.join("log")).unwrap();
    let mut daemon = Sleeper(
        host.command(env!("CARGO_BIN_EXE_gua"))
            .args(["daemon", "--foreground", "--interval", "100ms"])
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let limit = clock::monotonic() + Duration::from_secs(30);
    while std::fs::read_to_string(home.join("log"))
        .unwrap()
        .lines()
        .count()
        < 8
    {
        assert!(clock::monotonic() < limit && daemon.lives());
        std::thread::yield_now();
    }
    let gua = env!("CARGO_BIN_EXE_gua");
    let db = home.join(".gua/gua.db");
    let terminal = host.terminal(&format!("exec {gua} top --db {}", db.display()), (100, 24));
    terminal.shows("idle-held");
    terminal.until("recorded ticks", |screen| {
        terminal.keys(&["Left"]);
        screen.contains("RECORDED")
    });
    terminal.keys(&["n"]);
    terminal.until("now", |screen| screen.contains(" live "));
}
