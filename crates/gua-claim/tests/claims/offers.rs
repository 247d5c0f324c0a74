//! From an offer to a claim: the effect of a second observation, a kill, a stop and a release in between.

use std::time::Duration;

use gua_claim::{Answer, ClaimError, Grant, Offer, Request};

use crate::host::{FakeHost, gpus, process, request};

/// Process 9 requests on behalf of 10.
fn request_for_another() -> Request {
    Request {
        requester: process(9),
        ..request(10, 1)
    }
}

impl FakeHost {
    fn offered(&self) -> Offer {
        let answer = self
            .dir
            .take(&request_for_another(), &self.observed, &self.kernel)
            .unwrap();
        match answer {
            Answer::Offered(offer) => offer,
            other => panic!("not offered: {other:?}"),
        }
    }

    fn confirmed(&self) -> Grant {
        let grant = self
            .offered()
            .confirm(&self.dir, &self.observed, &self.kernel);
        grant.expect("the GPU is free")
    }
}

#[test]
fn a_claim_belongs_to_the_requester_until_it_is_handed_over() {
    let mut host = FakeHost::with_gpus(1);
    let grant = host.confirmed();
    assert_eq!(host.claimed(), gpus([0]));
    host.refused(11, 1);
    host.kernel.ended.insert(9);
    assert_eq!(
        host.claimed(),
        [],
        "a kill before the hand-over leaks nothing"
    );
    host.kernel.ended.clear();
    let claim = grant.hand_over(&host.dir, &host.kernel).unwrap();
    assert_eq!(claim.for_process, process(10));
    host.kernel.ended.insert(9);
    assert_eq!(host.claimed(), gpus([0]), "now it belongs to the other");
    host.kernel.ended.insert(10);
    assert_eq!(host.claimed(), []);
}

#[test]
fn a_dropped_offer_or_grant_is_released() {
    let host = FakeHost::with_gpus(1);
    drop(host.offered());
    assert_eq!(host.files(), Vec::<String>::new());
    drop(host.confirmed());
    assert_eq!(host.files(), Vec::<String>::new());
}

#[test]
fn a_gpu_claimed_used_and_released_between_observation_and_lock_is_not_granted_twice() {
    let mut host = FakeHost::with_gpus(1);
    let before = host.observed.clone();
    let other = host.granted(11, 1);
    host.dir.release(&other.id).unwrap();
    let answer = host.dir.take(&request_for_another(), &before, &host.kernel);
    let Ok(Answer::Offered(offer)) = answer else {
        panic!("in the old observation the GPU is free")
    };
    host.later(Duration::from_millis(1));
    host.comes_onto(0, 11, host.dir.me());
    host.shows_vacant([]);
    assert!(
        offer
            .confirm(&host.dir, &host.observed, &host.kernel)
            .is_none()
    );
    assert_eq!(host.files(), Vec::<String>::new(), "it is released");
}

#[test]
fn an_observation_older_than_the_offer_confirms_nothing() {
    let mut host = FakeHost::with_gpus(1);
    let before = host.observed.clone();
    host.later(Duration::from_millis(1));
    let offer = host.offered();
    assert!(offer.confirm(&host.dir, &before, &host.kernel).is_none());
    let offer = host.offered();
    let observed = host.observed.clone();
    host.later(Duration::from_mins(2));
    assert!(offer.confirm(&host.dir, &observed, &host.kernel).is_none());
}

#[test]
fn a_released_or_expired_claim_is_not_handed_over() {
    let mut host = FakeHost::with_gpus(1);
    let grant = host.confirmed();
    host.dir.release(&grant.claim().id).unwrap();
    let late = grant.hand_over(&host.dir, &host.kernel);
    assert!(matches!(late, Err(ClaimError::NoSuchClaim(_))), "{late:?}");
    assert_eq!(host.files(), Vec::<String>::new(), "and not created again");

    let grant = host.confirmed();
    host.later(Duration::from_hours(1));
    let late = grant.hand_over(&host.dir, &host.kernel);
    assert!(matches!(late, Err(ClaimError::TooLate(_))), "{late:?}");

    let grant = host.confirmed();
    host.kernel.ended.insert(10);
    let late = grant.hand_over(&host.dir, &host.kernel);
    assert!(matches!(late, Err(ClaimError::ProcessEnded)), "{late:?}");
    assert_eq!(host.files(), Vec::<String>::new());
}

#[test]
fn claim_duration_counts_from_the_lock_and_not_from_the_observation() {
    let mut host = FakeHost::with_gpus(1);
    let before = host.observed.clone();
    host.later(Duration::from_secs(50));
    let answer = host.dir.take(&request(10, 1), &before, &host.kernel);
    let Ok(Answer::Offered(offer)) = answer else {
        panic!("the observation is recent enough")
    };
    let claim = host.finish(offer);
    let lease = claim.deadline - host.kernel.now.since_boot;
    assert_eq!(lease, Duration::from_mins(10));
}
