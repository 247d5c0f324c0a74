//! One row for each process on each GPU at each tick. Command lines and environments are not recorded.

use gua_model::{
    Bytes, Gpu, GpuUuid, Identity, LegacyMoment, LegacyProcess, Owner, Period, Process, Span, Tick,
};
use gua_query::RecordsError;
use jiff::Timestamp;

use super::{IMPORTED, OWN, Reading};
use crate::batch::Value::Missing;
use crate::column::{about, columns};

struct OwnProcess<'a> {
    tick: &'a Tick,
    gpu: &'a Gpu,
    process: &'a Process,
    identity: Option<&'a Identity>,
    owner: Option<Owner>,
}

struct ImportedProcess<'a> {
    at: Timestamp,
    gpu: &'a GpuUuid,
    index: Option<i64>,
    process: &'a LegacyProcess<'a>,
}

columns! {
    PROCESSES(names): own: OwnProcess<'_>, old: ImportedProcess<'_> {
        at: Time = about::TICK_AT; own.tick.sample.at; old.at,
        host: Text = about::HOST; names.host(); names.host(),
        source: Text = about::SOURCE; OWN; IMPORTED,
        gpu_uuid: Text = about::GPU; own.gpu.uuid.as_str(); old.gpu.as_str(),
        gpu_index: Int = about::INDEX_THEN; own.gpu.index; old.index.or(old.process.index),
        pid: Int = about::PID; own.process.pid.0; old.process.pid,
        started_ticks: Int = "Start time in the kernel's ticks since boot; identifies the process together with the PID.";
            own.identity.map(|identity| identity.key.start.0); Missing,
        user: Text = about::USER_OF_PROCESS;
            own.owner.as_ref().map(|owner| owner.who.shown()); old.process.identity.or(old.process.owner),
        uid: Int = about::UID; own.owner.as_ref().and_then(|owner| Some(owner.who.uid()?.0)); Missing,
        user_source: Text = about::USER_SOURCE; own.owner.as_ref().map(|owner| owner.source.as_str()); Missing,
        process: Text = about::PROCESS; own.identity.and_then(|identity| identity.comm.as_deref().ok()); old.process.name,
        kind: Text = about::KIND; own.process.kind.as_str(); old.process.kind.as_str(),
        memory_bytes: Int = "Memory that it holds; absent if the driver hides it.";
            own.process.memory.ok(); old.process.memory_mb.map(Bytes::from_mb),
        sm_util_percent: Int = "Its own utilisation since the previous tick, if the driver reports it.";
            own.process.sm_util.ok().flatten().map(|util| util.get()); Missing,
        job: Text = about::JOB; own.identity.and_then(|identity| Some(identity.workload.job.as_ref()?.as_str())); Missing,
        pod: Text = about::POD; own.identity.and_then(|identity| Some(identity.workload.pod.as_ref()?.as_str())); Missing,
        container: Text = about::CONTAINER; own.identity.and_then(|identity| Some(identity.workload.container.as_ref()?.as_str())); Missing,
    }
}

pub(crate) fn rows(
    reading: &mut Reading<'_>,
    part: Period,
    old: Period,
) -> Result<u32, RecordsError> {
    let Reading {
        records,
        thresholds,
        own_ticks,
        sink,
        ..
    } = reading;
    records.imported_moments(old, &mut |moment: &LegacyMoment<'_>| {
        own_ticks.rest(moment, |rest| {
            let counted = rest.ticks.iter().flat_map(|tick| {
                let row = |process| (tick.gpu, tick.index, process);
                tick.processes.iter().map(row)
            });
            let strays = rest.strays.iter();
            let strays = strays.map(|(gpu, process)| (*gpu, process.index, process));
            for (gpu, index, process) in counted.chain(strays) {
                sink.push(&ImportedProcess {
                    at: rest.at,
                    gpu,
                    index,
                    process,
                });
            }
        });
    })?;
    records.ticks_with_spans(part, *thresholds, &mut |tick: &Tick, _: &[Span]| {
        if !part.contains(tick.sample.at) {
            return Ok(());
        }
        for gpu in &tick.sample.gpus {
            for process in &gpu.processes {
                let identity = process.identity.as_ref().ok();
                sink.push(&OwnProcess {
                    tick,
                    gpu,
                    process,
                    identity,
                    owner: identity.and_then(Identity::owner),
                });
            }
        }
        sink.check()
    })
}
