//! Every reading of a GPU and of a process, as scripted in the scenario.

use gua_model::sample::{ComputeMode, MemoryRepairs, PerformanceState, Switch, ThrottleReasons};
use gua_model::{
    Bytes, Celsius, FanSpeed, Fault, Megahertz, Millijoules, Milliwatts, Missing, OwnerSource,
    Percent, Reading, Xid, faults,
};
use gua_probe::probe::Probe;

use super::host::{FileHost, only, pids, process_of};

const EVERYTHING: &str = r#"
    [clock]
    at = 1000.0
    [driver]
    version = "570.86.10"
    cuda_version = 12080
    [[gpu]]
    name = "NVIDIA H100 80GB HBM3"
    uuid = "GPU-11111111-2222-3333-4444-555555555555"
    pci = "00000000:3B:00.0"
    memory_total_mib = 81559
    memory_reserved_mib = 600
    memory_used_mib = 12000
    util = 37
    memory_util = 21
    temperature_c = 64
    power_w = 312.5
    power_limit_w = 700
    energy_mj = 123456789
    clock_sm_mhz = 1980
    clock_memory_mhz = 2619
    fan_percent = 104
    performance_state = 2
    throttle_reasons = 4
    ecc = true
    ecc_corrected = 5
    ecc_uncorrected = 1
    remap_pending = 1
    remap_failed = 1
    retirement_pending = 1
    persistence = false
    compute_mode = 3
    mig_mode = false
    [[gpu.process]]
    pid = 4242
    memory_mib = 11000
    sm_util = 35
"#;

#[test]
fn every_reading_of_a_gpu_is_the_scripted_one() {
    let sample = FileHost::new(EVERYTHING).sample();
    let gpu = only(&sample);
    assert_eq!(sample.problems, []);
    assert_eq!(sample.driver.version.as_deref(), Ok("570.86.10"));
    assert_eq!(sample.driver.cuda, Ok((12, 8)));
    assert_eq!(
        gpu.uuid.as_str(),
        "GPU-11111111-2222-3333-4444-555555555555"
    );
    assert_eq!(gpu.name.as_deref(), Ok("NVIDIA H100 80GB HBM3"));
    assert_eq!(gpu.pci.unwrap().to_string(), "00000000:3B:00.0");
    assert_eq!(gpu.memory_total, Ok(Bytes::from_mb(81559)));
    assert_eq!(gpu.memory_used, Ok(Bytes::from_mb(12000)));
    assert_eq!(gpu.memory_reserved, Ok(Bytes::from_mb(600)));
    assert_eq!(gpu.util.map(Percent::get), Ok(37));
    assert_eq!(gpu.memory_util.map(Percent::get), Ok(21));
    assert_eq!(gpu.temperature, Ok(Celsius(64)));
    assert_eq!(gpu.power, Ok(Milliwatts(312_500)));
    assert_eq!(gpu.power_limit, Ok(Milliwatts(700_000)));
    assert_eq!(gpu.energy, Ok(Millijoules(123_456_789)));
    assert_eq!(gpu.sm_clock, Ok(Megahertz(1980)));
    assert_eq!(gpu.memory_clock, Ok(Megahertz(2619)));
    assert_eq!(gpu.fan, Ok(FanSpeed(104)), "it may exceed a hundred");
    assert_eq!(gpu.index, 0);
    assert_eq!(gpu.performance_state, Ok(PerformanceState(2)));
    assert_eq!(gpu.throttle, Ok(ThrottleReasons(4)));
    assert_eq!(gpu.ecc_mode, Ok(Switch::On));
    assert_eq!((gpu.ecc_corrected, gpu.ecc_uncorrected), (Ok(5), Ok(1)));
    assert_eq!(gpu.memory_repairs, Ok(MemoryRepairs(7)));
    assert_eq!(gpu.persistence, Ok(Switch::Off));
    assert_eq!(gpu.compute_mode, Ok(ComputeMode::ExclusiveProcess));
    assert_eq!(gpu.mig, Ok(Switch::Off));
}

