//! A healthy host with two GPUs, for tests to modify.

use std::path::PathBuf;

use crate::host::Kernel;
use crate::host::device::Devices;
use crate::host::disk::{Entry, Parent, Room, Spot};
use crate::host::driver::{Flavour, KernelModule};
use crate::host::logind::RemoveIpc;
use crate::host::mount::{HideLevel, Hiding, Mount};
use crate::host::namespace::{PidNamespace, Surroundings};
use crate::host::privilege::Privilege;
use crate::host::time::TimeKeeping;
use gua_model::{Bytes, DriverPids};
use jiff::tz::TimeZone;

use super::check::{Finding, Status};
use super::facts::{Choice, Facts, HistoryKind, Known, Link, PidSetting};
use super::program::{End, Run};

pub(super) use gua_test::healthy::{VERSION, gpu, identity, instance, process, sample, uuid};

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
