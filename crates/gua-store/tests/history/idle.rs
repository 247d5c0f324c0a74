//! For how long idle GPUs and their holders have been idle, by what a history recorded.

use std::time::Duration;

use gua_model::idle::Idle;
use gua_model::since::{Since, Start};
use gua_model::{GpuUuid, Missing, Period, Process, RollUp, Thresholds, Tick};
use gua_query::idle::idle;
use gua_query::since::since;
use gua_query::{
    IdleQuestion, Others, Question, RecordsSource, SinceQuestion, Source as _, View, Viewer,
};
use gua_store::{History, NewRun, WriterOptions};
use gua_test::samples;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::{Place, open};

/// Time between ticks.
const MINUTE: Duration = Duration::from_secs(60);

fn start() -> Timestamp {
    "2026-11-02T00:00:00Z".parse().unwrap()
}

fn at(minute: i64) -> Timestamp {
    start() + SignedDuration::from_mins(minute)
}

/// Records one tick of one GPU a minute. `each` returns its utilisation and processes; nothing is recorded for `None`.
fn record(place: &Place, minutes: i64, each: impl Fn(i64) -> Option<(u32, Vec<Process>)>) {
    record_late(place, SignedDuration::ZERO, minutes, each);
}

/// The same, with each tick so much later.
fn record_late(
    place: &Place,
    late: SignedDuration,
    minutes: i64,
    each: impl Fn(i64) -> Option<(u32, Vec<Process>)>,
) {
    let mut store = place.store();
    let run = store.begin_run(&NewRun {
        started: start(),
        interval: MINUTE,
        host: "lab".to_owned(),
        version: "0".to_owned(),
        boot: None,
    });
    let run = run.unwrap();
    for minute in 0..minutes {
        if let Some((util, processes)) = each(minute) {
            let gpu = samples::gpu(0, "GPU-0", util, processes);
            let tick = Tick {
                sample: samples::sample(at(minute) + late, vec![gpu]),
                interval: MINUTE,
            };
            store.record(run, &tick).unwrap();
        }
    }
    while store.maintain(at(minutes)).unwrap().more {}
    store.close().unwrap();
}

fn held_by(pid: u32) -> Vec<Process> {
    vec![samples::process(pid, samples::user(1000, "ada"), 4000)]
}

fn gpu() -> GpuUuid {
    "GPU-0".parse().unwrap()
}

/// Minute since which the GPU has been idle, whether it is a bound, and unobserved minutes.
fn in_minutes(idle: Idle) -> (i64, Start, u64) {
    let since = idle.since.at.duration_since(start()).as_mins();
    (since, idle.since.start, idle.unobserved.0 / 60_000_000)
}

#[track_caller]
fn check(
    minutes: i64,
    each: impl Fn(i64) -> Option<(u32, Vec<Process>)>,
    expected: (i64, Start, u64),
) {
    let place = Place::new();
    record(&place, minutes, each);
    let question = IdleQuestion {
        gpus: vec![gpu()],
        thresholds: Thresholds::default(),
        at: at(minutes - 1),
    };
    let found = idle(&place.history(), &question).unwrap();
    assert_eq!(in_minutes(found[&gpu()].longest), expected);
}

#[test]
fn idle_since_the_gpu_was_last_active_however_long_ago() {
    // Active for the first 10 minutes of the hold, then idle for 26 hours.
    let each = |minute| Some((if minute < 10 { 90 } else { 0 }, held_by(1)));
    check(30, each, (10, Start::Seen, 0));
    check(10 + 26 * 60, each, (10, Start::Seen, 0));
    // Beyond the longest step of the search.
    check(10 + 9 * 24 * 60, each, (10, Start::Seen, 0));
}

#[test]
fn a_hold_without_any_use_is_idle_since_it_began() {
    let each = |minute| {
        Some(if minute < 200 {
            (0, Vec::new())
        } else {
            (0, held_by(1))
        })
    };
    check(400, each, (200, Start::Seen, 0));
    // The first tick of a history already shows the holder: it may have been there for longer.
    check(400, |_| Some((0, held_by(1))), (0, Start::AtLatest, 0));
}

#[test]
fn a_use_before_the_holder_came_does_not_count() {
    let each = |minute| {
        Some(match minute {
            0..50 => (90, held_by(1)),
            50..300 => (0, Vec::new()),
            _ => (0, held_by(2)),
        })
    };
    check(400, each, (300, Start::Seen, 0));
}

#[test]
fn a_gap_does_not_end_the_idle_time_and_is_stated() {
    let each = |minute| match minute {
        0..10 => Some((90, held_by(1))),
        100..160 => None,
        _ => Some((0, held_by(1))),
    };
    check(300, each, (10, Start::Seen, 60));
}

#[test]
fn holders_that_cannot_be_named_are_idle_since_the_gpu_was_active_or_free() {
    let nameless = || {
        let mut processes = held_by(1);
        processes[0].identity = Err(Missing::Gone);
        processes
    };
    let each = |minute| {
        Some(match minute {
            0..50 => (90, held_by(1)),
            _ => (0, nameless()),
        })
    };
    check(3000, each, (50, Start::Seen, 0));
    let each = |minute| {
        Some(match minute {
            0..1000 => (0, Vec::new()),
            _ => (0, nameless()),
        })
    };
    check(3000, each, (1000, Start::Seen, 0));
}

