//! The Korean action report compared with that of the newest release: the same labels, columns, rows and numbers. The
//! sentences are our own.

use std::path::Path;
use std::process::Command;

use tempfile::tempdir;

use crate::without_driver;
use gua_test::tape::Tape;
use gua_test::{clock, originals, python};

/// The newest release.
const RELEASE: &str = originals::RELEASES[originals::RELEASES.len() - 1];
/// Long enough ago that "N minutes ago" stays the same for a while, and recent enough to count as still there.
const LAST_TICK_SECONDS_AGO: &str = "140";

fn theirs(db: &Path, since: &str) -> String {
    let mut command = originals::release(RELEASE);
    command.args(["report", "--since", since, "--db"]).arg(db);
    String::from_utf8(originals::run(&mut command).stdout).unwrap()
}

fn ours(db: &Path, since: &str, more: &str, moment: &str) -> String {
    let mut host = without_driver();
    clock::stop(&mut host, moment);
    let db = db.display();
    host.fine(&format!(
        "report --lang ko --tz UTC --since {since} --db {db} {more}"
    ))
}

/// The release's report, and ours taken between two identical ones of it, so that no row left the window and no minute
/// began meanwhile.
fn side_by_side(tape: &Tape, db: &Path, since: &str, more: &str) -> (String, String) {
    let (released, moment) = tape.take(|| {
        // The age of a fresh file is shown in seconds, which change too fast on a slow machine; after a minute or two
        // it is shown in minutes.
        for _ in 0..100 {
            let (before, moment) = (theirs(db, since), clock::now());
            if theirs(db, since) == before {
                return (before, moment);
            }
        }
        let db = db.display();
        panic!("no two consecutive reports were equal: {db}");
    });
    let ours = ours(db, since, more, &moment);
    (released, ours)
}

/// The part of a line that both tools must agree on, whatever the wording around it.
fn essence(line: &str) -> Option<String> {
    let text = line.trim();
    let whole = [
        "═",
        "│",
        "┌",
        "├",
        "└",
        "호스트",
        "구간",
        "요약",
        "현재 점유",
        "…",
    ];
    if whole.iter().any(|start| text.starts_with(start)) {
        return Some(line.to_owned());
    }
    if let Some((label, _)) = text.split_once(" — ").filter(|_| text.starts_with('■')) {
        return Some(format!("{label} {}", numbers(text).join(" ")));
    }
    if let Some(from) = text.find("ssh ").filter(|_| text.starts_with('↳')) {
        let (look, rest) = text[from..].split_once("'  ")?;
        // For a GPU without an index the release prints `?`, which nvidia-smi refuses; we print its UUID.
        let (host, gpu) = look.split_once(" -i ")?;
        let gpu = if gpu.starts_with("GPU-") { "?" } else { gpu };
        return Some(format!("{host} -i {gpu} kill {}", numbers(rest).join(" ")));
    }
    let parts: Vec<&str> = text.split("  ·  ").collect();
    if text.starts_with("GPU") && parts.len() > 1 {
        return Some(format!("{} {} {}", parts[0], parts[1], parts.len()));
    }
    if text.starts_with("현재 가용") {
        return text.split_once("   →").map(|(gpus, _)| gpus.to_owned());
    }
    None
}

fn numbers(text: &str) -> Vec<&str> {
    let parts = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    parts
        .map(|part| part.trim_matches('.'))
        .filter(|part| !part.is_empty())
        .collect()
}

/// Lines up to the one under which each tool explains itself.
fn body(report: &str) -> Vec<String> {
    let lines = report.lines().take_while(|line| !line.starts_with('─'));
    lines.filter_map(essence).collect()
}

/// The shares, and the sentence about idle GPUs below them.
fn shares(report: &str) -> Vec<&str> {
    let at = report.find("  실가동").expect("a line of shares");
    report[at..].lines().take(2).flat_map(numbers).collect()
}

fn check(tape: &Tape, db: &Path, since: &str) {
    let (released, own) = side_by_side(tape, db, since, "");
    assert_eq!(body(&own), body(&released), "{released}\n{own}");
    // The release counts graphics processes in its shares, but not in its tables.
    let (released, own) = side_by_side(tape, db, since, "--count-graphics");
    assert_eq!(shares(&own), shares(&released), "{released}\n{own}");
}

#[test]
fn both_reports_agree_on_the_releases_own_demo() {
    let folder = tempdir().unwrap();
    let db = folder.path().join("demo.db");
    let tape = Tape::open("action-demo", &[RELEASE]);
    tape.demo(RELEASE, &db, 30);
    check(&tape, &db, "7d");
}

#[test]
fn both_reports_agree_on_two_days_of_generated_data() {
    let tape = Tape::open("action-made-up", &[RELEASE]);
    for seed in ["1", "2", "3"] {
        let folder = tempdir().unwrap();
        let db = folder.path().join("made-up.db");
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report_originals/write_rows.py");
        tape.demo(RELEASE, &db, 1);
        let now = tape.take(clock::now);
        let mut python = Command::new(python::system());
        python.arg(script).arg(&db);
        originals::run(python.args([seed, LAST_TICK_SECONDS_AGO, &now]));
        for since in ["7d", "30h", "90m"] {
            check(&tape, &db, since);
        }
    }
}

#[test]
fn a_window_without_rows_ends_after_one_sentence() {
    let folder = tempdir().unwrap();
    let db = folder.path().join("demo.db");
    let tape = Tape::open("action-empty", &[RELEASE]);
    tape.demo(RELEASE, &db, 1);
    let (released, own) = side_by_side(&tape, &db, "0s", "");
    for report in [released, own] {
        assert!(
            !report.contains('■') && report.lines().count() < 10,
            "{report}"
        );
    }
}
