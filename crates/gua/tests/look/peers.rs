//! Under nvgpu's name, the table and the answers match nvgpu. Readings match gpustat and nvitop on every driver
//! generation that they can read.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nvml_sim::driver::Generation;
use serde_json::{Value, json};

use super::Machine;
use gua_test::Ended;
use gua_test::python;

const MIB: u64 = 1 << 20;

/// A training job, an idle holder, and two free GPUs, one of them with a desktop.
const LAB: &str = r#"
    [clock]
    at = 100
    [[gpu]]
    name = "NVIDIA RTX A6000"
    memory_total_mib = 49140
    util = 87
    temperature_c = 61
    power_w = 271.4
    clock_sm_mhz = 1695
    [[gpu.process]]
    pid = ONE
    memory_mib = 4096
    [[gpu.process]]
    pid = OTHER
    memory_mib = 200
    [[gpu]]
    name = "NVIDIA TITAN X (Pascal)"
    memory_total_mib = 12288
    util = 0
    [[gpu.process]]
    pid = OTHER
    memory_mib = 9000
    [[gpu]]
    memory_total_mib = 1000
    [[gpu]]
    memory_total_mib = 24576
    [[gpu.process]]
    pid = ONE
    type = "graphics"
    memory_mib = 310
"#;

/// Generations whose processes today's nvidia-ml-py can list: up to 418 it has no function for it, and it misreads the
/// long records of 535.54.
fn readable() -> impl Iterator<Item = Generation> {
    let all = Generation::ALL.into_iter();
    all.filter(|generation| *generation >= Generation::R450 && *generation != Generation::R535_54)
}

#[track_caller]
fn peer(host: &Machine, program: &str, line: &str) -> String {
    let bin = python::PEERS.directory().join("bin");
    let output = host
        .command(bin.join(program))
        .args(line.split_whitespace())
        .env(
            "PATH",
            format!(
                "{}:{}:/usr/bin:/bin",
                host.path("bin").display(),
                bin.display()
            ),
        )
        .env("PYTHONWARNINGS", "ignore")
        .output()
        .unwrap();
    let Ended {
        code,
        stdout,
        stderr,
    } = Ended::from(output);
    assert_eq!(code, 0, "{program} {line}: {stderr}");
    stdout
}

/// The table without nvgpu's defects: no `nan`, and no trailing blanks.
fn without_nan(table: &str) -> String {
    let lines = table
        .lines()
        .map(|line| line.replace(" nan", "    ").trim_end().to_owned() + "\n");
    lines.collect()
}

#[test]
fn the_table_matches_nvgpu() {
    // Created before the processes, because the table shows their ages.
    let _ = python::PEERS.directory();
    // nvgpu needs version 3 of the process list, which is missing in 535.98 to 535.104.
    for generation in readable()
        .filter(|generation| *generation >= Generation::R525 && *generation != Generation::R535_104)
    {
        let host = Machine::of(generation, LAB);
        let theirs = without_nan(&peer(&host, "nvl", "x --frobnicate"));
        assert!(theirs.contains("[~]") && theirs.contains("[ ]"), "{theirs}");
        // The original nvl ignores its arguments.
        for (name, line) in [("nvl", ""), ("nvl", "x --frobnicate"), ("nvgpu", "list")] {
            let ours = host.named(name, line);
            assert_eq!((ours.code, ours.stderr.as_str()), (0, ""), "{generation}");
            assert_eq!(ours.stdout, theirs, "{generation}");
        }
    }
}

#[test]
fn a_process_that_cannot_be_found_is_stuck_in_both_tables() {
    let _ = python::PEERS.directory();
    // No process has a pid above the largest that Linux assigns.
    let lab = LAB.replace("ONE", "4194303");
    let host = Machine::new(&lab);
    let ours = host.named("nvl", "").stdout;
    let signs: Vec<&str> = ours
        .lines()
        .skip(2)
        .filter_map(|line| line.get(4..7))
        .collect();
    assert_eq!(signs, ["[~]", "[~]", "[ ]", "[ ]"], "{ours}");
    assert_eq!(ours, without_nan(&peer(&host, "nvl", "")));
    let lab = lab.replace("OTHER", "4194302");
    host.play(&lab);
    let ours = host.named("nvl", "").stdout;
    assert!(ours.lines().nth(3).unwrap().contains("[!]"), "{ours}");
    assert_eq!(ours, without_nan(&peer(&host, "nvl", "")));
}

#[test]
fn a_gpu_without_utilisation_costs_only_its_cell() {
    let host = Machine::new(
        "[[gpu]]\nutil = \"unsupported\"\n[[gpu.process]]\npid = ONE\nmemory_mib = 5\n[[gpu]]\nutil = 46\n",
    );
    let theirs = peer(&host, "nvl", "");
    assert!(
        theirs.contains("nan %") && theirs.contains("46.0 %"),
        "{theirs}"
    );
    let ours = host.named("nvl", "").stdout;
    assert!(ours.contains("N/A") && ours.contains("46 %"), "{ours}");
    assert!(!ours.contains("nan") && !ours.contains("46.0"), "{ours}");
}

