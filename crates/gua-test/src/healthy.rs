//! The sample of a healthy host: NVIDIA A100s without load, and a process of Ada. Tests change what they are about.

use std::time::Duration;

use gua_model::sample::{ComputeMode, PerformanceState, Switch, ThrottleReasons};
use gua_model::{
    Bytes, Celsius, Driver, Gpu, GpuUuid, Identity, Megahertz, Millijoules, Milliwatts, Missing,
    Percent, Pid, Place, Process, ProcessKey, ProcessKind, Reading, Sample, StartTicks, Workload,
};

use crate::samples::{BOOT, user};

/// Version of the driver.
pub const VERSION: &str = "550.54.14";

pub fn sample(gpus: Vec<Gpu>) -> Sample {
    Sample {
        at: "2026-11-15T01:02:03.5Z".parse().unwrap(),
        since_boot: Duration::from_millis(1_234_500),
        boot: Ok(BOOT),
        driver: Driver {
            version: Ok(VERSION.to_owned()),
            cuda: Ok((12, 4)),
        },
        gpus,
        problems: Vec::new(),
    }
}

pub fn uuid(index: u32) -> GpuUuid {
    format!("GPU-{index}").parse().unwrap()
}

/// A healthy GPU without processes.
pub fn gpu(index: u32) -> Gpu {
    Gpu {
        name: Ok("NVIDIA A100-SXM4-80GB".to_owned()),
        memory_total: Ok(Bytes::from_mb(81_920)),
        memory_used: Ok(Bytes::from_mb(20_000)),
        memory_reserved: Ok(Bytes::from_mb(500)),
        util: Ok(Percent::ZERO),
        memory_util: Ok(Percent::ZERO),
        temperature: Ok(Celsius(41)),
        power: Ok(Milliwatts(61_500)),
        power_limit: Ok(Milliwatts(400_000)),
        energy: Ok(Millijoules(123_456_789)),
        sm_clock: Ok(Megahertz(1410)),
        memory_clock: Ok(Megahertz(1593)),
        performance_state: Ok(PerformanceState(0)),
        throttle: Ok(ThrottleReasons(1)),
        ecc_mode: Ok(Switch::On),
        ecc_corrected: Ok(3),
        ecc_uncorrected: Err(Missing::Failed),
        mig: Ok(Switch::Off),
        compute_mode: Ok(ComputeMode::Default),
        persistence: Ok(Switch::On),
        compute_list: Ok(()),
        graphics_list: Ok(()),
        ..Gpu::without_readings(uuid(index), index, Missing::Unsupported)
    }
}

/// An instance of the GPU with that index.
pub fn instance(parent: u32, number: u32) -> Gpu {
    let uuid = format!("MIG-{parent}-{number}").parse().unwrap();
    let place = Place::Instance {
        parent: self::uuid(parent),
        gpu_instance: Ok(number),
        compute_instance: Ok(0),
        slice: Err(Missing::Unsupported),
    };
    Gpu {
        uuid,
        place,
        ..gpu(parent)
    }
}

pub fn process(pid: u32, identity: Reading<Identity>) -> Process {
    Process {
        pid: Pid(pid),
        kind: ProcessKind::Compute,
        memory: Ok(Bytes::from_mb(18_000)),
        sm_util: Ok(Some(Percent::ZERO)),
        identity,
    }
}

/// A process of Ada, started from her login.
pub fn identity(pid: u32) -> Identity {
    let ada = user(1000, "ada");
    Identity {
        key: ProcessKey {
            boot: BOOT,
            pid: Pid(pid),
            start: StartTicks(777),
        },
        login: Ok(Some(ada.clone())),
        claimed_login: None,
        own: Ok(ada),
        workload: Workload {
            job: "4711".parse().ok(),
            ..Workload::default()
        },
        comm: Ok("python3".to_owned()),
    }
}
