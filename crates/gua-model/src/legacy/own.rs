//! Selects the old rows that count for GPUs that also have ticks of this program.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::LegacyMoment;
use crate::id::GpuUuid;

/// First tick of this program for each GPU. From then on its ticks count and old rows are skipped, so that no time
/// counts twice.
#[derive(Clone, Debug, Default)]
pub struct OwnSince(pub BTreeMap<GpuUuid, Timestamp>);

impl OwnSince {
    /// Passes the part of a moment that counts to `each`, and returns the number of GPU ticks that were skipped.
    pub fn rest(&self, moment: &LegacyMoment<'_>, each: impl FnOnce(&LegacyMoment<'_>)) -> usize {
        let is_ours = |gpu: &GpuUuid| self.0.get(gpu).is_some_and(|since| *since <= moment.at);
        if !moment.ticks.iter().any(|tick| is_ours(tick.gpu)) {
            each(moment);
            return 0;
        }
        let ticks: Vec<_> = moment
            .ticks
            .iter()
            .filter(|tick| !is_ours(tick.gpu))
            .copied()
            .collect();
        let strays: Vec<_> = moment
            .strays
            .iter()
            .filter(|(gpu, _)| !is_ours(gpu))
            .copied()
            .collect();
        each(&LegacyMoment {
            at: moment.at,
            ticks: &ticks,
            strays: &strays,
        });
        moment.ticks.len() - ticks.len()
    }
}
