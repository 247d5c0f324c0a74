//! What each command shows on terminals of 80 and 140 columns, light and dark, and the pictures of the documentation that
//! are made from it. `INSTA_UPDATE=always` rewrites the recordings, `scripts/pictures` the pictures.

use std::path::Path;

use gua_test::screen::{Screen, Theme};
use gua_test::{Pty, TestHost, clock};

use crate::{host, without_driver};

/// Friday, 2026-10-30 15:00 UTC: the end of the demo's month.
const NOW: &str = "1793372400.000000000";

/// GPUs of each kind: busy without a process, held by a process that has exited, free, defective and lost.
const GPUS: &str = "[clock]\nat = 100\n\
    [[card]]\nuuid = \"GPU-a\"\nutil = 97\n\
    [[card]]\nuuid = \"GPU-b\"\nutil = 0\n[[card.process]]\npid = 4194303\nmemory_mib = 2048\n\
    [[card]]\nuuid = \"GPU-c\"\n\
    [[card]]\nuuid = \"GPU-d\"\necc = true\necc_uncorrected = 3\n\
    [[card]]\nuuid = \"GPU-e\"\nlost = [[0, inf]]\n";

const QUOTAS: &str =
    "[[quota]]\nuser = \"alice\"\ncharged = \"1h\"\nheld = \"10s\"\nper = \"month\"\n";

/// Commands on the month of the demo, and the names of their recordings.
const OF_THE_DEMO: [(&str, &str); 5] = [
    ("demo", "demo"),
    ("report", "demo report"),
    ("report-compare", "demo report --since 7d --compare"),
    ("plot", "demo plot hours --by user --since 30d"),
    ("top", "demo top --once"),
];

/// The same on simulated GPUs and a short history.
const OF_A_HOST: [(&str, &str); 7] = [
    ("list", "list"),
    ("available", "available --limit 0"),
    ("me", "me"),
    ("explain", "explain 1 --db demo.db --at 2026-10-30T14:59:50"),
    (
        "statement",
        "statement --db demo.db --month 2026-10 --user alice",
    ),
    ("quota", "quota show --db demo.db"),
    ("runs", "runs list"),
];

fn home() -> TestHost {
    let mut home = host(GPUS);
    clock::stop(&mut home, NOW);
    std::fs::create_dir_all(home.path(".gua")).unwrap();
    std::fs::write(home.path(".gua/config.toml"), QUOTAS).unwrap();
    home.fine("demo --db demo.db --ticks 60");
    home
}

/// What a command prints on a terminal of this width.
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
    check(&OF_THE_DEMO);
}

#[test]
fn commands_of_a_host_at_80_and_140_columns_light_and_dark() {
    check(&OF_A_HOST);
}

#[track_caller]
fn check(surfaces: &[(&str, &str)]) {
    let home = home();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("surfaces");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let _guard = settings.bind_to_scope();
    for (name, line) in surfaces {
        for columns in [80, 140] {
            let screen = Screen::read(&shown(&home, line, columns));
            for theme in Theme::ALL {
                let shown = screen.marked(theme);
                insta::assert_snapshot!(format!("{name}-{columns}-{}", theme.as_str()), shown);
                let contrast = screen.lowest_contrast(theme);
                assert!(contrast >= 3.0, "{name} {theme:?}: contrast {contrast:.1}");
            }
        }
    }
}

/// Pictures of the documentation, and the commands that they show.
const PICTURES: [(&str, &str, u16); 3] = [
    ("demo", "demo", 80),
    ("report", "demo report", 100),
    ("top", "demo top --once", 100),
];

#[test]
fn pictures_of_the_documentation_are_current() {
    let mut home = without_driver();
    clock::stop(&mut home, NOW);
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pictures"));
    for (name, line, columns) in PICTURES {
        let screen = Screen::read(&shown(&home, line, columns));
        for theme in Theme::ALL {
            let file = format!("{name}-{}.svg", theme.as_str());
            gua_test::assert_current(
                &directory.join(file),
                &screen.svg(theme, &format!("gua {line}")),
            );
        }
    }
    for (name, line) in [
        (
            "states",
            "demo plot states --since 30d --per day --format svg",
        ),
        ("sessions", "demo plot sessions --since 7d --format svg"),
    ] {
        let svg = home.fine(line);
        gua_test::assert_current(&directory.join(format!("{name}.svg")), &svg);
    }
}
