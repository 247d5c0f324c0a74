//! `gua claim`: lists leased GPUs, their holders and waiters, and releases leases.

pub(super) mod json;
mod table;

use std::process::ExitCode;

use gua_claim::{
    Choice, ClaimError, ClaimId, ClaimedBy, Kernel as _, LeasedGpu, LiveClaim, Look, PidNamespace,
    Survey,
};
use gua_collector::claims::{Claims, Names};
use gua_model::chain::chain;
use gua_model::{GpuUuid, Sample};
use gua_render::document::pretty;
use gua_render::table::csv;

use crate::cli::{ClaimCommand, TableFormat};
use crate::context::Context;
use crate::failure::{Exit, success_or};
use crate::output;

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
    look: Look,
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
        let look = match &sample {
            Some(sample) => {
                let (boot, thresholds) = (claims.kernel.boot, context.settings().thresholds());
                Look::new(sample, boot, &thresholds, Choice::default())
            }
            None => Look::blind(claims.kernel.now()),
        };
        Ok(Self {
            survey: claims.dir.survey(&look, &claims.kernel)?,
            namespace: claims.kernel.namespace(),
            sample,
            look,
        })
    }

    /// Index of a GPU that is present.
    fn index(&self, uuid: &GpuUuid) -> Option<u32> {
        let gpus = &self.sample.as_ref()?.gpus;
        Some(gpus.iter().find(|gpu| gpu.uuid == *uuid)?.index)
    }

    /// Whether the claim's process, or one that it started, uses the GPU. `None` if that is unknown: without a driver,
    /// on a GPU whose processes it does not list, and for a process in another PID namespace.
    fn is_in_use(&self, live: &LiveClaim, gpu: &LeasedGpu) -> Option<bool> {
        let is_known = self.sample.is_some() && !self.look.unread.contains(&gpu.gpu);
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
    let document = json::document(claims.dir.path(), &seen, &mut names);
    match format {
        TableFormat::Text => output::data(&table::text(&seen, &mut names))?,
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
    let own = seen
        .survey
        .claims
        .iter()
        .filter(|live| live.claim.owner == claims.dir.me());
    let own: Vec<ClaimId> = own.map(|live| live.claim.id.clone()).collect();
    release(claims, &own)
}
