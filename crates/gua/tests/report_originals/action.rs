//! The Korean action report beside that of the newest release: the same labels, columns, rows and numbers. The sentences are our own.

use std::path::Path;
use std::process::Command;

use tempfile::tempdir;

use crate::without_driver;
use gua_test::tape::Tape;
use gua_test::{clock, originals, python};

/// The newest of the releases.
const RELEASE: &str = originals::RELEASES[originals::RELEASES.len() - 1];
/// Ended so long ago that "N minutes ago" stays the same for a while, and recently enough to be still there.
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

/// The report of the release, and ours at a moment between two equal ones of it: meanwhile no row has left the window and no
/// minute began.
fn side_by_side(tape: &Tape, db: &Path, since: &str, more: &str) -> (String, String) {
    let (released, moment) = tape.take(|| {
        // A file that is fresh is told in seconds, which no slow machine sees standing still; after a minute or two in minutes.
        for _ in 0..100 {
            let (before, moment) = (theirs(db, since), clock::now());
            if theirs(db, since) == before {
                return (before, moment);
            }
        }
        let db = db.display();
        panic!("the clock never stood still for two reports of {db}");
    });
    let ours = ours(db, since, more, &moment);
    (released, ours)
}

/// What of a line is a contract, whatever the wording around it.
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
        // Of a card without a number the release asks for `?`, which nvidia-smi refuses; we name its UUID.
        let (host, card) = look.split_once(" -i ")?;
        let card = if card.starts_with("GPU-") { "?" } else { card };
        return Some(format!("{host} -i {card} kill {}", numbers(rest).join(" ")));
    }
    let parts: Vec<&str> = text.split("  ·  ").collect();
    if text.starts_with("GPU") && parts.len() > 1 {
        return Some(format!("{} {} {}", parts[0], parts[1], parts.len()));
    }
    if text.starts_with("현재 가용") {
        return text.split_once("   →").map(|(cards, _)| cards.to_owned());
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

/// Up to the line under which each tool explains itself.
fn body(report: &str) -> Vec<String> {
    let lines = report.lines().take_while(|line| !line.starts_with('─'));
    lines.filter_map(essence).collect()
}

/// The shares, and the sentence about idle cards below them.
fn shares(report: &str) -> Vec<&str> {
    let at = report.find("  실가동").expect("a line of shares");
    report[at..].lines().take(2).flat_map(numbers).collect()
}

fn check(tape: &Tape, db: &Path, since: &str) {
    let (released, own) = side_by_side(tape, db, since, "");
    assert_eq!(body(&own), body(&released), "{released}\n{own}");
    // In its shares the release counts what only draws, in its tables it does not.
    let (released, own) = side_by_side(tape, db, since, "--count-graphics");
    assert_eq!(shares(&own), shares(&released), "{released}\n{own}");
}

#[test]
fn on_its_own_demo_both_say_the_same() {
    let folder = tempdir().unwrap();
    let db = folder.path().join("demo.db");
    let tape = Tape::open("action-demo", &[RELEASE]);
    tape.demo(RELEASE, &db, 30);
    check(&tape, &db, "7d");
}

#[test]
fn on_two_days_of_made_up_cards_both_say_the_same() {
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
