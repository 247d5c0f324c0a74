//! Order of service in the queue.

use std::time::Duration;

use gua_claim::{Answer, ClaimError, MAX_KEEP_TIME, MAX_WAIT, PidNamespace, Ticket};

use crate::host::{FakeHost, gpus, request};

struct Asker {
    pid: u32,
    count: usize,
    ticket: Ticket,
}

impl FakeHost {
    fn joins(&self, pid: u32, count: usize) -> Asker {
        let ticket = self
            .dir
            .join(&request(pid, count), &self.observed, &self.kernel)
            .unwrap();
        Asker { pid, count, ticket }
    }

    /// Whether the waiter's turn has come.
    fn serves(&self, requester: &mut Asker) -> bool {
        let request = request(requester.pid, requester.count);
        let answer = self
            .dir
            .advance(
                &mut requester.ticket,
                &request,
                &self.observed,
                &self.kernel,
            )
            .unwrap();
        match answer {
            Answer::Offered(offer) => {
                self.finish(offer);
                true
            }
            _ => false,
        }
    }
}

#[test]
fn first_come_first_served_and_a_request_without_waiting_does_not_jump_the_queue() {
    let host = FakeHost::with_gpus(1);
    let holder = host.granted(10, 1);
    let mut first = host.joins(11, 1);
    let mut second = host.joins(12, 1);
    assert!(!host.serves(&mut first));
    host.dir.release(&holder.id).unwrap();
    assert!(!host.serves(&mut second));
    assert_eq!(host.refused(13, 1).ahead.len(), 2);
    assert!(host.serves(&mut first));
}

#[test]
fn exited_and_cancelled_waiters_are_skipped_and_their_tickets_removed() {
    let mut host = FakeHost::with_gpus(1);
    let gone = host.joins(11, 1);
    let gave_up = host.joins(12, 1);
    let mut last = host.joins(13, 1);
    assert!(!host.serves(&mut last));
    drop(gave_up);
    assert!(!host.serves(&mut last));
    host.kernel.ended.insert(11);
    assert!(host.serves(&mut last));
    assert_eq!(host.files().len(), 2, "a claim and the last ticket");
    drop(gone);
}

#[test]
fn a_stopped_waiter_is_skipped_and_keeps_its_place() {
    let mut host = FakeHost::with_gpus(1);
    let mut stopped = host.joins(11, 1);
    let mut other = host.joins(12, 1);
    host.kernel.stopped.insert(11);
    assert!(host.serves(&mut other));
    host.kernel.stopped.clear();
    let mut third = host.joins(13, 1);
    host.kernel.ended.insert(12);
    assert!(!host.serves(&mut third));
    assert!(host.serves(&mut stopped));
}

#[test]
fn a_waiter_of_another_pid_namespace_counts_while_it_polls() {
    let mut host = FakeHost::with_gpus(1);
    host.kernel.namespace = Some(PidNamespace(1));
    let _waiting = host.joins(10, 1);
    host.kernel.namespace = Some(PidNamespace(2));
    host.kernel.ended.insert(10);
    assert_eq!(host.refused(11, 1).ahead.len(), 1);
    host.later(Duration::from_mins(3));
    host.granted(11, 1);
    let survey = host.dir.survey(&host.observed, &host.kernel).unwrap();
    assert_eq!(survey.queue.len(), 1, "it keeps its place");
}

#[test]
fn gpus_are_kept_for_a_large_request_and_the_rest_is_for_those_behind() {
    let host = FakeHost::with_gpus(4);
    let one = host.granted(10, 1);
    let mut large = host.joins(11, 4);
    let mut small = host.joins(12, 1);
    assert!(!host.serves(&mut large));
    assert!(
        !host.serves(&mut small),
        "the three free ones are kept for the large one"
    );
    host.dir.release(&one.id).unwrap();
    assert!(!host.serves(&mut small));
    assert!(host.serves(&mut large));
}

#[test]
fn a_small_request_takes_gpus_that_earlier_ones_do_not_need() {
    let mut host = FakeHost::with_gpus(3);
    let mut ahead = host.joins(11, 2);
    let mut small = host.joins(12, 1);
    assert!(host.serves(&mut small));
    assert!(host.serves(&mut ahead));
    host.kernel.ended.extend([11, 12]);
    host.asks_for([0]);
    let _picky = host.joins(13, 1);
    host.asks_for([0, 1]);
    assert_eq!(
        host.granted(14, 1).gpus,
        gpus([1]),
        "no wait for the other model"
    );
}

#[test]
fn idle_gpus_are_kept_for_a_large_request_for_at_most_an_hour() {
    let mut host = FakeHost::with_gpus(2);
    host.granted(10, 1);
    host.comes_onto(0, 10, host.dir.me());
    let mut large = host.joins(11, 2);
    host.later(MAX_KEEP_TIME - Duration::from_secs(1));
    let mut small = host.joins(12, 1);
    assert!(!host.serves(&mut small));
    host.later(Duration::from_secs(1));
    assert!(!host.serves(&mut large));
    assert!(host.serves(&mut small));
    host.kernel.ended.extend([10, 12]);
    host.observed.on_gpus.clear();
    let mut third = host.joins(13, 1);
    assert!(
        !host.serves(&mut third),
        "now there is enough for the large one, who came first"
    );
    assert!(host.serves(&mut large));
}

#[test]
fn a_request_for_more_gpus_than_the_host_has_delays_nobody() {
    let mut host = FakeHost::with_gpus(2);
    let mut large = host.joins(11, 2);
    let mut small = host.joins(12, 1);
    host.observed.gpus = 1;
    host.shows_vacant([0]);
    assert!(host.serves(&mut small), "a GPU was lost meanwhile");
    let again = host.dir.advance(
        &mut large.ticket,
        &request(11, 2),
        &host.observed,
        &host.kernel,
    );
    assert!(matches!(again, Err(ClaimError::Impossible { .. })));
}

