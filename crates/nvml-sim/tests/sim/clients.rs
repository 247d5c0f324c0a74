//! Widely used programs, run on scripted GPUs: they must show what the scenario says.

use std::path::Path;
use std::process::Command;

use gua_test::{SimulatedDriver, Sleeper};
use nvml_sim::driver::Generation;
use nvml_sim::scenario::Scenario;
use serde_json::{Value, json};

use crate::tools;

/// An installed driver generation with a scenario, and two processes for it.
struct Machine {
    driver: SimulatedDriver,
    trainer: Sleeper,
    desktop: Sleeper,
}

impl Machine {
    /// `TRAINER` and `DESKTOP` in the text become the pids of real processes.
    fn new(generation: Generation, text: &str) -> Self {
        let (trainer, desktop) = (Sleeper::new(), Sleeper::new());
        let text = text
            .replace("TRAINER", &trainer.pid().to_string())
            .replace("DESKTOP", &desktop.pid().to_string());
        Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        Self {
            driver: SimulatedDriver::of(generation, &text),
            trainer,
            desktop,
        }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(tools::environment().join("bin").join(program))
            .args(arguments)
            .env("LD_LIBRARY_PATH", self.driver.directory())
            .env(nvml_sim::VARIABLE, self.driver.scenario())
            .env_remove("CUDA_VISIBLE_DEVICES")
            .env("COLUMNS", "120")
            .env("TERM", "dumb")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {said}");
        assert!(!said.contains("Traceback"), "{program}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn python(&self, script: &str) -> Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/clients")
            .join(script);
        let text = self.run("python", &[path.to_str().unwrap()]);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn gpustat(&self) -> Value {
        let text = self.run("gpustat", &["--json"]);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

const DESK: &str = r#"
    [clock]
    origin_unix_ms = 1700000000000
    at = 100
    [[gpu]]
    name = "NVIDIA RTX A6000"
    uuid = "GPU-00000000-0000-4000-8000-00000000000a"
    pci = "00000000:41:00.0"
    memory_total_mib = 49140
    memory_reserved_mib = 500
    util = 87
    memory_util = 33
    temperature_c = 61
    power_w = 271.4
    power_limit_w = 300
    memory_temperature_c = 70
    fan_percent = 55
    clock_sm_mhz = 1695
    ecc = true
    ecc_uncorrected = 2
    [[gpu.process]]
    pid = TRAINER
    memory_mib = 4096
    protected_mib = 12
    sm_util = 80
    [[gpu.process]]
    pid = DESKTOP
    type = "graphics"
    memory_mib = "unknown"
    [[gpu]]
    name = "NVIDIA RTX A6000"
    uuid = "GPU-00000000-0000-4000-8000-00000000000b"
    memory_total_mib = 49140
"#;

/// Used memory. Up to 470 there is only the record that counts the driver's reserved memory as used.
fn used_mib(generation: Generation) -> u32 {
    if generation < Generation::R525 {
        4596
    } else {
        4096
    }
}

#[test]
fn nvidia_ml_py_reads_the_scripted_values() {
    let host = Machine::new(Generation::LATEST, DESK);
    let (trainer, desktop) = (host.trainer.pid(), host.desktop.pid());
    let seen = host.python("pynvml_report.py");
    assert_eq!(seen["driver"], "580.95.05");
    assert_eq!(seen["cuda"], 13000);
    assert_eq!(seen["gpus"].as_array().unwrap().len(), 2);
    let gpu = &seen["gpus"][0];
    let expected = json!({
        "name": "NVIDIA RTX A6000",
        "uuid": "GPU-00000000-0000-4000-8000-00000000000a",
        "pci": "00000000:41:00.0",
        "memory": [49140, 44544, 4596],
        "memory_v2": [49140, 500, 44544, 4096],
        "util": [87, 33],
        "temperature": 61,
        "power_mw": 271_400,
        "limit_mw": 300_000,
        "energy_mj": 27_140_000,
        "fan": 55,
        "sm_mhz": 1695,
        "ecc": 2,
        "compute": [[trainer, 4096_u64 << 20]],
        "graphics": [[desktop, null]],
        "process_util": [[trainer, 80]],
        "process_util_info": [[trainer, 80]],
        "fields": [[0, 70], [0, 27_140_000], [3, null]],
        "details": [[trainer, 4096_u64 << 20, 12 << 20]],
        "util_samples": [87],
        "mig": "NVMLError_NotSupported",
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&gpu[key], value, "{key}");
    }
}

#[test]
fn gpustat_shows_the_scripted_values() {
    // It does not support lists older than v2: with today's nvidia-ml-py it fails on 390 and 418.
    let generations = Generation::ALL.into_iter();
    for generation in generations.filter(|generation| *generation >= Generation::R450) {
        let host = Machine::new(generation, DESK);
        let seen = host.gpustat();
        let gpu = &seen["gpus"][0];
        let expected = json!({
            "index": 0,
            "uuid": "GPU-00000000-0000-4000-8000-00000000000a",
            "name": "NVIDIA RTX A6000",
            "temperature.gpu": 61,
            "fan.speed": 55,
            "utilization.gpu": 87,
            "power.draw": 271,
            "enforced.power.limit": 300,
            "memory.used": used_mib(generation),
            "memory.total": 49140,
        });
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&gpu[key], value, "{key} on {generation}");
        }
        let memory = |pid: u32| -> Vec<&Value> {
            let processes = gpu["processes"].as_array().unwrap().iter();
            processes
                .filter(|process| process["pid"] == pid)
                .map(|process| &process["gpu_memory_usage"])
                .collect()
        };
        assert_eq!(
            memory(host.trainer.pid()),
            [&json!(4096)],
            "on {generation}"
        );
        assert_eq!(memory(host.desktop.pid()).len(), 1, "on {generation}");
        assert_eq!(seen["gpus"][1]["processes"], json!([]));
    }
}

#[test]
fn nvitop_shows_the_scripted_values_on_every_generation() {
    // nvitop reads the samples of the last second, so time has to pass.
    let text = DESK.replace("at = 100", "");
    for generation in Generation::ALL {
        let host = Machine::new(generation, &text);
        let seen = host.python("nvitop_report.py");
        let gpu = &seen["gpus"][0];
        assert_eq!(seen["driver"], generation.version());
        assert_eq!(gpu["used_mib"], used_mib(generation), "on {generation}");
        assert_eq!(gpu["util"], 87);
        assert_eq!(gpu["temperature"], 61);
        assert_eq!(gpu["power_mw"], 271_400);
        let trainer = json!([host.trainer.pid(), "C", 4096_u64 << 20, 80]);
        let desktop = json!([host.desktop.pid(), "G", "N/A", "N/A"]);
        let mut expected = [trainer, desktop];
        expected.sort_by_key(|process| process[0].as_u64());
        assert_eq!(gpu["processes"], json!(expected), "on {generation}");
    }
}

#[test]
fn nvitop_prints_its_table() {
    let host = Machine::new(Generation::LATEST, DESK);
    let table = host.run("nvitop", &["-1", "--no-unicode"]);
    for piece in [
        "580.95.05",
        "RTX A6000",
        "61C",
        "271W / 300W",
        "87%",
        "00000000:41:00.0",
        "4096MiB",
    ] {
        assert!(table.contains(piece), "{piece} in\n{table}");
    }
    let trainer = host.trainer.pid().to_string();
    assert!(
        table
            .lines()
            .any(|line| line.contains(&trainer) && line.contains("sleep 600")),
        "{table}"
    );
}

#[test]
fn gpustat_loses_a_process_on_the_long_record_as_on_the_real_driver() {
    let text = format!(
        "{DESK}\n[[gpu.process]]\npid = TRAINER\nmemory_mib = 7\n[[gpu.process]]\npid = DESKTOP\nmemory_mib = 9\n"
    );
    let right = Machine::new(Generation::R550, &text).gpustat();
    let wrong = Machine::new(Generation::R535_54, &text).gpustat();
    let count = |seen: &Value| seen["gpus"][1]["processes"].as_array().unwrap().len();
    assert_eq!((count(&right), count(&wrong)), (2, 1));
}

#[test]
fn nvidia_ml_py_sees_instances() {
    let text = r#"
        [[gpu]]
        [[gpu.mig]]
        uuid = "MIG-00000000-0000-4000-8000-0000000000f0"
        profile = "3g.40gb"
        gpu_instance = 2
        slices = 3
        memory_total_mib = 40192
        [[gpu.mig.process]]
        pid = TRAINER
        memory_mib = 1024
        [[gpu.mig]]
        index = 4
        [[gpu.mig.process]]
        pid = DESKTOP
        memory_mib = "unknown"
    "#;
    let host = Machine::new(Generation::LATEST, text);
    let gpu = &host.python("pynvml_report.py")["gpus"][0];
    assert_eq!(gpu["util"], "NVMLError_NotSupported");
    let parts = gpu["mig"].as_array().unwrap();
    assert_eq!(parts.len(), 2);
    assert_eq!(parts[0]["name"], "NVIDIA A100-SXM4-80GB MIG 3g.40gb");
    assert_eq!(parts[0]["uuid"], "MIG-00000000-0000-4000-8000-0000000000f0");
    assert_eq!(parts[0]["ids"], json!([2, 0]));
    assert_eq!(parts[0]["slices"], json!([3, 3]));
    assert_eq!(parts[0]["memory"], json!([40192, 39168, 1024]));
    assert_eq!(
        parts[0]["compute"],
        json!([[host.trainer.pid(), 1024 << 20]])
    );
    assert_eq!(parts[1]["compute"], json!([[host.desktop.pid(), null]]));
    assert_eq!(parts[0]["util"], "NVMLError_NotSupported");

    let seen = host.python("nvitop_report.py");
    let parts = seen["gpus"][0]["instances"].as_array().unwrap();
    assert_eq!(parts[0]["total_mib"], 40192);
    assert_eq!(
        parts[0]["processes"],
        json!([[host.trainer.pid(), "C", 1024 << 20, 0]])
    );
}

#[test]
fn clients_survive_a_lost_gpu() {
    let text = "[clock]\nat = 5\n[[gpu]]\nname = \"Whole\"\n[[gpu]]\nname = \"Broken\"\nlost = [[0, 10]]\n";
    let host = Machine::new(Generation::LATEST, text);
    let seen = host.python("pynvml_report.py");
    assert_eq!(seen["gpus"][0]["name"], "Whole");
    assert_eq!(seen["gpus"][1], "NVMLError_GpuIsLost");
}
