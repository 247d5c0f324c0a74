//! SQLite keeps the contract of both traits, over a real file in a temporary directory.
#![cfg(test)]

mod file;

use std::cell::RefCell;

use gua_board_store::{SqliteStore, contract};

/// A new store, and the directory that is deleted after the test.
fn open() -> (tempfile::TempDir, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    (directory, store)
}

/// Runs tests that open stores, whose directories are deleted afterwards.
fn run(tests: impl Fn(&dyn Fn() -> SqliteStore)) {
    let directories = RefCell::new(Vec::new());
    tests(&|| {
        let (directory, store) = open();
        directories.borrow_mut().push(directory);
        store
    });
}

#[test]
fn sqlite_is_a_registry() {
    run(|open| contract::registry(open));
}

#[test]
fn sqlite_is_a_ledger() {
    run(|open| contract::ledger(open));
}
