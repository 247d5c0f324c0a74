//! The GPUs of a sample as an answer to a query: those that are free, and the obstacles of the others.

use gua_claim::{Claim, LiveClaim, Short};
use gua_collector::claims::{Names, Taken, deadline};
use gua_model::pick::{
    Criteria, FreeRule, HealthRule, LastUse, Obstacle, against, is_awaited, obstacle, sort,
};
use gua_model::text::short_age;
use gua_model::{Gpu, GpuUuid, Place, Sample, classify};
use gua_probe::host::time::ticks_per_second;
use gua_query::{LastUseQuestion, QueryError};
use gua_render::listing::row::owner_and_workload;
use gua_render::listing::{
    AVAILABLE, AvailableDocument, Granted, ListedHolder, OfferedGpu, Refusal, RefusedGpu,
};
use jiff::SignedDuration;

use super::Query;
use crate::commands::prelude::*;

/// Maximum number of holders that are named; more are counted.
const NAMED: usize = 4;

#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) query: &'a Query<'a>,
    pub(super) sample: &'a Sample,
    pub(super) criteria: Criteria,
    /// In the wanted order.
    pub(super) free: Vec<&'a Gpu>,
    pub(super) others: Vec<(&'a Gpu, Obstacle)>,
    /// Other GPUs that are acceptable once they are free.
    awaited: Vec<GpuUuid>,
    /// Number of free MIG instances that the query leaves out.
    instances: usize,
    /// Claims that are obstacles.
    claims: Vec<LiveClaim>,
}

impl<'a> Found<'a> {
    pub(super) fn new(query: &'a Query<'a>, sample: &'a Sample) -> Self {
        let criteria = criteria(query, sample);
        let mut past = LastUse::new();
        let (mut free, mut others) = divide(sample, &criteria, &past);
        // Past use matters only for GPUs that could be taken.
        if !free.is_empty() {
            past = last_use(query, &criteria, sample);
            (free, others) = divide(sample, &criteria, &past);
        }
        if let Some(order) = &query.args.order {
            sort(&mut free, order, |gpu| gpu);
        }
        // Whole GPUs before MIG instances: no program can use both at once.
        free.sort_by_key(|gpu| matches!(gpu.place, Place::Instance { .. }));
        let has_name = |gpu: &Gpu| has_name(gpu, query);
        let instances = free.iter().filter(|gpu| !has_name(gpu)).count();
        free.retain(|gpu| has_name(gpu));
        let is_awaited = |gpu: &&Gpu| has_name(gpu) && is_awaited(gpu, &criteria, &past);
        let awaited = others.iter().map(|(gpu, _)| *gpu).filter(is_awaited);
        Self {
            awaited: awaited.map(|gpu| gpu.uuid.clone()).collect(),
            query,
            sample,
            criteria,
            free,
            others,
            instances,
            claims: Vec::new(),
        }
    }

    pub(super) fn free_uuids(&self) -> Vec<GpuUuid> {
        self.free.iter().map(|gpu| gpu.uuid.clone()).collect()
    }

    /// Keeps as many free GPUs as are wanted: all of an exact number or none, and at most the limit.
    pub(super) fn limit(&mut self) {
        match (self.query.args.exactly(), self.query.args.limit) {
            (Some(count), _) if self.free.len() < count => self.free.clear(),
            (Some(most), _) | (None, Some(most @ 1..)) => self.free.truncate(most),
            (None, _) => {}
        }
    }

    /// GPUs to request: the free ones, then those that are worth waiting for.
    pub(super) fn acceptable(&self) -> Vec<GpuUuid> {
        [self.free_uuids(), self.awaited.clone()].concat()
    }

    /// Removes GPUs that are claimed or kept for others.
    pub(super) fn leave_out(&mut self, taken: Taken) {
        let mut names = Names::default();
        self.claims = taken.survey.claims;
        if !self.criteria.as_free.is_empty() {
            self.claims.retain(|live| {
                let (uid, name) = (live.claim.owner, names.user(live.claim.owner));
                let is_named = |user: &String| *user == uid.to_string() || *user == name;
                !self.criteria.as_free.iter().any(is_named)
            });
        }
        self.move_taken(|gpu| taken.kept.contains(gpu));
    }

    /// Leaves no GPU free; claims and reservations of waiters are among the obstacles.
    pub(super) fn refuse(&mut self, short: &Short) {
        self.claims.clone_from(&short.claims);
        self.move_taken(|gpu| !short.left.contains(gpu));
        self.free.clear();
    }

    /// Offers exactly the GPUs of a claim, regardless of what a history says by now.
    pub(super) fn grant(&mut self, claim: &Claim) {
        let gpu_of = |uuid: &GpuUuid| self.sample.gpus.iter().find(|gpu| gpu.uuid == *uuid);
        self.free = claim.gpus.iter().filter_map(gpu_of).collect();
        self.others
            .retain(|(gpu, _)| !claim.gpus.contains(&gpu.uuid));
    }

