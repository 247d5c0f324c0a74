//! On old files the numbers are those of the tool that wrote them, byte for byte.

use crate::without_driver;
use std::path::Path;
use std::process::Command;

use gua_test::originals::{self, released};
use gua_test::tape::Tape;
use gua_test::{clock, python};

/// Beginnings of explanatory sentences, whose wording differs between the tools.
const EXPLAIN: [&str; 12] = [
    "  basis: ",
    "  rules: ",
    "  converted from ",
    "  per-card share ",
    "  one identity counts ",
    "  darker means ",
    "  a sample is ",
    "  active: util",
    "  GPU-hours using ",
    "  the same shares ",
    "  held hours in full",
    "  how much of the time",
];

/// Header and sections 1 to 5 without the explanatory sentences.
fn numbers(report: &str) -> Vec<&str> {
    let old = report.split("\n§6 ").next().unwrap();
    let is_number = |line: &&str| {
        !line.is_empty()
            && !line.contains(" more: ")
            && !EXPLAIN.iter().any(|words| line.starts_with(words))
    };
    old.lines().filter(is_number).collect()
}

/// Report of the original on a copy, because it modifies the file that it reads.
fn theirs(version: &str, db: &Path, words: &str) -> String {
    let copy = db.with_extension("copy");
    std::fs::copy(db, &copy).unwrap();
    let output = Command::new(released(version))
        .arg("report")
        .arg("--db")
        .arg(&copy)
        .args(words.split_whitespace())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{version} report {words}: {stderr}"
    );
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn check(tape: &Tape, version: &str, db: &Path, words: &str, more: &str) {
    let before = std::fs::read(db).unwrap();
    let mut host = without_driver();
    tape.stop_clock(&mut host);
    let ours = host.fine(&format!("report --db {} {words} {more}", db.display()));
    let theirs = tape.take(|| theirs(version, db, words));
    assert_eq!(
        numbers(&ours),
        numbers(&theirs),
        "{version} {words} {more}\n{ours}\n{theirs}"
    );
    assert_eq!(std::fs::read(db).unwrap(), before, "the file was changed");
}

/// Ticks of a demo.
const TICKS: u32 = 40;

#[test]
fn a_demo_of_each_release_has_the_numbers_of_its_tool() {
    let home = without_driver();
    let versions = ["1.0.3", "1.1.0", "1.8.0"];
    let tape = Tape::open("report-demo", &versions);
    for version in versions {
        let db = home.path(&format!("{version}.db"));
        tape.demo(version, &db, TICKS);
        // Release 1.8 writes rows for graphics processes and no longer prints these sections; 1.1 can read its files.
        let more = if version == "1.8.0" {
            "--count-graphics"
        } else {
            ""
        };
        let reader = if version == "1.8.0" { "1.1.0" } else { version };
        for words in [
            "--since 1h",
            "--since 900d --width 33",
            "--since 1h --interval 30s",
        ] {
            check(&tape, reader, &db, words, more);
        }
    }
}

#[test]
fn an_unusual_history_has_the_numbers_of_its_tool() {
    let home = without_driver();
    let db = home.path("odd.db");
    let tape = Tape::open("report-odd", &["1.1.0"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report/odd_history.py");
    let now = tape.take(clock::now);
    let mut python = Command::new(python::system());
    originals::run(python.arg(script).arg(&db).arg(now));
    for words in [
        "--since 900d",
        "--since 1h",
        "--since 1d",
        "--since 900d --interval 10s",
        "--since 1d --width 7",
    ] {
        check(&tape, "1.1.0", &db, words, "");
    }
    // After an import, the same rows give the same numbers.
    let ours = home.path("ours.db");
    home.fine(&format!("import {} --db {}", db.display(), ours.display()));
    let in_place = home.fine(&format!("report --db {} --since 900d", db.display()));
    let imported = home.fine(&format!("report --db {} --since 900d", ours.display()));
    assert_eq!(numbers(&in_place), numbers(&imported));
}

#[test]
fn old_rows_can_be_counted_with_other_thresholds() {
    let mut home = without_driver();
    let db = home.path("demo.db");
    let tape = Tape::open("report-thresholds", &["1.8.0"]);
    tape.demo("1.8.0", &db, TICKS);
    tape.stop_clock(&mut home);
    let by = |words: &str| home.fine(&format!("report --db {} --since 1h {words}", db.display()));
    assert!(by("").contains("note: rows of graphics-only processes are left out"));
    assert!(
        by("--active-util 2").contains("  idle-held    ▒    0.0%"),
        "{}",
        by("--active-util 2")
    );
    assert!(by("--held-mb 80000").contains("  idle-held    ▒    0.0%"));
    let output = home.gua(&format!("report --db {} --active-util 0", db.display()));
    assert_eq!(output.code, 2);
}

#[test]
fn no_time_counts_twice_where_both_tools_collected() {
    let mut home = without_driver();
    let old = home.path("old.db");
    let tape = Tape::open("report-both", &["1.8.0"]);
    tape.demo("1.8.0", &old, TICKS);
    tape.stop_clock(&mut home);
    home.fine("demo --db ours.db --ticks 600");
    let before = home.fine("report --db ours.db --since 1h");
    home.fine("import old.db --db ours.db");
    let after = home.fine("report --db ours.db --since 1h");
    assert!(
        after.contains("note: 120 GPU ticks of gpu-usage-audit are left out"),
        "{after}"
    );
    let shares = |report: &str| -> Vec<String> {
        let lines = report.lines().filter(|line| line.contains(" samples)"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(shares(&after), shares(&before));
}
