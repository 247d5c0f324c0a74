//! Simulated telemetry, to try commands without a GPU. [`month`] is a month of a lab server. This file has the three GPUs of
//! gpu-usage-audit, which repeat the same pattern every five ticks; `gpu-usage-audit demo` records them.

pub mod month;

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    BootId, Bytes, Celsius, Driver, Gpu, Identity, Milliwatts, Missing, Percent, Pid, Process,
    ProcessKey, ProcessKind, Reading, Sample, StartTicks, Uid, User, Workload,
};

const BOOT: BootId = BootId(0);

/// Release of gpu-usage-audit whose telemetry is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Release 1.1: the third GPU has no process.
    V1_1,
    /// Release 1.4 and later: the third GPU has a desktop process.
    V1_8,
}

/// Sample of the GPUs in one of the five phases.
pub fn sample(script: Script, phase: u64, at: Timestamp, since_boot: Duration) -> Sample {
    let alice = process(
        1234,
        Some((1001, "alice", "python")),
        70_000,
        ProcessKind::Compute,
    );
    let first = match phase % 5 {
        0 | 1 => gpu(0, 80, 70_000, vec![alice]),
        2 | 3 => gpu(0, 2, 70_000, vec![alice]),
        _ => gpu(0, 0, 0, Vec::new()),
    };
    let bob = process(
        5678,
        Some((1002, "bob", "jupyter")),
        8000,
        ProcessKind::Compute,
    );
    let nobody = process(9999, None, 200, ProcessKind::Compute);
    let third = match script {
        Script::V1_1 => gpu(2, 0, 0, Vec::new()),
        Script::V1_8 => {
            let desktop = process(1200, Some((120, "gdm", "Xorg")), 128, ProcessKind::Graphics);
            gpu(2, 0, 128, vec![desktop])
        }
    };
    Sample {
        at,
        since_boot,
        boot: Ok(BOOT),
        driver: Driver {
            version: Ok("560.35.05-fake".to_owned()),
            cuda: Err(Missing::Unsupported),
        },
        gpus: vec![first, gpu(1, 2, 8200, vec![bob, nobody]), third],
        problems: Vec::new(),
    }
}

fn gpu(index: u32, util: u32, used_mb: u64, processes: Vec<Process>) -> Gpu {
    let uuid = format!("GPU-{index}")
        .parse()
        .expect("letters and a number");
    let heat = i32::try_from(40 + util / 2).unwrap_or(i32::MAX);
    Gpu {
        name: Ok("NVIDIA RTX A6000".to_owned()),
        memory_total: Ok(Bytes::from_mb(49_140)),
        memory_used: Ok(Bytes::from_mb(used_mb)),
        util: Percent::new(util).ok_or(Missing::Failed),
        temperature: Ok(Celsius(heat)),
        power: Ok(Milliwatts(u64::from(70 + util) * 1000)),
        compute_list: Ok(()),
        graphics_list: Ok(()),
        processes,
        ..Gpu::without_readings(uuid, index, Missing::Unsupported)
    }
}

fn process(pid: u32, who: Option<(u32, &str, &str)>, mb: u64, kind: ProcessKind) -> Process {
    let identity: Reading<Identity> = who.ok_or(Missing::Denied).map(|(uid, user, name)| {
        let user = User {
            uid: Uid(uid),
            name: Some(user.to_owned()),
        };
        Identity {
            key: ProcessKey {
                boot: BOOT,
                pid: Pid(pid),
                start: StartTicks(0),
            },
            login: Ok(Some(user.clone())),
            claimed_login: None,
            own: Ok(user),
            workload: Workload::default(),
            comm: Ok(name.to_owned()),
        }
    });
    Process {
        pid: Pid(pid),
        kind,
        memory: Ok(Bytes::from_mb(mb)),
        sm_util: Err(Missing::Unsupported),
        identity,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_phase(script: Script, phase: u64) -> Sample {
        sample(script, phase, Timestamp::UNIX_EPOCH, Duration::ZERO)
    }

    #[test]
    fn the_first_gpu_is_busy_idle_and_released_every_five_ticks() {
        let first = |phase: u64| {
            let sample = at_phase(Script::V1_1, phase);
            let gpu = &sample.gpus[0];
            let used = gpu.memory_used.unwrap().whole_mb();
            (gpu.util.unwrap().get(), used, gpu.processes.len())
        };
        for round in [0, 5, 1_700_000_000] {
            assert_eq!(first(round), (80, 70_000, 1));
            assert_eq!(first(round + 1), (80, 70_000, 1));
            assert_eq!(first(round + 2), (2, 70_000, 1));
            assert_eq!(first(round + 3), (2, 70_000, 1));
            assert_eq!(first(round + 4), (0, 0, 0));
        }
    }

    #[test]
    fn processes_come_in_the_order_of_the_replaced_tool() {
        let pids = |script| -> Vec<u32> {
            let sample = at_phase(script, 0);
            let processes = sample.gpus.iter().flat_map(|gpu| &gpu.processes);
            processes.map(|process| process.pid.0).collect()
        };
        assert_eq!(pids(Script::V1_1), [1234, 5678, 9999]);
        assert_eq!(pids(Script::V1_8), [1234, 5678, 9999, 1200]);
        let sample = at_phase(Script::V1_1, 0);
        assert_eq!(sample.gpus[0].temperature, Ok(Celsius(80)));
        assert_eq!(sample.gpus[0].power, Ok(Milliwatts(150_000)));
    }
}
