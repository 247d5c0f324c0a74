//! Conditions of alerts on the hosts of a board: a silent agent, idle-held GPUs, quotas, faults, lost GPUs and GPUs that
//! cannot be observed. The rules are those of gua-model; this module applies them to the live state and returns the findings. The
//! program that runs the board sends the messages, on a thread of its own.
//!
//! Nothing is reported about a host under maintenance. For a host that stopped reporting, or that sends spooled reports late,
//! only the silence is reported, because the current state of its GPUs is unknown.

use std::collections::{BTreeMap, HashMap, HashSet};

use gua_board_store::HostId;
use gua_board_store::registry::Host;
use gua_model::alert::finding::{
    IdleHold, KnownGpu, LastContact, Loss, UnobservedTime, faulty_gpu, gap, idle_held, lost_gpu,
    quota, quota_condition, silent,
};
use gua_model::alert::{Alert, BoardHost, Finding, When};
use gua_model::chain::chain;
use gua_model::failure_log::FailureLog;
use gua_model::idle::{Idle, is_idle_now};
use gua_model::since::{Since, Start};
use gua_model::{Bytes, FaultKind, GpuUuid, Micros, Period, Reading};
use gua_render::quota::use_of;
use gua_wire::live::LiveGpu;
use gua_wire::snapshot::ProcessType;
use jiff::{SignedDuration, Timestamp};
use tracing::{info, warn};

use crate::app::App;
use crate::live::HostLive;

/// Time for which a GPU that is no longer listed is reported as lost. Afterwards it counts as removed.
const LOST_TIME: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Number of GPUs of a host from which on those that are no longer listed are forgotten. A host can report any names.
const MAX_KNOWN_GPUS: usize = 256;

/// Maximum number of findings about one host in an evaluation: more than 16 GPUs of 7 MIG instances each can have.
const MAX_FINDINGS: usize = 128;

/// State that is kept between evaluations.
#[derive(Debug, Default)]
pub struct Watch {
    /// Hosts of all workspaces, with the registry's revision at which they were read.
    hosts: (Option<u64>, Vec<Host>),
    /// GPUs of each host, with the time at which a report last listed them.
    gpus: HashMap<HostId, HashMap<GpuUuid, (KnownGpu, Timestamp)>>,
    /// Failed reads of the hosts.
    failures: FailureLog,
}

impl Watch {
    /// Returns what is found for each of the alerts, in their order. Blocks for the read of changed hosts.
    pub fn find(&mut self, app: &App, alerts: &[Alert], now: Timestamp) -> Vec<Vec<Finding>> {
        self.read_hosts(app);
        // Copied, so that no push waits while the conditions are checked.
        let states = app.live.with_all(HashMap::clone);
        let mut found: Vec<Vec<Finding>> = alerts.iter().map(|_| Vec::new()).collect();
        let wants_lost = alerts.iter().any(|alert| alert.when.contains(&When::Lost));
        let hosts = std::mem::take(&mut self.hosts.1);
        for host in &hosts {
            if host.maintenance(now).is_some() {
                // GPUs may be removed meanwhile.
                self.gpus.remove(&host.id);
                continue;
            }
            let live = states.get(&host.id);
            let current = live.filter(|live| live.is_prompt() && !live.is_stale(now));
            let gone = match current.filter(|_| wants_lost) {
                Some(live) => self.gone(&host.id, live, now),
                None => Vec::new(),
            };
            let evaluation = Evaluation {
                app,
                host,
                live,
                current,
                gone: &gone,
                now,
            };
            for (alert, found) in alerts.iter().zip(&mut found) {
                let on = || BoardHost {
                    id: Some(host.id.as_str().to_owned()),
                    workspace: host.workspace.as_str().to_owned(),
                    name: host.display_name.clone(),
                };
                let new = evaluation.find(alert).into_iter().take(MAX_FINDINGS);
                found.extend(new.map(|one| one.on(on())));
            }
        }
        let known: HashSet<&HostId> = hosts.iter().map(|host| &host.id).collect();
        self.gpus.retain(|host, _| known.contains(host));
        self.hosts.1 = hosts;
        found
    }

    /// Reads the hosts again if any has changed. If that fails, the known ones count.
    fn read_hosts(&mut self, app: &App) {
        let registry = &app.registry;
        let read = registry.revision().and_then(|revision| {
            if self.hosts.0 != Some(revision) {
                self.hosts = (Some(revision), registry.hosts(None)?);
            }
            Ok(())
        });
        match self.failures.change(&read) {
            Some(Ok(failures)) => info!(failures, "the hosts can be read for alerts again"),
            Some(Err(error)) => warn!(error = %chain(error), "cannot read the hosts for alerts"),
            None => {}
        }
    }

    /// Returns the physical GPUs of a host that an earlier report listed and the latest does not. A report without GPUs is of a
    /// driver that could not be read.
    fn gone(&mut self, host: &HostId, live: &HostLive, now: Timestamp) -> Vec<KnownGpu> {
        let gpus = live.report.gpus.iter();
        let physical = gpus.filter(|gpu| gpu.instance.is_none());
        let listed: HashMap<&GpuUuid, &LiveGpu> = physical.map(|gpu| (&gpu.uuid, gpu)).collect();
        if listed.is_empty() {
            return Vec::new();
        }
        let known = self.gpus.entry(host.clone()).or_default();
        // Without any known GPU, it is another machine: the host was replaced.
        if !known.keys().any(|uuid| listed.contains_key(uuid)) {
            known.clear();
        }
        for (uuid, gpu) in &listed {
            known.insert((*uuid).clone(), (known_gpu(gpu), live.received_at));
        }
        known.retain(|_, (_, seen)| now.duration_since(*seen) < LOST_TIME);
        if known.len() > MAX_KNOWN_GPUS {
            known.retain(|uuid, _| listed.contains_key(uuid));
        }
        let gone = known.values().map(|(gpu, _)| gpu);
        let gone = gone.filter(|gpu| !listed.contains_key(&gpu.uuid));
        let mut gone: Vec<KnownGpu> = gone.cloned().collect();
        gone.sort_by(|one, other| (one.index, &one.uuid).cmp(&(other.index, &other.uuid)));
        gone
    }
}

