//! SQLite keeps the contract, and the rules of its own file.
#![cfg(test)]

use std::os::unix::fs::PermissionsExt as _;

use gua_board_store::registry::Settings;
use gua_board_store::{OpenError, Registry as _, SqliteStore, contract};
use rusqlite::Connection;

fn open() -> (tempfile::TempDir, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    (directory, store)
}

/// A store whose directory is deleted with it.
fn kept<T>(run: impl Fn(&dyn Fn() -> SqliteStore) -> T) -> T {
    let directories = std::cell::RefCell::new(Vec::new());
    run(&|| {
        let (directory, store) = open();
        directories.borrow_mut().push(directory);
        store
    })
}

#[test]
fn sqlite_is_a_registry() {
    kept(|open| contract::registry(open));
}

#[test]
fn sqlite_is_a_ledger() {
    kept(|open| contract::ledger(open));
}

#[test]
fn only_the_owner_may_read_the_data() {
    let (directory, _store) = open();
    let mode = |name: &str| {
        let metadata = directory.path().join(name).metadata().unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode("board.db"), 0o600);
    assert_eq!(mode("board.db-wal"), 0o600);
}

#[test]
fn a_second_server_is_refused_and_a_command_is_not() {
    let (directory, store) = open();
    let lock = SqliteStore::lock_server(directory.path()).unwrap();
    let second = SqliteStore::lock_server(directory.path());
    assert!(matches!(second, Err(OpenError::InUse { .. })));
    let command = SqliteStore::open_existing(directory.path()).unwrap();
    assert_eq!(command.workspaces().unwrap(), store.workspaces().unwrap());
    drop(lock);
    SqliteStore::lock_server(directory.path()).unwrap();
}

#[test]
fn foreign_and_newer_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let missing = SqliteStore::open_existing(directory.path());
    assert!(matches!(missing, Err(OpenError::Missing { .. })));
    let file = directory.path().join("board.db");
    let foreign = Connection::open(&file).unwrap();
    foreign
        .execute_batch("PRAGMA user_version = 3; CREATE TABLE x (y)")
        .unwrap();
    drop(foreign);
    let refused = SqliteStore::open(directory.path());
    assert!(matches!(refused, Err(OpenError::NotOurs { .. })));

    let (directory, store) = open();
    drop(store);
    let newer = Connection::open(directory.path().join("board.db")).unwrap();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(newer);
    let refused = SqliteStore::open(directory.path());
    assert!(matches!(refused, Err(OpenError::TooNew { found: 99, .. })));
}

#[test]
fn a_backup_is_a_board_and_the_check_finds_nothing() {
    let (directory, store) = open();
    let copy = tempfile::tempdir().unwrap();
    let target = copy.path().join("board.db");
    store.backup(&target).unwrap();
    assert!(store.backup(&target).is_err());
    assert_eq!(
        target.metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    let restored = SqliteStore::open_existing(copy.path()).unwrap();
    assert_eq!(restored.workspaces().unwrap(), store.workspaces().unwrap());
    assert_eq!(restored.check().unwrap(), Vec::<String>::new());
    drop(directory);
}

#[test]
fn data_of_the_first_schema_is_brought_up_to_date() {
    let directory = tempfile::tempdir().unwrap();
    let old = Connection::open(directory.path().join("board.db")).unwrap();
    old.execute_batch(include_str!("../src/sqlite/v1.sql"))
        .unwrap();
    old.execute_batch(
        "INSERT INTO workspace (id, name) VALUES ('ws_1', 'default');
         PRAGMA application_id = 0x47554142; PRAGMA user_version = 1",
    )
    .unwrap();
    drop(old);
    for _ in 0..2 {
        let store = SqliteStore::open(directory.path()).unwrap();
        let workspaces = store.workspaces().unwrap();
        assert_eq!(workspaces.len(), 1);
        assert_eq!(workspaces[0].settings, Settings::default());
    }
}
