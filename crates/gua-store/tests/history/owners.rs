//! Hours belong to the name that an owner had at the time.

use gua_model::{ContainerOwners, OwnerKey, Process, Tick, User, Workload};
use gua_store::{NewRun, Store};
use gua_test::samples::{gpu, process, sample, user};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

use crate::{CollectTotals as _, Place, all, read_all};

const TICKS: i32 = 120;

fn start() -> Timestamp {
    "2026-03-02T08:00:00Z".parse().unwrap()
}

/// Records an hour of one process from `start` on, and returns its ticks.
fn record_hour(store: &mut Store, hour: i64, process: &Process) -> Vec<Tick> {
    let from = start() + SignedDuration::from_hours(hour);
    let run = store
        .begin_run(&NewRun {
            started: from,
            interval: Duration::from_secs(30),
            host: "node1".to_owned(),
            version: "0.1.0".to_owned(),
            boot: None,
        })
        .unwrap();
    let ticks: Vec<Tick> = (0..TICKS)
        .map(|number| Tick {
            sample: sample(
                from + SignedDuration::from_secs(30) * number,
                vec![gpu(0, "GPU-0", 2, vec![process.clone()])],
            ),
            interval: Duration::from_secs(30),
        })
        .collect();
    for tick in &ticks {
        store.record(run, tick).unwrap();
        store.maintain(tick.sample.at).unwrap();
    }
    while store
        .maintain(from + SignedDuration::from_hours(1))
        .unwrap()
        .more
    {}
    ticks
}

/// Held seconds of each owner, from the stored totals.
fn held(place: &Place) -> Vec<(String, u64)> {
    let mut found: Vec<(String, u64)> = Vec::new();
    for (_, _, total) in place.history().totals(all()).unwrap().totals.iter() {
        for (owner, sums) in &total.owners {
            let name = owner.shown().into_owned();
            let seconds = sums.held.0 / 1_000_000;
            match found.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += seconds,
                None => found.push((name, seconds)),
            }
        }
    }
    found.sort();
    found
}

fn hours(owners: &[(&str, u64)]) -> Vec<(String, u64)> {
    let mut owners: Vec<_> = owners
        .iter()
        .map(|(name, hours)| ((*name).to_owned(), hours * 3600))
        .collect();
    owners.sort();
    owners
}

#[test]
fn a_uid_that_is_given_to_another_user_does_not_move_old_hours() {
    let place = Place::new();
    let mut store = place.store();
    let mut written = record_hour(&mut store, 0, &process(7, user(1001, "ada"), 900));
    written.extend(record_hour(
        &mut store,
        1,
        &process(8, user(1001, "bob"), 900),
    ));
    written.extend(record_hour(
        &mut store,
        2,
        &process(9, user(1002, "eve"), 900),
    ));
    assert_eq!(held(&place), hours(&[("ada", 1), ("bob", 1), ("eve", 1)]));
    assert_eq!(read_all(&place.history()), written);
    let sessions = crate::sessions(&place.history(), all()).unwrap();
    let mut owners: Vec<String> = sessions
        .iter()
        .map(|session| session.owner.as_ref().unwrap().who.shown().into_owned())
        .collect();
    owners.sort();
    assert_eq!(owners, ["ada", "bob", "eve"]);
    // Folding again gives the same, and erasing one leaves the other.
    store.rebuild_totals().unwrap();
    assert_eq!(held(&place), hours(&[("ada", 1), ("bob", 1), ("eve", 1)]));
    let forgotten = store.forget("ada").unwrap();
    let name = forgotten.known_as[0].1.as_str();
    assert_eq!(held(&place), hours(&[(name, 1), ("bob", 1), ("eve", 1)]));
    assert!(place.history().check(|_| {}).unwrap().is_clean());
}

#[test]
fn a_user_named_unknown_is_not_the_unknown_owner() {
    let place = Place::new();
    let mut store = place.store();
    record_hour(&mut store, 0, &process(7, user(1005, "unknown"), 900));
    let mut hidden = process(8, user(1006, "x"), 900);
    hidden.identity = Err(gua_model::Missing::Denied);
    record_hour(&mut store, 1, &hidden);
    let expected = hours(&[("unknown", 1), ("unknown (uid 1005)", 1)]);
    assert_eq!(held(&place), expected);
}

#[test]
fn containers_pods_and_assigned_owners_have_hours_sessions_and_can_be_erased() {
    let place = Place::new();
    let mut store = place.store();
    let with = |pid: u32, workload: Workload| {
        let mut process = process(pid, user(33, "www-data"), 900);
        let identity = process.identity.as_mut().unwrap();
        identity.login = Ok(None);
        identity.claimed_login = Some(user(1001, "ada"));
        identity.workload = workload;
        process
    };
    let web = Workload {
        container: "0123456789abcdef".parse().ok(),
        container_name: Some("web".to_owned()),
        ..Workload::default()
    };
    let pod = Workload {
        pod: "57e67067".parse().ok(),
        pod_name: Some("ml/train-0".to_owned()),
        ..Workload::default()
    };
    let assigned = Workload {
        assigned: Some("optics".to_owned()),
        ..pod.clone()
    };
    let by_uid = Workload {
        containers: ContainerOwners::Uid,
        ..web.clone()
    };
    let mut written = Vec::new();
    for (hour, workload) in [web, pod, assigned, by_uid].into_iter().enumerate() {
        let pid = 7 + u32::try_from(hour).unwrap();
        let hour = i64::try_from(hour).unwrap();
        written.extend(record_hour(&mut store, hour, &with(pid, workload)));
    }
    let expected = [
        ("container:web", 1),
        ("pod:ml/train-0", 1),
        ("optics", 1),
        ("www-data", 1),
    ];
    assert_eq!(held(&place), hours(&expected));
    assert_eq!(read_all(&place.history()), written);
    let owners = place.history().owners().unwrap();
    for (name, _) in expected {
        assert!(owners.iter().any(|owner| owner.is_called(name)), "{name}");
    }
    let key = OwnerKey::Workload("container:web".into());
    let sessions = crate::sessions(&place.history(), all()).unwrap();
    assert!(
        sessions
            .iter()
            .any(|one| one.owner.as_ref().unwrap().who == key)
    );

    for name in ["container:web", "pod:ml/train-0", "optics"] {
        assert_eq!(store.forget(name).unwrap().known_as.len(), 1, "{name}");
    }
    store.close().unwrap();
    let bytes = std::fs::read(place.path()).unwrap();
    for name in [&b"train-0"[..], b"optics"] {
        assert!(!bytes.windows(name.len()).any(|part| part == name));
    }
    assert!(place.history().check(|_| {}).unwrap().is_clean());
}

#[test]
fn a_user_without_a_name_is_its_uid() {
    let place = Place::new();
    let mut store = place.store();
    let nameless = User {
        name: None,
        ..user(1001, "")
    };
    record_hour(&mut store, 0, &process(7, nameless, 900));
    record_hour(&mut store, 1, &process(8, user(1001, "ada"), 900));
    assert_eq!(held(&place), hours(&[("ada", 1), ("uid 1001", 1)]));
}