    /// Moves free GPUs that are claimed, or kept for waiters, to the others.
    fn move_taken(&mut self, is_kept: impl Fn(&GpuUuid) -> bool) {
        let claims = &self.claims;
        let why = |gpu: &Gpu| match claims.iter().any(|live| live.holds(&gpu.uuid)) {
            true => Some(Obstacle::Claimed),
            false => is_kept(&gpu.uuid).then_some(Obstacle::Awaited),
        };
        let moved = self.free.iter().filter_map(|gpu| Some((*gpu, why(gpu)?)));
        self.others.extend(moved);
        self.others.sort_by_key(|(gpu, _)| gpu.index);
        self.free.retain(|gpu| why(gpu).is_none());
    }

    /// Message that only `had` of the `wanted` GPUs are free, and that instances are left out.
    pub(super) fn shortage(&self, had: usize, wanted: Option<usize>) -> String {
        let gpus = self.sample.gpus.iter();
        let all = gpus.filter(|gpu| gpu.place.counts()).count();
        let line = match wanted {
            Some(wanted) if wanted > all && !self.is_without_model() => {
                let all = counted(all as u64, "GPU");
                format!("{wanted} wanted, but this host has only {all}")
            }
            Some(wanted) if had > 0 => format!("{had} free, {wanted} wanted"),
            _ if self.is_without_model() => {
                let models = self.criteria.models.iter();
                let models = models.map(|model| format!("`{}`", sanitize(model)));
                let models = models.collect::<Vec<_>>().join(" or ");
                format!("no GPU of this host is called {models}")
            }
            _ => "no GPU is free".to_owned(),
        };
        self.hidden_instances() + &self.query.line(line)
    }

    /// Whether the request names a model that no GPU of this host has.
    pub(super) fn is_without_model(&self) -> bool {
        let is_other =
            |(_, why): &(&Gpu, Obstacle)| matches!(why, Obstacle::OtherModel | Obstacle::Divided);
        let has_none = self.free.is_empty() && self.instances == 0;
        !self.criteria.models.is_empty() && has_none && self.others.iter().all(is_other)
    }

    pub(super) fn hidden_instances(&self) -> String {
        match self.instances {
            _ if self.query.args.uuid => String::new(),
            0 => String::new(),
            1 => "gua available: 1 MIG instance is free; --uuid includes it\n".to_owned(),
            instances => {
                format!("gua available: {instances} MIG instances are free; --uuid includes them\n")
            }
        }
    }

    /// Prints the GPUs as text, or everything as JSON or CSV.
    pub(super) fn print(&self, has_answer: bool, granted: Option<&Claim>) -> anyhow::Result<()> {
        match self.query.format {
            Some(TableFormat::Json) => output::raw(pretty(&self.document(granted)).as_bytes()),
            Some(TableFormat::Csv) => output::data(&csv(&self.document(granted).table())),
            Some(TableFormat::Text) if has_answer => {
                let name = |gpu: &&Gpu| match self.query.args.uuid {
                    true => gpu.uuid.to_string(),
                    false => gpu.index.to_string(),
                };
                let names: Vec<String> = self.free.iter().map(name).collect();
                output::data(&format!("{}\n", names.join(",")))
            }
            Some(TableFormat::Text) | None => Ok(()),
        }
    }

    /// The answer for programs: the free GPUs, why the others are not free, and the claim.
    fn document(&self, granted: Option<&Claim>) -> AvailableDocument {
        let mut names = Names::default();
        let sample = self.sample;
        let others = self.others.iter().map(|(gpu, why)| {
            let claims = self.claims.iter().filter(|live| live.holds(&gpu.uuid));
            let holders = against(gpu, &self.criteria);
            RefusedGpu {
                gpu: OfferedGpu::new(gpu),
                refusal: Refusal {
                    why: why.to_string(),
                    used_seconds_ago: match why {
                        Obstacle::UsedAt(at) => Some(sample.at.duration_since(*at).as_secs()),
                        _ => None,
                    },
                    state: classify(gpu, &self.criteria.thresholds, None)
                        .state
                        .as_str(),
                },
                holders: holders
                    .map(|process| ListedHolder::new(process, sample, ticks_per_second()))
                    .collect(),
                claims: claims.map(|live| names.listed(live, sample.at)).collect(),
            }
        });
        AvailableDocument {
            schema: AVAILABLE,
            at: sample.at,
            rule: self.query.args.rule.as_str(),
            available: self.free.iter().map(|gpu| OfferedGpu::new(gpu)).collect(),
            not_available: others.collect(),
            claim: granted.map(|claim| Granted {
                id: claim.id.to_string(),
                for_pid: claim.for_process.pid.0,
                until: deadline(claim.deadline.saturating_sub(sample.since_boot), sample.at),
            }),
        }
    }

