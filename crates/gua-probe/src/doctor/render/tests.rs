//! Tests of the page, in a pipe and on a terminal, and of the JSON.

use crate::fault::DriverFault;
use crate::host::device::Devices;
use crate::host::disk::Entry;
use serde_json::Value;

use super::*;
use crate::doctor::cards::Terms;
use crate::doctor::facts::Facts;
use crate::doctor::fixture::healthy;
use crate::doctor::page::NAMES;
use crate::doctor::{cards, checks, plan};

fn with_findings<T>(facts: &Facts, show: impl FnOnce(&Findings<'_>) -> T) -> T {
    let checks = checks::all(facts);
    let plan = plan::plan(facts, &checks);
    let terms = Terms {
        thresholds: facts.thresholds,
        ticks_per_second: facts.ticks_per_second,
    };
    let sample = facts.driver.as_ref().ok();
    let cards = sample.map(|sample| cards::cards(sample, &terms));
    show(&Findings {
        at: &facts.now,
        checks: &checks,
        cards: cards.as_deref(),
        plan: &plan,
        history: &facts.history,
    })
}

fn page(facts: &Facts, layout: Layout) -> String {
    with_findings(facts, |findings| {
        anstream::adapter::strip_str(&text(findings, layout)).to_string()
    })
}

fn sick() -> Facts {
    let mut facts = healthy();
    facts.driver = Err(DriverFault::Init {
        code: 9,
        text: "Driver Not Loaded".into(),
    });
    facts.devices = Devices::default();
    facts.module = None;
    facts.smi = None;
    facts.history.path = "/data/old \u{1b}.db".into();
    facts.history.choice = Choice::Custom;
    facts.history.spot.as_mut().unwrap().entry = Entry::NoFile;
    facts
}

#[test]
fn a_healthy_page_has_the_lines_that_scripts_know() {
    insta::assert_snapshot!("healthy", page(&healthy(), Layout::Lines));
}

#[test]
fn a_sick_host_gets_columns_broken_lines_and_what_to_do() {
    insta::assert_snapshot!("sick", page(&sick(), Layout::Columns(100)));
}

#[test]
fn on_a_terminal_commands_stand_in_columns_and_are_never_broken() {
    let mut facts = healthy();
    facts.history.path = format!("/data/{}.db", "a b ".repeat(40)).into();
    facts.history.choice = Choice::Custom;
    let page = page(&facts, Layout::Columns(100));
    let command = |name: &str| {
        page.lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
    };
    assert!(command("  collect                  ").ends_with("--interval 30s"));
    assert!(command("  report after collecting  ").ends_with("--since 1h"));
    assert!(command("  path              ").ends_with(".db"));
}

#[test]
fn every_name_fits_its_column() {
    let checks = checks::all(&healthy());
    assert!(
        checks
            .iter()
            .all(|check| check.kind.name.len() + 2 <= NAMES)
    );
}

#[test]
fn verdicts_are_coloured_and_lines_have_no_trailing_blanks() {
    let coloured = with_findings(&sick(), |findings| text(findings, Layout::Columns(100)));
    assert!(coloured.contains("\u{1b}[33mwarning\u{1b}[0m"));
    assert!(coloured.contains("\u{1b}[31merror"), "{coloured:?}");
    for layout in [Layout::Lines, Layout::Columns(100), Layout::Columns(30)] {
        assert!(
            page(&sick(), layout)
                .lines()
                .all(|line| line.trim_end() == line)
        );
    }
}

#[test]
fn an_existing_custom_history_can_only_be_reported() {
    let mut facts = healthy();
    facts.history.path = "/data/x.db".into();
    facts.history.choice = Choice::Custom;
    facts.history.spot.as_mut().unwrap().entry = Entry::File {
        size: gua_model::Bytes(1),
    };
    let page = page(&facts, Layout::Lines);
    assert!(
        page.contains(
            "\n  target: /data/x.db\n  status: warning, exists, a new history would be refused here\n"
        ),
        "{page}"
    );
    let commands = "\nRecommended commands:\n  report existing data: gua report --db /data/x.db --since 1h\n\nNotes:\n  - ";
    assert!(page.contains(commands), "{page}");
}

#[test]
fn the_json_has_sorted_keys_and_the_promises_of_its_schema() {
    let text = with_findings(&healthy(), json);
    assert!(
        text.starts_with("{\n  \"cards\": [\n    {\n      \"holders\": []"),
        "{text}"
    );
    let value: Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<_> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "cards",
        "checks",
        "generated_at",
        "no_system_changes",
        "plan",
        "read_only",
        "recommended_commands",
        "schema_version",
        "scope",
    ];
    assert_eq!(keys, expected);
    assert_eq!(value["generated_at"], "2026-11-15T10:02:03.500000+09:00");
    assert_eq!(
        (&value["schema_version"], &value["scope"]["machine"]),
        (&1.into(), &"local".into())
    );
    assert_eq!(
        (&value["read_only"], &value["no_system_changes"]),
        (&true.into(), &true.into())
    );
    assert_eq!(
        value["recommended_commands"]["collect"],
        "gua daemon --interval 30s"
    );
    assert_eq!(
        keys_of(&value["plan"]),
        ["blockers", "mode", "reasons", "warnings"]
    );
    assert_eq!(
        keys_of(&value["checks"][0]),
        ["details", "id", "name", "status", "summary"]
    );
}

