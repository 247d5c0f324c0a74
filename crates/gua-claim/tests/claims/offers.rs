//! From an offer to a claim: what a second look, a kill, a stop and a release do in between.

use std::time::Duration;

use gua_claim::{Answer, ClaimError, Grant, Offer, Request};

use crate::host::{FakeHost, gpus, process, request};

/// The process 9 asks on behalf of 10.
fn asked_by_another() -> Request {
    Request {
        asker: process(9),
        ..request(10, 1)
    }
}

impl FakeHost {
    fn offered(&self) -> Offer {
        let answer = self
            .dir
            .take(&asked_by_another(), &self.look, &self.kernel)
            .unwrap();
        match answer {
            Answer::Offered(offer) => offer,
            other => panic!("not offered: {other:?}"),
        }
    }

    fn confirmed(&self) -> Grant {
        let grant = self.offered().confirm(&self.dir, &self.look, &self.kernel);
        grant.expect("the card is free")
    }
}

#[test]
fn a_claim_is_the_askers_until_it_is_handed_over() {
    let mut host = FakeHost::with_cards(1);
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
    assert_eq!(host.claimed(), gpus([0]), "now it is the other's");
    host.kernel.ended.insert(10);
    assert_eq!(host.claimed(), []);
}

#[test]
fn what_is_dropped_on_the_way_is_given_back() {
    let host = FakeHost::with_cards(1);
    drop(host.offered());
    assert_eq!(host.files(), Vec::<String>::new());
    drop(host.confirmed());
    assert_eq!(host.files(), Vec::<String>::new());
}

#[test]
fn a_card_that_was_claimed_used_and_given_back_between_look_and_lock_is_not_given_twice() {
    let mut host = FakeHost::with_cards(1);
    let before = host.look.clone();
    let other = host.granted(11, 1);
    host.dir.release(&other.id).unwrap();
    let answer = host.dir.take(&asked_by_another(), &before, &host.kernel);
    let Ok(Answer::Offered(offer)) = answer else {
        panic!("by the old look the card is free")
    };
    host.later(Duration::from_millis(1));
    host.comes_onto(0, 11, host.dir.me());
    host.shows_vacant([]);
    assert!(offer.confirm(&host.dir, &host.look, &host.kernel).is_none());
    assert_eq!(host.files(), Vec::<String>::new(), "it is given back");
}

#[test]
fn a_look_from_before_the_offer_confirms_nothing() {
    let mut host = FakeHost::with_cards(1);
    let before = host.look.clone();
    host.later(Duration::from_millis(1));
    let offer = host.offered();
    assert!(offer.confirm(&host.dir, &before, &host.kernel).is_none());
    let offer = host.offered();
    let look = host.look.clone();
    host.later(Duration::from_mins(2));
    assert!(offer.confirm(&host.dir, &look, &host.kernel).is_none());
}

#[test]
fn a_claim_that_was_given_back_or_is_over_is_not_handed_over() {
    let mut host = FakeHost::with_cards(1);
    let grant = host.confirmed();
    host.dir.release(&grant.claim().id).unwrap();
    let late = grant.hand_over(&host.dir, &host.kernel);
    assert!(matches!(late, Err(ClaimError::NoSuchClaim(_))), "{late:?}");
    assert_eq!(host.files(), Vec::<String>::new(), "and not made again");

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
fn leases_are_counted_from_the_lock_and_not_from_the_look() {
    let mut host = FakeHost::with_cards(1);
    let before = host.look.clone();
    host.later(Duration::from_secs(50));
    let answer = host.dir.take(&request(10, 1), &before, &host.kernel);
    let Ok(Answer::Offered(offer)) = answer else {
        panic!("the look is not too old")
    };
    let claim = host.finish(offer);
    let lease = claim.deadline - host.kernel.now.since_boot;
    assert_eq!(lease, Duration::from_mins(10));
}
