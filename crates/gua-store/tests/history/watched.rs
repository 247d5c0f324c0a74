//! Watched runs: reported at start and end, stored once, and removed with their user.

use std::time::Duration;

use gua_model::{Period, Uid, User};
use gua_query::WatchedRun;
use gua_store::{Kept, WriterOptions};
use jiff::{SignedDuration, Timestamp};

use crate::{Place, all, begin, open, record};
use gua_test::synthetic::SyntheticHost;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).unwrap()
}

fn run(uid: u32, name: &str, started: i64) -> WatchedRun {
    WatchedRun {
        run: name.to_owned(),
        owner: User {
            uid: Uid(uid),
            name: Some(format!("user-{uid}")),
        },
        name: "python".to_owned(),
        started: second(started),
        ended: None,
        exit_code: None,
        gpus: Vec::new(),
        summary: String::new(),
    }
}

fn ended(begun: &WatchedRun, after: i64) -> WatchedRun {
    WatchedRun {
        ended: Some(begun.started + SignedDuration::from_secs(after)),
        exit_code: Some(137),
        gpus: vec!["GPU-a".parse().unwrap(), "GPU-b".parse().unwrap()],
        summary: "{\"peak_vram_mb\":1.0}".to_owned(),
        ..begun.clone()
    }
}

#[test]
fn the_end_completes_the_start_and_nothing_is_stored_twice() {
    let place = Place::new();
    let mut store = place.store();
    let first = run(1000, "a", 0);
    let done = ended(&first, 60);
    let of_another = run(1001, "a", 0);
    for (reported, kept) in [
        (&first, Kept::Yes),
        (&first, Kept::No),
        (&done, Kept::Yes),
        (&done, Kept::No),
        (&first, Kept::No),
        (&of_another, Kept::Yes),
    ] {
        assert_eq!(
            store.record_watched_run(reported, second(200)).unwrap(),
            kept,
            "{reported:?}"
        );
    }
    // An end without a recorded start.
    let alone = ended(&run(1000, "b", 100), 5);
    store.record_watched_run(&alone, second(200)).unwrap();
    let history = place.history();
    assert_eq!(
        history.watched_runs(all(), 10).unwrap(),
        [alone.clone(), of_another.clone(), done.clone()]
    );
    assert_eq!(
        history.watched_runs(all(), 1).unwrap(),
        std::slice::from_ref(&alone)
    );
    let window = Period::new(second(50), second(101));
    assert_eq!(history.watched_runs(window, 10).unwrap(), [alone]);
    assert_eq!(history.runs_with_prefix("a").unwrap(), [of_another, done]);
    assert_eq!(history.runs_with_prefix("%").unwrap(), []);
}

#[test]
fn a_loop_of_jobs_does_not_fill_the_disk() {
    let place = Place::new();
    let mut store = place.store();
    for number in 0..1024 {
        let reported = run(1000, &format!("r{number}"), number);
        assert_eq!(
            store.record_watched_run(&reported, second(200)).unwrap(),
            Kept::Yes
        );
    }
    // Neither the claimed start nor the end of a run makes it belong to another day.
    let more = ended(&run(1000, "more", -9_000_000), 9_000_100);
    assert_eq!(
        store.record_watched_run(&more, second(200)).unwrap(),
        Kept::No
    );
    let of_another = run(1001, "more", 1000);
    assert_eq!(
        store.record_watched_run(&of_another, second(200)).unwrap(),
        Kept::Yes
    );
    // The end of a run that is already stored is stored too, without its summary.
    let first = run(1000, "r0", 0);
    let long = WatchedRun {
        summary: "x".repeat(20_000),
        ..ended(&first, 60)
    };
    assert_eq!(
        store.record_watched_run(&long, second(200)).unwrap(),
        Kept::Yes
    );
    let stored = place.history().runs_with_prefix("r0").unwrap();
    assert_eq!(
        (stored[0].exit_code, stored[0].summary.as_str()),
        (Some(137), "")
    );
    let tomorrow = second(86_400 + 200);
    assert_eq!(
        store.record_watched_run(&more, tomorrow).unwrap(),
        Kept::Yes
    );
}

#[test]
fn a_user_stores_a_limited_number_of_bytes_a_day() {
    let place = Place::new();
    let mut store = place.store();
    let mut kept = 0;
    // A claimed start in each of the last years, and 30 KB each, as one minute after another would bring them.
    for number in 0..2000 {
        let large = WatchedRun {
            summary: "x".repeat(30_000),
            ..ended(&run(1000, &format!("r{number}"), -86_400 * number), 5)
        };
        kept += i32::from(store.record_watched_run(&large, second(number)).unwrap() == Kept::Yes);
    }
    assert_eq!(kept, (8 << 20) / 30_026);
    store.close().unwrap();
    let bytes = std::fs::metadata(place.path()).unwrap().len();
    assert!(bytes < 12 << 20, "{bytes}");
}

#[test]
fn retention_applies_to_runs() {
    let place = Place::new();
    let options = WriterOptions {
        keep_raw: Some(Duration::from_secs(3600)),
        ..WriterOptions::default()
    };
    let mut store = open(&place.path(), &options);
    let mut host = SyntheticHost::small();
    let collector_run = begin(&mut store, &host);
    let began = host.now();
    let at = |minutes: i64| began + SignedDuration::from_mins(minutes);
    let job = |name: &str, from: i64, to: Option<i64>| WatchedRun {
        started: at(from),
        ended: to.map(at),
        ..run(1000, name, 0)
    };
    let long = job("long", 1, Some(290));
    for job in [&job("short", 1, Some(2)), &job("lost", 3, None), &long] {
        assert_eq!(store.record_watched_run(job, at(291)).unwrap(), Kept::Yes);
    }
    record(&mut store, collector_run, &mut host, 600);
    assert_eq!(place.history().watched_runs(all(), 9).unwrap(), [long]);
}

#[test]
fn runs_of_an_erased_user_are_removed_and_do_not_come_back() {
    let place = Place::new();
    let mut store = place.store();
    let mine = ended(&run(1000, "mine", 0), 10);
    let theirs = ended(&run(1001, "theirs", 1), 10);
    store.record_watched_run(&mine, second(200)).unwrap();
    store.record_watched_run(&theirs, second(200)).unwrap();
    store.forget("user-1000").unwrap();
    assert_eq!(place.history().watched_runs(all(), 10).unwrap(), [theirs]);
    assert_eq!(
        store.record_watched_run(&mine, second(200)).unwrap(),
        Kept::No
    );
    let later = run(1000, "later", 100);
    assert_eq!(
        store.record_watched_run(&later, second(200)).unwrap(),
        Kept::Yes
    );
}
