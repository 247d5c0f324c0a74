//! Which old rows count where our own ticks tell of the same cards.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::LegacyMoment;
use crate::id::GpuUuid;

/// From when on our own ticks know each card: from then on they tell, and old rows are left out, so that no time counts
/// twice.
#[derive(Clone, Debug, Default)]
pub struct OwnSince(pub BTreeMap<GpuUuid, Timestamp>);

impl OwnSince {
    /// Gives what counts of a moment to `each`, and says how many card-ticks are left out.
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