#[test]
fn a_process_has_its_start_its_owner_its_short_name_and_its_share() {
    let host = FileHost::new(EVERYTHING);
    host.start_process(4242, 1000, 987_654, "python3");
    let sample = host.sample();
    let process = process_of(only(&sample), 4242);
    let identity = process.identity.clone().unwrap();
    assert_eq!(process.memory, Ok(Bytes::from_mb(11000)));
    assert_eq!(
        process.sm_util.map(|util| util.map(Percent::get)),
        Ok(Some(35))
    );
    assert_eq!(identity.key.start.0, 987_654);
    assert_eq!(Ok(identity.key.boot), sample.boot);
    assert_eq!(identity.comm.as_deref(), Ok("python3"));
    let owner = identity.owner().unwrap();
    assert_eq!(
        (owner.shown().as_str(), owner.source),
        ("ada", OwnerSource::Login)
    );
}

#[test]
fn memory_repairs_are_known_from_either_call_and_unknown_if_one_fails() {
    let check = |keys: &str, fault: &str, expected| {
        let sample = FileHost::new(&format!("[[gpu]]\n{keys}\n{fault}")).sample();
        assert_eq!(only(&sample).memory_repairs, expected, "{keys}");
    };
    let fault = "[[fault]]\nfunction = \"nvmlDeviceGetRemappedRows\"\ncode = 999\n";
    check("", "", Err(Missing::Unsupported));
    check("remap_pending = 0", "", Ok(MemoryRepairs(0)));
    check("remap_pending = 1", "", Ok(MemoryRepairs(1)));
    check("retirement_pending = 1", "", Ok(MemoryRepairs(4)));
    check("remap_pending = 7", "", Err(Missing::Failed));
    check("retirement_pending = 0", fault, Err(Missing::Failed));
}

#[test]
fn an_instance_has_the_faults_of_its_gpu() {
    let sample = FileHost::new(
        "[[gpu]]\necc = true\necc_uncorrected = 2\nthrottle_reasons = 64\n[[gpu.mig]]\nslices = 1\n",
    )
    .sample();
    let [gpu, instance] = &sample.gpus[..] else {
        panic!("{:?}", sample.gpus)
    };
    assert_eq!(faults(gpu), faults(instance));
    assert_eq!(faults(gpu), [Fault::UncorrectedErrors(2), Fault::Hot]);
}

#[test]
fn a_gpu_and_its_instances_have_the_xid_errors_of_their_address() {
    let host = FileHost::new("[[gpu]]\n[[gpu.mig]]\nslices = 1\n[[gpu]]\n");
    let mut probe = host.probe();
    let xids = |probe: &mut Probe| {
        let sample = probe.sample().unwrap();
        let xids = sample.gpus.iter().map(|gpu| gpu.xid);
        xids.collect::<Vec<Reading<Option<Xid>>>>()
    };
    assert_eq!(xids(&mut probe), [Err(Missing::Unsupported); 3]);
    host.write("kmsg", "");
    let mut probe = host.probe();
    assert_eq!(xids(&mut probe), [Ok(None); 3]);
    let pci = probe.sample().unwrap().gpus[0].pci.unwrap();
    let address = format!("{:04x}:{:02x}:{:02x}", pci.domain, pci.bus, pci.device);
    let line =
        format!("4,1,5000000,-;NVRM: Xid (PCI:{address}): 79, GPU has fallen off the bus.\n");
    host.write("kmsg", line);
    let [Ok(Some(first)), Ok(Some(second)), Ok(None)] = xids(&mut probe)[..] else {
        panic!("{:?}", xids(&mut probe))
    };
    assert_eq!((first.code, second), (79, first));
}

#[test]
fn an_unsupported_feature_is_reported_as_unsupported_and_not_as_a_problem() {
    let sample = FileHost::new("[[gpu]]\nname = \"NVIDIA GeForce GT 710\"\n[[fault]]\nfunction = \"nvmlDeviceGetPower*\"\ncode = 3\n").sample();
    let gpu = only(&sample);
    assert_eq!(gpu.power, Err(Missing::Unsupported));
    for ecc in [gpu.ecc_corrected, gpu.ecc_uncorrected] {
        assert_eq!(ecc, Err(Missing::Unsupported));
    }
    assert_eq!(gpu.ecc_mode, Err(Missing::Unsupported));
    assert_eq!(sample.problems, []);
}

#[test]
fn sixteen_gpus_with_sixty_four_processes_each_are_read_completely() {
    let process = |pid| format!("[[gpu.process]]\npid = {pid}\nmemory_mib = 1\n");
    let gpu = |number: u32| {
        let processes: String = (0..64)
            .map(|place| process(1 + number * 64 + place))
            .collect();
        format!("[[gpu]]\n{processes}")
    };
    let sample = FileHost::new(&(0..16).map(gpu).collect::<String>()).sample();
    assert_eq!(sample.gpus.len(), 16);
    let all: Vec<u32> = sample.gpus.iter().flat_map(pids).collect();
    assert_eq!(all, (1..=16 * 64).collect::<Vec<_>>());
}

