//! `gua demo`: the same for everyone, and as shown in the README.

use crate::without_driver;

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
fn the_readmes_show_an_excerpt_of_the_demo() {
    let home = without_driver();
    let demo = home.fine("demo");
    // An editor may have removed trailing blanks.
    let trimmed = |text: &str| {
        text.lines()
            .map(str::trim_end)
            .collect::<Vec<_>>()
            .join("\n")
    };
    for readme in [README, KOREAN] {
        let excerpt = trimmed(shown(readme, "cargo run --release -- demo"));
        assert!(trimmed(&demo).contains(&excerpt), "{excerpt}\n{demo}");
    }
}

#[test]
fn the_numbers_match_the_old_tools_demo() {
    let home = without_driver();
    let demo = home.fine("demo");
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
