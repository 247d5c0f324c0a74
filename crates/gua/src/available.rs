//! `gua available`: the cards that are free, for a script; and for a person, who holds the others.

mod json;
mod lease;
mod page;

use std::process::ExitCode;

use gua_claim::LiveClaim;
use gua_model::pick::{FreeRule, LastUse, Obstacle, Order, Wish, is_awaited, obstacle, sort};
use gua_model::text::sanitize;
use gua_model::{Gpu, GpuUuid, Place, Sample};
use gua_probe::process::is_user;
use gua_query::{LastUseQuestion, QueryError, Source as _};
use jiff::SignedDuration;

use crate::claims::words::Names;
use crate::claims::{self, Choice, Taken};
use crate::cli::{AvailableArgs, RuleName};
use crate::config::Loaded;
use crate::failure::{Exit, Failure};
use crate::{driver, output, quota, which};
use page::Page;

pub fn run(args: &AvailableArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    for user in &args.account_as_free {
        // A number needs no name; a directory that does not answer may know them.
        if user.parse::<u32>().is_err() && is_user(user) == Some(false) {
            let user = sanitize(user);
            let speaker = args.speaker();
            output::talk(&format!("{speaker}: no user `{user}` is known here\n"));
        }
    }
    if args.respect_quota {
        quota::refuse_who_is_over(loaded, args.speaker())?;
    }
    if args.claim.is_some() || args.wait.is_some() {
        return lease::run(args, loaded);
    }
    if args.for_pid.is_some() {
        return Err(Failure::usage("--for needs --claim or --wait").into());
    }
    let settings = &loaded.settings;
    let sample = driver::sample(&mut driver::reader(settings))?;
    let wish = wish(args, loaded, &sample);
    let mut found = Found::new(args, loaded, &sample, &wish);
    let mut claims = Vec::new();
    // nvgpu knows of no claims.
    if args.rule == RuleName::Gua {
        match claims::taken(settings, &sample, found.free_uuids()) {
            Ok(taken) => claims = found.leave_out(taken, &wish),
            Err(error) => output::talk(&format!("{}: {error}\n", args.speaker())),
        }
    }
    let wanted = args
        .count
        .map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let is_enough =
        !found.free.is_empty() && wanted.is_none_or(|wanted| found.free.len() >= wanted);
    let had = found.free.len();
    match wanted.or(args.limit.filter(|limit| *limit > 0)) {
        _ if !is_enough => found.free.clear(),
        Some(most) => found.free.truncate(most),
        None => {}
    }
    let page = Page {
        sample: &sample,
        wish: &wish,
        args,
        found: &found,
        claims: &claims,
        granted: None,
    };
    page.print(is_enough || args.rule == RuleName::Nvgpu)?;
    if args.rule == RuleName::Nvgpu {
        return Ok(ExitCode::SUCCESS);
    }
    if !args.quiet {
        let mut told = page.told();
        if !is_enough {
            told.push_str(&found.hidden_instances(args));
            told.push_str(&found.shortage(args, &wish, had, wanted));
        }
        output::talk(&told);
    }
    Ok(match is_enough {
        true => ExitCode::SUCCESS,
        false => Exit::Nothing.into(),
    })
}

/// The cards of a sample by a wish: those that are free in the wished order, and what speaks against the others.
#[derive(Debug)]
struct Found<'a> {
    free: Vec<&'a Gpu>,
    others: Vec<(&'a Gpu, Obstacle)>,
    /// Of the others, those that would be taken once they are free.
    awaited: Vec<GpuUuid>,
    /// Free MIG instances that were not asked for.
    instances: usize,
}

