//! `gua bench` measures, names what it measured with, and leaves nothing behind.

use std::process::Command;

use serde_json::Value;

#[test]
fn bench_measures_without_a_driver_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let bench = |arguments: &[&str]| {
        let output = Command::new(crate::GUA)
            .arg("bench")
            .args(arguments)
            .env_clear()
            .env("HOME", home.path())
            .env("TMPDIR", home.path())
            .env("GUA_TEST_SYSTEM_CONFIG", "/nonexistent")
            .env("GUA_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (text, output) = bench(&[]);
    assert!(text.contains("with simulated telemetry: 3 GPUs"), "{text}");
    assert!(
        output.contains("measuring with simulated telemetry"),
        "{output}"
    );
    let (json, output) = bench(&["--fake", "--json"]);
    assert_eq!(output, "");
    let costs: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(costs["telemetry"], "simulated");
    assert_eq!(costs["history"]["ticks"], 2880);
    assert!(
        costs["history"]["day_bytes"].as_u64().unwrap() > 10_000,
        "{costs}"
    );
    assert!(
        costs["report"]["processor_microseconds"].as_f64().unwrap() > 0.0,
        "{costs}"
    );
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}