#[test]
fn a_buffer_that_would_overflow_before_the_next_tick_is_drained_in_between() {
    let scenario = |at: u32| {
        format!(
            "[clock]\nat = {at}\norigin_unix_ms = 1700000000000\n[buffers]\nsamples = 60\nperiod_ms = 167\n[[gpu]]\nutil = 40\n"
        )
    };
    let host = FileHost::new(&scenario(1000));
    let mut probe = host.probe();
    probe.sample().unwrap();
    let due = probe
        .drain_due()
        .expect("a GPU with a buffer needs draining");
    let wait = due
        .saturating_sub(gua_probe::clock::monotonic())
        .as_secs_f64();
    assert!(
        (3.0..=5.1).contains(&wait),
        "half of the ten seconds that the buffer holds, not {wait}"
    );
    // Thirty seconds pass; the buffer holds ten.
    for at in [1009, 1018, 1024] {
        host.play(&scenario(at));
        probe.drain();
    }
    host.play(&scenario(1030));
    let sample = probe.sample().unwrap();
    let window = only(&sample).window.unwrap();
    assert!(
        (29.7..30.3).contains(&window.covered.as_secs_f64()),
        "{window:?}"
    );
    assert_eq!(window.mean(), Some(40.0));
}

#[test]
fn a_fresh_buffer_that_still_grows_does_not_stay_on_a_short_drain_interval() {
    let host = FileHost::new("[[gpu]]\nutil = 40\n");
    let mut probe = host.probe();
    let wait = |probe: &Probe| {
        let due = probe.drain_due()?;
        Some(due.saturating_sub(gua_probe::clock::monotonic()))
    };
    // The driver has just started: nothing is buffered, then a little.
    let begun = gua_probe::clock::monotonic();
    while wait(&probe).is_none() {
        probe.sample().unwrap();
    }
    let first = wait(&probe).unwrap();
    while gua_probe::clock::monotonic() - begun < std::time::Duration::from_secs(4) {
        std::thread::park_timeout(wait(&probe).unwrap());
        probe.drain();
    }
    let later = wait(&probe).unwrap();
    assert!(first <= std::time::Duration::from_secs(1), "{first:?}");
    assert!(later > std::time::Duration::from_millis(1300), "{later:?}");
}

#[test]
fn a_process_that_exited_between_the_list_and_proc_is_not_an_orphan() {
    // It exits at second 2. The graphics list, which is read after the compute list, is delayed until then.
    let ending = "[[gpu]]\n[[gpu.process]]\npid = 7\nmemory_mib = 900\nuntil = 2\n";
    let slow = "[[fault]]\nfunction = \"nvmlDeviceGetGraphicsRunningProcesses_v3\"\ndelay_ms = 2500\nuntil = 2\n";
    let sample = FileHost::new(&format!("{ending}{slow}")).sample();
    assert_eq!(pids(only(&sample)), [] as [u32; 0]);

    let staying = ending.replace("until = 2\n", "");
    let sample = FileHost::new(&staying).sample();
    assert_eq!(
        pids(only(&sample)),
        [7],
        "listed and not in /proc: an orphan"
    );
    assert_eq!(process_of(only(&sample), 7).identity, Err(Missing::Gone));
}

#[test]
fn a_process_that_holds_no_gpu_is_never_read() {
    let host = FileHost::new("[[gpu]]\n[[gpu.process]]\npid = 7\nmemory_mib = 900\n");
    host.start_process(7, 1000, 50, "python");
    std::fs::create_dir_all(host.path("proc/8")).unwrap();
    for name in [
        "stat", "status", "comm", "cgroup", "loginuid", "cmdline", "environ",
    ] {
        // Opening one of these blocks forever. The holder's arguments and environment are never read.
        let pid = if matches!(name, "cmdline" | "environ") {
            7
        } else {
            8
        };
        mkfifo(&host.path(&format!("proc/{pid}/{name}")));
    }
    assert_eq!(pids(only(&host.sample())), [7]);
}

fn mkfifo(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo")
        .arg(path)
        .status()
        .unwrap();
    assert!(made.success());
}

