//! A GPU that is lost while ticks come late: the whole loss has its reason, from ticks and from totals.

use std::time::Duration;

use gua_model::{GapReason, Gpu, Micros, Missing, Period, Tick};
use gua_query::Question;
use gua_store::{NewRun, WriterOptions};
use gua_test::samples;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::{Place, open};

const INTERVAL: Duration = Duration::from_millis(200);

fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-11-14T12:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs(seconds)
}

/// Milliseconds of the gaps of a GPU in a window: while it was lost, and without a collector.
fn gaps(place: &Place, gpu: &str, window: Period) -> (u64, u64) {
    let mut question = Question::of_window(window, TimeZone::UTC, at(7200));
    question.gpus = vec![gpu.to_owned()];
    let report = gua_query::report(&place.history(), &question).unwrap();
    let of = |reason| {
        let rows = report.coverage.gaps.iter();
        let rows = rows.filter(|row| row.reason == reason);
        rows.map(|row| row.micros).sum::<Micros>().0 / 1000
    };
    (of(GapReason::GpuLost), of(GapReason::CollectorDown))
}

#[test]
fn a_loss_of_24_seconds_is_no_time_without_a_collector_at_ticks_of_200_ms() {
    let place = Place::new();
    let mut store = open(&place.path(), &WriterOptions::default());
    let new_run = NewRun {
        started: at(0),
        interval: INTERVAL,
        host: "lab".to_owned(),
        version: "0".to_owned(),
        boot: None,
    };
    let run = store.begin_run(&new_run).unwrap();
    let loss = Period::new(at(6), at(30));
    let mut now = at(0);
    for number in 1.. {
        let uuid = "GPU-1".parse().unwrap();
        let second = match loss.contains(now) {
            true => Gpu::without_readings(uuid, 1, Missing::Gone),
            false => samples::gpu(1, "GPU-1", 50, Vec::new()),
        };
        let gpus = vec![samples::gpu(0, "GPU-0", 50, Vec::new()), second];
        let tick = Tick {
            sample: samples::sample(now, gpus),
            interval: INTERVAL,
        };
        store.record(run, &tick).unwrap();
        if now == at(36) {
            break;
        }
        // Calls to a lost GPU are slow: ten ticks take six seconds.
        let late = if number % 10 == 0 { 3300 } else { 300 };
        now += SignedDuration::from_millis(late);
    }
    // The other GPU was not observed in more than half of the time.
    assert_eq!(gaps(&place, "0", loss), (0, 16_000));
    // The first tick after the loss finds the GPU. It was lost at the tick before, for the time that this covers.
    assert_eq!(gaps(&place, "1", loss), (20_900, 3_100));
    while store.maintain(at(3600)).unwrap().more {}
    assert_eq!(gaps(&place, "1", loss), (20_900, 3_100));
    store.close().unwrap();

    let options = WriterOptions {
        keep_raw: Some(Duration::from_secs(60)),
        ..WriterOptions::default()
    };
    let mut store = open(&place.path(), &options);
    let run = store.begin_run(&new_run).unwrap();
    // Retention keeps the last closed quarter hour, and waits until ticks have arrived for a while to trust the clock.
    for seconds in std::iter::once(1800).chain(7200..7260) {
        for half in [0, 500] {
            let tick = Tick {
                sample: samples::sample(
                    at(seconds) + SignedDuration::from_millis(half),
                    Vec::new(),
                ),
                interval: INTERVAL,
            };
            store.record(run, &tick).unwrap();
        }
    }
    while store.maintain(at(7260)).unwrap().more {}
    store.close().unwrap();
    let first = place.history().info().unwrap().first_tick.unwrap();
    assert!(first >= at(1800), "{first}");
    let (lost, _) = gaps(&place, "1", Period::new(at(0), at(36)));
    assert_eq!(lost, 20_900);
}
