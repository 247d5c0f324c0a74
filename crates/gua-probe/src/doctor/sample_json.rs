//! One sample as JSON. The name of every reading contains its unit; a missing reading is `null`, with the reason under
//! `missing`. There is no command line, because a sample contains none.

use gua_model::sample::Slice;
use gua_model::window::EDGES;
use gua_model::{
    ContainerId, CountGraphics, Evidence, Gpu, GpuUuid, Histogram, Identity, Missing, Percent,
    Place, PodUid, Problem, Process, ProcessKind, READINGS, Reading, RollUp, Sample, SlurmJob,
    State, Thresholds, User, UtilWindow, classify,
};
use serde_json::{Map, Value, json};

/// Version of this JSON. New keys do not change it; no key changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// Returns the sample, with the state of each GPU under these thresholds.
#[must_use]
pub fn sample(sample: &Sample, thresholds: &Thresholds) -> Value {
    let mut record = Record::default();
    record.put("schema_version", SCHEMA_VERSION);
    record.put("at", sample.at.to_string());
    record.put("since_boot_seconds", sample.since_boot.as_secs_f64());
    record.reading("boot_id", &sample.boot, |boot| boot.to_string().into());
    let driver = &sample.driver;
    record.reading("driver_version", &driver.version, |version| json!(version));
    record.reading("cuda_version", &driver.cuda, |(major, minor)| {
        format!("{major}.{minor}").into()
    });
    record.list("gpus", &sample.gpus, |one| gpu(one, thresholds));
    record.list("problems", &sample.problems, problem);
    record.finish()
}

/// An object under construction. `missing` contains the reason for each `null`.
#[derive(Default)]
struct Record {
    values: Map<String, Value>,
    missing: Map<String, Value>,
}

impl Record {
    fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.values.insert(key.to_owned(), value.into());
    }

    fn list<T>(&mut self, key: &str, items: &[T], show: impl Fn(&T) -> Value) {
        self.put(key, items.iter().map(show).collect::<Vec<_>>());
    }

    fn reading<T>(&mut self, key: &str, reading: &Reading<T>, show: impl FnOnce(&T) -> Value) {
        let value = match reading {
            Ok(value) => show(value),
            Err(why) => {
                self.missing.insert(key.to_owned(), why.as_str().into());
                Value::Null
            }
        };
        self.values.insert(key.to_owned(), value);
    }

    fn finish(mut self) -> Value {
        self.values
            .insert("missing".to_owned(), self.missing.into());
        self.values.into()
    }
}

fn gpu(gpu: &Gpu, thresholds: &Thresholds) -> Value {
    let mut record = Record::default();
    record.put("uuid", gpu.uuid.as_str());
    record.put("index", gpu.index);
    place(&mut record, &gpu.place);
    record.put("counts_as_capacity", gpu.place.counts());
    record.reading("name", &gpu.name, |name| name.clone().into());
    record.reading("util_window", &gpu.window, window);
    for kind in READINGS {
        record.reading(kind.json, &(kind.shown)(gpu), |shown| json!(shown));
    }
    record.list("processes", &gpu.processes, process);
    // A single sample has no idle floor, so `stalled` is never reported here.
    let verdict = classify(gpu, thresholds, None);
    // A GPU whose instances are counted in its place has no state.
    let state = gpu.place.counts().then_some(verdict.state);
    record.put("state", state.map(State::as_str));
    let roll_up = state.and_then(State::roll_up);
    record.put("roll_up", roll_up.map(RollUp::as_str));
    record.put("evidence", evidence(&verdict.evidence));
    record.finish()
}

fn place(record: &mut Record, place: &Place) {
    match place {
        Place::Whole => record.put("place", "whole"),
        Place::Parent { instances } => {
            record.put("place", "parent");
            record.put("instances", *instances);
        }
        Place::Instance {
            parent,
            gpu_instance,
            compute_instance,
            slice,
        } => {
            record.put("place", "instance");
            record.put("parent_uuid", parent.as_str());
            record.reading("gpu_instance", gpu_instance, |number| json!(number));
            record.reading("compute_instance", compute_instance, |number| json!(number));
            let show = |slice: &Slice| json!({ "slices": slice.slices, "of": slice.of });
            record.reading("slice", slice, show);
        }
    }
}

