//! Availability: the GPUs of all hosts of a workspace on which work can run now, filtered, grouped and paged.
//!
//! The agent decided whether a GPU is free. The only decisions here are that a host which stopped reporting has no free
//! GPUs, because nobody knows what its GPUs do now, and that nobody may use a host under maintenance.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use gua_board_store::HostId;
use gua_board_store::ledger::Form;
use gua_board_store::registry::{Host, Maintenance};
use gua_model::state::RollUp;
use gua_model::{FaultKind, State, words};
use gua_wire::live::{LiveGpu, LiveValue, ObstacleWord};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::live::{HostLive, LiveState, Since};

/// GPUs on one page: a page with this many stays under 100 kB.
const PAGE: usize = 60;
/// Hosts on one page of the compact form.
const LINES: usize = 100;
/// Points of a utilisation curve.
const CURVE_POINTS: usize = 36;

/// Query parameters of the availability list: the wanted GPUs, and the page.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct Demand {
    /// Part of the model's name, regardless of case.
    pub(crate) model: Option<String>,
    /// Minimum memory of the GPU, in gigabytes.
    pub(crate) memory: Option<u64>,
    /// Minimum number of matching free GPUs on one host.
    pub(crate) gpus: Option<usize>,
    /// Number of the page, from 1.
    pub(crate) page: Option<usize>,
}

words! {
    /// Availability group of a GPU.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Group {
        Free = "free",
        /// Held without being used: worth asking its holder.
        IdleHeld = "idle-held",
        /// Only a claim with a known end, or a use that ended a moment ago, keeps it from being free.
        FreeSoon = "free-soon",
        InUse = "in-use",
        /// Unobserved, lost, unhealthy, or on a host that stopped reporting or is under maintenance.
        Unusable = "unusable",
    }
}

impl Group {
    /// Returns the group of a GPU.
    pub fn of(gpu: &LiveGpu, is_stale: bool) -> Self {
        let is_unseen = gpu.state == State::Unobserved
            || matches!(
                gpu.obstacle,
                Some(ObstacleWord::Unobserved | ObstacleWord::Unhealthy)
            )
            || gpu.health.contains(&FaultKind::Lost);
        let ends = gpu
            .claim
            .as_ref()
            .is_some_and(|claim| claim.until.is_some());
        match gpu.obstacle {
            _ if is_stale => Group::Unusable,
            None => Group::Free,
            _ if is_unseen => Group::Unusable,
            _ if gpu.state.roll_up() == Some(RollUp::IdleHeld) => Group::IdleHeld,
            Some(ObstacleWord::Claimed) if ends => Group::FreeSoon,
            Some(ObstacleWord::UsedRecently) => Group::FreeSoon,
            _ => Group::InUse,
        }
    }

    /// Returns the group of a GPU of a host. Nobody may use a host that is under maintenance.
    fn on(host: &Host, gpu: &LiveGpu, is_stale: bool, now: Timestamp) -> Self {
        match host.maintenance(now) {
            Some(_) => Group::Unusable,
            None => Group::of(gpu, is_stale),
        }
    }
}

/// One GPU of a host.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) host: HostId,
    pub(crate) host_name: String,
    pub(crate) group: Group,
    pub(crate) is_stale: bool,
    /// Why people must not use the host now.
    pub(crate) maintenance: Option<Maintenance>,
    pub(crate) received_at: Timestamp,
    /// Form of the host's reports.
    #[serde(skip)]
    pub(crate) form: Form,
    pub(crate) since: Option<Since>,
    /// Utilisation of the last hour in equal parts, in percent; `null` for an unobserved part.
    pub(crate) curve: Vec<Option<u8>>,
    /// The last 24 hours in quarter hours, oldest first: the group of most of the quarter; `null` if it was not observed.
    pub(crate) day: Vec<Option<Group>>,
    #[serde(flatten)]
    pub(crate) gpu: LiveGpu,
}

impl Row {
    /// Describes one GPU of a host.
    pub(crate) fn new(host: &Host, live: &HostLive, gpu: &LiveGpu, now: Timestamp) -> Self {
        let is_stale = live.is_stale(now);
        let curve = live.curves.get(&gpu.uuid);
        let day = live.days.get(&gpu.uuid);
        let second = now.as_second();
        Self {
            host: host.id.clone(),
            host_name: host.display_name.clone(),
            group: Group::on(host, gpu, is_stale, now),
            is_stale,
            maintenance: host.maintenance(now).cloned(),
            received_at: live.received_at,
            form: live.form,
            since: live.since.get(&gpu.uuid).copied(),
            curve: curve.map_or_else(Vec::new, |curve| curve.points(CURVE_POINTS, second)),
            day: day.map_or_else(Vec::new, |day| day.cells(second).collect()),
            gpu: gpu.clone(),
        }
    }
}

