//! Watched runs: reported at start and end, stored once, and removed with their user.

use gua_model::{Period, Uid, User};
use gua_query::WatchedRun;
use gua_store::Kept;
use jiff::{SignedDuration, Timestamp};

use crate::{Place, all};

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
            store.record_watched_run(reported).unwrap(),
            kept,
            "{reported:?}"
        );
    }
    // An end without a recorded start.
    let alone = ended(&run(1000, "b", 100), 5);
    store.record_watched_run(&alone).unwrap();
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
    assert_eq!(
        history.watched_runs_called("a").unwrap(),
        [of_another, done]
    );
    assert_eq!(history.watched_runs_called("%").unwrap(), []);
}

#[test]
fn a_loop_of_jobs_does_not_fill_the_disk() {
    let place = Place::new();
    let mut store = place.store();
    for number in 0..1000 {
        let reported = run(1000, &format!("r{number}"), number);
        assert_eq!(store.record_watched_run(&reported).unwrap(), Kept::Yes);
    }
    let more = run(1000, "more", 1000);
    assert_eq!(store.record_watched_run(&more).unwrap(), Kept::No);
    let of_another = run(1001, "more", 1000);
    assert_eq!(store.record_watched_run(&of_another).unwrap(), Kept::Yes);
    let tomorrow = run(1000, "tomorrow", 86_400 + 1000);
    assert_eq!(store.record_watched_run(&tomorrow).unwrap(), Kept::Yes);
}

#[test]
fn runs_of_an_erased_user_are_removed_and_do_not_come_back() {
    let place = Place::new();
    let mut store = place.store();
    let mine = ended(&run(1000, "mine", 0), 10);
    let theirs = ended(&run(1001, "theirs", 1), 10);
    store.record_watched_run(&mine).unwrap();
    store.record_watched_run(&theirs).unwrap();
    store.forget("user-1000").unwrap();
    assert_eq!(place.history().watched_runs(all(), 10).unwrap(), [theirs]);
    assert_eq!(store.record_watched_run(&mine).unwrap(), Kept::No);
    let later = run(1000, "later", 100);
    assert_eq!(store.record_watched_run(&later).unwrap(), Kept::Yes);
}
