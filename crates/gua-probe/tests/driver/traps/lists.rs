//! Traps 1 to 6 of docs/traps.md: versions of functions, and the content of process lists.

use gua_model::pick::{Criteria, LastUse, Obstacle, obstacle};
use gua_model::sample::ThrottleReasons;
use gua_model::{Bytes, Milliwatts, Missing, ProcessKind, State, Thresholds, classify};
use nvml_sim::driver::Generation;

use crate::host::{FileHost, many_processes, only, pids, process_of};

const TWO_PROCESSES: &str = r#"
    [[gpu]]
    memory_total_mib = 40000
    memory_reserved_mib = 500
    [[gpu.process]]
    pid = 101
    memory_mib = 2000
    [[gpu.process]]
    pid = 102
    type = "graphics"
    memory_mib = 300
"#;

fn holds_two(host: &FileHost) {
    let sample = host.sample();
    let gpu = only(&sample);
    assert_eq!(pids(gpu), [101, 102]);
    assert_eq!(process_of(gpu, 101).memory, Ok(Bytes::from_mb(2000)));
    assert_eq!(process_of(gpu, 102).memory, Ok(Bytes::from_mb(300)));
    assert_eq!(gpu.memory_total, Ok(Bytes::from_mb(40000)));
    assert_eq!(sample.problems, []);
}

#[test]
fn trap_1_a_missing_symbol_falls_back_to_the_previous_version() {
    for generation in Generation::ALL {
        let host = FileHost::with_driver(generation, TWO_PROCESSES);
        holds_two(&host);
        let gpu = &host.sample().gpus[0];
        let splits_reserved = generation.has("nvmlDeviceGetMemoryInfo_v2");
        assert_eq!(
            gpu.memory_reserved.is_ok(),
            splits_reserved,
            "{generation:?}"
        );
    }
}

#[test]
fn trap_1_a_symbol_that_returns_not_found_or_not_supported_falls_back_too() {
    let newest = [
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetGraphicsRunningProcesses_v2",
        "nvmlDeviceGetMemoryInfo_v2",
    ];
    for count in 1..=newest.len() {
        let names = &newest[newest.len() - count..];
        holds_two(&FileHost::new(&format!(
            "symbol_answers_not_found = {names:?}\n{TWO_PROCESSES}"
        )));
        let faults: Vec<String> = names
            .iter()
            .map(|name| format!("[[fault]]\nfunction = {name:?}\ncode = \"NOT_SUPPORTED\"\n"))
            .collect();
        holds_two(&FileHost::new(&format!(
            "{TWO_PROCESSES}\n{}",
            faults.concat()
        )));
    }
}

#[test]
fn trap_1_every_other_reading_falls_back_too() {
    let gpu = "[driver]\ncuda_version = 11040\n[[gpu]]\npci = \"00000000:3B:00.0\"\npower_limit_w = 250\nthrottle_reasons = 4\n";
    let answers = |host: &FileHost, what: &str| {
        let sample = host.sample();
        let gpu = only(&sample);
        assert_eq!(sample.driver.cuda, Ok((11, 4)), "{what}");
        assert_eq!(gpu.pci.map(|pci| pci.bus), Ok(0x3b), "{what}");
        assert_eq!(gpu.power_limit, Ok(Milliwatts(250_000)), "{what}");
        assert_eq!(gpu.throttle, Ok(ThrottleReasons(4)), "{what}");
    };
    for generation in Generation::ALL {
        answers(
            &FileHost::with_driver(generation, gpu),
            &format!("{generation:?}"),
        );
    }
    for newest in [
        "nvmlSystemGetCudaDriverVersion_v2",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetCurrentClocksEventReasons",
    ] {
        let fault = format!("[[fault]]\nfunction = \"{newest}\"\ncode = \"NOT_SUPPORTED\"\n");
        answers(&FileHost::new(&format!("{gpu}{fault}")), newest);
    }
}

#[test]
fn trap_2_the_size_of_a_list_is_never_requested_and_the_buffer_grows_until_it_fits() {
    for count in [0, 1, 128, 129, 300, 1000] {
        let sample = FileHost::new(&many_processes(count)).sample();
        assert_eq!(pids(only(&sample)), (1..=count).collect::<Vec<_>>());
        assert_eq!(sample.problems, []);
    }
}

