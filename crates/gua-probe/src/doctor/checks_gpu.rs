//! Checks of the GPUs, from one sample.

use std::collections::{BTreeMap, BTreeSet};

use gua_model::health::{Fault, faults};
use gua_model::sample::Switch;
use gua_model::text::sanitize;
use gua_model::{Gpu, GpuUuid, Missing, Pid, Place, Problem, Process, Sample};

use super::check::{Finding, Status, count};
use super::checks_driver::gpu_count;
use super::details::{Details, GpuErrors, GpuProblem, GpuXid};

/// Returns the whole GPUs and MIG parents with this property, without the instances.
fn physical(sample: &Sample, has: impl Fn(&Gpu) -> bool) -> Vec<&Gpu> {
    let gpus = sample.gpus.iter();
    gpus.filter(|gpu| gpu.place.parent().is_none() && has(gpu))
        .collect()
}

fn indexes(gpus: &[&Gpu]) -> Vec<u32> {
    gpus.iter().map(|gpu| gpu.index).collect()
}

fn uuids(gpus: &[&Gpu]) -> Vec<String> {
    gpus.iter().map(|gpu| gpu.uuid.to_string()).collect()
}

fn joined(numbers: &[u32], separator: &str) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(separator)
}

fn gpus(number: usize) -> String {
    count(number, "GPU", "GPUs")
}

/// Formats a GPU by its index and name.
fn named(sample: &Sample, index: u32) -> String {
    let gpu = physical(sample, |gpu| gpu.index == index);
    match gpu.first().and_then(|gpu| gpu.name.as_ref().ok()) {
        Some(name) => format!("GPU {index} ({})", sanitize(name)),
        None => format!("GPU {index}"),
    }
}

pub(super) fn unreadable_gpus(sample: &Sample) -> Finding {
    let problems = sample.problems.iter().map(|problem| GpuProblem {
        call: problem.call.clone(),
        code: problem.code,
        gpu_uuid: problem.gpu.as_ref().map(GpuUuid::to_string),
        index: problem.index,
        text: problem.text.clone(),
        why: problem.why.as_str(),
    });
    let details = Details::UnreadableGpus {
        gpus: gpu_count(sample),
        problems: problems.collect(),
    };
    // Every call fails on a lost GPU, so one problem per GPU and reason is reported. Lost GPUs come first.
    let mut seen = BTreeSet::new();
    let mut distinct: Vec<&Problem> = sample.problems.iter().collect();
    distinct.retain(|problem| seen.insert((problem.index, problem.why)));
    distinct.sort_by_key(|problem| (problem.why != Missing::Gone, problem.why));
    let Some(first) = distinct.first() else {
        let summary = format!("{} without problems", gpus(gpu_count(sample)));
        return Status::Ok.finding(summary, details);
    };
    let mut summary = described(sample, first);
    if distinct.len() > 1 {
        summary.push_str(&format!(", and {} more", distinct.len() - 1));
    }
    let status = match first.why {
        Missing::Gone => Status::Error,
        _ => Status::Warning,
    };
    let actions = distinct.iter().filter_map(|problem| {
        let same = distinct.iter().filter(|other| other.why == problem.why);
        let which: BTreeSet<u32> = same.filter_map(|other| other.index).collect();
        action(problem.why, status, &listed(which))
    });
    let mut actions: Vec<String> = actions.collect();
    // Advice with the same reason is identical and adjacent.
    actions.dedup();
    status.finding(summary, details).advise_all(actions)
}

/// Formats the problem, with the GPU's index and name instead of its UUID.
fn described(sample: &Sample, problem: &Problem) -> String {
    let nameless = Problem {
        gpu: None,
        index: None,
        ..problem.clone()
    };
    let what = sanitize(&nameless.to_string());
    match problem.index {
        Some(index) => format!("{}: {what}", named(sample, index)),
        None => what,
    }
}

