//! One sample as JSON: `gua doctor --sample`, and the parts of a sample that `gua explain` shows. The name of every reading
//! contains its unit; a missing reading is null, with the reason under `missing`. There is no command line, because a sample
//! contains none.

use std::collections::BTreeMap;

use gua_model::readings::Shown;
use gua_model::sample::Slice;
use gua_model::window::EDGES;
use gua_model::{
    CountGraphics, Evidence, Gpu, Identity, Missing, Owner, OwnerKey, Percent, Place, Problem,
    Process, READINGS, Reading, RollUp, Sample, State, Thresholds, User, UtilWindow, Verdict,
    classify,
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::document::{documents, sorted};

/// Format name of [`SampleDocument`].
pub const SCHEMA: &str = "gua.sample.v1";

/// A sample as JSON, with the state of each GPU under these thresholds.
pub fn json(sample: &Sample, thresholds: &Thresholds) -> String {
    sorted(&SampleDocument::new(sample, thresholds))
}

documents! {
    /// Output of `gua doctor --sample`. Keys may be added under the same version; none changes its meaning.
    pub struct SampleDocument from (sample: &Sample, thresholds: &Thresholds) {
        schema_version: u32 = 1,
        at: Timestamp = sample.at,
        since_boot_seconds: f64 = sample.since_boot.as_secs_f64(),
        boot_id: Option<String> = sample.boot.as_ref().ok().map(ToString::to_string),
        driver_version: Option<String> = sample.driver.version.clone().ok(),
        cuda_version: Option<String> =
            sample.driver.cuda.as_ref().ok().map(|(major, minor)| format!("{major}.{minor}")),
        gpus: Vec<GpuDocument> = {
            // A single sample has no idle floor, so `stalled` is never reported here.
            let verdict = |gpu: &Gpu| classify(gpu, thresholds, None);
            sample.gpus.iter().map(|gpu| GpuDocument::new(gpu, &verdict(gpu))).collect()
        },
        problems: Vec<ProblemDocument> = sample.problems.iter().map(ProblemDocument::new).collect(),
        missing: Reasons = Reasons::of([
            ("boot_id", sample.boot.as_ref().err()),
            ("driver_version", sample.driver.version.as_ref().err()),
            ("cuda_version", sample.driver.cuda.as_ref().err()),
        ]),
    }

    /// A GPU or a MIG instance with all its readings.
    struct GpuDocument from (gpu: &Gpu, verdict: &Verdict) {
        uuid: String = gpu.uuid.to_string(),
        index: u32 = gpu.index,
        #[serde(flatten)]
        place: PlaceDocument = PlaceDocument::new(&gpu.place),
        /// False for a GPU whose MIG instances are counted in its place.
        counts_as_capacity: bool = gpu.place.counts(),
        name: Option<String> = gpu.name.clone().ok(),
        /// The driver's sample buffer.
        util_window: Option<WindowDocument> = gpu.window.as_ref().ok().map(WindowDocument::new),
        #[serde(flatten)]
        #[schemars(with = "BTreeMap<String, Value>")]
        readings: BTreeMap<&'static str, Option<Shown>> =
            READINGS.iter().map(|kind| (kind.json, (kind.shown)(gpu).ok())).collect(),
        processes: Vec<ProcessDocument> = gpu.processes.iter().map(ProcessDocument::new).collect(),
        /// One of the states in docs/states.md; null for a GPU whose instances are counted in its place.
        state: Option<&'static str> = state(gpu, verdict).map(State::as_str),
        roll_up: Option<&'static str> = state(gpu, verdict).and_then(State::roll_up).map(RollUp::as_str),
        evidence: EvidenceDocument = EvidenceDocument::new(&verdict.evidence),
        missing: Reasons = gpu_reasons(gpu),
    }

    /// A process on the GPU.
    pub(crate) struct ProcessDocument from (process: &Process) {
        pid: u32 = process.pid.0,
        /// `compute`, `graphics` or `both`.
        kind: &'static str = process.kind.as_str(),
        memory_used_bytes: Option<u64> = process.memory.ok().map(|bytes| bytes.0),
        /// Null without a reason if the driver has no sample of the process, as for any idle process.
        sm_util_percent: Option<u8> = process.sm_util.ok().flatten().map(Percent::get),
        /// Start time in the kernel's ticks since boot.
        start_ticks: Option<u64> = identity(process).map(|it| it.key.start.0),
        owner: Option<OwnerDocument> = owner_of(process).ok().map(|owner| OwnerDocument::new(&owner.who)),
        /// Rule by which the owner was found: `login`, `process`, `job`, `pod`, `container` or `rule`.
        owner_source: Option<&'static str> = owner_of(process).ok().map(|owner| owner.source.as_str()),
        login_user: Option<UserDocument> =
            identity(process).and_then(|it| Some(UserDocument::new(it.login.as_ref().ok()?.as_ref()?))),
        /// A login uid that is set and does not count.
        claimed_login: Option<UserDocument> =
            identity(process).and_then(|it| Some(UserDocument::new(it.claimed_login.as_ref()?))),
        process_user: Option<UserDocument> =
            identity(process).and_then(|it| Some(UserDocument::new(it.own.as_ref().ok()?))),
        comm: Option<String> = identity(process).and_then(|it| it.comm.clone().ok()),
        container: Option<String> = identity(process).and_then(|it| Some(it.workload.container.as_ref()?.to_string())),
        pod: Option<String> = identity(process).and_then(|it| Some(it.workload.pod.as_ref()?.to_string())),
        job: Option<String> = identity(process).and_then(|it| Some(it.workload.job.as_ref()?.to_string())),
        missing: Reasons = process_reasons(process),
    }

    /// Facts that decided a state.
    pub(crate) struct EvidenceDocument from (evidence: &Evidence) {
        thresholds: ThresholdsDocument = ThresholdsDocument::new(&evidence.thresholds),
        util_percent: Option<u8> = evidence.util.ok().map(Percent::get),
        power_milliwatts: Option<u64> = evidence.power.ok().map(|power| power.0),
        idle_floor_milliwatts: Option<u64> = evidence.idle_floor.map(|floor| floor.0),
        holders: u32 = evidence.holders,
        holders_gone: u32 = evidence.gone,
        holders_with_hidden_memory: u32 = evidence.hidden_memory,
        held_bytes: u64 = evidence.held.0,
        processes: u32 = evidence.processes,
        unobserved: Option<&'static str> = evidence.unobserved.map(Missing::as_str),
        missing: Reasons = Reasons::of([
            ("util_percent", evidence.util.as_ref().err()),
            ("power_milliwatts", evidence.power.as_ref().err()),
        ]),
    }

    pub(crate) struct ThresholdsDocument from (thresholds: &Thresholds) {
        active_util_percent: u8 = thresholds.active_util.get(),
        held_mb: u64 = thresholds.held_mb,
        count_graphics: bool = thresholds.count_graphics == CountGraphics::Yes,
    }

    /// Utilisation samples of the driver since the last read.
    pub(crate) struct WindowDocument from (window: &UtilWindow) {
        samples: u64 = window.samples(),
        junk_samples: u32 = window.junk,
        mean_percent: Option<f64> = window.mean(),
        max_percent: Option<u8> = window.max.map(Percent::get),
        covered_seconds: f64 = window.covered.as_secs_f64(),
        /// Ranges with samples, by their lower edge.
        histogram: Vec<BinDocument> = {
            let bins = EDGES.iter().zip(window.histogram.bins);
            let filled = bins.filter(|(_, samples)| *samples > 0);
            filled.map(|(edge, samples)| BinDocument::new(*edge, samples)).collect()
        },
    }

    pub(crate) struct BinDocument from (edge: u8, count: u32) {
        from_percent: u8 = edge,
        samples: u32 = count,
    }

    /// A failed call of the driver.
    pub(crate) struct ProblemDocument from (problem: &Problem) {
        gpu_uuid: Option<String> = problem.gpu.as_ref().map(ToString::to_string),
        index: Option<u32> = problem.index,
        call: String = problem.call.clone(),
        code: Option<i64> = problem.code.map(i64::from),
        /// `unsupported`, `denied`, `gone` or `failed`.
        why: &'static str = problem.why.as_str(),
        text: String = problem.text.clone(),
    }

    /// A user, or an owner without a uid: a container, a pod, or the owner of a rule.
    pub(crate) struct OwnerDocument from (owner: &OwnerKey) {
        uid: Option<u32> = owner.uid().map(|uid| uid.0),
        name: Option<String> = match owner {
            OwnerKey::User(user) => user.name.clone(),
            other => Some(other.shown().into_owned()),
        },
    }

    pub(crate) struct UserDocument from (user: &User) {
        uid: u32 = user.uid.0,
        name: Option<String> = user.name.clone(),
    }

    /// Compute slices of an instance, and of its whole GPU.
    struct SliceDocument from (slice: &Slice) {
        slices: u32 = slice.slices,
        of: u32 = slice.of,
    }
}

/// Whether a GPU is divided into MIG instances, or is one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "place", rename_all = "lowercase")]
enum PlaceDocument {
    Whole,
    Parent {
        instances: u32,
    },
    Instance {
        parent_uuid: String,
        gpu_instance: Option<u32>,
        compute_instance: Option<u32>,
        slice: Option<SliceDocument>,
    },
}

impl PlaceDocument {
    fn new(place: &Place) -> Self {
        match place {
            Place::Whole => Self::Whole,
            Place::Parent { instances } => Self::Parent {
                instances: *instances,
            },
            Place::Instance {
                parent,
                gpu_instance,
                compute_instance,
                slice,
            } => Self::Instance {
                parent_uuid: parent.to_string(),
                gpu_instance: gpu_instance.ok(),
                compute_instance: compute_instance.ok(),
                slice: slice.as_ref().ok().map(SliceDocument::new),
            },
        }
    }
}

/// Why a key is null: `unsupported`, `denied`, `gone` or `failed`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Reasons(BTreeMap<&'static str, &'static str>);

impl Reasons {
    fn of<'a>(keys: impl IntoIterator<Item = (&'static str, Option<&'a Missing>)>) -> Self {
        let known = keys.into_iter();
        Self(
            known
                .filter_map(|(key, why)| Some((key, why?.as_str())))
                .collect(),
        )
    }
}

