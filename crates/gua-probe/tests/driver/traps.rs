//! One test, or a few, for each entry of the list of driver traps in docs/traps.md, in its order. Each fails without
//! the handling that it names.

use gua_model::sample::{Slice, ThrottleReasons};
use gua_model::{
    Bytes, Milliwatts, Missing, Percent, Place, ProcessKind, State, Thresholds, classify,
};
use gua_probe::fault::DriverFault;
use nvml_sim::driver::Generation;

use super::host::{Host, only, pids, process_of};

const TWO_PROCESSES: &str = r#"
    [[card]]
    memory_total_mib = 40000
    memory_reserved_mib = 500
    [[card.process]]
    pid = 101
    memory_mib = 2000
    [[card.process]]
    pid = 102
    type = "graphics"
    memory_mib = 300
"#;

fn holds_two(host: &Host) {
    let sample = host.sample();
    let gpu = only(&sample);
    assert_eq!(pids(gpu), [101, 102]);
    assert_eq!(process_of(gpu, 101).memory, Ok(Bytes::from_mb(2000)));
    assert_eq!(process_of(gpu, 102).memory, Ok(Bytes::from_mb(300)));
    assert_eq!(gpu.memory_total, Ok(Bytes::from_mb(40000)));
    assert_eq!(sample.problems, []);
}

