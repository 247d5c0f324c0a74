//! Refusals: the requesting process records the request, the ticks show who held the GPUs.

use gua_model::refusal::{Blocking, RefusalOutcome, RequestRecord};
use gua_model::{Tick, Uid, User};
use gua_store::{Kept, NewRefusal, Store};
use jiff::{SignedDuration, Timestamp};

use crate::{Place, all, begin, record};
use gua_test::synthetic::SyntheticHost;

fn refusal_at(at: Timestamp, uid: u32, event: &str, tick: &Tick) -> NewRefusal {
    let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap();
    let mut gpus: Vec<_> = tick
        .sample
        .gpus
        .iter()
        .map(|gpu| gpu.uuid.clone())
        .collect();
    gpus.push("GPU-nobody-has-it".parse().unwrap());
    NewRefusal {
        request: RequestRecord {
            at,
            requester: User {
                uid: Uid(uid),
                name: Some(format!("requester-{uid}")),
            },
            wanted: 2,
            had: 1,
            outcome: RefusalOutcome::GaveUp,
            waited: SignedDuration::from_secs(90),
        },
        event: event.to_owned(),
        gpus,
    }
}

/// A history of a small host whose last tick has a holder.
fn recorded(place: &Place) -> (Store, SyntheticHost, Tick) {
    let mut store = place.store();
    let mut host = SyntheticHost::small();
    let run = begin(&mut store, &host);
    let tick = loop {
        let tick = record(&mut store, run, &mut host, 1).remove(0);
        if !holders(&tick).is_empty() {
            break tick;
        }
    };
    (store, host, tick)
}

fn holders(tick: &Tick) -> Vec<Blocking> {
    let thresholds = gua_model::Thresholds::default();
    let mut found = Vec::new();
    for gpu in &tick.sample.gpus {
        let state = gua_model::classify(gpu, &thresholds, None).state;
        for process in gua_model::classify::holders(gpu, &thresholds) {
            let Some(owner) = process.identity.as_ref().ok().and_then(|who| who.owner()) else {
                continue;
            };
            let blocking = Blocking {
                gpu: gpu.uuid.clone(),
                holder: owner.who,
                is_idle: state.roll_up() == Some(gua_model::RollUp::IdleHeld),
            };
            if !found.contains(&blocking) {
                found.push(blocking);
            }
        }
    }
    found.sort_by_key(|block| (block.gpu.clone(), block.holder.clone()));
    found
}

#[test]
fn holders_of_the_gpus_come_from_the_ticks() {
    let place = Place::new();
    let (mut store, _, tick) = recorded(&place);
    let at = tick.sample.at + SignedDuration::from_secs(5);
    let new = refusal_at(at, 4001, "event-1", &tick);
    assert_eq!(
        store.record_refusal(&new, tick.sample.at).unwrap(),
        Kept::Yes
    );
    let kept = place.history().refusals(all()).unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].request, new.request);
    assert_eq!(kept[0].blocked_by, holders(&tick));
    // Nothing was observed at that time, so no holder is named.
    let long_ago = at - SignedDuration::from_hours(50);
    let new = refusal_at(long_ago, 4001, "event-0", &tick);
    assert_eq!(
        store.record_refusal(&new, tick.sample.at).unwrap(),
        Kept::Yes
    );
    assert_eq!(place.history().refusals(all()).unwrap()[0].blocked_by, []);
    assert!(place.history().check(|_| {}).unwrap().is_clean());
    let stats = place.history().stats().unwrap();
    assert!(
        stats
            .tables
            .iter()
            .any(|table| table.name == "refusal" && table.rows == 2)
    );
}

#[test]
fn an_event_is_stored_once_and_a_flood_is_limited() {
    let place = Place::new();
    let (mut store, _, tick) = recorded(&place);
    let at = tick.sample.at;
    let arrived = at;
    let mut keep_at = |at, uid, event: &str| {
        store
            .record_refusal(&refusal_at(at, uid, event, &tick), arrived)
            .unwrap()
    };
    let mut keep = |uid, event: &str| keep_at(at, uid, event);
    assert_eq!(keep(4001, "event-1"), Kept::Yes);
    assert_eq!(keep(4001, "event-1"), Kept::No);
    // Another user may use the same event name.
    assert_eq!(keep(4002, "event-1"), Kept::Yes);
    let kept = (0..300).filter(|number| keep(4001, &format!("flood-{number}")) == Kept::Yes);
    assert_eq!(kept.count(), 199);
    assert_eq!(keep(4002, "event-2"), Kept::Yes);
    // The time in an event gives it no budget of another day.
    let yesterday = at - SignedDuration::from_hours(24);
    assert_eq!(keep_at(yesterday, 4001, "older"), Kept::No);
}

#[test]
fn an_erased_user_is_removed_from_refusals_and_does_not_come_back() {
    let place = Place::new();
    let (mut store, _, tick) = recorded(&place);
    let new = refusal_at(tick.sample.at, 4001, "event-1", &tick);
    store.record_refusal(&new, tick.sample.at).unwrap();
    let forgotten = store.forget("requester-4001").unwrap();
    let uid = Uid(forgotten.known_as[0].0);
    let kept = place.history().refusals(all()).unwrap();
    assert_eq!(kept[0].request.requester.uid, uid);
    assert_eq!(
        store.record_refusal(&new, tick.sample.at).unwrap(),
        Kept::No
    );
    let holder = holders(&tick)[0].holder.clone();
    store.forget(&holder.shown()).unwrap();
    let kept = place.history().refusals(all()).unwrap();
    assert!(
        kept[0]
            .blocked_by
            .iter()
            .all(|block| block.holder != holder)
    );
    assert!(place.history().check(|_| {}).unwrap().is_clean());
}
