//! Checks of the GPUs, from one sample. Without a sample they are skipped.

use std::collections::{BTreeMap, BTreeSet};

use gua_model::sample::Switch;
use gua_model::text::sanitize;
use gua_model::{Gpu, Missing, Pid, Place, Problem, Process, Sample};
use serde_json::{Value, json};

use super::check::{Check, Group, Kind, Status, count};
use super::checks_driver::cards;
use super::sample_json;

const UNREADABLE: Kind = Kind::new(Group::Gpu, "unreadable_cards", "card readings");
const UTILISATION: Kind = Kind::new(Group::Gpu, "utilisation", "utilisation");
const ERRORS: Kind = Kind::new(Group::Gpu, "memory_errors", "memory errors");
const PERSISTENCE: Kind = Kind::new(Group::Gpu, "persistence", "persistence mode");
const MIG: Kind = Kind::new(Group::Gpu, "mig", "MIG");
const UNIFIED: Kind = Kind::new(Group::Gpu, "unified_memory", "card memory");
const PROCESSES: Kind = Kind::new(Group::Gpu, "processes_visible", "process owners");

type Judge = fn(&Sample) -> Check;

const CHECKS: [(Kind, Judge); 7] = [
    (UNREADABLE, unreadable_cards),
    (UTILISATION, utilisation),
    (ERRORS, memory_errors),
    (PERSISTENCE, persistence),
    (MIG, mig),
    (UNIFIED, unified_memory),
    (PROCESSES, processes_visible),
];

/// Returns all checks of this file, in display order.
pub(super) fn all(sample: Option<&Sample>) -> [Check; 7] {
    CHECKS.map(|(kind, judge)| match sample {
        None => kind.skipped("NVML gave no sample", json!({})),
        Some(sample) if cards(sample) == 0 => kind.skipped("no card", json!({})),
        Some(sample) => judge(sample),
    })
}

fn is_instance(gpu: &Gpu) -> bool {
    matches!(gpu.place, Place::Instance { .. })
}

/// Returns the whole GPUs and MIG parents with this property, without the instances.
fn whole_cards(sample: &Sample, has: impl Fn(&Gpu) -> bool) -> Vec<&Gpu> {
    let gpus = sample.gpus.iter().filter(|gpu| !is_instance(gpu));
    gpus.filter(|gpu| has(gpu)).collect()
}

fn indexes(gpus: &[&Gpu]) -> Vec<u32> {
    gpus.iter().map(|gpu| gpu.index).collect()
}

fn uuids<'a>(gpus: &[&'a Gpu]) -> Vec<&'a str> {
    gpus.iter().map(|gpu| gpu.uuid.as_str()).collect()
}

fn joined(numbers: impl IntoIterator<Item = u32>, separator: &str) -> String {
    let numbers: Vec<String> = numbers.into_iter().map(|n| n.to_string()).collect();
    numbers.join(separator)
}

/// Formats a GPU by its index and name.
fn called(sample: &Sample, index: u32) -> String {
    let card = whole_cards(sample, |gpu| gpu.index == index);
    match card.first().and_then(|gpu| gpu.name.as_ref().ok()) {
        Some(name) => format!("card {index} ({})", sanitize(name)),
        None => format!("card {index}"),
    }
}

fn unreadable_cards(sample: &Sample) -> Check {
    let rows: Vec<Value> = sample.problems.iter().map(sample_json::problem).collect();
    let details = json!({ "cards": cards(sample), "problems": rows });
    // Every call fails on a lost GPU, so one problem per GPU and reason is reported. Lost GPUs come first.
    let mut distinct: Vec<&Problem> = Vec::new();
    for problem in &sample.problems {
        let is_it = |known: &&Problem| (known.index, known.why) == (problem.index, problem.why);
        if !distinct.iter().any(is_it) {
            distinct.push(problem);
        }
    }
    distinct.sort_by_key(|problem| (problem.why != Missing::Gone, problem.why));
    let Some(first) = distinct.first() else {
        let summary = format!("{} without trouble", count(cards(sample), "card", "cards"));
        return UNREADABLE.ok(summary, details);
    };
    let mut summary = said(sample, first);
    if distinct.len() > 1 {
        summary.push_str(&format!(", and {} more", distinct.len() - 1));
    }
    let status = match first.why {
        Missing::Gone => Status::Error,
        _ => Status::Warning,
    };
    let deeds = distinct.iter().filter_map(|problem| {
        let same = distinct.iter().filter(|other| other.why == problem.why);
        let which: BTreeSet<u32> = same.filter_map(|other| other.index).collect();
        deed(problem.why, status, &listed(which))
    });
    let mut deeds: Vec<String> = deeds.collect();
    // Advice with the same reason is identical and adjacent.
    deeds.dedup();
    let check = UNREADABLE.check(status, summary, details);
    deeds.into_iter().fold(check, Check::advise)
}

