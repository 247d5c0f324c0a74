//! Exported files: complete or absent, one per day in a directory, and never overwritten without a flag.

use crate::without_driver;
use gua_test::TestHost;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{home, window};

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_directory_gets_one_complete_file_per_day_and_they_add_up() {
    let (home, until) = home();
    std::fs::create_dir(home.path("lake")).unwrap();
    let window = window(until, 3000);
    for what in ["samples", "processes", "sessions", "totals", "user-totals"] {
        let all = home.fine(&format!("export --db both.db --what {what} {window}"));
        let line = format!("export --db both.db --what {what} {window} --format csv -o lake");
        assert_eq!(home.fine(&line), "");
        let mut rows = 0;
        for name in names(&home.path("lake"))
            .iter()
            .filter(|name| name.starts_with(&format!("{what}-2")))
        {
            let text = std::fs::read_to_string(home.path("lake").join(name)).unwrap();
            let day = &name[what.len() + 1..what.len() + 11];
            assert!(
                text.lines().skip(1).all(|line| line.starts_with(day)),
                "{name}"
            );
            assert_eq!(text.lines().next(), all.lines().next());
            rows += text.lines().count() - 1;
        }
        assert_eq!(rows, all.lines().count() - 1, "{what}");
        let again = home.gua(&line);
        assert_eq!(again.code, 2);
        assert!(again.stderr.contains("exists already"));
        home.fine(&format!("{line} --overwrite"));
    }
    // A window that begins within a day does not replace the file of that day with a part of it.
    let before = std::fs::read_to_string(
        home.path("lake").join(
            names(&home.path("lake"))
                .iter()
                .find(|name| name.starts_with("samples-"))
                .unwrap(),
        ),
    )
    .unwrap();
    home.fine(&format!(
        "export --db both.db {} --format csv -o lake --overwrite",
        super::window(until, 2)
    ));
    let after = std::fs::read_to_string(
        home.path("lake").join(
            names(&home.path("lake"))
                .iter()
                .find(|name| name.starts_with("samples-"))
                .unwrap(),
        ),
    )
    .unwrap();
    assert_eq!(before, after);
    assert!(
        names(&home.path("lake"))
            .iter()
            .all(|name| !name.ends_with(".part"))
    );
}

#[test]
fn a_file_of_gpu_usage_audit_is_overwritten_only_on_request() {
    let (home, _) = home();
    std::fs::write(home.path("there.db"), "mine\n").unwrap();
    let line = "export --db both.db --format gpu-usage-audit -o there.db";
    let refused = home.gua(line);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("--overwrite"), "{refused:?}");
    assert_eq!(std::fs::read(home.path("there.db")).unwrap(), b"mine\n");
    home.fine(&format!("{line} --overwrite"));
    let written = std::fs::read(home.path("there.db")).unwrap();
    assert!(written.starts_with(b"SQLite format 3"));
    // SQLite would apply the log of another database to the new file.
    for log in ["there.db-wal", "there.db-journal"] {
        std::fs::write(home.path(log), "log").unwrap();
        let refused = home.gua(&format!("{line} --overwrite"));
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(
            refused.stderr.contains("belongs to another database"),
            "{refused:?}"
        );
        std::fs::remove_file(home.path(log)).unwrap();
    }
}

#[test]
fn usage_errors_exit_with_2_and_write_nothing() {
    let (home, _) = home();
    std::fs::write(home.path("there.csv"), "mine\n").unwrap();
    let before = names(home.directory());
    for (words, sentence) in [
        ("--db both.db -o there.csv", "there.csv exists already"),
        (
            "--db both.db -o out.gif",
            "unsupported file extension: out.gif",
        ),
        ("--db both.db -o absent/", "no directory absent/"),
        (
            "--db both.db --since 1h --until 2h",
            "the window ends before it begins",
        ),
        ("--db both.db --since soon", "is not a duration"),
        ("--db both.db --what moon", "invalid value 'moon'"),
        ("--db both.db --tz Mars", "no time zone is called `Mars`"),
        (
            "--db both.db --format gpu-usage-audit",
            "pass its path with --output",
        ),
        (
            "--db both.db --format gpu-usage-audit -o new.db --what samples",
            "--what cannot be used with --format gpu-usage-audit",
        ),
        (
            "--db both.db --format gpu-usage-audit -o new.db --until 1h",
            "--until cannot be used with --format gpu-usage-audit",
        ),
        (
            "--db both.db --format gpu-usage-audit -o both.db --overwrite",
            "both.db is the history itself",
        ),
        ("--db absent.db", "absent.db"),
        ("--db old.db", "gua import"),
    ] {
        let output = home.gua(&format!("export {words}"));
        let stderr = output.stderr;
        assert_eq!(output.code, 2, "{words}: {stderr}");
        assert!(stderr.contains(sentence), "{words}: {stderr}");
        assert!(output.stdout.is_empty(), "{words}");
    }
    let unwritable = home.gua("export --db both.db -o absent/out.csv");
    assert_eq!(unwritable.code, 1);
    let output = unwritable.stderr;
    assert!(
        output.contains("cannot write the rows: absent/out.csv"),
        "{output}"
    );
    assert_eq!(names(home.directory()), before);
    assert_eq!(
        std::fs::read_to_string(home.path("there.csv")).unwrap(),
        "mine\n"
    );
}