#[must_use]
pub fn window(window: &UtilWindow) -> Value {
    json!({
        "samples": window.samples(),
        "junk_samples": window.junk,
        "mean_percent": window.mean(),
        "max_percent": window.max.map(Percent::get),
        "covered_seconds": window.covered.as_secs_f64(),
        "histogram": histogram(&window.histogram),
    })
}

/// Returns the number of samples in each range, by the range's lower edge; empty ranges are omitted.
fn histogram(histogram: &Histogram) -> Value {
    let bins = EDGES.iter().zip(histogram.bins);
    let filled = bins.filter(|(_, samples)| *samples > 0);
    filled
        .map(|(edge, samples)| json!({ "from_percent": edge, "samples": samples }))
        .collect()
}

#[must_use]
pub fn process(process: &Process) -> Value {
    let mut record = Record::default();
    record.put("pid", process.pid.0);
    let kind = match process.kind {
        ProcessKind::Compute => "compute",
        ProcessKind::Graphics => "graphics",
        ProcessKind::Both => "both",
    };
    record.put("kind", kind);
    record.reading("memory_used_bytes", &process.memory, |bytes| bytes.0.into());
    // `null` without a reason: the driver has no sample of the process, as for any idle process.
    let percent = |util: &Option<Percent>| util.map(Percent::get).into();
    record.reading("sm_util_percent", &process.sm_util, percent);
    match &process.identity {
        Ok(identity) => known(&mut record, identity),
        Err(why) => unknown(&mut record, *why),
    }
    record.finish()
}

fn known(record: &mut Record, identity: &Identity) {
    record.put("start_ticks", identity.key.start.0);
    // Without an owner, the process's user could not be read either; its reason applies.
    let why = identity.own.as_ref().err().copied();
    let owner = identity.owner().ok_or(why.unwrap_or(Missing::Failed));
    record.reading("owner", &owner, |owner| user(&owner.user));
    record.reading("owner_source", &owner, |owner| owner.source.as_str().into());
    record.reading("login_user", &identity.login, |login| {
        login.as_ref().map(user).into()
    });
    record.reading("process_user", &identity.own, user);
    record.reading("comm", &identity.comm, |comm| comm.clone().into());
    let workload = &identity.workload;
    let container = workload.container.as_ref();
    record.put("container", container.map(ContainerId::as_str));
    record.put("pod", workload.pod.as_ref().map(PodUid::as_str));
    record.put("job", workload.job.as_ref().map(SlurmJob::as_str));
}

fn unknown(record: &mut Record, why: Missing) {
    let keys =
        "start_ticks owner owner_source login_user process_user comm container pod job".split(' ');
    for key in keys {
        record.reading(key, &Err::<(), _>(why), |()| Value::Null);
    }
}

fn user(user: &User) -> Value {
    json!({ "uid": user.uid.0, "name": user.name })
}

#[must_use]
pub fn evidence(evidence: &Evidence) -> Value {
    let mut record = Record::default();
    let thresholds = &evidence.thresholds;
    let limits = json!({
        "active_util_percent": thresholds.active_util.get(),
        "held_mb": thresholds.held_mb,
        "count_graphics": thresholds.count_graphics == CountGraphics::Yes,
    });
    record.put("thresholds", limits);
    record.reading("util_percent", &evidence.util, |util| util.get().into());
    record.reading("power_milliwatts", &evidence.power, |power| power.0.into());
    let floor = evidence.idle_floor.map(|floor| floor.0);
    record.put("idle_floor_milliwatts", floor);
    record.put("holders", evidence.holders);
    record.put("holders_gone", evidence.gone);
    record.put("holders_with_hidden_memory", evidence.hidden_memory);
    record.put("held_bytes", evidence.held.0);
    record.put("processes", evidence.processes);
    record.put("unobserved", evidence.unobserved.map(Missing::as_str));
    record.finish()
}

#[must_use]
pub fn problem(problem: &Problem) -> Value {
    json!({
        "gpu_uuid": problem.gpu.as_ref().map(GpuUuid::as_str),
        "index": problem.index,
        "call": problem.call,
        "code": problem.code,
        "why": problem.why.as_str(),
        "text": problem.text,
    })
}

#[cfg(test)]
mod tests;