#[test]
fn the_histogram_gives_the_time_at_each_utilisation() {
    // Two seconds of ten at 30 %, the rest at 7 %, in samples of one second.
    let sample = FileHost::new(
        "[clock]\nat = 1000.0\n[buffers]\nsamples = 10\nperiod_ms = 1000\n[[gpu]]\nutil = { square = { low = 7, high = 30, period = 10, duty = 0.2, phase = 0 } }\n",
    )
    .sample();
    let histogram = only(&sample).window.unwrap().histogram;
    let over = |percent| histogram.at_or_over(Percent::new(percent).unwrap());
    assert_eq!(
        (over(0), over(5), over(10), over(30), over(40)),
        (Some(10), Some(10), Some(2), Some(2), Some(0))
    );
}

#[test]
fn a_name_that_cannot_be_read_keeps_its_reason() {
    for (code, why) in [
        (3, Missing::Unsupported),
        (4, Missing::Denied),
        (999, Missing::Failed),
    ] {
        let faults = ["nvmlDeviceGetName", "nvmlDeviceGetPciInfo*"]
            .map(|function| format!("[[fault]]\nfunction = \"{function}\"\ncode = {code}\n"));
        let sample = FileHost::new(&format!("[[gpu]]\n{}", faults.concat())).sample();
        let gpu = only(&sample);
        assert_eq!((gpu.name.clone(), gpu.pci), (Err(why), Err(why)), "{code}");
    }
}

/// Calls for settings that an administrator changes, and for names.
const SELDOM: [&str; 6] = [
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetUUID",
    "nvmlSystemGetDriverVersion",
];

#[test]
fn settings_are_not_read_at_every_tick_and_stay_in_every_sample() {
    let host = FileHost::new("");
    host.play_with_journal("[[gpu]]\npower_limit_w = 300\n");
    let mut probe = host.probe();
    let first = probe.sample().unwrap();
    for _ in 0..5 {
        let next = probe.sample().unwrap();
        let (gpu, before) = (only(&next), only(&first));
        assert_eq!(gpu.power_limit, Ok(Milliwatts(300_000)));
        assert_eq!(gpu.power_limit, before.power_limit);
        assert_eq!(gpu.ecc_mode, before.ecc_mode);
        assert_eq!(gpu.ecc_uncorrected, before.ecc_uncorrected);
        assert_eq!(gpu.compute_mode, before.compute_mode);
        assert_eq!(gpu.persistence, before.persistence);
        assert_eq!((&gpu.uuid, &next.driver), (&before.uuid, &first.driver));
    }
    assert_eq!(host.calls("nvmlDeviceGetPowerUsage"), 6);
    assert_eq!(SELDOM.map(|call| host.calls(call)), [1; 6]);
}

#[test]
fn settings_of_a_gpu_in_trouble_are_read_at_once() {
    let host = FileHost::new("");
    let fault = "[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\ncode = \"UNKNOWN\"\n";
    host.play_with_journal("[[gpu]]\npower_limit_w = 300\n");
    let mut probe = host.probe();
    probe.sample().unwrap();
    host.play_with_journal(&format!("[[gpu]]\npower_limit_w = 250\n{fault}"));
    let sick = probe.sample().unwrap();
    assert_eq!(only(&sick).power, Err(Missing::Failed));
    assert_eq!(only(&sick).power_limit, Ok(Milliwatts(250_000)));
    host.play_with_journal("[[gpu]]\npower_limit_w = 200\n");
    let well = probe.sample().unwrap();
    assert_eq!(
        only(&well).power_limit,
        Ok(Milliwatts(200_000)),
        "nothing is remembered from a tick with trouble"
    );
}

#[test]
fn another_gpu_at_the_same_index_is_noticed_at_once() {
    let host = FileHost::new("[[gpu]]\nuuid = \"GPU-a\"\npower_limit_w = 300\n");
    let mut probe = host.probe();
    probe.sample().unwrap();
    host.play(
        "[[gpu]]\nuuid = \"GPU-b\"\npower_limit_w = 200\n[[gpu]]\nuuid = \"GPU-a\"\npower_limit_w = 300\n",
    );
    let sample = probe.sample().unwrap();
    let seen: Vec<_> = sample
        .gpus
        .iter()
        .map(|gpu| (gpu.uuid.as_str(), gpu.power_limit))
        .collect();
    let watts = |watts: u64| Ok(Milliwatts(watts * 1000));
    assert_eq!(seen, [("GPU-b", watts(200)), ("GPU-a", watts(300))]);
}
