//! A missing, wrong or failing driver gives a clear message or the remaining readings, and never a panic.

use gua_model::{Missing, State, Thresholds, classify};
use gua_probe::fault::DriverFault;
use gua_probe::probe::{Probe, ProbeOptions};

use super::host::{FileHost, only};

fn fault_of(library: &std::path::Path) -> DriverFault {
    let options = ProbeOptions {
        library: Some(library.to_owned()),
        ..ProbeOptions::default()
    };
    Probe::new(options).sample().unwrap_err()
}

#[test]
fn a_missing_library_and_a_file_that_is_not_a_library_are_distinguished() {
    let host = FileHost::new("");
    host.write("text.so", "this is no library\n");
    host.write("empty.so", "");
    assert!(matches!(
        fault_of(&host.path("absent.so")),
        DriverFault::LibraryNotFound { .. }
    ));
    for name in ["text.so", "empty.so"] {
        let fault = fault_of(&host.path(name));
        assert!(matches!(fault, DriverFault::NotADriver { .. }), "{fault}");
        assert!(fault.to_string().contains(name), "{fault}");
    }
}

#[test]
fn a_library_that_is_not_the_drivers_is_refused_by_name() {
    let fault = [
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib/aarch64-linux-gnu/libm.so.6",
        "/lib64/libm.so.6",
    ]
    .into_iter()
    .map(std::path::Path::new)
    .find(|path| path.exists())
    .map(fault_of)
    .expect("every glibc system has a libm");
    assert!(matches!(fault, DriverFault::NotADriver { .. }), "{fault}");
    assert!(fault.to_string().contains("nvmlInit"), "{fault}");
}

#[test]
fn a_refusing_driver_is_not_retried_for_a_while() {
    let host = FileHost::new("");
    host.play_with_journal("[driver]\ninit_code = 9\n");
    let mut probe = host.probe();
    assert!(matches!(
        probe.sample(),
        Err(DriverFault::Init { code: 9, .. })
    ));
    for _ in 0..5 {
        let fault = probe.sample().unwrap_err();
        assert!(matches!(fault, DriverFault::BackingOff { .. }), "{fault}");
        assert!(fault.hint().is_some());
    }
    assert_eq!(host.calls("nvmlInit_v2"), 1);
}

#[test]
fn a_failing_call_costs_one_reading_with_its_reason_and_code() {
    for (code, why) in [
        (3, Missing::Unsupported),
        (4, Missing::Denied),
        (15, Missing::Gone),
        (999, Missing::Failed),
        (777, Missing::Failed),
    ] {
        let fault = format!(
            "[[gpu]]\nutil = 5\n[[fault]]\nfunction = \"nvmlDeviceGetPersistenceMode\"\ncode = {code}\n"
        );
        let sample = FileHost::new(&fault).sample();
        let gpu = only(&sample);
        assert_eq!(gpu.persistence, Err(why), "{code}");
        assert!(gpu.util.is_ok() && gpu.temperature.is_ok());
        let codes: Vec<Option<u32>> = sample.problems.iter().map(|problem| problem.code).collect();
        let expected = if why == Missing::Unsupported {
            vec![]
        } else {
            vec![Some(code)]
        };
        assert_eq!(codes, expected);
    }
}

#[test]
fn a_denied_process_list_is_missing_and_the_gpu_keeps_its_other_readings() {
    let sample = FileHost::new("[[gpu]]\nutil = 0\n[[fault]]\nfunction = \"nvmlDeviceGetComputeRunningProcesses*\"\ncode = 4\n").sample();
    let gpu = only(&sample);
    assert_eq!(gpu.compute_list, Err(Missing::Denied));
    assert!(gpu.graphics_list.is_ok() && gpu.temperature.is_ok());
    assert_eq!(
        classify(gpu, &Thresholds::default(), None).state,
        State::Unobserved
    );
}

#[test]
fn garbage_from_any_function_is_missing_and_never_a_panic() {
    let gpus = "[[gpu]]\nutil = 5\necc = true\nfan_percent = 5\n[[gpu.process]]\npid = 7\nmemory_mib = 900\n[[gpu]]\n[[gpu.mig]]\nslices = 1\n";
    let functions = [
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetMemoryInfo*",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetFanSpeed*",
        "nvmlDeviceGetPerformanceState",
        "nvmlDeviceGetEccMode",
        "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetPersistenceMode",
        "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetName",
        "nvmlDeviceGetPciInfo*",
        "nvmlDeviceGetSamples",
        "nvmlDeviceGetProcessUtilization",
        "nvmlDeviceGet*RunningProcesses*",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetAttributes*",
        "nvmlDeviceGet*InstanceId",
        "nvmlSystemGetDriverVersion",
        "nvmlSystemGetCudaDriverVersion*",
    ];
    for function in functions {
        let host = FileHost::new(&format!(
            "{gpus}[[fault]]\nfunction = {function:?}\ngarbage = true\n"
        ));
        let sample = host.sample();
        assert!(sample.gpus.len() >= 2, "{function}: {sample:#?}");
        let others = sample.gpus.iter().filter(|gpu| gpu.util.is_ok()).count();
        assert!(
            function.contains("Utilization") || others >= 1,
            "{function}: {sample:#?}"
        );
    }
    for function in ["nvmlDeviceGetUUID", "nvmlDeviceGetCount*"] {
        let host = FileHost::new(&format!(
            "{gpus}[[fault]]\nfunction = {function:?}\ngarbage = true\n"
        ));
        // No GPU can be named or counted, and none is invented.
        if let Ok(sample) = host.probe().sample() {
            assert_eq!(sample.gpus, [], "{function}");
            assert!(!sample.problems.is_empty());
        }
    }
}

#[test]
fn a_physically_impossible_number_is_missing() {
    let sample = FileHost::new("[[gpu]]\nutil = 5\n[[fault]]\nfunction = \"nvmlDeviceGet[!U]*\"\ngarbage = true\n[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\ngarbage = true\n[[fault]]\nfunction = \"nvmlDeviceGetTemperature\"\ngarbage = true\n").sample();
    let gpu = only(&sample);
    assert_eq!(
        (gpu.power, gpu.temperature),
        (Err(Missing::Failed), Err(Missing::Failed))
    );
    assert!(
        sample.problems.iter().all(|problem| problem.code.is_none()),
        "the driver gave no code for it"
    );
}

#[test]
fn a_host_without_gpus_gives_an_empty_sample() {
    let sample = FileHost::new("").sample();
    assert_eq!((sample.gpus.len(), sample.problems.len()), (0, 0));
}