/// Number of free GPUs of one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct FreeModel {
    pub(crate) model: String,
    pub(crate) count: usize,
}

/// Counts of all matching GPUs, whatever part of them is shown.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    /// Free GPUs by model, the most frequent first.
    pub(crate) free: Vec<FreeModel>,
    /// Number of hosts with a free GPU.
    pub(crate) free_hosts: usize,
    /// Number of matching GPUs in each group, in the order of [`Group::ALL`].
    pub(crate) counts: [usize; Group::ALL.len()],
    /// Models of all hosts, for the filter.
    pub(crate) models: BTreeSet<String>,
    pub(crate) page: usize,
    pub(crate) pages: usize,
}

/// The answer to a demand.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Availability {
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// GPUs of this page, by group, host and index.
    pub(crate) rows: Vec<Row>,
}

/// One host in the compact form: its GPUs as groups.
#[derive(Clone, Debug)]
pub(crate) struct HostLine {
    pub(crate) host: Host,
    /// Model of most of its GPUs.
    pub(crate) model: String,
    pub(crate) is_stale: bool,
    /// Index and group of each matching GPU.
    pub(crate) gpus: Vec<(u32, Group)>,
}

/// The answer to a demand in the compact form.
#[derive(Clone, Debug)]
pub(crate) struct Compact {
    pub(crate) counts: Counts,
    /// Hosts of this page: those with free GPUs first, the most at the top.
    pub(crate) hosts: Vec<HostLine>,
}

/// GPUs of one model on a wall screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WallModel {
    pub(crate) model: String,
    pub(crate) free: usize,
    pub(crate) total: usize,
}

/// A GPU on a wall screen that is held without being used.
#[derive(Clone, Debug)]
pub(crate) struct IdleGpu {
    pub(crate) host_name: String,
    pub(crate) index: u32,
    pub(crate) model: String,
    pub(crate) since: Option<Since>,
}

/// Content of a wall screen: a few numbers that can be read across a room, and no names of people.
#[derive(Clone, Debug)]
pub(crate) struct Wall {
    pub(crate) counts: Counts,
    /// Models with the most free GPUs first.
    pub(crate) models: Vec<WallModel>,
    /// The GPUs that have been idle-held for the longest time, longest first.
    pub(crate) idle: Vec<IdleGpu>,
}

/// Matching GPUs of a host: place in the report, and group.
struct Match<'a> {
    host: &'a Host,
    live: &'a HostLive,
    gpus: Vec<(usize, Group)>,
}

impl Match<'_> {
    fn free(&self) -> usize {
        let groups = self.gpus.iter();
        groups.filter(|(_, group)| *group == Group::Free).count()
    }
}

impl Availability {
    /// Answers a demand with the live state of the given hosts.
    pub(crate) fn new(hosts: &[Host], live: &LiveState, demand: &Demand, now: Timestamp) -> Self {
        live.with_all(|states| {
            let (found, mut counts) = search(hosts, states, demand, now);
            let total = counts.counts.iter().sum();
            let shown = counts.turn_to(demand.page, total, PAGE);
            let mut groups = Group::ALL.map(|_| Vec::new());
            for one in &found {
                for (place, group) in &one.gpus {
                    groups[*group as usize].push((one, *place));
                }
            }
            let row = |(one, place): (&Match<'_>, usize)| {
                Row::new(one.host, one.live, &one.live.report.gpus[place], now)
            };
            let rows = groups.into_iter().flatten();
            let rows = rows.skip(shown).take(PAGE).map(row).collect();
            Self { counts, rows }
        })
    }
}

impl Compact {
    /// Answers a demand with one line for each host.
    pub(crate) fn new(hosts: &[Host], live: &LiveState, demand: &Demand, now: Timestamp) -> Self {
        live.with_all(|states| {
            let (mut found, mut counts) = search(hosts, states, demand, now);
            // Stable: hosts with equally many free GPUs stay in the order of their names.
            found.sort_by_key(|one| Reverse(one.free()));
            let shown = counts.turn_to(demand.page, found.len(), LINES);
            let line = |one: &Match<'_>| HostLine {
                host: one.host.clone(),
                model: one.live.models[one.gpus[0].0].to_string(),
                is_stale: one.live.is_stale(now),
                gpus: one
                    .gpus
                    .iter()
                    .map(|(place, group)| (one.live.report.gpus[*place].index, *group))
                    .collect(),
            };
            let hosts = found.iter().skip(shown).take(LINES).map(line).collect();
            Self { counts, hosts }
        })
    }
}

impl Wall {
    /// Maximum number of GPUs in [`Wall::idle`].
    const MAX_IDLE: usize = 8;

