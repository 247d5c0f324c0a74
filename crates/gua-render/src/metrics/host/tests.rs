//! The page of a host, with every reading that a GPU can have.

use std::collections::{BTreeMap, BTreeSet};

use gua_model::sample::{MemoryRepairs, ThrottleReasons};
use gua_model::unit::{Celsius, FanSpeed, Megahertz, Millijoules, Milliwatts};
use gua_model::{Percent, Place, Xid};
use gua_test::samples;

use super::*;

fn whole_gpu(index: u32) -> Gpu {
    let uuid = format!("GPU-{index}");
    let holders = (0..4).map(|n| {
        let mut process = samples::process(100 + 10 * index + n, samples::user(1000, "ada"), 500);
        if let Ok(identity) = &mut process.identity {
            identity.workload = workload(n);
        }
        process
    });
    let percent = Percent::new(50).ok_or(gua_model::Missing::Failed);
    Gpu {
        name: Ok("NVIDIA \"X\"\n".to_owned()),
        memory_util: percent,
        memory_used: Ok(Bytes(1 << 30)),
        memory_reserved: Ok(Bytes(1 << 20)),
        memory_total: Ok(Bytes(80 << 30)),
        power: Ok(Milliwatts(70_500)),
        power_limit: Ok(Milliwatts(400_000)),
        temperature: Ok(Celsius(40)),
        sm_clock: Ok(Megahertz(1410)),
        memory_clock: Ok(Megahertz(1593)),
        fan: Ok(FanSpeed(30)),
        throttle: Ok(ThrottleReasons(0x4)),
        ecc_corrected: Ok(2),
        ecc_uncorrected: Ok(1),
        memory_repairs: Ok(MemoryRepairs(0)),
        xid: Ok(None),
        ..samples::gpu(index, &uuid, 50, holders.collect())
    }
}

/// Two containers of one pod, a Slurm job, and no workload.
fn workload(number: u32) -> Workload {
    let pod = Workload {
        container: "0123456789ab".parse().ok(),
        pod: "57e67067-89e4-4001-bdd4-8632d39ea02b".parse().ok(),
        pod_name: Some("ml/train-0".to_owned()),
        ..Workload::default()
    };
    match number {
        0 => pod,
        1 => Workload {
            container_name: Some("main".to_owned()),
            ..pod
        },
        2 => Workload {
            job: "4711".parse().ok(),
            ..Workload::default()
        },
        _ => Workload::default(),
    }
}

fn account() -> GpuAccount {
    GpuAccount {
        states: State::ALL
            .into_iter()
            .filter(|state| *state != State::Unobserved)
            .map(|state| (state, Micros(1_500_000)))
            .collect(),
        unobserved: GapReason::ALL
            .into_iter()
            .map(|why| (why, Micros(2_000_000)))
            .collect(),
        held: Micros(9_000_000),
        energy: Some(Millijoules(12_345)),
        last_active: Some(Timestamp::from_second(1_800_000_000).unwrap()),
    }
}

/// Eight GPUs with 32 processes, and everything that can be known of them.
fn metrics() -> HostMetrics {
    let gpus: Vec<Gpu> = (0..8).map(whole_gpu).collect();
    let accounts = gpus.iter().map(|gpu| (gpu.uuid.clone(), account()));
    let sample = samples::sample(Timestamp::from_second(1_800_000_000).unwrap(), gpus.clone());
    let mut metrics = HostMetrics::of_sample(&sample, &Thresholds::default(), "1.2.3");
    for gpu in &mut metrics.gpus {
        gpu.is_claimed = Some(false);
    }
    metrics.accounts = Some(Accounts {
        gpus: accounts.collect(),
        people: BTreeMap::from([("ada".to_owned(), PersonAccount::default())]),
        ..Accounts::default()
    });
    metrics.claims = Some(0);
    let cost = Cost {
        processor: Duration::from_millis(1500),
        memory: Bytes(7 << 20),
    };
    metrics.collector = Some(CollectorMetrics {
        interval: Duration::from_secs(30),
        ticks: 7,
        lost: 1,
        tick_time: Some(Duration::from_millis(5)),
        last_tick: Some(sample.at),
        outage: None,
    });
    metrics.costs = vec![("collector", cost), ("reader", cost)];
    metrics
}

fn series_of<'t>(text: &'t str, label: &str) -> Vec<&'t str> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter(|line| line.contains(label)).collect()
}

#[test]
fn a_gpu_with_every_reading_has_fewer_than_sixty_series() {
    let text = metrics().text(Form::OpenMetrics);
    let series = series_of(&text, "uuid=\"GPU-3\"");
    assert!(series.len() < 60, "{}", series.len());
    let readings: Vec<_> = series
        .iter()
        .filter(|line| line.starts_with("gua_gpu_"))
        .collect();
    assert_eq!(readings.len(), series.len());
}

