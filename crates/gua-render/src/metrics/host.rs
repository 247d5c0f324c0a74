//! Metric families of one host: its GPUs, its users if the settings allow it, and the collector itself.
//!
//! Labels are few: the number, the UUID and the model of a GPU. There is no label for a process, and none for a user, a job, a pod
//! or a container unless the host's settings allow it, because every new value of a label adds a time series that is kept. A missing reading has no
//! sample, so that an old value is never shown as a current one.

use std::collections::BTreeMap;
use std::time::Duration;

use gua_model::account::{Accounts, GpuAccount, PersonAccount};
use gua_model::classify::holders;
use gua_model::id::{ContainerId, PodUid, SlurmJob};
use gua_model::sample::ThrottleReasons;
use gua_model::unit::float;
use gua_model::{
    Bytes, FaultKind, GapReason, Gpu, GpuUuid, Micros, RollUp, Sample, State, Thresholds, Workload,
    classify, faults, health,
};
use jiff::Timestamp;

use super::page::{Family, Form, Labels, Page, Samples};
use crate::chart::count;

/// Everything that the metrics of a host show.
#[derive(Clone, Debug, Default)]
pub struct HostMetrics {
    pub version: &'static str,
    pub driver: Option<String>,
    pub gpus: Vec<GpuMetrics>,
    /// `None` if there is no history.
    pub accounts: Option<Accounts>,
    pub users: Names,
    /// Whether the metrics contain Slurm jobs, pods and containers.
    pub workloads: Names,
    /// Number of live claims, if they could be read.
    pub claims: Option<usize>,
    /// `None` if no daemon writes these metrics.
    pub collector: Option<CollectorMetrics>,
    /// Cost of gua's processes, with the value of their label.
    pub costs: Vec<(&'static str, Cost)>,
}

/// Whether the metrics contain names of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    Shown,
    #[default]
    Hidden,
}

/// One GPU.
#[derive(Clone, Debug)]
pub struct GpuMetrics {
    pub uuid: GpuUuid,
    /// Displayed number; a MIG instance adds its own, such as `2:1`.
    pub label: String,
    pub model: Option<String>,
    /// The latest readings; `None` while the driver does not answer.
    pub live: Option<Gpu>,
    /// `None` for a GPU that is divided into MIG instances; these have their own states.
    pub state: Option<State>,
    /// Number of processes that hold it.
    pub holders: Option<u32>,
    /// Number of holders of each job, pod and container.
    pub workloads: BTreeMap<WorkloadLabels, u32>,
    pub is_claimed: Option<bool>,
}

/// Labels of a job, pod or container. `slurm_job` is not `job`, because Prometheus uses that name for its own purpose.
const WORKLOAD_LABELS: [&str; 4] = ["namespace", "pod", "container", "slurm_job"];

/// Values of [`WORKLOAD_LABELS`]; one that does not apply is empty.
type WorkloadLabels = [String; 4];

/// Returns the labels of a workload, by names if they are known and by IDs otherwise; `None` if there is neither a job,
/// nor a pod, nor a container.
fn workload_labels(workload: &Workload) -> Option<WorkloadLabels> {
    let pod = workload.pod.as_ref().map(PodUid::as_str);
    let container = workload.container.as_ref().map(ContainerId::as_str);
    let job = workload.job.as_ref().map(SlurmJob::as_str);
    if container.is_none() && pod.is_none() && job.is_none() {
        return None;
    }
    let name = workload.pod_name.as_deref();
    let (namespace, name) = name.and_then(|name| name.split_once('/')).unzip();
    let pod = name.or(workload.pod_name.as_deref()).or(pod);
    let container = workload.container_name.as_deref().or(container);
    let labels = [namespace, pod, container, job];
    Some(labels.map(|label| label.unwrap_or_default().to_owned()))
}

/// Counts the holders of each job, pod and container.
fn workloads(gpu: &Gpu, thresholds: &Thresholds) -> BTreeMap<WorkloadLabels, u32> {
    let mut counted = BTreeMap::new();
    for process in holders(gpu, thresholds) {
        let identity = process.identity.as_ref().ok();
        let workload = identity.and_then(|identity| workload_labels(&identity.workload));
        if let Some(workload) = workload {
            *counted.entry(workload).or_default() += 1;
        }
    }
    counted
}