    /// One line for each GPU that is not free.
    pub(super) fn obstacles(&self) -> String {
        let mut names = Names::default();
        let mut text = String::new();
        for (gpu, why) in &self.others {
            let name = match &gpu.place {
                Place::Instance { .. } => format!("gpu {} instance {}", gpu.index, gpu.uuid),
                Place::Whole | Place::Parent { .. } => format!("gpu {}", gpu.index),
            };
            let what = match why {
                Obstacle::OtherModel | Obstacle::Divided => continue,
                Obstacle::Held => format!("is held by {}", self.holders(gpu)),
                Obstacle::UsedAt(at) => {
                    let age = self.sample.at.duration_since(*at).unsigned_abs();
                    format!("was in use {} ago", short_age(age))
                }
                Obstacle::Claimed => {
                    let by = self.claims.iter().filter(|live| live.holds(&gpu.uuid));
                    let by = by.map(|live| names.claim(live, self.sample.at));
                    format!("is claimed by {}", by.collect::<Vec<_>>().join(" and by "))
                }
                Obstacle::Unhealthy(fault) => {
                    format!("is unhealthy ({fault}); --unhealthy includes it")
                }
                small @ Obstacle::TooSmall(_) => format!("is {small}"),
                other => format!("is not free: {other}"),
            };
            text.push_str(&self.query.line(format!("{name} {what}")));
        }
        let problems = self.sample.problems.iter();
        for problem in problems.filter(|problem| problem.gpu.is_none()) {
            text.push_str(&self.query.line(problem));
        }
        text
    }

    fn holders(&self, gpu: &Gpu) -> String {
        let ticks = ticks_per_second();
        let mut named: Vec<String> = against(gpu, &self.criteria)
            .map(|process| {
                let identity = process.identity.as_ref().ok();
                let age = identity.and_then(|identity| identity.age(self.sample.since_boot, ticks));
                let held = age.map(|age| format!(", for {}", short_age(age)));
                let held = held.unwrap_or_default();
                let owner = owner_and_workload(process);
                format!("{owner} (pid {}{held})", process.pid)
            })
            .collect();
        let more = named.len().saturating_sub(NAMED);
        named.truncate(NAMED);
        if more > 0 {
            named.push(format!("{more} more"));
        }
        let state = classify(gpu, &self.criteria.thresholds, None).state;
        format!("{}; {state}", named.join(", "))
    }
}

/// Whether the GPU can be named in the answer: MIG instances have no index.
pub(super) fn has_name(gpu: &Gpu, query: &Query<'_>) -> bool {
    query.args.uuid || !matches!(gpu.place, Place::Instance { .. })
}

fn criteria(query: &Query<'_>, sample: &Sample) -> Criteria {
    let args = query.args;
    let free_for = SignedDuration::try_from(args.free_for).unwrap_or(SignedDuration::MAX);
    let idle_since = sample.at.checked_sub(free_for).ok();
    Criteria {
        rule: args.rule,
        health: match args.unhealthy {
            true => HealthRule::Ignored,
            false => HealthRule::Required,
        },
        thresholds: query.context.settings().thresholds(),
        max_used: args.max_used_percent,
        min_free: args.min_free_memory,
        max_util: args.max_util,
        models: args.gpu_model.clone(),
        as_free: args.account_as_free.clone(),
        idle_since: idle_since.filter(|_| !free_for.is_zero()),
    }
}

/// Recent use according to a running daemon. Without one, or if its history cannot be read, only the sample decides.
fn last_use(query: &Query<'_>, criteria: &Criteria, sample: &Sample) -> LastUse {
    let Some(from) = criteria
        .idle_since
        .filter(|_| criteria.rule == FreeRule::Unheld)
    else {
        return LastUse::new();
    };
    let question = LastUseQuestion {
        from,
        now: sample.at,
        thresholds: criteria.thresholds,
        as_free: criteria.as_free.clone(),
    };
    match query.context.source().last_use(&question) {
        Ok(used) => used,
        // Without a history, past use is unknown.
        Err(QueryError::Open(_)) => LastUse::new(),
        Err(error) => {
            output::eprint(&query.line(format!("cannot query the history: {error}")));
            LastUse::new()
        }
    }
}

type Divided<'a> = (Vec<&'a Gpu>, Vec<(&'a Gpu, Obstacle)>);

/// Divides the GPUs of a sample into free ones and others with their obstacles.
fn divide<'a>(sample: &'a Sample, criteria: &Criteria, last_use: &LastUse) -> Divided<'a> {
    let mut divided = Divided::default();
    for gpu in &sample.gpus {
        match obstacle(gpu, criteria, last_use) {
            None => divided.0.push(gpu),
            Some(why) => divided.1.push((gpu, why)),
        }
    }
    divided
}
