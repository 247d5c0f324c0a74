//! Metrics of the board: its own counters, and gauges of the fleet.
//!
//! The fleet is shown as totals (GPUs by state and fault, hosts by freshness), because a board may have 12,500 hosts. The
//! totals are gauges of the current state. Time and energy are counted by the hosts, which know every tick.
//! `/metrics?hosts` adds GPUs by state for each host of the caller's workspaces, for boards that are small enough.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gua_board_store::HostId;
use gua_board_store::registry::Host;
use gua_model::idle::is_idle_now;
use gua_model::unit::float;
use gua_model::{FaultKind, State};
use gua_render::family;
use gua_render::metrics::{Family, Form, Labels, Page};
use gua_wire::live::LiveValue;
use gua_wire::snapshot::ProcessType;
use jiff::Timestamp;

use crate::app::OwnCost;
use crate::live::{HostLive, LiveState};

/// Counters of one server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// By route and status.
    requests: Mutex<BTreeMap<(String, u16), u64>>,
    observations: AtomicU64,
    observations_failed: AtomicU64,
    batches: AtomicU64,
    batch_micros: AtomicU64,
    pub(crate) streams: AtomicI64,
    pub(crate) frames: AtomicU64,
}

/// Declares the families: kind, name, unit and help.
macro_rules! families {
    ($($NAME:ident = $Kind:ident $name:literal $(in $unit:literal)?, $help:literal;)*) => {
        $(const $NAME: Family = family!($Kind $name $(in $unit)?, $help);)*
    };
}

families! {
    REQUESTS = Counter "gua_board_requests", "Answered requests.";
    OBSERVATIONS = Counter "gua_board_observations", "Observations that were stored.";
    FAILED = Counter "gua_board_observations_failed", "Observations that could not be stored.";
    BATCHES = Counter "gua_board_batches", "Transactions that stored observations.";
    BATCH_TIME = Counter "gua_board_batch_seconds" in "seconds", "Time spent in these transactions.";
    FRAMES = Counter "gua_board_stream_frames", "Frames received over streams.";
    STREAMS = Gauge "gua_board_streams", "Open streams.";
    HOSTS = Gauge "gua_board_hosts", "Hosts with a known state; those that stopped reporting are stale.";
    GPUS = Gauge "gua_board_gpus", "GPUs by state; those of stale hosts are unobserved.";
    FAULTS = Gauge "gua_board_faulty_gpus", "GPUs and MIG instances by fault; one with two faults counts under both.";
    HOLDERS = Gauge "gua_board_holders", "Names of people, containers and pods whose programs are on a GPU; one on several hosts counts once.";
    IDLE_TIME = Gauge "gua_board_idle_held_seconds" in "seconds", "Sum, over the GPUs that are idle-held or orphan-held now, of the known time in that state.";
    POWER = Gauge "gua_board_power_watts" in "watts", "Power of all GPUs whose power is known.";
    PROCESSOR = Counter "gua_board_cpu_seconds" in "seconds", "CPU time used by the board.";
    RESIDENT = Gauge "gua_board_resident_memory_bytes" in "bytes", "Resident memory of the board.";
    HOST_GPUS = Gauge "gua_board_host_gpus", "GPUs of a host by state.";
}

