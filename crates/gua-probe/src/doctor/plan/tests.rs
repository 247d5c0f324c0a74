//! Tests of blockers, advice, and their order.

use crate::fault::DriverFault;
use crate::host::disk::{Parent, Spot};
use gua_model::Bytes;

use super::*;
use crate::doctor::checks;
use crate::doctor::fixture::{healthy, listing};

fn plan_of(facts: &Facts) -> Plan {
    plan(facts, &checks::all(facts))
}

#[test]
fn a_healthy_host_can_collect_and_has_nothing_to_fix() {
    let plan = plan_of(&healthy());
    assert_eq!(plan.mode, Mode::Host);
    assert_eq!(
        plan.reasons,
        ["This Linux host has 2 GPUs that NVML can read (driver 550.54.14)."]
    );
    assert_eq!((plan.blockers.len(), plan.warnings.len()), (0, 0));
}

#[test]
fn whatever_nvidia_smi_does_it_blocks_nothing() {
    for smi in [None, listing(9, "", "failed"), listing(0, "", "")] {
        let plan = plan_of(&Facts { smi, ..healthy() });
        assert_eq!((plan.mode, plan.warnings.len()), (Mode::Host, 1));
    }
}

#[test]
fn without_a_driver_nothing_is_recommended_and_the_reasons_are_named() {
    let fault = DriverFault::Init {
        code: 18,
        text: "mismatch".into(),
    };
    let plan = plan_of(&Facts {
        driver: Err(fault),
        ..healthy()
    });
    assert_eq!(
        (plan.mode, &plan.commands),
        (Mode::Unsupported, &Commands::default())
    );
    // The mismatch appears in two checks but needs one fix.
    assert_eq!(plan.blockers.len(), 1, "{:?}", plan.blockers);
    assert!(
        plan.reasons[0].starts_with("NVML: loadable but init failed: "),
        "{:?}",
        plan.reasons
    );
}

#[test]
fn a_strict_caller_accepts_warnings_and_no_errors() {
    let is_sound = |facts: &Facts| {
        let checks = checks::all(facts);
        is_sound(&plan(facts, &checks), &checks)
    };
    assert!(is_sound(&healthy()));
    assert!(is_sound(&Facts {
        smi: None,
        ..healthy()
    }));
    let mut wrong = healthy();
    wrong.known.configuration = vec!["wrong".into()];
    assert!(!is_sound(&wrong));
    assert!(!is_sound(&Facts {
        driver: Err(DriverFault::Init {
            code: 9,
            text: String::new()
        }),
        ..healthy()
    }));
}

fn check_commands(choice: Choice, path: &str, entry: Entry, collect: Option<&str>, report: &str) {
    let mut facts = healthy();
    facts.known.choice = choice;
    facts.known.db = path.into();
    facts.spot = Some(Spot {
        entry,
        parent: Parent::Writable,
        room: None,
    });
    let commands = plan_of(&facts).commands;
    assert_eq!(
        (commands.collect.as_deref(), commands.report.as_deref()),
        (collect, Some(report))
    );
}

#[test]
fn commands_name_a_custom_path_as_a_shell_needs_it() {
    let file = || Entry::File { size: Bytes(1) };
    let collect = Some("gua daemon --interval 30s");
    check_commands(
        Choice::Default,
        "/home/ada/.gua/gua.db",
        Entry::Absent,
        collect,
        "gua report --since 1h",
    );
    check_commands(
        Choice::Default,
        "/home/ada/.gua/gua.db",
        file(),
        collect,
        "gua report --since 1h",
    );
    let collect = Some("gua daemon --db '/tmp/a b.db' --interval 30s");
    let report = "gua report --db '/tmp/a b.db' --since 1h";
    check_commands(
        Choice::Custom,
        "/tmp/a b.db",
        Entry::Absent,
        collect,
        report,
    );
    check_commands(Choice::Custom, "/tmp/a b.db", file(), None, report);
}

#[test]
fn every_error_is_to_be_fixed_the_most_serious_first() {
    let mut facts = healthy();
    facts.known.configuration = vec!["wrong".into()];
    facts.smi = None;
    let spot = facts.spot.as_mut().unwrap();
    spot.parent = Parent::ReadOnly;
    spot.room.as_mut().unwrap().free = Bytes(0);
    facts.driver.as_mut().unwrap().problems = vec![gua_model::Problem {
        gpu: None,
        index: Some(2),
        call: "nvmlDeviceGetUUID".into(),
        code: Some(15),
        why: gua_model::Missing::Gone,
        text: "GPU is lost".into(),
    }];
    let plan = plan_of(&facts);
    let begin = |sentences: &[String]| -> Vec<String> {
        let words = |text: &String| text.split(' ').take(2).collect::<Vec<_>>().join(" ");
        sentences.iter().map(words).collect()
    };
    assert_eq!(
        begin(&plan.fixes),
        ["See `dmesg", "Pass another", "Correct the", "Make room"]
    );
    assert_eq!(begin(&plan.notes), ["Put nvidia-smi"]);
    // None of these prevents collecting.
    assert_eq!((plan.mode, plan.blockers.len()), (Mode::Host, 0));
    assert_eq!(plan.warnings.len(), 5);
}

#[test]
fn the_same_advice_of_two_checks_is_listed_once() {
    let facts = Facts {
        devices: crate::host::device::Devices::default(),
        module: None,
        driver: Err(DriverFault::LibraryNotFound {
            library: "libnvidia-ml.so.1".into(),
            detail: "no such file".into(),
        }),
        ..healthy()
    };
    let plan = plan_of(&facts);
    assert_eq!(plan.fixes.len(), 1, "{:?}", plan.fixes);
    assert_eq!((&plan.blockers, plan.reasons.len()), (&plan.fixes, 2));
}
