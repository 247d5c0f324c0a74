//! Tests of the list of GPUs in the text output.

use gua_model::sample::Switch;
use gua_model::{Percent, Pid, ProcessKind, Reading};
use serde_json::json;

use super::*;
use crate::doctor::fixture::{gpu, identity, instance, process, sample, uuid};
use crate::doctor::page::{Layout, Page};

fn terms() -> Terms {
    Terms {
        thresholds: Thresholds::default(),
        ticks_per_second: 100,
    }
}

fn table(gpus: Vec<Gpu>, layout: Layout) -> String {
    let mut page = Page::new(layout);
    page.cards(&cards(&sample(gpus), &terms()));
    let text = anstream::adapter::strip_str(&page.text).to_string();
    text.trim_start_matches("\nCards:\n").to_owned()
}

fn held(index: u32, processes: Vec<Process>) -> Gpu {
    Gpu {
        processes,
        ..gpu(index)
    }
}

fn ours(pid: u32, start: u64) -> Process {
    let mut identity = identity(pid);
    identity.key.start = gua_model::StartTicks(start);
    process(pid, Ok(identity))
}

fn laboratory() -> Vec<Gpu> {
    let parent = Gpu {
        mig: Ok(Switch::On),
        place: Place::Parent { instances: 1 },
        ..gpu(2)
    };
    let mut part = instance(2, 1);
    part.name = Ok("NVIDIA A100-SXM4-80GB MIG 3g.40gb".to_owned());
    part.util = Err(Missing::Unsupported);
    part.processes = vec![process(9, Err(Missing::Denied))];
    vec![
        held(0, vec![ours(7, 777), process(8, Err(Missing::Gone))]),
        gpu(1),
        parent,
        part,
        Gpu::without_readings(uuid(3), 3, Missing::Gone),
    ]
}

#[test]
fn on_a_wide_terminal_the_holders_stand_beside_their_card() {
    let expected = "  \
  0  A100-SXM4-80GB  19.5 / 80.0 GB  idle-held   ada (python3, 17.5 GB, since 20m)
                                                 gone pid 8 (17.5 GB)
  1  A100-SXM4-80GB  19.5 / 80.0 GB  truly-idle  no owner
";
    let cards = laboratory().into_iter().take(2).collect();
    assert_eq!(table(cards, Layout::Columns(100)), expected);
}

#[test]
fn on_a_usual_terminal_the_holders_stand_below_their_card() {
    let expected = "  \
  0  A100-SXM4-80GB  19.5 / 80.0 GB  idle-held
       ada (python3, 17.5 GB, since 20m)
       gone pid 8 (17.5 GB)
  1  A100-SXM4-80GB  19.5 / 80.0 GB  truly-idle  no owner
  2  A100-SXM4-80GB  19.5 / 80.0 GB  MIG, 1 instance
       MIG 3g.40gb   19.5 / 80.0 GB  held-unknown (no utilisation to be had)
         ? (pid 9, 17.5 GB)
  3  ?                            -  unobserved (card lost)
";
    assert_eq!(table(laboratory(), Layout::Columns(80)), expected);
}

#[test]
fn in_a_pipe_a_card_is_a_line() {
    let expected = "  \
  0: NVIDIA A100-SXM4-80GB, idle-held, 19.5 / 80.0 GB, ada (python3, 17.5 GB, since 20m); gone pid 8 (17.5 GB)
  1: NVIDIA A100-SXM4-80GB, truly-idle, 19.5 / 80.0 GB, no owner
  2: NVIDIA A100-SXM4-80GB, MIG, 1 instance, 19.5 / 80.0 GB
    MIG 3g.40gb, held-unknown (no utilisation to be had), 19.5 / 80.0 GB, ? (pid 9, 17.5 GB)
  3: ?, unobserved (card lost), -
";
    assert_eq!(table(laboratory(), Layout::Lines), expected);
}

fn check_standing(change: impl FnOnce(&mut Gpu), expected: &str, held_by: &[&str]) {
    let mut card = gpu(0);
    change(&mut card);
    let cards = cards(&sample(vec![card]), &terms());
    assert_eq!(cards[0].standing, expected);
    assert_eq!(cards[0].held_by(), held_by);
}

#[test]
fn a_state_that_is_not_plain_is_explained() {
    let gone = || vec![process(5, Err(Missing::Gone))];
    check_standing(
        |card| card.util = Ok(Percent::HUNDRED),
        "ghost (busy without a process)",
        &["no owner"],
    );
    check_standing(
        |card| card.processes = gone(),
        "orphan-held (its processes are gone)",
        &["gone pid 5 (17.5 GB)"],
    );
    let unlisted = |why: Missing| {
        move |card: &mut Gpu| {
            card.compute_list = Err(why);
        }
    };
    check_standing(unlisted(Missing::Denied), "unobserved (no access)", &[]);
    check_standing(
        unlisted(Missing::Failed),
        "unobserved (its readings failed)",
        &[],
    );
    let busy = |card: &mut Gpu| {
        card.compute_list = Err(Missing::Denied);
        card.util = Ok(Percent::HUNDRED);
    };
    check_standing(busy, "active", &["holders not known"]);
    let desktop = |card: &mut Gpu| {
        card.processes = vec![Process {
            kind: ProcessKind::Graphics,
            ..ours(1, 1)
        }];
    };
    check_standing(
        desktop,
        "truly-idle",
        &["no owner (1 graphics process only)"],
    );
}

#[test]
fn many_holders_are_counted() {
    let many = |card: &mut Gpu| card.processes = (1..=20).map(|pid| ours(pid, 1)).collect();
    let mut expected = vec!["ada (python3, 17.5 GB, since 20m)"; NAMED];
    expected.push("and 12 more");
    check_standing(many, "idle-held", &expected);
}

#[test]
fn a_holder_is_told_by_what_is_known() {
    let check = |change: fn(&mut Holder), expected: &str| {
        let mut holder = holder(&ours(7, 777), Duration::from_secs(1_234), 100);
        change(&mut holder);
        assert_eq!(holder.text(), expected);
    };
    check(|_| {}, "ada (python3, 17.5 GB, since 20m)");
    check(
        |holder| holder.owner = None,
        "? (python3, 17.5 GB, since 20m)",
    );
    check(|holder| holder.memory = None, "ada (python3, since 20m)");
    check(
        |holder| (holder.comm, holder.age) = (None, None),
        "ada (pid 7, 17.5 GB)",
    );
}

#[test]
fn a_start_that_is_still_to_come_has_no_age() {
    let future = holder(&ours(1, 1_000_000), Duration::from_secs(5), 100);
    assert_eq!(future.age, None);
    let tickless = holder(&ours(1, 1), Duration::from_secs(5), 0);
    assert_eq!(tickless.age, None);
}

#[test]
fn programs_get_the_same() {
    let hidden_input: Reading<Identity> = Err(Missing::Denied);
    let card = held(0, vec![process(7, hidden_input)]);
    assert_eq!(card.processes[0].pid, Pid(7));
    let value = json!(cards(&sample(vec![card]), &terms())[0]);
    assert_eq!(
        value,
        json!({
            "uuid": "GPU-0",
            "index": 0,
            "place": "whole",
            "name": "NVIDIA A100-SXM4-80GB",
            "state": "idle-held",
            "memory_used_bytes": 20_971_520_000u64,
            "memory_total_bytes": 85_899_345_920u64,
            "holders": [{
                "pid": 7,
                "owner": null,
                "comm": null,
                "memory_used_bytes": 18_874_368_000u64,
                "age_seconds": null,
                "gone": false,
            }],
        })
    );
}
