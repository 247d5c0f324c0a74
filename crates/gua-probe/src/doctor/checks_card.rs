//! Checks of the GPUs, from one sample. Without a sample they are skipped.

use std::collections::{BTreeMap, BTreeSet};

use gua_model::sample::Switch;
use gua_model::{Gpu, Missing, Pid, Place, Problem, Process, Sample};
use serde_json::{Value, json};

use gua_model::text::sanitize;

use super::check::{Check, Group, Kind, Status, count};
use super::checks_driver::cards;

const UNREADABLE: Kind = Kind::new(Group::Gpu, "unreadable_cards", "card readings");
const UTILISATION: Kind = Kind::new(Group::Gpu, "utilisation", "utilisation");
const ERRORS: Kind = Kind::new(Group::Gpu, "memory_errors", "memory errors");
const PERSISTENCE: Kind = Kind::new(Group::Gpu, "persistence", "persistence mode");
const MIG: Kind = Kind::new(Group::Gpu, "mig", "MIG");
const UNIFIED: Kind = Kind::new(Group::Gpu, "unified_memory", "card memory");
const PROCESSES: Kind = Kind::new(Group::Gpu, "processes_visible", "process owners");

/// Returns the sample if it contains a GPU, or else why nothing can be judged.
fn with_cards(sample: Option<&Sample>) -> Result<&Sample, &'static str> {
    match sample {
        None => Err("NVML gave no sample"),
        Some(sample) if cards(sample) == 0 => Err("no card"),
        Some(sample) => Ok(sample),
    }
}

fn skipped(kind: Kind, why: &str) -> Check {
    Check::new(kind, Status::Skipped, why, json!({}))
}

/// Returns whole GPUs and MIG parents, without the instances.
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

/// Formats a GPU by its index and name.
fn called(sample: &Sample, index: u32) -> String {
    let name = whole_cards(sample)
        .find(|gpu| gpu.index == index)
        .and_then(|gpu| gpu.name.as_ref().ok());
    match name {
        Some(name) => format!("card {index} ({})", sanitize(name)),
        None => format!("card {index}"),
    }
}

