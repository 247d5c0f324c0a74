//! The answer for programs: the free GPUs, why the others are not free, and the claim.

use gua_collector::claims::{Names, deadline};
use gua_model::classify;
use gua_model::pick::against;
use gua_probe::host::time::ticks_per_second;
use gua_render::listing::{
    AVAILABLE, AvailableDocument, Granted, ListedHolder, OfferedGpu, Refusal, RefusedGpu,
};

use super::page::Page;

pub(super) fn document(page: &Page<'_>) -> AvailableDocument {
    let mut names = Names::default();
    let sample = page.sample;
    let others = page.found.others.iter().map(|(gpu, why)| {
        let claims = page.claims.iter().filter(|live| live.holds(&gpu.uuid));
        let holders = against(gpu, page.wish);
        RefusedGpu {
            gpu: OfferedGpu::new(gpu),
            refusal: Refusal {
                why: why.to_string(),
                used_seconds_ago: page.used_seconds_ago(why),
                state: classify(gpu, &page.wish.thresholds, None).state.as_str(),
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
        rule: page.rule(),
        available: page
            .found
            .free
            .iter()
            .map(|gpu| OfferedGpu::new(gpu))
            .collect(),
        not_available: others.collect(),
        claim: page.granted.map(|claim| {
            let left = claim.deadline.saturating_sub(sample.since_boot);
            Granted {
                id: claim.id.to_string(),
                for_pid: claim.for_process.pid.0,
                until: deadline(left, sample.at),
            }
        }),
    }
}
