//! Builds a snapshot from a sample. The form cannot represent a missing utilisation, a missing amount of memory or a
//! MIG instance, and no values are invented for them. Such a GPU is left out, the snapshot is `partial` with the reason
//! in `errors`, and the caller receives the list of GPUs that were left out.

use std::collections::HashMap;

use gua_model::usage_state::{UsageState, UsageTracker};
use gua_model::{Bytes, Gpu, GpuUuid, Missing, Place, Process, Sample};

use super::{
    CollectionStatus, ErrorCode, Form, Host, ProcessType, SchemaVersion, Snapshot, SnapshotGpu,
    SnapshotProcess, stamp,
};
use crate::users::{UNKNOWN, UserPolicy};

/// `usageState` of each GPU that has one.
pub type UsageStates = HashMap<GpuUuid, UsageState>;

/// Adds one tick to the tracker. A single sample, as in `sync-once`, uses a new tracker; a daemon keeps its own.
pub fn usage_states(tracker: &mut UsageTracker, sample: &Sample) -> UsageStates {
    let seen = sample.gpus.iter();
    seen.filter_map(|gpu| Some((gpu.uuid.clone(), tracker.see(gpu)?)))
        .collect()
}

/// The sending host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About<'a> {
    pub hostname: &'a str,
    pub agent_version: &'a str,
    pub host_id: Option<&'a str>,
    pub display_name: Option<&'a str>,
}

impl About<'_> {
    pub(super) fn host(&self, driver: Option<&str>) -> Host {
        Host {
            hostname: self.hostname.to_owned(),
            agent_version: self.agent_version.to_owned(),
            driver_version: known(driver),
            host_id: self.host_id.map(str::to_owned),
            display_name: self.display_name.map(str::to_owned),
        }
    }
}

/// Inputs of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    pub about: About<'a>,
    pub sample: &'a Sample,
    pub usage: &'a UsageStates,
    pub users: &'a UserPolicy,
    pub form: Form,
}

/// A snapshot, and the GPUs that it cannot represent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    pub snapshot: Snapshot,
    pub left_out: Vec<LeftOut>,
}

/// A GPU of the host that is missing from the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The driver's index of the GPU.
    pub index: u32,
    pub why: Unrepresentable,
}

/// Reason why a GPU cannot be represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrepresentable {
    #[error("its total memory is unknown ({0})")]
    NoTotalMemory(Missing),
    #[error("its total memory is less than a megabyte")]
    ZeroTotalMemory,
    #[error("its used memory is unknown ({0})")]
    NoUsedMemory(Missing),
    #[error("its utilisation is unknown ({0})")]
    NoUtil(Missing),
    #[error("it is divided into MIG instances, which a snapshot cannot represent")]
    Divided,
    #[error("the driver returned no UUID")]
    Unnamed,
}

/// The host has GPUs, and none of them can be represented. The caller can send [`Snapshot::error_heartbeat`] instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no GPU can be represented: {}", .0.iter().map(|gpu| format!("gpu {}: {}", gpu.index, gpu.why)).collect::<Vec<_>>().join("; "))]
pub struct BuildError(pub Vec<LeftOut>);

