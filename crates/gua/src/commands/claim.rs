//! `gua claim`: lists leased GPUs, their holders and waiters, and releases leases.

use std::path::Path;

use gua_claim::{
    ClaimError, ClaimId, ClaimedBy, Kernel as _, LeasedGpu, LiveClaim, Observed, PidNamespace,
    Survey, Waiter,
};
use gua_collector::claims::{Claims, Names, deadline, moment};
use gua_model::text::short_age;
use gua_model::{Gpu, GpuUuid, Place, Sample};
use gua_render::listing::{CLAIMS, ClaimEntry, ClaimedGpu, ClaimsDocument, QueueEntry};
use gua_render::table::{Cell, Table};

use crate::commands::prelude::*;

pub fn run(command: &ClaimCommand, context: &Context) -> anyhow::Result<ExitCode> {
    let claims = Claims::open(context.settings())?;
    match command {
        ClaimCommand::List { format } => list(&claims, context, format.wanted()),
        ClaimCommand::Release {
            ids,
            all_mine: false,
        } => release(&claims, ids),
        ClaimCommand::Release { .. } => release_own(&claims, context),
    }
}

/// The claims, and the current state of the GPUs. Without a driver, claims that are kept alive by use alone are
/// unknown.
pub(super) struct Seen {
    sample: Option<Sample>,
    observed: Observed,
    survey: Survey,
    /// PID namespace of this process.
    namespace: Option<PidNamespace>,
}

impl Seen {
    /// Reads the claims beside a sample; without one, the processes on the GPUs are unknown.
    pub(super) fn of(
        claims: &Claims,
        sample: Option<Sample>,
        context: &Context,
    ) -> Result<Self, ClaimError> {
        let observed = match &sample {
            Some(sample) => {
                let (boot, thresholds) = (claims.kernel.boot, context.settings().thresholds());
                Observed::new(sample, boot, &thresholds)
            }
            None => Observed::blind(claims.kernel.now()),
        };
        Ok(Self {
            survey: claims.dir.survey(&observed, &claims.kernel)?,
            namespace: claims.kernel.namespace(),
            sample,
            observed,
        })
    }

    /// A GPU that is present.
    fn gpu(&self, uuid: &GpuUuid) -> Option<&Gpu> {
        let gpus = &self.sample.as_ref()?.gpus;
        gpus.iter().find(|gpu| gpu.uuid == *uuid)
    }

    /// Whether the claim's process, or one that it started, uses the GPU. `None` if that is unknown: without a driver,
    /// on a GPU whose processes it does not list, and for a process in another PID namespace.
    fn is_in_use(&self, live: &LiveClaim, gpu: &LeasedGpu) -> Option<bool> {
        let is_known = self.sample.is_some() && !self.observed.unread.contains(&gpu.gpu);
        let is_here = live.claim.namespace.is_none() || live.claim.namespace == self.namespace;
        match gpu.by {
            ClaimedBy::Use => Some(true),
            ClaimedBy::Lease if is_known && is_here => Some(false),
            ClaimedBy::Lease | ClaimedBy::Doubt => None,
        }
    }
}

fn see(claims: &Claims, context: &Context, name: &str) -> anyhow::Result<Seen> {
    let sample = context.sample();
    if let Err(fault) = &sample {
        output::eprint(&format!(
            "{name}: {}\n{name}: the processes on the GPUs are unknown, so claims that are kept alive by use alone are left out\n",
            chain(fault)
        ));
    }
    Ok(Seen::of(claims, sample.ok(), context)?)
}

fn list(claims: &Claims, context: &Context, format: TableFormat) -> anyhow::Result<ExitCode> {
    let seen = see(claims, context, "gua claim list")?;
    let mut names = Names::default();
    let document = document(claims.dir.path(), &seen, &mut names);
    match format {
        TableFormat::Text => output::data(&text(&seen, &mut names))?,
        TableFormat::Csv => output::data(&csv(&document.table()))?,
        TableFormat::Json => output::raw(pretty(&document).as_bytes())?,
    }
    for problem in &seen.survey.problems {
        output::eprint(&format!("gua claim list: {problem}; ignored\n"));
    }
    Ok(success_or(Exit::Failed, seen.sample.is_some()))
}