    /// Sums up the matching GPUs.
    pub(crate) fn new(hosts: &[Host], live: &LiveState, demand: &Demand, now: Timestamp) -> Self {
        live.with_all(|states| {
            let (found, counts) = search(hosts, states, demand, now);
            let mut models = BTreeMap::<&str, WallModel>::new();
            let mut idle = Vec::new();
            for one in &found {
                for (place, group) in &one.gpus {
                    let name: &str = &one.live.models[*place];
                    let model = models.entry(name).or_insert_with(|| WallModel {
                        model: name.to_owned(),
                        free: 0,
                        total: 0,
                    });
                    model.total += 1;
                    model.free += usize::from(*group == Group::Free);
                    if *group == Group::IdleHeld {
                        let gpu = &one.live.report.gpus[*place];
                        let since = one.live.since.get(&gpu.uuid).copied();
                        idle.push((since.map(|since| since.at), since, one, gpu));
                    }
                }
            }
            let mut models: Vec<WallModel> = models.into_values().collect();
            models.sort_by_key(|model| Reverse((model.free, model.total)));
            // Stable: hosts stay in the order of their names. GPUs without a known time come last.
            idle.sort_by_key(|(at, ..)| at.unwrap_or(Timestamp::MAX));
            let idle = idle.into_iter().take(Self::MAX_IDLE);
            let idle = idle.map(|(_, since, one, gpu)| IdleGpu {
                host_name: one.host.display_name.clone(),
                index: gpu.index,
                model: model(gpu),
                since,
            });
            Self {
                models,
                idle: idle.collect(),
                counts,
            }
        })
    }
}

/// Finds the matching GPUs of all hosts, and counts them.
fn search<'a>(
    hosts: &'a [Host],
    states: &'a HashMap<HostId, HostLive>,
    demand: &Demand,
    now: Timestamp,
) -> (Vec<Match<'a>>, Counts) {
    let wanted = demand
        .model
        .as_deref()
        .map(|part| part.trim().to_lowercase());
    let mut counts = Counts::default();
    let mut free = BTreeMap::<&str, usize>::new();
    let mut models = BTreeSet::<&str>::new();
    // The GPUs of a host are mostly of one model, so what is known of the last one is known of the next.
    let mut last: (&str, bool) = ("", false);
    let mut found = Vec::new();
    for host in hosts {
        let Some(live) = states.get(&host.id) else {
            continue;
        };
        let is_stale = live.is_stale(now);
        let mut gpus = Vec::new();
        for (place, gpu) in live.report.gpus.iter().enumerate() {
            if !gpu.counts() {
                continue;
            }
            let model: &str = &live.models[place];
            if last.0 != model {
                let has_name = |part: &String| model.to_lowercase().contains(part);
                last = (model, wanted.as_ref().is_none_or(has_name));
                models.insert(model);
            }
            if last.1 && demand.has_memory(gpu) {
                gpus.push((place, Group::on(host, gpu, is_stale, now)));
            }
        }
        let one = Match { host, live, gpus };
        let own_free = one.free();
        if one.gpus.is_empty() || demand.gpus.is_some_and(|least| own_free < least) {
            continue;
        }
        counts.free_hosts += usize::from(own_free > 0);
        for (place, group) in &one.gpus {
            counts.counts[*group as usize] += 1;
            if *group == Group::Free {
                *free.entry(&live.models[*place]).or_default() += 1;
            }
        }
        found.push(one);
    }
    counts.models = models.into_iter().map(str::to_owned).collect();
    let free = free.into_iter();
    counts.free = free
        .map(|(model, count)| FreeModel {
            model: model.to_owned(),
            count,
        })
        .collect();
    counts.free.sort_by_key(|free| Reverse(free.count));
    (found, counts)
}

impl Counts {
    /// Chooses the page and returns how many items are on the pages before it.
    fn turn_to(&mut self, page: Option<usize>, items: usize, size: usize) -> usize {
        self.pages = items.div_ceil(size).max(1);
        self.page = page.unwrap_or(1).clamp(1, self.pages);
        (self.page - 1) * size
    }
}

impl Demand {
    fn has_memory(&self, gpu: &LiveGpu) -> bool {
        self.memory.is_none_or(|least| {
            matches!(gpu.memory_total_bytes, LiveValue::Known(total) if whole_gigabytes(total) >= least)
        })
    }
}

/// Memory in whole gigabytes of 2^30 bytes, rounded: drivers report a little less than the size under which a GPU is sold.
fn whole_gigabytes(bytes: u64) -> u64 {
    bytes.saturating_add(1 << 29) >> 30
}

/// Returns the model as people call it: `A100-SXM4-80GB`, `A100 80 GB`.
pub(crate) fn model(gpu: &LiveGpu) -> String {
    let name = gpu.name.as_deref().unwrap_or("GPU");
    let name = name.strip_prefix("NVIDIA ").unwrap_or(name);
    match gpu.memory_total_bytes {
        LiveValue::Known(total) if !name.contains("GB") && !name.contains("gb") => {
            format!("{name} {} GB", whole_gigabytes(total))
        }
        _ => name.to_owned(),
    }
}
