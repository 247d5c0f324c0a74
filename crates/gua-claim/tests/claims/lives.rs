//! When a claim begins and ends.

use std::time::Duration;

use gua_claim::{
    Answer, ClaimDir, ClaimError, ClaimedBy, LONGEST_LEASE, PidNamespace, Request, Session,
};
use gua_model::{BootId, Uid};

use crate::host::{FakeHost, gpus, request};

#[test]
fn two_askers_get_different_cards_and_a_third_hears_who_has_them() {
    let host = FakeHost::with_cards(2);
    assert_eq!(host.granted(10, 1).cards, gpus([0]));
    assert_eq!(host.granted(11, 1).cards, gpus([1]));
    let short = host.refused(12, 1);
    assert_eq!(short.left, []);
    let claimants: Vec<_> = short
        .claims
        .iter()
        .map(|live| live.claim.for_process.pid.0)
        .collect();
    assert_eq!(claimants.len(), 2);
    assert!(claimants.contains(&10) && claimants.contains(&11));
}

#[test]
fn too_few_cards_are_refused_rather_than_given_in_part() {
    let host = FakeHost::with_cards(3);
    host.granted(10, 1);
    assert_eq!(host.refused(11, 3).left, gpus([1, 2]));
    assert_eq!(host.claimed(), gpus([0]));
}

#[test]
fn more_cards_are_taken_when_they_are_free_and_wanted() {
    let host = FakeHost::with_cards(4);
    host.granted(10, 1);
    let request = Request {
        at_most: 8,
        ..request(11, 2)
    };
    let answer = host.dir.take(&request, &host.look, &host.kernel).unwrap();
    assert!(matches!(answer, Answer::Offered(offer) if offer.cards() == gpus([1, 2, 3])));
}

#[test]
fn a_claim_ends_at_its_deadline_and_its_file_goes_with_the_owners_next_call() {
    let mut host = FakeHost::with_cards(1);
    host.granted(10, 1);
    host.later(Duration::from_mins(10) - Duration::from_micros(1));
    assert_eq!(host.claimed(), gpus([0]));
    host.later(Duration::from_micros(1));
    assert_eq!(host.claimed(), []);
    host.granted(11, 1);
    assert_eq!(host.files().len(), 1);
}

#[test]
fn a_claim_ends_with_its_holder_and_a_reused_pid_is_not_the_holder() {
    let mut host = FakeHost::with_cards(2);
    host.granted(10, 1);
    host.granted(11, 1);
    host.kernel.ended.insert(10);
    assert_eq!(host.claimed(), gpus([1]));
    host.kernel.reused.insert(11, 999);
    assert_eq!(host.claimed(), []);
    assert!(matches!(
        host.dir.take(&request(10, 1), &host.look, &host.kernel),
        Err(ClaimError::ProcessEnded)
    ));
}

#[test]
fn a_claim_of_another_pid_namespace_counts_until_its_deadline_and_no_longer() {
    let mut host = FakeHost::with_cards(1);
    host.kernel.namespace = Some(PidNamespace(1));
    host.granted(10, 1);
    // From elsewhere: there is no such pid, or it is a process of somebody else that is on the card.
    host.kernel.namespace = Some(PidNamespace(2));
    host.kernel.ended.insert(10);
    host.refused(11, 1);
    assert_eq!(host.files().len(), 1, "and it is not swept");
    host.comes_onto(0, 10, host.dir.me());
    host.later(Duration::from_mins(11));
    assert_eq!(host.claimed(), []);
    host.kernel.ended.clear();
    host.kernel.namespace = Some(PidNamespace(1));
    assert_eq!(host.claimed(), gpus([0]), "there it is in use");
}

#[test]
fn a_claim_does_not_outlive_its_boot() {
    let mut host = FakeHost::with_cards(1);
    host.granted(10, 1);
    host.look.at.boot = BootId(2);
    assert_eq!(host.claimed(), []);
}

#[test]
fn past_its_deadline_a_claim_keeps_the_cards_that_its_processes_use_and_no_others() {
    let mut host = FakeHost::with_cards(3);
    host.granted(10, 3);
    let me = host.dir.me();
    host.comes_onto(0, 10, me);
    host.comes_onto(1, 77, me);
    host.kernel.descends.insert((77, 10));
    host.comes_onto(2, 88, me);
    host.later(Duration::from_hours(5));
    assert_eq!(host.claimed(), gpus([0, 1]), "88 is no descendant of 10");
    let survey = host.dir.survey(&host.look, &host.kernel).unwrap();
    assert!(
        survey.claims[0]
            .cards
            .iter()
            .all(|card| card.by == ClaimedBy::Use)
    );
    host.look.on_cards.clear();
    assert_eq!(host.claimed(), [], "it left, and the deadline has passed");
}

#[test]
fn a_claim_outlives_its_process_while_something_that_it_started_is_on_the_card() {
    let mut host = FakeHost::with_cards(3);
    host.kernel.sessions.insert(10, Session(10));
    host.granted(10, 3);
    let me = host.dir.me();
    // `nohup train &` in the shell 10, which then ends: 77 belongs to another parent, and still to the shell's session.
    host.comes_onto(0, 77, me);
    host.kernel.sessions.insert(77, Session(10));
    host.comes_onto(1, 88, me);
    host.kernel.sessions.insert(88, Session(88));
    host.kernel.sessions.remove(&10);
    host.kernel.ended.insert(10);
    assert_eq!(host.claimed(), gpus([0]), "88 is of another session");
    let survey = host.dir.survey(&host.look, &host.kernel).unwrap();
    assert_eq!(survey.claims[0].left, Duration::ZERO);
    host.later(Duration::from_hours(5));
    assert_eq!(host.claimed(), gpus([0]));
    // What another user's process does in that session keeps nothing.
    host.look.on_cards[0].user = Some(Uid(4242));
    if me != Uid::ROOT {
        assert_eq!(host.claimed(), []);
    }
    host.look.on_cards.clear();
    assert_eq!(host.claimed(), []);
}

