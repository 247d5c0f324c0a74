use super::*;
use crate::classify::Basis;
use crate::id::{BootId, Pid, ProcessKey, StartTicks, Uid};
use crate::owner::{Identity, Owner, OwnerKey, OwnerSource, User, Workload};
use crate::sample::{MemoryRepairs, ProcessKind, ThrottleReasons};
use crate::span::{Holder, Share};
use crate::unit::{Celsius, Centipercent, Milliwatts};

fn user(name: &str) -> User {
    User {
        uid: Uid(1000 + u32::try_from(name.len()).unwrap()),
        name: Some(name.to_owned()),
    }
}

fn process(owner: &str, memory: &str, kind: ProcessKind) -> Process {
    let identity = Identity {
        key: ProcessKey {
            boot: BootId(1),
            pid: Pid(7),
            start: StartTicks(1),
        },
        login: Ok(Some(user(owner))),
        claimed_login: None,
        own: Ok(user(owner)),
        workload: Workload::default(),
        comm: Ok("python3".to_owned()),
    };
    Process {
        pid: Pid(if owner == "unnamed" { 0 } else { 7 }),
        kind,
        memory: memory
            .parse()
            .map(Bytes::from_mb)
            .map_err(|_| Missing::Failed),
        sm_util: Err(Missing::Unsupported),
        identity: match owner {
            "gone" => Err(Missing::Gone),
            "?" | "unnamed" => Err(Missing::Denied),
            _ => Ok(identity),
        },
    }
}

/// Parses a GPU of 10000 MB with readings; the parts change it.
fn gpu_of(text: &str) -> Gpu {
    let mut gpu = Gpu::without_readings("GPU-0".parse().unwrap(), 0, Missing::Unsupported);
    gpu.name = Ok("NVIDIA RTX A6000".to_owned());
    gpu.compute_list = Ok(());
    gpu.graphics_list = Ok(());
    gpu.util = Ok(Percent::ZERO);
    gpu.memory_total = Ok(Bytes::from_mb(10_000));
    gpu.memory_used = Ok(Bytes(0));
    for part in text
        .split('|')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        match part.split(' ').collect::<Vec<_>>().as_slice() {
            ["used", mb] => gpu.memory_used = Ok(Bytes::from_mb(mb.parse().unwrap())),
            ["util", percent] => gpu.util = Ok(Percent::new(percent.parse().unwrap()).unwrap()),
            ["util-missing"] => gpu.util = Err(Missing::Failed),
            ["lists-missing"] => gpu.compute_list = Err(Missing::Failed),
            ["reserved", mb] => {
                gpu.memory_reserved = mb.parse().map(Bytes::from_mb).map_err(|_| Missing::Failed);
            }
            ["memory-missing"] => gpu.memory_used = Err(Missing::Failed),
            ["unified"] => {
                gpu.memory_total = Err(Missing::Unsupported);
                gpu.memory_used = Err(Missing::Unsupported);
            }
            ["ecc", errors] => gpu.ecc_uncorrected = Ok(errors.parse().unwrap()),
            ["hot"] => gpu.throttle = Ok(ThrottleReasons(0x40)),
            ["remap-failed"] => gpu.memory_repairs = Ok(MemoryRepairs(MemoryRepairs::REMAP_FAILED)),
            ["lost"] => gpu = Gpu::without_readings(gpu.uuid, 0, Missing::Gone),
            ["parent"] => gpu.place = Place::Parent { instances: 2 },
            ["draws", owner, mb] => {
                gpu.processes
                    .push(process(owner, mb, ProcessKind::Graphics));
            }
            [owner, mb] => gpu.processes.push(process(owner, mb, ProcessKind::Compute)),
            other => panic!("{other:?}"),
        }
    }
    gpu
}

#[track_caller]
fn check(criteria: &Criteria, text: &str, expected: Option<Obstacle>) {
    assert_eq!(
        obstacle(&gpu_of(text), criteria, &LastUse::new()),
        expected,
        "{text}"
    );
}

fn used(mb: u64) -> Option<Obstacle> {
    Some(Obstacle::MemoryUsed {
        used: Bytes::from_mb(mb),
        total: Bytes::from_mb(10_000),
    })
}

