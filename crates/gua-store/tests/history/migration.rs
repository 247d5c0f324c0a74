//! Every released schema stays readable and writable. `tests/golden/schema-N.sql` is a dump of a file that the release
//! with schema N wrote: half an hour of a small host, closed. It is never edited; a new schema adds the next.

use gua_model::{ContainerOwners, Tick};
use gua_store::{FileKind, History, OpenMode, Store, WriterOptions, what_is_this};
use rusqlite::Connection;

use crate::CollectTotals as _;
use crate::{Place, all, begin, changed_quarters, read_all, record};
use gua_test::synthetic::SyntheticHost;

/// Builds the file of a release.
fn released(version: u32, dump: &str) -> Place {
    let place = Place::new();
    let connection = Connection::open(place.path()).unwrap();
    connection.execute_batch(dump).unwrap();
    connection
        .pragma_update(None, "application_id", gua_store::schema::APPLICATION_ID)
        .unwrap();
    connection
        .pragma_update(None, "user_version", version)
        .unwrap();
    drop(connection);
    assert_eq!(
        what_is_this(&place.path()),
        FileKind::OurHistory { version }
    );
    place
}

/// All data that a reader returns, as text.
fn contents(history: &History) -> String {
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        history.totals(all()).unwrap(),
        crate::sessions(history, all()).unwrap(),
        history.owners().unwrap(),
        history.gpus().unwrap(),
        history.refusals(all()).unwrap(),
        read_all(history),
    )
}

/// Expects the file of a release to keep its content before and after this program wrote to it.
fn check(version: u32, dump: &str) {
    let place = released(version, dump);
    let mut host = SyntheticHost::small();
    let tick = |tick| if version < 3 { by_uid(tick) } else { tick };
    let mut written: Vec<_> = (0..60).map(|_| tick(host.tick())).collect();
    let mut store = place.store();
    assert_eq!(read_all(&place.history()), written, "schema {version}");
    assert!(place.history().check(|_| {}).unwrap().is_clean());
    let sessions = crate::sessions(&place.history(), all()).unwrap();
    assert_eq!(sessions.len(), SESSIONS);
    let run = begin(&mut store, &host);
    written.extend(record(&mut store, run, &mut host, 60));
    assert_eq!(read_all(&place.history()), written, "schema {version}");
    assert!(place.history().check(|_| {}).unwrap().is_clean());
}

/// A tick of a release in which the uid owned the processes of a container.
fn by_uid(mut tick: Tick) -> Tick {
    let processes = tick
        .sample
        .gpus
        .iter_mut()
        .flat_map(|gpu| &mut gpu.processes);
    for identity in processes.filter_map(|process| process.identity.as_mut().ok()) {
        identity.workload.containers = ContainerOwners::Uid;
    }
    tick
}

/// Number of sessions in the first 60 ticks of the host.
const SESSIONS: usize = 2;

const SCHEMA_1: &str = include_str!("../golden/schema-1.sql");
const SCHEMA_3: &str = include_str!("../golden/schema-3.sql");

#[test]
fn a_file_of_schema_1_is_read_and_continued() {
    check(1, SCHEMA_1);
}

#[test]
fn a_file_of_schema_2_is_read_and_continued() {
    check(2, include_str!("../golden/schema-2.sql"));
}

#[test]
fn a_file_of_schema_3_is_read_and_continued() {
    check(3, SCHEMA_3);
}

#[test]
fn a_file_of_schema_4_is_read_and_continued() {
    check(4, include_str!("../golden/schema-4.sql"));
}

#[test]
fn a_reader_returns_the_same_before_and_after_a_migration() {
    for (version, dump) in [(1, SCHEMA_1), (3, SCHEMA_3)] {
        let place = released(version, dump);
        let history = place.history();
        let before = contents(&history);
        assert_eq!(history.info().unwrap().version, version);
        assert!(history.check(|_| {}).unwrap().is_clean());
        drop(history);
        place.store().close().unwrap();
        let history = place.history();
        assert_eq!(history.info().unwrap().version, gua_store::schema::VERSION);
        assert_eq!(contents(&history), before);
        assert!(history.check(|_| {}).unwrap().is_clean());
        let changed = changed_quarters(&place.path(), 0);
        let quarters = history.totals(all()).unwrap().totals.quarters;
        let stored: Vec<_> = quarters
            .keys()
            .copied()
            .zip(1..)
            .take(changed.len())
            .collect();
        assert!(!changed.is_empty());
        assert_eq!(changed, stored);
    }
}

#[test]
fn a_failed_migration_leaves_the_file_unchanged() {
    let place = released(1, SCHEMA_1);
    let before = contents(&place.history());
    let bytes = std::fs::metadata(place.path()).unwrap().len();
    let options = WriterOptions {
        // The file is full: there is no page for a new table.
        most_pages: Some(u32::try_from(bytes / 4096).unwrap()),
        ..WriterOptions::default()
    };
    let opened = Store::open(&place.path(), OpenMode::Append, &options);
    assert!(opened.is_err());
    let history = place.history();
    assert_eq!(history.info().unwrap().version, 1);
    assert_eq!(contents(&history), before);
    drop(history);
    place.store().close().unwrap();
    assert_eq!(contents(&place.history()), before);
}

#[test]
fn a_user_of_a_migrated_file_can_be_erased() {
    let place = released(1, SCHEMA_1);
    let owner = place.history().owners().unwrap().into_iter().next();
    let name = owner.expect("a user of the host").shown().into_owned();
    let mut store = place.store();
    assert!(!store.forget(&name).unwrap().is_empty());
    store.close().unwrap();
    let history = place.history();
    assert!(history.check(|_| {}).unwrap().is_clean());
    assert!(!contents(&history).contains(&name));
}
