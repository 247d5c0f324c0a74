//! Events that users leave for the collector.

use std::collections::HashSet;
use std::time::Duration;

use gua_claim::{BlockingGpu, Event, Outcome, Refusal, Run};
use gua_model::Uid;
use jiff::{SignedDuration, Timestamp};

use crate::host::{FakeHost, gpu, gpus};

fn refusal(wanted: usize) -> Event {
    Event::Refusal(Refusal {
        at: Timestamp::UNIX_EPOCH,
        wanted,
        left: 0,
        outcome: Outcome::Refused,
        waited: SignedDuration::ZERO,
        blocked_by: vec![BlockingGpu {
            gpu: gpu(0),
            users: vec![Uid(1001)],
            idle_since: Some(Timestamp::UNIX_EPOCH),
        }],
    })
}

fn run() -> Event {
    Event::Run(Run {
        id: "r1".to_owned(),
        name: "train".to_owned(),
        started: Timestamp::UNIX_EPOCH,
        ended: None,
        exit_code: Some(137),
        gpus: gpus([0]),
        summary: serde_json::Map::from_iter([("mean".to_owned(), 0.5.into())]),
    })
}

#[test]
fn events_are_taken_once_with_their_owner() {
    let host = FakeHost::with_gpus(1);
    let at = |second| Timestamp::from_second(second).unwrap();
    host.dir.record(&refusal(1), at(10)).unwrap();
    host.dir.record(&run(), at(20)).unwrap();
    let first = host.dir.events(&HashSet::new()).unwrap();
    let events: Vec<_> = first.new.iter().map(|(_, event)| event.clone()).collect();
    assert_eq!(events, [refusal(1), run()]);
    assert!(first.new.iter().all(|(id, _)| id.owner == host.dir.me()));
    let second = host.dir.events(&first.present).unwrap();
    assert!(second.new.is_empty());
    assert_eq!(second.present, first.present);
}

#[test]
fn a_users_events_are_bounded_and_the_oldest_are_dropped() {
    let host = FakeHost::with_gpus(1);
    for number in 0..200 {
        let at = Timestamp::UNIX_EPOCH + Duration::from_secs(number);
        let wanted = usize::try_from(number).unwrap();
        host.dir.record(&refusal(wanted), at).unwrap();
    }
    let mut known = HashSet::new();
    let mut all = Vec::new();
    for _ in 0..3 {
        let taken = host.dir.events(&known).unwrap();
        assert!(taken.new.len() <= 64);
        known.extend(taken.new.iter().map(|(id, _)| id.clone()));
        all.extend(taken.new.into_iter().map(|(_, event)| event));
    }
    assert_eq!(all.len(), 128);
    assert_eq!(all.last(), Some(&refusal(199)));
}

#[test]
fn events_of_a_later_version_are_skipped_and_invalid_ones_reported() {
    let host = FakeHost::with_gpus(1);
    host.dir.record(&run(), Timestamp::UNIX_EPOCH).unwrap();
    let write = |name: &str, text: &str| std::fs::write(host.user_dir().join(name), text).unwrap();
    write("event-1", r#"{"version":1,"kind":"parade","body":{}}"#);
    write("event-2", r#"{"version":9,"kind":"run","body":[]}"#);
    write("event-3", r#"{"version":1,"kind":"run","body":[]}"#);
    write("event-4", &"[".repeat(20_000));
    let taken = host.dir.events(&HashSet::new()).unwrap();
    assert_eq!(taken.new.len(), 1);
    assert_eq!(taken.present.len(), 5);
    let garbled: Vec<_> = taken
        .problems
        .iter()
        .map(|problem| problem.name.as_str())
        .collect();
    assert_eq!(garbled, ["event-3", "event-4"]);
}

#[test]
fn an_event_that_is_too_large_is_refused() {
    let host = FakeHost::with_gpus(1);
    let Event::Run(mut large) = run() else {
        unreachable!("a run was made")
    };
    large.name = "x".repeat(40_000);
    host.dir
        .record(&Event::Run(large), Timestamp::UNIX_EPOCH)
        .unwrap_err();
}

#[test]
fn concurrent_first_events_of_a_user_share_one_user_dir() {
    let host = FakeHost::with_gpus(1);
    let start = std::sync::Barrier::new(16);
    std::thread::scope(|threads| {
        for wanted in 1..=16 {
            let (host, start) = (&host, &start);
            threads.spawn(move || {
                let dir = gua_claim::ClaimDir::open(&host.path()).unwrap();
                start.wait();
                dir.record(&refusal(wanted), host.observed.at.wall).unwrap();
            });
        }
    });
    assert_eq!(std::fs::read_dir(host.path()).unwrap().count(), 1);
    assert_eq!(host.files().len(), 16);
}
