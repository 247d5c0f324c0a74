//! GPUs that are partitioned into MIG instances.

use crate::stage::{Stage, frozen};
use nvml_sim::scenario::{Gpu, Instance, Process};

const V3: &str = "nvmlDeviceGetComputeRunningProcesses_v3";

fn partitioned_gpu() -> Gpu {
    let instance = |index, profile: &str, pid| Instance {
        index: Some(index),
        profile: profile.to_owned(),
        gpu_instance: Some(index + 7),
        processes: vec![Process::new(pid, 64)],
        ..Instance::default()
    };
    Gpu {
        uuid: "GPU-a".to_owned(),
        util: Some(50.0.into()),
        instances: vec![instance(0, "1g.10gb", 100), instance(3, "1g.10gb", 103)],
        ..Gpu::default()
    }
}

#[test]
fn an_instance_has_its_own_name_memory_and_processes() {
    let stage = Stage::new(&frozen(0.0, [partitioned_gpu(), Gpu::default()]));
    let gpu = stage.handle(0).unwrap();
    let part = stage.instance(gpu, 3).unwrap();
    assert_eq!(stage.instance(gpu, 1), Err(6));
    assert_eq!(
        stage.read::<u32>("nvmlDeviceGetMaxMigDeviceCount", gpu),
        Ok(7)
    );
    assert_eq!(
        stage.read::<u32>("nvmlDeviceIsMigDeviceHandle", part),
        Ok(1)
    );
    assert_eq!(stage.read::<u32>("nvmlDeviceIsMigDeviceHandle", gpu), Ok(0));
    assert_eq!(stage.parent(part), Ok(gpu));
    assert_eq!(
        stage.text("nvmlDeviceGetName", part).unwrap(),
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb"
    );
    assert_eq!(
        stage.read::<u32>("nvmlDeviceGetGpuInstanceId", part),
        Ok(10)
    );
    assert_eq!(
        stage.read::<u32>("nvmlDeviceGetComputeInstanceId", part),
        Ok(0)
    );
    let [total, _, used] = stage
        .read::<[u64; 3]>("nvmlDeviceGetMemoryInfo", part)
        .unwrap();
    assert_eq!((total >> 20, used >> 20), (9728, 64));
    let attributes = stage
        .read::<[u32; 10]>("nvmlDeviceGetAttributes_v2", part)
        .unwrap();
    assert_eq!(
        (attributes[0], attributes[6], attributes[7], attributes[8]),
        (14, 1, 1, 9728)
    );
    let pids = |device| -> Vec<(u32, u32)> {
        let list = stage.list(V3, device).unwrap();
        list.into_iter()
            .map(|record| (record.pid, record.gpu_instance))
            .collect()
    };
    assert_eq!(pids(part), [(103, 10)]);
    assert_eq!(pids(gpu), [(100, 7), (103, 10)]);
    let uuid = std::ffi::CString::new(stage.text("nvmlDeviceGetUUID", part).unwrap()).unwrap();
    assert_eq!(stage.by_text("nvmlDeviceGetHandleByUUID", &uuid), Ok(part));
}

#[test]
fn neither_a_partitioned_gpu_nor_its_instances_have_utilisation() {
    let stage = Stage::new(&frozen(9.0, [partitioned_gpu()]));
    let gpu = stage.handle(0).unwrap();
    let part = stage.instance(gpu, 0).unwrap();
    for device in [gpu, part] {
        assert_eq!(
            stage.read::<[u32; 2]>("nvmlDeviceGetUtilizationRates", device),
            Err(3)
        );
        assert_eq!(stage.samples(device, 1, 0), Err(3));
        assert_eq!(stage.process_samples(device, 8, 0).0, 3);
    }
    assert_eq!(
        stage.read::<u32>("nvmlDeviceGetPowerUsage", gpu),
        Ok(60_000)
    );
    assert_eq!(stage.read::<u32>("nvmlDeviceGetPowerUsage", part), Err(3));
    assert_eq!(
        stage.read_of::<u32>("nvmlDeviceGetTemperature", part, 0),
        Err(3)
    );
    assert_eq!(stage.read::<u32>("nvmlDeviceGetIndex", part), Err(2));
}

#[test]
fn a_mig_capable_gpu_is_distinguished_from_others() {
    let could = Gpu {
        mig_mode: Some(false),
        ..Gpu::default()
    };
    let stage = Stage::new(&frozen(0.0, [could, Gpu::default()]));
    let (could, cannot) = (stage.handle(0).unwrap(), stage.handle(1).unwrap());
    assert_eq!(
        stage.read::<u32>("nvmlDeviceGetMaxMigDeviceCount", could),
        Ok(7)
    );
    assert_eq!(
        stage.read::<u32>("nvmlDeviceGetMaxMigDeviceCount", cannot),
        Ok(0)
    );
    assert_eq!(stage.instance(could, 0), Err(6));
    assert_eq!(stage.instance(cannot, 0), Err(3));
    assert_eq!(
        stage.read::<[u32; 2]>("nvmlDeviceGetUtilizationRates", could),
        Ok([0, 0])
    );
}
