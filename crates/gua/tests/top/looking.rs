//! Screens and effects of keys, with healthy, lost, hung and changing GPUs.

use super::{TWO_GPUS, held_by, host, top};
use crate::GUA;
use gua_test::{Sleeper, Terminal, wait_until};

#[test]
fn a_resize_redraws_the_screen() {
    let host = host(TWO_GPUS);
    let terminal = top(&host, "--interval 200ms", (120, 40));
    terminal.shows("JOB/POD/CONTAINER");
    terminal.tmux(&["resize-window", "-t", "top", "-x", "20", "-y", "10"]);
    let screen = terminal.until("a narrow picture", |screen| {
        screen.lines().all(|line| line.chars().count() <= 20) && screen.contains("GPU USER")
    });
    assert!(screen.contains("free"), "{screen}");
    terminal.tmux(&["resize-window", "-t", "top", "-x", "150", "-y", "30"]);
    terminal.shows("JOB/POD/CONTAINER");
    terminal.keys(&["q"]);
    terminal.shows("code=0");
}

#[test]
fn an_own_process_is_signalled_only_after_a_confirmation() {
    let mut sleeper = Sleeper::new();
    let host = host(&held_by(&sleeper));
    let pid = sleeper.pid();
    let terminal = top(&host, "--interval 200ms", (80, 24));
    terminal.shows("idle-held");
    terminal.shows("sleep");
    terminal.keys(&["x"]);
    terminal.shows(&format!("Send TERM to {pid}"));
    terminal.keys(&["n"]);
    terminal.shows("no signal was sent");
    assert!(sleeper.lives());
    terminal.keys(&["x"]);
    terminal.shows(&format!("Send TERM to {pid}"));
    terminal.keys(&["y"]);
    terminal.shows(&format!("sent TERM to {pid}"));
    assert_eq!(sleeper.wait(), -15);
    terminal.keys(&["t"]);
    terminal.shows("(exited)");
}

#[test]
fn read_only_mode_signals_nothing() {
    let mut sleeper = Sleeper::new();
    let host = host(&held_by(&sleeper));
    let terminal = top(&host, "--readonly", (80, 24));
    terminal.shows("sleep");
    terminal.keys(&["x", "y"]);
    terminal.keys(&["x"]);
    terminal.shows("read-only");
    assert!(sleeper.lives());
}

#[test]
fn demo_processes_cannot_be_signalled() {
    let host = host(TWO_GPUS);
    let terminal = top(&host, "--fake", (80, 24));
    terminal.shows("live");
    terminal.keys(&["x"]);
    terminal.shows("simulated processes cannot be signalled");
}

#[test]
fn a_lost_gpu_is_shown_as_lost() {
    let lost = "[[gpu]]\nuuid = \"GPU-a\"\nutil = 50\n[[gpu]]\nlost = [[0, inf]]\n";
    let host = host(lost);
    let text = host.gua("top --once").stdout;
    assert!(text.contains("1 unhealthy  1 active"), "{text}");
    assert!(text.contains("unobserved  GPU lost"), "{text}");
    let terminal = top(&host, "", (80, 24));
    terminal.shows("GPU lost");
}

#[test]
fn a_hung_driver_is_shown_and_keys_still_work() {
    let host = host(TWO_GPUS);
    let terminal = top(&host, "--interval 200ms", (80, 24));
    terminal.shows("1 active");
    host.play(&format!(
        "{TWO_GPUS}[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\nhang = true\n"
    ));
    terminal.shows("driver has not responded since");
    terminal.keys(&["?"]);
    terminal.shows("keys and words");
    terminal.keys(&["Escape"]);
    terminal.until("no help", |screen| !screen.contains("keys and words"));
    host.play(TWO_GPUS);
    terminal.until("an answer", |screen| !screen.contains("has not responded"));
    terminal.keys(&["q"]);
    terminal.shows("code=0");
}

#[test]
fn gpus_come_and_go() {
    let host = host(TWO_GPUS);
    let terminal = top(&host, "--interval 200ms", (80, 24));
    terminal.shows("1 active");
    host.play("[[gpu]]\nuuid = \"GPU-b\"\nutil = 90\n[[gpu]]\nuuid = \"GPU-c\"\nutil = 91\n[[gpu]]\nuuid = \"GPU-d\"\nutil = 92\n");
    terminal.shows("3 active");
    host.play(
        "[[gpu]]\nuuid = \"GPU-c\"\nlost = [[0, inf]]\n[[gpu]]\nuuid = \"GPU-d\"\nutil = 92\n",
    );
    terminal.until("a lost card beside one at work", |screen| {
        screen.contains("GPU lost") && screen.contains("1 active")
    });
    host.play("");
    terminal.keys(&["q"]);
    terminal.shows("code=0");
}

#[test]
fn the_recorded_history_can_be_scrolled_into() {
    let sleeper = Sleeper::new();
    let host = host(&held_by(&sleeper));
    let daemon = host.foreground("daemon --foreground --interval 100ms");
    wait_until("eight ticks", || daemon.stdout().lines().count() >= 8);
    let db = host.state("gua.db");
    let terminal = Terminal::new(
        &host,
        &format!("exec {GUA} top --db {}", db.display()),
        (100, 24),
    );
    terminal.shows("idle-held");
    terminal.until("recorded ticks", |screen| {
        terminal.keys(&["Left"]);
        screen.contains("RECORDED")
    });
    terminal.keys(&["n"]);
    terminal.until("now", |screen| screen.contains(" live "));
}