fn state(gpu: &Gpu, verdict: &Verdict) -> Option<State> {
    gpu.place.counts().then_some(verdict.state)
}

fn gpu_reasons(gpu: &Gpu) -> Reasons {
    let mut missing = Reasons::of([
        ("name", gpu.name.as_ref().err()),
        ("util_window", gpu.window.as_ref().err()),
    ]);
    for kind in READINGS {
        missing
            .0
            .extend((kind.shown)(gpu).err().map(|why| (kind.json, why.as_str())));
    }
    if let Place::Instance {
        gpu_instance,
        compute_instance,
        slice,
        ..
    } = &gpu.place
    {
        let place = Reasons::of([
            ("gpu_instance", gpu_instance.as_ref().err()),
            ("compute_instance", compute_instance.as_ref().err()),
            ("slice", slice.as_ref().err()),
        ]);
        missing.0.extend(place.0);
    }
    missing
}

pub(crate) fn identity(process: &Process) -> Option<&Identity> {
    process.identity.as_ref().ok()
}

/// The owner of a process, or why it is not known.
fn owner_of(process: &Process) -> Reading<Owner> {
    let identity = process.identity.as_ref().map_err(|why| *why)?;
    // Without an owner, the process's user could not be read either; its reason applies.
    let why = identity.own.as_ref().err().copied();
    identity.owner().ok_or(why.unwrap_or(Missing::Failed))
}

fn process_reasons(process: &Process) -> Reasons {
    let owner = owner_of(process);
    let mut missing = Reasons::of([
        ("memory_used_bytes", process.memory.as_ref().err()),
        ("sm_util_percent", process.sm_util.as_ref().err()),
        ("owner", owner.as_ref().err()),
        ("owner_source", owner.as_ref().err()),
    ]);
    let identity = match &process.identity {
        Ok(identity) => Reasons::of([
            ("login_user", identity.login.as_ref().err()),
            ("process_user", identity.own.as_ref().err()),
            ("comm", identity.comm.as_ref().err()),
        ]),
        Err(why) => {
            let keys = "start_ticks login_user claimed_login process_user comm container pod job";
            let keys = keys.split(' ');
            Reasons::of(keys.map(|key| (key, Some(why))))
        }
    };
    missing.0.extend(identity.0);
    missing
}

#[cfg(test)]
mod tests;
