//! Location and permissions of a history: read-only directories, files of others, copies.

use gua_test::runs_as_root;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use gua_store::{History, OpenError, OpenMode, Store, WriterOptions};

use crate::{Place, begin, example, read_all, record};
use gua_test::synthetic::SyntheticHost;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_missing_directory_is_named() {
    let place = Place::new();
    let path = place.directory.path().join("no/such/gua.db");
    let error = Store::open(&path, OpenMode::Create, &WriterOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Directory { .. }), "{error:?}");
    assert!(error.to_string().contains("no/such"), "{error}");
}

#[test]
fn a_file_is_created_with_the_requested_mode() {
    let place = Place::new();
    let options = WriterOptions {
        file_mode: Some(0o640),
        ..WriterOptions::default()
    };
    let mut store = crate::open(&place.path(), &options);
    let host = SyntheticHost::small();
    begin(&mut store, &host);
    for (name, mode) in [
        ("gua.db", 0o640),
        ("gua.db-wal", 0o640),
        ("gua.db-lock", 0o600),
    ] {
        let facts = std::fs::metadata(place.directory.path().join(name)).unwrap();
        assert_eq!(facts.permissions().mode() & 0o777, mode, "{name}");
    }
}

#[test]
fn an_unwritable_directory_is_named() {
    if !runs_as_root("writing to a directory of another user") {
        return;
    }
    let place = Place::new();
    set_mode(place.directory.path(), 0o755);
    let refused = run_as_nobody("write_ticks", &place.path()).unwrap_err();
    let directory = place.directory.path().canonicalize().unwrap();
    let expected = format!("cannot write to the directory `{}`", directory.display());
    assert_eq!(refused, expected);
}

/// Read by another user through `examples/read_ticks`; root can become any user.
#[test]
fn another_user_reads_a_history_with_and_without_a_writer() {
    if !runs_as_root("reading a history of another user") {
        return;
    }
    let place = Place::new();
    set_mode(place.directory.path(), 0o755);
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 50);
    assert_eq!(count_as_nobody(&place.path()), Ok(50));
    record(&mut store, run, &mut host, 5);
    assert_eq!(count_as_nobody(&place.path()), Ok(55));
    store.close().unwrap();
    assert_eq!(count_as_nobody(&place.path()), Ok(55));
    // The reader left nothing behind that would block the next writer.
    let mut store = place.store();
    record(&mut store, run, &mut host, 1);
    drop(store);
    set_mode(&place.path(), 0o600);
    let refused = count_as_nobody(&place.path()).unwrap_err();
    assert!(refused.contains("cannot read"), "{refused}");
}

#[test]
fn a_killed_writers_file_is_read_by_another_user() {
    if !runs_as_root("reading what a killed writer of another user left") {
        return;
    }
    let place = Place::new();
    set_mode(place.directory.path(), 0o755);
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    record(&mut store, run, &mut host, 50);
    // After a kill: the file with its journal, and no process that holds it.
    let left = place.directory.path().join("left");
    std::fs::create_dir(&left).unwrap();
    for name in ["gua.db", "gua.db-wal", "gua.db-shm"] {
        std::fs::copy(place.directory.path().join(name), left.join(name)).unwrap();
    }
    assert_eq!(count_as_nobody(&left.join("gua.db")), Ok(50));
    // Without the shared-memory file, and without permission to create it, the journal cannot be read; the error says
    // so.
    std::fs::remove_file(left.join("gua.db-shm")).unwrap();
    let refused = count_as_nobody(&left.join("gua.db")).unwrap_err();
    assert!(refused.contains("uncommitted changes"), "{refused}");
}

#[test]
fn a_copy_in_a_read_only_directory_is_read() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let written = record(&mut store, run, &mut host, 50);
    store.close().unwrap();
    let copy = place.directory.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(place.path(), copy.join("gua.db")).unwrap();
    set_mode(&copy.join("gua.db"), 0o444);
    set_mode(&copy, 0o555);
    let found = read_all(&History::open(&copy.join("gua.db")).unwrap());
    if rustix::process::geteuid().is_root() {
        assert_eq!(count_as_nobody_in(&copy), Ok(50));
    } else {
        let path = copy.join("new.db");
        let error = Store::open(&path, OpenMode::Create, &WriterOptions::default()).unwrap_err();
        assert!(matches!(error, OpenError::Directory { .. }), "{error:?}");
    }
    set_mode(&copy, 0o755);
    assert_eq!(found, written);
}

fn count_as_nobody_in(directory: &Path) -> Result<u64, String> {
    let above = directory.parent().unwrap();
    set_mode(above, 0o755);
    count_as_nobody(&directory.join("gua.db"))
}

/// Number of ticks that the user nobody can read, or the error message.
fn count_as_nobody(path: &Path) -> Result<u64, String> {
    let out = run_as_nobody("read_ticks", path)?;
    Ok(out.parse().unwrap())
}

/// Runs an example as the user nobody and returns its output or its error message.
fn run_as_nobody(name: &str, path: &Path) -> Result<String, String> {
    use std::os::unix::process::CommandExt as _;
    let built = example(name);
    // The build directory may be closed to other users.
    let copy = tempfile::tempdir().unwrap();
    set_mode(copy.path(), 0o755);
    let program = copy.path().join(name);
    std::fs::copy(&built, &program).unwrap();
    let out = Command::new(&program)
        .arg(path)
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if out.status.success() {
        Ok(text(&out.stdout))
    } else {
        Err(text(&out.stderr))
    }
}
