//! The program called by the names of the tools that it replaces.

use std::os::unix::fs::symlink;

use super::program::Program;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\n");

/// Name, arguments, exit code, start of stdout, part of stderr.
type Case<'a> = (&'a str, &'a [&'a str], i32, &'a str, &'a str);

/// A program on a machine without a driver.
fn program() -> Program {
    Program::new().variable("GUA_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1")
}

#[track_caller]
fn check(program: &Program, cases: &[Case<'_>]) {
    for (name, arguments, code, stdout, stderr) in cases {
        let link = program.home().join(name);
        if !link.is_symlink() {
            symlink(crate::GUA, &link).unwrap();
        }
        let ended = program.run(&link, *arguments);
        let line = format!("{name} {}: {ended:?}", arguments.join(" "));
        assert_eq!(ended.code, *code, "{line}");
        assert!(
            ended.stdout.starts_with(stdout) && ended.stdout.is_empty() == stdout.is_empty(),
            "{line}"
        );
        assert!(
            ended.stderr.contains(stderr) && ended.stderr.is_empty() == stderr.is_empty(),
            "{line}"
        );
    }
}

#[test]
fn the_other_names_suggest_commands_and_keep_their_own_grammar() {
    check(
        &program(),
        &[
            (
                "gpu-usage-audit",
                &["reprot"],
                2,
                "",
                "unknown command `reprot`; did you mean `report`?\n",
            ),
            // The duration grammar of the tool has no weeks and no words.
            (
                "gpu-usage-audit",
                &["report", "--since", "1w"],
                2,
                "",
                "gpu-usage-audit report: --since: `1w` is not a duration",
            ),
            (
                "gpu-usage-audit",
                &["report", "--since", "today"],
                2,
                "",
                "gpu-usage-audit report: --since: `today` is not a duration",
            ),
            (
                "gpu_stats",
                &[],
                1,
                "",
                "gpu_stats: NVML initialization failed",
            ),
            ("gpu_stats", &["--version"], 0, VERSION, ""),
            ("gpu_stats", &["--help"], 0, "usage: gpu_stats", ""),
            (
                "gpu_stats",
                &["x"],
                2,
                "",
                "gpu_stats: unknown argument `x`",
            ),
        ],
    );
}

#[test]
fn called_by_another_name_it_behaves_as_that_tool() {
    let program = program();
    let cases: &[Case<'_>] = &[
        ("gpu-usage-audit", &["version"], 0, VERSION, ""),
        ("gpu-usage-audit", &["--version"], 0, VERSION, ""),
        (
            "gpu-usage-audit",
            &["help"],
            0,
            "usage: gpu-usage-audit",
            "",
        ),
        ("gpu-usage-audit", &["-h"], 0, "usage: gpu-usage-audit", ""),
        ("gpu-usage-audit", &[], 2, "", "usage: gpu-usage-audit"),
        (
            "gpu-usage-audit",
            &["frobnicate"],
            2,
            "",
            "gpu-usage-audit: unknown command `frobnicate`\n",
        ),
        (
            "gpu-usage-audit",
            &["report", "--since", "1h"],
            2,
            "",
            "gpu-usage-audit report: there is no history at",
        ),
        (
            "gpu-usage-audit",
            &["daemon", "--interval", "soon"],
            2,
            "",
            "gpu-usage-audit daemon: --interval: `soon` is not a duration",
        ),
        ("nvgpu", &[], 2, "", "Usage: nvgpu <COMMAND>"),
        ("nvgpu", &["frobnicate"], 2, "", "Usage: nvgpu <COMMAND>"),
        ("nvgpu", &["available", "-l", "x"], 2, "", "--limit"),
        ("nvl", &["x"], 1, "", "nvl: NVML initialization failed"),
        // Without a driver there is nothing to list.
        (
            "nvgpu",
            &["list"],
            1,
            "",
            "nvgpu: NVML initialization failed",
        ),
        (
            "nvgpu",
            &["available"],
            1,
            "",
            "nvgpu: NVML initialization failed",
        ),
        ("nvl", &[], 1, "", "nvl: NVML initialization failed"),
        ("nvgpu", &["version"], 0, VERSION, ""),
        ("nvgpu", &["--version"], 0, VERSION, ""),
        ("nvgpu", &["help"], 0, "NVIDIA GPU tools", ""),
        ("nvgpu", &["-h"], 0, "NVIDIA GPU tools", ""),
        ("nvgpu", &["--help"], 0, "NVIDIA GPU tools", ""),
        ("nvl", &["--version"], 0, VERSION, ""),
        ("nvl", &["--help"], 0, "usage: nvl", ""),
        ("something-else", &["version"], 0, VERSION, ""),
    ];
    check(&program, cases);
}
