//! `gua available`: prints the free GPUs for scripts, and the holders of the others for people.

mod json;
pub(crate) mod lease;
mod page;
pub(crate) mod query;

use std::process::ExitCode;

use gua_claim::{Choice, LiveClaim};
use gua_collector::claims::{self, Names, Taken};
use gua_model::pick::{FreeRule, LastUse, Obstacle, Order, Wish, is_awaited, obstacle, sort};
use gua_model::text::sanitize;
use gua_model::{Gpu, GpuUuid, Place, Sample};
use gua_probe::process::is_user;
use gua_query::{LastUseQuestion, QueryError, Source as _};
use jiff::SignedDuration;

use self::page::Page;
use self::query::Query;
use super::quota;
use crate::cli::{AvailableArgs, RuleName};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output;

pub fn run(args: &AvailableArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let query = &Query {
        prefix: "gua available",
        args,
        format: Some(args.format.wanted()),
    };
    for user in &query.args.account_as_free {
        // A UID needs no name, and a directory service that does not answer may know the name.
        if user.parse::<u32>().is_err() && is_user(user) == Some(false) {
            let user = sanitize(user);
            let prefix = query.prefix;
            output::eprint(&format!("{prefix}: unknown user `{user}`\n"));
        }
    }
    if args.respect_quota {
        quota::refuse_who_is_over(context, query.prefix)?;
    }
    if query.args.claim.is_some() || query.args.wait.is_some() {
        return lease::run(query, context);
    }
    if query.args.for_pid.is_some() {
        return Err(Failure::usage("--for needs --claim or --wait").into());
    }
    let sample = context.sample()?;
    let wish = wish(query, context, &sample);
    let mut found = Found::new(query, context, &sample, &wish);
    let mut claims = Vec::new();
    // nvgpu has no claims.
    if query.args.rule == RuleName::Gua {
        match claims::taken(context.settings(), &sample, found.free_uuids()) {
            Ok(taken) => claims = found.leave_out(taken, &wish),
            Err(error) => output::eprint(&format!("{}: {error}\n", query.prefix)),
        }
    }
    let wanted = query
        .args
        .count
        .map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let is_enough =
        !found.free.is_empty() && wanted.is_none_or(|wanted| found.free.len() >= wanted);
    let had = found.free.len();
    match wanted.or(query.args.limit.filter(|limit| *limit > 0)) {
        _ if !is_enough => found.free.clear(),
        Some(most) => found.free.truncate(most),
        None => {}
    }
    let page = Page {
        sample: &sample,
        wish: &wish,
        query,
        found: &found,
        claims: &claims,
        granted: None,
    };
    page.print(is_enough || query.args.rule == RuleName::Nvgpu)?;
    if query.args.rule == RuleName::Nvgpu {
        return Ok(ExitCode::SUCCESS);
    }
    if !query.args.quiet {
        let mut text = page.obstacles();
        if !is_enough {
            text.push_str(&found.hidden_instances(query));
            text.push_str(&found.shortage(query, &wish, had, wanted));
        }
        output::eprint(&text);
    }
    Ok(match is_enough {
        true => ExitCode::SUCCESS,
        false => Exit::Nothing.into(),
    })
}

/// The GPUs of a sample: those that are free, in the wanted order, and the obstacles of the others.
#[derive(Debug)]
struct Found<'a> {
    free: Vec<&'a Gpu>,
    others: Vec<(&'a Gpu, Obstacle)>,
    /// Other GPUs that are acceptable once they are free.
    awaited: Vec<GpuUuid>,
    /// Number of free MIG instances that the query leaves out.
    instances: usize,
}

impl<'a> Found<'a> {
    fn new(query: &Query<'_>, context: &Context, sample: &'a Sample, wish: &Wish) -> Self {
        let mut past = LastUse::new();
        let (mut free, mut others) = divide(sample, wish, &past);
        // Past use matters only for GPUs that could be taken.
        if !free.is_empty() {
            past = last_use(query, wish, context, sample);
            (free, others) = divide(sample, wish, &past);
        }
        order(&mut free, query.args.order.as_ref());
        let has_name = |gpu: &Gpu| has_name(gpu, query);
        let instances = free.iter().filter(|gpu| !has_name(gpu)).count();
        free.retain(|gpu| has_name(gpu));
        let is_awaited = |gpu: &&Gpu| has_name(gpu) && is_awaited(gpu, wish, &past);
        let awaited = others.iter().map(|(gpu, _)| *gpu).filter(is_awaited);
        Self {
            awaited: awaited.map(|gpu| gpu.uuid.clone()).collect(),
            free,
            others,
            instances,
        }
    }

    fn free_uuids(&self) -> Vec<GpuUuid> {
        self.free.iter().map(|gpu| gpu.uuid.clone()).collect()
    }

    /// GPUs to request: the free ones, then those that are worth waiting for.
    fn choice(&self) -> Choice {
        let free = self.free_uuids();
        Choice {
            acceptable: free.iter().chain(&self.awaited).cloned().collect(),
            free,
        }
    }