/// Returns the advice for a problem. If the check already failed because of a lost GPU, a single failed reading gets
/// none.
fn action(why: Missing, status: Status, which: &str) -> Option<String> {
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

/// Formats `GPU 1`, `GPUs 1, 2`; the names are in the summary.
fn listed(indexes: BTreeSet<u32>) -> String {
    let indexes: Vec<u32> = indexes.into_iter().collect();
    match indexes.len() {
        0 => "the GPUs".to_owned(),
        1 => format!("GPU {}", indexes[0]),
        _ => format!("GPUs {}", joined(&indexes, ", ")),
    }
}

/// Checks the utilisation. An impossible percentage is dropped, and then the use of the GPU is unknown.
pub(super) fn utilisation(sample: &Sample) -> Finding {
    let of = |why: Missing| -> Vec<&Gpu> {
        let counted = sample.gpus.iter().filter(|gpu| gpu.place.counts());
        counted.filter(|gpu| gpu.util == Err(why)).collect()
    };
    let (invalid, without) = (of(Missing::Failed), of(Missing::Unsupported));
    let details = Details::Utilisation {
        invalid: uuids(&invalid),
        unsupported: uuids(&without),
    };
    if !invalid.is_empty() {
        let indexes = BTreeSet::from_iter(indexes(&invalid));
        let names = indexes.iter().map(|index| named(sample, *index));
        let summary = format!(
            "{}: the driver reports impossible values, so the use is unknown",
            names.collect::<Vec<_>>().join(", ")
        );
        let advice = format!("Update the driver, or reset {}.", listed(indexes));
        return Status::Warning.finding(summary, details).advise(advice);
    }
    let summary = match without.len() {
        0 => "read on every GPU".to_owned(),
        some => format!(
            "read, but {} none (MIG instances, virtual GPUs)",
            count(some, "has", "have")
        ),
    };
    Status::Ok.finding(summary, details)
}

pub(super) fn memory_errors(sample: &Sample) -> Finding {
    let counting = physical(sample, |gpu| gpu.ecc_uncorrected.is_ok());
    let errors = counting.iter().filter_map(|gpu| {
        let index = gpu.index;
        let uncorrected = gpu.ecc_uncorrected.ok().filter(|errors| *errors > 0)?;
        Some(GpuErrors { index, uncorrected })
    });
    let details = Details::MemoryErrors {
        gpus_with_ecc: counting.len(),
        gpus_with_errors: errors.collect(),
    };
    let faulty = physical(sample, |gpu| !memory_faults(gpu).is_empty());
    if faulty.is_empty() && counting.is_empty() {
        return Status::Skipped.finding("no GPU counts them", details);
    }
    if faulty.is_empty() {
        return Status::Ok.finding("no uncorrected errors", details);
    }
    let each = faulty.iter().map(|gpu| {
        let faults = memory_faults(gpu).join(", ");
        format!("{}: {faults}", named(sample, gpu.index))
    });
    let summary = each.collect::<Vec<_>>().join(", ");
    Status::Warning.finding(summary, details).advise(format!(
        "Reset with `nvidia-smi --gpu-reset -i {}`, and replace the GPU if the errors come back.",
        joined(&indexes(&faulty), ",")
    ))
}

fn memory_faults(gpu: &Gpu) -> Vec<String> {
    let in_words = |fault: Fault| match fault {
        Fault::UncorrectedErrors(errors) => Some(format!("{errors} uncorrected")),
        Fault::RemapFailed | Fault::RemapPending | Fault::RetirementPending => {
            Some(fault.to_string())
        }
        _ => None,
    };
    faults(gpu).into_iter().filter_map(in_words).collect()
}

/// Checks the Xid errors in the kernel log. Most users may not read it, which costs nothing else.
pub(super) fn xid_errors(sample: &Sample) -> Finding {
    let read = physical(sample, |gpu| gpu.xid.is_ok());
    let rows = read
        .iter()
        .filter_map(|gpu| Some((gpu.index, gpu.xid.ok()??)));
    let rows: Vec<_> = rows.collect();
    let errors = rows.iter().map(|(index, xid)| GpuXid {
        at: xid.at,
        code: xid.code,
        index: *index,
    });
    let details = Details::XidErrors {
        gpus_read: read.len(),
        gpus_with_errors: errors.collect(),
    };
    if read.is_empty() {
        let has = |why: Missing| !physical(sample, |gpu| gpu.xid == Err(why)).is_empty();
        let why = if has(Missing::Denied) {
            "not shown: only root may read the kernel log"
        } else if has(Missing::Failed) {
            "not shown: the kernel log cannot be read, or is too long to be read in time"
        } else {
            "not shown: there is no kernel log here"
        };
        return Status::Ok.finding(why, details);
    }
    if rows.is_empty() {
        return Status::Ok.finding("none that indicate a GPU fault", details);
    }
    let each = rows
        .iter()
        .map(|(index, xid)| format!("{}: {xid}", named(sample, *index)));
    let summary = each.collect::<Vec<_>>().join(", ");
    let which = listed(rows.iter().map(|(index, _)| *index).collect());
    Status::Warning.finding(summary, details).advise(format!(
        "See `dmesg | grep -i xid` and NVIDIA's Xid catalogue; reset {which} or reboot."
    ))
}

pub(super) fn persistence(sample: &Sample) -> Finding {
    let with = |switch| indexes(&physical(sample, |gpu| gpu.persistence == Ok(switch)));
    let (on, off) = (with(Switch::On), with(Switch::Off));
    let details = Details::Persistence {
        off: off.clone(),
        on: on.clone(),
    };
    match (off.len(), on.is_empty()) {
        (0, true) => Status::Skipped.finding("no GPU reports it", details),
        (0, false) => Status::Ok.finding("on", details),
        (some, _) => {
            let (number, which) = (gpus(some), joined(&off, ", "));
            let summary = format!("off on {number} ({which}), slow to open when unused");
            Status::Warning.finding(summary, details).advise(
                "Turn persistence mode on: `nvidia-smi -pm 1`, or the service nvidia-persistenced.",
            )
        }
    }
}

pub(super) fn mig(sample: &Sample) -> Finding {
    let divided = physical(sample, |gpu| {
        gpu.mig == Ok(Switch::On) || matches!(gpu.place, Place::Parent { .. })
    });
    let parents = sample.gpus.iter().filter_map(|gpu| gpu.place.parent());
    let parents: Vec<_> = parents.collect();
    let empty = physical(sample, |gpu| {
        divided.iter().any(|parent| parent.uuid == gpu.uuid) && !parents.contains(&&gpu.uuid)
    });
    let details = Details::Mig {
        gpus_in_mig_mode: indexes(&divided),
        gpus_without_instances: indexes(&empty),
        instances: parents.len(),
    };
    if divided.is_empty() {
        return Status::Ok.finding("off", details);
    }
    let instances = count(parents.len(), "instance", "instances");
    let summary = format!("{} in MIG mode, {instances}", gpus(divided.len()));
    if empty.is_empty() {
        return Status::Ok.finding(summary, details);
    }
    let which = joined(&indexes(&empty), ", ");
    let summary = format!("{summary}, none on GPU {which}, where nothing can run");
    Status::Warning.finding(summary, details).advise(format!(
        "Create instances on GPU {which} (`nvidia-smi mig -cgi PROFILE -C`), or turn MIG off (`nvidia-smi -mig 0`)."
    ))
}

pub(super) fn unified_memory(sample: &Sample) -> Finding {
    let unified = indexes(&physical(sample, |gpu| {
        let is_readable = gpu.name.is_ok() || gpu.util.is_ok() || gpu.compute_list.is_ok();
        gpu.place == Place::Whole && gpu.memory_total == Err(Missing::Unsupported) && is_readable
    }));
    let details = Details::UnifiedMemory {
        gpus_without_memory: unified.clone(),
    };
    let summary = match unified.len() {
        0 => "each GPU has its own".to_owned(),
        some => format!(
            "the memory of {} ({}) is the host's; holders are judged by the memory of their processes",
            gpus(some),
            joined(&unified, ", ")
        ),
    };
    Status::Ok.finding(summary, details)
}

pub(super) fn process_owners(sample: &Sample) -> Finding {
    let processes = sample.gpus.iter().flat_map(|gpu| &gpu.processes);
    let processes: BTreeMap<Pid, &Process> = processes.map(|one| (one.pid, one)).collect();
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
    let details = Details::ProcessOwners {
        gone,
        gpus_without_process_list: uuids(&unlisted),
        owned,
        owner_unknown: unknown,
        processes: total,
    };
    let (mut found, mut advice) = (Vec::new(), Vec::new());
    let live = count(total - gone, "process", "processes");
    match (total - gone, unknown) {
        (0, _) if gone > 0 => {}
        (0, _) => found.push("no process on any GPU".to_owned()),
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
            "Look for a crashed job or a hidden container with `fuser -v /dev/nvidia*`; reset the GPU if no process uses it.",
        );
    }
    if !unlisted.is_empty() {
        found.push(format!("{} without a process list", gpus(unlisted.len())));
        advice.push("Update the driver, or ask for access to it, to see who holds the GPUs.");
    }
    Finding::advised(
        found.join(", "),
        details,
        advice.into_iter().map(str::to_owned),
    )
}

#[cfg(test)]
mod tests;
