//! Every fault that can be scripted.

use std::process::{Command, Output};

use crate::stage::{Stage, frozen, scene};
use nvml_sim::Code;
use nvml_sim::driver::{self, Generation};
use nvml_sim::scenario::{Fault, Gpu, NullSizeQuery, Process, Scenario, Selector};

const POWER: &str = "nvmlDeviceGetPowerUsage";

fn two_gpus(fault: Fault) -> Stage {
    let mut scenario = frozen(5.0, [Gpu::default(), Gpu::default()]);
    scenario.faults.push(fault);
    Stage::new(&scenario)
}

#[test]
fn a_fault_affects_only_its_function_and_its_gpu() {
    let stage = two_gpus(Fault {
        function: "nvmlDeviceGetPower*".to_owned(),
        gpu: Some(Selector::Index(1)),
        code: Some(Code(4711)),
        ..Fault::default()
    });
    let (well, ill) = (stage.handle(0).unwrap(), stage.handle(1).unwrap());
    assert_eq!(stage.read::<u32>(POWER, well), Ok(60_000));
    assert_eq!(stage.read::<u32>(POWER, ill), Err(4711));
    assert_eq!(
        stage.read::<[u32; 2]>("nvmlDeviceGetUtilizationRates", ill),
        Ok([0, 0])
    );
}

#[test]
fn a_fault_is_limited_to_its_time() {
    let text = "[[gpu]]\n[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\ncode = 999\nfrom = 10\nuntil = 20\n";
    for (at, expected) in [(9.9, Ok(60_000)), (10.0, Err(999)), (20.0, Ok(60_000))] {
        let stage = Stage::new(&scene(at, text));
        assert_eq!(
            stage.read::<u32>(POWER, stage.handle(0).unwrap()),
            expected,
            "at {at}"
        );
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "measures that a call is slow")]
fn a_delayed_call_takes_its_time_and_then_answers() {
    let stage = two_gpus(Fault {
        function: POWER.to_owned(),
        delay_ms: 30,
        ..Fault::default()
    });
    let gpu = stage.handle(0).unwrap();
    let before = std::time::Instant::now();
    assert_eq!(stage.read::<u32>(POWER, gpu), Ok(60_000));
    assert!(before.elapsed() >= std::time::Duration::from_millis(30));
}

#[test]
fn garbage_is_a_success_with_absurd_counts() {
    let stage = two_gpus(Fault {
        function: "nvmlDeviceGet*s*".to_owned(),
        garbage: true,
        ..Fault::default()
    });
    let gpu = stage.handle(0).unwrap();
    let absurd = u32::from_le_bytes([0xA5; 4]);
    assert_eq!(stage.read::<u32>(POWER, gpu), Ok(absurd));
    let (code, count, bytes) = stage.raw_list("nvmlDeviceGetComputeRunningProcesses_v3", gpu, 4);
    assert_eq!((code, count), (0, absurd));
    assert_eq!(bytes[..4 * 24], [0xA5; 4 * 24]);
    assert_eq!(bytes[4 * 24..], [0; 4 * 8]);
}

#[test]
fn a_lost_gpu_comes_back_and_does_not_affect_the_others() {
    let text = "[[gpu]]\nuuid = \"GPU-a\"\nlost = [[10, 20]]\nabsent = [[20, 30]]\n[[gpu]]\nuuid = \"GPU-b\"\npower_w = 70\n";
    let at = |seconds: f64| scene(seconds, text);
    let stage = Stage::new(&at(0.0));
    let (first, second) = (stage.handle(0).unwrap(), stage.handle(1).unwrap());
    assert_eq!(stage.read::<u32>(POWER, first), Ok(60_000));

    stage.rewrite(&at(15.0));
    assert_eq!(stage.count(), Ok(2));
    assert_eq!(stage.read::<u32>(POWER, first), Err(15));
    assert_eq!(stage.handle(0), Err(15));
    assert_eq!(stage.read::<u32>(POWER, second), Ok(70_000));

    stage.rewrite(&at(25.0));
    assert_eq!(stage.count(), Ok(1));
    assert_eq!(stage.handle(0), Ok(second));
    assert_eq!(stage.read::<u32>("nvmlDeviceGetIndex", second), Ok(0));
    assert_eq!(stage.read::<u32>(POWER, first), Err(15));

    stage.rewrite(&at(30.0));
    assert_eq!(stage.read::<u32>(POWER, first), Ok(60_000));
    assert_eq!(stage.handle(0), Ok(first));
}

#[test]
fn after_a_driver_reload_everything_is_stale_until_the_library_is_reopened() {
    let mut scenario = frozen(0.0, [Gpu::default()]);
    let stage = Stage::new(&scenario);
    let gpu = stage.handle(0).unwrap();
    scenario.driver.epoch = 2;
    stage.rewrite(&scenario);
    assert_eq!(stage.read::<u32>(POWER, gpu), Err(999));
    assert_eq!(stage.count(), Err(999));
    scenario.driver.stale_code = Code::DRIVER_NOT_LOADED;
    stage.rewrite(&scenario);
    assert_eq!(stage.count(), Err(9));
    assert_eq!(stage.shutdown(), 0);
    assert_eq!(stage.count(), Err(1));
    assert_eq!(stage.init(), 0);
    assert_eq!(stage.read::<u32>(POWER, gpu), Err(2));
    assert_eq!(
        stage.read::<u32>(POWER, stage.handle(0).unwrap()),
        Ok(60_000)
    );
}

