//! One row for each session: a process that held a GPU, with its start and end.

use gua_model::{
    Bytes, CardQuarter, GpuUuid, ImportedSession, OpenSessions, Period, Quarter, Session,
    UtilSource,
};
use jiff::Timestamp;

use super::processes::kind_word;
use super::{IMPORTED, OWN, Reading, micros, signed, workload_columns};
use crate::column::{about, columns};
use crate::error::ExportError;
use crate::names::Names;
use crate::run::Edges;

columns! {
    /// One process holding one GPU.
    SessionRow {
        began_at: Time = "Time of its first tick.",
        ended_at: Time = "End of its last tick; the latest so far if it is open.",
        host: Text = about::HOST,
        source: Text = about::SOURCE,
        gpu_uuid: Text = about::GPU,
        gpu_index: Int = about::INDEX_LAST,
        gpu_name: Text = about::GPU_NAME,
        mig_parent_uuid: Text = about::MIG_PARENT,
        pid: Int = about::PID,
        started_ticks: Int = "Start time in the kernel's ticks since boot.",
        user: Text = about::USER_OF_PROCESS,
        uid: Int = about::UID,
        user_source: Text = about::USER_SOURCE,
        process: Text = about::PROCESS,
        kind: Text = about::KIND,
        job: Text = about::JOB,
        pod: Text = about::POD,
        container: Text = about::CONTAINER,
        ticks: Int = "Number of its ticks.",
        observed_us: Int = "Time in which the GPU's state was observed.",
        active_us: Int = "Of that, with the GPU active.",
        idle_held_us: Int = "Of that, with the GPU idle-held.",
        unobserved_us: Int = "Unobserved time between start and end.",
        util_mean_percent: Float = "Mean utilisation.",
        util_of: Text = "Source of that value: `process` (its own) or `gpu`.",
        peak_memory_bytes: Int = "Maximum memory at any tick.",
        is_shared: Bool = "Whether another process held the GPU at some of its ticks.",
        is_open: Bool = "Whether it may still be open.",
    }
}

/// Sessions of imported rows; they are folded once, and kept until their day comes.
#[derive(Debug, Default)]
pub(crate) struct OldSessions {
    /// Latest first.
    waiting: Vec<(GpuUuid, ImportedSession)>,
}

impl OldSessions {
    pub(crate) fn read(reading: &Reading<'_>, window: Period) -> Result<Self, ExportError> {
        let mut open = OpenSessions::default();
        let mut waiting = Vec::new();
        let mut keep = |gpu: &GpuUuid, session: &ImportedSession| {
            waiting.push((gpu.clone(), session.clone()));
        };
        let mut join = |quarter: Quarter, gpus: &[CardQuarter]| {
            open.push_quarter(quarter.period().from(), gpus, &mut keep);
        };
        let thresholds = reading.thresholds;
        reading
            .history
            .imported(window, thresholds, None, &mut join)?;
        open.finish(&mut keep);
        waiting.sort_by(|(one_gpu, one), (other_gpu, other)| {
            (other.from, other_gpu, other.pid).cmp(&(one.from, one_gpu, one.pid))
        });
        Ok(Self { waiting })
    }

    /// Calls `each` with the sessions that begin before a time, the earliest first.
    fn until(&mut self, to: Timestamp, mut each: impl FnMut(&GpuUuid, &ImportedSession)) {
        while let Some((gpu, session)) = self.waiting.pop_if(|(_, session)| session.from < to) {
            each(&gpu, &session);
        }
    }
}

/// Writes the sessions that begin in a part of the window; with its first part, also those that reach into it.
pub(crate) fn rows(
    reading: &mut Reading<'_>,
    old: &mut OldSessions,
    (part, is_first, is_last): (Period, bool, bool),
) -> Result<u32, ExportError> {
    let Reading {
        history,
        names,
        sink,
        edges,
        ..
    } = reading;
    let to = if is_last { Timestamp::MAX } else { part.to() };
    old.until(to, |gpu, session| {
        sink.push(&SessionRow {
            host: names.host(),
            gpu_uuid: Some(gpu.as_str()),
            gpu_name: names.gpu_name(gpu),
            ..of_old(session)
        });
    });
    let mut mine = Vec::new();
    history.each_session(part, |session| {
        let reaches = is_first && *edges == Edges::Cut && session.from < part.from();
        if part.contains(session.from) || reaches {
            mine.push(session.clone());
        }
    })?;
    mine.sort_by(|one, other| (one.from, &one.key).cmp(&(other.from, &other.key)));
    for session in &mine {
        names.look_up(session.owner.as_ref().map(|owner| owner.user.uid));
        sink.push(&of_own(session, names));
    }
    sink.settle(Ok(0))
}

fn of_own<'a>(session: &'a Session, names: &'a Names) -> SessionRow<'a> {
    let gpu = &session.key.gpu;
    let owner = session.owner.as_ref();
    let util = session.util();
    let [job, pod, container] = workload_columns(Some(&session.workload));
    SessionRow {
        began_at: Some(session.from),
        ended_at: Some(session.to),
        host: names.host(),
        source: Some(OWN),
        gpu_uuid: Some(gpu.as_str()),
        gpu_index: names.gpu_index(gpu),
        gpu_name: names.gpu_name(gpu),
        mig_parent_uuid: session.parent.as_ref().map(|parent| parent.as_str()),
        pid: Some(session.key.process.pid.0.into()),
        started_ticks: Some(signed(session.key.process.start.0)),
        user: names.person(owner.map(|owner| owner.user.uid)),
        uid: owner.map(|owner| owner.user.uid.0.into()),
        user_source: owner.map(|owner| owner.source.as_str()),
        process: session.comm.as_deref().ok(),
        kind: Some(kind_word(session.kind)),
        job,
        pod,
        container,
        ticks: Some(signed(session.ticks)),
        observed_us: Some(micros(session.observed)),
        active_us: Some(micros(session.active)),
        idle_held_us: Some(micros(session.idle_held)),
        unobserved_us: Some(micros(session.unobserved())),
        util_mean_percent: util.map(|(util, _)| f64::from(util.0) / 100.0),
        util_of: util.map(|(_, source)| match source {
            UtilSource::Process => "process",
            UtilSource::Card => "gpu",
        }),
        peak_memory_bytes: session.peak_memory.ok().map(|memory| signed(memory.0)),
        is_shared: Some(session.shared),
        is_open: Some(session.open),
        ..SessionRow::default()
    }
}

fn of_old(session: &ImportedSession) -> SessionRow<'_> {
    SessionRow {
        began_at: Some(session.from),
        ended_at: Some(session.end(None)),
        source: Some(IMPORTED),
        gpu_index: session.index,
        pid: Some(session.pid),
        user: session.owner.as_deref(),
        process: session.name.as_deref(),
        ticks: Some(signed(session.samples)),
        util_mean_percent: session.util(),
        util_of: session.util().map(|_| "gpu"),
        peak_memory_bytes: session.peak_mb.map(|mb| signed(Bytes::from_mb(mb).0)),
        is_shared: Some(session.shared),
        is_open: Some(false),
        ..SessionRow::default()
    }
}