#[test]
fn trap_3_the_record_size_is_detected_on_drivers_that_changed_it_under_the_same_name() {
    for count in [1, 2, 3, 64, 300] {
        let host = FileHost::with_driver(Generation::R535_54, &many_processes(count));
        let sample = host.sample();
        let gpu = only(&sample);
        assert_eq!(pids(gpu), (1..=count).collect::<Vec<_>>());
        assert!(
            gpu.processes
                .iter()
                .all(|process| process.memory == Ok(Bytes::from_mb(process.pid.0.into())))
        );
    }
}

fn processes(pids: &[u32]) -> String {
    let process = |pid: &u32| format!("[[gpu.process]]\npid = {pid}\nmemory_mib = 2\n");
    pids.iter().map(process).collect()
}

#[test]
fn trap_3_a_pid_that_linux_cannot_assign_is_not_reported() {
    let host = FileHost::new(&format!("[[gpu]]\n{}", processes(&[7, 5_000_000])));
    host.start_process(7, 1000, 50, "python");
    let sample = host.sample();
    assert_eq!(pids(only(&sample)), [7]);
    assert_eq!(sample.problems.len(), 1, "{:?}", sample.problems);
}

#[test]
fn trap_3_one_impossible_pid_does_not_change_the_record_size() {
    for bad in [0, 5_000_000, u32::MAX] {
        let scenario = format!("[[gpu]]\n{}", processes(&[101, 102, bad, 104]));
        let host = FileHost::with_driver(Generation::R535_54, &scenario);
        let sample = host.sample();
        let gpu = only(&sample);
        let named: Vec<u32> = pids(gpu).into_iter().filter(|pid| *pid != 0).collect();
        assert_eq!(named, [101, 102, 104], "{bad}");
        for process in &gpu.processes {
            assert_eq!(process.memory, Ok(Bytes::from_mb(2)), "{bad}");
        }
    }
}

#[test]
fn trap_15_a_record_without_a_pid_is_a_holder_without_a_name() {
    for (generation, pids_listed) in [
        (Generation::R550, vec![0]),
        (Generation::R535_54, vec![0, 0]),
        (Generation::R390, vec![0]),
    ] {
        let scenario = format!("[[gpu]]\nutil = 0\n{}", processes(&pids_listed));
        let sample = FileHost::with_driver(generation, &scenario).sample();
        let gpu = only(&sample);
        assert_eq!(pids(gpu), [0], "{generation:?}");
        let holder = process_of(gpu, 0);
        let memory = 2 * pids_listed.len() as u64;
        assert_eq!(holder.memory, Ok(Bytes::from_mb(memory)), "{generation:?}");
        assert_eq!(holder.identity, Err(Missing::Denied), "{generation:?}");
        let taken = obstacle(gpu, &Criteria::default(), &LastUse::new());
        assert_eq!(taken, Some(Obstacle::Held), "{generation:?}");
        assert_eq!(sample.problems, [], "{generation:?}");
    }
}

#[test]
fn trap_16_clients_of_the_multi_process_service_hold_their_gpu() {
    let process = "[[gpu.process]]\npid = 7\ntype = \"mps-only\"\nmemory_mib = 900\n\
        [[gpu.process]]\npid = 8\ntype = \"mps\"\nmemory_mib = 300\n";
    for generation in [Generation::R470, Generation::R535_54, Generation::R550] {
        let scenario = format!("[[gpu]]\nutil = 0\n{process}");
        let host = FileHost::with_driver(generation, &scenario);
        host.start_process(7, 1000, 50, "python");
        let sample = host.sample();
        let gpu = only(&sample);
        assert_eq!(process_of(gpu, 7).kind, ProcessKind::Compute);
        assert_eq!(process_of(gpu, 7).memory, Ok(Bytes::from_mb(900)));
        assert_eq!(gpu.processes.len(), 2, "{generation:?}");
    }
}

#[test]
fn trap_16_an_idle_gpu_is_idle_though_the_list_of_that_service_fails() {
    for code in ["NOT_SUPPORTED", "UNKNOWN", "NO_PERMISSION"] {
        let faults = ["", "_v2", "_v3"].map(|version| {
            format!(
                "[[fault]]\nfunction = \"nvmlDeviceGetMPSComputeRunningProcesses{version}\"\ncode = \"{code}\"\n"
            )
        });
        let sample = FileHost::new(&format!("[[gpu]]\nutil = 0\n{}", faults.concat())).sample();
        let gpu = only(&sample);
        let verdict = classify(gpu, &Thresholds::default(), None);
        assert_eq!(verdict.state, State::TrulyIdle, "{code}");
        assert_eq!(sample.problems, [], "{code}");
    }
}

