//! Tests of the page, in a pipe and on a terminal.

use gua_render::listing::row::{Terms, rows};
use gua_render::listing::text::{Detail, Options, text as gpu_table};
use gua_render::paint;
use gua_test::screen::{Screen, Theme};

use crate::fault::DriverFault;
use crate::host::device::Devices;
use crate::host::disk::Entry;

use super::*;
use crate::doctor::fixture::{healthy, json};
use crate::doctor::{checks, plan};

/// A table that fits a terminal of 40 columns.
const GPUS: &str = "   status\n-  ------\n0  [ ]\n";

fn coloured(facts: &Facts, layout: Layout) -> String {
    let checks = checks::all(facts);
    let plan = plan::plan(facts, &checks);
    let look = Contents {
        layout,
        gpus: facts.driver.as_ref().map_or("", |_| GPUS),
        style: paint::style,
    };
    text(facts, &checks, &plan, look)
}

fn page(facts: &Facts, layout: Layout) -> String {
    anstream::adapter::strip_str(&coloured(facts, layout)).to_string()
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
    facts.known.db = "/data/old \u{1b}.db".into();
    facts.known.choice = Choice::Custom;
    facts.spot.as_mut().unwrap().entry = Entry::NoFile;
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
fn on_a_terminal_commands_are_in_columns_and_never_wrapped() {
    let mut facts = healthy();
    facts.known.db = format!("/data/{}.db", "a b ".repeat(40)).into();
    facts.known.choice = Choice::Custom;
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
    assert!(checks.iter().all(|check| check.name.len() + 2 <= NAMES));
}

#[test]
fn verdicts_are_coloured_and_lines_have_no_trailing_blanks() {
    let coloured = coloured(&sick(), Layout::Columns(100));
    for (tone, word) in [(Tone::IdleHeld, "warning"), (Tone::Unhealthy, "error")] {
        let style = paint::style(tone);
        assert!(
            coloured.contains(&format!("{style}{word}{style:#}")),
            "{coloured:?}"
        );
    }
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
    facts.known.db = "/data/x.db".into();
    facts.known.choice = Choice::Custom;
    facts.spot.as_mut().unwrap().entry = Entry::File {
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
fn ids_stay_and_so_do_the_keys_of_their_details() {
    let keys = |check: &Check| {
        let details = json(&check.finding);
        let keys = details.as_object().unwrap().keys();
        keys.map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    let checks = checks::all(&healthy());
    let found = checks
        .iter()
        .map(|check| format!("{}: {}", check.id, keys(check)));
    let found: Vec<String> = found.collect();
    let expected = [
        "os: platform release system",
        "clock: booted_at now synchronized time_zone",
        "container: driver_pids engines pid_namespace pids_looked_up",
        "hidepid: cap_sys_ptrace gid hidepid",
        "nvidia_devices: control_device_paths gpu_device_paths paths",
        "nvidia_smi: found gpu_lines mig_lines path returncode stderr stdout timed_out",
        "nvml: device_count driver_version error initialized loadable",
        "driver_match: kernel_module kernel_module_flavour mismatch nvml_driver",
        "unreadable_gpus: gpus problems",
        "utilisation: invalid unsupported",
        "memory_errors: gpus_with_ecc gpus_with_errors",
        "xid_errors: gpus_read gpus_with_errors",
        "persistence: off on",
        "mig: gpus_in_mig_mode gpus_without_instances instances",
        "unified_memory: gpus_without_memory",
        "processes_visible: gone gpus_without_process_list owned owner_unknown processes",
        "collectors: running",
        "config: problems",
        "alerts: alerts problems",
        "claims: directory remove_ipc",
        "board_link: answer board is_encrypted secret_is_private",
        "default_db: error exists is_default is_file parent_exists parent_writable path size_bytes",
        "disk_space: directory file_system free_bytes free_inodes is_network is_read_only total_bytes",
    ];
    assert_eq!(found, expected);
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
fn on_a_narrow_terminal_the_text_is_below_its_name() {
    let page = page(&healthy(), Layout::Columns(40));
    let clock = "\n  clock  ok\n    2026-11-15 10:02:03 +09:00\n    (Asia/Seoul), synchronised\n";
    assert!(page.contains(clock), "{page}");
    assert!(page.contains("\n  path\n    /home/ada/.gua/gua.db\n  status\n    absent"));
    assert!(
        page.contains("\n\nGPUs:\n     status\n  -  ------\n  0  [ ]\n"),
        "{page}"
    );
}

/// The page with the table of the GPUs, as `gua doctor` prints it.
fn shown(facts: &Facts, columns: usize) -> Screen {
    let terms = Terms {
        thresholds: gua_model::Thresholds::default(),
        ticks_per_second: 100,
    };
    let layout = Layout::Columns(columns);
    let gpus = facts.driver.as_ref().map_or_else(
        |_| String::new(),
        |sample| {
            let options = Options {
                width: layout.table_width(),
                detail: Detail::WithoutCommands,
                ticks_per_second: terms.ticks_per_second,
                commands: &|_, _| None,
            };
            gpu_table(sample, &rows(sample, &terms, None), options)
        },
    );
    let checks = checks::all(facts);
    let plan = plan::plan(facts, &checks);
    let look = Contents {
        layout,
        gpus: &gpus,
        style: paint::style,
    };
    Screen::read(&text(facts, &checks, &plan, look))
}

#[test]
fn the_page_at_80_and_140_columns_light_and_dark() {
    for (name, facts) in [
        ("ready", healthy()),
        ("no-driver", sick()),
        ("lost-gpu", half_lost()),
    ] {
        for columns in [80, 140] {
            let screen = shown(&facts, columns);
            for theme in Theme::ALL {
                let name = format!("{name}-{columns}-{}", theme.as_str());
                insta::assert_snapshot!(name.clone(), screen.marked(theme));
                let contrast = screen.lowest_contrast(theme);
                assert!(contrast >= 3.0, "{name}: contrast {contrast:.1}");
            }
        }
    }
}