fn release(claims: &Claims, ids: &[ClaimId]) -> anyhow::Result<ExitCode> {
    let mut given_back = 0;
    for id in ids {
        match claims.dir.release(id) {
            Ok(released) => {
                given_back += 1;
                if released.len() > 1 {
                    let mut names = Names::default();
                    let owners = released.iter().map(|claim| names.user(claim.owner));
                    let owners = owners.collect::<Vec<_>>().join(", ");
                    output::eprint(&format!(
                        "gua claim release: several users had a claim {id}; all are released: {owners}\n"
                    ));
                }
            }
            Err(error) => output::eprint(&format!("gua claim release: {}\n", chain(&error))),
        }
    }
    output::eprint(&format!("gua claim release: released {given_back}\n"));
    Ok(success_or(Exit::Failed, given_back == ids.len()))
}

fn release_own(claims: &Claims, context: &Context) -> anyhow::Result<ExitCode> {
    let seen = see(claims, context, "gua claim release")?;
    let own = seen.survey.claims.iter();
    let own = own.filter(|live| live.claim.owner == claims.dir.me());
    let own: Vec<ClaimId> = own.map(|live| live.claim.id.clone()).collect();
    release(claims, &own)
}

/// The claims as a document.
pub(super) fn document(directory: &Path, seen: &Seen, names: &mut Names) -> ClaimsDocument {
    let survey = &seen.survey;
    let now = seen.observed.at.wall;
    let mut entry = |live: &LiveClaim| {
        let gpus = live.gpus.iter().map(|gpu| ClaimedGpu {
            uuid: gpu.gpu.to_string(),
            index: seen.gpu(&gpu.gpu).map(|gpu| gpu.index),
            in_use: seen.is_in_use(live, gpu),
        });
        ClaimEntry {
            claim: names.listed(live, now),
            gpus: gpus.collect(),
        }
    };
    let claims = survey.claims.iter().map(&mut entry).collect();
    let waiting = |waiter: &Waiter| QueueEntry {
        user: names.user(waiter.owner),
        uid: waiter.owner.0,
        pid: waiter.process.pid.0,
        comm: names.comm(&waiter.process),
        wanted: waiter.wanted,
        waited_seconds: waited(waiter, &seen.observed).as_secs(),
    };
    ClaimsDocument {
        schema: CLAIMS,
        at: now,
        directory: directory.to_string_lossy().into_owned(),
        gpus_seen: seen.sample.is_some(),
        claims,
        queue: survey.queue.iter().map(waiting).collect(),
        problems: survey.problems.iter().map(ToString::to_string).collect(),
    }
}

fn waited(waiter: &Waiter, observed: &Observed) -> std::time::Duration {
    observed.at.since_boot.saturating_sub(waiter.arrived)
}

/// The claims and the queue as tables.
fn text(seen: &Seen, names: &mut Names) -> String {
    let now = seen.observed.at.wall;
    let titles = ["gpu", "claim", "for", "since", "until", "on the GPU"];
    let mut claims = Table::new(titles.map(|title| (title, title)));
    for live in &seen.survey.claims {
        let who = names.user_and_process(live.claim.owner, &live.claim.for_process);
        let until = deadline(live.left, now);
        for gpu in &live.gpus {
            let cells = [
                name(&gpu.gpu, seen),
                live.claim.id.to_string(),
                who.clone(),
                moment(live.claim.made, now),
                until.map_or_else(|| "while in use".to_owned(), |at| moment(at, now)),
                match seen.is_in_use(live, gpu) {
                    Some(true) => "yes".to_owned(),
                    Some(false) => "no".to_owned(),
                    None => "not known".to_owned(),
                },
            ];
            claims.rows.push(cells.map(Cell::Text).into());
        }
    }
    let mut text = match seen.survey.claims.is_empty() {
        true => "no claims\n".to_owned(),
        false => claims.text(0),
    };
    let titles = ["place", "waits for", "who", "since"];
    let mut queue = Table::new(titles.map(|title| (title, title)));
    for (place, waiter) in (1..).zip(&seen.survey.queue) {
        let cells = [
            format!("{place}"),
            counted(waiter.wanted as u64, "GPU"),
            names.user_and_process(waiter.owner, &waiter.process),
            short_age(waited(waiter, &seen.observed)),
        ];
        queue.rows.push(cells.map(Cell::Text).into());
    }
    if !seen.survey.queue.is_empty() {
        text.push('\n');
        text.push_str(&queue.text(0));
    }
    text
}

/// Name of a GPU: its index, or its UUID for a MIG instance and for a GPU that is not present.
fn name(uuid: &GpuUuid, seen: &Seen) -> String {
    match seen.gpu(uuid) {
        Some(gpu) if !matches!(gpu.place, Place::Instance { .. }) => gpu.index.to_string(),
        _ => uuid.to_string(),
    }
}
