//! Tests of the checks of GPUs and their holders.

use gua_model::sample::MemoryRepairs;

use super::*;
use crate::doctor::fixture::{assert_check, gpu, identity, instance, process, sample, uuid};

fn check(
    judge: fn(&Sample) -> Finding,
    gpus: Vec<Gpu>,
    (status, summary): (Status, &str),
    advice: &[&str],
) {
    assert_check(&judge(&sample(gpus)), status, summary, advice);
}

fn problem(index: u32, why: Missing, call: &str) -> Problem {
    let text = match why {
        Missing::Gone => "GPU is lost",
        _ => "oh\u{1b}",
    };
    Problem {
        gpu: Some(uuid(index)),
        index: Some(index),
        call: call.into(),
        code: Some(15),
        why,
        text: text.into(),
    }
}

fn check_problems(problems: Vec<Problem>, (status, summary): (Status, &str), advice: &[&str]) {
    let sample = Sample {
        problems,
        ..sample(vec![gpu(0), gpu(1)])
    };
    assert_check(&unreadable_gpus(&sample), status, summary, advice);
}

#[test]
fn a_lost_gpu_is_reported_once() {
    check_problems(Vec::new(), (Status::Ok, "2 GPUs without problems"), &[]);
    let lost = vec![
        problem(1, Missing::Gone, "nvmlDeviceGetName"),
        problem(1, Missing::Gone, "nvmlDeviceGetPowerUsage"),
    ];
    let summary = "GPU 1 (NVIDIA A100-SXM4-80GB): nvmlDeviceGetName: GPU is lost (15)";
    let advice = &["advice: See `dmesg | grep -i xid`, then reset GPU 1 or reboot."];
    check_problems(lost.clone(), (Status::Error, summary), advice);
    let other = problem(0, Missing::Failed, "nvmlDeviceGetPowerUsage");
    let both = [vec![other], lost].concat();
    let summary = format!("{summary}, and 1 more");
    check_problems(both, (Status::Error, &summary), advice);
}

#[test]
fn a_lost_gpu_without_a_name_is_called_by_its_number() {
    let nameless = Problem {
        gpu: None,
        ..problem(7, Missing::Gone, "nvmlDeviceGetUUID")
    };
    let summary = "GPU 7: nvmlDeviceGetUUID: GPU is lost (15)";
    check_problems(vec![nameless], (Status::Error, summary), &["advice: See"]);
}

#[test]
fn a_failed_reading_is_a_warning_with_the_drivers_words_sanitized() {
    let summary = "GPU 0 (NVIDIA A100-SXM4-80GB): nvmlDeviceGetName: oh\u{fffd} (15)";
    check_problems(
        vec![problem(0, Missing::Failed, "nvmlDeviceGetName")],
        (Status::Warning, summary),
        &["advice: Report the output of `gua doctor --sample`"],
    );
    check_problems(
        vec![problem(0, Missing::Denied, "nvmlDeviceGetName")],
        (Status::Warning, summary),
        &["advice: Ask for access to the device file of GPU 0."],
    );
}

#[test]
fn many_problems_are_counted_and_need_one_action() {
    let many = (0..20)
        .map(|index| problem(index, Missing::Failed, "nvmlDeviceGetName"))
        .collect();
    let summary = "GPU 0 (NVIDIA A100-SXM4-80GB): nvmlDeviceGetName: oh\u{fffd} (15), and 19 more";
    check_problems(
        many,
        (Status::Warning, summary),
        &["advice: Report the output"],
    );
}

#[test]
fn impossible_and_missing_utilisation_is_reported() {
    let with = |index, util| Gpu { util, ..gpu(index) };
    let fine = vec![gpu(0), gpu(1)];
    check(utilisation, fine, (Status::Ok, "read on every GPU"), &[]);
    let junk = vec![gpu(0), with(1, Err(Missing::Failed))];
    let summary = "GPU 1 (NVIDIA A100-SXM4-80GB): the driver reports impossible values, so the use is unknown";
    check(
        utilisation,
        junk,
        (Status::Warning, summary),
        &["advice: Update the driver, or reset GPU 1."],
    );
    let without = vec![gpu(0), with(1, Err(Missing::Unsupported))];
    let summary = "read, but 1 has none (MIG instances, virtual GPUs)";
    check(utilisation, without, (Status::Ok, summary), &[]);
}

