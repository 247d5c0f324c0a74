//! The cards, as one sample shows them. Without a sample none of this can be judged.

use std::collections::BTreeMap;

use gua_model::sample::Switch;
use gua_model::{Gpu, Missing, Pid, Place, Problem, Process, Sample};
use serde_json::{Value, json};

use super::check::{Check, Group, Kind, Status, count, harmless};
use super::checks_driver::cards;

const UNREADABLE: Kind = Kind::new(Group::Gpu, "unreadable_cards", "card readings");
const PERSISTENCE: Kind = Kind::new(Group::Gpu, "persistence", "persistence mode");
const MIG: Kind = Kind::new(Group::Gpu, "mig", "MIG");
const UNIFIED: Kind = Kind::new(Group::Gpu, "unified_memory", "card memory");
const PROCESSES: Kind = Kind::new(Group::Gpu, "processes_visible", "process owners");

/// Problems beyond this are counted and not spelled out.
const SPELLED_OUT: usize = 4;

fn skipped(kind: Kind) -> Check {
    Check::new(kind, Status::Skipped, "NVML gave no sample", json!({}))
}

/// Cards and MIG parents, without the instances.
fn whole_cards(sample: &Sample) -> impl Iterator<Item = &Gpu> {
    sample
        .gpus
        .iter()
        .filter(|gpu| !matches!(gpu.place, Place::Instance { .. }))
}

