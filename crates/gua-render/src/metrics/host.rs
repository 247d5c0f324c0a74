//! Metric families of one host: its GPUs, its users if the settings allow it, and the collector itself.
//!
//! Labels are few: the number, the UUID and the model of a GPU. There is no label for a process, and none for a user, a job, a pod
//! or a container unless the host's settings allow it, because every new value of a label adds a time series that is kept. A missing reading has no
//! sample, so that an old value is never shown as a current one.

use std::collections::BTreeMap;
use std::time::Duration;

use gua_model::account::{Accounts, GpuAccount};
use gua_model::classify::holders;
use gua_model::id::{ContainerId, PodUid, SlurmJob};
use gua_model::sample::ThrottleReasons;
use gua_model::{
    Bytes, FaultKind, GapReason, Gpu, GpuUuid, Micros, RollUp, Sample, State, Thresholds, Workload,
    classify, faults, health,
};
use jiff::Timestamp;

use super::page::{Family, Form, Kind, Labels, Page, Samples};

/// Maximum number of time series of one GPU.
pub const MOST_SERIES: usize = 60;

/// Everything that the metrics of a host show.
#[derive(Clone, Debug)]
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
}

/// Whether the metrics contain names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Shown,
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

/// Labels of a job, pod or container; a label that does not apply is empty. `slurm_job` is not `job`, because Prometheus uses
/// that name for its own purpose.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadLabels {
    namespace: String,
    pod: String,
    container: String,
    slurm_job: String,
}

impl WorkloadLabels {
    /// Returns the labels of a workload, by names if they are known and by IDs otherwise; `None` if there is neither a job,
    /// nor a pod, nor a container.
    fn new(workload: &Workload) -> Option<Self> {
        let Workload {
            container,
            pod,
            job,
            ..
        } = workload;
        if container.is_none() && pod.is_none() && job.is_none() {
            return None;
        }
        let id = |id: Option<&str>| id.unwrap_or_default().to_owned();
        let (namespace, pod) = match workload.pod_name.as_deref() {
            Some(name) => name.split_once('/').map_or_else(
                || (String::new(), name.to_owned()),
                |(namespace, pod)| (namespace.to_owned(), pod.to_owned()),
            ),
            None => (String::new(), id(pod.as_ref().map(PodUid::as_str))),
        };
        let container = container.as_ref().map(ContainerId::as_str);
        let container = workload.container_name.as_deref().or(container);
        Some(Self {
            namespace,
            pod,
            container: id(container),
            slurm_job: id(job.as_ref().map(SlurmJob::as_str)),
        })
    }

    fn added_to(&self, labels: &Labels) -> Labels {
        labels
            .with("namespace", &self.namespace)
            .with("pod", &self.pod)
            .with("container", &self.container)
            .with("slurm_job", &self.slurm_job)
    }
}

/// Counts the holders of each job, pod and container.
fn workloads(gpu: &Gpu, thresholds: &Thresholds) -> BTreeMap<WorkloadLabels, u32> {
    let mut counted = BTreeMap::new();
    for process in holders(gpu, thresholds) {
        let identity = process.identity.as_ref().ok();
        let workload = identity.and_then(|identity| WorkloadLabels::new(&identity.workload));
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
    pub collector: Option<Cost>,
    /// The child process that reads the driver.
    pub reader: Option<Cost>,
}

/// Cost of a process.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub processor: Duration,
    pub memory: Bytes,
}

impl GpuMetrics {
    /// Describes a GPU of a sample.
    #[must_use]
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
    #[must_use]
    pub fn without_gpus(version: &'static str) -> Self {
        Self {
            version,
            driver: None,
            gpus: Vec::new(),
            accounts: None,
            users: Names::Hidden,
            workloads: Names::Hidden,
            claims: None,
            collector: None,
        }
    }