/// The collector that writes the metrics.
#[derive(Clone, Copy, Debug)]
pub struct CollectorMetrics {
    pub interval: Duration,
    /// Ticks of this run that were started, and those that are not in the history.
    pub ticks: u64,
    pub lost: u64,
    /// Time from the start of the last tick until it was stored.
    pub tick_time: Option<Duration>,
    pub last_tick: Option<Timestamp>,
    /// Reason why the last tick is not in the history.
    pub outage: Option<GapReason>,
}

/// Cost of a process.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub processor: Duration,
    pub memory: Bytes,
}

impl GpuMetrics {
    /// Describes a GPU of a sample.
    pub fn new(gpu: &Gpu, thresholds: &Thresholds) -> Self {
        let verdict = classify(gpu, thresholds, None);
        let counts = gpu.place.counts();
        Self {
            uuid: gpu.uuid.clone(),
            label: gpu.place.label(gpu.index),
            model: gpu.name.as_ref().ok().cloned(),
            live: Some(gpu.clone()),
            state: counts.then_some(verdict.state),
            holders: (counts && verdict.state != State::Unobserved)
                .then_some(verdict.evidence.holders),
            workloads: match counts {
                true => workloads(gpu, thresholds),
                false => BTreeMap::new(),
            },
            is_claimed: None,
        }
    }

    /// Removes the readings of a GPU that is not observed now.
    pub fn forget_readings(&mut self) {
        self.live = None;
        self.state = self.state.map(|_| State::Unobserved);
        self.holders = None;
        self.workloads.clear();
    }

    fn labels(&self) -> Labels {
        Labels::new(&[
            ("gpu", &self.label),
            ("uuid", self.uuid.as_str()),
            ("model", self.model.as_deref().unwrap_or_default()),
        ])
    }
}

impl HostMetrics {
    /// Returns the metrics of a host whose driver cannot be read.
    pub fn without_gpus(version: &'static str) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }

    /// Describes the GPUs of a sample, without accounts, claims and a collector.
    pub fn of_sample(sample: &Sample, thresholds: &Thresholds, version: &'static str) -> Self {
        let gpus = sample.gpus.iter();
        Self {
            driver: sample.driver.version.as_ref().ok().cloned(),
            gpus: gpus.map(|gpu| GpuMetrics::new(gpu, thresholds)).collect(),
            ..Self::without_gpus(version)
        }
    }

    /// Writes all families.
    pub fn text(&self, form: Form) -> String {
        let gpus = self.gpus.iter().map(|gpu| (gpu.labels(), gpu));
        let host = Host {
            metrics: self,
            gpus: gpus.collect(),
        };
        let mut page = Page::new(form);
        for (family, write) in FAMILIES {
            page.family(family, |samples| write(&host, samples));
        }
        page.finish()
    }
}

/// A host with the labels of each GPU.
pub(super) struct Host<'a> {
    metrics: &'a HostMetrics,
    gpus: Vec<(Labels, &'a GpuMetrics)>,
}

/// Shapes of families: each method writes the samples of one kind of object with its labels.
impl Host<'_> {
    fn all(&self, samples: &mut Samples<'_>, write: impl Fn(&Self, &mut Samples<'_>)) {
        write(self, samples);
    }

    /// At most one sample for each GPU.
    fn each(&self, samples: &mut Samples<'_>, value: impl Fn(&GpuMetrics) -> Option<f64>) {
        for (labels, gpu) in &self.gpus {
            if let Some(value) = value(gpu) {
                samples.add(labels, value);
            }
        }
    }

    /// GPUs with readings.
    fn live_gpus(&self) -> impl Iterator<Item = (&Labels, &Gpu)> {
        let gpus = self.gpus.iter();
        gpus.filter_map(|(labels, gpu)| Some((labels, gpu.live.as_ref()?)))
    }

    fn live(&self, samples: &mut Samples<'_>, value: impl Fn(&Gpu) -> Option<f64>) {
        self.each(samples, |gpu| value(gpu.live.as_ref()?));
    }

    fn account_of(&self, gpu: &GpuMetrics) -> Option<&GpuAccount> {
        self.metrics.accounts.as_ref()?.gpus.get(&gpu.uuid)
    }

    fn account(&self, samples: &mut Samples<'_>, value: impl Fn(&GpuAccount) -> Option<f64>) {
        self.each(samples, |gpu| value(self.account_of(gpu)?));
    }

    /// The time of each GPU, divided by the values of a label.
    fn divided(
        &self,
        samples: &mut Samples<'_>,
        parts: impl Fn(&GpuAccount) -> (&'static str, Vec<(&'static str, Micros)>),
    ) {
        for (labels, gpu) in &self.gpus {
            let (label, parts) = self.account_of(gpu).map(&parts).unwrap_or_default();
            for (name, time) in parts {
                samples.add(&labels.with(label, name), seconds(time));
            }
        }
    }

    fn person(&self, samples: &mut Samples<'_>, time: impl Fn(&PersonAccount) -> Micros) {
        let accounts = self.metrics.accounts.as_ref();
        let accounts = accounts.filter(|_| self.metrics.users == Names::Shown);
        for (name, person) in accounts.iter().flat_map(|accounts| &accounts.people) {
            samples.add(&Labels::new(&[("user", name)]), seconds(time(person)));
        }
    }

    fn collector(
        &self,
        samples: &mut Samples<'_>,
        value: impl Fn(&CollectorMetrics) -> Option<f64>,
    ) {
        samples.one(self.metrics.collector.as_ref().and_then(value));
    }

    fn cost(&self, samples: &mut Samples<'_>, value: impl Fn(&Cost) -> f64) {
        for (process, cost) in &self.metrics.costs {
            samples.add(&Labels::new(&[("process", process)]), value(cost));
        }
    }
}