#[test]
fn initialisation_fails_as_scripted() {
    for code in [
        Code::NO_PERMISSION,
        Code::LIB_RM_VERSION_MISMATCH,
        Code(12345),
    ] {
        let mut scenario = Scenario::default();
        scenario.driver.init_code = code;
        let stage = Stage::unopened(&scenario, Generation::LATEST);
        assert_eq!(stage.init(), code.0);
        assert_eq!(stage.count(), Err(1));
    }
    let fault = Fault {
        function: "nvmlInit*".to_owned(),
        code: Some(Code::DRIVER_NOT_LOADED),
        after_calls: 1,
        ..Fault::default()
    };
    let scenario = Scenario {
        faults: vec![fault],
        ..Scenario::default()
    };
    let stage = Stage::unopened(&scenario, Generation::LATEST);
    assert_eq!(
        [stage.init(), stage.init(), stage.plain("nvmlInit")],
        [0, 9, 9]
    );
}

#[test]
fn a_symbol_can_exist_and_return_function_not_found() {
    let mut scenario = frozen(0.0, [Gpu::default()]);
    scenario.symbol_answers_not_found = vec!["*RunningProcesses_v3".to_owned()];
    let stage = Stage::new(&scenario);
    let gpu = stage.handle(0).unwrap();
    assert_eq!(
        stage.list("nvmlDeviceGetComputeRunningProcesses_v3", gpu),
        Err(13)
    );
    assert_eq!(
        stage.list("nvmlDeviceGetComputeRunningProcesses_v2", gpu),
        Ok(vec![])
    );
}

/// Runs Python with the library as `nvml`, initialised, and `gpu` as the handle of the first GPU.
fn python(scenario: &Scenario, script: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let library = driver::install(directory.path(), Generation::LATEST).unwrap();
    scenario
        .write(directory.path().join(nvml_sim::BESIDE))
        .unwrap();
    let opening = format!(
        "import ctypes, os, threading\nnvml = ctypes.CDLL({:?})\nassert nvml.nvmlInit_v2() == 0\n\
         gpu = ctypes.c_void_p()\nassert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(gpu)) == 0\n\
         number = ctypes.c_uint()\n{script}",
        library.to_str().unwrap()
    );
    Command::new(gua_test::python::system())
        .arg("-c")
        .arg(opening)
        .output()
        .unwrap()
}

fn check_abort(scenario: &Scenario, script: &str, last_words: &str) {
    let output = python(scenario, script);
    let said = String::from_utf8_lossy(&output.stderr);
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(6), "{said}");
    assert!(
        said.lines()
            .any(|line| line.starts_with("nvml-sim: ") && line.contains(last_words)),
        "{said}"
    );
}

#[test]
fn a_crash_ends_the_process_and_prints_the_reason() {
    let mut scenario = frozen(0.0, [Gpu::default()]);
    scenario.faults = vec![Fault {
        function: POWER.to_owned(),
        crash: true,
        ..Fault::default()
    }];
    check_abort(
        &scenario,
        "nvml.nvmlDeviceGetPowerUsage(gpu, ctypes.byref(number))",
        "nvmlDeviceGetPowerUsage crashes",
    );
}

#[test]
fn a_size_query_can_be_made_fatal() {
    let gpu = Gpu {
        processes: vec![Process::new(1, 1)],
        ..Gpu::default()
    };
    let mut scenario = frozen(0.0, [gpu]);
    scenario.null_size_query = NullSizeQuery::Crash;
    let script = "nvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu, ctypes.byref(number), None)";
    check_abort(&scenario, script, "NULL buffer");
}

#[test]
fn a_second_thread_can_be_made_fatal() {
    let mut scenario = frozen(0.0, [Gpu::default()]);
    scenario.one_owner = true;
    let one = "nvml.nvmlDeviceGetPowerUsage(gpu, ctypes.byref(number)); print(number.value)";
    let output = python(&scenario, one);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "60000\n");
    let two = "t = threading.Thread(target=lambda: nvml.nvmlDeviceGetPowerUsage(gpu, ctypes.byref(number))); t.start(); t.join()";
    check_abort(&scenario, two, "NVML is owned by");
}

#[test]
fn a_hung_call_does_not_affect_other_threads() {
    let mut scenario = frozen(0.0, [Gpu::default()]);
    scenario.faults = vec![Fault {
        function: POWER.to_owned(),
        hang: true,
        ..Fault::default()
    }];
    let script = "
hung = threading.Thread(target=lambda: nvml.nvmlDeviceGetPowerUsage(gpu, ctypes.byref(number)), daemon=True)
hung.start()
nvml.nvmlDeviceGetCount_v2(ctypes.byref(number))
print(number.value, hung.is_alive(), flush=True)
os._exit(0)";
    let output = python(&scenario, script);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 True\n");
}

#[test]
fn the_journal_has_a_line_for_every_call() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let mut scenario = frozen(0.0, [Gpu::default()]);
    scenario.journal = Some(journal.clone());
    let stage = Stage::new(&scenario);
    let gpu = stage.handle(0).unwrap();
    assert!(stage.read::<u32>(POWER, gpu).is_ok());
    stage.shutdown();
    let lines = std::fs::read_to_string(journal).unwrap();
    let calls: Vec<Vec<&str>> = lines
        .lines()
        .map(|line| line.split(' ').collect())
        .collect();
    let named: Vec<(&str, &str)> = calls.iter().map(|call| (call[2], call[3])).collect();
    assert_eq!(
        named,
        [
            ("nvmlInit_v2", "-"),
            ("nvmlDeviceGetHandleByIndex_v2", "0"),
            (POWER, "0"),
            ("nvmlShutdown", "-")
        ]
    );
    assert!(calls.iter().all(|call| call[0] == std::process::id().to_string() && call[1].parse::<u32>().is_ok()));
}
