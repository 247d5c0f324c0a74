use std::collections::{HashMap, HashSet};

use gua_model::pick::{Criteria, LastUse};
use gua_model::quota::{Limit, Measure, NoForecast, Sharing, Standing, Subject, Term, Who};
use gua_model::sample::MemoryRepairs;
use gua_model::{Bytes, Driver, FaultKind, Gpu, Percent, Pid, Process, ProcessKind, Sample, State};

use jiff::tz::TimeZone;

use super::*;
use crate::snapshot::Snapshot;
use crate::users::{Salt, UserPolicy};

/// Checks the state and obstacle of a GPU in a snapshot.
fn check(card: &str, errors: &str, state: State, obstacle: Option<ObstacleWord>) {
    let text = format!(
        r#"{{"schemaVersion":"availability.snapshot.v1","collectionStatus":"partial","observedAt":"2026-01-02T03:04:05+00:00",
        "host":{{"hostname":"h","agentVersion":"1","driverVersion":"unknown"}},"errors":[{errors}],
        "gpus":[{{"index":0,"uuid":"GPU-a","name":"A100","memoryTotalMb":40000,"temperatureC":null,"powerW":55,{card}}}]}}"#
    );
    let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
    let report = LiveReport::from_snapshot(&snapshot, snapshot.observed_at.parse().unwrap());
    let gpu = &report.gpus[0];
    assert_eq!((gpu.state, gpu.obstacle), (state, obstacle), "{card}");
    assert_eq!(report.host.driver_version, None);
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<LiveReport>(&json).unwrap(), report);
}

#[test]
fn a_snapshot_is_judged_by_the_rule_of_available() {
    let held = r#""utilPct":3,"memoryUsedMb":9000,"processes":[{"pid":7,"linuxUser":"ada","name":"python","memoryUsedMb":8000}]"#;
    check(held, "", State::IdleHeld, Some(ObstacleWord::Held));
    let free = r#""utilPct":0,"memoryUsedMb":3,"processes":[]"#;
    check(free, "", State::TrulyIdle, None);
    let full = r#""utilPct":0,"memoryUsedMb":30000,"processes":[]"#;
    check(full, "", State::TrulyIdle, Some(ObstacleWord::MemoryUsed));
    let ghost = r#""utilPct":90,"memoryUsedMb":3,"processes":[]"#;
    check(ghost, "", State::Ghost, Some(ObstacleWord::Busy));
}

/// A vacant GPU.
fn vacant() -> Gpu {
    let mut gpu = Gpu::without_readings("GPU-a".parse().unwrap(), 0, Missing::Unsupported);
    gpu.util = Percent::new(0).ok_or(Missing::Failed);
    gpu.memory_total = Ok(Bytes::from_mb(40_000));
    gpu.memory_used = Ok(Bytes::from_mb(5));
    (gpu.compute_list, gpu.graphics_list) = (Ok(()), Ok(()));
    gpu
}

/// Returns what an agent sends about a GPU.
fn live(gpu: Gpu) -> LiveGpu {
    let sample = Sample {
        at: Timestamp::UNIX_EPOCH,
        since_boot: std::time::Duration::ZERO,
        boot: Err(Missing::Failed),
        driver: Driver {
            version: Err(Missing::Failed),
            cuda: Err(Missing::Failed),
        },
        gpus: vec![gpu],
        problems: Vec::new(),
    };
    let inputs = LiveInputs {
        hostname: "h",
        agent_version: "1",
        sample: &sample,
        users: &UserPolicy::Plain,
        criteria: &Criteria::default(),
        last_use: &LastUse::new(),
        claims: &HashMap::new(),
        keeps: &HashMap::new(),
        kept: &HashSet::new(),
        waiting: 0,
    };
    inputs.build().gpus.remove(0)
}

/// A process that the driver does not name has no place in a snapshot; the live report carries it.
#[test]
fn a_holder_without_a_pid_reaches_the_board() {
    let mut gpu = vacant();
    gpu.processes.push(Process {
        pid: Pid(0),
        kind: ProcessKind::Compute,
        memory: Ok(Bytes::from_mb(2)),
        sm_util: Err(Missing::Unsupported),
        identity: Err(Missing::Denied),
    });
    let live = live(gpu);
    assert_eq!(live.obstacle, Some(ObstacleWord::Held));
    assert_eq!((live.processes.len(), live.processes[0].pid), (1, 0));
    assert_eq!(live.processes[0].owner, None);
}

