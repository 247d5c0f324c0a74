//! A healthy host with two GPUs, for tests to modify.

use std::path::PathBuf;
use std::time::Duration;

use crate::host::Kernel;
use crate::host::device::Devices;
use crate::host::disk::{Entry, Parent, Room, Spot};
use crate::host::driver::{Flavour, KernelModule};
use crate::host::logind::RemoveIpc;
use crate::host::mount::{HideLevel, Hiding, Mount};
use crate::host::namespace::{PidNamespace, Surroundings};
use crate::host::privilege::Privilege;
use crate::host::time::TimeKeeping;
use gua_model::sample::{ComputeMode, PerformanceState, Switch, ThrottleReasons};
use gua_model::{
    BootId, Bytes, Celsius, Driver, DriverPids, Gpu, GpuUuid, Identity, Megahertz, Millijoules,
    Milliwatts, Missing, Percent, Pid, Place, Process, ProcessKey, ProcessKind, Reading, Sample,
    StartTicks, Uid, User, Workload,
};
use jiff::tz::TimeZone;

use super::check::{Finding, Status};
use super::facts::{Choice, Facts, HistoryKind, Known, Link, PidSetting};
use super::program::{End, Run};

pub(super) const VERSION: &str = "550.54.14";

pub(super) fn healthy() -> Facts {
    let seoul = TimeZone::get("Asia/Seoul").unwrap();
    Facts {
        now: "2026-11-15T01:02:03.5Z"
            .parse::<jiff::Timestamp>()
            .unwrap()
            .to_zoned(seoul),
        kernel: Kernel {
            system: "Linux".into(),
            release: "6.8.0-45-generic".into(),
            machine: "x86_64".into(),
        },
        time_keeping: TimeKeeping {
            booted: Some("2026-11-01T00:00:00Z".parse().unwrap()),
            synchronised: Some(true),
        },
        surroundings: Surroundings {
            pid_namespace: PidNamespace::Host,
            engines: Vec::new(),
        },
        hiding: Some(Hiding {
            level: HideLevel::Off,
            gid: None,
        }),
        privilege: Privilege {
            groups: vec![1000],
            sees_everyone: false,
        },
        devices: Devices {
            gpus: vec!["/dev/nvidia0".into(), "/dev/nvidia1".into()],
            controls: vec!["/dev/nvidia-uvm".into(), "/dev/nvidiactl".into()],
        },
        smi: listing(
            0,
            "GPU 0: NVIDIA A100 (UUID: GPU-0)\nGPU 1: NVIDIA A100 (UUID: GPU-1)\n",
            "",
        ),
        module: Some(KernelModule {
            version: VERSION.into(),
            flavour: Flavour::Proprietary,
        }),
        driver: Ok(sample(vec![gpu(0), gpu(1)])),
        collectors: Some(Vec::new()),
        remove_ipc: RemoveIpc::BuiltIn { shown: Some(true) },
        spot: Some(Spot {
            entry: Entry::Absent,
            parent: Parent::Writable,
            room: Some(room()),
        }),
        mount: Some(mount("ext4")),
        known: Known {
            search_path: None,
            configuration: Vec::new(),
            unreadable_files: Vec::new(),
            alerts: (0, Vec::new()),
            claims: Ok("/run/lock".into()),
            link: Link::NotEnrolled,
            db: "/home/ada/.gua/gua.db".into(),
            choice: Choice::Default,
            history: HistoryKind::Ours,
            python_writer: None,
            read_elsewhere: None,
            driver_pids: PidSetting {
                value: DriverPids::Auto,
                source: None,
            },
            library: None,
        },
    }
}

pub(super) fn listing(code: i32, stdout: &str, stderr: &str) -> Option<Run> {
    Some(Run {
        path: PathBuf::from("/usr/bin/nvidia-smi"),
        end: End::Code(code),
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
    })
}

pub(super) fn mount(kind: &str) -> Mount {
    Mount {
        point: "/".into(),
        kind: kind.into(),
        options: Vec::new(),
    }
}

pub(super) fn room() -> Room {
    Room {
        directory: "/home/ada".into(),
        free: Bytes::from_mb(120 * 1024 + 512),
        total: Bytes::from_mb(500 * 1024),
        free_inodes: Some(1_000_000),
        directory_access: Parent::Writable,
        is_read_only: false,
    }
}

pub(super) fn sample(gpus: Vec<Gpu>) -> Sample {
    Sample {
        at: "2026-11-15T01:02:03.5Z".parse().unwrap(),
        since_boot: Duration::from_millis(1_234_500),
        boot: Ok(BootId(1)),
        driver: Driver {
            version: Ok(VERSION.to_owned()),
            cuda: Ok((12, 4)),
        },
        gpus,
        problems: Vec::new(),
    }
}

pub(super) fn uuid(index: u32) -> GpuUuid {
    format!("GPU-{index}").parse().unwrap()
}

/// A healthy GPU without processes.
pub(super) fn gpu(index: u32) -> Gpu {
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
pub(super) fn instance(parent: u32, number: u32) -> Gpu {
    let uuid = format!("MIG-{parent}-{number}").parse().unwrap();
    let place = Place::Instance {
        parent: super::fixture::uuid(parent),
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

pub(super) fn process(pid: u32, identity: Reading<Identity>) -> Process {
    Process {
        pid: Pid(pid),
        kind: ProcessKind::Compute,
        memory: Ok(Bytes::from_mb(18_000)),
        sm_util: Ok(Some(Percent::ZERO)),
        identity,
    }
}

/// A process of Ada, started from her login.
pub(super) fn identity(pid: u32) -> Identity {
    let ada = User {
        uid: Uid(1000),
        name: Some("ada".to_owned()),
    };
    Identity {
        key: ProcessKey {
            boot: BootId(1),
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

/// Compares a finding with a verdict, its summary, and the beginning of its advice: `blocker: ...` or `advice: ...`.
#[track_caller]
pub(super) fn assert_check(check: &Finding, status: Status, summary: &str, advice: &[&str]) {
    assert_eq!((check.status, check.summary.as_str()), (status, summary));
    let said: Vec<String> = check
        .advice
        .iter()
        .map(|advice| match advice.is_blocker {
            true => format!("blocker: {}", advice.action),
            false => format!("advice: {}", advice.action),
        })
        .collect();
    assert_eq!(said.len(), advice.len(), "{said:#?}");
    for (said, expected) in said.iter().zip(advice) {
        assert!(
            said.starts_with(expected),
            "{said}\nshould begin with\n{expected}"
        );
    }
    assert!(json(check).is_object());
}

/// The details as JSON.
pub(super) fn json(check: &Finding) -> serde_json::Value {
    serde_json::to_value(&check.details).unwrap()
}
