//! Where work can run now: the GPUs of all hosts of a workspace, filtered, grouped and paged.
//!
//! The agent decided whether a GPU is free. The only decision here is that a host which stopped reporting has no free GPUs,
//! because nobody knows what its GPUs do now.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gua_board_store::HostId;
use gua_board_store::registry::Host;
use gua_model::State;
use gua_model::state::RollUp;
use gua_wire::live::{HealthWord, LiveGpu, LiveValue, ObstacleWord};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::live::{HostLive, LiveState, Since};

/// GPUs on one page.
const PAGE: usize = 100;
/// Points of a utilisation curve.
const CURVE_POINTS: usize = 36;

/// What a person looks for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Demand {
    /// Part of the model's name, regardless of case.
    pub model: Option<String>,
    /// Minimum memory of the GPU, in gigabytes.
    pub memory: Option<u64>,
    /// Minimum number of matching free GPUs on one host.
    pub gpus: Option<usize>,
    /// Number of the page, from 1.
    pub page: Option<usize>,
}

/// What a GPU means for a person who looks for a free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    Free,
    /// Held without being used: worth asking its holder.
    IdleHeld,
    InUse,
    /// Unobserved, lost, unhealthy, or on a host that stopped reporting.
    Unusable,
}

impl Group {
    pub const ALL: [Group; 4] = [Group::Free, Group::IdleHeld, Group::InUse, Group::Unusable];

    /// Returns the group of a GPU.
    #[must_use]
    pub fn of(gpu: &LiveGpu, is_stale: bool) -> Self {
        let is_unseen = gpu.state == State::Unobserved
            || matches!(
                gpu.obstacle,
                Some(ObstacleWord::Unobserved | ObstacleWord::Unhealthy)
            )
            || gpu.health.contains(&HealthWord::Lost);
        match () {
            () if is_stale => Group::Unusable,
            () if gpu.is_free() => Group::Free,
            () if is_unseen => Group::Unusable,
            () if gpu.state.roll_up() == Some(RollUp::IdleHeld) => Group::IdleHeld,
            () => Group::InUse,
        }
    }
}

/// One GPU of a host.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub host: HostId,
    pub host_name: String,
    pub group: Group,
    pub is_stale: bool,
    pub received_at: Timestamp,
    pub since: Option<Since>,
    /// Utilisation of the last hour in equal parts, in percent; `null` for an unobserved part.
    pub curve: Vec<Option<u8>>,
    #[serde(flatten)]
    pub gpu: LiveGpu,
}

impl Row {
    /// Describes one GPU of a host.
    #[must_use]
    pub fn new(host: &Host, live: &HostLive, gpu: &LiveGpu, now: Timestamp) -> Self {
        let is_stale = live.is_stale(now);
        let curve = live.curves.get(&gpu.uuid);
        Self {
            host: host.id.clone(),
            host_name: host.display_name.clone(),
            group: Group::of(gpu, is_stale),
            is_stale,
            received_at: live.received_at,
            since: live.since.get(&gpu.uuid).copied(),
            curve: curve.map_or_else(Vec::new, |curve| {
                curve.points(CURVE_POINTS, now.as_second())
            }),
            gpu: gpu.clone(),
        }
    }
}

/// Number of free GPUs of one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FreeModel {
    pub model: String,
    pub count: usize,
}

/// The answer to a demand.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Availability {
    /// Free GPUs by model, the most frequent first.
    pub free: Vec<FreeModel>,
    /// Number of hosts with a free GPU.
    pub free_hosts: usize,
    /// Number of matching GPUs in each group, in the order of [`Group::ALL`].
    pub counts: [usize; 4],
    /// Models of all hosts, for the filter.
    pub models: BTreeSet<String>,
    pub page: usize,
    pub pages: usize,
    /// GPUs of this page, by group, host and index.
    pub rows: Vec<Row>,
}

impl Availability {
    /// Answers a demand with the live state of the given hosts.
    #[must_use]
    pub fn new(hosts: &[Host], live: &LiveState, demand: &Demand, now: Timestamp) -> Self {
        let states: Vec<(&Host, HostLive)> = hosts
            .iter()
            .filter_map(|host| Some((host, live.host(&host.id)?)))
            .collect();
        let mut models = BTreeSet::new();
        let mut free = BTreeMap::<String, usize>::new();
        let mut free_hosts = 0;
        let mut found: Vec<(Group, &Host, &HostLive, &LiveGpu)> = Vec::new();
        for (host, live) in &states {
            let is_stale = live.is_stale(now);
            let first = found.len();
            for gpu in live.report.gpus.iter().filter(|gpu| gpu.counts()) {
                let model = model(gpu);
                if demand.matches(gpu, &model) {
                    found.push((Group::of(gpu, is_stale), host, live, gpu));
                }
                if !models.contains(&model) {
                    models.insert(model);
                }
            }
            let own = found[first..].iter();
            let own_free = own.filter(|(group, ..)| *group == Group::Free).count();
            if demand.gpus.is_some_and(|least| own_free < least) {
                found.truncate(first);
                continue;
            }
            free_hosts += usize::from(own_free > 0);
        }
        let mut counts = [0; 4];
        for (group, _, _, gpu) in &found {
            counts[*group as usize] += 1;
            if *group == Group::Free {
                *free.entry(model(gpu)).or_default() += 1;
            }
        }
        // Stable: within a group the order of hosts and of their GPUs stays.
        found.sort_by_key(|(group, ..)| *group);
        let pages = found.len().div_ceil(PAGE).max(1);
        let page = demand.page.unwrap_or(1).clamp(1, pages);
        let shown = found.into_iter().skip((page - 1) * PAGE).take(PAGE);
        let mut free: Vec<FreeModel> = free
            .into_iter()
            .map(|(model, count)| FreeModel { model, count })
            .collect();
        free.sort_by_key(|free| Reverse(free.count));
        Self {
            free,
            free_hosts,
            counts,
            models,
            page,
            pages,
            rows: shown
                .map(|(_, host, live, gpu)| Row::new(host, live, gpu, now))
                .collect(),
        }
    }
}

impl Demand {
    fn matches(&self, gpu: &LiveGpu, model: &str) -> bool {
        let has_name = self
            .model
            .as_ref()
            .is_none_or(|part| model.to_lowercase().contains(&part.trim().to_lowercase()));
        let has_memory = self.memory.is_none_or(|least| {
            matches!(gpu.memory_total_bytes, LiveValue::Known(total) if whole_gigabytes(total) >= least)
        });
        has_name && has_memory
    }
}

/// Memory in whole gigabytes of 2^30 bytes, rounded: drivers report a little less than the size under which a GPU is sold.
fn whole_gigabytes(bytes: u64) -> u64 {
    bytes.saturating_add(1 << 29) >> 30
}

/// Returns the model as people call it: `A100-SXM4-80GB`, `A100 80 GB`.
#[must_use]
pub fn model(gpu: &LiveGpu) -> String {
    let name = gpu.name.as_deref().unwrap_or("GPU");
    let name = name.strip_prefix("NVIDIA ").unwrap_or(name);
    match gpu.memory_total_bytes {
        LiveValue::Known(total) if !name.contains("GB") && !name.contains("gb") => {
            format!("{name} {} GB", whole_gigabytes(total))
        }
        _ => name.to_owned(),
    }
}