#[test]
fn trap_17_a_total_memory_of_zero_is_a_missing_reading() {
    let sample = FileHost::new("[[gpu]]\nutil = 0\nmemory_total_mib = 0\n").sample();
    let gpu = only(&sample);
    assert_eq!(gpu.memory_total, Err(Missing::Failed));
    assert_eq!(gpu.memory_used, Err(Missing::Failed));
    let taken = obstacle(gpu, &Criteria::default(), &LastUse::new());
    assert_eq!(taken, Some(Obstacle::Unseen(Missing::Failed)));
}

#[test]
fn trap_4_memory_of_all_ones_is_unknown_and_the_process_still_holds_the_gpu() {
    let host =
        FileHost::new("[[gpu]]\nutil = 0\n[[gpu.process]]\npid = 7\nmemory_mib = \"unknown\"\n");
    host.start_process(7, 1000, 50, "python");
    let sample = host.sample();
    let gpu = only(&sample);
    assert_eq!(process_of(gpu, 7).memory, Err(Missing::Unsupported));
    assert_eq!(
        classify(gpu, &Thresholds::default(), None).state,
        State::IdleHeld
    );
}

#[test]
fn trap_5_reserved_memory_does_not_make_an_empty_gpu_held() {
    let scenario = "[[gpu]]\nutil = 0\nmemory_total_mib = 40000\nmemory_reserved_mib = 600\n";
    for (generation, used_mb) in [(Generation::R470, 600), (Generation::R550, 0)] {
        let sample = FileHost::with_driver(generation, scenario).sample();
        let gpu = only(&sample);
        assert_eq!(
            gpu.memory_used,
            Ok(Bytes::from_mb(used_mb)),
            "{generation:?}"
        );
        assert_eq!(
            classify(gpu, &Thresholds::default(), None).state,
            State::TrulyIdle
        );
    }
}

#[test]
fn trap_5_a_unified_memory_gpu_is_classified_from_its_processes() {
    let host = FileHost::new(
        "[[gpu]]\nname = \"NVIDIA GB10\"\nunified_memory = true\nutil = 0\n[[gpu.process]]\npid = 7\nmemory_mib = 9000\n",
    );
    host.start_process(7, 1000, 50, "python");
    let sample = host.sample();
    let gpu = only(&sample);
    assert_eq!(
        (gpu.memory_total, gpu.memory_used),
        (Err(Missing::Unsupported), Err(Missing::Unsupported))
    );
    assert_eq!(
        classify(gpu, &Thresholds::default(), None).state,
        State::IdleHeld
    );
    assert_eq!(sample.problems, []);
}

#[test]
fn trap_6_a_pid_in_both_lists_is_one_process_and_holds_each_of_its_gpus() {
    let process = "[[gpu.process]]\npid = 7\ntype = \"both\"\nmemory_mib = 900\n";
    let host = FileHost::new(&format!("[[gpu]]\n{process}[[gpu]]\n{process}"));
    host.start_process(7, 1000, 50, "python");
    let sample = host.sample();
    assert_eq!(sample.gpus.len(), 2);
    for gpu in &sample.gpus {
        let process = process_of(gpu, 7);
        assert_eq!(
            (process.kind, process.memory),
            (ProcessKind::Both, Ok(Bytes::from_mb(900)))
        );
        assert_eq!(process.identity, process_of(&sample.gpus[0], 7).identity);
    }
}

#[test]
fn trap_6_a_reused_pid_is_another_process() {
    let host = FileHost::new("[[gpu]]\n[[gpu.process]]\npid = 7\nmemory_mib = 900\n");
    let mut probe = host.probe();
    let mut identity = |start, uid, comm| {
        host.start_process(7, uid, start, comm);
        let sample = probe.sample().unwrap();
        process_of(only(&sample), 7).identity.clone().unwrap()
    };
    let first = identity(50, 1000, "python");
    let second = identity(99, 1001, "python");
    assert_ne!(first.key, second.key);
    assert_eq!(first.owner().unwrap().shown(), "ada");
    assert_eq!(second.owner().unwrap().shown(), "bob");
}
