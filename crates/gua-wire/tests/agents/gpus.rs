//! The generated GPUs of gpu-usage-audit's `--fake`, at the first of their five phases.

use std::time::Duration;

use gua_model::usage_state::UsageTracker;
use gua_model::{
    BootId, Bytes, Celsius, Driver, Gpu, Identity, Milliwatts, Missing, Percent, Pid, Process,
    ProcessKey, ProcessKind, Sample, StartTicks, Uid, User, Workload,
};
use gua_wire::snapshot::{About, BuildError, Built, Form, Observed, usage_states};
use gua_wire::users::UserPolicy;
use jiff::Timestamp;

/// The GPUs as a release with that format generates them.
pub(crate) fn sample(form: Form, at: Timestamp) -> Sample {
    let alice = process(1234, Some(("alice", "python")), 70_000);
    let bob = process(5678, Some(("bob", "jupyter")), 8000);
    let nobody = process(9999, None, 200);
    let desktop = Process {
        kind: ProcessKind::Graphics,
        ..process(1200, Some(("gdm", "Xorg")), 128)
    };
    let third = match form {
        Form::V1_1 => gpu(2, 0, 0, Vec::new()),
        Form::V1_4 => gpu(2, 0, 128, vec![desktop]),
    };
    Sample {
        at,
        since_boot: Duration::ZERO,
        boot: Ok(BootId(0)),
        driver: Driver {
            version: Ok("560.35.05-fake".to_owned()),
            cuda: Err(Missing::Unsupported),
        },
        gpus: vec![
            gpu(0, 80, 70_000, vec![alice]),
            gpu(1, 2, 8200, vec![bob, nobody]),
            third,
        ],
        problems: Vec::new(),
    }
}

fn gpu(index: u32, util: u32, used_mb: u64, processes: Vec<Process>) -> Gpu {
    let uuid = format!("GPU-{index}").parse().unwrap();
    Gpu {
        name: Ok("NVIDIA RTX A6000".to_owned()),
        memory_total: Ok(Bytes::from_mb(49_140)),
        memory_used: Ok(Bytes::from_mb(used_mb)),
        util: Ok(Percent::new(util).unwrap()),
        temperature: Ok(Celsius(40 + i32::try_from(util / 2).unwrap())),
        power: Ok(Milliwatts(u64::from(70 + util) * 1000)),
        compute_list: Ok(()),
        graphics_list: Ok(()),
        processes,
        ..Gpu::without_readings(uuid, index, Missing::Unsupported)
    }
}

pub(crate) fn process(pid: u32, who: Option<(&str, &str)>, mb: u64) -> Process {
    let identity = who.ok_or(Missing::Denied).map(|(user, comm)| Identity {
        key: ProcessKey {
            boot: BootId(0),
            pid: Pid(pid),
            start: StartTicks(0),
        },
        login: Ok(Some(User {
            uid: Uid(1001),
            name: Some(user.to_owned()),
        })),
        claimed_login: None,
        own: Err(Missing::Unsupported),
        workload: Workload::default(),
        comm: Ok(comm.to_owned()),
    });
    Process {
        pid: Pid(pid),
        kind: ProcessKind::Compute,
        memory: Ok(Bytes::from_mb(mb)),
        sm_util: Err(Missing::Unsupported),
        identity,
    }
}

pub(crate) const ABOUT: About<'static> = About {
    hostname: "vm",
    agent_version: "1.8.0",
    host_id: Some("h1"),
    display_name: Some("lab 1"),
};

/// Snapshot of one sample of the GPUs.
pub(crate) fn built(
    about: About<'_>,
    sample: &Sample,
    form: Form,
    users: &UserPolicy,
) -> Result<Built, BuildError> {
    let usage = usage_states(&mut UsageTracker::default(), sample);
    Observed {
        about,
        sample,
        usage: &usage,
        users,
        form,
    }
    .build()
}