impl<'a> Found<'a> {
    fn new(args: &AvailableArgs, loaded: &Loaded, sample: &'a Sample, wish: &Wish) -> Self {
        let mut past = LastUse::new();
        let (mut free, mut others) = divide(sample, wish, &past);
        // Only of cards that could be taken the past matters.
        if !free.is_empty() {
            past = last_use(args, wish, loaded, sample);
            (free, others) = divide(sample, wish, &past);
        }
        order(&mut free, args.order.as_ref());
        let has_name = |gpu: &Gpu| has_name(gpu, args);
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

    /// What is asked for: the free cards, and after them those that are worth waiting for.
    fn choice(&self) -> Choice {
        let free = self.free_uuids();
        Choice {
            acceptable: free.iter().chain(&self.awaited).cloned().collect(),
            free,
        }
    }

    /// Takes out what is claimed or kept for others, and gives back the claims that counted.
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

    /// Moves free cards that are claimed, or kept for those who wait, to the others.
    fn against(&mut self, claims: &[LiveClaim], is_kept: impl Fn(&GpuUuid) -> bool) {
        let why = |gpu: &Gpu| {
            let is_claimed = claims.iter().any(|live| holds(live, &gpu.uuid));
            is_claimed
                .then_some(Obstacle::Claimed)
                .or_else(|| is_kept(&gpu.uuid).then_some(Obstacle::Awaited))
        };
        let moved = self.free.iter().filter_map(|gpu| Some((*gpu, why(gpu)?)));
        self.others.extend(moved);
        self.others.sort_by_key(|(gpu, _)| gpu.index);
        self.free.retain(|gpu| why(gpu).is_none());
    }

    /// Why there are too few: `had` of the `wanted` ones.
    fn shortage(
        &self,
        args: &AvailableArgs,
        wish: &Wish,
        had: usize,
        wanted: Option<usize>,
    ) -> String {
        let speaker = args.speaker();
        match wanted {
            Some(wanted) if had > 0 => format!("{speaker}: {had} free, {wanted} wanted\n"),
            _ if self.is_without_model(wish) => format!(
                "{speaker}: no card here is called {}\n",
                wish.models
                    .iter()
                    .map(|model| format!("`{}`", sanitize(model)))
                    .collect::<Vec<_>>()
                    .join(" or ")
            ),
            _ => format!("{speaker}: no card is free\n"),
        }
    }

    /// Whether a model was asked for and no card here is of it.
    fn is_without_model(&self, wish: &Wish) -> bool {
        let is_other =
            |(_, why): &(&Gpu, Obstacle)| matches!(why, Obstacle::OtherModel | Obstacle::Divided);
        let has_none = self.free.is_empty() && self.instances == 0;
        !wish.models.is_empty() && has_none && self.others.iter().all(is_other)
    }

    fn hidden_instances(&self, args: &AvailableArgs) -> String {
        match self.instances {
            0 => String::new(),
            _ if args.uuid => String::new(),
            1 => "gua available: 1 MIG instance is free; --uuid names it\n".to_owned(),
            instances => {
                format!("gua available: {instances} MIG instances are free; --uuid names them\n")
            }
        }
    }
}

/// Whether the card can be told: MIG instances have no numbers.
fn has_name(gpu: &Gpu, args: &AvailableArgs) -> bool {
    args.uuid || !matches!(gpu.place, Place::Instance { .. })
}

fn holds(live: &LiveClaim, gpu: &GpuUuid) -> bool {
    live.cards.iter().any(|card| card.gpu == *gpu)
}

fn wish(args: &AvailableArgs, loaded: &Loaded, sample: &Sample) -> Wish {
    let free_for = SignedDuration::try_from(args.free_for).unwrap_or(SignedDuration::MAX);
    Wish {
        rule: match args.rule {
            RuleName::Gua => FreeRule::Unheld,
            RuleName::Nvgpu => FreeRule::MemoryAlone,
        },
        thresholds: loaded.settings.thresholds(),
        max_used: args.max_used_percent,
        min_free: args.min_free_memory,
        max_util: args.max_util,
        models: args.gpu_model.clone(),
        as_free: args.account_as_free.clone(),
        idle_since: sample
            .at
            .checked_sub(free_for)
            .ok()
            .filter(|_| !free_for.is_zero()),
    }
}

/// What a running daemon saw lately. Without one, or where its history cannot be read, the look of this moment decides.
fn last_use(args: &AvailableArgs, wish: &Wish, loaded: &Loaded, sample: &Sample) -> LastUse {
    let Some(from) = wish.idle_since.filter(|_| wish.rule == FreeRule::Unheld) else {
        return LastUse::new();
    };
    let question = LastUseQuestion {
        from,
        now: sample.at,
        thresholds: loaded.settings.thresholds(),
        as_free: wish.as_free.clone(),
    };
    match which::source(loaded).last_use(&question) {
        Ok(used) => used,
        // Without a history nothing is known of the past.
        Err(QueryError::Open(_)) => LastUse::new(),
        Err(error) => {
            let speaker = args.speaker();
            output::talk(&format!(
                "{speaker}: the history cannot be asked: {error}\n"
            ));
            LastUse::new()
        }
    }
}

/// The free cards, and the others with what speaks against them.
pub(crate) fn divide<'a>(
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

/// Whole cards before instances, since no program can use both at once; then by the wished order.
fn order(free: &mut [&Gpu], order: Option<&Order>) {
    if let Some(order) = order {
        sort(free, order, |gpu| gpu);
    }
    free.sort_by_key(|gpu| matches!(gpu.place, Place::Instance { .. }));
}