    /// Describes the GPUs of a sample, without accounts, claims and a collector.
    #[must_use]
    pub fn of_sample(sample: &Sample, thresholds: &Thresholds, version: &'static str) -> Self {
        let gpus = sample.gpus.iter();
        Self {
            driver: sample.driver.version.as_ref().ok().cloned(),
            gpus: gpus.map(|gpu| GpuMetrics::new(gpu, thresholds)).collect(),
            ..Self::without_gpus(version)
        }
    }

    /// Writes all families.
    #[must_use]
    pub fn text(&self, form: Form) -> String {
        let mut page = Page::new(form);
        page.family(&BUILD, |samples| {
            samples.add(&Labels::new(&[("version", self.version)]), 1.0);
        });
        let labelled: Vec<(Labels, &GpuMetrics)> =
            self.gpus.iter().map(|gpu| (gpu.labels(), gpu)).collect();
        self.identities(&mut page, &labelled);
        states(&mut page, &labelled);
        for (family, value) in READINGS {
            each(&mut page, family, &labelled, |gpu| {
                value(gpu.live.as_ref()?)
            });
        }
        health_of(&mut page, &labelled);
        self.workload_family(&mut page, &labelled);
        self.account_families(&mut page, &labelled);
        page.one(&CLAIMS, self.claims.map(count));
        self.people(&mut page);
        if let Some(collector) = &self.collector {
            collector.write(&mut page);
        }
        page.finish()
    }

    fn identities(&self, page: &mut Page, gpus: &[(Labels, &GpuMetrics)]) {
        page.family(&GPU, |samples| {
            for (labels, gpu) in gpus {
                let driver = self.driver.as_deref().unwrap_or_default();
                let live = gpu.live.as_ref();
                let parent = live.and_then(|gpu| gpu.place.parent());
                let parent = parent.map_or("", GpuUuid::as_str);
                let labels = labels.with("driver", driver).with("parent", parent);
                samples.add(&labels, 1.0);
            }
        });
    }

    fn workload_family(&self, page: &mut Page, gpus: &[(Labels, &GpuMetrics)]) {
        if self.workloads == Names::Hidden {
            return;
        }
        page.family(&WORKLOAD_HOLDERS, |samples| {
            for (labels, gpu) in gpus {
                for (workload, holders) in &gpu.workloads {
                    samples.add(&workload.added_to(labels), f64::from(*holders));
                }
            }
        });
    }

    fn account_families(&self, page: &mut Page, gpus: &[(Labels, &GpuMetrics)]) {
        let Some(accounts) = &self.accounts else {
            return;
        };
        let account = |gpu: &GpuMetrics| accounts.gpus.get(&gpu.uuid);
        let own = |write: fn(&GpuAccount, &Labels, &mut Samples<'_>)| {
            move |samples: &mut Samples<'_>| {
                for (labels, gpu) in gpus {
                    if let Some(account) = account(gpu) {
                        write(account, labels, samples);
                    }
                }
            }
        };
        page.family(
            &STATE_TIME,
            own(|account, labels, samples| {
                for (state, micros) in &account.states {
                    samples.add(&labels.with("state", state.as_str()), seconds(*micros));
                }
            }),
        );
        page.family(
            &UNOBSERVED,
            own(|account, labels, samples| {
                for (reason, micros) in &account.unobserved {
                    samples.add(&labels.with("reason", reason.as_str()), seconds(*micros));
                }
            }),
        );
        each(page, &HELD, gpus, |gpu| Some(seconds(account(gpu)?.held)));
        each(page, &IDLE_HELD, gpus, |gpu| {
            Some(seconds(account(gpu)?.of_class(RollUp::IdleHeld)))
        });
        each(page, &ENERGY, gpus, |gpu| {
            Some(number(account(gpu)?.energy?.0) / 1000.0)
        });
        each(page, &LAST_ACTIVE, gpus, |gpu| {
            Some(moment(account(gpu)?.last_active?))
        });
    }

    fn people(&self, page: &mut Page) {
        let Some(accounts) = self
            .accounts
            .as_ref()
            .filter(|_| self.users == Names::Shown)
        else {
            return;
        };
        for (family, value) in PEOPLE {
            page.family(family, |samples| {
                for (name, person) in &accounts.people {
                    samples.add(&Labels::new(&[("user", name)]), seconds(value(person)));
                }
            });
        }
    }
}

