//! Builders of samples, GPUs and processes. They fill every field with a plain value; a test sets the fields it is about.

use std::time::Duration;

use gua_model::{
    BootId, Bytes, Driver, Gpu, Identity, Missing, Percent, Pid, Process, ProcessKey, ProcessKind,
    Sample, StartTicks, Uid, User, Workload,
};
use jiff::Timestamp;

/// The boot in which all samples are taken.
pub const BOOT: BootId = BootId(1);

pub fn user(uid: u32, name: &str) -> User {
    User {
        uid: Uid(uid),
        name: Some(name.to_owned()),
    }
}

/// A visible process that computes. Its start time is its pid, so that a reused pid can be simulated.
pub fn process(pid: u32, user: User, mb: u64) -> Process {
    Process {
        pid: Pid(pid),
        kind: ProcessKind::Compute,
        memory: Ok(Bytes::from_mb(mb)),
        sm_util: Err(Missing::Unsupported),
        identity: Ok(Identity {
            key: ProcessKey {
                boot: BOOT,
                pid: Pid(pid),
                start: StartTicks(u64::from(pid)),
            },
            login: Ok(Some(user.clone())),
            claimed_login: None,
            own: Ok(user),
            workload: Workload::default(),
            comm: Ok("python".to_owned()),
        }),
    }
}

/// A GPU with a utilisation and these processes, and no other readings.
pub fn gpu(index: u32, uuid: &str, util: u32, processes: Vec<Process>) -> Gpu {
    Gpu {
        util: Ok(Percent::new(util).unwrap()),
        compute_list: Ok(()),
        graphics_list: Ok(()),
        processes,
        ..Gpu::without_readings(uuid.parse().unwrap(), index, Missing::Unsupported)
    }
}

/// A sample without problems. The time since boot is that since 1970, so that both clocks agree.
pub fn sample(at: Timestamp, gpus: Vec<Gpu>) -> Sample {
    let since_boot = at.duration_since(Timestamp::UNIX_EPOCH);
    Sample {
        at,
        since_boot: Duration::try_from(since_boot).unwrap(),
        boot: Ok(BOOT),
        driver: Driver {
            version: Ok("550".to_owned()),
            cuda: Err(Missing::Unsupported),
        },
        gpus,
        problems: Vec::new(),
    }
}
