//! A clock that is set forward and back while a GPU is used. No bench may set the clock of a host, so these ticks are
//! written to a history directly, and reported from it.

use std::time::Duration;

use gua_model::{
    BootId, Bytes, Driver, Gpu, Identity, Micros, Missing, Percent, Period, Pid, Process,
    ProcessKey, ProcessKind, Sample, StartTicks, Tick, Uid, User, Workload,
};
use gua_query::Question;
use gua_store::{History, NewRun, OpenMode, Store, WriterOptions};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::script::Hours;

const INTERVAL: i64 = 30;

/// Ticks between two settings of the clock, whether the GPU works in them, and by how many seconds it is set after them.
const STEPS: [(i64, bool, i64); 7] = [
    (100, true, 3600),
    (40, true, -1800),
    (200, true, 90_000),
    (60, false, -7),
    (60, false, -2_000_000),
    (80, true, 1_500_000),
    (100, true, 0),
];

/// Truth and result, and faults of the books.
pub(crate) struct Steps {
    pub(crate) truth: Hours,
    pub(crate) ours: Hours,
    pub(crate) breaches: Vec<String>,
}

pub(crate) fn play() -> Steps {
    let folder = tempfile::tempdir().expect("a directory for the bench");
    let path = folder.path().join("gua.db");
    let start: Timestamp = "2026-11-14T12:00:00Z".parse().expect("a moment");
    let ticks = ticks(start);
    write(&path, &ticks);
    let history = History::open(&path).expect("a history");
    let month = SignedDuration::from_hours(31 * 24);
    let (from, to) = (start - month, start + month);
    let question = Question::of_window(Period::new(from, to), TimeZone::UTC, to);
    let report = gua_query::report(&history, &question).expect("a report");
    let mut breaches = Vec::new();
    let covered = &report.coverage;
    if covered.observed + covered.gap != covered.capacity
        || report.all.observed() != covered.observed
    {
        breaches.push("clock steps: states and gaps are not the capacity".to_owned());
    }
    if !history.check(|_| {}).expect("a check").is_clean() {
        breaches.push("clock steps: the history is damaged".to_owned());
    }
    let mut ours = Hours::default();
    for state in gua_model::State::ALL {
        let time = report.all.state(state).micros;
        if time > Micros(0) {
            ours.states.insert(state.to_string(), time.hours());
        }
    }
    for person in &report.people {
        let charged = person.sums.charged.hours();
        ours.held.insert(person.name.clone(), person.sums.hours());
        ours.charged.insert(person.name.clone(), charged);
    }
    Steps {
        truth: truth(&ticks),
        ours,
        breaches,
    }
}

/// Ticks by the wall clock, in the order in which they were taken.
fn ticks(start: Timestamp) -> Vec<(Timestamp, bool)> {
    let mut at = start;
    let mut ticks = Vec::new();
    for (number, works, step) in STEPS {
        for _ in 0..number {
            ticks.push((at, works));
            at += SignedDuration::from_secs(INTERVAL);
        }
        at += SignedDuration::from_secs(step);
    }
    ticks
}

/// Each second of the wall clock has the state of the last tick before it, for at most an interval.
fn truth(ticks: &[(Timestamp, bool)]) -> Hours {
    let mut sorted: Vec<(i64, bool)> = ticks
        .iter()
        .map(|(at, works)| (at.as_second(), *works))
        .collect();
    sorted.sort_by_key(|(at, _)| *at);
    let mut truth = Hours::default();
    for (place, (at, works)) in sorted.iter().enumerate() {
        let next = sorted.get(place + 1).map_or(i64::MAX, |(next, _)| *next);
        let seconds = (next - at).min(INTERVAL);
        #[expect(clippy::cast_precision_loss, reason = "at most half a minute")]
        let hours = seconds as f64 / 3600.0;
        let state = if *works { "active" } else { "idle-held" };
        *truth.states.entry(state.to_owned()).or_default() += hours;
        *truth.held.entry("daemon".to_owned()).or_default() += hours;
        *truth.charged.entry("daemon".to_owned()).or_default() += hours;
    }
    truth
}

fn write(path: &std::path::Path, ticks: &[(Timestamp, bool)]) {
    let interval = Duration::from_secs(INTERVAL.unsigned_abs());
    let mut store =
        Store::open(path, OpenMode::Create, &WriterOptions::default()).expect("a history");
    let run = NewRun {
        started: ticks[0].0,
        interval,
        host: "bench".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot: Some(BootId(1)),
    };
    let run = store.begin_run(&run).expect("a run");
    for (number, (at, works)) in (0u32..).zip(ticks) {
        let sample = Sample {
            at: *at,
            since_boot: interval * (number + 1000),
            boot: Ok(BootId(1)),
            driver: Driver {
                version: Err(Missing::Unsupported),
                cuda: Err(Missing::Unsupported),
            },
            gpus: vec![gpu(*works)],
            problems: Vec::new(),
        };
        store
            .record(run, &Tick { sample, interval })
            .expect("a tick");
        store.maintain(*at).expect("maintenance");
    }
    while store.maintain(Timestamp::MAX).expect("maintenance").more {}
    store.close().expect("a closed history");
}

fn gpu(works: bool) -> Gpu {
    let uuid = "GPU-0clock".parse().expect("a UUID");
    let user = User {
        uid: Uid(1),
        name: Some("daemon".to_owned()),
    };
    let mut gpu = Gpu::without_readings(uuid, 0, Missing::Unsupported);
    gpu.util = Percent::new(if works { 90 } else { 0 }).ok_or(Missing::Failed);
    (gpu.compute_list, gpu.graphics_list) = (Ok(()), Ok(()));
    gpu.processes = vec![Process {
        pid: Pid(7),
        kind: ProcessKind::Compute,
        memory: Ok(Bytes::from_mb(8000)),
        sm_util: Err(Missing::Unsupported),
        identity: Ok(Identity {
            key: ProcessKey {
                boot: BootId(1),
                pid: Pid(7),
                start: StartTicks(5),
            },
            login: Ok(Some(user.clone())),
            claimed_login: None,
            own: Ok(user),
            workload: Workload::default(),
            comm: Ok("train".to_owned()),
        }),
    }];
    gpu
}