impl CollectorMetrics {
    fn write(&self, page: &mut Page) {
        page.one(&INTERVAL, Some(self.interval.as_secs_f64()));
        page.one(&TICKS, Some(number(self.ticks)));
        page.one(&TICKS_LOST, Some(number(self.lost)));
        page.one(&TICK_TIME, self.tick_time.map(|time| time.as_secs_f64()));
        page.one(&LAST_TICK, self.last_tick.map(moment));
        page.family(&OUTAGE, |samples| {
            let all = GapReason::ALL.map(GapReason::as_str);
            let current = self.outage.map(GapReason::as_str);
            samples.states(&Labels::default(), all, |reason| Some(reason) == current);
        });
        let costs = [("collector", self.collector), ("reader", self.reader)];
        let costs = costs.map(|(name, cost)| (Labels::new(&[("process", name)]), cost));
        page.family(&PROCESSOR, |samples| {
            for (labels, cost) in &costs {
                if let Some(cost) = cost {
                    samples.add(labels, cost.processor.as_secs_f64());
                }
            }
        });
        page.family(&MEMORY, |samples| {
            for (labels, cost) in &costs {
                if let Some(cost) = cost {
                    samples.add(labels, number(cost.memory.0));
                }
            }
        });
    }
}

fn states(page: &mut Page, gpus: &[(Labels, &GpuMetrics)]) {
    page.family(&STATE, |samples| {
        for (labels, gpu) in gpus {
            if let Some(current) = gpu.state {
                let all = State::ALL.map(State::as_str);
                samples.states(labels, all, |state| state == current.as_str());
            }
        }
    });
    each(page, &HOLDERS, gpus, |gpu| gpu.holders.map(f64::from));
    each(page, &CLAIMED, gpus, |gpu| gpu.is_claimed.map(flag));
}

fn health_of(page: &mut Page, gpus: &[(Labels, &GpuMetrics)]) {
    page.family(&FAULT, |samples| {
        for (labels, gpu) in gpus {
            let Some(live) = gpu.live.as_ref() else {
                continue;
            };
            let found = faults(live);
            if health::is_known(live) || !found.is_empty() {
                let has = |name: &str| found.iter().any(|fault| fault.as_str() == name);
                let is_known = |kind: &FaultKind| *kind != FaultKind::Xid || live.xid.is_ok();
                let kinds = FaultKind::ALL.into_iter().filter(is_known);
                samples.states(labels, kinds.map(FaultKind::as_str), has);
            }
        }
    });
    let throttles = ThrottleReasons::THROTTLED.names();
    page.family(&THROTTLE, |samples| {
        for (labels, gpu) in gpus {
            if let Some(Ok(ThrottleReasons(bits))) = gpu.live.as_ref().map(|live| live.throttle) {
                let names = ThrottleReasons(bits).names();
                let has = |name: &str| names.iter().any(|reason| reason == name);
                samples.states(labels, throttles.iter().map(String::as_str), has);
            }
        }
    });
    page.family(&ECC, |samples| {
        for (labels, gpu) in gpus {
            let Some(live) = gpu.live.as_ref() else {
                continue;
            };
            let counters = [
                ("corrected", live.ecc_corrected),
                ("uncorrected", live.ecc_uncorrected),
            ];
            for (kind, errors) in counters {
                if let Ok(errors) = errors {
                    samples.add(&labels.with("kind", kind), number(errors));
                }
            }
        }
    });
}