/// Whether a program has an unnamed or temporary file open in `directory`.
fn is_writing(pid: u32, directory: &Path) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let open = open.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    open.into_iter().any(|file| {
        let name = file.to_string_lossy().into_owned();
        let is_unfinished = ["(deleted)", ".part", ".exporting"]
            .iter()
            .any(|ending| name.ends_with(ending));
        file.starts_with(directory) && is_unfinished
    })
}

/// Whether a process is stopped; an error if it has exited.
fn is_stopped(child: &mut Child) -> Result<bool, ()> {
    if child.try_wait().unwrap().is_some() {
        return Err(());
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default();
    Ok(state.trim_start().starts_with('T'))
}

/// Sends a signal to an export that has begun a file in `out` and not finished it, and returns its exit status. An
/// export that finishes before it can be signalled is started again.
fn signalled(home: &TestHost, line: &str, signal: Signal, by: &[&str]) -> ExitStatus {
    let out = home.path("out").canonicalize().unwrap();
    loop {
        for name in names(&out) {
            std::fs::remove_file(out.join(name)).unwrap();
        }
        let mut child = Command::new("env")
            .args(by)
            .arg(crate::GUA)
            .args(["export", "--db", "long.db"])
            .args(line.split_whitespace())
            .current_dir(home.directory())
            .env("GUA_TEST_SYSTEM_CONFIG", "/nonexistent")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let is_over = loop {
            if is_writing(child.id(), &out) {
                break false;
            }
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "{line}: {status}");
                break true;
            }
        };
        // Until it is waited for, it is listed even after it has exited.
        if is_over || kill_process(pid, Signal::STOP).is_err() {
            continue;
        }
        let stopped = loop {
            match is_stopped(&mut child) {
                Ok(false) => std::thread::yield_now(),
                Ok(true) => break is_writing(child.id(), &out),
                Err(()) => break false,
            }
        };
        if stopped {
            kill_process(pid, signal).unwrap();
        }
        let _ = kill_process(pid, Signal::CONT);
        let status = child.wait().unwrap();
        if stopped {
            return status;
        }
    }
}

/// A home directory with a history whose export takes a while.
fn long_home() -> TestHost {
    let home = without_driver();
    home.fine("demo --db long.db --interval 5s --ticks 6000");
    std::fs::create_dir(home.path("out")).unwrap();
    home
}

#[test]
fn an_interrupted_export_leaves_no_partial_file() {
    use std::os::unix::process::ExitStatusExt as _;
    let home = long_home();
    for (line, signal) in [
        ("-o out/samples.parquet", Signal::TERM),
        ("-o out/samples.csv --overwrite", Signal::INT),
        ("--format gpu-usage-audit -o out/old.db", Signal::TERM),
    ] {
        // The caller of these tests can have set some signals to be ignored.
        let status = signalled(&home, line, signal, &["--default-signal=TERM,INT,HUP"]);
        assert_eq!(status.signal(), Some(signal.as_raw()), "{line}");
        assert_eq!(names(&home.path("out")), BTreeSet::new(), "{line}");
    }
}

#[test]
fn a_signal_ignored_from_the_start_does_not_end_an_export() {
    let home = long_home();
    for line in [
        "-o out/samples.csv",
        "--format gpu-usage-audit -o out/samples.csv",
    ] {
        let status = signalled(&home, line, Signal::HUP, &["--ignore-signal=HUP"]);
        assert!(status.success(), "{line}: {status}");
        let expected = BTreeSet::from(["samples.csv".to_owned()]);
        assert_eq!(names(&home.path("out")), expected, "{line}");
    }
}

#[test]
fn an_empty_window_is_a_table_without_rows() {
    let (home, _) = home();
    let window = "--since 2020-01-01 --until 2020-01-02";
    let csv = home.fine(&format!("export --db both.db {window}"));
    assert_eq!(csv.lines().count(), 1);
    assert_eq!(
        home.fine(&format!("export --db both.db {window} --format jsonl")),
        ""
    );
    home.fine(&format!("export --db both.db {window} -o empty.parquet"));
    assert!(
        std::fs::read(home.path("empty.parquet"))
            .unwrap()
            .starts_with(b"PAR1")
    );
}

#[test]
fn a_reader_that_closes_the_pipe_is_not_an_error() {
    let (home, _) = home();
    let mut child = home
        .gua_command("export --db both.db")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
