//! The live state of a host whose agent sends snapshots only.

use gua_model::pick::{Criteria, LastUse};
use gua_model::{
    Bytes, Celsius, Gpu, GpuUuid, Milliwatts, Missing, Percent, Pid, Process, ProcessKind,
};
use jiff::Timestamp;

use super::build::live_gpu;
use super::{LiveGpu, LiveHost, LiveReport, LiveVersion};
use crate::snapshot::{ErrorCode, ProcessType, Snapshot, SnapshotGpu, SnapshotProcess};
use crate::users::UNKNOWN;

impl LiveReport {
    /// Converts a snapshot with the default rule of `gua available`. A GPU without a valid UUID is left out.
    pub fn from_snapshot(snapshot: &Snapshot, observed_at: Timestamp) -> Self {
        let error = ErrorCode::ProcessListUnavailable.as_str();
        let is_partial = snapshot.errors.iter().any(|code| code == error);
        let host = &snapshot.host;
        let gpus = snapshot.gpus.iter();
        Self {
            schema_version: LiveVersion::V1,
            observed_at,
            host: LiveHost {
                hostname: host.hostname.clone(),
                agent_version: host.agent_version.clone(),
                driver_version: known(&host.driver_version),
            },
            gpus: gpus.filter_map(|sent| convert(sent, is_partial)).collect(),
            waiting: 0,
            quotas: Vec::new(),
            problems: snapshot.errors.clone(),
        }
    }
}

fn convert(sent: &SnapshotGpu, is_partial: bool) -> Option<LiveGpu> {
    let uuid: GpuUuid = sent.uuid.parse().ok()?;
    let mut gpu = Gpu::without_readings(uuid, sent.index, Missing::Unsupported);
    gpu.name = known(&sent.name).ok_or(Missing::Failed);
    gpu.util = Percent::new(sent.util_pct.into()).ok_or(Missing::Failed);
    gpu.memory_total = Ok(Bytes::from_mb(sent.memory_total_mb));
    gpu.memory_used = Ok(Bytes::from_mb(sent.memory_used_mb));
    let heat = sent.temperature_c.and_then(|heat| i32::try_from(heat).ok());
    gpu.temperature = heat.map(Celsius).ok_or(Missing::Unsupported);
    let power = sent.power_w.map(|watts| watts.saturating_mul(1000));
    gpu.power = power.map(Milliwatts).ok_or(Missing::Unsupported);
    // A partial snapshot does not name the GPU, but the GPU whose list is missing has no usage state.
    let is_list_missing = is_partial && sent.usage_state.is_none();
    gpu.compute_list = match is_list_missing {
        true => Err(Missing::Failed),
        false => Ok(()),
    };
    gpu.graphics_list = gpu.compute_list;
    gpu.processes = sent.processes.iter().map(process).collect();
    let mut live = live_gpu(&gpu, &Criteria::default(), &LastUse::new());
    for (sent, process) in sent.processes.iter().zip(&mut live.processes) {
        process.owner = known(&sent.linux_user);
        process.name = known(&sent.name);
    }
    Some(live)
}

fn process(sent: &SnapshotProcess) -> Process {
    Process {
        pid: Pid(sent.pid),
        kind: match sent.kind {
            Some(ProcessType::Graphics) => ProcessKind::Graphics,
            Some(ProcessType::Compute) | None => ProcessKind::Compute,
        },
        memory: sent
            .memory_used_mb
            .map(Bytes::from_mb)
            .ok_or(Missing::Unsupported),
        sm_util: Err(Missing::Unsupported),
        // The process exists; who it is follows from the snapshot.
        identity: Err(Missing::Denied),
    }
}

fn known(text: &str) -> Option<String> {
    (text != UNKNOWN && !text.is_empty()).then(|| text.to_owned())
}
