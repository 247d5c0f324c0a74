//! Builds a live report from a sample.

use std::collections::{HashMap, HashSet};

use gua_model::pick::{Criteria, LastUse, Obstacle, obstacle};
use gua_model::{Fault, Gpu, GpuUuid, Place, Process, Sample, classify, faults};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LiveGpu, LiveHost, LiveInstance, LiveProcess, LiveReport, LiveVersion};
use crate::snapshot::ProcessType;
use crate::users::UserPolicy;

/// A claim on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuClaim {
    /// Owner in the form that the setting `cloud.users` permits; `None` if unknown or omitted.
    pub owner: Option<String>,
    /// End of the lease.
    pub until: Option<Timestamp>,
}

/// A statement of a holder that they still need a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuKeep {
    /// Owner in the form that the setting `cloud.users` permits; `None` if omitted.
    pub owner: Option<String>,
    pub until: Timestamp,
    /// Reason in the holder's words. Only sent with plain names, because it may contain any.
    pub why: Option<String>,
}

impl GpuKeep {
    /// Returns what may leave the host of a keep.
    pub fn new(users: &UserPolicy, user: &str, until: Timestamp, why: &str) -> Self {
        Self {
            owner: users.apply(user).map(Into::into),
            until,
            why: matches!(users, UserPolicy::Plain).then(|| why.to_owned()),
        }
    }
}

/// Inputs of a live report.
#[derive(Clone, Copy, Debug)]
pub struct LiveInputs<'a> {
    pub hostname: &'a str,
    pub agent_version: &'a str,
    pub sample: &'a Sample,
    pub users: &'a UserPolicy,
    /// The rule of `gua available`, with the host's thresholds.
    pub criteria: &'a Criteria,
    pub last_use: &'a LastUse,
    pub claims: &'a HashMap<GpuUuid, GpuClaim>,
    pub keeps: &'a HashMap<GpuUuid, Vec<GpuKeep>>,
    /// Free GPUs that are kept for those who wait.
    pub kept: &'a HashSet<GpuUuid>,
    pub waiting: u32,
}

impl LiveInputs<'_> {
    /// Builds the report. It has no quotas; the caller adds them.
    pub fn build(&self) -> LiveReport {
        let sample = self.sample;
        let gpus = sample.gpus.iter().map(|gpu| {
            let mut live = live_gpu(gpu, self.criteria, self.last_use);
            for (process, live) in gpu.processes.iter().zip(&mut live.processes) {
                self.identify(process, live);
            }
            live.claim = self.claims.get(&gpu.uuid).cloned();
            live.keeps = self.keeps.get(&gpu.uuid).cloned().unwrap_or_default();
            if live.claim.is_some() {
                live.obstacle = live.obstacle.or(Some(Obstacle::Claimed.into()));
            } else if self.kept.contains(&gpu.uuid) {
                live.obstacle = live.obstacle.or(Some(Obstacle::Awaited.into()));
            }
            live
        });
        LiveReport {
            schema_version: LiveVersion::V1,
            observed_at: sample.at,
            host: LiveHost {
                hostname: self.hostname.to_owned(),
                agent_version: self.agent_version.to_owned(),
                driver_version: sample.driver.version.clone().ok(),
            },
            gpus: gpus.collect(),
            waiting: self.waiting,
            quotas: Vec::new(),
            problems: sample.problems.iter().map(ToString::to_string).collect(),
        }
    }

    fn identify(&self, process: &Process, live: &mut LiveProcess) {
        let Ok(identity) = &process.identity else {
            return;
        };
        let owner = identity.owner().map(|owner| owner.shown());
        live.owner = owner.and_then(|owner| Some(self.users.apply(&owner)?.into_owned()));
        live.name = identity.comm.clone().ok();
    }
}

/// Converts a GPU without the identities of its processes and without claims.
pub(super) fn live_gpu(gpu: &Gpu, criteria: &Criteria, last_use: &LastUse) -> LiveGpu {
    LiveGpu {
        uuid: gpu.uuid.clone(),
        index: gpu.index,
        name: gpu.name.clone().ok(),
        instance: instance(&gpu.place),
        state: classify(gpu, &criteria.thresholds, None).state,
        obstacle: obstacle(gpu, criteria, last_use).map(Into::into),
        util_percent: gpu.util.map(|util| util.get()).into(),
        memory_used_bytes: gpu.memory_used.map(|bytes| bytes.0).into(),
        memory_total_bytes: gpu.memory_total.map(|bytes| bytes.0).into(),
        temperature_celsius: gpu.temperature.map(|heat| heat.0).into(),
        power_milliwatts: gpu.power.map(|power| power.0).into(),
        health: faults(gpu).into_iter().map(Fault::kind).collect(),
        claim: None,
        keeps: Vec::new(),
        processes: gpu.processes.iter().map(live_process).collect(),
    }
}

fn live_process(process: &Process) -> LiveProcess {
    LiveProcess {
        pid: process.pid.0,
        owner: None,
        name: None,
        kind: match process.kind.computes() {
            true => ProcessType::Compute,
            false => ProcessType::Graphics,
        },
        memory_bytes: process.memory.map(|bytes| bytes.0).into(),
    }
}

fn instance(place: &Place) -> Option<LiveInstance> {
    let Place::Instance { parent, slice, .. } = place else {
        return None;
    };
    let slice = slice.ok();
    Some(LiveInstance {
        parent: parent.clone(),
        slices: slice.map(|slice| slice.slices),
        slices_of: slice.map(|slice| slice.of),
    })
}