#[test]
fn uncorrected_memory_errors_are_reported() {
    let with = |index, ecc_uncorrected| Gpu {
        ecc_uncorrected,
        ..gpu(index)
    };
    let fine = vec![with(0, Ok(0)), gpu(1)];
    check(
        memory_errors,
        fine,
        (Status::Ok, "no uncorrected errors"),
        &[],
    );
    let silent = vec![gpu(0)];
    check(
        memory_errors,
        silent,
        (Status::Skipped, "no GPU counts them"),
        &[],
    );
    let pending = Gpu {
        memory_repairs: Ok(MemoryRepairs(MemoryRepairs::REMAP_PENDING)),
        ..gpu(1)
    };
    let summary = "GPU 1 (NVIDIA A100-SXM4-80GB): a memory row is remapped at the next reset";
    check(
        memory_errors,
        vec![with(0, Ok(0)), pending],
        (Status::Warning, summary),
        &["advice: Reset with `nvidia-smi --gpu-reset -i 1`"],
    );
    let bad = vec![with(0, Ok(0)), with(1, Ok(2))];
    let summary = "GPU 1 (NVIDIA A100-SXM4-80GB): 2 uncorrected";
    check(
        memory_errors,
        bad,
        (Status::Warning, summary),
        &["advice: Reset with `nvidia-smi --gpu-reset -i 1`"],
    );
}

#[test]
fn persistence_mode_that_is_off_costs_time() {
    let with = |index, persistence| Gpu {
        persistence,
        ..gpu(index)
    };
    check(persistence, vec![gpu(0), gpu(1)], (Status::Ok, "on"), &[]);
    let advice = &[
        "advice: Turn persistence mode on: `nvidia-smi -pm 1`, or the service nvidia-persistenced.",
    ];
    let one = vec![gpu(0), with(1, Ok(Switch::Off))];
    check(
        persistence,
        one,
        (
            Status::Warning,
            "off on 1 GPU (1), slow to open when unused",
        ),
        advice,
    );
    let both = vec![with(0, Ok(Switch::Off)), with(1, Ok(Switch::Off))];
    check(
        persistence,
        both,
        (
            Status::Warning,
            "off on 2 GPUs (0, 1), slow to open when unused",
        ),
        advice,
    );
    let silent = vec![with(0, Err(Missing::Unsupported))];
    check(
        persistence,
        silent,
        (Status::Skipped, "no GPU reports it"),
        &[],
    );
}

#[test]
fn a_gpu_in_mig_mode_needs_instances() {
    let parent = |index, instances| Gpu {
        mig: Ok(Switch::On),
        place: Place::Parent { instances },
        ..gpu(index)
    };
    check(mig, vec![gpu(0)], (Status::Ok, "off"), &[]);
    let divided = vec![parent(0, 2), instance(0, 1), instance(0, 2), gpu(1)];
    check(
        mig,
        divided,
        (Status::Ok, "1 GPU in MIG mode, 2 instances"),
        &[],
    );
    let empty = vec![parent(0, 1), instance(0, 1), parent(1, 0)];
    let summary = "2 GPUs in MIG mode, 1 instance, none on GPU 1, where nothing can run";
    check(
        mig,
        empty,
        (Status::Warning, summary),
        &["advice: Create instances on GPU 1"],
    );
}

#[test]
fn a_gpu_that_shares_the_hosts_memory_is_reported_without_a_warning() {
    let spark = |name| Gpu {
        memory_total: Err(Missing::Unsupported),
        name,
        ..gpu(0)
    };
    check(
        unified_memory,
        vec![gpu(0)],
        (Status::Ok, "each GPU has its own"),
        &[],
    );
    let summary = "the memory of 1 GPU (0) is the host's; holders are judged by the memory of their processes";
    check(
        unified_memory,
        vec![spark(Ok("NVIDIA GB10".into()))],
        (Status::Ok, summary),
        &[],
    );
    let lost = vec![Gpu::without_readings(uuid(0), 0, Missing::Unsupported)];
    check(
        unified_memory,
        lost,
        (Status::Ok, "each GPU has its own"),
        &[],
    );
}

