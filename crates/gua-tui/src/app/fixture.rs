//! Samples for tests.

use std::time::Duration;

use gua_model::{
    BootId, Bytes, Celsius, Driver, Gpu, Identity, Milliwatts, Missing, Percent, Pid, Place,
    Process, ProcessKey, ProcessKind, Reading, Sample, StartTicks, Thresholds, Uid, User, Workload,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{App, Me, Rights, Setup};
use crate::terminal::Palette;

pub(crate) const BOOT: BootId = BootId(7);

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(crate) fn sample_at(second: i64) -> Sample {
    sample_of(second, Vec::new())
}

pub(crate) fn sample_of(second: i64, gpus: Vec<Gpu>) -> Sample {
    Sample {
        at: at(second),
        since_boot: Duration::from_secs(100_000),
        boot: Ok(BOOT),
        driver: Driver {
            version: Ok("560.35.05".to_owned()),
            cuda: Ok((12, 6)),
        },
        gpus,
        problems: Vec::new(),
    }
}

/// Creates a GPU with processes as pid, user and MB. Users are numbered by their first letter: `ada` is 1097.
pub(crate) fn gpu(index: u32, uuid: &str, util: Reading<u32>, list: &[(u32, &str, u64)]) -> Gpu {
    let used: u64 = list.iter().map(|(_, _, mb)| mb).sum();
    Gpu {
        name: Ok("NVIDIA RTX A6000".to_owned()),
        memory_total: Ok(Bytes::from_mb(49140)),
        memory_used: Ok(Bytes::from_mb(used)),
        util: util.map(|util| Percent::new(util).unwrap()),
        temperature: Ok(Celsius(54)),
        power: Ok(Milliwatts(171_400)),
        power_limit: Ok(Milliwatts(300_000)),
        compute_list: Ok(()),
        graphics_list: Ok(()),
        processes: list
            .iter()
            .map(|(pid, user, mb)| process(*pid, user, *mb))
            .collect(),
        ..Gpu::without_readings(uuid.parse().unwrap(), index, Missing::Unsupported)
    }
}

pub(crate) fn process(pid: u32, user: &str, mb: u64) -> Process {
    let uid = 1000 + user.bytes().next().map_or(0, u32::from);
    let user = User {
        uid: Uid(uid),
        name: Some(user.to_owned()),
    };
    Process {
        pid: Pid(pid),
        kind: ProcessKind::Compute,
        memory: Ok(Bytes::from_mb(mb)),
        sm_util: Ok(None),
        identity: Ok(Identity {
            key: ProcessKey {
                boot: BOOT,
                pid: Pid(pid),
                start: StartTicks(u64::from(pid) * 100),
            },
            login: Ok(Some(user.clone())),
            claimed_login: None,
            own: Ok(user),
            workload: Workload::default(),
            comm: Ok("python".to_owned()),
        }),
    }
}

pub(crate) fn instance(parent: &str, number: u32, list: &[(u32, &str, u64)]) -> Gpu {
    let uuid = format!("MIG-{number}");
    Gpu {
        place: Place::Instance {
            parent: parent.parse().unwrap(),
            gpu_instance: Ok(number),
            compute_instance: Ok(0),
            slice: Err(Missing::Unsupported),
        },
        name: Ok("NVIDIA A100 MIG 1g.10gb".to_owned()),
        temperature: Err(Missing::Unsupported),
        power: Err(Missing::Unsupported),
        ..gpu(0, &uuid, Err(Missing::Unsupported), list)
    }
}

pub(crate) fn app() -> App {
    let setup = Setup {
        host: "node1".to_owned(),
        interval: Duration::from_secs(1),
        thresholds: Thresholds::default(),
        ticks_per_second: 100,
        zone: TimeZone::UTC,
        palette: Palette::Plain,
        rights: Rights::Own(Me {
            uid: Uid(1097),
            owner: Uid(1097),
        }),
        has_history: true,
    };
    App::new(setup, at(1000))
}