pub(super) fn unreadable_cards(sample: Option<&Sample>) -> Check {
    let sample = match with_cards(sample) {
        Ok(sample) => sample,
        Err(why) => return skipped(UNREADABLE, why),
    };
    let rows: Vec<Value> = sample.problems.iter().map(row).collect();
    let details = json!({ "cards": cards(sample), "problems": rows });
    // Every call fails on a lost GPU, so one problem per GPU and reason is reported. Lost GPUs come first.
    let mut told: Vec<&Problem> = Vec::new();
    for problem in &sample.problems {
        let is_new = told
            .iter()
            .all(|known| (known.index, known.why) != (problem.index, problem.why));
        if is_new {
            told.push(problem);
        }
    }
    told.sort_by_key(|problem| (problem.why != Missing::Gone, problem.why));
    let Some(first) = told.first() else {
        let summary = format!("{} without trouble", count(cards(sample), "card", "cards"));
        return Check::new(UNREADABLE, Status::Ok, summary, details);
    };
    let mut summary = said(sample, first);
    if told.len() > 1 {
        summary.push_str(&format!(", and {} more", told.len() - 1));
    }
    let status = if first.why == Missing::Gone {
        Status::Error
    } else {
        Status::Warning
    };
    let check = Check::new(UNREADABLE, status, summary, details);
    let deeds = told.iter().filter_map(|problem| {
        let same = told.iter().filter(|other| other.why == problem.why);
        let which: BTreeSet<u32> = same.filter_map(|other| other.index).collect();
        deed(problem.why, status, &listed(which))
    });
    let mut deeds: Vec<String> = deeds.collect();
    // Advice with the same reason is identical and adjacent.
    deeds.dedup();
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

fn row(problem: &Problem) -> Value {
    json!({
        "gpu_uuid": problem.gpu.as_ref().map(gua_model::GpuUuid::as_str),
        "index": problem.index,
        "call": problem.call,
        "code": problem.code,
        "why": problem.why.as_str(),
        "text": problem.text,
    })
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
fn listed(indexes: impl IntoIterator<Item = u32>) -> String {
    let numbers: Vec<String> = indexes.into_iter().map(|index| index.to_string()).collect();
    match numbers.as_slice() {
        [] => "the cards".to_owned(),
        [one] => format!("card {one}"),
        many => format!("cards {}", many.join(", ")),
    }
}

/// Checks the utilisation. An impossible percentage is dropped, and then the use of the GPU is unknown.
pub(super) fn utilisation(sample: Option<&Sample>) -> Check {
    let sample = match with_cards(sample) {
        Ok(sample) => sample,
        Err(why) => return skipped(UTILISATION, why),
    };
    let of = |why: Missing| -> Vec<&Gpu> {
        let counted = sample.gpus.iter().filter(|gpu| gpu.place.counts());
        counted.filter(|gpu| gpu.util == Err(why)).collect()
    };
    let (junk, without) = (of(Missing::Failed), of(Missing::Unsupported));
    let uuids = |gpus: &[&Gpu]| -> Vec<String> {
        gpus.iter()
            .map(|gpu| gpu.uuid.as_str().to_owned())
            .collect()
    };
    let details = json!({ "junk": uuids(&junk), "unsupported": uuids(&without) });
    if !junk.is_empty() {
        let indexes: BTreeSet<u32> = junk.iter().map(|gpu| gpu.index).collect();
        let names = indexes.iter().map(|index| called(sample, *index));
        let summary = format!(
            "{}: the driver's answer is junk, so nobody knows its use",
            names.collect::<Vec<_>>().join(", ")
        );
        return Check::new(UTILISATION, Status::Warning, summary, details)
            .advise(format!("Update the driver, or reset {}.", listed(indexes)));
    }
    let summary = match without.len() {
        0 => "read on every card".to_owned(),
        some => format!(
            "read, but {} none (MIG instances, virtual cards)",
            count(some, "has", "have")
        ),
    };
    Check::new(UTILISATION, Status::Ok, summary, details)
}

pub(super) fn memory_errors(sample: Option<&Sample>) -> Check {
    let sample = match with_cards(sample) {
        Ok(sample) => sample,
        Err(why) => return skipped(ERRORS, why),
    };
    let counts: Vec<(u32, u64)> = whole_cards(sample)
        .filter_map(|gpu| Some((gpu.index, gpu.ecc_uncorrected.ok()?)))
        .collect();
    let bad: Vec<(u32, u64)> = counts
        .iter()
        .copied()
        .filter(|(_, errors)| *errors > 0)
        .collect();
    let rows: Vec<Value> = bad
        .iter()
        .map(|(index, errors)| json!({ "index": index, "uncorrected": errors }))
        .collect();
    let details = json!({ "cards_with_ecc": counts.len(), "cards_with_errors": rows });
    if counts.is_empty() {
        return Check::new(ERRORS, Status::Skipped, "no card counts them", details);
    }
    if bad.is_empty() {
        return Check::new(ERRORS, Status::Ok, "no uncorrected ones", details);
    }
    let each: Vec<String> = bad
        .iter()
        .map(|(index, errors)| format!("{}: {errors} uncorrected", called(sample, *index)))
        .collect();
    let numbers: Vec<String> = bad.iter().map(|(index, _)| index.to_string()).collect();
    let numbers = numbers.join(",");
    Check::new(ERRORS, Status::Warning, each.join(", "), details).advise(format!(
        "Reset with `nvidia-smi --gpu-reset -i {numbers}`, and have it replaced if the errors come back."
    ))
}

pub(super) fn persistence(sample: Option<&Sample>) -> Check {
    let sample = match with_cards(sample) {
        Ok(sample) => sample,
        Err(why) => return skipped(PERSISTENCE, why),
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
        "off on {} ({}), slow to open when unused",
        count(off.len(), "card", "cards"),
        indexes(&off)
    );
    Check::new(PERSISTENCE, Status::Warning, summary, details)
        .advise("Turn persistence mode on: `nvidia-smi -pm 1`, or the service nvidia-persistenced.")
}

pub(super) fn mig(sample: Option<&Sample>) -> Check {
    let sample = match with_cards(sample) {
        Ok(sample) => sample,
        Err(why) => return skipped(MIG, why),
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
    let summary = format!("{summary}, none on card {which}, where nothing can run");
    Check::new(MIG, Status::Warning, summary, details).advise(format!(
        "Create instances on card {which} (`nvidia-smi mig -cgi PROFILE -C`), or turn MIG off (`nvidia-smi -mig 0`)."
    ))
}

pub(super) fn unified_memory(sample: Option<&Sample>) -> Check {
    let sample = match with_cards(sample) {
        Ok(sample) => sample,
        Err(why) => return skipped(UNIFIED, why),
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
    let sample = match with_cards(sample) {
        Ok(sample) => sample,
        Err(why) => return skipped(PROCESSES, why),
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
    // The processes of an instance are in its own list, so a missing list of the parent loses nothing. A lost GPU has
    // its own check.
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
    let mut found = Vec::new();
    match (total - gone, unknown) {
        (0, _) if gone > 0 => {}
        (0, _) => found.push("no process on any card".to_owned()),
        (live, 0) => found.push(format!(
            "known for all of {}",
            count(live, "process", "processes")
        )),
        (live, _) => found.push(format!(
            "unknown for {unknown} of {}",
            count(live, "process", "processes")
        )),
    }
    if gone > 0 {
        found.push(count(
            gone,
            "process holds memory and no longer exists",
            "processes hold memory and no longer exist",
        ));
    }
    if !unlisted.is_empty() {
        found.push(format!(
            "{} without a process list",
            count(unlisted.len(), "card", "cards")
        ));
    }
    let status = if unknown > 0 || gone > 0 || !unlisted.is_empty() {
        Status::Warning
    } else {
        Status::Ok
    };
    let mut check = Check::new(PROCESSES, status, found.join(", "), details);
    if unknown > 0 {
        check =
            check.advise("Run gua on the host, as root or with CAP_SYS_PTRACE, to see the owners.");
    }
    if gone > 0 {
        check = check.advise(
            "Look for a crashed job or a hidden container with `fuser -v /dev/nvidia*`; reset the card if nobody has it.",
        );
    }
    if !unlisted.is_empty() {
        check =
            check.advise("Update the driver, or ask for access to it, to see who holds the cards.");
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
