//! The program `nvml-sim`.

use std::process::{Command, Output};

use crate::stage::own_scenarios;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nvml-sim"))
        .args(arguments)
        .output()
        .unwrap()
}

fn check(arguments: &[&str], code: i32, expected: &str) {
    let output = run(arguments);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    assert!(text.contains(expected), "{arguments:?}: {text}");
}

#[test]
fn it_installs_a_driver_and_checks_scenarios() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("driver");
    let place = place.to_str().unwrap();
    check(
        &["install", place, "--driver", "470"],
        0,
        "driver/libnvidia-ml.so.1\n",
    );
    assert!(folder.path().join("driver/libnvidia-ml.so.1").is_file());
    check(
        &["install", place, "--driver", "471"],
        2,
        "no driver generation `471`; known generations: latest, 390.157",
    );
    let example = folder.path().join("example.toml");
    std::fs::write(&example, run(&["example"]).stdout).unwrap();
    check(&["check", example.to_str().unwrap()], 0, "4 GPUs, 0 faults");
    for file in own_scenarios() {
        check(&["check", file.to_str().unwrap()], 0, "GPUs");
    }
    std::fs::write(&example, "[[gpu]]\n\nutl = 3\n").unwrap();
    check(
        &["check", example.to_str().unwrap()],
        1,
        "line 3: unknown field `utl`",
    );
    check(
        &["check", "/nonexistent/file"],
        1,
        "cannot read `/nonexistent/file`",
    );
    check(&["--help"], 0, "Usage:");
    check(&[], 2, "Usage:");
}
