//! Days in a real directory: midnight, half lines, strangers' files, a disk that is full or away.

use std::fs;
use std::path::Path;

use gua_compat::gpu_stats::HEADER;
use gua_files::FileError;
use gua_model::{Driver, Gpu, Missing, Percent, Sample};

use super::*;

const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

fn tick(at: &str) -> Tick {
    let mut gpu = Gpu::without_readings("GPU-a".parse().unwrap(), 0, Missing::Unsupported);
    gpu.util = Ok(Percent::ZERO);
    gpu.compute_list = Ok(());
    gpu.graphics_list = Ok(());
    Tick {
        sample: Sample {
            at: at.parse().unwrap(),
            since_boot: Duration::ZERO,
            boot: Err(Missing::Unsupported),
            driver: Driver {
                version: Err(Missing::Unsupported),
                cuda: Err(Missing::Unsupported),
            },
            gpus: vec![gpu],
            problems: Vec::new(),
        },
        interval: Duration::from_secs(30),
    }
}

fn sink(directory: &Path) -> CsvSink {
    CsvSink::new(CsvOptions {
        files: DayFiles::new(directory, Form::Classic),
        every: Duration::from_secs(300),
        zone: TimeZone::posix(BERLIN).unwrap(),
        thresholds: Thresholds::default(),
    })
    .unwrap()
}

/// Every file of a directory with its lines but the header.
fn days(directory: &Path) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let text = fs::read_to_string(entry.path()).unwrap();
            let lines = text
                .lines()
                .filter(|line| *line != HEADER)
                .map(str::to_owned);
            (entry.file_name().into_string().unwrap(), lines.collect())
        })
        .collect();
    found.sort();
    found
}

#[track_caller]
fn check(directory: &Path, expected: &[(&str, &[&str])]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, lines)| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            ((*name).to_owned(), lines)
        })
        .collect();
    assert_eq!(days(directory), expected);
}

#[test]
fn one_set_of_rows_is_written_in_each_turn_and_midnight_begins_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let days = directory.path().join("new/gpu_stats");
    let mut sink = sink(&days);
    for at in [
        "2026-11-15T22:54:40Z",
        "2026-11-15T22:55:10Z",
        "2026-11-15T22:59:59Z",
        "2026-11-15T23:00:29Z",
        "2026-11-15T23:00:59Z",
    ] {
        sink.deliver(&tick(at)).unwrap();
    }
    Box::new(sink).finish(Timestamp::UNIX_EPOCH);
    check(
        &days,
        &[
            (
                "20261115_gpu_stats.csv",
                &["1794783240,-,-,-,0", "1794783300,-,-,-,0"],
            ),
            ("20261116_gpu_stats.csv", &["1794783600,-,-,-,0"]),
        ],
    );
    let text = fs::read_to_string(days.join("20261116_gpu_stats.csv")).unwrap();
    assert_eq!(text, format!("{HEADER}\n1794783600,-,-,-,0\n"));
}

#[test]
fn the_hour_that_a_clock_change_repeats_is_in_one_file_with_stamps_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let mut sink = sink(directory.path());
    for at in ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"] {
        sink.deliver(&tick(at)).unwrap();
    }
    Box::new(sink).finish(Timestamp::UNIX_EPOCH);
    check(
        directory.path(),
        &[(
            "20261025_gpu_stats.csv",
            &["1792888200,-,-,-,0", "1792891800,-,-,-,0"],
        )],
    );
}

#[test]
fn a_restart_within_a_minute_does_not_count_it_twice() {
    let directory = tempfile::tempdir().unwrap();
    for at in ["2026-11-15T12:00:01Z", "2026-11-15T12:00:31Z"] {
        let mut sink = sink(directory.path());
        sink.deliver(&tick(at)).unwrap();
        Box::new(sink).finish(Timestamp::UNIX_EPOCH);
    }
    check(
        directory.path(),
        &[("20261115_gpu_stats.csv", &["1794744000,-,-,-,0"])],
    );
}