impl Metrics {
    pub(crate) fn answered(&self, route: &str, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route.to_owned(), status)).or_default() += 1;
    }

    pub(crate) fn stored(&self, observations: usize, took: Duration, is_stored: bool) {
        let counter = match is_stored {
            true => &self.observations,
            false => &self.observations_failed,
        };
        counter.fetch_add(observations as u64, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.batch_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Writes all counters and the gauges of the fleet. The given hosts have their own samples.
    pub(crate) fn text(
        &self,
        live: &LiveState,
        now: Timestamp,
        own_cost: OwnCost,
        (form, hosts): (Form, &[Host]),
    ) -> String {
        let mut page = Page::new(form);
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        page.family(&REQUESTS, |samples| {
            for ((route, status), count) in &*requests {
                let labels = [("route", route.as_str()), ("status", &status.to_string())];
                samples.add(&Labels::new(&labels), float(*count));
            }
        });
        drop(requests);
        let load = |counter: &AtomicU64| float(counter.load(Ordering::Relaxed));
        page.one(&OBSERVATIONS, Some(load(&self.observations)));
        page.one(&FAILED, Some(load(&self.observations_failed)));
        page.one(&BATCHES, Some(load(&self.batches)));
        page.one(&BATCH_TIME, Some(load(&self.batch_micros) / 1e6));
        page.one(&FRAMES, Some(load(&self.frames)));
        let streams = self.streams.load(Ordering::Relaxed).max(0).unsigned_abs();
        page.one(&STREAMS, Some(float(streams)));
        let cost = own_cost();
        let processor = cost.as_ref().map(|cost| cost.processor.as_secs_f64());
        page.one(&PROCESSOR, processor);
        page.one(&RESIDENT, cost.map(|cost| float(cost.memory.0)));
        fleet(&mut page, live, now, hosts);
        page.finish()
    }
}

/// Counts of GPUs by [`State`], in its order.
type Counts = [u64; State::ALL.len()];

/// Sums over the GPUs of all hosts that are not stale.
#[derive(Default)]
struct Present {
    /// Number of GPUs by [`FaultKind`], in its order.
    faults: [u64; FaultKind::ALL.len()],
    idle_seconds: f64,
    milliwatts: u64,
}

impl Present {
    fn add(&mut self, host: &HostLive, now: Timestamp) {
        for gpu in &host.report.gpus {
            for (count, kind) in self.faults.iter_mut().zip(FaultKind::ALL) {
                *count += u64::from(gpu.health.contains(&kind));
            }
            // An instance uses the power of its GPU.
            if let (None, LiveValue::Known(power)) = (&gpu.instance, gpu.power_milliwatts) {
                self.milliwatts = self.milliwatts.saturating_add(power);
            }
            if gpu.counts() && is_idle_now(gpu.state) {
                let since = host.since.get(&gpu.uuid).map_or(now, |since| since.at);
                self.idle_seconds += now.duration_since(since).as_secs_f64().max(0.0);
            }
        }
    }
}

/// Returns the owners of the compute processes of a host.
fn holders(host: &HostLive) -> impl Iterator<Item = &str> {
    let processes = host.report.gpus.iter().flat_map(|gpu| &gpu.processes);
    let compute = processes.filter(|process| process.kind == ProcessType::Compute);
    compute.filter_map(|process| process.owner.as_deref())
}

/// Adds a metric with one label that names what each value counts.
fn add_counts<'a>(
    page: &mut Page,
    family: &Family,
    label: &'static str,
    counts: impl Iterator<Item = (&'a str, u64)>,
) {
    page.family(family, |samples| {
        for (name, count) in counts {
            samples.add(&Labels::new(&[(label, name)]), float(count));
        }
    });
}

fn fleet(page: &mut Page, live: &LiveState, now: Timestamp, listed: &[Host]) {
    let (mut fresh, mut stale) = (0, 0);
    let mut all = Counts::default();
    let mut present = Present::default();
    let mut holder_count = 0;
    // Counts of the listed hosts; `None` for a host without a known state.
    let ids = listed.iter().map(|host| (&host.id, None));
    let mut counts_of: HashMap<&HostId, Option<Counts>> = ids.collect();
    live.with_all(|known| {
        let mut names: HashSet<&str> = HashSet::new();
        for (id, host) in known {
            let is_stale = host.is_stale(now);
            *(if is_stale { &mut stale } else { &mut fresh }) += 1;
            let mut own = Counts::default();
            for gpu in host.report.gpus.iter().filter(|gpu| gpu.counts()) {
                let state = if is_stale {
                    State::Unobserved
                } else {
                    gpu.state
                };
                own[state.place()] += 1;
            }
            for (sum, count) in all.iter_mut().zip(own) {
                *sum += count;
            }
            if !is_stale {
                present.add(host, now);
                names.extend(holders(host));
            }
            if let Some(counts) = counts_of.get_mut(id) {
                *counts = Some(own);
            }
        }
        holder_count = names.len() as u64;
    });
    let states = State::ALL.iter().map(|state| state.as_str());
    let faults = FaultKind::ALL.iter().map(|kind| kind.as_str());
    let hosts = [("fresh", fresh), ("stale", stale)];
    add_counts(page, &HOSTS, "freshness", hosts.into_iter());
    add_counts(page, &GPUS, "state", states.zip(all));
    add_counts(page, &FAULTS, "fault", faults.zip(present.faults));
    page.one(&HOLDERS, Some(float(holder_count)));
    page.one(&IDLE_TIME, Some(present.idle_seconds));
    page.one(&POWER, Some(float(present.milliwatts) / 1000.0));
    page.family(&HOST_GPUS, |samples| {
        for host in listed {
            let Some(Some(counts)) = counts_of.get(&host.id) else {
                continue;
            };
            // Two hosts may have one name.
            let labels = [
                ("host", host.display_name.as_str()),
                ("host_id", host.id.as_str()),
            ];
            let labels = Labels::new(&labels);
            let counts = State::ALL.iter().zip(counts);
            for (state, count) in counts.filter(|(_, count)| **count > 0) {
                samples.add(&labels.with("state", state.as_str()), float(*count));
            }
        }
    });
}