/// Writes a family with at most one sample for each GPU.
fn each(
    page: &mut Page,
    family: &Family,
    gpus: &[(Labels, &GpuMetrics)],
    value: impl Fn(&GpuMetrics) -> Option<f64>,
) {
    page.family(family, |samples| {
        for (labels, gpu) in gpus {
            if let Some(value) = value(gpu) {
                samples.add(labels, value);
            }
        }
    });
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "Prometheus stores 64-bit floats, exact up to 2^53"
)]
fn number(whole: u64) -> f64 {
    whole as f64
}

fn count(length: usize) -> f64 {
    number(u64::try_from(length).unwrap_or(u64::MAX))
}

fn seconds(micros: Micros) -> f64 {
    number(micros.0) / 1e6
}

fn moment(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

type ReadingValue = fn(&Gpu) -> Option<f64>;

const READINGS: &[(&Family, ReadingValue)] = &[
    (&UTILISATION, |gpu| {
        Some(f64::from(gpu.util.ok()?.get()) / 100.0)
    }),
    (&MEMORY_UTILISATION, |gpu| {
        Some(f64::from(gpu.memory_util.ok()?.get()) / 100.0)
    }),
    (&MEMORY_USED, |gpu| Some(number(gpu.memory_used.ok()?.0))),
    (&MEMORY_RESERVED, |gpu| {
        Some(number(gpu.memory_reserved.ok()?.0))
    }),
    (&MEMORY_TOTAL, |gpu| Some(number(gpu.memory_total.ok()?.0))),
    (&POWER, |gpu| Some(number(gpu.power.ok()?.0) / 1000.0)),
    (&POWER_LIMIT, |gpu| {
        Some(number(gpu.power_limit.ok()?.0) / 1000.0)
    }),
    (&TEMPERATURE, |gpu| Some(f64::from(gpu.temperature.ok()?.0))),
    (&SM_CLOCK, |gpu| Some(f64::from(gpu.sm_clock.ok()?.0) * 1e6)),
    (&MEMORY_CLOCK, |gpu| {
        Some(f64::from(gpu.memory_clock.ok()?.0) * 1e6)
    }),
    (&FAN, |gpu| Some(f64::from(gpu.fan.ok()?.0) / 100.0)),
];

type PersonValue = fn(&gua_model::account::PersonAccount) -> Micros;

const PEOPLE: &[(&Family, PersonValue)] = &[
    (&USER_HELD, |person| person.held),
    (&USER_IDLE_HELD, |person| person.idle_held),
    (&USER_CHARGED, |person| person.charged),
];

/// Declares the families, and [`FAMILIES`] with all of them.
macro_rules! families {
    ($( $NAME:ident = $Kind:ident $name:literal $(in $unit:literal)?, $help:literal; )*) => {
        $( const $NAME: Family = Family {
            name: $name,
            kind: Kind::$Kind,
            unit: families!(@unit $($unit)?),
            help: $help,
        }; )*

        /// All families of a host, in the order in which `docs/metrics.md` lists them.
        pub const FAMILIES: &[&Family] = &[$( &$NAME, )*];
    };
    (@unit) => { None };
    (@unit $unit:literal) => { Some($unit) };
}

families! {
    GPU = Info "gua_gpu", "Identity of a GPU: the driver's version and, for a MIG instance, the parent GPU.";
    STATE = StateSet "gua_gpu_state", "State at the last tick; the current state is 1 and the others are 0.";
    HOLDERS = Gauge "gua_gpu_holders", "Number of processes that hold the GPU.";
    WORKLOAD_HOLDERS = Gauge "gua_gpu_workload_holders", "Number of processes of a Slurm job, pod or container that hold the GPU.";
    CLAIMED = Gauge "gua_gpu_claimed", "1 if there is a claim (a short lease) on the GPU, otherwise 0.";
    LAST_ACTIVE = Gauge "gua_gpu_last_active_timestamp_seconds" in "seconds", "Unix time at which the GPU was last active.";
    STATE_TIME = Counter "gua_gpu_state_seconds" in "seconds", "Observed GPU time in each state, since recording began.";
    HELD = Counter "gua_gpu_held_seconds" in "seconds", "GPU time charged to owners, since recording began.";
    IDLE_HELD = Counter "gua_gpu_idle_held_seconds" in "seconds", "GPU time held without use, since recording began.";
    UNOBSERVED = Counter "gua_gpu_unobserved_seconds" in "seconds", "GPU time that was not observed, by reason, since recording began.";
    ENERGY = Counter "gua_gpu_energy_joules" in "joules", "Energy from the driver's counter, while the GPU was observed.";
    UTILISATION = Gauge "gua_gpu_utilization_ratio" in "ratio", "Utilisation of the streaming multiprocessors, from 0 to 1.";
    MEMORY_UTILISATION = Gauge "gua_gpu_memory_utilization_ratio" in "ratio", "Utilisation of the memory interface, from 0 to 1.";
    MEMORY_USED = Gauge "gua_gpu_memory_used_bytes" in "bytes", "Memory in use.";
    MEMORY_RESERVED = Gauge "gua_gpu_memory_reserved_bytes" in "bytes", "Memory reserved by the driver.";
    MEMORY_TOTAL = Gauge "gua_gpu_memory_size_bytes" in "bytes", "Total memory.";
    POWER = Gauge "gua_gpu_power_watts" in "watts", "Power draw at the last tick.";
    POWER_LIMIT = Gauge "gua_gpu_power_limit_watts" in "watts", "Enforced power limit.";
    TEMPERATURE = Gauge "gua_gpu_temperature_celsius" in "celsius", "Temperature of the GPU.";
    SM_CLOCK = Gauge "gua_gpu_sm_clock_hertz" in "hertz", "Clock frequency of the streaming multiprocessors.";
    MEMORY_CLOCK = Gauge "gua_gpu_memory_clock_hertz" in "hertz", "Clock frequency of the memory.";
    FAN = Gauge "gua_gpu_fan_ratio" in "ratio", "Fan speed as a fraction of its maximum; it may exceed 1.";
    FAULT = StateSet "gua_gpu_fault", "Faults: lost GPU, memory errors, pending or failed memory repairs, overheating, slowdown; those present are 1.";
    THROTTLE = StateSet "gua_gpu_throttle", "Reasons why clocks are below their maximum; those that apply are 1.";
    ECC = Counter "gua_gpu_ecc_errors", "Memory (ECC) errors since the driver was loaded.";
    CLAIMS = Gauge "gua_claims", "Number of active claims on the GPUs of this host.";
    USER_HELD = Counter "gua_user_held_seconds" in "seconds", "Time for which the user held GPUs; a shared GPU counts in full.";
    USER_IDLE_HELD = Counter "gua_user_idle_held_seconds" in "seconds", "Time for which the user held GPUs without using them.";
    USER_CHARGED = Counter "gua_user_charged_seconds" in "seconds", "GPU time charged to the user; a shared GPU is divided equally among its owners.";
    BUILD = Info "gua_build", "Version of gua.";
    INTERVAL = Gauge "gua_collector_interval_seconds" in "seconds", "Configured interval between ticks.";
    TICKS = Counter "gua_collector_ticks", "Ticks that this daemon has started.";
    TICKS_LOST = Counter "gua_collector_ticks_lost", "Ticks that were due but are not in the history.";
    TICK_TIME = Gauge "gua_collector_tick_duration_seconds" in "seconds", "Duration of the last tick, from its start until it was stored.";
    LAST_TICK = Gauge "gua_collector_last_tick_timestamp_seconds" in "seconds", "Unix time of the last stored tick.";
    OUTAGE = StateSet "gua_collector_outage", "Reason why the last tick is not in the history; all are 0 if it is.";
    PROCESSOR = Counter "gua_collector_cpu_seconds" in "seconds", "CPU time used by the daemon and by its driver reader.";
    MEMORY = Gauge "gua_collector_resident_memory_bytes" in "bytes", "Resident memory of the daemon and of its driver reader.";
}

#[cfg(test)]
mod tests;