#[test]
fn free_gpus_match_nvgpu() {
    let used = |mib: u32| {
        format!(
            "[[gpu]]\nmemory_total_mib = 10000\nmemory_reserved_mib = 0\n[[gpu.process]]\npid = ONE\nmemory_mib = {mib}\n"
        )
    };
    let edge = [used(1999), used(2000), used(2001), used(0)].concat();
    let none = used(9000);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/look/nvidia_smi.py");
    // nvidia-smi's table changed its layout with CUDA 11, and drivers report reserved memory separately since 510.
    for generation in [Generation::R390, Generation::R470, Generation::R580] {
        for (scenario, expected) in [
            (LAB, None),
            (edge.as_str(), Some("0,1,3\n")),
            (none.as_str(), Some("\n")),
        ] {
            let host = Machine::of(generation, scenario);
            std::fs::create_dir(host.path("bin")).unwrap();
            let smi = host.path("bin/nvidia-smi");
            let python = python::PEERS.program("python");
            let text = format!(
                "#!/bin/sh\nexec {} {} \"$@\"\n",
                python.display(),
                script.display()
            );
            std::fs::write(&smi, text).unwrap();
            std::fs::set_permissions(&smi, PermissionsExt::from_mode(0o755)).unwrap();
            let all = [
                "available",
                "available -l 1",
                "available -l 0",
                "available -l -1",
            ];
            let lines = if expected.is_none() {
                &all[..]
            } else {
                &all[..1]
            };
            for line in lines {
                let theirs = peer(&host, "nvgpu", line);
                let ours = host.named("nvgpu", line);
                assert_eq!(
                    (ours.code, ours.stderr.as_str()),
                    (0, ""),
                    "{generation} {line}"
                );
                assert_eq!(ours.stdout, theirs, "{generation} {line}");
                if *line == "available" {
                    assert!(
                        expected.is_none_or(|expected| theirs == expected),
                        "{theirs}"
                    );
                    let by_rule = host.gua("available --rule nvgpu");
                    assert_eq!((by_rule.code, by_rule.stdout), (0, theirs));
                }
            }
        }
    }
}

#[test]
fn readings_match_gpustat() {
    for generation in readable() {
        let host = Machine::of(generation, LAB);
        let theirs: Value = serde_json::from_str(&peer(&host, "gpustat", "--json")).unwrap();
        let ours = host.listing();
        let theirs = theirs["gpus"].as_array().unwrap();
        let ours = ours["gpus"].as_array().unwrap();
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(theirs) {
            let mib = |key: &str| ours[key].as_u64().unwrap() / MIB;
            let compared = json!({
                "index": ours["index"],
                "uuid": ours["uuid"],
                "name": ours["name"],
                "utilization.gpu": ours["util_percent"],
                "temperature.gpu": ours["temperature_celsius"],
                "power.draw": ours["power_milliwatts"].as_u64().unwrap() / 1000,
                "memory.used": mib("memory_used_bytes"),
                "memory.total": mib("memory_total_bytes"),
            });
            for (key, value) in compared.as_object().unwrap() {
                assert_eq!(value, &theirs[key], "{key} on {generation}");
            }
            let held = |one: &Value, pid: &str, memory: &str, unit: u64| {
                let mut held: Vec<(u64, u64)> = one
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|one| {
                        (
                            one[pid].as_u64().unwrap(),
                            one[memory].as_u64().unwrap() / unit,
                        )
                    })
                    .collect();
                held.sort_unstable();
                held
            };
            let mut theirs = held(&theirs["processes"], "pid", "gpu_memory_usage", 1);
            // It lists the desktop too, which does not hold a GPU.
            theirs.retain(|(_, memory)| *memory != 310);
            assert_eq!(
                held(&ours["holders"], "pid", "memory_used_bytes", MIB),
                theirs,
                "{generation}"
            );
        }
    }
}

#[test]
fn readings_match_nvitop_on_every_generation() {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../nvml-sim/tests/clients/nvitop_report.py");
    // nvitop reads the samples of the last second, so time has to pass.
    let lab = LAB.replace("at = 100", "");
    for generation in Generation::ALL {
        let host = Machine::of(generation, &lab);
        let theirs: Value =
            serde_json::from_str(&peer(&host, "python", script.to_str().unwrap())).unwrap();
        let ours = host.listing();
        assert_eq!(ours["driver_version"], theirs["driver"], "{generation}");
        for (ours, theirs) in ours["gpus"]
            .as_array()
            .unwrap()
            .iter()
            .zip(theirs["gpus"].as_array().unwrap())
        {
            let mib = |key: &str| ours[key].as_u64().unwrap() / MIB;
            assert_eq!(
                json!(mib("memory_used_bytes")),
                theirs["used_mib"],
                "{generation}"
            );
            assert_eq!(
                json!(mib("memory_total_bytes")),
                theirs["total_mib"],
                "{generation}"
            );
            for (key, other) in [
                ("util_percent", "util"),
                ("temperature_celsius", "temperature"),
                ("power_milliwatts", "power_mw"),
                ("name", "name"),
                ("uuid", "uuid"),
            ] {
                assert_eq!(ours[key], theirs[other], "{key} on {generation}");
            }
            let mut held: Vec<Value> = ours["holders"]
                .as_array()
                .unwrap()
                .iter()
                .map(|holder| json!([holder["pid"], holder["memory_used_bytes"]]))
                .collect();
            held.sort_by_key(|holder| holder[0].as_u64());
            let computing: Vec<Value> = theirs["processes"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|process| process[1] != "G")
                .map(|process| json!([process[0], process[2]]))
                .collect();
            assert_eq!(held, computing, "{generation}");
        }
    }
}