impl Observed<'_> {
    /// Builds the snapshot.
    ///
    /// # Errors
    /// If there are GPUs and none of them can be represented.
    pub fn build(&self) -> Result<Built, BuildError> {
        let mut left_out = Vec::new();
        let mut gpus = Vec::new();
        let mut lists_read = true;
        for gpu in physical_gpus(self.sample) {
            match self.gpu(gpu) {
                Ok(shown) => {
                    gpus.push(shown);
                    lists_read &= self.lists_read(gpu);
                }
                Err(why) => left_out.push(LeftOut {
                    index: gpu.index,
                    why,
                }),
            }
        }
        left_out.extend(unnamed(self.sample));
        if gpus.is_empty() && !left_out.is_empty() {
            return Err(BuildError(left_out));
        }
        let mut errors = Vec::new();
        if !lists_read {
            errors.push(ErrorCode::ProcessListUnavailable.as_str().to_owned());
        }
        if !left_out.is_empty() {
            errors.push(ErrorCode::GpuReadingUnavailable.as_str().to_owned());
        }
        let collection_status = if errors.is_empty() {
            CollectionStatus::Ok
        } else {
            CollectionStatus::Partial
        };
        let snapshot = Snapshot {
            schema_version: SchemaVersion::V1,
            collection_status,
            observed_at: stamp(self.sample.at),
            host: self.about.host(self.sample.driver.version.as_deref().ok()),
            gpus,
            errors,
        };
        Ok(Built { snapshot, left_out })
    }

    fn gpu(&self, gpu: &Gpu) -> Result<SnapshotGpu, Unrepresentable> {
        if !gpu.place.counts() {
            return Err(Unrepresentable::Divided);
        }
        let total = gpu
            .memory_total
            .map_err(Unrepresentable::NoTotalMemory)?
            .whole_mb();
        if total == 0 {
            return Err(Unrepresentable::ZeroTotalMemory);
        }
        // Including the driver's reserved memory: the old NVML call, which gpu-usage-audit uses, does not separate the two.
        let used = gpu
            .memory_used_with_reserved()
            .map_err(Unrepresentable::NoUsedMemory)?
            .whole_mb();
        let processes = gpu.processes.iter();
        let usage = self.usage.get(&gpu.uuid).copied();
        Ok(SnapshotGpu {
            index: gpu.index,
            uuid: gpu.uuid.as_str().to_owned(),
            name: known(gpu.name.as_deref().ok()),
            memory_total_mb: total,
            util_pct: gpu.util.map_err(Unrepresentable::NoUtil)?.get(),
            memory_used_mb: used.min(total),
            temperature_c: (gpu.temperature.ok()).map(|heat| heat.0.max(0).unsigned_abs()),
            power_w: gpu.power.ok().map(|power| power.0 / 1000),
            processes: processes.filter_map(|one| self.process(one)).collect(),
            usage_state: match self.form {
                Form::V1_1 => None,
                Form::V1_4 => usage,
            },
        })
    }

    fn process(&self, process: &Process) -> Option<SnapshotProcess> {
        if process.pid.0 == 0 {
            return None;
        }
        let memory = process.memory.ok().map(Bytes::whole_mb);
        let kind = match self.form {
            // The old form has neither graphics-only processes nor processes whose memory the driver hides.
            Form::V1_1 if !process.kind.computes() || memory.is_none() => return None,
            Form::V1_1 => None,
            Form::V1_4 if process.kind.computes() => Some(ProcessType::Compute),
            Form::V1_4 => Some(ProcessType::Graphics),
        };
        let identity = process.identity.as_ref().ok();
        let login = identity.and_then(|identity| identity.login.as_ref().ok()?.as_ref());
        let login = login.and_then(|user| user.name.as_deref());
        let user = login
            .filter(|name| !name.is_empty())
            .and_then(|name| self.users.apply(name));
        let comm = identity.and_then(|identity| identity.comm.as_deref().ok());
        Some(SnapshotProcess {
            pid: process.pid.0,
            linux_user: known(user.as_deref()),
            name: known(comm),
            kind,
            memory_used_mb: memory,
        })
    }

    /// Whether the process lists that this form uses could be read.
    fn lists_read(&self, gpu: &Gpu) -> bool {
        gpu.compute_list.is_ok() && (self.form == Form::V1_1 || gpu.graphics_list.is_ok())
    }
}

/// Returns the GPUs of a sample without MIG instances.
pub(crate) fn physical_gpus(sample: &Sample) -> impl Iterator<Item = &Gpu> {
    let gpus = sample.gpus.iter();
    gpus.filter(|gpu| !matches!(gpu.place, Place::Instance { .. }))
}

/// Returns the GPUs for which the driver returned an index but no UUID. Several calls may have failed on one GPU.
fn unnamed(sample: &Sample) -> Vec<LeftOut> {
    let problems = sample.problems.iter();
    let mut numbers: Vec<u32> = problems
        .filter(|problem| problem.gpu.is_none())
        .filter_map(|problem| problem.index)
        .filter(|index| physical_gpus(sample).all(|gpu| gpu.index != *index))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let left_out = |index| LeftOut {
        index,
        why: Unrepresentable::Unnamed,
    };
    numbers.into_iter().map(left_out).collect()
}

fn known(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty())
        .unwrap_or(UNKNOWN)
        .to_owned()
}
