//! One row for each session: a process that held a GPU, with its start and end.

use gua_model::{
    Bytes, GpuQuarter, GpuUuid, ImportedSession, OpenSessions, Period, Quarter, Session,
};
use gua_query::RecordsError;
use gua_query::records::Origin;

use super::{IMPORTED, OWN, Reading};
use crate::batch::Value::Missing;
use crate::column::{about, columns};
use crate::run::Edges;

struct OwnSession<'a> {
    gpu: &'a GpuUuid,
    session: &'a Session,
}

struct OldSession<'a> {
    gpu: &'a GpuUuid,
    session: &'a ImportedSession,
}

columns! {
    SESSIONS(names): own: OwnSession<'_>, old: OldSession<'_> {
        began_at: Time = "Time of its first tick."; own.session.from; old.session.from,
        ended_at: Time = "End of its last tick; the latest so far if it is open."; own.session.to; old.session.end(None),
        host: Text = about::HOST; names.host(); names.host(),
        source: Text = about::SOURCE; OWN; IMPORTED,
        gpu_uuid: Text = about::GPU; own.gpu.as_str(); old.gpu.as_str(),
        gpu_index: Int = about::INDEX_LAST; names.gpu_index(own.gpu); old.session.index,
        gpu_name: Text = about::GPU_NAME; names.gpu_name(own.gpu); names.gpu_name(old.gpu),
        mig_parent_uuid: Text = about::MIG_PARENT; own.session.parent.as_ref().map(|parent| parent.as_str()); Missing,
        // Hidden processes of imported rows have negative numbers.
        pid: Int = about::PID; own.session.key.process.pid.0; old.session.pid.max(0),
        started_ticks: Int = "Start time in the kernel's ticks since boot."; own.session.key.process.start.0; Missing,
        user: Text = about::USER_OF_PROCESS;
            own.session.owner.as_ref().map(|owner| owner.who.shown()); old.session.owner.as_deref(),
        uid: Int = about::UID; own.session.owner.as_ref().and_then(|owner| Some(owner.who.uid()?.0)); Missing,
        user_source: Text = about::USER_SOURCE; own.session.owner.as_ref().map(|owner| owner.source.as_str()); Missing,
        process: Text = about::PROCESS; own.session.comm.as_deref().ok(); old.session.name.as_deref(),
        kind: Text = about::KIND; own.session.kind.as_str(); Missing,
        job: Text = about::JOB; own.session.workload.job.as_ref().map(|job| job.as_str()); Missing,
        pod: Text = about::POD; own.session.workload.pod.as_ref().map(|pod| pod.as_str()); Missing,
        container: Text = about::CONTAINER; own.session.workload.container.as_ref().map(|container| container.as_str()); Missing,
        ticks: Int = "Number of its ticks."; own.session.ticks; old.session.samples,
        observed_us: Int = "Time in which the GPU's state was observed."; own.session.observed; Missing,
        active_us: Int = "Of that, with the GPU active."; own.session.active; Missing,
        idle_held_us: Int = "Of that, with the GPU idle-held."; own.session.idle_held; Missing,
        unobserved_us: Int = "Unobserved time between start and end."; own.session.unobserved(); Missing,
        util_mean_percent: Float = "Mean utilisation.";
            own.session.util().map(|(util, _)| f64::from(util.0) / 100.0); old.session.util(),
        util_of: Text = "Source of that value: `process` (its own) or `gpu`.";
            own.session.util().map(|(_, source)| source.as_str()); old.session.util().map(|_| "gpu"),
        peak_memory_bytes: Int = "Maximum memory at any tick."; own.session.peak_memory.ok(); old.session.peak_mb.map(Bytes::from_mb),
        is_shared: Bool = "Whether another process held the GPU at some of its ticks."; own.session.shared; old.session.shared,
        is_open: Bool = "Whether it may still be open."; own.session.open; false,
    }
}

/// Sessions of the imported rows of the whole window, folded once.
#[derive(Debug, Default)]
pub(crate) struct OldSessions {
    /// Sessions in order of their start.
    sessions: Vec<(GpuUuid, ImportedSession)>,
    /// Number of rows of the whole window that cannot be read.
    pub(crate) damaged: u64,
}

impl OldSessions {
    pub(crate) fn read(reading: &Reading<'_>, window: Period) -> Result<Self, RecordsError> {
        let mut open = OpenSessions::default();
        let mut sessions = Vec::new();
        let mut keep = |gpu: &GpuUuid, session: &ImportedSession| {
            sessions.push((gpu.clone(), session.clone()));
        };
        let mut join = |quarter: Quarter, gpus: &[GpuQuarter]| {
            let gpus = gpus.iter();
            let pieces = gpus.map(|gpu| (&gpu.gpu, gpu.total.imported_sessions()));
            open.push(quarter.period().from(), pieces, &mut keep);
        };
        let thresholds = reading.thresholds;
        let records = reading.records;
        let left_out = records.totals(Origin::Imported, window, thresholds, &mut join)?;
        open.finish(&mut keep);
        sessions.sort_by(|(one_gpu, one), (other_gpu, other)| {
            (one.from, one_gpu, one.pid).cmp(&(other.from, other_gpu, other.pid))
        });
        Ok(Self {
            sessions,
            damaged: left_out.damaged,
        })
    }
}

/// Writes the sessions that begin in a part of the window; with its first part, also those that reach into it.
pub(crate) fn rows(
    reading: &mut Reading<'_>,
    imported: &OldSessions,
    (part, old): (Period, Period),
    is_first: bool,
) -> Result<(), RecordsError> {
    let Reading {
        records,
        sink,
        edges,
        ..
    } = reading;
    for (gpu, session) in &imported.sessions {
        // Process rows may precede the first row of their GPU.
        if old.contains(session.from) || (is_first && session.from < old.from()) {
            sink.push(&OldSession { gpu, session });
        }
    }
    let mut mine = Vec::new();
    records.sessions(part, &mut |session: &Session| {
        let reaches = is_first && *edges == Edges::Cut && session.from < part.from();
        if part.contains(session.from) || reaches {
            mine.push(session.clone());
        }
    })?;
    mine.sort_by(|one, other| (one.from, &one.key).cmp(&(other.from, &other.key)));
    for session in &mine {
        sink.push(&OwnSession {
            gpu: &session.key.gpu,
            session,
        });
    }
    sink.check()
}
