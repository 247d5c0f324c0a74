//! `gua demo`: the same for everyone, and as shown in the README.

use std::process::{Command, Stdio};

use gua_test::{TestHost, wait_until};

use crate::{after_the_month, without_driver};

const README: &str = include_str!("../../../../README.md");
const KOREAN: &str = include_str!("../../../../README.ko.md");

/// The text block after the line with this command.
fn shown<'a>(readme: &'a str, command: &str) -> &'a str {
    let after = readme
        .split_once(command)
        .expect("the README names the command")
        .1;
    let block = after
        .split_once("```text\n")
        .expect("the README shows what it prints")
        .1;
    block.split_once("```").expect("the block ends").0
}

#[test]
fn the_readmes_show_what_the_demo_prints() {
    let home = without_driver();
    let demo = home.fine("demo");
    for readme in [README, KOREAN] {
        assert_eq!(shown(readme, "cargo run --release -- demo"), demo);
    }
    assert!(demo.lines().count() <= 15, "{demo}");
    let widest = demo.lines().map(gua_model::text::columns).max();
    assert!(widest <= Some(80), "{demo}");
    assert_leaves_nothing(&home);
}

/// Fails where a temporary file or a history is left.
fn assert_leaves_nothing(home: &TestHost) {
    for directory in [home.path("tmp"), home.path(".gua")] {
        let left = std::fs::read_dir(&directory).into_iter().flatten();
        let left: Vec<_> = left.flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn what_the_demo_says_to_type_next_works() {
    let home = without_driver();
    let report = home.fine("demo report --by user");
    assert!(report.contains("Window: 30 days"), "{report}");
    let people = "ada bob chen dana emre farid grace container:llm-api";
    for name in people.split(' ') {
        assert!(report.contains(&format!("  {name} ")), "{name}: {report}");
    }
    let top = home.fine("demo top --once");
    assert!(top.contains("4 active  3 idle-held  1 free"), "{top}");
    assert!(top.contains("idle-held  for 2d21h · bob"), "{top}");
    let plot = home.fine("demo plot");
    assert!(plot.contains("2026-10-12"), "{plot}");
    home.fine("demo html");
    let page = std::fs::read_to_string(home.directory().join("gua-demo.html")).unwrap();
    assert!(
        page.contains("ipykernel"),
        "it names the forgotten notebook"
    );
    // The PID of a process that has exited may belong to another process by now.
    assert!(page.contains("nvidia-smi --gpu-reset -i 6"));
    assert!(!page.contains("kill 29100"));
    for (line, expected) in [
        ("demo html", "--overwrite"),
        (
            "demo report --db other.db",
            "the demo shows its own history",
        ),
    ] {
        let refused = home.gua(line);
        assert_eq!(refused.code, 2, "{line}");
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    assert_leaves_nothing(&home);
}

#[test]
fn hours_are_summed_by_group_project_job_and_container() {
    let home = after_the_month();
    let config = "[[group]]\nname = \"vision\"\nmembers = [\"ada\", \"bob\"]\n\
                  [[group]]\nname = \"serving\"\nmembers = [\"container:*\"]\n";
    std::fs::write(home.path(".gua/config.toml"), config).unwrap();
    let rows = |by: &str| {
        let csv = home.fine(&format!("report --since 30d --csv --by {by}"));
        let rows = csv.lines().skip(1).map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            (cells[0].to_owned(), cells[2].parse::<f64>().unwrap())
        });
        rows.collect::<std::collections::BTreeMap<_, _>>()
    };
    let (people, groups) = (rows("user"), rows("group"));
    assert_eq!(groups["vision"], people["ada"] + people["bob"]);
    assert_eq!(groups["serving"], people["container:llm-api"]);
    assert!((groups.values().sum::<f64>() - people.values().sum::<f64>()).abs() < 0.001);
    let jobs = rows("job");
    // Two GPUs from 2026-10-26 09:30 to the end.
    assert_eq!(jobs["4715"], 2.0 * 101.5);
    let containers = rows("container");
    assert_eq!(containers["llm-api"], people["container:llm-api"]);
    let refused = home.gua("report --by project");
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("has no project"),
        "{}",
        refused.stderr
    );
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    let home = without_driver();
    let mut command = home.gua_command("demo");
    let mut demo = command.stdout(Stdio::null()).spawn().unwrap();
    let temporary = home.path("tmp");
    wait_until("the history of the demo", || {
        let mut found = std::fs::read_dir(&temporary)
            .into_iter()
            .flatten()
            .flatten();
        found.any(|entry| entry.path().join("demo.db").exists())
            || demo.try_wait().unwrap().is_some()
    });
    // If it has ended by now, it has removed its files itself.
    let _ = Command::new("kill").arg(demo.id().to_string()).status();
    demo.wait().unwrap();
    assert_leaves_nothing(&home);
}