fn indexes(gpus: &[&Gpu]) -> String {
    gpus.iter()
        .map(|gpu| gpu.index.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

pub(super) fn unreadable_cards(sample: Option<&Sample>) -> Check {
    let Some(sample) = sample else {
        return skipped(UNREADABLE);
    };
    let rows: Vec<Value> = sample.problems.iter().map(row).collect();
    let details = json!({ "cards": cards(sample), "problems": rows });
    let Some(first) = sample.problems.first() else {
        let summary = format!("{} without trouble", count(cards(sample), "card", "cards"));
        return Check::new(UNREADABLE, Status::Ok, summary, details);
    };
    let is_lost = sample
        .problems
        .iter()
        .any(|problem| problem.why == Missing::Gone);
    let more = sample.problems.len() - 1;
    let mut summary = harmless(&first.to_string());
    if more > 0 {
        summary.push_str(&format!(", and {more} more"));
    }
    let status = if is_lost {
        Status::Error
    } else {
        Status::Warning
    };
    let check = Check::new(UNREADABLE, status, summary, details);
    // A lost card fails at every call: one sentence for a card and a reason is enough.
    let mut by_card: BTreeMap<(Option<&str>, Option<u32>, Missing), &Problem> = BTreeMap::new();
    for problem in &sample.problems {
        let uuid = problem.gpu.as_ref().map(gua_model::GpuUuid::as_str);
        by_card
            .entry((uuid, problem.index, problem.why))
            .or_insert(problem);
    }
    by_card
        .into_values()
        .take(SPELLED_OUT)
        .fold(check, |check, problem| check.note(advice(problem)))
}

fn row(problem: &Problem) -> Value {
    json!({
        "gpu_uuid": problem.gpu.as_ref().map(gua_model::GpuUuid::as_str),
        "index": problem.index,
        "call": problem.call,
        "code": problem.code,
        "why": problem.why.word(),
        "text": problem.text,
    })
}

fn advice(problem: &Problem) -> String {
    let said = harmless(&problem.to_string());
    match problem.why {
        Missing::Gone => {
            format!(
                "See `dmesg | grep -i xid`, then reset the card or reboot: a card no longer answers ({said})."
            )
        }
        Missing::Denied => format!(
            "Ask for access to the card's file in /dev: the driver refused a reading ({said})."
        ),
        Missing::Failed | Missing::Unsupported => {
            format!(
                "Report this with the output of `gua doctor --sample`, if it stays: a reading failed ({said})."
            )
        }
    }
}

pub(super) fn persistence(sample: Option<&Sample>) -> Check {
    let Some(sample) = sample else {
        return skipped(PERSISTENCE);
    };
    let of = |wanted| -> Vec<&Gpu> {
        whole_cards(sample)
            .filter(|gpu| gpu.persistence == Ok(wanted))
            .collect()
    };
    let (on, off) = (of(Switch::On), of(Switch::Off));
    let list = |gpus: &[&Gpu]| gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>();
    let details = json!({ "on": list(&on), "off": list(&off) });
    if off.is_empty() {
        return match on.is_empty() {
            true => Check::new(PERSISTENCE, Status::Skipped, "no card tells it", details),
            false => Check::new(PERSISTENCE, Status::Ok, "on", details),
        };
    }
    let summary = format!(
        "off on {} ({})",
        count(off.len(), "card", "cards"),
        indexes(&off)
    );
    Check::new(PERSISTENCE, Status::Warning, summary, details).note(format!(
        "Turn persistence mode on (`nvidia-smi -pm 1`, or enable the service nvidia-persistenced): it is off on {}. \
         Without it an unused card powers down, and each program that opens it then waits, often for more than a second.",
        count(off.len(), "card", "cards")
    ))
}

pub(super) fn mig(sample: Option<&Sample>) -> Check {
    let Some(sample) = sample else {
        return skipped(MIG);
    };
    let divided: Vec<&Gpu> = whole_cards(sample)
        .filter(|gpu| gpu.mig == Ok(Switch::On) || matches!(gpu.place, Place::Parent { .. }))
        .collect();
    let instances = sample
        .gpus
        .iter()
        .filter(|gpu| matches!(gpu.place, Place::Instance { .. }))
        .count();
    let is_empty = |gpu: &&Gpu| {
        !sample.gpus.iter().any(
            |other| matches!(&other.place, Place::Instance { parent, .. } if *parent == gpu.uuid),
        )
    };
    let empty: Vec<&Gpu> = divided.iter().copied().filter(is_empty).collect();
    let list = |gpus: &[&Gpu]| gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>();
    let details = json!({
        "cards_in_mig_mode": list(&divided),
        "cards_without_instances": list(&empty),
        "instances": instances,
    });
    if divided.is_empty() {
        return Check::new(MIG, Status::Ok, "off", details);
    }
    let summary = format!(
        "{} in MIG mode, {}",
        count(divided.len(), "card", "cards"),
        count(instances, "instance", "instances")
    );
    if empty.is_empty() {
        return Check::new(MIG, Status::Ok, summary, details);
    }
    let which = indexes(&empty);
    Check::new(MIG, Status::Warning, format!("{summary}, none on card {which}"), details).note(format!(
        "Create MIG instances on card {which} (`nvidia-smi mig -cgi PROFILE -C`), or turn MIG off there \
         (`nvidia-smi -mig 0`): a card in MIG mode without instances can run nothing.",
    ))
}

pub(super) fn unified_memory(sample: Option<&Sample>) -> Check {
    let Some(sample) = sample else {
        return skipped(UNIFIED);
    };
    let is_readable = |gpu: &&Gpu| gpu.name.is_ok() || gpu.util.is_ok() || gpu.compute_list.is_ok();
    let unified: Vec<&Gpu> = whole_cards(sample)
        .filter(|gpu| gpu.place == Place::Whole && gpu.memory_total == Err(Missing::Unsupported))
        .filter(is_readable)
        .collect();
    let details =
        json!({ "cards_without_memory": unified.iter().map(|gpu| gpu.index).collect::<Vec<_>>() });
    if unified.is_empty() {
        return Check::new(UNIFIED, Status::Ok, "each card has its own", details);
    }
    let summary = format!(
        "{} ({}) shares the host's memory, its holders are judged by the memory of their processes",
        count(unified.len(), "card", "cards"),
        indexes(&unified)
    );
    Check::new(UNIFIED, Status::Ok, summary, details)
}

pub(super) fn processes_visible(sample: Option<&Sample>) -> Check {
    let Some(sample) = sample else {
        return skipped(PROCESSES);
    };
    let mut processes: BTreeMap<Pid, &Process> = BTreeMap::new();
    for process in sample.gpus.iter().flat_map(|gpu| &gpu.processes) {
        processes.entry(process.pid).or_insert(process);
    }
    let total = processes.len();
    let gone = processes
        .values()
        .filter(|process| matches!(process.identity, Err(Missing::Gone)))
        .count();
    let owned = processes
        .values()
        .filter(|process| has_owner(process))
        .count();
    let unknown = total - gone - owned;
    // An instance's processes stand in its own list, so its parent's is no loss; a lost card is told elsewhere.
    let unlisted: Vec<&Gpu> = sample
        .gpus
        .iter()
        .filter(|gpu| gpu.place.counts() && gpu.compute_list.is_err_and(|why| why != Missing::Gone))
        .collect();
    let details = json!({
        "processes": total,
        "owned": owned,
        "owner_unknown": unknown,
        "gone": gone,
        "cards_without_process_list": unlisted.iter().map(|gpu| gpu.uuid.as_str()).collect::<Vec<_>>(),
    });
    let mut summary = match (total - gone, unknown) {
        (0, _) => "no process on any card".to_owned(),
        (_, 0) => format!(
            "known for all of {}",
            count(total - gone, "process", "processes")
        ),
        _ => format!(
            "unknown for {unknown} of {}",
            count(total - gone, "process", "processes")
        ),
    };
    if gone > 0 {
        summary.push_str(&format!(
            ", {} gone",
            count(gone, "holder is", "holders are")
        ));
    }
    if !unlisted.is_empty() {
        summary.push_str(&format!(
            ", {} without a process list",
            count(unlisted.len(), "card", "cards")
        ));
    }
    let status = if unknown > 0 || !unlisted.is_empty() {
        Status::Warning
    } else {
        Status::Ok
    };
    let mut check = Check::new(PROCESSES, status, summary, details);
    if unknown > 0 {
        check = check.note(format!(
            "Run gua on the host, as root or with CAP_SYS_PTRACE: the owners of {unknown} of {} cannot be seen, and \
             their hours would count as unknown.",
            count(total - gone, "GPU process", "GPU processes")
        ));
    }
    if !unlisted.is_empty() {
        check = check.note(format!(
            "Update the driver, or ask for access to it: the process list of {} cannot be read, so nobody knows who \
             holds them.",
            count(unlisted.len(), "card", "cards")
        ));
    }
    check
}

fn has_owner(process: &Process) -> bool {
    process
        .identity
        .as_ref()
        .is_ok_and(|identity| identity.owner().is_some())
}

#[cfg(test)]
mod tests;