/// Formats the problem, with the GPU's index and name instead of its UUID.
fn said(sample: &Sample, problem: &Problem) -> String {
    let nameless = Problem {
        gpu: None,
        index: None,
        ..problem.clone()
    };
    let what = sanitize(&nameless.to_string());
    match problem.index {
        Some(index) => format!("{}: {what}", called(sample, index)),
        None => what,
    }
}

/// Returns the advice for a problem. If the check already failed because of a lost GPU, a single failed reading gets
/// none.
fn deed(why: Missing, status: Status, which: &str) -> Option<String> {
    match why {
        Missing::Gone => Some(format!(
            "See `dmesg | grep -i xid`, then reset {which} or reboot."
        )),
        Missing::Denied => Some(format!("Ask for access to the device file of {which}.")),
        Missing::Failed | Missing::Unsupported if status == Status::Error => None,
        Missing::Failed | Missing::Unsupported => Some(
            "Report the output of `gua doctor --sample`, if the reading keeps failing.".to_owned(),
        ),
    }
}

/// Formats `card 1`, `cards 1, 2`; the names are in the summary.
fn listed(indexes: BTreeSet<u32>) -> String {
    match indexes.len() {
        0 => "the cards".to_owned(),
        1 => format!("card {}", joined(indexes, "")),
        _ => format!("cards {}", joined(indexes, ", ")),
    }
}

/// Checks the utilisation. An impossible percentage is dropped, and then the use of the GPU is unknown.
fn utilisation(sample: &Sample) -> Check {
    let of = |why: Missing| -> Vec<&Gpu> {
        let counted = sample.gpus.iter().filter(|gpu| gpu.place.counts());
        counted.filter(|gpu| gpu.util == Err(why)).collect()
    };
    let (junk, without) = (of(Missing::Failed), of(Missing::Unsupported));
    let details = json!({ "junk": uuids(&junk), "unsupported": uuids(&without) });
    if !junk.is_empty() {
        let indexes: BTreeSet<u32> = junk.iter().map(|gpu| gpu.index).collect();
        let names = indexes.iter().map(|index| called(sample, *index));
        let summary = format!(
            "{}: the driver's answer is junk, so nobody knows its use",
            names.collect::<Vec<_>>().join(", ")
        );
        let advice = format!("Update the driver, or reset {}.", listed(indexes));
        return UTILISATION.warning(summary, details).advise(advice);
    }
    let summary = match without.len() {
        0 => "read on every card".to_owned(),
        some => format!(
            "read, but {} none (MIG instances, virtual cards)",
            count(some, "has", "have")
        ),
    };
    UTILISATION.ok(summary, details)
}

fn memory_errors(sample: &Sample) -> Check {
    let counting = whole_cards(sample, |gpu| gpu.ecc_uncorrected.is_ok());
    let bad: Vec<(u32, u64)> = counting
        .iter()
        .filter_map(|gpu| Some((gpu.index, gpu.ecc_uncorrected.ok()?)))
        .filter(|(_, errors)| *errors > 0)
        .collect();
    let row = |(index, errors): &(u32, u64)| json!({ "index": index, "uncorrected": errors });
    let rows: Vec<Value> = bad.iter().map(row).collect();
    let details = json!({ "cards_with_ecc": counting.len(), "cards_with_errors": rows });
    if counting.is_empty() {
        return ERRORS.skipped("no card counts them", details);
    }
    if bad.is_empty() {
        return ERRORS.ok("no uncorrected ones", details);
    }
    let each: Vec<String> = bad
        .iter()
        .map(|(index, errors)| format!("{}: {errors} uncorrected", called(sample, *index)))
        .collect();
    let numbers = joined(bad.iter().map(|(index, _)| *index), ",");
    ERRORS.warning(each.join(", "), details).advise(format!(
        "Reset with `nvidia-smi --gpu-reset -i {numbers}`, and have it replaced if the errors come back."
    ))
}

fn persistence(sample: &Sample) -> Check {
    let on = whole_cards(sample, |gpu| gpu.persistence == Ok(Switch::On));
    let off = indexes(&whole_cards(sample, |gpu| {
        gpu.persistence == Ok(Switch::Off)
    }));
    let details = json!({ "on": indexes(&on), "off": off });
    if off.is_empty() && on.is_empty() {
        return PERSISTENCE.skipped("no card tells it", details);
    }
    if off.is_empty() {
        return PERSISTENCE.ok("on", details);
    }
    let cards = count(off.len(), "card", "cards");
    let summary = format!(
        "off on {cards} ({}), slow to open when unused",
        joined(off, ", ")
    );
    PERSISTENCE
        .warning(summary, details)
        .advise("Turn persistence mode on: `nvidia-smi -pm 1`, or the service nvidia-persistenced.")
}

