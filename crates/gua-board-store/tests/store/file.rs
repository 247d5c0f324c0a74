//! Rules of the file: who may open it, and what is refused.

use std::os::unix::fs::PermissionsExt as _;

use gua_board_store::ledger::ArchiveName;
use gua_board_store::registry::{Actor, Change, Settings, Workspaces as _};
use gua_board_store::{HostId, Ledger as _, OpenError, SqliteStore};
use rusqlite::Connection;

use crate::open;

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

/// Opens a data directory whose file must be refused, and checks that the file is unchanged.
fn refused(directory: &std::path::Path) -> OpenError {
    let file = directory.join("board.db");
    let before = std::fs::read(&file).unwrap();
    let refused = SqliteStore::open(directory).unwrap_err();
    assert_eq!(std::fs::read(&file).unwrap(), before, "{refused}");
    refused
}

#[test]
fn a_file_of_another_program_is_refused_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("board.db");
    // As most programs leave them: without an application id and a version.
    let other = Connection::open(&file).unwrap();
    other.execute_batch("CREATE TABLE notes (text)").unwrap();
    drop(other);
    let error = refused(directory.path());
    assert!(matches!(error, OpenError::NotOurs { .. }), "{error}");
    std::fs::write(
        &file,
        "no database, but a text that is longer than its header".repeat(9),
    )
    .unwrap();
    let error = refused(directory.path());
    assert!(matches!(error, OpenError::NotOurs { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.ends_with("board.db` is not the data of a board"),
        "{text}"
    );
}

#[test]
fn damaged_data_of_an_older_schema_is_refused_before_it_is_migrated() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("board.db");
    let old = Connection::open(&file).unwrap();
    old.execute_batch(include_str!("../../src/sqlite/v1.sql"))
        .unwrap();
    old.execute_batch(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
         INSERT INTO audit SELECT i, i, 'ada', NULL, NULL, 'logged-in', hex(zeroblob(50)) FROM n;
         PRAGMA application_id = 0x47554142; PRAGMA user_version = 1",
    )
    .unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'audit'";
    let page: u32 = old.query_row(sql, [], |row| row.get(0)).unwrap();
    let end = usize::try_from(page).unwrap() * 4096;
    drop(old);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[end - 4096..end].fill(0xa5);
    std::fs::write(&file, bytes).unwrap();
    let error = refused(directory.path());
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(
        error.to_string().contains("board.db` is damaged: "),
        "{error}"
    );
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
fn the_content_of_an_archive_is_the_latest() {
    let (directory, store) = open();
    let (host, name) = (HostId("a".to_owned()), "daemon_run".to_owned());
    let name = ArchiveName {
        day: None,
        table: name,
    };
    for content in [b"first", b"later"] {
        let at = jiff::Timestamp::UNIX_EPOCH;
        store.put_archive(&host, &name, content, at).unwrap();
    }
    let file = Connection::open(directory.path().join("board.db")).unwrap();
    let sql = "SELECT content FROM archive WHERE host = 'a' AND day = '_full'";
    let content: Vec<u8> = file.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(content, b"later");
}

#[test]
fn data_of_the_first_schema_is_brought_up_to_date() {
    let directory = tempfile::tempdir().unwrap();
    let old = Connection::open(directory.path().join("board.db")).unwrap();
    old.execute_batch(include_str!("../../src/sqlite/v1.sql"))
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

#[test]
fn a_file_with_views_triggers_or_changed_tables_is_refused() {
    for (change, name) in [
        (
            "CREATE VIEW account_names AS SELECT name FROM account",
            "account_names",
        ),
        (
            "CREATE TRIGGER promote AFTER INSERT ON member BEGIN UPDATE member SET role = 'owner'; END",
            "promote",
        ),
        ("DROP INDEX member_by_account", "member_by_account"),
    ] {
        let (directory, store) = open();
        drop(store);
        let changed = Connection::open(directory.path().join("board.db")).unwrap();
        changed.execute_batch(change).unwrap();
        drop(changed);
        for opened in [
            SqliteStore::open(directory.path()),
            SqliteStore::open_existing(directory.path()),
        ] {
            let refused = opened.unwrap_err();
            assert!(matches!(refused, OpenError::Foreign { .. }), "{refused}");
            assert!(
                refused.to_string().contains(&format!("`{name}`")),
                "{refused}"
            );
        }
    }
}

#[test]
fn a_trigger_planted_while_the_board_runs_does_not_run() {
    let (directory, store) = open();
    let other = Connection::open(directory.path().join("board.db")).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER rename AFTER INSERT ON workspace BEGIN DELETE FROM workspace; END",
        )
        .unwrap();
    let before = store.workspaces().unwrap().len();
    let by = Change {
        actor: Actor::Account("ada".to_owned()),
        address: None,
        at: jiff::Timestamp::UNIX_EPOCH,
    };
    store.add_workspace(&by, "physics").unwrap();
    assert_eq!(store.workspaces().unwrap().len(), before + 1);
}

#[test]
fn files_that_another_user_may_have_planted_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let victim = directory.path().join("victim");
    std::fs::write(&victim, "").unwrap();
    for name in ["board.db", "board.lock"] {
        let data = directory.path().join(format!("{name}.d"));
        std::fs::create_dir(&data).unwrap();
        std::fs::hard_link(&victim, data.join(name)).unwrap();
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o777)).unwrap();
        match name {
            "board.db" => drop(SqliteStore::open(&data).unwrap_err()),
            _ => drop(SqliteStore::lock_server(&data).unwrap_err()),
        }
    }
    assert_eq!(std::fs::read(&victim).unwrap(), b"");
}
