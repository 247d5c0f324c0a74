//! `gua report` on a terminal and into files.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use gua_test::{Pty, TestHost};

use crate::without_driver;

/// A home directory with a history of sixty ticks that ended just now.
fn home() -> TestHost {
    let home = without_driver();
    home.fine("demo --db demo.db --ticks 60");
    home
}

/// Output of a program on a terminal.
fn on_terminal(home: &TestHost, program: &Path, line: &str) -> String {
    let pty = Pty::new();
    let mut command = home.command(program);
    command.args(line.split(' '));
    let mut child = pty.start(&mut command);
    // The command keeps the program's end of the terminal open.
    drop(command);
    let text = pty.rest();
    assert!(child.wait().unwrap().success(), "{text}");
    text
}

#[test]
fn a_terminal_gets_one_screen_and_a_pipe_or_the_old_name_the_sections() {
    let home = home();
    let gua = home.program().to_owned();
    let screen = on_terminal(&home, &gua, "report --db demo.db");
    assert!(screen.contains("On average "), "{screen}");
    assert!(screen.contains("Idle now"), "{screen}");
    assert!(!screen.contains("§1"), "{screen}");
    let full = on_terminal(&home, &gua, "report --db demo.db --full");
    assert!(full.contains("§1 Headline"), "{full}");
    let audit = home.link("gpu-usage-audit");
    let old = on_terminal(&home, &audit, "report --db demo.db");
    assert!(old.contains("§1 Headline"), "{old}");
    let piped = home.fine("report --db demo.db");
    assert!(piped.contains("§1 Headline"), "{piped}");
}

#[test]
fn a_report_and_a_statement_are_written_to_files() {
    let home = home();
    home.fine("report --db demo.db -o report.html");
    let page = std::fs::read_to_string(home.path("report.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    let again = home.gua("report --db demo.db -o report.html");
    assert_eq!(again.code, 2, "{}", again.stderr);
    assert!(again.stderr.contains("exists already"), "{}", again.stderr);
    home.fine("report --db demo.db -o report.json --overwrite");
    let json = std::fs::read_to_string(home.path("report.json")).unwrap();
    assert!(json.contains("gua.report.v1"), "{json}");
    home.fine("report --db demo.db --by idle -o idle.csv");
    let csv = std::fs::read_to_string(home.path("idle.csv")).unwrap();
    assert!(csv.starts_with("gpu_uuid,gpu_index,idle_since,"), "{csv}");
    for (line, forms) in [
        ("report --db demo.db -o x.pdf", "text|json|csv|html"),
        ("statement --db demo.db -o x.csv", "text|html|json"),
    ] {
        let refused = home.gua(line);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        let said = format!("hint: pass --format {forms}\n");
        assert!(refused.stderr.ends_with(&said), "{}", refused.stderr);
        home.fine(&format!("{line} --format text"));
    }
    home.fine("statement --db demo.db -o statement.html");
    let page = std::fs::read_to_string(home.path("statement.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
}

#[test]
fn open_without_a_browser_says_where_the_page_is() {
    let mut home = home();
    let empty = home.path("bin");
    std::fs::create_dir(&empty).unwrap();
    home.set("PATH", &empty);
    let ended = home.gua("report --db demo.db --open -o page.html");
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("has no xdg-open"), "{}", ended.stderr);
    assert!(ended.stderr.contains("page.html"), "{}", ended.stderr);
    assert!(home.path("page.html").exists());
    let refused = home.gua("report --db demo.db --open --json");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}

#[test]
fn a_page_that_nobody_named_replaces_the_one_before_and_is_private() {
    let mut home = home();
    let bin = home.path("bin");
    let opener = home.write(
        "bin/xdg-open",
        "#!/bin/sh\necho \"$1\" > \"$HOME/opened\"\n",
    );
    std::fs::set_permissions(&opener, Permissions::from_mode(0o755)).unwrap();
    home.set("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    for command in ["report", "statement", "report"] {
        home.fine(&format!("{command} --db demo.db --open"));
        let page = home.state("page.html");
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.starts_with("<!DOCTYPE html>"), "{text}");
        let mode = std::fs::metadata(&page).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(home.read("opened").trim(), page.to_str().unwrap());
    }
    assert_eq!(std::fs::read_dir(home.path("tmp")).unwrap().count(), 0);
}