#[test]
fn every_family_is_written_and_every_name_is_declared() {
    let mut metrics = metrics();
    metrics.users = Names::Shown;
    metrics.workloads = Names::Shown;
    let text = metrics.text(Form::OpenMetrics);
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let written: BTreeSet<&str> = names.filter_map(|line| line.split(' ').next()).collect();
    let declared: BTreeSet<&str> = FAMILIES.iter().map(|(family, _)| family.name).collect();
    assert_eq!(written, declared);
    for (family, _) in FAMILIES {
        if let Some(unit) = family.unit {
            assert!(family.name.ends_with(unit), "{}", family.name);
        }
        assert!(family.help.ends_with('.'), "{}", family.help);
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn values_are_in_base_units() {
    let text = metrics().text(Form::Text);
    let labels = "{gpu=\"0\",uuid=\"GPU-0\",model=\"NVIDIA \\\"X\\\"\\n\"}";
    for (name, value) in [
        ("gua_gpu_power_watts", "70.5"),
        ("gua_gpu_energy_joules_total", "12.345"),
        ("gua_gpu_sm_clock_hertz", "1410000000"),
        ("gua_gpu_utilization_ratio", "0.5"),
        ("gua_gpu_memory_used_bytes", "1073741824"),
        ("gua_gpu_held_seconds_total", "9"),
        ("gua_gpu_idle_held_seconds_total", "3"),
        ("gua_gpu_holders", "4"),
        ("gua_gpu_last_active_timestamp_seconds", "1800000000"),
    ] {
        let line = format!("\n{name}{labels} {value}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
}

#[test]
fn users_and_processes_have_no_label_by_default() {
    let text = metrics().text(Form::OpenMetrics);
    for label in ["pid=", "user=", "ada", "pod=", "slurm_job=", "train-0"] {
        assert!(series_of(&text, label).is_empty(), "{label}");
    }
    let mut shown = metrics();
    shown.users = Names::Shown;
    let text = shown.text(Form::OpenMetrics);
    assert_eq!(series_of(&text, "user=\"ada\"").len(), 3);
}

#[test]
fn jobs_pods_and_containers_are_labels_where_the_settings_allow_it() {
    let mut shown = metrics();
    shown.workloads = Names::Shown;
    let text = shown.text(Form::Text);
    let series = series_of(&text, "gua_gpu_workload_holders{gpu=\"0\"");
    let workloads: Vec<&str> = series
        .iter()
        .filter_map(|line| Some(line.split_once("namespace=")?.1))
        .collect();
    assert_eq!(
        workloads,
        [
            r#""",pod="",container="",slurm_job="4711"} 1"#,
            r#""ml",pod="train-0",container="0123456789ab",slurm_job=""} 1"#,
            r#""ml",pod="train-0",container="main",slurm_job=""} 1"#,
        ]
    );
    shown.gpus[0].forget_readings();
    let text = shown.text(Form::Text);
    assert!(series_of(&text, "gua_gpu_workload_holders{gpu=\"0\"").is_empty());
}

#[test]
fn an_unobserved_gpu_has_a_state_and_counters_and_no_old_reading() {
    let mut metrics = metrics();
    metrics.gpus[0].forget_readings();
    let text = metrics.text(Form::Text);
    let series = series_of(&text, "uuid=\"GPU-0\"");
    let state = series
        .iter()
        .find(|line| line.contains("gua_gpu_state=\"unobserved\""));
    assert!(state.is_some_and(|line| line.ends_with(" 1")), "{state:?}");
    for name in [
        "power_watts",
        "holders",
        "utilization",
        "fault",
        "throttle",
        "ecc",
    ] {
        let name = format!("gua_gpu_{name}");
        assert!(!series.iter().any(|line| line.starts_with(&name)), "{name}");
    }
    assert!(
        series
            .iter()
            .any(|line| line.starts_with("gua_gpu_held_seconds_total"))
    );
}

#[test]
fn a_mig_instance_has_its_own_number() {
    let mut parent = whole_gpu(2);
    parent.place = Place::Parent { instances: 1 };
    let mut instance = samples::gpu(2, "MIG-a", 0, Vec::new());
    instance.place = Place::Instance {
        parent: parent.uuid.clone(),
        gpu_instance: Ok(1),
        compute_instance: Ok(0),
        slice: Err(gua_model::Missing::Failed),
    };
    let at = Timestamp::from_second(1_800_000_000).unwrap();
    let sample = samples::sample(at, vec![parent, instance]);
    let mut metrics = HostMetrics::of_sample(&sample, &Thresholds::default(), "1.2.3");
    // The number stays while the driver does not answer.
    for _ in 0..2 {
        let text = metrics.text(Form::Text);
        assert!(!series_of(&text, "gpu=\"2\",uuid=\"GPU-2\"").is_empty());
        assert!(!series_of(&text, "gpu=\"2:1\",uuid=\"MIG-a\"").is_empty());
        assert!(series_of(&text, "gpu=\"2\",uuid=\"MIG-a\"").is_empty());
        metrics
            .gpus
            .iter_mut()
            .for_each(GpuMetrics::forget_readings);
    }
}

#[test]
fn a_missing_reading_has_no_sample() {
    let mut metrics = metrics();
    if let Some(live) = &mut metrics.gpus[0].live {
        live.power = Err(gua_model::Missing::Failed);
    }
    let text = metrics.text(Form::Text);
    assert_eq!(series_of(&text, "gua_gpu_power_watts{").len(), 7);
}

#[test]
fn xid_errors_have_a_series_only_where_the_kernel_log_can_be_read() {
    let mut metrics = metrics();
    let of_xids = |metrics: &HostMetrics| {
        let text = metrics.text(Form::Text);
        let series = series_of(&text, "gua_gpu_fault{");
        let of_xids = series.into_iter().filter(|line| line.contains("\"xid\""));
        of_xids.map(str::to_owned).collect::<Vec<String>>()
    };
    for gpu in &mut metrics.gpus {
        if let Some(live) = &mut gpu.live {
            live.xid = Err(gua_model::Missing::Denied);
        }
    }
    assert!(of_xids(&metrics).is_empty());
    if let Some(live) = &mut metrics.gpus[0].live {
        live.xid = Ok(Some(Xid {
            at: Timestamp::UNIX_EPOCH,
            code: 79,
        }));
    }
    let series = of_xids(&metrics);
    assert_eq!(series.len(), 1, "{series:?}");
    assert!(series[0].ends_with(" 1"), "{series:?}");
}