/// The evaluation of one host.
struct Evaluation<'a> {
    app: &'a App,
    host: &'a Host,
    live: Option<&'a HostLive>,
    /// The live state, if it is the state of now.
    current: Option<&'a HostLive>,
    gone: &'a [KnownGpu],
    now: Timestamp,
}

impl Evaluation<'_> {
    fn find(&self, alert: &Alert) -> Vec<Finding> {
        let now = self.now;
        let wants = |when: When| alert.when.contains(&when);
        let mut found = Vec::new();
        if wants(When::Silent) {
            found.extend(self.silence(alert));
        }
        let Some(live) = self.current else {
            return found;
        };
        if let Some(from) = live.unobserved_since.filter(|_| wants(When::Gap)) {
            let time = UnobservedTime {
                period: Period::new(from, now.max(from)),
                has_ended: false,
            };
            // The known start is a later one after a restart of the board, so it does not identify the gap.
            found.extend(gap(&time, alert.long_gap()).map(|gap| Finding {
                subject: "gpus".to_owned(),
                ..gap
            }));
        }
        if wants(When::IdleHeld) {
            let holds = idle_holds(live, now);
            found.extend(idle_held(
                &holds,
                alert.long_idle(),
                live.report.observed_at,
            ));
        }
        if wants(When::Unhealthy) || wants(When::Lost) {
            found.extend(live.report.gpus.iter().flat_map(faults));
            let gone = self.gone.iter();
            found.extend(gone.map(|gpu| lost_gpu(gpu, Loss::NotListed)));
        }
        // Last, so that many quotas do not displace faults.
        if wants(When::QuotaNear) || wants(When::QuotaOver) {
            found.extend(live.quotas.iter().filter_map(|used| {
                let standing = used.standing();
                let when = quota_condition(&standing, alert.percent)?;
                Some(quota(&standing, when, use_of(&standing)))
            }));
        }
        found.retain(|one| wants(one.when));
        found
    }

    fn silence(&self, alert: &Alert) -> Option<Finding> {
        let configured = alert.longer_than.map(SignedDuration::try_from);
        let longest = configured.map(|length| length.unwrap_or(SignedDuration::MAX));
        let is_silent = self.app.is_silent(self.host, self.live, longest, self.now);
        let last = match self.live {
            Some(live) => LastContact::Report(live.received_at),
            None if self.host.token_since > self.host.enrolled => {
                LastContact::Token(self.host.token_since)
            }
            None => LastContact::Enrolment(self.host.enrolled),
        };
        is_silent.then(|| silent(last, self.now))
    }
}

/// Returns the holds on idle GPUs by person, without those that their holders keep. Holders without a name are not reported.
fn idle_holds(live: &HostLive, now: Timestamp) -> Vec<IdleHold> {
    let idle = |gpu: &&LiveGpu| gpu.counts() && is_idle_now(gpu.state);
    let mut holds = Vec::new();
    for gpu in live.report.gpus.iter().filter(idle) {
        let Some(since) = live.since.get(&gpu.uuid) else {
            continue;
        };
        let is_kept = |owner: &&str| {
            let mut keeps = gpu.keeps.iter();
            keeps.any(|keep| keep.owner.as_deref() == Some(owner) && keep.until > now)
        };
        let mut people: BTreeMap<&str, Reading<Bytes>> = BTreeMap::new();
        let processes = gpu.processes.iter();
        for process in processes.filter(|process| process.kind == ProcessType::Compute) {
            if let Some(owner) = process.owner.as_deref().filter(|owner| !is_kept(owner)) {
                let memory = Reading::from(process.memory_bytes).map(Bytes);
                let sum = people.entry(owner).or_insert(Ok(Bytes(0)));
                *sum = sum.and_then(|sum| Ok(sum + memory?));
            }
        }
        holds.extend(people.into_iter().map(|(person, memory)| IdleHold {
            person: person.to_owned(),
            uid: None,
            gpu: gpu.uuid.clone(),
            gpu_index: gpu.index,
            memory,
            idle: Idle {
                since: Since {
                    at: since.at,
                    start: match since.is_exact {
                        true => Start::Seen,
                        false => Start::AtLatest,
                    },
                },
                unobserved: Micros(0),
            },
        }));
    }
    holds
}

/// Returns the findings about the faults of a GPU.
fn faults(gpu: &LiveGpu) -> Vec<Finding> {
    if gpu.health.is_empty() {
        return Vec::new();
    }
    let known = known_gpu(gpu);
    let (lost, other): (Vec<FaultKind>, Vec<FaultKind>) = gpu
        .health
        .iter()
        .partition(|kind| **kind == FaultKind::Lost);
    let other = other.into_iter();
    let other: Vec<(&str, String)> = other
        .map(|kind| (kind.as_str(), kind.in_words().to_owned()))
        .collect();
    let lost = lost.first().map(|_| lost_gpu(&known, Loss::Reported));
    lost.into_iter().chain(faulty_gpu(&known, &other)).collect()
}

fn known_gpu(gpu: &LiveGpu) -> KnownGpu {
    KnownGpu {
        uuid: gpu.uuid.clone(),
        index: gpu.index,
        name: gpu.name.clone(),
    }
}