#[test]
fn the_numbers_match_the_old_tools_demo() {
    let home = without_driver();
    let demo = home.fine("demo --ticks 30");
    for line in [
        "  active       █   13.3%",
        "  idle-held    ▒   46.7%",
        "  truly-idle   ░   40.0%",
        "  (90 samples)",
        "  idle-held: ~0.01 GPU-hours, ~1.40 GPUs equivalently unavailable",
        "  truly-idle: ~0.01 GPU-hours, ~1.20 GPUs equivalently free",
        "  GPU-0     active  40.0%  idle-held  40.0%  truly-idle  20.0%  (30 samples)",
        "  unknown                    0.01      100.0%        30",
        "  alice                      0.01       50.0%        24",
    ] {
        assert!(demo.lines().any(|found| found == line), "{line}\n{demo}");
    }
    let later = home.fine("demo --script 1.8");
    assert!(
        later.contains("  idle-held    ▒   46.7%"),
        "a desktop does not hold a card\n{later}"
    );
}

#[test]
fn ticks_go_to_stderr_and_the_history_is_kept() {
    let home = without_driver();
    let output = home.gua("demo --ticks 3 --interval 200ms");
    let stderr = output.stderr;
    assert!(
        stderr.contains("# Recording 3 fake ticks at 0:00:00.200000 interval...\n"),
        "{stderr}"
    );
    assert_eq!(
        stderr
            .lines()
            .filter(|line| line.starts_with("Tick "))
            .count(),
        3
    );
    let path = stderr.lines().next().unwrap().trim_start_matches("# ");
    assert!(path.contains("/gpu-usage-audit-demo-") && path.ends_with("/demo.db"));
    assert!(std::path::Path::new(path).exists());
}

#[test]
fn a_demo_without_ticks_is_an_empty_report() {
    let home = without_driver();
    let demo = home.fine("demo --ticks 0");
    for line in [
        "gua — no host recorded yet  Window: 0:01:00",
        "  (no samples in window)",
        "  (no GPU cards in window)",
        "  (no processes in window)",
    ] {
        assert!(demo.lines().any(|found| found == line), "{line}\n{demo}");
    }
}

#[test]
fn a_gpu_that_nobody_holds_is_not_held_since() {
    let home = without_driver();
    // The process on GPU 0 ends at the last tick.
    home.fine("demo --db demo.db --ticks 30");
    let json = home.json("report --db demo.db --since 1h --json");
    let gpus = json["now"]["gpus"].as_array().unwrap();
    let shown = gpus.iter().map(|gpu| {
        (
            gpu["state"].as_str().unwrap(),
            gpu["held_since"].is_string(),
        )
    });
    let expected = [
        ("truly-idle", false),
        ("idle-held", true),
        ("truly-idle", false),
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn a_demo_can_be_appended_to_and_reported_again() {
    let home = without_driver();
    home.fine("demo --db demo.db --ticks 10");
    home.fine("demo --db demo.db --ticks 10");
    let report = home.fine("report --db demo.db --since 1h");
    assert!(
        report.contains("gua — demo (bare, driver 560.35.05-fake)"),
        "{report}"
    );
    let old = home.gua("demo --db demo.db --ticks 10 --real-time --interval 1ms");
    assert_eq!(old.code, 0);
}