#[test]
fn a_gpu_is_free_when_nobody_holds_it_and_little_memory_is_used() {
    let criteria = Criteria::default();
    check(&criteria, "", None);
    check(&criteria, "used 2000", None);
    check(&criteria, "used 2001", used(2001));
    check(&criteria, "used 101 | ada 101", Some(Obstacle::Held));
    check(&criteria, "used 50 | ada unknown", Some(Obstacle::Held));
    check(&criteria, "gone 101", Some(Obstacle::Held));
    check(&criteria, "unnamed 1", Some(Obstacle::Held));
    check(&criteria, "draws ada 310 | used 310", None);
    check(&criteria, "parent", Some(Obstacle::Divided));
}

/// A view of the records for another user replaces the pid by 0; the state stays the same.
#[test]
fn a_process_whose_pid_is_masked_is_judged_by_its_memory() {
    let mut gpu = gpu_of("used 50 | ada 50");
    gpu.processes[0].pid = Pid(0);
    assert!(is_free(&gpu, &Thresholds::default()));
}

/// The state decides, so that a GPU is free if and only if reports count it as truly idle.
#[test]
fn a_small_process_on_an_idle_gpu_is_classified_once() {
    for (text, state) in [
        ("used 50 | ada 50", State::TrulyIdle),
        ("used 100 | ada 50 | bob 50", State::TrulyIdle),
        ("used 101 | ada 50 | bob 51", State::IdleHeld),
        ("used 50 | ada 50 | util 10", State::Active),
        ("gone 50", State::TrulyIdle),
        ("gone 101", State::OrphanHeld),
        ("unnamed 1", State::IdleHeld),
        ("ada unknown", State::IdleHeld),
        ("ada 50 | util-missing", State::HeldUnknown),
    ] {
        let gpu = gpu_of(text);
        let thresholds = Thresholds::default();
        assert_eq!(classify(&gpu, &thresholds, None).state, state, "{text}");
        let is_idle = state == State::TrulyIdle;
        assert_eq!(is_free(&gpu, &thresholds), is_idle, "{text}");
    }
}

#[test]
fn memory_that_the_driver_keeps_is_not_free_and_is_never_taken_for_none() {
    let criteria = Criteria {
        min_free: Some(Bytes::from_mb(9_600)),
        ..Criteria::default()
    };
    // A driver that does not report reserved memory includes it in the used memory.
    check(&criteria, "used 400", None);
    check(&criteria, "used 400 | reserved 0", None);
    let little = Some(Obstacle::TooLittleFree(Bytes::from_mb(9_500)));
    check(&criteria, "used 400 | reserved 100", little);
    let unseen = Some(Obstacle::Unseen(Missing::Failed));
    check(&criteria, "used 400 | reserved unread", unseen);
    check(&Criteria::default(), "used 400 | reserved unread", None);
    assert_eq!(
        free_memory(&gpu_of("reserved unread")),
        Err(Missing::Failed)
    );
    assert_eq!(
        free_memory(&gpu_of("reserved 500")),
        Ok(Bytes::from_mb(9_500))
    );
}

#[test]
fn an_unhealthy_gpu_is_not_free_unless_faults_are_ignored() {
    let any = Criteria {
        health: HealthRule::Ignored,
        ..Criteria::default()
    };
    let nvgpu = Criteria {
        rule: FreeRule::MemoryAlone,
        ..Criteria::default()
    };
    for (text, fault) in [
        ("ecc 2", Fault::UncorrectedErrors(2)),
        ("remap-failed", Fault::RemapFailed),
        ("hot", Fault::Hot),
    ] {
        check(&Criteria::default(), text, Some(Obstacle::Unhealthy(fault)));
        check(&any, text, None);
        check(&nvgpu, text, None);
        let gpu = gpu_of(text);
        assert!(!is_free(&gpu, &Thresholds::default()));
        assert!(is_vacant(&gpu, &Thresholds::default()));
        // A heat wave ends; memory errors remain until a reset.
        assert_eq!(could_be_free(&gpu, &Criteria::default()), text == "hot");
        assert!(could_be_free(&gpu, &any) && is_awaited(&gpu, &any, &LastUse::new()));
        assert!(!is_awaited(&gpu, &Criteria::default(), &LastUse::new()));
    }
    check(&Criteria::default(), "ecc 0", None);
    check(
        &Criteria::default(),
        "ecc 2 | used 500 | ada 500",
        Some(Obstacle::Held),
    );
}