/// Families with labels of their own.
impl Host<'_> {
    fn identities(&self, samples: &mut Samples<'_>) {
        let driver = self.metrics.driver.as_deref().unwrap_or_default();
        for (labels, gpu) in &self.gpus {
            let parent = gpu.live.as_ref().and_then(|gpu| gpu.place.parent());
            let parent = parent.map_or("", GpuUuid::as_str);
            let labels = labels.with("driver", driver).with("parent", parent);
            samples.add(&labels, 1.0);
        }
    }

    fn states(&self, samples: &mut Samples<'_>) {
        for (labels, gpu) in &self.gpus {
            if let Some(current) = gpu.state {
                let all = State::ALL.map(State::as_str);
                samples.states(labels, all, |state| state == current.as_str());
            }
        }
    }

    fn faults(&self, samples: &mut Samples<'_>) {
        for (labels, live) in self.live_gpus() {
            let found = faults(live);
            if health::is_known(live) || !found.is_empty() {
                let has = |name: &str| found.iter().any(|fault| fault.as_str() == name);
                let is_known = |kind: &FaultKind| *kind != FaultKind::Xid || live.xid.is_ok();
                let kinds = FaultKind::ALL.into_iter().filter(is_known);
                samples.states(labels, kinds.map(FaultKind::as_str), has);
            }
        }
    }

    fn throttles(&self, samples: &mut Samples<'_>) {
        let all = ThrottleReasons::THROTTLED.names();
        for (labels, live) in self.live_gpus() {
            if let Ok(reasons) = live.throttle {
                let names = reasons.names();
                let has = |name: &str| names.iter().any(|reason| reason == name);
                samples.states(labels, all.iter().map(String::as_str), has);
            }
        }
    }

    fn memory_errors(&self, samples: &mut Samples<'_>) {
        for (labels, live) in self.live_gpus() {
            let corrected = ("corrected", live.ecc_corrected);
            for (kind, errors) in [corrected, ("uncorrected", live.ecc_uncorrected)] {
                if let Ok(errors) = errors {
                    samples.add(&labels.with("kind", kind), float(errors));
                }
            }
        }
    }

    fn workloads(&self, samples: &mut Samples<'_>) {
        let shown = self.metrics.workloads == Names::Shown;
        for (labels, gpu) in self.gpus.iter().filter(|_| shown) {
            for (workload, holders) in &gpu.workloads {
                let workload = WORKLOAD_LABELS.iter().zip(workload);
                let labels =
                    workload.fold(labels.clone(), |all, (name, value)| all.with(name, value));
                samples.add(&labels, f64::from(*holders));
            }
        }
    }

    fn outage(&self, samples: &mut Samples<'_>) {
        if let Some(collector) = &self.metrics.collector {
            let all = GapReason::ALL.map(GapReason::as_str);
            let current = collector.outage.map(GapReason::as_str);
            samples.states(&Labels::default(), all, |reason| Some(reason) == current);
        }
    }
}

