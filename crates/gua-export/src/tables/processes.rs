//! One row for each process on each GPU at each tick. Command lines and environments are not recorded.

use gua_model::{
    Bytes, Gpu, LegacyMoment, LegacyProcess, Period, Process, ProcessKind, Span, Tick,
};

use super::{IMPORTED, OWN, Reading, signed, workload_columns};
use crate::column::{about, columns};
use crate::error::ExportError;
use crate::names::Names;

columns! {
    /// One process on one GPU at one tick.
    ProcessRow {
        at: Time = about::TICK_AT,
        host: Text = about::HOST,
        source: Text = about::SOURCE,
        gpu_uuid: Text = about::GPU,
        gpu_index: Int = about::INDEX_THEN,
        pid: Int = about::PID,
        started_ticks: Int = "Start time in the kernel's ticks since boot; identifies the process together with the PID.",
        user: Text = about::USER_OF_PROCESS,
        uid: Int = about::UID,
        user_source: Text = about::USER_SOURCE,
        process: Text = about::PROCESS,
        kind: Text = about::KIND,
        memory_bytes: Int = "Memory that it holds; absent if the driver hides it.",
        sm_util_percent: Int = "Its own utilisation since the previous tick, if the driver reports it.",
        job: Text = about::JOB,
        pod: Text = about::POD,
        container: Text = about::CONTAINER,
    }
}

pub(crate) fn rows(
    reading: &mut Reading<'_>,
    part: Period,
    old: Period,
) -> Result<u32, ExportError> {
    let Reading {
        history,
        thresholds,
        names,
        own_since,
        sink,
        ..
    } = reading;
    history.old_moments(old, &mut |moment: &LegacyMoment<'_>| {
        own_since.rest(moment, |rest| {
            let counted = rest.ticks.iter().flat_map(|tick| {
                let row = |process| (tick.gpu, tick.index, process);
                tick.processes.iter().map(row)
            });
            let strays = rest
                .strays
                .iter()
                .map(|(gpu, process)| (*gpu, process.index, process));
            for (gpu, index, process) in counted.chain(strays) {
                sink.push(&ProcessRow {
                    at: Some(rest.at),
                    host: names.host(),
                    gpu_uuid: Some(gpu.as_str()),
                    gpu_index: index.or(process.index),
                    ..of_old(process)
                });
            }
        });
    })?;
    let damaged = history.each_tick(part, *thresholds, |tick: &Tick, _: &[Span]| {
        if !part.contains(tick.sample.at) {
            return Ok(());
        }
        for gpu in &tick.sample.gpus {
            for process in &gpu.processes {
                if let Some(owner) = process.identity.as_ref().ok().and_then(|it| it.owner()) {
                    names.look_up(Some(owner.user.uid));
                }
                sink.push(&of_own(tick, gpu, process, names));
            }
        }
        sink.go_on()
    });
    sink.settle(damaged)
}

pub(crate) fn kind_word(kind: ProcessKind) -> &'static str {
    match kind {
        ProcessKind::Compute => "compute",
        ProcessKind::Graphics => "graphics",
        ProcessKind::Both => "both",
    }
}

fn of_own<'a>(tick: &Tick, gpu: &'a Gpu, process: &'a Process, names: &'a Names) -> ProcessRow<'a> {
    let identity = process.identity.as_ref().ok();
    let owner = identity.and_then(|identity| identity.owner());
    let [job, pod, container] = workload_columns(identity.map(|identity| &identity.workload));
    ProcessRow {
        at: Some(tick.sample.at),
        host: names.host(),
        source: Some(OWN),
        gpu_uuid: Some(gpu.uuid.as_str()),
        gpu_index: Some(gpu.index.into()),
        pid: Some(process.pid.0.into()),
        started_ticks: identity.map(|identity| signed(identity.key.start.0)),
        user: names.person(owner.as_ref().map(|owner| owner.user.uid)),
        uid: owner.as_ref().map(|owner| owner.user.uid.0.into()),
        user_source: owner.as_ref().map(|owner| owner.source.as_str()),
        process: identity.and_then(|identity| identity.comm.as_deref().ok()),
        kind: Some(kind_word(process.kind)),
        memory_bytes: process.memory.ok().map(|memory| signed(memory.0)),
        sm_util_percent: process.sm_util.ok().flatten().map(|util| util.get().into()),
        job,
        pod,
        container,
        ..ProcessRow::default()
    }
}

fn of_old<'a>(process: &LegacyProcess<'a>) -> ProcessRow<'a> {
    ProcessRow {
        source: Some(IMPORTED),
        pid: Some(process.pid),
        user: process.identity.or(process.owner),
        process: process.name,
        kind: Some(kind_word(process.kind)),
        memory_bytes: process.memory_mb.map(|mb| signed(Bytes::from_mb(mb).0)),
        ..ProcessRow::default()
    }
}