#[test]
fn trap_1_a_missing_symbol_falls_back_to_the_version_before() {
    for generation in Generation::ALL {
        let host = Host::with_driver(generation, TWO_PROCESSES);
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
fn trap_1_a_symbol_that_answers_not_found_or_not_supported_falls_back_too() {
    let newest = [
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetGraphicsRunningProcesses_v2",
        "nvmlDeviceGetMemoryInfo_v2",
    ];
    for count in 1..=newest.len() {
        let names = &newest[newest.len() - count..];
        holds_two(&Host::new(&format!(
            "symbol_answers_not_found = {names:?}\n{TWO_PROCESSES}"
        )));
        let faults: Vec<String> = names
            .iter()
            .map(|name| format!("[[fault]]\nfunction = {name:?}\ncode = \"NOT_SUPPORTED\"\n"))
            .collect();
        holds_two(&Host::new(&format!("{TWO_PROCESSES}\n{}", faults.concat())));
    }
}

#[test]
fn trap_1_every_other_reading_falls_back_too() {
    let card = "[driver]\ncuda_version = 11040\n[[card]]\npci = \"00000000:3B:00.0\"\npower_limit_w = 250\nthrottle_reasons = 4\n";
    let answers = |host: &Host, what: &str| {
        let sample = host.sample();
        let gpu = only(&sample);
        assert_eq!(sample.driver.cuda, Ok((11, 4)), "{what}");
        assert_eq!(gpu.pci.map(|pci| pci.bus), Ok(0x3b), "{what}");
        assert_eq!(gpu.power_limit, Ok(Milliwatts(250_000)), "{what}");
        assert_eq!(gpu.throttle, Ok(ThrottleReasons(4)), "{what}");
    };
    for generation in Generation::ALL {
        answers(
            &Host::with_driver(generation, card),
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
        answers(&Host::new(&format!("{card}{fault}")), newest);
    }
}

fn many_processes(count: u32) -> String {
    let process = |pid| format!("[[card.process]]\npid = {pid}\nmemory_mib = {pid}\n");
    format!(
        "null_size_query = \"crash\"\n[[card]]\n{}",
        (1..=count).map(process).collect::<String>()
    )
}

#[test]
fn trap_2_a_list_is_never_asked_for_its_size_and_grows_until_it_fits() {
    for count in [0, 1, 128, 129, 300, 1000] {
        let sample = Host::new(&many_processes(count)).sample();
        assert_eq!(pids(only(&sample)), (1..=count).collect::<Vec<_>>());
        assert_eq!(sample.problems, []);
    }
}

#[test]
fn trap_3_the_record_size_is_found_on_drivers_that_changed_it_under_the_same_name() {
    for count in [1, 2, 3, 64, 300] {
        let host = Host::with_driver(Generation::R535_54, &many_processes(count));
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

#[test]
fn trap_3_a_pid_that_linux_cannot_have_is_not_reported() {
    let process = |pid: u32| format!("[[card.process]]\npid = {pid}\nmemory_mib = 9\n");
    let processes: String = [0, 7, 5_000_000].map(process).concat();
    let host = Host::new(&format!("[[card]]\n{processes}"));
    host.start_process(7, 1000, 50, "python");
    let sample = host.sample();
    assert_eq!(pids(only(&sample)), [7]);
    assert_eq!(sample.problems.len(), 1, "{:?}", sample.problems);
}

#[test]
fn trap_4_memory_of_all_ones_is_unknown_and_still_holds_the_card() {
    let host =
        Host::new("[[card]]\nutil = 0\n[[card.process]]\npid = 7\nmemory_mib = \"unknown\"\n");
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
fn trap_5_reserved_memory_does_not_make_an_empty_card_held() {
    let scenario = "[[card]]\nutil = 0\nmemory_total_mib = 40000\nmemory_reserved_mib = 600\n";
    for (generation, used_mb) in [(Generation::R470, 600), (Generation::R550, 0)] {
        let sample = Host::with_driver(generation, scenario).sample();
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
fn trap_5_a_unified_memory_card_is_classified_from_its_processes() {
    let host = Host::new(
        "[[card]]\nname = \"NVIDIA GB10\"\nunified_memory = true\nutil = 0\n[[card.process]]\npid = 7\nmemory_mib = 9000\n",
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
fn trap_6_a_pid_in_both_lists_is_one_process_and_holds_each_of_its_cards() {
    let process = "[[card.process]]\npid = 7\ntype = \"both\"\nmemory_mib = 900\n";
    let host = Host::new(&format!("[[card]]\n{process}[[card]]\n{process}"));
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
    let host = Host::new("[[card]]\n[[card.process]]\npid = 7\nmemory_mib = 900\n");
    let mut probe = host.probe();
    let mut identity = |start, uid, comm| {
        host.start_process(7, uid, start, comm);
        let sample = probe.sample().unwrap();
        process_of(only(&sample), 7).identity.clone().unwrap()
    };
    let first = identity(50, 1000, "python");
    let second = identity(99, 1001, "python");
    assert_ne!(first.key, second.key);
    assert_eq!(first.owner().unwrap().user.name.as_deref(), Some("ada"));
    assert_eq!(second.owner().unwrap().user.name.as_deref(), Some("bob"));
}

/// Idle at this very moment, busy for half of the time before.
fn square_wave(at: f64) -> String {
    format!(
        r#"
        [clock]
        at = {at}
        origin_unix_ms = 1700000000000
        [[card]]
        util = {{ square = {{ low = 0, high = 80, period = 10, duty = 0.5, phase = 0 }} }}
        [[card.process]]
        pid = 7
        memory_mib = 900
        sm_util = {{ square = {{ low = 0, high = 60, period = 10, duty = 0.5, phase = 0 }} }}
        "#
    )
}

#[test]
fn trap_7_what_happened_between_two_ticks_comes_from_the_drivers_buffer() {
    let host = Host::new(&square_wave(1009.0));
    let mut probe = host.probe();
    let first = probe.sample().unwrap();
    assert_eq!(only(&first).util, Ok(Percent::ZERO));
    host.play(&square_wave(1019.0));
    let second = probe.sample().unwrap();
    let gpu = only(&second);
    let window = gpu.window.unwrap();
    assert_eq!(
        gpu.util,
        Ok(Percent::ZERO),
        "the instant reading sees nothing of it"
    );
    assert_eq!(window.max, Percent::new(80));
    let mean = window.mean().unwrap();
    assert!((38.0..42.0).contains(&mean), "{mean}");
    let covered = window.covered.as_secs_f64();
    assert!(
        (9.7..10.3).contains(&covered),
        "{covered} s since the last tick, not the whole buffer"
    );
    let sm_util = process_of(gpu, 7).sm_util.unwrap().unwrap().get();
    assert!((27..=33).contains(&sm_util), "{sm_util}");
}

#[test]
fn trap_7_no_samples_of_a_process_is_no_error() {
    let host = Host::new(
        "[buffers]\nprocess_samples = 0\n[[card]]\n[[card.process]]\npid = 7\nmemory_mib = 900\n",
    );
    let fault = "[[fault]]\nfunction = \"nvmlDeviceGetProcessUtilization\"\ncode = \"NOT_FOUND\"\n";
    host.play(&format!(
        "[[card]]\n[[card.process]]\npid = 7\nmemory_mib = 900\n{fault}"
    ));
    let sample = host.sample();
    assert_eq!(process_of(only(&sample), 7).sm_util, Ok(None));
    assert_eq!(sample.problems, []);
}

#[test]
fn trap_7_values_above_a_hundred_are_dropped_and_not_clamped() {
    let host = Host::new(
        "[buffers]\njunk_every = 2\njunk = 4000\n[clock]\nat = 1000.0\n[[card]]\nutil = 20\n",
    );
    let sample = host.sample();
    let window = only(&sample).window.unwrap();
    assert_eq!((window.max, window.mean()), (Percent::new(20), Some(20.0)));
    assert!(window.junk > 10, "{window:?}");

    let junk_now = Host::new("[[card]]\nutil = 101\n").sample();
    assert_eq!(only(&junk_now).util, Err(Missing::Failed));
    assert_eq!(junk_now.problems.len(), 1);

    let process = "[clock]\nat = 1000.0\n[[card]]\n[[card.process]]\npid = 7\nmemory_mib = 9\nsm_util = 250\n";
    let junk_process = Host::new(process).sample();
    assert_eq!(process_of(only(&junk_process), 7).sm_util, Ok(None));
}

#[test]
fn trap_7_a_clock_that_went_back_does_not_silence_the_buffers() {
    for without_card_buffer in [false, true] {
        let fault = "[[fault]]\nfunction = \"nvmlDeviceGetSamples\"\ncode = \"NOT_SUPPORTED\"\n";
        let scenario = |at| {
            let wave = square_wave(at);
            if without_card_buffer {
                format!("{wave}{fault}")
            } else {
                wave
            }
        };
        let host = Host::new(&scenario(5000.0));
        let mut probe = host.probe();
        probe.sample().unwrap();
        host.play(&scenario(1000.0));
        // One tick to notice, with nothing to show for it.
        let noticed = probe.sample().unwrap();
        if !without_card_buffer {
            assert_eq!(only(&noticed).window.unwrap().samples(), 0);
        }
        host.play(&scenario(1010.0));
        let sample = probe.sample().unwrap();
        let gpu = only(&sample);
        if !without_card_buffer {
            assert!((9.7..10.3).contains(&gpu.window.unwrap().covered.as_secs_f64()));
        }
        // Without the card's buffer the newest time known is when the process last worked, five seconds earlier.
        let expected = if without_card_buffer {
            18..=22
        } else {
            27..=33
        };
        let sm_util = process_of(gpu, 7).sm_util.unwrap().map(Percent::get);
        assert!(
            sm_util.is_some_and(|util| expected.contains(&util)),
            "{sm_util:?}"
        );
    }
}

#[test]
fn trap_7_a_processs_share_is_that_since_the_last_tick() {
    let scenario = |at| {
        format!(
            "[clock]\nat = {at}\norigin_unix_ms = 1700000000000\n[[card]]\n[[card.process]]\npid = 7\nmemory_mib = 9\nsm_util = {{ steps = [[0, 90], [1010, 20]] }}\n"
        )
    };
    let host = Host::new(&scenario(1010.0));
    let mut probe = host.probe();
    probe.sample().unwrap();
    host.play(&scenario(1020.0));
    let sample = probe.sample().unwrap();
    let share = process_of(only(&sample), 7)
        .sm_util
        .unwrap()
        .map(Percent::get);
    // One sample lies half before and half after.
    assert!(
        share.is_some_and(|share| (20..=22).contains(&share)),
        "{share:?}"
    );
}

#[test]
fn trap_7_looks_of_different_length_weigh_by_their_time() {
    let scenario = |at| {
        format!(
            "[clock]\nat = {at}\norigin_unix_ms = 1700000000000\n[[card]]\n[[card.process]]\npid = 7\nmemory_mib = 9\nsm_util = {{ steps = [[0, 0], [1000, 80], [1009, 20]] }}\n"
        )
    };
    let host = Host::new(&scenario(1000.0));
    let mut probe = host.probe();
    probe.sample().unwrap();
    // Nine seconds at 80, then one at 20.
    host.play(&scenario(1009.0));
    probe.drain();
    host.play(&scenario(1010.0));
    let sample = probe.sample().unwrap();
    let share = process_of(only(&sample), 7).sm_util.unwrap().unwrap().get();
    assert!((72..=76).contains(&share), "{share}");
}

#[test]
fn trap_8_one_thread_owns_the_driver() {
    // That no other thread can get at a probe is kept by the compiler (see the documentation of `Probe`); this shows
    // that none of ours calls into the library from elsewhere, name look-ups included.
    let host =
        Host::new("one_owner = true\n[[card]]\n[[card.process]]\npid = 7\nmemory_mib = 900\n");
    host.start_process(7, 1000, 50, "python");
    let mut probe = host.probe();
    for _ in 0..20 {
        assert_eq!(probe.sample().unwrap().problems, []);
        probe.drain();
    }
}

#[test]
fn trap_9_a_card_lost_half_way_costs_its_own_readings_only() {
    for (code, why) in [("GPU_IS_LOST", Missing::Gone), ("UNKNOWN", Missing::Failed)] {
        let cards =
            "[[card]]\nuuid = \"GPU-a\"\nutil = 50\n[[card]]\nuuid = \"GPU-b\"\nutil = 60\n";
        let lost = format!(
            "[[fault]]\nfunction = \"nvmlDeviceGetPower*\"\ncard = 0\ncode = \"{code}\"\n[[fault]]\nfunction = \"nvmlDeviceGetPersistenceMode\"\ncard = 0\ncode = \"{code}\"\n"
        );
        let sample = Host::new(&format!("{cards}{lost}")).sample();
        let [first, second] = sample.gpus.as_slice() else {
            panic!("{sample:#?}")
        };
        assert_eq!(
            first.util,
            Ok(Percent::new(50).unwrap()),
            "read before it was lost"
        );
        assert_eq!(
            (first.power, first.persistence),
            (Err(why), Err(why)),
            "{code}"
        );
        assert_eq!(second.util, Ok(Percent::new(60).unwrap()));
        assert!(second.power.is_ok());
        assert!(
            sample
                .problems
                .iter()
                .all(|problem| problem.gpu.as_ref().unwrap().as_str() == "GPU-a")
        );
        assert!(!sample.problems.is_empty());
    }
}

#[test]
fn trap_9_a_card_that_was_seen_before_stays_in_the_sample_when_it_is_lost_and_comes_back() {
    let cards = |lost: &str| {
        format!(
            "[[card]]\nuuid = \"GPU-a\"\nname = \"A\"\n[[card]]\nuuid = \"GPU-b\"\nname = \"B\"\n{lost}"
        )
    };
    for way in ["lost = [[0, 1e9]]", "absent = [[0, 1e9]]"] {
        let host = Host::new(&cards(""));
        let mut probe = host.probe();
        probe.sample().unwrap();
        host.play(&cards(way));
        let sample = probe.sample().unwrap();
        let uuids: Vec<&str> = sample.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        assert_eq!(uuids, ["GPU-a", "GPU-b"], "{way}");
        assert_eq!(sample.gpus[1].name.as_deref(), Ok("B"));
        assert_eq!(sample.gpus[1].util, Err(Missing::Gone));
        assert_eq!(
            classify(&sample.gpus[1], &Thresholds::default(), None).state,
            State::Unobserved
        );
        assert!(sample.gpus[0].util.is_ok());
        host.play(&cards(""));
        let back = probe.sample().unwrap();
        assert!(back.gpus.len() == 2 && back.gpus[1].util.is_ok());
    }
}

#[test]
fn trap_9_the_library_is_opened_again_after_a_driver_reload() {
    for stale in [
        "UNINITIALIZED",
        "UNKNOWN",
        "DRIVER_NOT_LOADED",
        "LIB_RM_VERSION_MISMATCH",
        "GPU_IS_LOST",
    ] {
        let scenario = |epoch, util| {
            format!(
                "[driver]\nepoch = {epoch}\nstale_code = \"{stale}\"\n[[card]]\nutil = {util}\n"
            )
        };
        let host = Host::new(&scenario(1, 10));
        host.play_with_journal(&scenario(1, 10));
        let mut probe = host.probe();
        probe.sample().unwrap();
        host.play_with_journal(&scenario(2, 30));
        let sample = probe.sample().unwrap();
        assert_eq!(only(&sample).util, Ok(Percent::new(30).unwrap()));
        assert_eq!(sample.problems, [], "{stale}");
        assert_eq!(host.calls("nvmlInit_v2"), 2, "{stale}");
    }
}

#[test]
fn trap_9_a_library_that_only_remembers_names_is_opened_again() {
    let stale = [
        "nvmlDeviceGetMemoryInfo*",
        "nvmlDeviceGetUtil*",
        "nvmlDeviceGetPower*",
        "nvmlDeviceGet*Processes*",
    ];
    for code in [1, 15, 999] {
        let faults = stale
            .map(|function| format!("[[fault]]\nfunction = \"{function}\"\ncode = {code}\n"))
            .concat();
        let host = Host::new("[[card]]\n");
        let mut probe = host.probe();
        probe.sample().unwrap();
        host.play_with_journal(&format!("[[card]]\n{faults}"));
        for _ in 0..5 {
            probe.sample().unwrap();
        }
        assert_eq!(
            host.calls("nvmlInit_v2"),
            1,
            "once, and then it is left alone for a while ({code})"
        );
    }
}

#[test]
fn trap_9_the_library_is_opened_again_for_a_card_that_is_lost_or_no_longer_counted() {
    let cards =
        |second: &str| format!("[[card]]\nuuid = \"GPU-a\"\n[[card]]\nuuid = \"GPU-b\"\n{second}");
    let losses = [
        cards("lost = [[0, 1e9]]\n"),
        "[[card]]\nuuid = \"GPU-a\"\n".to_owned(),
        String::new(),
    ];
    for loss in losses {
        let host = Host::new(&cards(""));
        let mut probe = host.probe();
        probe.sample().unwrap();
        host.play_with_journal(&loss);
        for _ in 0..5 {
            assert_eq!(probe.sample().unwrap().gpus.len(), 2, "{loss}");
        }
        assert_eq!(host.calls("nvmlInit_v2"), 1, "{loss}");
    }
}

#[test]
fn trap_9_a_lost_card_is_not_asked_any_further() {
    let host = Host::new("");
    host.play_with_journal(
        "[[card]]\n[[fault]]\nfunction = \"nvmlDeviceGetMemoryInfo*\"\ncode = \"GPU_IS_LOST\"\n",
    );
    let sample = host.sample();
    assert_eq!(only(&sample).temperature, Err(Missing::Gone));
    assert_eq!(host.calls("nvmlDeviceGetTemperature"), 0);
    assert!(
        host.calls("nvmlDeviceGetMemoryInfo_v2") > 0,
        "the journal is kept"
    );
}

#[test]
fn trap_9_no_handle_outlives_the_library_that_gave_it() {
    let host = Host::new("[clock]\nat = 1000.0\n[[card]]\n");
    let mut probe = host.probe();
    probe.sample().unwrap();
    assert!(probe.drain_due().is_some());
    host.play("[driver]\nepoch = 2\ninit_code = 9\n[[card]]\n");
    assert!(probe.sample().is_err());
    assert_eq!(
        probe.drain_due(),
        None,
        "there is nothing to drain, and nobody may wait for it"
    );
    probe.drain();
}

#[test]
fn trap_9_two_cards_of_one_name_are_one_card_and_a_problem() {
    // The simulator refuses such a scenario, so the second card's answer is garbage that repeats the first one's name.
    let host = Host::new(
        "[[card]]\nuuid = \"GPU-a\"\n[[card]]\nuuid = \"GPU-b\"\n[[fault]]\nfunction = \"nvmlDeviceGetUUID\"\ncard = 1\ngarbage = true\n",
    );
    let sample = host.sample();
    assert_eq!(sample.gpus.len(), 1);
    assert_eq!(sample.problems.len(), 1, "{:?}", sample.problems);
}

#[test]
fn trap_10_each_init_error_has_its_own_sentence_and_keeps_its_number() {
    let mut sentences = std::collections::BTreeSet::new();
    for code in [4, 9, 12, 18, 999, 777] {
        let fault = Host::new(&format!("[driver]\ninit_code = {code}\n")).fault();
        assert!(
            matches!(fault, DriverFault::Init { code: found, .. } if found == code),
            "{fault:?}"
        );
        let sentence = fault.to_string();
        assert!(
            sentence.contains(&format!("(NVML code {code})")),
            "{sentence}"
        );
        let reason = sentence.split(". Detail").next().unwrap().to_owned();
        assert!(sentences.insert(reason), "{sentence} is said of two codes");
    }
}

#[test]
fn trap_11_one_handle_stays_open_and_slow_counters_are_not_asked() {
    let host = Host::new("[[card]]\n[[card]]\n");
    host.play_with_journal("[[card]]\n[[card]]\n");
    let mut probe = host.probe();
    for _ in 0..10 {
        probe.sample().unwrap();
    }
    assert_eq!(host.calls("nvmlInit_v2"), 1);
    assert_eq!(host.calls("nvmlShutdown"), 0);
    assert_eq!(host.calls("nvmlDeviceGetPcieThroughput"), 0);
    assert!(
        host.calls("nvmlDeviceGetUtilizationRates") >= 20,
        "the journal is kept"
    );
    drop(probe);
    assert_eq!(host.calls("nvmlShutdown"), 1);
}

const MIG: &str = r#"
    [[card]]
    uuid = "GPU-parent"
    memory_total_mib = 80000
    [[card.mig]]
    index = 0
    uuid = "MIG-three"
    slices = 3
    memory_total_mib = 40000
    gpu_instance = 2
    [[card.mig.process]]
    pid = 7
    memory_mib = 20000
    [[card.mig]]
    index = 4
    uuid = "MIG-one"
    slices = 1
    memory_total_mib = 10000
    gpu_instance = 9
"#;

#[test]
fn trap_12_instances_are_counted_in_place_of_their_parent_and_weighed_by_their_slice() {
    for generation in [Generation::R450, Generation::R470, Generation::R550] {
        let host = Host::with_driver(generation, MIG);
        host.start_process(7, 1000, 50, "python");
        let sample = host.sample();
        let [parent, three, one] = sample.gpus.as_slice() else {
            panic!("{sample:#?}")
        };
        assert_eq!(parent.place, Place::Parent { instances: 2 });
        assert!(!parent.place.counts());
        assert_eq!(parent.util, Err(Missing::Unsupported));
        assert_eq!(
            pids(parent),
            [] as [u32; 0],
            "its processes are the instances'"
        );
        let slices: Vec<_> = [three, one]
            .map(|gpu| match &gpu.place {
                Place::Instance { parent, slice, .. } => (parent.as_str(), slice.unwrap()),
                other => panic!("{other:?}"),
            })
            .into();
        assert_eq!(
            slices,
            [
                ("GPU-parent", Slice { slices: 3, of: 7 }),
                ("GPU-parent", Slice { slices: 1, of: 7 }),
            ]
        );
        assert_eq!(pids(three), [7], "{generation:?}");
        assert_eq!(three.memory_total, Ok(Bytes::from_mb(40000)));
        let state = |gpu| classify(gpu, &Thresholds::default(), None).state;
        assert_eq!(
            (state(three), state(one)),
            (State::HeldUnknown, State::TrulyIdle)
        );
        assert_eq!(sample.problems, []);
    }
}

#[test]
fn trap_12_early_drivers_that_list_an_instances_processes_on_the_parent_alone() {
    let faults = "[[fault]]\nfunction = \"nvmlDeviceGet*RunningProcesses*\"\ncard = \"MIG-three\"\ncode = \"NOT_SUPPORTED\"\n";
    let host = Host::new(&format!("{MIG}{faults}"));
    let sample = host.sample();
    assert_eq!(pids(&sample.gpus[1]), [7]);
    assert_eq!(pids(&sample.gpus[0]), [] as [u32; 0]);
}

#[test]
fn trap_12_drivers_that_list_an_instances_processes_on_the_parent_too_and_say_no_ids() {
    let newer = [
        "nvmlDeviceGet*RunningProcesses_v3",
        "nvmlDeviceGet*RunningProcesses_v2",
    ];
    let sample = Host::new(&format!("symbol_answers_not_found = {newer:?}\n{MIG}")).sample();
    assert_eq!(pids(&sample.gpus[0]), [] as [u32; 0]);
    assert_eq!(pids(&sample.gpus[1]), [7]);
}

#[test]
fn trap_12_two_compute_instances_in_one_gpu_instance_are_not_weighed_twice() {
    let sample = Host::new("[[card]]\n[[card.mig]]\nslices = 3\ncompute_slices = 1\n").sample();
    let Place::Instance { slice, .. } = &sample.gpus[1].place else {
        panic!("{sample:#?}")
    };
    assert_eq!(*slice, Ok(Slice { slices: 1, of: 7 }));
}

#[test]
fn trap_12_instances_keep_their_places_while_nobody_can_list_them() {
    let fault = |function| format!("{MIG}[[fault]]\nfunction = \"{function}\"\ncode = 999\n");
    let lost = MIG.replacen("memory_total_mib = 80000", "lost = [[0, 1e9]]", 1);
    let hiccups = [
        fault("nvmlDeviceGetMigMode"),
        fault("nvmlDeviceGetMaxMigDeviceCount"),
        fault("nvmlDeviceGetMigDeviceHandleByIndex"),
        lost,
    ];
    for hiccup in hiccups {
        let host = Host::new(MIG);
        let mut probe = host.probe();
        let before = probe.sample().unwrap();
        host.play(&hiccup);
        let during = probe.sample().unwrap();
        let places = |sample: &gua_model::Sample| {
            sample
                .gpus
                .iter()
                .map(|gpu| (gpu.uuid.clone(), gpu.place.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(places(&during), places(&before), "{hiccup}");
        let state = classify(&during.gpus[1], &Thresholds::default(), None).state;
        assert_eq!(state, State::Unobserved, "{hiccup}");
        host.play(MIG);
        let after = probe.sample().unwrap();
        assert_eq!(
            (places(&after), pids(&after.gpus[1])),
            (places(&before), vec![7])
        );
    }
    // A card that is taken out of MIG mode is one card again.
    let host = Host::new(MIG);
    let mut probe = host.probe();
    probe.sample().unwrap();
    host.play("[[card]]\nuuid = \"GPU-parent\"\nmig_mode = false\n");
    assert_eq!(only(&probe.sample().unwrap()).place, Place::Whole);
}

#[test]
fn trap_13_what_is_remembered_of_a_card_follows_its_uuid_and_not_its_number() {
    let card = |name: &str, util| {
        format!("[[card]]\nuuid = \"GPU-{name}\"\nname = \"{name}\"\nutil = {util}\n")
    };
    let clock = |at| format!("[clock]\nat = {at}\norigin_unix_ms = 1700000000000\n");
    let host = Host::new(&format!(
        "{}{}{}",
        clock(1000),
        card("a", 10),
        card("b", 90)
    ));
    let mut probe = host.probe();
    probe.sample().unwrap();
    host.play(&format!(
        "{}{}{}",
        clock(1010),
        card("b", 90),
        card("a", 10)
    ));
    let sample = probe.sample().unwrap();
    for (gpu, name, util) in [(&sample.gpus[0], "b", 90.0), (&sample.gpus[1], "a", 10.0)] {
        assert_eq!(gpu.name.as_deref(), Ok(name));
        let window = gpu.window.unwrap();
        assert_eq!(window.mean(), Some(util));
        assert!(
            (9.7..10.3).contains(&window.covered.as_secs_f64()),
            "{window:?}"
        );
    }
}

#[test]
fn trap_14_a_host_pid_is_mapped_to_its_container_pod_or_job() {
    let host = Host::new(&many_processes(3));
    let hex = "0123456789abcdef".repeat(4);
    for (pid, cgroup) in [
        (1, format!("0::/system.slice/docker-{hex}.scope\n")),
        (
            2,
            format!(
                "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-{hex}.scope\n"
            ),
        ),
        (
            3,
            "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0\n".to_owned(),
        ),
    ] {
        host.start_process(pid, 1000, 50, "python");
        host.write(&format!("proc/{pid}/cgroup"), &cgroup);
    }
    let sample = host.sample();
    let workload = |pid| {
        process_of(only(&sample), pid)
            .identity
            .clone()
            .unwrap()
            .workload
    };
    assert_eq!(workload(1).container.unwrap().as_str(), hex);
    assert_eq!(workload(2).container.unwrap().as_str(), hex);
    assert_eq!(
        workload(2).pod.unwrap().as_str(),
        "0a1b2c3d-1111-2222-3333-444455556666"
    );
    assert_eq!(workload(3).job.unwrap().as_str(), "42");
}

#[test]
fn trap_14_a_pid_that_cannot_be_seen_from_another_namespace_is_not_called_gone() {
    let host = Host::new(&many_processes(1));
    let identity = |sample: gua_model::Sample| process_of(only(&sample), 1).identity.clone();
    assert_eq!(
        identity(host.sample()),
        Err(Missing::Gone),
        "in the host's own namespace it is"
    );
    std::fs::remove_file(host.path("proc/self/ns/pid")).unwrap();
    std::os::unix::fs::symlink("pid:[4026532999]", host.path("proc/self/ns/pid")).unwrap();
    assert_eq!(identity(host.sample()), Err(Missing::Denied));
    host.start_process(1, 1000, 50, "stranger");
    assert_eq!(
        identity(host.sample()),
        Err(Missing::Denied),
        "that pid names somebody else here"
    );
}
