//! Claims for programs: [`ClaimsDocument`] from a survey of the shared directory.

use std::path::Path;

use gua_claim::{LiveClaim, Look, Waiter};
use gua_collector::claims::Names;
use gua_render::listing::{CLAIMS, ClaimEntry, ClaimedGpu, ClaimsDocument, QueueEntry};

use super::Seen;

#[must_use]
pub(in crate::commands) fn document(
    directory: &Path,
    seen: &Seen,
    names: &mut Names,
) -> ClaimsDocument {
    let survey = &seen.survey;
    let now = seen.look.at.wall;
    let mut entry = |live: &LiveClaim| {
        let gpus = live.gpus.iter().map(|gpu| ClaimedGpu {
            uuid: gpu.gpu.to_string(),
            index: seen.index(&gpu.gpu),
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
        waited_seconds: waited(waiter, &seen.look).as_secs(),
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

pub(super) fn waited(waiter: &Waiter, look: &Look) -> std::time::Duration {
    look.at.since_boot.saturating_sub(waiter.arrived)
}
