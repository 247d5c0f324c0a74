//! Other people's records, as a user sees them through a view.

use std::time::Duration;

use gua_model::report::Report;
use gua_model::{Missing, OwnerKey, Period, Quarter, Tick, Uid, User};
use gua_query::records::Origin;
use gua_query::{
    Detail, Others, QueryError, Question, Records, RecordsSource, Source as _, UsageQuestion, View,
    Viewer,
};
use gua_store::{History, NewRun};
use gua_test::samples;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::Place;

const ADA: u32 = 1001;

/// Words that lead to another person.
const HIDDEN: [&str; 19] = [
    "bob",
    "carol",
    "dora",
    "thesis",
    "4f5e",
    "mallory",
    "vision",
    "frank",
    "zoe",
    "www-data",
    "Uid(1002)",
    "Uid(1003)",
    "Uid(1005)",
    "Uid(1006)",
    "Pid(20)",
    "Pid(40)",
    "Pid(50)",
    "Pid(60)",
    "Pid(70)",
];

/// One hour in which ada and bob share one GPU, carol holds another, nobody knows who holds the third, and a pod, a group
/// and an earlier user with the uid of ada share the fourth.
fn recorded(place: &Place) -> Period {
    let from: Timestamp = "2026-11-02T00:00:00Z".parse().unwrap();
    let mut store = place.store();
    let run = store.begin_run(&NewRun {
        started: from,
        interval: Duration::from_secs(60),
        host: "lab".to_owned(),
        version: "0".to_owned(),
        boot: None,
    });
    let run = run.unwrap();
    let mut at = from;
    for _ in 0..60 {
        let process = |pid, uid, name| samples::process(pid, samples::user(uid, name), 4000);
        let mut unknown = process(40, 1004, "eve");
        unknown.identity = Err(Missing::Denied);
        let mut pod = process(50, 33, "www-data");
        if let Ok(identity) = &mut pod.identity {
            identity.login = Ok(None);
            identity.claimed_login = Some(samples::user(1005, "mallory"));
            identity.workload.pod = Some("4f5e".parse().unwrap());
            identity.workload.pod_name = Some("thesis/dora".to_owned());
            identity.workload.container_name = Some("dora-train".to_owned());
        }
        let mut group = process(60, 1006, "frank");
        if let Ok(identity) = &mut group.identity {
            identity.workload.assigned = Some("vision".to_owned());
        }
        let gpus = vec![
            samples::gpu(
                0,
                "GPU-0",
                50,
                vec![process(10, ADA, "ada"), process(20, 1002, "bob")],
            ),
            samples::gpu(1, "GPU-1", 0, vec![process(30, 1003, "carol")]),
            samples::gpu(2, "GPU-2", 0, vec![unknown]),
            samples::gpu(3, "GPU-3", 0, vec![pod, group, process(70, ADA, "zoe")]),
        ];
        let tick = Tick {
            sample: samples::sample(at, gpus),
            interval: Duration::from_secs(60),
        };
        store.record(run, &tick).unwrap();
        at += Duration::from_secs(60);
    }
    while store.maintain(at).unwrap().more {}
    store.close().unwrap();
    Period::new(from, at)
}

fn view(place: &Place, others: Others) -> View {
    let viewer = Viewer {
        uid: Uid(ADA),
        name: Some("ada".to_owned()),
    };
    let history = History::open(&place.path()).unwrap();
    View::new(Box::new(history), viewer, others)
}

fn pseudonyms() -> Others {
    Others::Pseudonyms(Box::new(|name| format!("alias-{}", name.len())))
}