fn mig(sample: &Sample) -> Check {
    let divided = whole_cards(sample, |gpu| {
        gpu.mig == Ok(Switch::On) || matches!(gpu.place, Place::Parent { .. })
    });
    let instances = sample.gpus.iter().filter(|gpu| is_instance(gpu)).count();
    let is_empty = |gpu: &&Gpu| {
        !sample.gpus.iter().any(
            |other| matches!(&other.place, Place::Instance { parent, .. } if *parent == gpu.uuid),
        )
    };
    let empty: Vec<&Gpu> = divided.iter().copied().filter(is_empty).collect();
    let details = json!({
        "cards_in_mig_mode": indexes(&divided),
        "cards_without_instances": indexes(&empty),
        "instances": instances,
    });
    if divided.is_empty() {
        return MIG.ok("off", details);
    }
    let summary = format!(
        "{} in MIG mode, {}",
        count(divided.len(), "card", "cards"),
        count(instances, "instance", "instances")
    );
    if empty.is_empty() {
        return MIG.ok(summary, details);
    }
    let which = joined(indexes(&empty), ", ");
    let summary = format!("{summary}, none on card {which}, where nothing can run");
    MIG.warning(summary, details).advise(format!(
        "Create instances on card {which} (`nvidia-smi mig -cgi PROFILE -C`), or turn MIG off (`nvidia-smi -mig 0`)."
    ))
}

fn unified_memory(sample: &Sample) -> Check {
    let unified = indexes(&whole_cards(sample, |gpu| {
        let is_readable = gpu.name.is_ok() || gpu.util.is_ok() || gpu.compute_list.is_ok();
        gpu.place == Place::Whole && gpu.memory_total == Err(Missing::Unsupported) && is_readable
    }));
    let details = json!({ "cards_without_memory": unified });
    if unified.is_empty() {
        return UNIFIED.ok("each card has its own", details);
    }
    let cards = count(unified.len(), "card", "cards");
    let which = joined(unified, ", ");
    UNIFIED.ok(
        format!("{cards} ({which}) shares the host's memory, its holders are judged by the memory of their processes"),
        details,
    )
}

fn processes_visible(sample: &Sample) -> Check {
    let mut processes: BTreeMap<Pid, &Process> = BTreeMap::new();
    for process in sample.gpus.iter().flat_map(|gpu| &gpu.processes) {
        processes.entry(process.pid).or_insert(process);
    }
    let number = |has: fn(&Process) -> bool| processes.values().filter(|one| has(one)).count();
    let total = processes.len();
    let gone = number(|process| matches!(process.identity, Err(Missing::Gone)));
    let owned = number(|process| matches!(&process.identity, Ok(known) if known.owner().is_some()));
    let unknown = total - gone - owned;
    // The processes of an instance are in its own list, so a missing list of the parent loses nothing. A lost GPU has
    // its own check.
    let is_unlisted =
        |gpu: &&Gpu| gpu.place.counts() && gpu.compute_list.is_err_and(|why| why != Missing::Gone);
    let unlisted: Vec<&Gpu> = sample.gpus.iter().filter(is_unlisted).collect();
    let details = json!({
        "processes": total,
        "owned": owned,
        "owner_unknown": unknown,
        "gone": gone,
        "cards_without_process_list": uuids(&unlisted),
    });
    let (mut found, mut advice) = (Vec::new(), Vec::new());
    let live = count(total - gone, "process", "processes");
    match (total - gone, unknown) {
        (0, _) if gone > 0 => {}
        (0, _) => found.push("no process on any card".to_owned()),
        (_, 0) => found.push(format!("known for all of {live}")),
        (_, _) => {
            found.push(format!("unknown for {unknown} of {live}"));
            advice.push("Run gua on the host, as root or with CAP_SYS_PTRACE, to see the owners.");
        }
    }
    if gone > 0 {
        found.push(count(
            gone,
            "process holds memory and no longer exists",
            "processes hold memory and no longer exist",
        ));
        advice.push(
            "Look for a crashed job or a hidden container with `fuser -v /dev/nvidia*`; reset the card if nobody has it.",
        );
    }
    if !unlisted.is_empty() {
        let cards = count(unlisted.len(), "card", "cards");
        found.push(format!("{cards} without a process list"));
        advice.push("Update the driver, or ask for access to it, to see who holds the cards.");
    }
    let advice = advice.into_iter().map(str::to_owned).collect();
    PROCESSES.warning_if_advised(found.join(", "), details, advice)
}

#[cfg(test)]
mod tests;
