//! Samples that the driver buffers between two reads.

use crate::stage::{Stage, scene};

const ORIGIN_US: u64 = 1_700_000_000_000_000;
const POWER: u32 = 0;
const UTIL: u32 = 1;

#[test]
fn a_burst_between_two_readings_is_in_the_buffer() {
    let text = "
        [buffers]
        samples = 4
        period_ms = 1000
        [[gpu]]
        util = { bursts = [{ at = 7.5, for = 0.5, value = 80 }] }
        power_w = { steps = [[0, 100], [8, 50]] }
    ";
    let stage = Stage::new(&scene(10.5, text));
    let gpu = stage.handle(0).unwrap();
    assert_eq!(
        stage.read::<[u32; 2]>("nvmlDeviceGetUtilizationRates", gpu),
        Ok([0, 0])
    );
    let values = |kind, since| -> Vec<(u64, u64)> {
        let samples = stage.samples(gpu, kind, since).unwrap_or_default();
        samples
            .into_iter()
            .map(|sample| ((sample.stamp - ORIGIN_US) / 1_000_000, sample.value))
            .collect()
    };
    assert_eq!(values(UTIL, 0), [(7, 0), (8, 40), (9, 0), (10, 0)]);
    assert_eq!(
        values(POWER, 0),
        [(7, 100_000), (8, 100_000), (9, 50_000), (10, 50_000)]
    );
    assert_eq!(values(UTIL, ORIGIN_US + 8_000_000), [(9, 0), (10, 0)]);
    assert_eq!(stage.samples(gpu, UTIL, ORIGIN_US + 10_000_000), Err(6));
    assert_eq!(stage.samples(gpu, 7, 0), Err(3));
    assert_eq!(stage.samples(gpu, 99, 0), Err(2));
}

#[test]
fn invalid_samples_are_returned_where_they_are_scripted() {
    let text = "
        [buffers]
        period_ms = 1000
        junk_every = 3
        junk = 255
        [[gpu]]
        util = 20
    ";
    let stage = Stage::new(&scene(6.0, text));
    let samples = stage.samples(stage.handle(0).unwrap(), UTIL, 0).unwrap();
    let values: Vec<u64> = samples.into_iter().map(|sample| sample.value).collect();
    assert_eq!(values, [20, 20, 255, 20, 20, 255]);
}

#[test]
fn a_process_has_one_record_with_its_mean_and_none_while_it_is_idle() {
    let text = "
        [buffers]
        period_ms = 1000
        process_samples = 5
        [[gpu]]
        [[gpu.process]]
        pid = 11
        sm_util = { steps = [[0, 0], [8, 60]] }
        [[gpu.process]]
        pid = 12
        sm_util = 30
        memory_util = 5
        from = 9.5
        [[gpu.process]]
        pid = 13
    ";
    let stage = Stage::new(&scene(10.2, text));
    let gpu = stage.handle(0).unwrap();
    let (code, needed, _) = stage.process_samples(gpu, 1, 0);
    assert_eq!((code, needed), (7, 2));
    let (code, _, samples) = stage.process_samples(gpu, 16, 0);
    let seen: Vec<_> = samples
        .iter()
        .map(|sample| {
            (
                sample.stamp - ORIGIN_US,
                sample.pid,
                sample.sm,
                sample.memory,
            )
        })
        .collect();
    assert_eq!(code, 0);
    assert_eq!(
        seen,
        [
            // Two periods of five at 60, one of five at 30.
            (10_000_000, 11, 24, 0),
            (10_000_000, 12, 6, 1)
        ]
    );
    let (_, _, newest) = stage.process_samples(gpu, 16, ORIGIN_US + 9_000_000);
    let seen: Vec<_> = newest
        .iter()
        .map(|sample| (sample.pid, sample.sm))
        .collect();
    assert_eq!(seen, [(11, 60), (12, 30)]);
    let (code, count, _) = stage.process_samples(gpu, 16, ORIGIN_US + 10_000_000);
    assert_eq!((code, count), (6, 0));
}

#[test]
fn a_fast_scenario_uses_the_clients_clock_for_its_samples() {
    let text = "
        [clock]
        scale = 100
        [buffers]
        period_ms = 1000
        samples = 2
        [[gpu]]
    ";
    let mut scenario = scene(10.0, text);
    let stamps = |scenario| -> Vec<u64> {
        let stage = Stage::new(&scenario);
        let samples = stage.samples(stage.handle(0).unwrap(), UTIL, 0).unwrap();
        samples
            .into_iter()
            .map(|sample| sample.stamp - ORIGIN_US)
            .collect()
    };
    assert_eq!(stamps(scenario.clone()), [90_000, 100_000]);
    scenario.clock.stamps = nvml_sim::scenario::Stamps::Scenario;
    assert_eq!(stamps(scenario), [9_000_000, 10_000_000]);
}
