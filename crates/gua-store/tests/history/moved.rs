//! A history that others rename, delete, replace, truncate or link while a writer has it open.

use std::fs;
use std::path::{Path, PathBuf};

use gua_store::{FileChange, History, OpenError, OpenMode, RunId, Store, WriterOptions};
use gua_test::synthetic::SyntheticHost;

use crate::{Place, begin, read_all};

/// A writer with ten ticks in its file.
struct Writer {
    place: Place,
    store: Store,
    host: SyntheticHost,
    run: RunId,
    changes: Vec<FileChange>,
}

impl Writer {
    fn new() -> Self {
        let place = Place::new();
        let mut store = place.store();
        let host = SyntheticHost::small();
        let run = begin(&mut store, &host);
        let mut writer = Self {
            place,
            store,
            host,
            run,
            changes: Vec::new(),
        };
        writer.record(10);
        assert_eq!(writer.changes, []);
        writer
    }

    /// Records ticks as a collector does.
    fn record(&mut self, count: usize) {
        for _ in 0..count {
            let tick = self.host.tick();
            if let Some(change) = self.store.follow_file(tick.sample.at).unwrap() {
                self.changes.push(change);
                self.run = begin(&mut self.store, &self.host);
            }
            self.store.record(self.run, &tick).unwrap();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.directory.path().join(name)
    }
}

fn ticks(path: &Path) -> usize {
    let history = History::open(path).unwrap();
    assert!(history.check(|_| {}).unwrap().is_clean());
    read_all(&history).len()
}

#[test]
fn a_renamed_history_is_complete_and_a_new_one_begins() {
    let mut writer = Writer::new();
    let (path, moved) = (writer.path("gua.db"), writer.path("moved.db"));
    fs::rename(&path, &moved).unwrap();
    writer.record(5);
    assert_eq!(writer.changes, [FileChange::Moved]);
    assert_eq!(ticks(&moved), 10);
    assert_eq!(ticks(&path), 5);
    writer.store.close().unwrap();
    assert_eq!((ticks(&moved), ticks(&path)), (10, 5));
}

#[test]
fn a_history_that_is_renamed_with_its_journal_is_complete() {
    let mut writer = Writer::new();
    for suffix in ["", "-wal", "-shm"] {
        let name = format!("gua.db{suffix}");
        fs::rename(
            writer.path(&name),
            writer.path(&format!("moved.db{suffix}")),
        )
        .unwrap();
    }
    writer.record(5);
    drop(writer.store);
    let path = |name: &str| writer.place.directory.path().join(name);
    assert_eq!((ticks(&path("moved.db")), ticks(&path("gua.db"))), (10, 5));
}

#[test]
fn a_deleted_history_is_written_again() {
    let mut writer = Writer::new();
    let path = writer.path("gua.db");
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(writer.path(&format!("gua.db{suffix}"))).unwrap();
    }
    writer.record(5);
    let kept_as = path.canonicalize().unwrap();
    assert_eq!(writer.changes, [FileChange::Deleted { kept_as }]);
    assert_eq!(ticks(&path), 15);
    drop(writer.store);
    assert_eq!(ticks(&path), 15);
}

#[test]
fn a_history_that_is_replaced_is_kept_beside_the_new_one() {
    let mut writer = Writer::new();
    let path = writer.path("gua.db");
    let other = written(3);
    fs::rename(other.path(), &path).unwrap();
    writer.record(5);
    let [FileChange::Deleted { kept_as }] = writer.changes.as_slice() else {
        panic!("{:?}", writer.changes);
    };
    assert!(kept_as.to_string_lossy().contains("gua.db.deleted-"));
    assert_eq!((ticks(kept_as), ticks(&path)), (10, 8));
}

#[test]
fn a_truncated_history_and_its_journal_are_set_aside() {
    let mut writer = Writer::new();
    let path = writer.path("gua.db");
    let journal = fs::read(writer.path("gua.db-wal")).unwrap();
    assert!(!journal.is_empty());
    fs::File::create(&path).unwrap();
    writer.record(5);
    let [FileChange::Truncated { kept_as }] = writer.changes.as_slice() else {
        panic!("{:?}", writer.changes);
    };
    let kept = fs::read(format!("{}-wal", kept_as.display())).unwrap();
    assert!(kept.starts_with(&journal));
    assert_eq!(ticks(&path), 5);
    drop(writer.store);
    assert_eq!(ticks(&path), 5);
}

#[test]
fn a_vacuumed_history_is_not_taken_for_a_truncated_one() {
    let mut writer = Writer::new();
    writer.record(500);
    writer.store.forget("ada").unwrap();
    writer.store.vacuum().unwrap();
    writer.record(5);
    assert_eq!(writer.changes, []);
}

/// A closed history with so many ticks.
fn written(count: usize) -> Place {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    // Before the ticks of the other history.
    let run = begin(&mut store, &host);
    crate::record(&mut store, run, &mut host, count);
    store.close().unwrap();
    place
}

#[test]
fn a_stranded_or_foreign_journal_is_set_aside() {
    let other = rusqlite::Connection::open_in_memory().unwrap();
    drop(other);
    let foreign = foreign_journal();
    for (file, journal) in [
        (None, b"a journal".repeat(1000)),
        (Some(Vec::new()), b"a journal".repeat(1000)),
        (Some(fs::read(written(3).path()).unwrap()), foreign),
    ] {
        let place = Place::new();
        let expected = file
            .as_ref()
            .map_or(0, |file| if file.is_empty() { 0 } else { 3 });
        if let Some(file) = &file {
            fs::write(place.path(), file).unwrap();
        }
        let at = format!("{}-wal", place.path().display());
        fs::write(&at, &journal).unwrap();
        let store = place.store();
        let kept = store.stranded_journal().unwrap().to_owned();
        assert_eq!(fs::read(&kept).unwrap(), journal);
        drop(store);
        assert_eq!(fs::read(&kept).unwrap(), journal);
        assert_eq!(ticks(&place.path()), expected);
    }
}

/// The journal of a database of another program.
fn foreign_journal() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1)")
        .unwrap();
    fs::read(directory.path().join("other.db-wal")).unwrap()
}

#[test]
fn the_journal_of_a_killed_writer_is_recovered() {
    let writer = Writer::new();
    let left = Place::new();
    for suffix in ["", "-wal"] {
        let name = format!("gua.db{suffix}");
        fs::copy(writer.path(&name), left.directory.path().join(&name)).unwrap();
    }
    let store = left.store();
    assert_eq!(store.stranded_journal(), None);
    drop(store);
    assert_eq!(ticks(&left.path()), 10);
}

#[test]
fn a_hard_link_does_not_allow_a_second_writer() {
    let writer = Writer::new();
    let link = writer.path("link.db");
    fs::hard_link(writer.path("gua.db"), &link).unwrap();
    let second = Store::open(&link, OpenMode::Append, &WriterOptions::default());
    assert!(matches!(second, Err(OpenError::Busy { .. })), "{second:?}");
    drop(writer.store);
    Store::open(&link, OpenMode::Append, &WriterOptions::default()).unwrap();
}