    /// Removes GPUs that are claimed or kept for others, and returns the claims that count.
    fn leave_out(&mut self, taken: Taken, wish: &Wish) -> Vec<LiveClaim> {
        let mut names = Names::default();
        let mut claims = taken.survey.claims;
        if !wish.as_free.is_empty() {
            claims.retain(|live| {
                let (uid, name) = (live.claim.owner, names.user(live.claim.owner));
                let is_named = |user: &String| *user == uid.to_string() || *user == name;
                !wish.as_free.iter().any(is_named)
            });
        }
        self.against(&claims, |gpu| taken.kept.contains(gpu));
        claims
    }

    /// Moves free GPUs that are claimed, or kept for waiters, to the others.
    fn against(&mut self, claims: &[LiveClaim], is_kept: impl Fn(&GpuUuid) -> bool) {
        let why = |gpu: &Gpu| {
            let is_claimed = claims.iter().any(|live| live.holds(&gpu.uuid));
            is_claimed
                .then_some(Obstacle::Claimed)
                .or_else(|| is_kept(&gpu.uuid).then_some(Obstacle::Awaited))
        };
        let moved = self.free.iter().filter_map(|gpu| Some((*gpu, why(gpu)?)));
        self.others.extend(moved);
        self.others.sort_by_key(|(gpu, _)| gpu.index);
        self.free.retain(|gpu| why(gpu).is_none());
    }

    /// Message that only `had` of the `wanted` GPUs are free.
    fn shortage(
        &self,
        query: &Query<'_>,
        wish: &Wish,
        had: usize,
        wanted: Option<usize>,
    ) -> String {
        let prefix = query.prefix;
        match wanted {
            Some(wanted) if had > 0 => format!("{prefix}: {had} free, {wanted} wanted\n"),
            _ if self.is_without_model(wish) => format!(
                "{prefix}: no GPU of this host is called {}\n",
                wish.models
                    .iter()
                    .map(|model| format!("`{}`", sanitize(model)))
                    .collect::<Vec<_>>()
                    .join(" or ")
            ),
            _ => format!("{prefix}: no GPU is free\n"),
        }
    }

    /// Whether the request names a model that no GPU of this host has.
    fn is_without_model(&self, wish: &Wish) -> bool {
        let is_other =
            |(_, why): &(&Gpu, Obstacle)| matches!(why, Obstacle::OtherModel | Obstacle::Divided);
        let has_none = self.free.is_empty() && self.instances == 0;
        !wish.models.is_empty() && has_none && self.others.iter().all(is_other)
    }

    fn hidden_instances(&self, query: &Query<'_>) -> String {
        match self.instances {
            0 => String::new(),
            _ if query.args.uuid => String::new(),
            1 => "gua available: 1 MIG instance is free; --uuid includes it\n".to_owned(),
            instances => {
                format!("gua available: {instances} MIG instances are free; --uuid includes them\n")
            }
        }
    }
}

/// Whether the GPU can be named in the answer: MIG instances have no index.
fn has_name(gpu: &Gpu, query: &Query<'_>) -> bool {
    query.args.uuid || !matches!(gpu.place, Place::Instance { .. })
}

fn wish(query: &Query<'_>, context: &Context, sample: &Sample) -> Wish {
    let free_for = SignedDuration::try_from(query.args.free_for).unwrap_or(SignedDuration::MAX);
    Wish {
        rule: match query.args.rule {
            RuleName::Gua => FreeRule::Unheld,
            RuleName::Nvgpu => FreeRule::MemoryAlone,
        },
        thresholds: context.settings().thresholds(),
        max_used: query.args.max_used_percent,
        min_free: query.args.min_free_memory,
        max_util: query.args.max_util,
        models: query.args.gpu_model.clone(),
        as_free: query.args.account_as_free.clone(),
        idle_since: sample
            .at
            .checked_sub(free_for)
            .ok()
            .filter(|_| !free_for.is_zero()),
    }
}

/// Recent use according to a running daemon. Without one, or if its history cannot be read, only the sample decides.
fn last_use(query: &Query<'_>, wish: &Wish, context: &Context, sample: &Sample) -> LastUse {
    let Some(from) = wish.idle_since.filter(|_| wish.rule == FreeRule::Unheld) else {
        return LastUse::new();
    };
    let question = LastUseQuestion {
        from,
        now: sample.at,
        thresholds: context.settings().thresholds(),
        as_free: wish.as_free.clone(),
    };
    match context.source().last_use(&question) {
        Ok(used) => used,
        // Without a history, past use is unknown.
        Err(QueryError::Open(_)) => LastUse::new(),
        Err(error) => {
            let prefix = query.prefix;
            output::eprint(&format!("{prefix}: cannot query the history: {error}\n"));
            LastUse::new()
        }
    }
}

/// Divides the GPUs of a sample into free ones and others with their obstacles.
fn divide<'a>(
    sample: &'a Sample,
    wish: &Wish,
    last_use: &LastUse,
) -> (Vec<&'a Gpu>, Vec<(&'a Gpu, Obstacle)>) {
    let mut free = Vec::new();
    let mut others = Vec::new();
    for gpu in &sample.gpus {
        match obstacle(gpu, wish, last_use) {
            None => free.push(gpu),
            Some(why) => others.push((gpu, why)),
        }
    }
    (free, others)
}

/// Sorts by the wanted order, whole GPUs before MIG instances: no program can use both at once.
fn order(free: &mut [&Gpu], order: Option<&Order>) {
    if let Some(order) = order {
        sort(free, order, |gpu| gpu);
    }
    free.sort_by_key(|gpu| matches!(gpu.place, Place::Instance { .. }));
}
