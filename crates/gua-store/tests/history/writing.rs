//! Written ticks are read back unchanged in any window, and each collector run is separate.

use gua_model::{GapReason, Outage, Period};
use gua_store::{OpenError, OpenMode, Store, WriterOptions};
use jiff::{SignedDuration, Timestamp};

use crate::{Place, begin, read, read_all, record};
use gua_test::synthetic::SyntheticHost;

#[test]
fn the_bundled_sqlite_has_no_known_wal_corruption_bug() {
    let numbers: Vec<u32> = rusqlite::version()
        .split('.')
        .map(|part| part.parse().unwrap())
        .collect();
    assert!(numbers >= vec![3, 51, 3], "{numbers:?}");
}

#[test]
fn ticks_are_read_back_unchanged_while_the_writer_continues() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let mut written = record(&mut store, run, &mut host, 100);
    let history = place.history();
    assert_eq!(read_all(&history), written);
    written.extend(record(&mut store, run, &mut host, 3));
    assert_eq!(read_all(&history), written);
    store.close().unwrap();
    assert_eq!(read_all(&place.history()), written);
}

#[test]
fn a_window_can_begin_and_end_at_any_tick() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let written = record(&mut store, run, &mut host, 90);
    let history = place.history();
    for from in (0..90).step_by(7) {
        for to in (from..90).step_by(11) {
            let window = Period::new(written[from].sample.at, written[to].sample.at);
            let found: Vec<_> = read(&history, window)
                .into_iter()
                .map(Result::unwrap)
                .collect();
            assert_eq!(found, written[from..to], "{from}..{to}");
        }
    }
}

#[test]
fn a_history_lists_its_runs_gpus_and_outages() {
    let place = Place::new();
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let first = record(&mut store, run, &mut host, 5);
    store.end_run(run, host.now()).unwrap();
    let whole = |at: Timestamp| Timestamp::from_microsecond(at.as_microsecond()).unwrap();
    let outage = Outage {
        from: whole(first[1].sample.at),
        to: whole(first[3].sample.at),
        reason: GapReason::DiskFull,
        detail: "no space left on device".to_owned(),
        ticks_lost: 2,
    };
    store.record_outage(&outage).unwrap();
    let history = place.history();
    let info = history.info().unwrap();
    assert_eq!((info.runs, info.ticks), (1, 5));
    assert_eq!(info.host.as_deref(), Some("node1"));
    let runs = history.runs().unwrap();
    assert!(runs[0].ended.is_some());
    let gpus = history.gpus().unwrap();
    assert_eq!(gpus.len(), 2);
    assert_eq!(gpus[1].index, Some(1));
    assert_eq!(gpus[0].name.as_deref(), Some("NVIDIA A100-SXM4-80GB"));
    assert_eq!(gpus[0].first_seen, whole(first[0].sample.at));
    let around = Period::new(
        outage.to - SignedDuration::from_secs(1),
        outage.to + SignedDuration::from_secs(9),
    );
    assert_eq!(history.outages(around).unwrap(), [outage]);
}

#[test]
fn a_second_collector_is_refused_with_the_pid_of_the_first() {
    let place = Place::new();
    let store = place.store();
    let link = place.directory.path().join("link.db");
    std::os::unix::fs::symlink(place.path(), &link).unwrap();
    for path in [place.path(), link] {
        let second = Store::open(&path, OpenMode::Append, &WriterOptions::default());
        let Err(OpenError::Busy { pid, .. }) = &second else {
            panic!("{second:?}");
        };
        assert_eq!(*pid, Some(std::process::id()));
    }
    drop(store);
    place.store();
}

#[test]
fn each_mode_sets_the_pragmas_it_needs() {
    let place = Place::new();
    let open = |mode| Store::open(&place.path(), mode, &WriterOptions::default());
    assert!(matches!(
        open(OpenMode::Append),
        Err(OpenError::Missing { .. })
    ));
    drop(open(OpenMode::Create).unwrap());
    assert!(matches!(
        open(OpenMode::Create),
        Err(OpenError::Exists { .. })
    ));
    drop(open(OpenMode::Append).unwrap());
    drop(open(OpenMode::CreateOrAppend).unwrap());
}