#[test]
fn a_ticket_expires() {
    let mut host = FakeHost::with_gpus(1);
    let _forgotten = host.joins(11, 1);
    host.later(MAX_WAIT + Duration::from_secs(1));
    host.granted(12, 1);
}

#[test]
fn a_ticket_with_a_forged_early_arrival_does_not_jump_the_queue() {
    let host = FakeHost::with_gpus(1);
    let mut honest = host.joins(11, 1);
    let forger = host.joins(12, 1);
    let user_dir = host.user_dir();
    for name in host.files() {
        let path = user_dir.join(&name);
        let text = std::fs::read_to_string(&path).unwrap();
        if text.contains("\"pid\":12") {
            let since = text.split("\"arrived_us\":").nth(1).unwrap();
            let since = since.split(',').next().unwrap();
            std::fs::write(&path, text.replace(since, "5")).unwrap();
        }
    }
    assert!(host.serves(&mut honest));
    drop(forger);
}

#[test]
fn a_gpu_freed_by_a_job_goes_to_the_first_in_the_queue_in_any_polling_order() {
    let mut host = FakeHost::with_gpus(2);
    host.shows_vacant([]);
    let mut first = host.joins(11, 1);
    let mut second = host.joins(12, 1);
    assert!(!host.serves(&mut first));
    assert!(!host.serves(&mut second));
    host.shows_vacant([1]);
    assert!(!host.serves(&mut second));
    assert_eq!(host.refused(13, 1).ahead.len(), 2);
    let survey = host.dir.survey(&host.observed, &host.kernel).unwrap();
    let kept = survey.kept(&host.observed, &host.kernel);
    assert_eq!(kept.into_iter().collect::<Vec<_>>(), gpus([1]));
    assert!(host.serves(&mut first));
}

#[test]
fn a_gpu_that_earlier_waiters_would_not_take_is_not_kept_for_them() {
    let mut host = FakeHost::with_gpus(2);
    host.shows_vacant([]);
    host.asks_for([0]);
    let _picky = host.joins(11, 1);
    host.asks_for([0, 1]);
    let mut second = host.joins(12, 1);
    host.shows_vacant([1]);
    assert!(host.serves(&mut second));
    // A request for a GPU that the earlier waiters do not need does not wait for them.
    host.kernel.ended.extend([11, 12]);
    let mut any = host.joins(13, 1);
    host.asks_for([1]);
    let mut only_one = host.joins(14, 1);
    host.shows_vacant([0, 1]);
    assert!(host.serves(&mut only_one), "GPU 0 is left for the first");
    host.asks_for([0, 1]);
    assert!(host.serves(&mut any));
}

#[test]
fn setting_the_wall_clock_changes_no_position() {
    for step in [-7200, -60, -6, 6, 7200] {
        let mut host = FakeHost::with_gpus(1);
        host.shows_vacant([]);
        let mut first = host.joins(11, 1);
        host.later(Duration::from_secs(1));
        host.kernel.now.wall += jiff::SignedDuration::from_secs(step);
        host.later(Duration::from_secs(1));
        let mut second = host.joins(12, 1);
        host.shows_vacant([0]);
        assert!(!host.serves(&mut second), "{step}");
        let survey = host.dir.survey(&host.observed, &host.kernel).unwrap();
        let order: Vec<_> = survey.queue.iter().map(|one| one.process.pid.0).collect();
        assert_eq!(order, [11, 12], "{step}");
        assert!(host.serves(&mut first), "{step}");
    }
}

#[test]
fn an_observation_from_before_a_stop_removes_no_ticket_and_is_not_used() {
    let mut host = FakeHost::with_gpus(1);
    let old = host.observed.clone();
    host.later(Duration::from_hours(3));
    let mut waiting = host.joins(11, 1);
    let taken = host.dir.take(&request(12, 1), &old, &host.kernel).unwrap();
    assert!(matches!(taken, Answer::StaleSample), "{taken:?}");
    host.dir.survey(&old, &host.kernel).unwrap();
    let _third = host.dir.join(&request(13, 1), &old, &host.kernel).unwrap();
    assert_eq!(host.files().len(), 2, "both tickets are there");
    assert!(host.serves(&mut waiting));
}

#[test]
fn a_removed_ticket_is_restored_at_its_old_place() {
    let mut host = FakeHost::with_gpus(1);
    host.shows_vacant([]);
    let mut first = host.joins(11, 1);
    let mut second = host.joins(12, 1);
    let remove = |what: &str| match what {
        "user_dir" => std::fs::remove_dir_all(host.user_dir()).unwrap(),
        _ => host
            .files()
            .iter()
            .for_each(|name| std::fs::remove_file(host.user_dir().join(name)).unwrap()),
    };
    for what in ["files", "user_dir"] {
        remove(what);
        assert!(!host.serves(&mut first));
        assert!(!host.serves(&mut second));
        assert_eq!(host.files().len(), 2, "{what}");
    }
    host.shows_vacant([0]);
    assert!(!host.serves(&mut second));
    assert!(host.serves(&mut first));
}

#[test]
fn waiters_far_back_poll_less_often() {
    use gua_claim::ClaimDir;
    assert_eq!(ClaimDir::pause(0), Duration::from_millis(300));
    assert!(ClaimDir::pause(1) <= Duration::from_millis(500));
    assert_eq!(ClaimDir::pause(usize::MAX), Duration::from_millis(1900));
}
