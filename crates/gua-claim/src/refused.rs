//! Builds the refusal that is recorded for the collector: who held which GPU, and since when it was idle.

use std::collections::BTreeMap;

use gua_model::pick::{Criteria, Obstacle, against};
use gua_model::refusal::RefusalOutcome as Outcome;
use gua_model::since::Since;
use gua_model::{Gpu, GpuUuid, RollUp, Sample, classify};
use jiff::SignedDuration;

use crate::claim::{ClaimedBy, LiveClaim};
use crate::event::{BlockingGpu, Refusal};

/// A request for GPUs that cannot be granted now.
#[derive(Debug)]
pub struct Refused<'a> {
    pub sample: &'a Sample,
    pub criteria: &'a Criteria,
    /// GPUs that are not free, and why.
    pub others: &'a [(&'a Gpu, Obstacle)],
    pub claims: &'a [LiveClaim],
    pub wanted: usize,
    pub left: usize,
}

impl Refused<'_> {
    /// Returns the refusal, as refused at once. `since` looks up in a history since when GPUs have been in their
    /// roll-up.
    pub fn refusal(
        &self,
        since: impl FnOnce(Vec<(GpuUuid, RollUp)>) -> BTreeMap<GpuUuid, Since>,
    ) -> Refusal {
        let others = self.others.iter();
        let mut blocked_by: Vec<BlockingGpu> = others
            .filter_map(|(gpu, why)| match why {
                Obstacle::Held => Some(self.held(gpu)),
                Obstacle::Claimed => Some(self.claimed(gpu)),
                _ => None,
            })
            .collect();
        let now = self.sample.at;
        let idle = blocked_by.iter().filter(|gpu| gpu.idle_since == Some(now));
        let idle: Vec<_> = idle
            .map(|gpu| (gpu.gpu.clone(), RollUp::IdleHeld))
            .collect();
        let since = match idle.is_empty() {
            true => BTreeMap::new(),
            false => since(idle),
        };
        for gpu in &mut blocked_by {
            if let (Some(_), Some(found)) = (gpu.idle_since, since.get(&gpu.gpu)) {
                gpu.idle_since = Some(found.at);
            }
        }
        Refusal {
            at: now,
            wanted: self.wanted,
            left: self.left,
            outcome: Outcome::Refused,
            waited: SignedDuration::ZERO,
            blocked_by,
        }
    }

    fn held(&self, gpu: &Gpu) -> BlockingGpu {
        let mut users: Vec<_> = against(gpu, self.criteria)
            .filter_map(|process| process.identity.as_ref().ok()?.owner()?.who.uid())
            .collect();
        users.sort_unstable();
        users.dedup();
        let state = classify(gpu, &self.criteria.thresholds, None).state;
        // Idle since this sample at the latest; a history may know an earlier start.
        let is_idle = state.roll_up() == Some(RollUp::IdleHeld);
        BlockingGpu {
            gpu: gpu.uuid.clone(),
            users,
            idle_since: is_idle.then_some(self.sample.at),
        }
    }

    /// A leased GPU without a process is idle since the lease was made.
    fn claimed(&self, gpu: &Gpu) -> BlockingGpu {
        let is_leased = |live: &&LiveClaim| {
            let mut leased = live.gpus.iter();
            leased.any(|leased| leased.gpu == gpu.uuid && leased.by == ClaimedBy::Lease)
        };
        let claims: Vec<_> = self.claims.iter().filter(is_leased).collect();
        BlockingGpu {
            gpu: gpu.uuid.clone(),
            users: claims.iter().map(|live| live.claim.owner).collect(),
            idle_since: claims.iter().map(|live| live.claim.made).min(),
        }
    }
}
