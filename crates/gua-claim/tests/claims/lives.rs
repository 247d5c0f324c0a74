//! Beginning and end of claims.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use gua_claim::{
    Answer, ClaimDir, ClaimError, ClaimedBy, MAX_LEASE, PidNamespace, Request, Session,
};
use gua_model::{BootId, Uid};
use gua_test::runs_as_root;

use crate::host::{FakeHost, gpus, request};

#[test]
fn two_requests_get_different_gpus_and_a_third_learns_the_holders() {
    let host = FakeHost::with_gpus(2);
    assert_eq!(host.granted(10, 1).gpus, gpus([0]));
    assert_eq!(host.granted(11, 1).gpus, gpus([1]));
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
fn a_request_is_refused_rather_than_granted_in_part() {
    let host = FakeHost::with_gpus(3);
    host.granted(10, 1);
    assert_eq!(host.refused(11, 3).left, gpus([1, 2]));
    assert_eq!(host.claimed(), gpus([0]));
}

#[test]
fn further_gpus_are_granted_when_they_are_free_and_wanted() {
    let host = FakeHost::with_gpus(4);
    host.granted(10, 1);
    let request = Request {
        at_most: 8,
        ..request(11, 2)
    };
    let answer = host
        .dir
        .take(&request, &host.observed, &host.kernel)
        .unwrap();
    assert!(matches!(answer, Answer::Offered(offer) if offer.gpus() == gpus([1, 2, 3])));
}

#[test]
fn a_claim_ends_at_its_deadline_and_its_file_is_removed_at_the_owners_next_call() {
    let mut host = FakeHost::with_gpus(1);
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
    let mut host = FakeHost::with_gpus(2);
    host.granted(10, 1);
    host.granted(11, 1);
    host.kernel.ended.insert(10);
    assert_eq!(host.claimed(), gpus([1]));
    host.kernel.reused.insert(11, 999);
    assert_eq!(host.claimed(), []);
    assert!(matches!(
        host.dir.take(&request(10, 1), &host.observed, &host.kernel),
        Err(ClaimError::ProcessEnded)
    ));
}

#[test]
fn a_claim_of_another_pid_namespace_counts_until_its_deadline() {
    let mut host = FakeHost::with_gpus(1);
    host.kernel.namespace = Some(PidNamespace(1));
    host.granted(10, 1);
    // Seen from another namespace, the pid does not exist, or it is another user's process on the GPU.
    host.kernel.namespace = Some(PidNamespace(2));
    host.kernel.ended.insert(10);
    host.refused(11, 1);
    assert_eq!(host.files().len(), 1, "its file is not removed");
    host.comes_onto(0, 10, host.dir.me());
    host.later(Duration::from_mins(11));
    assert_eq!(host.claimed(), []);
    host.kernel.ended.clear();
    host.kernel.namespace = Some(PidNamespace(1));
    assert_eq!(host.claimed(), gpus([0]), "in that namespace it is in use");
}

#[test]
fn a_claim_does_not_survive_a_reboot() {
    let mut host = FakeHost::with_gpus(1);
    host.granted(10, 1);
    host.observed.at.boot = BootId(2);
    assert_eq!(host.claimed(), []);
}

#[test]
fn past_its_deadline_a_claim_keeps_only_the_gpus_that_its_processes_use() {
    let mut host = FakeHost::with_gpus(3);
    host.granted(10, 3);
    let me = host.dir.me();
    host.comes_onto(0, 10, me);
    host.comes_onto(1, 77, me);
    host.kernel.descends.insert((77, 10));
    host.comes_onto(2, 88, me);
    host.later(Duration::from_hours(5));
    assert_eq!(host.claimed(), gpus([0, 1]), "88 is not a descendant of 10");
    let survey = host.dir.survey(&host.observed, &host.kernel).unwrap();
    assert!(
        survey.claims[0]
            .gpus
            .iter()
            .all(|gpu| gpu.by == ClaimedBy::Use)
    );
    host.observed.on_gpus.clear();
    assert_eq!(host.claimed(), [], "it left, and the deadline has passed");
}

#[test]
fn a_claim_outlives_its_process_while_a_child_is_on_the_gpu() {
    let mut host = FakeHost::with_gpus(3);
    host.kernel.sessions.insert(10, Session(10));
    host.granted(10, 3);
    let me = host.dir.me();
    // `nohup train &` in shell 10, which then exits: 77 has another parent now, but is still in the shell's session.
    host.comes_onto(0, 77, me);
    host.kernel.sessions.insert(77, Session(10));
    host.comes_onto(1, 88, me);
    host.kernel.sessions.insert(88, Session(88));
    host.kernel.sessions.remove(&10);
    host.kernel.ended.insert(10);
    assert_eq!(host.claimed(), gpus([0]), "88 is of another session");
    let survey = host.dir.survey(&host.observed, &host.kernel).unwrap();
    assert_eq!(survey.claims[0].left, Duration::ZERO);
    host.later(Duration::from_hours(5));
    assert_eq!(host.claimed(), gpus([0]));
    // Another user's process in that session does not keep the claim.
    host.observed.on_gpus[0].user = Some(Uid(4242));
    if me != Uid::ROOT {
        assert_eq!(host.claimed(), []);
    }
    host.observed.on_gpus.clear();
    assert_eq!(host.claimed(), []);
}

#[test]
fn a_process_that_starts_after_the_observation_keeps_its_claim() {
    let mut host = FakeHost::with_gpus(2);
    host.kernel.sessions.insert(10, Session(10));
    host.granted(10, 1);
    host.kernel.sessions.insert(77, Session(10));
    host.kernel.ended.insert(10);
    // The observation is older than the start of 77, and newer than the exit of 10.
    let Answer::Offered(offer) = host.take(11, 2) else {
        panic!("nothing was on the GPU in that observation")
    };
    host.comes_onto(0, 77, host.dir.me());
    host.shows_vacant([1]);
    assert!(
        offer
            .confirm(&host.dir, &host.observed, &host.kernel)
            .is_none()
    );
    assert_eq!(host.claimed(), gpus([0]), "the first claim is in use");
    assert_eq!(host.granted(11, 1).gpus, gpus([1]));
}

#[test]
fn a_gpu_whose_processes_cannot_be_read_stays_claimed() {
    let mut host = FakeHost::with_gpus(2);
    host.granted(10, 2);
    host.observed.unread = gpus([0]);
    host.later(Duration::from_hours(1));
    let survey = host.dir.survey(&host.observed, &host.kernel).unwrap();
    assert_eq!(survey.claims[0].gpus.len(), 1);
    assert_eq!(survey.claims[0].gpus[0].by, ClaimedBy::Doubt);
    assert_eq!(host.granted(11, 1).gpus, gpus([1]));
    assert_eq!(host.files().len(), 2);
}

#[test]
fn another_users_process_does_not_keep_a_claim_alive() {
    let mut host = FakeHost::with_gpus(1);
    if host.dir.me() == Uid::ROOT {
        // Root's claims are kept by any process that root started, so the user directory is given to another user.
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
fn a_clock_change_moves_no_deadline() {
    let mut host = FakeHost::with_gpus(1);
    host.granted(10, 1);
    host.observed.at.wall += Duration::from_hours(1000);
    assert_eq!(host.claimed(), gpus([0]));
    host.observed.at.wall -= Duration::from_hours(2000);
    assert_eq!(host.claimed(), gpus([0]));
}

#[test]
fn a_released_gpu_is_free_and_cannot_be_released_twice() {
    let host = FakeHost::with_gpus(1);
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
fn impossible_and_unlimited_requests_are_refused() {
    let host = FakeHost::with_gpus(2);
    let ask = |request: &Request| host.dir.take(request, &host.observed, &host.kernel);
    assert!(matches!(
        ask(&request(10, 3)),
        Err(ClaimError::Impossible { wanted: 3, gpus: 2 })
    ));
    assert!(matches!(ask(&request(10, 0)), Err(ClaimError::NoGpus)));
    let endless = Request {
        lease: MAX_LEASE + Duration::from_secs(1),
        ..request(10, 1)
    };
    assert!(matches!(ask(&endless), Err(ClaimError::TooLong)));
}

#[test]
fn a_held_lock_ends_a_request_and_release_still_works() {
    let host = FakeHost::with_gpus(2);
    let claim = host.granted(10, 1);
    let folder = fs::File::open(host.path()).unwrap();
    folder.lock().unwrap();
    let answer = host.dir.take(&request(11, 1), &host.observed, &host.kernel);
    assert!(matches!(answer, Err(ClaimError::Busy { .. })), "{answer:?}");
    host.dir.release(&claim.id).unwrap();
    drop(folder);
    host.granted(11, 2);
}

#[test]
fn the_first_directory_that_everyone_can_write_is_found() {
    if !runs_as_root("the shared directory of claims") {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let place = |name: &str, mode: u32| {
        let path = parent.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    };
    let missing = parent.path().join("missing");
    let places = [
        missing,
        place("private", 0o755),
        place("shared", 0o1777),
        place("later", 0o1777),
    ];
    assert_eq!(ClaimDir::find(&places).unwrap().path(), places[2]);
    assert!(ClaimDir::find(&places[..2]).is_err());
}