#[test]
fn a_state_is_no_older_than_the_first_tick_of_the_history() {
    let place = Place::new();
    let late = SignedDuration::from_secs(20);
    record_late(&place, late, 200, |_| Some((0, held_by(1))));
    let question = SinceQuestion {
        gpus: vec![(gpu(), RollUp::IdleHeld)],
        thresholds: Thresholds::default(),
        now: at(199) + late,
    };
    let found = since(&place.history(), &question).unwrap();
    let expected = Since {
        at: start() + late,
        start: Start::AtLatest,
    };
    assert_eq!(found[&gpu()], expected);
}

/// Without the ticks of that quarter hour, its end is the bound.
#[test]
fn where_ticks_are_no_longer_kept_the_last_use_is_known_to_the_quarter_hour() {
    let place = Place::new();
    let minutes = 30 * 60;
    record(&place, minutes, |minute| {
        Some((if minute < 50 { 90 } else { 0 }, held_by(1)))
    });
    let options = WriterOptions {
        keep_raw: Some(Duration::from_secs(3600)),
        ..WriterOptions::default()
    };
    let mut store = open(&place.path(), &options);
    while store.maintain(at(minutes)).unwrap().more {}
    store.close().unwrap();
    let question = IdleQuestion {
        gpus: vec![gpu()],
        thresholds: Thresholds::default(),
        at: at(minutes - 1),
    };
    let found = idle(&place.history(), &question).unwrap();
    assert_eq!(in_minutes(found[&gpu()].longest), (60, Start::AtLatest, 0));
}

#[test]
fn each_holder_has_its_own_time() {
    let place = Place::new();
    record(&place, 300, |minute| {
        let mut processes = held_by(1);
        if minute >= 120 {
            processes.extend(held_by(2));
        }
        Some((if minute < 60 { 90 } else { 0 }, processes))
    });
    let question = IdleQuestion {
        gpus: vec![gpu()],
        thresholds: Thresholds::default(),
        at: at(299),
    };
    let found = idle(&place.history(), &question).unwrap();
    let holders = found[&gpu()].holders.iter();
    let holders: Vec<_> = holders
        .map(|(process, idle)| (process.pid.0, in_minutes(*idle).0))
        .collect();
    assert_eq!(holders, [(1, 60), (2, 120)]);
}

/// Idle now does not depend on the window: the mean of the session does.
#[test]
fn a_report_lists_what_is_idle_at_the_last_tick_in_every_window() {
    let place = Place::new();
    // Busy for a day, then idle for an hour: the mean of the session is far above the threshold.
    let minutes = 25 * 60;
    record(&place, minutes, |minute| {
        Some((if minute < 24 * 60 { 90 } else { 0 }, held_by(1)))
    });
    let listed = |from: i64, to: i64| {
        let window = Period::new(at(from), at(to));
        let question = Question::of_window(window, TimeZone::UTC, at(to));
        let history = || Ok(Box::new(place.history()) as Box<dyn gua_query::Records>);
        let report = RecordsSource::new(history).report(&question).unwrap();
        let idle = report.idle_now().into_iter();
        let idle = idle.map(|hold| in_minutes(hold.idle.unwrap()).0);
        idle.collect::<Vec<_>>()
    };
    assert_eq!(listed(0, minutes), [24 * 60]);
    assert_eq!(listed(minutes - 60, minutes), [24 * 60]);
    assert_eq!(listed(minutes - 5, minutes), [24 * 60]);
    // A window that ends earlier ends with an active GPU.
    assert!(listed(0, 12 * 60).is_empty());
}

/// The last span of a process that exited ends with the tick that no longer shows it.
#[test]
fn a_process_that_is_gone_at_the_last_tick_is_not_idle_now() {
    let place = Place::new();
    record(&place, 60, |minute| {
        let pid = if minute < 59 { 1 } else { 2 };
        Some((0, held_by(pid)))
    });
    let question = Question::of_window(Period::new(at(0), at(60)), TimeZone::UTC, at(60));
    let history = || Ok(Box::new(place.history()) as Box<dyn gua_query::Records>);
    let report = RecordsSource::new(history).report(&question).unwrap();
    let idle: Vec<_> = report
        .idle_now()
        .into_iter()
        .map(|hold| hold.pid.unwrap().0)
        .collect();
    assert_eq!(idle, [2]);
}

/// A viewer who sees only sums of others still learns for how long a GPU has been idle.
#[test]
fn a_view_of_sums_has_the_time_of_the_gpu() {
    let place = Place::new();
    record(&place, 300, |minute| {
        Some((if minute < 60 { 90 } else { 0 }, held_by(1)))
    });
    let viewer = Viewer {
        uid: gua_model::Uid(7),
        name: Some("eve".to_owned()),
    };
    let history = History::open(&place.path()).unwrap();
    let view = View::new(Box::new(history), viewer, Others::Totals);
    let question = IdleQuestion {
        gpus: vec![gpu()],
        thresholds: Thresholds::default(),
        at: at(299),
    };
    let found = idle(&view, &question).unwrap();
    assert_eq!(in_minutes(found[&gpu()].longest), (60, Start::Seen, 0));
    assert!(found[&gpu()].holders.is_empty());
}
