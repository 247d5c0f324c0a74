//! Weights for totals of schema 1, which counted every MIG instance as one GPU and did not store its slices.
//!
//! The instances of a GPU share the time in which they were counted in its place, in proportion to the time in which each
//! existed: their slices are unknown. All sums stay exact.

use super::{GpuQuarter, QuarterTotal};
use crate::classify::Basis;
use crate::gap::GapReason;
use crate::id::GpuUuid;
use crate::span::proportion;
use crate::state::State;
use crate::unit::Micros;

/// Reduces the MIG instances of a quarter hour to the time in which their parents were divided.
pub fn weigh_instances<'a>(
    gpus: &mut [GpuQuarter],
    parent_of: impl Fn(&GpuUuid) -> Option<&'a GpuUuid>,
) {
    for place in 0..gpus.len() {
        let parent = gpus[place].gpu.clone();
        if parent_of(&parent).is_some() {
            continue;
        }
        let is_instance = |gpu: &&mut GpuQuarter| parent_of(&gpu.gpu) == Some(&parent);
        let all: u64 = gpus
            .iter_mut()
            .filter(is_instance)
            .map(|gpu| gpu.total.gpu.present.0)
            .fold(0, u64::saturating_add);
        let total = &mut gpus[place].total;
        let divided = total.gpu.set_aside.0.min(all);
        // A GPU may have been divided while none of its instances could be read.
        let unread = Micros(total.gpu.set_aside.0 - divided);
        if unread > Micros(0) {
            total.gpu.set_aside = Micros(divided);
            let state = (State::Unobserved, Basis::Instant);
            total.states.entry(state).micros += unread;
            *total.unobserved.entry(GapReason::Failed) += unread;
        }
        let mut parts = Parts::new(divided, all);
        for instance in gpus.iter_mut().filter(is_instance) {
            let mut own = instance.total.gpu.present;
            parts.take(&mut own);
            instance.total.reduce(own);
        }
    }
}

/// Amounts in one proportion, rounded so that they add up.
struct Parts {
    part: u64,
    whole: u64,
    taken: u64,
    given: u64,
}

impl Parts {
    fn new(part: u64, whole: u64) -> Self {
        Self {
            part,
            whole,
            taken: 0,
            given: 0,
        }
    }

    /// Replaces an amount by its part.
    fn take(&mut self, amount: &mut Micros) {
        self.taken = self.taken.saturating_add(amount.0);
        let given = proportion(self.taken, self.part, self.whole);
        *amount = Micros(given - self.given);
        self.given = given;
    }
}

impl QuarterTotal {
    /// Reduces the amounts to `own` of the time in which the GPU was present.
    fn reduce(&mut self, own: Micros) {
        let (part, whole) = (own.0, self.gpu.present.0);
        let mut states = Parts::new(part, whole);
        let mut observed = Micros(0);
        let mut reasons = Parts::new(part, whole);
        for ((state, _), total) in self.states.iter_mut() {
            states.take(&mut total.micros);
            total.energy_known = total.micros.min(total.energy_known);
            if *state != State::Unobserved {
                observed += total.micros;
                (reasons.taken, reasons.given) = (states.taken, states.given);
            }
        }
        for (_, time) in self.unobserved.iter_mut() {
            reasons.take(time);
        }
        let mut owners = Parts::new(part, whole);
        let scale = |amount: &mut Micros| *amount = Micros(proportion(amount.0, part, whole));
        for (_, owner) in self.owners.iter_mut() {
            owners.take(&mut owner.charged);
            scale(&mut owner.held);
            scale(&mut owner.idle_held);
            scale(&mut owner.free);
            scale(&mut owner.energy_known);
        }
        owners.take(&mut self.gpu.free);
        owners.take(&mut self.gpu.ownerless);
        let sums = &mut self.gpu;
        sums.set_aside = Micros(whole.saturating_sub(part));
        sums.observed = observed;
        let known = sums.util_known;
        scale(&mut sums.util_known);
        let mean = sums.util_sum.checked_div(known.0.into()).unwrap_or(0);
        sums.util_sum = mean * u128::from(sums.util_known.0);
        scale(&mut sums.energy_known);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Totals;
    use super::*;
    use crate::history::{any_kept_ticks, any_thresholds, fold, uuid};
    use crate::slices::Slices;

    proptest! {
        #![proptest_config(crate::history::cases())]

        #[test]
        fn totals_without_weights_become_those_of_one_gpu(ticks in any_kept_ticks(), thresholds in any_thresholds()) {
            let mut totals = Totals::default();
            for mut span in fold(&ticks, thresholds) {
                let tick = ticks.iter().find(|tick| tick.sample.at == span.from);
                let instances = tick.unwrap().sample.gpus.iter();
                let is_divided = instances.filter(|gpu| gpu.place.parent() == Some(&span.gpu)).count() > 0;
                span.slices = if is_divided { Slices::NONE } else { Slices::WHOLE };
                totals.add(&span);
            }
            let parent = uuid("gpu2");
            for (_, mut gpus) in totals.by_quarter() {
                weigh_instances(&mut gpus, |gpu| gpu.as_str().starts_with("mig").then_some(&parent));
                let mut family = 0;
                let mut present = 0;
                for GpuQuarter { gpu, total } in &gpus {
                    let states: Micros = total.states.values().map(|state| state.micros).sum();
                    prop_assert_eq!(states + total.gpu.set_aside, total.gpu.present);
                    let charged: Micros = total.owners.values().map(|owner| owner.charged).sum();
                    prop_assert_eq!(charged + total.gpu.free + total.gpu.ownerless, total.gpu.observed);
                    let unobserved: Micros = total.unobserved.values().copied().sum();
                    prop_assert_eq!(total.gpu.observed + unobserved, states);
                    if gpu.as_str().starts_with("mig") || *gpu == parent {
                        family += states.0;
                    }
                    if *gpu == parent {
                        present = total.gpu.present.0;
                    }
                }
                prop_assert_eq!(family, present);
            }
        }
    }
}
