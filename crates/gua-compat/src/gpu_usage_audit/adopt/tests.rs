//! Tests of an adoption that is interrupted at every point.

use std::ops::ControlFlow;

use tempfile::TempDir;

use super::*;
use crate::gpu_usage_audit::OldFile;

/// Creates a small old history in a temporary directory.
fn old_history() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gua.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE host (hostname TEXT NOT NULL, env_kind TEXT NOT NULL, driver_version TEXT,
                 first_seen DATETIME NOT NULL, last_seen DATETIME NOT NULL);
             CREATE TABLE gpu_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, util_pct INTEGER NOT NULL);
             CREATE TABLE proc_sample (ts DATETIME NOT NULL, gpu_uuid TEXT NOT NULL, pid INTEGER NOT NULL,
                 mem_used_mb INTEGER NOT NULL, loginuid_user TEXT);
             INSERT INTO host VALUES ('h', 'bare', NULL, '2026-05-11T00:00:00+00:00', '2026-05-11T00:00:30+00:00');
             INSERT INTO gpu_sample VALUES ('2026-05-11T00:00:00+00:00', 'GPU-0', 80), ('2026-05-11T00:00:30+00:00', 'GPU-0', 2);
             INSERT INTO proc_sample VALUES ('2026-05-11T00:00:00+00:00', 'GPU-0', 7, 70000, 'alice');",
        )
        .unwrap();
    (directory, path)
}

/// Leaves a write-ahead log behind, like a collector that is killed.
fn leave_a_log(path: &Path) {
    let copy = path.with_file_name("copy.db");
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .execute_batch("INSERT INTO gpu_sample VALUES ('2026-05-11T00:01:00+00:00', 'GPU-0', 3)")
        .unwrap();
    fs::copy(path, &copy).unwrap();
    fs::copy(beside(path, "-wal"), beside(&copy, "-wal")).unwrap();
    drop(connection);
    fs::rename(&copy, path).unwrap();
    fs::rename(beside(&copy, "-wal"), beside(path, "-wal")).unwrap();
}

fn run(path: &Path, cut: Option<Point>) -> Result<Option<Adopted>, LegacyError> {
    adopt_with(
        path,
        Timestamp::UNIX_EPOCH,
        OldCollector::NotRunning,
        &WriterOptions::default(),
        &mut |_| ControlFlow::Continue(()),
        &mut |point| match cut == Some(point) {
            true => Err(LegacyError::Stopped),
            false => Ok(()),
        },
    )
}

fn gpu_rows(path: &Path) -> u64 {
    let sources = gua_store::History::open(path)
        .unwrap()
        .old_sources()
        .unwrap();
    sources.iter().map(|source| source.gpu_rows).sum()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = directory.read_dir().unwrap().flatten();
    let mut names = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect::<Vec<_>>();
    names.sort();
    names
}

#[test]
fn an_old_history_is_imported_and_set_aside_unchanged() {
    let (directory, path) = old_history();
    let bytes = fs::read(&path).unwrap();
    let adopted = run(&path, None).unwrap().unwrap();
    assert_eq!(adopted.imported.unwrap().new_gpu_rows, 2);
    assert_eq!(gpu_rows(&path), 2);
    assert_eq!(fs::read(&adopted.old_renamed_to).unwrap(), bytes);
    let ours = names(directory.path());
    assert!(
        ours.iter().all(|name| !name.contains("importing")),
        "{ours:?}"
    );
    assert_eq!(
        run(&path, None).unwrap(),
        None,
        "there is nothing left to adopt"
    );
}

#[test]
fn a_crash_at_any_point_loses_nothing_and_is_finished_later() {
    for point in [
        Point::Imported,
        Point::OldSetAside,
        Point::LogSetAside,
        Point::InPlace,
    ] {
        for logged in [false, true] {
            let (directory, path) = old_history();
            if logged {
                leave_a_log(&path);
            }
            let rows = if logged { 3 } else { 2 };
            let cut = run(&path, Some(point));
            assert!(
                matches!(cut, Err(LegacyError::Stopped)),
                "{point:?}: {cut:?}"
            );
            let found = names(directory.path());
            let at_place = what_is_this(&path) == FileKind::GpuUsageAudit;
            let aside = found.iter().any(|name| name == "gua.db.gpu-usage-audit-1");
            assert!(at_place || aside, "{point:?}: {found:?}");
            // In both cases the new file is complete.
            let finished = run(&path, None).unwrap();
            assert_eq!(finished.is_none(), point == Point::InPlace, "{point:?}");
            assert_eq!(gpu_rows(&path), rows, "{point:?}");
            let aside = OldFile::open(&beside(&path, ".gpu-usage-audit-1")).unwrap();
            let count: u64 = aside
                .connection
                .query_row("SELECT count(*) FROM gpu_sample", [], |row| {
                    row.get::<_, i64>(0).map(i64::unsigned_abs)
                })
                .unwrap();
            assert_eq!(count, rows, "{point:?}");
        }
    }
}

#[test]
fn a_running_collector_keeps_its_file() {
    let (_directory, path) = old_history();
    let refused = adopt(
        &path,
        Timestamp::UNIX_EPOCH,
        OldCollector::Running,
        &WriterOptions::default(),
        &mut |_| ControlFlow::Continue(()),
    );
    assert!(matches!(refused, Err(LegacyError::CollectorRuns { .. })));
    assert_eq!(what_is_this(&path), FileKind::GpuUsageAudit);
}

#[test]
fn a_second_old_history_gets_the_next_number() {
    let (directory, path) = old_history();
    run(&path, None).unwrap();
    let (_other, second) = old_history();
    fs::rename(&second, &path).unwrap();
    let adopted = run(&path, None).unwrap().unwrap();
    assert_eq!(
        adopted.old_renamed_to,
        directory.path().join("gua.db.gpu-usage-audit-2")
    );
}

#[test]
fn an_interrupted_import_starts_over() {
    let (_directory, path) = old_history();
    let stopped = adopt(
        &path,
        Timestamp::UNIX_EPOCH,
        OldCollector::NotRunning,
        &WriterOptions::default(),
        &mut |_| ControlFlow::Break(()),
    );
    assert!(matches!(stopped, Err(LegacyError::Stopped)));
    assert_eq!(what_is_this(&path), FileKind::GpuUsageAudit);
    assert!(run(&path, None).unwrap().unwrap().imported.is_some());
}

#[test]
fn two_do_not_adopt_at_once() {
    let (_directory, path) = old_history();
    let held = WriterLock::take(&path).unwrap();
    assert!(matches!(run(&path, None), Err(LegacyError::History(_))));
    drop(held);
    assert!(run(&path, None).unwrap().is_some());
}
