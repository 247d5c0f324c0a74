//! A full disk: the tick is lost and reported, the store keeps running, and writes again when there is room.

use gua_test::{not_tested, runs_as_root};
use std::path::Path;
use std::process::Command;

use gua_model::{GapReason, Outage};
use gua_store::{OpenMode, Store, WriteError, WriterOptions};
use jiff::Timestamp;

use crate::{Place, begin, open, read_all, record};
use gua_test::synthetic::SyntheticHost;

#[test]
fn a_file_that_cannot_grow_refuses_ticks_and_stays_consistent() {
    let place = Place::new();
    let options = WriterOptions {
        most_pages: Some(120),
        ..WriterOptions::default()
    };
    let mut store = open(&place.path(), &options);
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let mut written = Vec::new();
    let mut lost = Vec::new();
    while lost.len() < 10 {
        let tick = host.tick();
        match store.record(run, &tick) {
            Ok(()) => written.push(tick),
            Err(WriteError::DiskFull(_)) => lost.push(tick),
            Err(other) => panic!("{other:?}"),
        }
        // Work that fails now remains due.
        let _ = store.maintain(host.now());
    }
    assert_eq!(read_all(&place.history()), written);
    drop(store);

    let mut store = place.store();
    let run = begin(&mut store, &host);
    let whole = |at: Timestamp| Timestamp::from_microsecond(at.as_microsecond()).unwrap();
    let outage = Outage {
        from: whole(lost[0].sample.at),
        to: whole(host.now()),
        reason: GapReason::DiskFull,
        detail: "the disk is full".to_owned(),
        ticks_lost: 10,
    };
    store.record_outage(&outage).unwrap();
    written.extend(record(&mut store, run, &mut host, 40));
    let history = place.history();
    assert_eq!(read_all(&history), written);
    assert_eq!(history.outages(crate::all()).unwrap(), [outage]);
    assert!(history.check(|_| {}).unwrap().is_clean());
}

#[test]
fn a_history_that_could_not_be_created_leaves_no_file() {
    let place = Place::new();
    let options = WriterOptions {
        most_pages: Some(4),
        ..WriterOptions::default()
    };
    for mode in [OpenMode::Create, OpenMode::CreateOrAppend] {
        Store::open(&place.path(), mode, &options).unwrap_err();
        let left = std::fs::read_dir(place.directory.path()).unwrap().count();
        assert_eq!(left, 0, "{mode:?}");
    }
    // A file that existed before is kept.
    std::fs::write(place.path(), "").unwrap();
    Store::open(&place.path(), OpenMode::CreateOrAppend, &options).unwrap_err();
    assert!(place.path().exists());
    drop(place.store());
}

#[test]
fn the_same_store_survives_a_real_full_disk() {
    on_small_disk(fill_and_recover);
}

#[test]
fn the_journal_does_not_fill_a_small_disk() {
    on_small_disk(|directory| {
        let path = directory.join("gua.db");
        let mut store = open(&path, &WriterOptions::default());
        let mut host = SyntheticHost::small();
        let run = begin(&mut store, &host);
        let mut written = 0;
        let size = |suffix: &str| {
            let name = format!("{}{suffix}", path.display());
            std::fs::metadata(name).map_or(0, |facts| facts.len())
        };
        // Much more passes through the journal than the disk has room for.
        for _ in 0..1500 {
            store.record(run, &host.tick()).unwrap();
            store.maintain(host.now()).unwrap();
            written += 1;
            assert!(size("-wal") < 800 << 10, "{} after {written}", size("-wal"));
        }
        assert!(size("") < 1 << 20, "{}", size(""));
        let history = gua_store::History::open(&path).unwrap();
        assert_eq!(history.info().unwrap().ticks, written);
    });
}

#[test]
fn a_disk_that_is_full_at_the_start_is_named() {
    on_small_disk(|directory| {
        let path = directory.join("gua.db");
        let mut store = Store::open(&path, OpenMode::Create, &WriterOptions::default()).unwrap();
        let mut host = SyntheticHost::small();
        let run = begin(&mut store, &host);
        record(&mut store, run, &mut host, 50);
        store.close().unwrap();
        fill(&directory.join("ballast"));
        for name in ["gua.db", "other.db"] {
            let opened = Store::open(
                &directory.join(name),
                OpenMode::CreateOrAppend,
                &WriterOptions::default(),
            );
            let message = gua_model::chain::chain(&opened.unwrap_err());
            let says_so = ["disk is full", "No space left on device"];
            assert!(
                says_so.iter().any(|words| message.contains(words)),
                "{message}"
            );
        }
        std::fs::remove_file(directory.join("ballast")).unwrap();
        open(&path, &WriterOptions::default()).close().unwrap();
    });
}

/// Runs a test in a file system of 2 MB.
fn on_small_disk(test: impl FnOnce(&Path) + std::panic::UnwindSafe) {
    if !runs_as_root("a disk that is full, as a small tmpfs") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2m", "gua-test"])
        .arg(directory.path())
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        not_tested("no mounts here", "a full disk");
        return;
    }
    let place = directory.path().to_owned();
    let result = std::panic::catch_unwind(move || test(&place));
    let unmounted = Command::new("umount").arg(directory.path()).status();
    assert!(unmounted.unwrap().success());
    result.unwrap();
}

/// Uses up the remaining space.
fn fill(ballast: &Path) {
    use std::io::Write as _;
    let mut block = vec![0u8; 1 << 20];
    let mut file = std::fs::File::create(ballast).unwrap();
    while !block.is_empty() {
        if file.write_all(&block).is_err() {
            block.truncate(block.len() / 2);
        }
    }
}

fn fill_and_recover(directory: &Path) {
    let path = directory.join("gua.db");
    let ballast = |number: usize| directory.join(format!("ballast-{number}"));
    let mut store = Store::open(&path, OpenMode::Create, &WriterOptions::default()).unwrap();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let mut written = record(&mut store, run, &mut host, 50);
    let mut lost = 0;
    for number in 0..200 {
        // The journal makes room when it is merged.
        fill(&ballast(number));
        let tick = host.tick();
        match store.record(run, &tick) {
            Ok(()) => written.push(tick),
            Err(WriteError::DiskFull(_) | WriteError::Disk(_)) => lost += 1,
            Err(other) => panic!("{other:?}"),
        }
        let _ = store.maintain(host.now());
    }
    assert!(lost > 0, "the disk never filled up");
    (0..200).for_each(|number| std::fs::remove_file(ballast(number)).unwrap());
    written.extend(record(&mut store, run, &mut host, 40));
    let history = gua_store::History::open(&path).unwrap();
    assert_eq!(read_all(&history), written);
    assert!(history.check(|_| {}).unwrap().is_clean());
}
