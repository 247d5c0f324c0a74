//! `gua verify` beside an imitation of nvidia-smi that reads the same simulated driver with nvidia-ml-py.

use std::os::unix::fs::PermissionsExt as _;

use gua_test::python::{CLIENTS, NVIDIA_SMI};
use gua_test::{Ended, Sleeper, TestHost};

use crate::host;

/// A host with a working and an idle GPU, a process, and the imitation on its PATH.
fn host_with_smi(pid: u32) -> TestHost {
    let host = host(&format!(
        "[[gpu]]\nuuid = \"GPU-a\"\nutil = 80\nmemory_util = 40\nmemory_total_mib = 81920\npower_w = 250\n\
         power_limit_w = 400\ntemperature_c = 60\nfan_percent = 30\necc = true\npci = \"00000001:3B:00.0\"\n\
         remap_pending = 1\n\
         [[gpu.process]]\npid = {pid}\nmemory_mib = 900\n[[gpu]]\nuuid = \"GPU-b\"\nretirement_pending = 1\n"
    ));
    host.write("nvidia_smi.py", NVIDIA_SMI);
    let (python, script) = (CLIENTS.program("python"), host.path("nvidia_smi.py"));
    let text = format!(
        "#!/bin/sh\nexec {} {} \"$@\"\n",
        python.display(),
        script.display()
    );
    let program = host.write("bin/nvidia-smi", text);
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", host.path("bin").display());
    host.variable("PATH", path)
}

fn verify(host: &TestHost) -> Ended {
    host.gua("verify --for 0s --interval 10ms")
}

fn line<'t>(text: &'t str, column: &str) -> &'t str {
    let found = text.lines().find(|line| line.starts_with(column));
    found.unwrap_or_else(|| panic!("{column}: {text}"))
}

#[test]
fn every_reading_agrees_with_an_independent_reader() {
    let sleeper = Sleeper::new();
    let host = host_with_smi(sleeper.pid());
    let ended = verify(&host);
    assert_eq!(ended.code, 0, "{ended:?}");
    let text = &ended.stdout;
    assert!(
        text.contains("2 GPUs compared with nvidia-smi in 1 rounds"),
        "{text}"
    );
    assert!(text.ends_with("All compared readings agree.\n"), "{text}");
    for column in [
        "pci.bus_id",
        "retired_pages.pending",
        "remapped_rows.pending",
        "remapped_rows.failure",
        "utilization.gpu",
        "memory.total",
        "power.draw",
        "pstate",
        "used_gpu_memory",
    ] {
        assert!(line(text, column).contains(" agrees "), "{text}");
    }
    // The report can be shared.
    let pid = sleeper.pid().to_string();
    for private in ["GPU-a", "GPU-b", pid.as_str()] {
        assert!(
            !text.split_whitespace().any(|word| word.contains(private)),
            "{private}: {text}"
        );
    }
}

#[test]
fn a_difference_is_shown_and_is_a_failure() {
    let sleeper = Sleeper::new();
    let mut host = host_with_smi(sleeper.pid());
    host.set("SMI_ANSWERS", "power.draw=999.00,fan.speed=[N/A]");
    host.set("SMI_UNKNOWN", "memory.reserved,--query-remapped-rows");
    let ended = verify(&host);
    assert_eq!(ended.code, 1, "{ended:?}");
    let text = &ended.stdout;
    assert!(line(text, "power.draw").contains(" DIFFERS "), "{text}");
    assert!(
        text.contains("for example: nvidia-smi 999, gua 250 to 250"),
        "{text}"
    );
    assert!(line(text, "fan.speed").contains(" only in gua "), "{text}");
    for unknown in ["memory.reserved", "remapped_rows.pending"] {
        assert!(line(text, unknown).contains(" no value "), "{text}");
    }
    assert!(line(text, "utilization.gpu").contains(" agrees "), "{text}");
}

#[test]
fn without_nvidia_smi_there_is_nothing_to_compare_with() {
    let mut host = host(crate::TWO_GPUS);
    host.set("PATH", host.path("empty"));
    let ended = verify(&host);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("nvidia-smi was not found in PATH"),
        "{ended:?}"
    );
    assert!(ended.stderr.contains("hint: "), "{ended:?}");
}