#[test]
fn half_a_line_is_set_aside_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("20261115_gpu_stats.csv");
    fs::write(
        &path,
        format!("{HEADER}\n1794740000,ada,7,0,90\n1794740300,ada,7,0,9"),
    )
    .unwrap();
    let files = DayFiles::new(directory.path(), Form::Classic);
    let minute = Minute::of("2026-11-15T12:00:01Z".parse().unwrap(), &TimeZone::UTC);
    let torn = directory.path().join("20261115_gpu_stats.csv.torn");
    let shown = files.append(minute, "1794744000,-,-,-,0\n").unwrap();
    assert_eq!(
        shown,
        Appended::Written {
            path,
            torn: Some(torn)
        }
    );
    check(
        directory.path(),
        &[
            (
                "20261115_gpu_stats.csv",
                &["1794740000,ada,7,0,90", "1794744000,-,-,-,0"],
            ),
            ("20261115_gpu_stats.csv.torn", &["1794740300,ada,7,0,9"]),
        ],
    );
}

#[test]
fn a_header_that_was_cut_off_is_written_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("20261115_gpu_stats.csv");
    for begun in ["", "timest", HEADER] {
        fs::write(&path, begun).unwrap();
        let mut sink = sink(directory.path());
        sink.deliver(&tick("2026-11-15T12:00:01Z")).unwrap();
        Box::new(sink).finish(Timestamp::UNIX_EPOCH);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{HEADER}\n1794744000,-,-,-,0\n"), "{begun:?}");
        let _ = fs::remove_file(directory.path().join("20261115_gpu_stats.csv.torn"));
    }
}

#[test]
fn a_failed_write_is_reported_and_retried_with_the_next_tick() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("20261115_gpu_stats.csv");
    fs::write(&path, "my notes\n").unwrap();
    let mut sink = sink(directory.path());
    let error = sink.deliver(&tick("2026-11-15T12:00:01Z")).unwrap_err();
    assert_eq!(error.reason, GapReason::NotStored);
    assert!(
        error
            .message
            .ends_with("its first line is not the header of this format"),
        "{error}"
    );
    assert!(sink.deliver(&tick("2026-11-15T12:00:31Z")).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "my notes\n");
    // The same turn, and the row is not lost after all.
    fs::remove_file(&path).unwrap();
    sink.deliver(&tick("2026-11-15T12:01:01Z")).unwrap();
    Box::new(sink).finish(Timestamp::UNIX_EPOCH);
    check(
        directory.path(),
        &[("20261115_gpu_stats.csv", &["1794744060,-,-,-,0"])],
    );
}

#[test]
fn a_directory_that_cannot_be_made_and_a_pipe_in_place_of_a_file_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let blocked = directory.path().join("file");
    fs::write(&blocked, "").unwrap();
    let minute = Minute::of("2026-11-15T12:00:01Z".parse().unwrap(), &TimeZone::UTC);
    let shown = |directory: &Path| {
        let files = DayFiles::new(directory, Form::Classic);
        chain(&files.append(minute, "x\n").unwrap_err())
    };
    let said = shown(&blocked.join("days"));
    assert!(said.starts_with("cannot create directory"), "{said}");
    let pipe = directory.path().join("20261115_gpu_stats.csv");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    let said = shown(directory.path());
    assert!(said.ends_with("it is not a regular file"), "{said}");
}

#[test]
fn a_device_in_place_of_a_file_is_not_changed_and_a_full_disk_is_reported_as_one() {
    // The device that is always full, under the name of the day.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("20261115_gpu_stats.csv");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let minute = Minute::of("2026-11-15T12:00:01Z".parse().unwrap(), &TimeZone::UTC);
    let error = DayFiles::new(directory.path(), Form::Classic)
        .append(minute, "x\n")
        .unwrap_err();
    // It is a device: not ours to write.
    assert!(matches!(error, CsvError::NotOurs { .. }), "{error}");
    let full = FileError::cannot("write", &path)(io::ErrorKind::StorageFull.into());
    let full = CsvError::from(full);
    assert_eq!(SinkError::from(full).reason, GapReason::DiskFull);
}