fn holding(processes: Vec<Process>) -> Vec<Gpu> {
    vec![Gpu {
        processes,
        ..gpu(0)
    }]
}

#[test]
fn processes_without_an_owner_are_counted() {
    let ours = |pid| process(pid, Ok(identity(pid)));
    let hidden = |pid| process(pid, Err(Missing::Denied));
    check(
        process_owners,
        holding(Vec::new()),
        (Status::Ok, "no process on any GPU"),
        &[],
    );
    check(
        process_owners,
        holding(vec![ours(1)]),
        (Status::Ok, "known for all of 1 process"),
        &[],
    );
    let mixed = holding(vec![ours(1), hidden(2), hidden(3)]);
    check(
        process_owners,
        mixed,
        (Status::Warning, "unknown for 2 of 3 processes"),
        &["advice: Run gua on the host"],
    );
}

#[test]
fn a_process_on_two_gpus_is_one_process() {
    let twice = [
        holding(vec![process(1, Ok(identity(1)))]),
        holding(vec![process(1, Ok(identity(1)))]),
    ]
    .concat();
    check(
        process_owners,
        twice,
        (Status::Ok, "known for all of 1 process"),
        &[],
    );
}

#[test]
fn memory_of_processes_that_no_longer_exist_is_reported() {
    let gone = |pid| process(pid, Err(Missing::Gone));
    let advice = &["advice: Look for a crashed job or a hidden container"];
    let summary = "3 processes hold memory and no longer exist";
    let only = holding(vec![gone(2), gone(3), gone(4)]);
    check(process_owners, only, (Status::Warning, summary), advice);
    let mixed = holding(vec![process(1, Ok(identity(1))), gone(2)]);
    let summary = "known for all of 1 process, 1 process holds memory and no longer exists";
    check(process_owners, mixed, (Status::Warning, summary), advice);
}

#[test]
fn a_gpu_without_a_process_list_is_reported() {
    let unlisted = |why| {
        vec![Gpu {
            compute_list: Err(why),
            ..gpu(0)
        }]
    };
    let summary = "no process on any GPU, 1 GPU without a process list";
    check(
        process_owners,
        unlisted(Missing::Denied),
        (Status::Warning, summary),
        &["advice: Update the driver"],
    );
    check(
        process_owners,
        unlisted(Missing::Gone),
        (Status::Ok, "no process on any GPU"),
        &[],
    );
}

#[test]
fn xid_errors_are_reported_where_the_kernel_log_can_be_read() {
    let with = |index, xid| Gpu { xid, ..gpu(index) };
    let denied = vec![with(0, Err(Missing::Denied))];
    let summary = "not shown: only root may read the kernel log";
    check(xid_errors, denied, (Status::Ok, summary), &[]);
    let absent = vec![with(0, Err(Missing::Unsupported))];
    let summary = "not shown: there is no kernel log here";
    check(xid_errors, absent, (Status::Ok, summary), &[]);
    let none = vec![with(0, Ok(None)), with(1, Ok(None))];
    let summary = "none that indicate a GPU fault";
    check(xid_errors, none, (Status::Ok, summary), &[]);
    let xid = gua_model::Xid {
        at: "2026-11-18T09:00:12Z".parse().unwrap(),
        code: 79,
    };
    let found = vec![with(0, Ok(None)), with(1, Ok(Some(xid)))];
    let summary = "GPU 1 (NVIDIA A100-SXM4-80GB): Xid 79 at 2026-11-18T09:00:12Z";
    let advice =
        "advice: See `dmesg | grep -i xid` and NVIDIA's Xid catalogue; reset GPU 1 or reboot.";
    check(xid_errors, found, (Status::Warning, summary), &[advice]);
}