fn keys_of(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn ids_stay_and_so_do_the_keys_of_their_details() {
    let value: Value = serde_json::from_str(&with_findings(&healthy(), json)).unwrap();
    let found: Vec<String> = value["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| {
            format!(
                "{}: {}",
                check["id"].as_str().unwrap(),
                keys_of(&check["details"]).join(" ")
            )
        })
        .collect();
    let expected = [
        "os: platform release system",
        "clock: booted_at now synchronized time_zone",
        "container: driver_pids engines pid_namespace pids_looked_up",
        "hidepid: cap_sys_ptrace gid hidepid",
        "nvidia_devices: control_device_paths gpu_device_paths paths",
        "nvidia_smi: found gpu_lines mig_lines path returncode stderr stdout timed_out",
        "nvml: device_count driver_version error initialized loadable",
        "driver_match: kernel_module kernel_module_flavour mismatch nvml_driver",
        "unreadable_cards: cards problems",
        "utilisation: junk unsupported",
        "memory_errors: cards_with_ecc cards_with_errors",
        "persistence: off on",
        "mig: cards_in_mig_mode cards_without_instances instances",
        "unified_memory: cards_without_memory",
        "processes_visible: cards_without_process_list gone owned owner_unknown processes",
        "collectors: running",
        "config: problems",
        "claims: directory remove_ipc",
        "board_link: answer board is_encrypted secret_is_private",
        "default_db: error exists is_default is_file parent_exists parent_writable path size_bytes",
        "disk_space: directory file_system free_bytes free_inodes is_network is_read_only total_bytes",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_unsupported_host_has_no_commands() {
    let value: Value = serde_json::from_str(&with_findings(&sick(), json)).unwrap();
    assert_eq!(value["plan"]["mode"], "unsupported");
    assert_eq!(value["recommended_commands"], serde_json::json!({}));
    assert_eq!(value["cards"], Value::Null);
    // The driver is not loaded, so it has no device files; and the path is not a file.
    assert_eq!(value["plan"]["blockers"].as_array().unwrap().len(), 2);
}

#[test]
fn control_characters_never_reach_the_terminal() {
    let hostile = "a\u{1b}b\u{7f}c\u{9b}d";
    let text = pretty(&serde_json::json!({ "a": hostile }));
    assert!(
        text.chars()
            .all(|letter| letter == '\n' || !letter.is_control()),
        "{text:?}"
    );
    let back: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(back["a"], hostile);
}

/// Two GPUs of which the first is lost; nothing is recommended on such a host.
fn half_lost() -> Facts {
    let mut facts = healthy();
    facts.driver.as_mut().unwrap().problems = vec![gua_model::Problem {
        gpu: None,
        index: Some(2),
        call: "nvmlDeviceGetUUID".into(),
        code: Some(15),
        why: gua_model::Missing::Gone,
        text: "GPU is lost".into(),
    }];
    facts
}

#[test]
fn while_something_is_to_be_fixed_the_page_recommends_no_command() {
    let page = page(&half_lost(), Layout::Lines);
    assert!(!page.contains("Recommended"), "{page}");
    assert!(page.contains("\nFix:\n  - See `dmesg"), "{page}");
    assert!(
        page.contains("\n  2: ?, unobserved (card lost), -\n"),
        "{page}"
    );
    let value: Value = serde_json::from_str(&with_findings(&half_lost(), json)).unwrap();
    assert_eq!(value["plan"]["mode"], "host");
    assert_eq!(value["cards"][2]["state"], "unobserved");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [40, 59, 60, 80, 100, 200] {
        for facts in [healthy(), sick(), half_lost()] {
            let page = page(&facts, Layout::Columns(width));
            let widest = page.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width.min(100)), "{width}\n{page}");
        }
    }
}

#[test]
fn on_a_narrow_terminal_the_text_stands_below_its_name() {
    let page = page(&healthy(), Layout::Columns(40));
    let clock = "\n  clock  ok\n    2026-11-15 10:02:03 +09:00\n    (Asia/Seoul), synchronised\n";
    assert!(page.contains(clock), "{page}");
    assert!(page.contains("\n  path\n    /home/ada/.gua/gua.db\n  status\n    absent"));
    assert!(page.contains("\n  0  A100-SXM4-80GB\n    19.5 / 80.0 GB, truly-idle\n    no owner\n"));
}