fn seconds(micros: Micros) -> f64 {
    float(micros.0) / 1e6
}

fn moment(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

pub(super) type Write = fn(&Host<'_>, &mut Samples<'_>);

/// Declares the families: kind, name, unit and help, and after `=>` the shape of the samples and their value.
macro_rules! families {
    ($( $Kind:ident $name:literal $(in $unit:literal)?, $help:literal => $shape:ident $value:expr; )*) => {
        /// All families of a host, in the order of the page.
        pub(super) const FAMILIES: &[(Family, Write)] = &[$( (
            $crate::family!($Kind $name $(in $unit)?, $help),
            |host, samples| host.$shape(samples, $value),
        ), )*];
    };
}

families! {
    Info "gua_build", "Version of gua."
        => all |host, samples| samples.add(&Labels::new(&[("version", host.metrics.version)]), 1.0);
    Info "gua_gpu", "Identity of a GPU: the driver's version and, for a MIG instance, the parent GPU."
        => all Host::identities;
    StateSet "gua_gpu_state", "State at the last tick; the current state is 1 and the others are 0."
        => all Host::states;
    Gauge "gua_gpu_holders", "Number of processes that hold the GPU."
        => each |gpu| gpu.holders.map(f64::from);
    Gauge "gua_gpu_claimed", "1 if there is a claim (a short lease) on the GPU, otherwise 0."
        => each |gpu| gpu.is_claimed.map(|is_claimed| f64::from(u8::from(is_claimed)));
    Gauge "gua_gpu_utilization_ratio" in "ratio", "Utilisation of the streaming multiprocessors, from 0 to 1."
        => live |gpu| Some(f64::from(gpu.util.ok()?.get()) / 100.0);
    Gauge "gua_gpu_memory_utilization_ratio" in "ratio", "Utilisation of the memory interface, from 0 to 1."
        => live |gpu| Some(f64::from(gpu.memory_util.ok()?.get()) / 100.0);
    Gauge "gua_gpu_memory_used_bytes" in "bytes", "Memory in use."
        => live |gpu| Some(float(gpu.memory_used.ok()?.0));
    Gauge "gua_gpu_memory_reserved_bytes" in "bytes", "Memory reserved by the driver."
        => live |gpu| Some(float(gpu.memory_reserved.ok()?.0));
    Gauge "gua_gpu_memory_size_bytes" in "bytes", "Total memory."
        => live |gpu| Some(float(gpu.memory_total.ok()?.0));
    Gauge "gua_gpu_power_watts" in "watts", "Power draw at the last tick."
        => live |gpu| Some(float(gpu.power.ok()?.0) / 1000.0);
    Gauge "gua_gpu_power_limit_watts" in "watts", "Enforced power limit."
        => live |gpu| Some(float(gpu.power_limit.ok()?.0) / 1000.0);
    Gauge "gua_gpu_temperature_celsius" in "celsius", "Temperature of the GPU."
        => live |gpu| Some(f64::from(gpu.temperature.ok()?.0));
    Gauge "gua_gpu_sm_clock_hertz" in "hertz", "Clock frequency of the streaming multiprocessors."
        => live |gpu| Some(f64::from(gpu.sm_clock.ok()?.0) * 1e6);
    Gauge "gua_gpu_memory_clock_hertz" in "hertz", "Clock frequency of the memory."
        => live |gpu| Some(f64::from(gpu.memory_clock.ok()?.0) * 1e6);
    Gauge "gua_gpu_fan_ratio" in "ratio", "Fan speed as a fraction of its maximum; it may exceed 1."
        => live |gpu| Some(f64::from(gpu.fan.ok()?.0) / 100.0);
    StateSet "gua_gpu_fault", "Faults: lost GPU, memory errors, pending or failed memory repairs, overheating, slowdown; those present are 1."
        => all Host::faults;
    StateSet "gua_gpu_throttle", "Reasons why clocks are below their maximum; those that apply are 1."
        => all Host::throttles;
    Counter "gua_gpu_ecc_errors", "Memory (ECC) errors since the driver was loaded."
        => all Host::memory_errors;
    Gauge "gua_gpu_workload_holders", "Number of processes of a Slurm job, pod or container that hold the GPU."
        => all Host::workloads;
    Counter "gua_gpu_state_seconds" in "seconds", "Observed GPU time in each state, since recording began."
        => divided |account| ("state", account.states.iter().map(|(state, time)| (state.as_str(), *time)).collect());
    Counter "gua_gpu_unobserved_seconds" in "seconds", "GPU time that was not observed, by reason, since recording began."
        => divided |account| ("reason", account.unobserved.iter().map(|(reason, time)| (reason.as_str(), *time)).collect());
    Counter "gua_gpu_held_seconds" in "seconds", "GPU time charged to owners, since recording began."
        => account |account| Some(seconds(account.held));
    Counter "gua_gpu_idle_held_seconds" in "seconds", "GPU time held without use, since recording began."
        => account |account| Some(seconds(account.of_class(RollUp::IdleHeld)));
    Counter "gua_gpu_energy_joules" in "joules", "Energy from the driver's counter, while the GPU was observed."
        => account |account| Some(float(account.energy?.0) / 1000.0);
    Gauge "gua_gpu_last_active_timestamp_seconds" in "seconds", "Unix time at which the GPU was last active."
        => account |account| Some(moment(account.last_active?));
    Gauge "gua_claims", "Number of active claims on the GPUs of this host."
        => all |host, samples| samples.one(host.metrics.claims.map(count));
    Counter "gua_user_held_seconds" in "seconds", "Time for which the user held GPUs; a shared GPU counts in full."
        => person |person| person.held;
    Counter "gua_user_idle_held_seconds" in "seconds", "Time for which the user held GPUs without using them."
        => person |person| person.idle_held;
    Counter "gua_user_charged_seconds" in "seconds", "GPU time charged to the user; a shared GPU is divided equally among its owners."
        => person |person| person.charged;
    Gauge "gua_collector_interval_seconds" in "seconds", "Configured interval between ticks."
        => collector |collector| Some(collector.interval.as_secs_f64());
    Counter "gua_collector_ticks", "Ticks that this daemon has started."
        => collector |collector| Some(float(collector.ticks));
    Counter "gua_collector_ticks_lost", "Ticks that were due but are not in the history."
        => collector |collector| Some(float(collector.lost));
    Gauge "gua_collector_tick_duration_seconds" in "seconds", "Duration of the last tick, from its start until it was stored."
        => collector |collector| Some(collector.tick_time?.as_secs_f64());
    Gauge "gua_collector_last_tick_timestamp_seconds" in "seconds", "Unix time of the last stored tick."
        => collector |collector| Some(moment(collector.last_tick?));
    StateSet "gua_collector_outage", "Reason why the last tick is not in the history; all are 0 if it is."
        => all Host::outage;
    Counter "gua_collector_cpu_seconds" in "seconds", "CPU time used by gua: by the daemon or command, and by its driver reader."
        => cost |cost| cost.processor.as_secs_f64();
    Gauge "gua_collector_resident_memory_bytes" in "bytes", "Resident memory of gua: of the daemon or command, and of its driver reader."
        => cost |cost| float(cost.memory.0);
}

#[cfg(test)]
mod tests;