#[test]
fn a_waiter_awaits_what_it_would_take_once_it_is_free() {
    let plain = Criteria::default();
    let large = Criteria {
        min_free: Some(Bytes::from_mb(9_800)),
        ..Criteria::default()
    };
    let other = Criteria {
        models: vec!["h100".to_owned()],
        ..Criteria::default()
    };
    let quiet = Criteria {
        max_util: Some(Percent::ZERO),
        ..Criteria::default()
    };
    for (criteria, text, expected) in [
        (&plain, "", true),
        (&plain, "used 5000 | ada 5000", true),
        (&plain, "lost", true),
        (&plain, "parent", false),
        (&other, "used 5000 | ada 5000", false),
        (&large, "used 5000 | ada 5000", true),
        (&large, "used 5000 | ada 5000 | reserved 300", false),
        (&large, "unified | ada 50", false),
        // These are vacant, but these criteria exclude them: others can use them.
        (&large, "used 400", false),
        (&quiet, "util 5", false),
        (&quiet, "util 90 | ada 5000", true),
    ] {
        let awaited = is_awaited(&gpu_of(text), criteria, &LastUse::new());
        assert_eq!(awaited, expected, "{text}");
    }
}

#[test]
fn a_gpu_that_will_have_been_idle_long_enough_soon_is_awaited() {
    let now = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(5);
    for (free_for, used_ago, expected) in [
        (60, 50, true),
        (60, 70, true),
        (3600, 60, false),
        (3600, 3500, true),
    ] {
        let criteria = Criteria {
            idle_since: Some(now - jiff::SignedDuration::from_secs(free_for)),
            ..Criteria::default()
        };
        let used = now - jiff::SignedDuration::from_secs(used_ago);
        let last_use = LastUse::from([("GPU-0".parse().unwrap(), used)]);
        let awaited = is_awaited(&gpu_of(""), &criteria, &last_use);
        assert_eq!(awaited, expected, "{free_for} {used_ago}");
    }
}

#[test]
fn whatever_could_not_be_read_speaks_against_a_gpu() {
    let criteria = Criteria::default();
    check(&criteria, "lost", Some(Obstacle::Unseen(Missing::Gone)));
    check(
        &criteria,
        "lists-missing",
        Some(Obstacle::Unseen(Missing::Failed)),
    );
    check(
        &criteria,
        "memory-missing",
        Some(Obstacle::Unseen(Missing::Failed)),
    );
    check(
        &criteria,
        "util-missing",
        Some(Obstacle::Unseen(Missing::Failed)),
    );
    // Memory shared with the host cannot be measured, and the GPU has no holders.
    check(&criteria, "unified", None);
}

#[test]
fn a_gpu_at_work_without_a_process_is_not_free() {
    check(
        &Criteria::default(),
        "util 95",
        Some(Obstacle::Busy(State::Ghost)),
    );
}

#[test]
fn nvgpu_uses_memory_alone_in_whole_megabytes() {
    let criteria = Criteria {
        rule: FreeRule::MemoryAlone,
        ..Criteria::default()
    };
    check(&criteria, "util 99 | ada 2000 | used 2000", None);
    check(&criteria, "used 2001", used(2001));
    check(&criteria, "unified | ada 101", Some(Obstacle::Held));
    check(
        &criteria,
        "memory-missing",
        Some(Obstacle::Unseen(Missing::Failed)),
    );
    let mut gpu = gpu_of("");
    gpu.memory_used = Ok(Bytes(2000 * Bytes::PER_MB + 5));
    assert_eq!(obstacle(&gpu, &criteria, &LastUse::new()), None);
}

#[test]
fn criteria_narrow_the_choice() {
    let criteria = |change: fn(&mut Criteria)| {
        let mut criteria = Criteria::default();
        change(&mut criteria);
        criteria
    };
    let roomy = criteria(|criteria| criteria.min_free = Some(Bytes::from_mb(9_000)));
    check(&roomy, "used 1000", None);
    let short = Some(Obstacle::TooLittleFree(Bytes::from_mb(8_999)));
    check(&roomy, "used 1001", short);
    let huge = criteria(|criteria| criteria.min_free = Some(Bytes::from_mb(100_000)));
    let small = Obstacle::TooSmall(Bytes::from_mb(10_000));
    check(&huge, "used 0", Some(small));
    assert_eq!(small.to_string(), "too small: 10000 MB in total");
    check(
        &roomy,
        "unified",
        Some(Obstacle::Unseen(Missing::Unsupported)),
    );

    let calm = criteria(|criteria| criteria.max_util = Percent::new(3));
    check(&calm, "util 3", None);
    let high = Percent::new(4).map(Obstacle::UtilTooHigh);
    check(&calm, "util 4", high);

    let model = criteria(|criteria| criteria.models = vec!["h100".to_owned(), "a6000".to_owned()]);
    check(&model, "", None);
    let model = criteria(|criteria| criteria.models = vec!["h100".to_owned()]);
    check(&model, "", Some(Obstacle::OtherModel));

    let mine = criteria(|criteria| criteria.as_free = vec!["ada".to_owned()]);
    check(&mine, "ada 9000 | used 9000 | util 99", None);
    check(
        &mine,
        "ada 4000 | bob 101 | used 4101",
        Some(Obstacle::Held),
    );
    check(&mine, "ada 4000 | bob 100 | used 4100", None);
    check(
        &mine,
        "ada 4000 | bob 1 | used 4001 | util 10",
        Some(Obstacle::Held),
    );
    check(&mine, "ada 4000 | used 7000", used(3000));
    let by_uid = criteria(|criteria| criteria.as_free = vec!["1003".to_owned()]);
    check(&by_uid, "ada 9000 | used 9000", None);
}

