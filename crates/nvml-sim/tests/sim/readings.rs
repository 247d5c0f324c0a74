//! Readings of a GPU.

use crate::stage::{Stage, frozen, scene};
use nvml_sim::scenario::Gpu;

#[test]
fn a_gpu_shows_its_scripted_values() {
    let scenario = scene(
        10.0,
        r#"
        [[gpu]]
        name = "NVIDIA RTX A6000"
        uuid = "GPU-00000000-0000-4000-8000-000000000001"
        pci = "00000000:41:00.0"
        serial = "1320921"
        memory_total_mib = 49140
        memory_reserved_mib = 600
        memory_used_mib = 1000
        util = { ramp = { from = 0, to = 100, seconds = 20 } }
        memory_util = 7
        temperature_c = 61
        power_w = 71.5
        power_limit_w = 300
        fan_percent = 44
        fans = 2
        clock_graphics_mhz = 1800
        clock_memory_mhz = 8001
        throttle_reasons = 4
        performance_state = 2
        ecc = true
        ecc_uncorrected = 3
        "#,
    );
    let stage = Stage::new(&scenario);
    let gpu = stage.handle(0).unwrap();
    let number = |name: &str| stage.read::<u32>(name, gpu);
    assert_eq!(
        stage.text("nvmlDeviceGetName", gpu).unwrap(),
        "NVIDIA RTX A6000"
    );
    assert_eq!(
        stage.text("nvmlDeviceGetUUID", gpu).unwrap(),
        scenario.gpus[0].uuid
    );
    assert_eq!(stage.text("nvmlDeviceGetSerial", gpu).unwrap(), "1320921");
    assert_eq!(
        stage.read::<[u32; 2]>("nvmlDeviceGetUtilizationRates", gpu),
        Ok([50, 7])
    );
    assert_eq!(
        stage.read_of::<u32>("nvmlDeviceGetTemperature", gpu, 0),
        Ok(61)
    );
    assert_eq!(number("nvmlDeviceGetPowerUsage"), Ok(71_500));
    assert_eq!(number("nvmlDeviceGetEnforcedPowerLimit"), Ok(300_000));
    assert_eq!(
        stage.read::<u64>("nvmlDeviceGetTotalEnergyConsumption", gpu),
        Ok(715_000)
    );
    assert_eq!(number("nvmlDeviceGetFanSpeed"), Ok(44));
    assert_eq!(
        stage.read_of::<u32>("nvmlDeviceGetFanSpeed_v2", gpu, 1),
        Ok(44)
    );
    assert_eq!(
        stage.read_of::<u32>("nvmlDeviceGetFanSpeed_v2", gpu, 2),
        Err(2)
    );
    assert_eq!(
        stage.read_of::<u32>("nvmlDeviceGetClockInfo", gpu, 0),
        Ok(1800)
    );
    assert_eq!(
        stage.read_of::<u32>("nvmlDeviceGetClockInfo", gpu, 2),
        Ok(8001)
    );
    assert_eq!(number("nvmlDeviceGetPerformanceState"), Ok(2));
    assert_eq!(
        stage.read::<u64>("nvmlDeviceGetCurrentClocksEventReasons", gpu),
        Ok(4)
    );
    let mib = 1 << 20;
    let sizes = [49_140 * mib, (49_140 - 1600) * mib, 1600 * mib];
    assert_eq!(
        stage.read::<[u64; 3]>("nvmlDeviceGetMemoryInfo", gpu),
        Ok(sizes)
    );
}

#[test]
fn a_reading_scripted_as_unsupported_is_not_a_number() {
    let scenario = scene(
        0.0,
        "[[gpu]]\npower_w = \"unsupported\"\nutil = \"unsupported\"\n",
    );
    let stage = Stage::new(&scenario);
    let gpu = stage.handle(0).unwrap();
    for name in [
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetFanSpeed",
    ] {
        assert_eq!(stage.read::<[u32; 8]>(name, gpu), Err(3), "{name}");
    }
}

#[test]
fn a_gpu_without_dedicated_memory_still_lists_its_processes() {
    let scenario = scene(
        0.0,
        "[[gpu]]\nunified_memory = true\n[[gpu.process]]\npid = 41\nmemory_mib = 100\n",
    );
    let stage = Stage::new(&scenario);
    let gpu = stage.handle(0).unwrap();
    assert_eq!(
        stage.read::<[u64; 3]>("nvmlDeviceGetMemoryInfo", gpu),
        Err(3)
    );
    let list = stage
        .list("nvmlDeviceGetComputeRunningProcesses_v3", gpu)
        .unwrap();
    assert_eq!((list[0].pid, list[0].memory), (41, 100 << 20));
}

#[test]
fn a_gpu_is_found_by_every_key() {
    let gpus: Vec<Gpu> = (0..16)
        .map(|number| Gpu {
            uuid: format!("GPU-{number}"),
            serial: Some(format!("S{number}")),
            ..Gpu::default()
        })
        .collect();
    let stage = Stage::new(&frozen(0.0, gpus));
    assert_eq!(stage.count(), Ok(16));
    let gpu = stage.handle(11).unwrap();
    assert_eq!(
        stage.by_text("nvmlDeviceGetHandleByUUID", c"GPU-11"),
        Ok(gpu)
    );
    assert_eq!(
        stage.by_text("nvmlDeviceGetHandleBySerial", c"S11"),
        Ok(gpu)
    );
    assert_eq!(
        stage.by_text("nvmlDeviceGetHandleByPciBusId_v2", c"00000000:0C:00.0"),
        Ok(gpu)
    );
    assert_eq!(
        stage.by_text("nvmlDeviceGetHandleByUUID", c"GPU-99"),
        Err(6)
    );
    assert_eq!(stage.handle(16), Err(2));
    assert_eq!(stage.read::<u32>("nvmlDeviceGetIndex", gpu), Ok(11));
    assert_eq!(stage.read::<u32>("nvmlDeviceGetMinorNumber", gpu), Ok(11));
    assert_eq!(
        stage.read::<u32>("nvmlDeviceGetIndex", std::ptr::null_mut()),
        Err(2)
    );
}

#[test]
fn energy_is_the_integral_of_power() {
    let square = "[[gpu]]\npower_w = { square = { low = 0, high = 100, period = 10 } }\n";
    for (at, millijoules) in [
        (0.0, 0),
        (2.5, 250_000),
        (7.0, 500_000),
        (12.0, 700_000),
        (20.0, 1_000_000),
    ] {
        let stage = Stage::new(&scene(at, square));
        let energy = stage.read::<u64>(
            "nvmlDeviceGetTotalEnergyConsumption",
            stage.handle(0).unwrap(),
        );
        assert_eq!(energy, Ok(millijoules), "at {at}");
    }
}
