//! Output of each command on terminals of 80 and 140 columns, light and dark, and the pictures of the documentation
//! that are made from it. `INSTA_UPDATE=always` rewrites the recordings, `scripts/pictures` the pictures.

use std::path::Path;

use gua_test::screen::{Screen, Theme};
use gua_test::{Pty, Sleeper, TestHost, clock, month};

use crate::{after_the_month, host, without_driver};

/// GPUs of each kind: busy without a process, held by a process that has exited, free, defective and lost.
const GPUS: &str = "[clock]\nat = 100\n\
    [[gpu]]\nuuid = \"GPU-a\"\nutil = 97\n\
    [[gpu]]\nuuid = \"GPU-b\"\nutil = 0\n[[gpu.process]]\npid = 4194303\nmemory_mib = 2048\n\
    [[gpu]]\nuuid = \"GPU-c\"\n\
    [[gpu]]\nuuid = \"GPU-d\"\necc = true\necc_uncorrected = 3\n\
    [[gpu]]\nuuid = \"GPU-e\"\nlost = [[0, inf]]\n";

/// A GPU that the process PID holds without using it, and a free one.
const HELD: &str = "[[gpu]]\nuuid = \"GPU-a\"\nutil = 0\n[[gpu.process]]\npid = PID\nmemory_mib = 2048\n\
    [[gpu]]\nuuid = \"GPU-b\"\n";

const QUOTAS: &str =
    "[[quota]]\nuser = \"bob\"\ncharged = \"400h\"\nheld = \"300h\"\nper = \"month\"\n";

/// Commands that write the month of the demo themselves, and the names of their recordings.
const OF_THE_DEMO: [(&str, &str); 2] = [("demo", "demo"), ("top", "demo top --once")];

/// Commands on that month.
const OF_THE_MONTH: [(&str, &str); 7] = [
    ("report", "report --since 30d"),
    ("report-compare", "report --since 7d --compare"),
    ("plot", "plot hours --by user --since 30d"),
    ("explain", "explain 2 --at 2026-10-30T14:59:50"),
    ("statement", "statement --month 2026-10 --user bob"),
    ("quota", "quota show"),
    ("runs", "runs list"),
];

/// Commands on simulated GPUs, without a history.
const OF_A_HOST: [(&str, &str); 6] = [
    // `gua` alone: the list, and what to type next.
    ("bare", ""),
    ("list", "list"),
    ("available", "available --limit 0"),
    ("me", "me"),
    ("claims", "claim list"),
    ("status", "status"),
];

fn home() -> TestHost {
    let mut home = host(GPUS);
    clock::stop(&mut home, month::END);
    home
}

/// Output of a command on a terminal of this width.
fn shown(home: &TestHost, line: &str, columns: u16) -> String {
    let pty = Pty::sized(columns, 50);
    let mut command = home.gua_command(line);
    command.env("TERM", "xterm-256color");
    let mut child = pty.start(&mut command);
    // The command keeps the program's end of the terminal open.
    drop(command);
    let text = pty.rest();
    assert!(child.wait().unwrap().code() <= Some(3), "{line}: {text}");
    let user = home.run("id", "-un").stdout;
    text.replace(user.trim(), "me")
        .replace(&home.directory().display().to_string(), "~")
}

#[test]
fn commands_of_the_demo_at_80_and_140_columns_light_and_dark() {
    check(&home(), &OF_THE_DEMO);
}

#[test]
fn commands_on_a_month_at_80_and_140_columns_light_and_dark() {
    let home = after_the_month();
    std::fs::write(home.path(".gua/config.toml"), QUOTAS).unwrap();
    check(&home, &OF_THE_MONTH);
}

#[test]
fn commands_of_a_host_at_80_and_140_columns_light_and_dark() {
    check(&home(), &OF_A_HOST);
}

/// A process of this user holds a GPU without using it and has leased another one. Its PID and the id of the lease vary.
#[test]
fn what_a_user_holds_at_80_and_140_columns_light_and_dark() {
    let sleeper = Sleeper::new();
    let pid = sleeper.pid().to_string();
    let mut home = host(&HELD.replace("PID", &pid));
    clock::stop(&mut home, month::END);
    home.fine(&format!("available --claim 10m --for {pid} --free-for 0s"));
    let claims = home.json("claim list --json");
    let id = claims["claims"][0]["id"].as_str().unwrap().to_owned();
    let user = home.run("id", "-un").stdout.trim().to_owned();
    // A heading is as wide as the cells below it, which vary with their content.
    let heading = |title: &str, cell: &str| format!("{title:<0$}", cell.len());
    let scrub = |text: &str| {
        text.replace(&id, "1c9d03fe")
            .replace(
                &heading("process", &format!("sleep ({pid})")),
                &heading("process", "sleep (4711)"),
            )
            .replace(
                &heading("for", &format!("{user} (pid {pid} sleep)")),
                &heading("for", "me (pid 4711 sleep)"),
            )
            .replace(&pid, "4711")
            // The lease ends by another clock.
            .replace("15:09:59", "15:10:00")
            .replace("15:09:58", "15:10:00")
            .replace("15:09:57", "15:10:00")
    };
    for (name, line) in [("me-holding", "me"), ("claims-leased", "claim list")] {
        check_shown(name, |columns| scrub(&shown(&home, line, columns)));
    }
}

#[track_caller]
fn check(home: &TestHost, surfaces: &[(&str, &str)]) {
    for (name, line) in surfaces {
        check_shown(name, |columns| shown(home, line, columns));
    }
}

/// Compares what a terminal of 80 and of 140 columns shows with the recordings.
#[track_caller]
fn check_shown(name: &str, shown: impl Fn(u16) -> String) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("surfaces");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let _guard = settings.bind_to_scope();
    for columns in [80, 140] {
        let screen = Screen::read(&shown(columns));
        for theme in Theme::ALL {
            let marked = screen.marked(theme);
            insta::assert_snapshot!(format!("{name}-{columns}-{}", theme.as_str()), marked);
            let contrast = screen.lowest_contrast(theme);
            assert!(contrast >= 3.0, "{name} {theme:?}: contrast {contrast:.1}");
        }
    }
}

#[test]
fn pictures_of_the_documentation_are_current() {
    let mut home = without_driver();
    clock::stop(&mut home, month::END);
    let month = after_the_month();
    // `gua demo report` shows the month without writing it again.
    for (name, title, host, line, columns) in [
        ("demo", "gua demo", &home, "demo", 80),
        ("top", "gua demo top --once", &home, "demo top --once", 100),
        (
            "report",
            "gua demo report",
            &month,
            "report --since 30d",
            100,
        ),
    ] {
        let screen = Screen::read(&shown(host, line, columns));
        for theme in Theme::ALL {
            let file = format!("{name}-{}.svg", theme.as_str());
            check_picture(&file, &screen.svg(theme, title));
        }
    }
    for (name, line) in [
        ("states", "plot states --since 30d --per day --format svg"),
        ("sessions", "plot sessions --since 7d --format svg"),
    ] {
        check_picture(&format!("{name}.svg"), &month.fine(line));
    }
}

#[track_caller]
fn check_picture(file: &str, svg: &str) {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pictures"));
    gua_test::assert_current(&directory.join(file), svg);
}
