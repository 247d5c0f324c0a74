//! The GPUs and holders at the last tick of a window.

use std::collections::BTreeMap;

use gua_model::classify::holders;
use gua_model::health::faults;
use gua_model::idle::IdleGpu;
use gua_model::pick::is_free;
use gua_model::report::{GpuStatus, Hold, Host, Now, UNKNOWN};
use gua_model::{Gpu, GpuUuid, Micros, Missing, Period, Thresholds, Tick, UtilSource, classify};

use super::{HeldSince, Known};
use crate::error::RecordsError;
use crate::idle::idle;
use crate::question::IdleQuestion;
use crate::records::Records;

/// The host by its latest collector run, with the driver of the last tick.
pub(super) fn host(
    records: &dyn Records,
    last: Option<&Tick>,
) -> Result<Option<Host>, RecordsError> {
    Ok(records.host()?.map(|name| Host {
        name,
        environment: "bare".to_owned(),
        driver: last.and_then(|last| last.sample.driver.version.clone().ok()),
    }))
}

/// All GPUs at a tick, with their owners in order of memory.
pub(super) fn at_tick(tick: &Tick, known: &Known<'_>, since: &HeldSince) -> Now {
    let sample = &tick.sample;
    let mut gpus = Vec::new();
    let counted = |gpu: &&Gpu| gpu.place.counts() && known.wants(&gpu.uuid);
    for gpu in sample.gpus.iter().filter(counted) {
        let mut there: Vec<_> = holders(gpu, &known.thresholds).collect();
        there.sort_by_key(|process| std::cmp::Reverse(process.memory.ok()));
        let mut owners: Vec<String> = Vec::new();
        for process in &there {
            let owner = process.identity.as_ref().ok();
            let owner = owner.and_then(|identity| identity.owner());
            let name = match (&process.identity, &owner) {
                (Err(Missing::Gone), _) => "gone".into(),
                (_, Some(owner)) => owner.who.shown(),
                (_, None) => UNKNOWN.into(),
            };
            if !owners.iter().any(|known| *known == name) {
                owners.push(name.into_owned());
            }
        }
        let process = there
            .iter()
            .find_map(|process| process.identity.as_ref().ok()?.comm.clone().ok());
        gpus.push(GpuStatus {
            gpu: gpu.uuid.clone(),
            index: Some(gpu.index),
            instance: gpu.place.parent().map(|_| gpu.place.label(gpu.index)),
            name: gpu.name.clone().ok(),
            state: classify(gpu, &known.thresholds, None).state,
            is_free: is_free(gpu, &known.thresholds),
            faults: faults(gpu).iter().map(ToString::to_string).collect(),
            util: gpu.util.ok().map(|util| util.get().into()),
            memory_used: gpu.memory_used.ok(),
            memory_total: gpu.memory_total.ok(),
            owners,
            process,
            held_since: since.get(&gpu.uuid).copied(),
            idle: known.idle.get(&gpu.uuid).map(|idle| idle.longest),
        });
    }
    Now {
        at: sample.at,
        gpus,
    }
}

/// For how long the GPUs that are idle at a tick have been idle.
pub(super) fn idle_at(
    records: &dyn Records,
    tick: &Tick,
    thresholds: Thresholds,
) -> Result<BTreeMap<GpuUuid, IdleGpu>, RecordsError> {
    idle(records, &IdleQuestion::of_sample(&tick.sample, thresholds))
}

/// Holders of a tick that cannot be named and therefore have no session: processes that are gone, or hidden from us.
/// Since when they hold their GPU is unknown.
pub(super) fn nameless_holds(last: &Tick, known: &Known<'_>) -> Vec<Hold> {
    let (sample, thresholds) = (&last.sample, &known.thresholds);
    let mut found = Vec::new();
    let counted = |gpu: &&Gpu| gpu.place.counts() && known.wants(&gpu.uuid);
    for gpu in sample.gpus.iter().filter(counted) {
        let Some(idle) = known.idle.get(&gpu.uuid) else {
            continue;
        };
        let there = holders(gpu, thresholds).count();
        for process in holders(gpu, thresholds).filter(|process| process.identity.is_err()) {
            found.push(Hold {
                gpu: gpu.uuid.clone(),
                index: Some(gpu.index),
                owner: None,
                by_login: false,
                process: None,
                workload: matches!(process.identity, Err(Missing::Gone))
                    .then(|| Hold::EXITED.to_owned()),
                // A view hides the processes of other people: no process has the id 0.
                pid: Some(process.pid).filter(|pid| pid.0 != 0),
                period: Period::new(sample.at, sample.at),
                last_row: Micros(0),
                util: gpu
                    .util
                    .ok()
                    .map(|util| (f64::from(util.get()), UtilSource::Gpu)),
                peak_memory: process.memory.ok(),
                samples: 1,
                shared: there > 1,
                observed: None,
                observed_within: None,
                active: None,
                idle_held: None,
                current: true,
                idle: Some(idle.longest),
                sessions: 1,
            });
        }
    }
    found
}
