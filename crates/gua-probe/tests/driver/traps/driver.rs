//! Traps 8 to 11 of docs/traps.md: one owner, lost GPUs, reloaded drivers, refusals, slow calls.

use gua_model::{Missing, Percent, State, Thresholds, classify};
use gua_probe::fault::DriverFault;

use crate::host::{FileHost, only};

#[test]
fn trap_8_one_thread_owns_the_driver() {
    // The compiler ensures that no other thread can use a probe (see the documentation of `Probe`); this test shows
    // that none of our threads calls into the library from elsewhere, name look-ups included.
    let host =
        FileHost::new("one_owner = true\n[[gpu]]\n[[gpu.process]]\npid = 7\nmemory_mib = 900\n");
    host.start_process(7, 1000, 50, "python");
    let mut probe = host.probe();
    for _ in 0..20 {
        assert_eq!(probe.sample().unwrap().problems, []);
        probe.drain();
    }
}

#[test]
fn trap_9_a_gpu_lost_half_way_costs_only_its_own_readings() {
    for (code, why) in [("GPU_IS_LOST", Missing::Gone), ("UNKNOWN", Missing::Failed)] {
        let gpus = "[[gpu]]\nuuid = \"GPU-a\"\nutil = 50\n[[gpu]]\nuuid = \"GPU-b\"\nutil = 60\n";
        let lost = format!(
            "[[fault]]\nfunction = \"nvmlDeviceGetPower*\"\ngpu = 0\ncode = \"{code}\"\n[[fault]]\nfunction = \"nvmlDeviceGetPersistenceMode\"\ngpu = 0\ncode = \"{code}\"\n"
        );
        let sample = FileHost::new(&format!("{gpus}{lost}")).sample();
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
fn trap_9_a_known_gpu_stays_in_the_sample_while_it_is_lost_and_comes_back() {
    let gpus = |lost: &str| {
        format!(
            "[[gpu]]\nuuid = \"GPU-a\"\nname = \"A\"\n[[gpu]]\nuuid = \"GPU-b\"\nname = \"B\"\n{lost}"
        )
    };
    for fault in ["lost = [[0, 1e9]]", "absent = [[0, 1e9]]"] {
        let host = FileHost::new(&gpus(""));
        let mut probe = host.probe();
        probe.sample().unwrap();
        host.play(&gpus(fault));
        let sample = probe.sample().unwrap();
        let uuids: Vec<&str> = sample.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        assert_eq!(uuids, ["GPU-a", "GPU-b"], "{fault}");
        assert_eq!(sample.gpus[1].name.as_deref(), Ok("B"));
        assert_eq!(sample.gpus[1].util, Err(Missing::Gone));
        assert_eq!(
            classify(&sample.gpus[1], &Thresholds::default(), None).state,
            State::Unobserved
        );
        assert!(sample.gpus[0].util.is_ok());
        host.play(&gpus(""));
        let back = probe.sample().unwrap();
        assert!(back.gpus.len() == 2 && back.gpus[1].util.is_ok());
    }
}

#[test]
fn trap_9_the_library_is_reopened_after_a_driver_reload() {
    for stale in [
        "UNINITIALIZED",
        "UNKNOWN",
        "DRIVER_NOT_LOADED",
        "LIB_RM_VERSION_MISMATCH",
        "GPU_IS_LOST",
    ] {
        let scenario = |epoch, util| {
            format!("[driver]\nepoch = {epoch}\nstale_code = \"{stale}\"\n[[gpu]]\nutil = {util}\n")
        };
        let host = FileHost::new(&scenario(1, 10));
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
fn trap_9_a_library_that_only_remembers_names_is_reopened() {
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
        let host = FileHost::new("[[gpu]]\n");
        let mut probe = host.probe();
        probe.sample().unwrap();
        host.play_with_journal(&format!("[[gpu]]\n{faults}"));
        for _ in 0..5 {
            probe.sample().unwrap();
        }
        assert_eq!(
            host.calls("nvmlInit_v2"),
            1,
            "once, and then not for a while ({code})"
        );
    }
}

#[test]
fn trap_9_the_library_is_reopened_for_a_gpu_that_is_lost_or_no_longer_counted() {
    let gpus =
        |second: &str| format!("[[gpu]]\nuuid = \"GPU-a\"\n[[gpu]]\nuuid = \"GPU-b\"\n{second}");
    let losses = [
        gpus("lost = [[0, 1e9]]\n"),
        "[[gpu]]\nuuid = \"GPU-a\"\n".to_owned(),
        String::new(),
    ];
    for loss in losses {
        let host = FileHost::new(&gpus(""));
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
fn trap_9_a_lost_gpu_is_not_read_any_further() {
    let host = FileHost::new("");
    host.play_with_journal(
        "[[gpu]]\n[[fault]]\nfunction = \"nvmlDeviceGetMemoryInfo*\"\ncode = \"GPU_IS_LOST\"\n",
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
fn trap_9_no_handle_outlives_the_library_that_returned_it() {
    let host = FileHost::new("[clock]\nat = 1000.0\n[[gpu]]\n");
    let mut probe = host.probe();
    probe.sample().unwrap();
    assert!(probe.drain_due().is_some());
    host.play("[driver]\nepoch = 2\ninit_code = 9\n[[gpu]]\n");
    assert!(probe.sample().is_err());
    assert_eq!(
        probe.drain_due(),
        None,
        "there is nothing to drain or to wait for"
    );
    probe.drain();
}

#[test]
fn trap_9_two_gpus_with_one_uuid_are_one_gpu_and_a_problem() {
    // The simulator refuses such a scenario, so the second GPU's answer is garbage that repeats the first one's name.
    let host = FileHost::new(
        "[[gpu]]\nuuid = \"GPU-a\"\n[[gpu]]\nuuid = \"GPU-b\"\n[[fault]]\nfunction = \"nvmlDeviceGetUUID\"\ngpu = 1\ngarbage = true\n",
    );
    let sample = host.sample();
    assert_eq!(sample.gpus.len(), 1);
    assert_eq!(sample.problems.len(), 1, "{:?}", sample.problems);
}

#[test]
fn trap_10_each_init_error_has_its_own_message_and_keeps_its_code() {
    let mut sentences = std::collections::BTreeSet::new();
    for code in [4, 9, 12, 18, 999, 777] {
        let fault = FileHost::new(&format!("[driver]\ninit_code = {code}\n")).fault();
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
        assert!(sentences.insert(reason), "{sentence} is used for two codes");
    }
}

#[test]
fn trap_11_one_handle_stays_open_and_slow_counters_are_not_read() {
    let host = FileHost::new("[[gpu]]\n[[gpu]]\n");
    host.play_with_journal("[[gpu]]\n[[gpu]]\n");
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
