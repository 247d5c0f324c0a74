//! Process lists in all their record layouts.

use crate::stage::{Record, Stage, frozen, scene};
use nvml_sim::driver::Generation;
use nvml_sim::scenario::{Gpu, NullSizeQuery, Process, Scenario, Value};

const V3: &str = "nvmlDeviceGetComputeRunningProcesses_v3";

/// Sixteen GPUs with sixty-four processes each.
fn crowd() -> Scenario {
    let gpu = |first: u32| Gpu {
        processes: (0..64)
            .map(|number| Process::new(first + number, number))
            .collect(),
        ..Gpu::default()
    };
    frozen(
        0.0,
        (0..16)
            .map(|number| gpu(5000 + 64 * number))
            .collect::<Vec<_>>(),
    )
}

#[test]
fn a_list_has_sixty_four_processes_and_returns_the_required_size() {
    let stage = Stage::new(&crowd());
    let gpu = stage.handle(0).unwrap();
    for index in 0..16 {
        let list = stage.list(V3, stage.handle(index).unwrap()).unwrap();
        let pids: Vec<u32> = list.iter().map(|record| record.pid).collect();
        let first = 5000 + 64 * index;
        assert_eq!(pids, (first..first + 64).collect::<Vec<_>>());
    }
    let list = stage.list(V3, gpu).unwrap();
    let last = Record {
        pid: 5063,
        memory: 63 << 20,
        gpu_instance: u32::MAX,
        compute_instance: u32::MAX,
    };
    assert_eq!(list[63], last);
    for name in [
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetComputeRunningProcesses_v2",
        V3,
    ] {
        let (code, count, _) = stage.raw_list(name, gpu, 63);
        assert_eq!((code, count), (7, 64), "{name}");
        let (code, count, _) = stage.raw_list(name, gpu, 64);
        assert_eq!((code, count), (0, 64), "{name}");
    }
}

#[test]
fn each_generation_has_its_own_stride() {
    let pids_at = |generation, name: &str, stride: usize| {
        let stage = Stage::unopened(&crowd(), generation);
        assert_eq!(stage.init(), 0);
        let (code, count, bytes) = stage.raw_list(name, stage.handle(0).unwrap(), 128);
        assert_eq!((code, count), (0, 64));
        let pids: Vec<u32> = bytes
            .chunks_exact(stride)
            .take(64)
            .map(|record| u32::from_le_bytes(record[..4].try_into().unwrap()))
            .collect();
        assert_eq!(
            pids,
            (5000..5064).collect::<Vec<_>>(),
            "{name} of {generation}"
        );
    };
    pids_at(Generation::R390, "nvmlDeviceGetComputeRunningProcesses", 16);
    pids_at(
        Generation::R470,
        "nvmlDeviceGetComputeRunningProcesses_v2",
        24,
    );
    pids_at(Generation::R525, V3, 24);
    pids_at(Generation::R535_54, V3, 32);
    pids_at(
        Generation::R535_54,
        "nvmlDeviceGetComputeRunningProcesses_v2",
        24,
    );
    pids_at(Generation::R535_261, V3, 24);
}

#[test]
fn the_long_record_never_overflows_a_buffer_for_the_short_one() {
    let stage = Stage::unopened(&crowd(), Generation::R535_54);
    assert_eq!(stage.init(), 0);
    let (code, count, _) = stage.raw_list(V3, stage.handle(0).unwrap(), 64);
    assert_eq!((code, count), (7, 86));
}

#[test]
fn a_process_is_in_the_lists_of_its_kind_during_its_time() {
    let text = r#"
        [[gpu]]
        [[gpu.process]]
        pid = 1
        memory_mib = "unknown"
        [[gpu.process]]
        pid = 2
        type = "graphics"
        memory_bytes = 12345
        [[gpu.process]]
        pid = 3
        type = "both"
        memory_mib = { steps = [[0, 10], [50, 20]] }
        [[gpu.process]]
        pid = 4
        from = 10
        until = 20
    "#;
    let check = |at: f64, compute: &[(u32, u64)], graphics: &[(u32, u64)]| {
        let stage = Stage::new(&scene(at, text));
        let gpu = stage.handle(0).unwrap();
        let list = |name| -> Vec<(u32, u64)> {
            let records: Vec<Record> = stage.list(name, gpu).unwrap();
            records
                .into_iter()
                .map(|record| (record.pid, record.memory))
                .collect()
        };
        assert_eq!(list(V3), compute, "compute at {at}");
        assert_eq!(
            list("nvmlDeviceGetGraphicsRunningProcesses_v3"),
            graphics,
            "graphics at {at}"
        );
    };
    let both = 10 << 20;
    check(0.0, &[(1, u64::MAX), (3, both)], &[(2, 12345), (3, both)]);
    check(
        10.0,
        &[(1, u64::MAX), (3, both), (4, 0)],
        &[(2, 12345), (3, both)],
    );
    check(
        50.0,
        &[(1, u64::MAX), (3, 2 * both)],
        &[(2, 12345), (3, 2 * both)],
    );
}

#[test]
fn a_size_query_without_a_buffer_is_answered_correctly_or_not_as_scripted() {
    let mut scenario = crowd();
    let stage = Stage::new(&scenario);
    let gpu = stage.handle(0).unwrap();
    assert_eq!(stage.size_query(V3, gpu), (7, 64));
    assert_eq!(
        stage.size_query("nvmlDeviceGetGraphicsRunningProcesses_v3", gpu),
        (0, 0)
    );
    scenario.null_size_query = NullSizeQuery::Wrong;
    stage.rewrite(&scenario);
    assert_eq!(stage.size_query(V3, gpu), (0, 0));
    assert_eq!(
        stage.size_query("nvmlDeviceGetGraphicsRunningProcesses_v3", gpu),
        (0, 7)
    );
}

#[test]
fn the_memory_of_processes_adds_up_to_that_of_the_gpu() {
    let mut scenario = crowd();
    scenario.gpus[0].processes.push(Process {
        memory_mib: Some(Value::Unknown),
        ..Process::new(1, 0)
    });
    scenario.gpus[0].memory_reserved_mib = Some(1.0);
    let stage = Stage::new(&scenario);
    let [_, _, used] = stage
        .read::<[u64; 3]>("nvmlDeviceGetMemoryInfo", stage.handle(0).unwrap())
        .unwrap();
    assert_eq!(used >> 20, (0..64).sum::<u64>() + 1);
}