#[test]
fn history_keeps_a_gpu_that_was_just_in_use() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let span = |state, owner: Option<&str>| Span {
        gpu: "GPU-0".parse().unwrap(),
        parent: None,
        slices: crate::Slices::WHOLE,
        from: at(0),
        to: at(30),
        shares: vec![Share {
            verdict: crate::state::Verdict {
                state,
                evidence: classify(&gpu_of(""), &Thresholds::default(), None).evidence,
            },
            weight: 1,
        }],
        basis: Basis::Instant,
        util: Ok(Centipercent(0)),
        energy: Err(Missing::Failed),
        holders: owner
            .map(|name| Holder {
                process: None,
                owner: Some(Owner {
                    who: OwnerKey::User(user(name)),
                    source: OwnerSource::Login,
                }),
                kind: ProcessKind::Compute,
                memory: Ok(Bytes(0)),
                sm_util: Ok(None),
            })
            .into_iter()
            .collect(),
    };
    let check = |span: Span, idle_since, expected| {
        let mut last_use = LastUse::new();
        note_use(&mut last_use, &[span], &["ada".to_owned()]);
        let criteria = Criteria {
            idle_since: Some(at(idle_since)),
            ..Criteria::default()
        };
        assert_eq!(obstacle(&gpu_of(""), &criteria, &last_use), expected);
    };
    check(
        span(State::IdleHeld, Some("bob")),
        20,
        Some(Obstacle::UsedAt(at(30))),
    );
    check(span(State::IdleHeld, Some("bob")), 30, None);
    check(span(State::IdleHeld, Some("ada")), 20, None);
    check(span(State::Ghost, None), 20, Some(Obstacle::UsedAt(at(30))));
    check(span(State::TrulyIdle, None), 20, None);
    check(span(State::Unobserved, None), 20, None);
}

#[test]
fn gpus_are_ordered_by_one_or_several_readings_with_missing_ones_last() {
    let mut gpus: Vec<Gpu> = (0..4).map(|_| gpu_of("")).collect();
    for (index, gpu) in (0..).zip(&mut gpus) {
        gpu.index = index;
    }
    for (gpu, watts) in gpus.iter_mut().zip([20, 10, 20]) {
        gpu.power = Ok(Milliwatts(watts * 1000));
    }
    for (gpu, degrees) in gpus.iter_mut().zip([50, 40, 30, 60]) {
        gpu.temperature = Ok(Celsius(degrees));
        gpu.memory_used = Ok(Bytes::from_mb(u64::try_from(degrees).unwrap()));
    }
    let check = |text: &str, expected: [u32; 4]| {
        let mut sorted = gpus.clone();
        sort(&mut sorted, &text.parse().unwrap(), |gpu| gpu);
        let indices: Vec<u32> = sorted.iter().map(|gpu| gpu.index).collect();
        assert_eq!(indices, expected, "{text}");
    };
    check("index", [0, 1, 2, 3]);
    check("-index", [3, 2, 1, 0]);
    check("power", [1, 0, 2, 3]);
    check("-power", [0, 2, 1, 3]);
    check("power:desc,temperature", [2, 0, 1, 3]);
    check("-power, -temperature,index", [0, 2, 1, 3]);
    check("-free-memory", [2, 1, 0, 3]);
    for bad in ["", "watts", "power,", "power:up", "--power"] {
        assert!(bad.parse::<Order>().is_err(), "{bad}");
    }
}
