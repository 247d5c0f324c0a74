//! Scenarios with numbers that no GPU has: the library's arithmetic must handle them all.

use crate::stage::Stage;
use nvml_sim::scenario::{Burst, Gpu, Instance, Process, Scenario, Value};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Reads everything that is computed from a scenario. A panic would abort the process.
fn read_everything(stage: &Stage) {
    let Ok(count) = stage.count() else { return };
    for gpu in (0..count.min(3)).filter_map(|index| stage.handle(index).ok()) {
        for part in [Some(gpu), stage.instance(gpu, 0).ok()]
            .into_iter()
            .flatten()
        {
            let _ = stage.text("nvmlDeviceGetName", part);
            let _ = stage.text("nvmlDeviceGetUUID", part);
            let _ = stage.read::<[u64; 16]>("nvmlDeviceGetPciInfo_v3", part);
            let _ = stage.read::<[u64; 3]>("nvmlDeviceGetMemoryInfo", part);
            let _ = stage.read::<[u32; 2]>("nvmlDeviceGetUtilizationRates", part);
            let _ = stage.read::<u64>("nvmlDeviceGetTotalEnergyConsumption", part);
            let _ = stage.read::<u32>("nvmlDeviceGetPowerUsage", part);
            let _ = stage.read::<u32>("nvmlDeviceGetMaxMigDeviceCount", part);
            let _ = stage.list("nvmlDeviceGetComputeRunningProcesses_v3", part);
            let _ = stage.samples(part, 0, 0);
            let _ = stage.samples(part, 1, 0);
            let _ = stage.process_samples(part, 16, 0);
        }
    }
}

fn number() -> impl Strategy<Value = f64> {
    prop::sample::select(
        &[
            0.0,
            -1.0,
            0.5,
            3.0,
            255.0,
            1e18,
            -1e18,
            1e300,
            1e-300,
            4_294_967_296.0,
        ][..],
    )
}

fn value() -> impl Strategy<Value = Option<Value>> {
    let line = prop_oneof![
        number().prop_map(Value::from),
        (number(), number(), number())
            .prop_map(|(from, to, seconds)| Value::ramp(from, to, seconds)),
        (number(), number(), number())
            .prop_map(|(low, high, period)| Value::square(low, high, period)),
        (number(), number()).prop_map(|(at, value)| Value::steps([(-5.0, 1.0), (at, value)])),
        (number(), number()).prop_map(|(at, value)| Value::bursts(
            [Burst {
                at,
                seconds: value,
                value
            }],
            1.0
        )),
    ];
    prop::option::of(line)
}

fn processes() -> impl Strategy<Value = Vec<Process>> {
    let process = (any::<u32>(), value(), value()).prop_map(|(pid, memory_mib, sm_util)| Process {
        pid,
        memory_mib,
        sm_util,
        ..Process::default()
    });
    prop::collection::vec(process, 0..3)
}

fn gpu() -> impl Strategy<Value = Gpu> {
    let instance = (processes(), value()).prop_map(|(processes, memory_used_mib)| Instance {
        processes,
        memory_used_mib,
        ..Instance::default()
    });
    let readings = (value(), value(), value(), value());
    let sizes = (prop::option::of(number()), prop::option::of(number()));
    let parts = (processes(), prop::collection::vec(instance, 0..2));
    (readings, sizes, parts).prop_map(
        |(
            (util, power_w, energy_mj, memory_used_mib),
            (memory_total_mib, memory_reserved_mib),
            (processes, instances),
        )| Gpu {
            util,
            power_w,
            energy_mj,
            memory_used_mib,
            memory_total_mib,
            memory_reserved_mib,
            processes,
            instances,
            ..Gpu::default()
        },
    )
}

fn strange_scenario() -> impl Strategy<Value = Scenario> {
    let clock = (
        prop::option::of(any::<u64>()),
        number(),
        prop::option::of(number()),
    );
    (
        clock,
        number(),
        0..300_u32,
        prop::collection::vec(gpu(), 1..3),
    )
        .prop_map(|((origin_unix_ms, scale, at), period_ms, samples, gpus)| {
            let mut scenario = Scenario {
                gpus,
                ..Scenario::default()
            };
            scenario.clock.origin_unix_ms = origin_unix_ms.map(|ms| ms >> 1);
            scenario.clock.scale = if scale > 0.0 { scale } else { 1.0 };
            scenario.clock.at = at;
            scenario.buffers.period_ms = period_ms.max(0.001);
            scenario.buffers.samples = samples;
            scenario
        })
}

#[test]
fn extreme_numbers_never_crash_a_client() {
    let stage = Stage::new(&Scenario::default());
    // A failure aborts this process, after which no counterexample can be saved.
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&strange_scenario(), |scenario| {
        if scenario.write(stage.scenario_path()).is_ok() {
            assert_eq!(
                stage.count(),
                Ok(u32::try_from(scenario.gpus.len()).unwrap())
            );
            read_everything(&stage);
        }
        Ok(())
    });
    result.unwrap();
}
