//! Read-only files, and paths without an old history.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use gua_compat::gpu_usage_audit::{LegacyError, OldFile};

use crate::rows::{always, classes, import, names, totals_in_place};
use gua_test::old_history::{self, Shape};

const SMALL: Shape = Shape {
    gpus: 2,
    ticks: 20,
    interval_seconds: 30,
    process_rows: 58,
};

fn write(path: &Path) {
    old_history::write(path, &SMALL, "2026-11-01T00:00:00Z".parse().unwrap()).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Set for a child of this test program that reads as another user.
const READ_THIS: &str = "GUA_TEST_READ_THIS";

/// Reads a file as user 65534, who owns nothing here; as the current user if the tests cannot change users.
fn read_as_nobody(path: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args([
            "--exact",
            "places::a_file_named_by_another_test_is_read",
            "--nocapture",
        ])
        .env(READ_THIS, path);
    if rustix::process::geteuid().is_root() {
        child.uid(65_534).gid(65_534);
    } else {
        println!("not root: read as the owner of the file instead of another user");
    }
    let output = child.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("40 card-ticks"),
        "{stdout}"
    );
}

#[test]
fn a_file_named_by_another_test_is_read() {
    // Alone it has nothing to read; the tests below start it again with a path.
    #[expect(
        clippy::disallowed_methods,
        reason = "a restarted test gets its instructions from the environment"
    )]
    let variable = std::env::vars_os().find(|(name, _)| name == READ_THIS);
    if let Some((_, path)) = variable {
        let totals = totals_in_place(Path::new(&path), always());
        println!("{} card-ticks", classes(&totals).iter().sum::<u64>());
    }
}

#[test]
fn a_read_only_file_of_another_owner_in_a_read_only_directory_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("archive with blanks?");
    std::fs::create_dir(&place).unwrap();
    let old = place.join("old#1.db");
    write(&old);
    set_mode(&old, 0o444);
    set_mode(&place, 0o555);
    set_mode(directory.path(), 0o755);
    read_as_nobody(&old);
    assert_eq!(names(&place), ["old#1.db"]);
    set_mode(&place, 0o755);
}

#[test]
fn a_copy_with_its_wal_and_without_the_index_is_read_in_a_read_only_directory() {
    let directory = tempfile::tempdir().unwrap();
    let live = directory.path().join("live.db");
    write(&live);
    let writer = rusqlite::Connection::open(&live).unwrap();
    // In the WAL, and not yet in the file.
    writer
        .execute_batch("UPDATE gpu_sample SET util_pct = 100")
        .unwrap();
    let place = directory.path().join("copy");
    std::fs::create_dir(&place).unwrap();
    let old = place.join("old.db");
    std::fs::copy(&live, &old).unwrap();
    std::fs::copy(
        directory.path().join("live.db-wal"),
        place.join("old.db-wal"),
    )
    .unwrap();
    for file in ["old.db", "old.db-wal"] {
        set_mode(&place.join(file), 0o444);
    }
    set_mode(&place, 0o555);
    set_mode(directory.path(), 0o755);
    read_as_nobody(&old);
    assert_eq!(classes(&totals_in_place(&old, always())), [40, 0, 0]);
    assert_eq!(names(&place), ["old.db", "old.db-wal"]);
    set_mode(&place, 0o755);
}

#[test]
fn a_file_with_a_live_writer_of_another_user_is_read_through_its_wal() {
    let directory = tempfile::tempdir().unwrap();
    let old = directory.path().join("old.db");
    write(&old);
    let writer = rusqlite::Connection::open(&old).unwrap();
    writer
        .execute_batch("UPDATE gpu_sample SET util_pct = 100")
        .unwrap();
    set_mode(directory.path(), 0o755);
    read_as_nobody(&old);
    assert_eq!(classes(&totals_in_place(&old, always())), [40, 0, 0]);
    assert_eq!(
        names(directory.path()),
        ["old.db", "old.db-shm", "old.db-wal"]
    );
}

#[test]
fn a_writer_that_starts_while_a_quiet_file_is_read_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let old = directory.path().join("old.db");
    write(&old);
    let file = OldFile::open(&old).unwrap();
    file.confirm().unwrap();
    let writer = rusqlite::Connection::open(&old).unwrap();
    writer
        .execute_batch("UPDATE gpu_sample SET util_pct = 100")
        .unwrap();
    assert!(matches!(file.confirm(), Err(LegacyError::Changed { .. })));
    drop(writer);
    assert!(matches!(file.confirm(), Err(LegacyError::Changed { .. })));
}

#[test]
fn a_path_without_an_old_history_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let check = |name: &str, expected: &str| {
        let error = OldFile::open(&at(name)).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    };
    check("nothing", "there is no file");
    std::fs::write(at("empty"), "").unwrap();
    check("empty", "it is empty");
    std::fs::write(at("text"), "a diary, and a long one at that".repeat(10)).unwrap();
    check("text", "not a database");
    check("", "a directory");
    let foreign = rusqlite::Connection::open(at("foreign")).unwrap();
    foreign
        .execute_batch("CREATE TABLE gpu_sample (ts TEXT)")
        .unwrap();
    check("foreign", "no column gpu_uuid in a table gpu_sample");
    write(&at("old"));
    import(&at("old"), &at("ours")).unwrap();
    check("ours", "already a history of gua");
}