#[test]
fn what_came_onto_a_card_after_the_look_is_not_swept() {
    let mut host = FakeHost::with_cards(2);
    host.kernel.sessions.insert(10, Session(10));
    host.granted(10, 1);
    host.kernel.sessions.insert(77, Session(10));
    host.kernel.ended.insert(10);
    // The look is from before 77 came onto the card, the end of 10 from after it.
    let Answer::Offered(offer) = host.take(11, 2) else {
        panic!("at that look nobody was on the card")
    };
    host.comes_onto(0, 77, host.dir.me());
    host.shows_vacant([1]);
    assert!(offer.confirm(&host.dir, &host.look, &host.kernel).is_none());
    assert_eq!(
        host.claimed(),
        gpus([0]),
        "the first claim, which is in use"
    );
    assert_eq!(host.granted(11, 1).cards, gpus([1]));
}

#[test]
fn a_card_whose_processes_cannot_be_read_stays_claimed() {
    let mut host = FakeHost::with_cards(2);
    host.granted(10, 2);
    host.look.unread = gpus([0]);
    host.later(Duration::from_hours(1));
    let survey = host.dir.survey(&host.look, &host.kernel).unwrap();
    assert_eq!(survey.claims[0].cards.len(), 1);
    assert_eq!(survey.claims[0].cards[0].by, ClaimedBy::Doubt);
    assert_eq!(host.granted(11, 1).cards, gpus([1]));
    assert_eq!(host.files().len(), 2);
}

#[test]
fn the_process_of_another_user_does_not_keep_a_claim_alive() {
    let mut host = FakeHost::with_cards(1);
    if host.dir.me() == Uid::ROOT {
        // Root's claims are kept by whatever root's process started, so the user directory is given to another user.
        host.granted(10, 1);
        give_to_another(&host);
    } else {
        host.granted(10, 1);
    }
    host.comes_onto(0, 10, Uid(4242));
    host.later(Duration::from_hours(1));
    assert_eq!(host.claimed(), []);
}

fn give_to_another(host: &FakeHost) {
    let user_dir = host.user_dir();
    for file in host.files() {
        std::os::unix::fs::chown(user_dir.join(file), Some(20_001), None).unwrap();
    }
    std::os::unix::fs::chown(user_dir, Some(20_001), None).unwrap();
}

#[test]
fn a_clock_that_is_set_changes_no_deadline() {
    let mut host = FakeHost::with_cards(1);
    host.granted(10, 1);
    host.look.at.wall += Duration::from_hours(1000);
    assert_eq!(host.claimed(), gpus([0]));
    host.look.at.wall -= Duration::from_hours(2000);
    assert_eq!(host.claimed(), gpus([0]));
}

#[test]
fn a_released_card_is_free_and_cannot_be_released_twice() {
    let host = FakeHost::with_cards(1);
    let claim = host.granted(10, 1);
    let released = host.dir.release(&claim.id).unwrap();
    assert_eq!(released, std::slice::from_ref(&claim));
    assert_eq!(host.claimed(), []);
    assert!(matches!(
        host.dir.release(&claim.id),
        Err(ClaimError::NoSuchClaim(_))
    ));
}

#[test]
fn impossible_and_endless_requests_are_refused() {
    let host = FakeHost::with_cards(2);
    let ask = |request: &Request| host.dir.take(request, &host.look, &host.kernel);
    assert!(matches!(
        ask(&request(10, 3)),
        Err(ClaimError::Impossible {
            wanted: 3,
            cards: 2
        })
    ));
    assert!(matches!(ask(&request(10, 0)), Err(ClaimError::NoCards)));
    let endless = Request {
        lease: LONGEST_LEASE + Duration::from_secs(1),
        ..request(10, 1)
    };
    assert!(matches!(ask(&endless), Err(ClaimError::TooLong { .. })));
}

#[test]
fn whoever_sits_on_the_lock_is_named_and_release_still_works() {
    let host = FakeHost::with_cards(2);
    let claim = host.granted(10, 1);
    let folder = std::fs::File::open(host.path()).unwrap();
    folder.lock().unwrap();
    let answer = host.dir.take(&request(11, 1), &host.look, &host.kernel);
    assert!(matches!(answer, Err(ClaimError::Busy { .. })), "{answer:?}");
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let sitter = host.dir.lock_owner(&locks).map(|pid| pid.0);
    assert_eq!(sitter, Some(std::process::id()));
    host.dir.release(&claim.id).unwrap();
    drop(folder);
    host.granted(11, 2);
}

#[test]
fn the_usual_places_hold_one_that_everyone_can_write() {
    let found = ClaimDir::find(&gua_claim::USUAL_PLACES).unwrap();
    assert!(
        gua_claim::USUAL_PLACES
            .iter()
            .any(|place| found.path() == *place)
    );
}