#[track_caller]
fn check(others: fn() -> Others, expected: &[(&str, u64)]) {
    let place = Place::new();
    let window = recorded(&place);
    let source = RecordsSource::new(|| Ok(Box::new(view(&place, others()))));
    let question = Question {
        detail: Detail::Charts,
        ..Question::of_window(window, TimeZone::UTC, window.to())
    };
    let report = source.report(&question).unwrap();
    let mut people: Vec<(&str, u64)> = report
        .people
        .iter()
        .map(|row| (row.name.as_str(), row.sums.held.0 / 60_000_000))
        .collect();
    people.sort_unstable();
    assert_eq!(people, expected);
    let text = format!("{report:?}");
    for hidden in HIDDEN {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    assert!(text.contains("Pid(10)"), "own processes are shown: {text}");
    // A report would propose the command `kill 0`.
    assert!(!text.contains("Pid(0)"), "{text}");
    // States and coverage do not depend on who asks.
    let of_root = RecordsSource::new(|| Ok(Box::new(History::open(&place.path()).unwrap())));
    let all = of_root.report(&question).unwrap();
    assert_eq!(report.all, all.all);
    assert_eq!(report.coverage, all.coverage);
    // The sums are the same if only they are read.
    let sums = of_root.report(&Question {
        detail: Detail::Sums,
        ..question.clone()
    });
    let sums = sums.unwrap();
    let counted = |report: &Report| {
        let Report {
            all,
            people,
            gpus,
            coverage,
            ..
        } = report;
        format!("{all:?} {people:?} {gpus:?} {coverage:?}")
    };
    assert_eq!(counted(&sums), counted(&all));
    assert!(sums.sessions.is_empty() && !all.sessions.is_empty());
    // Limits are judged for the requester alone.
    let term = UsageQuestion {
        period: window,
        zone: TimeZone::UTC,
        now: window.to(),
    };
    let usage = source.usage(&term).unwrap();
    assert_eq!(usage.only.as_deref(), Some("ada"));
    assert_eq!(usage.people.len(), 1);
    // Nobody finds out by asking for a name.
    for person in ["bob", "carol", "eve", "pod:thesis/dora", "vision", "zoe"] {
        let asked = Question {
            person: Some(person.to_owned()),
            ..question.clone()
        };
        let refused = source.report(&asked).unwrap_err();
        let QueryError::NoSuchPerson { known, .. } = refused else {
            panic!("{refused}");
        };
        assert!(known.contains("ada"), "{known:?}");
        assert!(!known.contains("bob"), "{known:?}");
    }
}

#[test]
fn others_are_one_sum() {
    check(
        || Others::Totals,
        &[("ada", 60), ("others", 300), ("unknown", 60)],
    );
}

#[test]
fn others_have_pseudonyms() {
    check(
        pseudonyms,
        &[
            ("ada", 60),
            ("alias-15", 60),
            ("alias-3", 120),
            ("alias-5", 60),
            ("alias-6", 60),
            ("unknown", 60),
        ],
    );
}

#[test]
fn every_kind_of_record_is_limited() {
    let place = Place::new();
    let window = recorded(&place);
    for others in [Others::Totals, pseudonyms()] {
        let shows_sessions = matches!(others, Others::Pseudonyms(_));
        let view = view(&place, others);
        let mut text = format!("{:?}", view.owners().unwrap());
        let mut sessions = 0;
        let mut add = |session: &gua_model::Session| {
            sessions += 1;
            text.push_str(&format!("{session:?}"));
        };
        view.sessions(window, &mut add).unwrap();
        assert_eq!(sessions, if shows_sessions { 6 } else { 1 });
        view.ticks(window, &mut |tick| text.push_str(&format!("{tick:?}")))
            .unwrap();
        let thresholds = view.thresholds().unwrap();
        view.spans(window, thresholds, &mut |span| {
            text.push_str(&format!("{span:?}"));
        })
        .unwrap();
        let mut ticks = 0;
        view.ticks_with_spans(window, thresholds, &mut |tick, spans| {
            ticks += 1;
            text.push_str(&format!("{tick:?} {spans:?}"));
            Ok(())
        })
        .unwrap();
        assert!(ticks > 1);
        let at = view.tick_at(window.from(), thresholds).unwrap();
        let last = view.last_tick_before(window.to()).unwrap();
        text.push_str(&format!("{at:?} {last:?}"));
        let mut owners = Vec::new();
        let mut quarter = |_: Quarter, gpus: &[gua_model::GpuQuarter]| {
            for gpu in gpus {
                owners.extend(gpu.total.owners.iter().map(|(owner, _)| owner.clone()));
            }
        };
        view.totals(Origin::Own, window, thresholds, &mut quarter)
            .unwrap();
        assert!(
            owners.contains(&OwnerKey::User(samples::user(ADA, "ada"))),
            "{owners:?}"
        );
        text.push_str(&format!("{owners:?}"));
        for hidden in HIDDEN {
            assert!(!text.contains(hidden), "{hidden}");
        }
    }
}

/// Records an hour of each user on a GPU of its own. Returns the names in a report for a viewer who sees the others' sum.
fn seen_by(viewer: Option<&str>, users: &[Option<&str>]) -> Vec<String> {
    let place = Place::new();
    let mut store = place.store();
    let from: Timestamp = "2026-11-02T00:00:00Z".parse().unwrap();
    let run = store.begin_run(&NewRun {
        started: from,
        interval: Duration::from_secs(60),
        host: "lab".to_owned(),
        version: "0".to_owned(),
        boot: None,
    });
    let run = run.unwrap();
    let user = |name: Option<&str>| User {
        uid: Uid(ADA),
        name: name.map(str::to_owned),
    };
    let mut at = from;
    for _ in 0..60 {
        let gpu = |(index, name): (u32, &Option<&str>)| {
            let process = samples::process(10 + index, user(*name), 4000);
            samples::gpu(index, &format!("GPU-{index}"), 0, vec![process])
        };
        let tick = Tick {
            sample: samples::sample(at, (0..).zip(users).map(gpu).collect()),
            interval: Duration::from_secs(60),
        };
        store.record(run, &tick).unwrap();
        at += Duration::from_secs(60);
    }
    store.close().unwrap();
    let User { uid, name } = user(viewer);
    let history = History::open(&place.path()).unwrap();
    let view = View::new(Box::new(history), Viewer { uid, name }, Others::Totals);
    let window = Period::new(from, at);
    let question = Question::of_window(window, TimeZone::UTC, at);
    let report = gua_query::report(&view, &question).unwrap();
    let mut names: Vec<String> = report.people.into_iter().map(|row| row.name).collect();
    names.sort();
    names
}

#[test]
fn a_uid_that_had_two_names_is_the_viewers_only_under_the_name_of_now() {
    // A rename looks like a uid that was given to another person.
    let (ada, zoe) = (Some("ada"), Some("zoe"));
    assert_eq!(seen_by(ada, &[ada, zoe]), ["ada", "others"]);
    assert_eq!(seen_by(zoe, &[ada]), ["others"]);
    // A name is missing while a directory service does not answer.
    assert_eq!(seen_by(ada, &[ada, None]), ["ada", "uid 1001"]);
    assert_eq!(seen_by(ada, &[None]), ["uid 1001"]);
    assert_eq!(seen_by(None, &[ada, None]), ["ada", "uid 1001"]);
    // With two names it may be the other person.
    assert_eq!(seen_by(ada, &[ada, None, zoe]), ["ada", "others"]);
    assert_eq!(seen_by(ada, &[None, zoe]), ["others"]);
    assert_eq!(seen_by(None, &[ada, zoe]), ["others"]);
}