#[test]
fn an_unhealthy_gpu_is_not_free_on_a_board() {
    assert!(live(vacant()).is_free());
    let mut gpu = vacant();
    gpu.ecc_uncorrected = Ok(2);
    gpu.memory_repairs = Ok(MemoryRepairs(MemoryRepairs::REMAP_PENDING));
    let live = live(gpu);
    assert_eq!(live.obstacle, Some(ObstacleWord::Unhealthy));
    assert_eq!(
        live.health,
        [FaultKind::UncorrectedErrors, FaultKind::RemapPending]
    );
    let json = serde_json::to_string(&live).unwrap();
    assert!(json.contains(r#""obstacle":"unhealthy""#), "{json}");
    assert!(
        json.contains(r#""health":["uncorrected-errors","remap-pending"]"#),
        "{json}"
    );
}

#[test]
fn a_gpu_whose_process_list_is_missing_is_not_free() {
    let card = r#""utilPct":0,"memoryUsedMb":3,"processes":[]"#;
    let error = r#""process_list_unavailable""#;
    check(
        card,
        error,
        State::Unobserved,
        Some(ObstacleWord::Unobserved),
    );
    let read = r#""utilPct":0,"memoryUsedMb":3,"usageState":"idle","processes":[]"#;
    check(read, error, State::TrulyIdle, None);
}

#[test]
fn a_missing_value_has_its_reason_in_json() {
    let missing = LiveValue::<u8>::from(Err(Missing::Denied));
    assert_eq!(
        serde_json::to_string(&missing).unwrap(),
        r#"{"missing":"denied"}"#
    );
    assert_eq!(
        serde_json::from_str::<LiveValue<u8>>("7").unwrap(),
        LiveValue::Known(7)
    );
    for bad in ["null", r#"{"missing":"x"}"#, "\"7\"", "-1"] {
        assert!(serde_json::from_str::<LiveValue<u8>>(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_fault_is_sent_under_its_name_in_documents() {
    for kind in FaultKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
}

#[test]
fn the_reason_of_a_keep_leaves_the_host_with_plain_names_only() {
    let salt = Salt::new(b"0123456789abcdef").unwrap();
    let check = |users: UserPolicy, expected: &str| {
        let keep = GpuKeep::new(&users, "ada", Timestamp::UNIX_EPOCH, "for bob's paper");
        let json = serde_json::to_string(&keep).unwrap();
        assert_eq!(json, expected);
    };
    check(
        UserPolicy::Plain,
        r#"{"owner":"ada","until":"1970-01-01T00:00:00Z","why":"for bob's paper"}"#,
    );
    let pseudonym = salt.pseudonym("ada");
    check(
        UserPolicy::Hash(salt),
        &format!(r#"{{"owner":"{pseudonym}","until":"1970-01-01T00:00:00Z","why":null}}"#),
    );
    check(
        UserPolicy::Omit,
        r#"{"owner":null,"until":"1970-01-01T00:00:00Z","why":null}"#,
    );
}

#[test]
fn a_report_of_an_agent_that_knows_no_keeps_is_accepted() {
    let mut gpu = live(vacant());
    let old = serde_json::to_string(&gpu).unwrap();
    assert!(!old.contains("keeps"), "{old}");
    assert_eq!(serde_json::from_str::<LiveGpu>(&old).unwrap(), gpu);
    let users = UserPolicy::Plain;
    gpu.keeps = vec![GpuKeep::new(&users, "ada", Timestamp::UNIX_EPOCH, "x")];
    let new = serde_json::to_string(&gpu).unwrap();
    assert_eq!(serde_json::from_str::<LiveGpu>(&new).unwrap(), gpu);
}

/// A standing under a limit of 10 hours.
fn standing(who: Who, used: u64, per: Term) -> Standing {
    let now = "2026-11-18T12:00:00Z".parse().unwrap();
    let limit = Limit {
        subject: match &who {
            Who::Person(name) => Subject::User(name.clone()),
            Who::Group(name) => Subject::Group(name.clone()),
            Who::Everyone => Subject::Everyone,
        },
        sharing: match who {
            Who::Person(_) => Sharing::Each,
            Who::Group(_) | Who::Everyone => Sharing::Together,
        },
        measure: Measure::IdleHeld,
        per,
        most: 36_000_000_000,
    };
    Standing {
        who,
        limit,
        period: per.period(now, &TimeZone::UTC),
        at_least: used,
        used: Some(used),
        forecast: Err(NoForecast::TooEarly),
        reached: None,
    }
}

#[test]
fn a_quota_is_the_same_on_the_board_as_on_the_host() {
    let day = std::time::Duration::from_secs(86_400);
    for per in [Term::Day, Term::Week, Term::Month, Term::Rolling(day)] {
        for who in [
            Who::Person("ada".to_owned()),
            Who::Group("students".to_owned()),
            Who::Everyone,
        ] {
            let sent = standing(who, 7, per);
            let quota = LiveQuota::new(&UserPolicy::Plain, &sent).unwrap();
            let json = serde_json::to_string(&quota).unwrap();
            let read: LiveQuota = serde_json::from_str(&json).unwrap();
            assert_eq!(read.standing(), sent);
        }
    }
}

#[test]
fn names_in_quotas_follow_the_setting_and_unused_quotas_are_left_out() {
    let salt = Salt::new(b"0123456789abcdef").unwrap();
    let name = |users: &UserPolicy, who: Who| {
        let quota = LiveQuota::new(users, &standing(who, 7, Term::Day))?;
        Some(quota.name().unwrap_or("everyone").to_owned())
    };
    let named = |name: &str| [Who::Person(name.to_owned()), Who::Group(name.to_owned())];
    let hash = UserPolicy::Hash(salt.clone());
    for who in named("ada") {
        assert_eq!(
            name(&UserPolicy::Plain, who.clone()),
            Some("ada".to_owned())
        );
        assert_eq!(name(&hash, who.clone()), Some(salt.pseudonym("ada")));
        assert_eq!(name(&UserPolicy::Omit, who), None);
    }
    assert!(name(&UserPolicy::Omit, Who::Everyone).is_some());
    let unused = standing(Who::Everyone, 0, Term::Day);
    assert_eq!(LiveQuota::new(&UserPolicy::Plain, &unused), None);
}
