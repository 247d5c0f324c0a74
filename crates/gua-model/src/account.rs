//! Accounts: totals of each GPU and each person over all recorded time, as counters that only grow. Metrics show them.
//!
//! They follow the accounting of reports: [`Accounts::add`] counts the spans between two ticks with the same ledger and
//! the same totals, so a counter equals the sum of a report over the same time. They do not include imported rows.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::coverage::{Coverage, KnownGpu, Ledger};
use crate::gap::{GapReason, Outage};
use crate::id::GpuUuid;
use crate::lookup::entry;
use crate::period::Period;
use crate::span::Span;
use crate::state::{RollUp, State, Thresholds};
use crate::total::QuarterTotal;
use crate::unit::{Micros, Millijoules};

/// Accounts of the GPUs and people of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounts {
    pub gpus: BTreeMap<GpuUuid, GpuAccount>,
    /// By the name that reports show.
    pub people: BTreeMap<String, PersonAccount>,
    /// Every GPU that was ever seen and is not left out.
    pub known: BTreeMap<GpuUuid, KnownGpu>,
    /// GPUs that are left out, because their stored states and gaps do not add up to their capacity. Their accounts would be
    /// wrong, or would begin again at zero.
    pub unbalanced: BTreeSet<GpuUuid>,
    /// Thresholds with which the accounts were computed.
    pub thresholds: Thresholds,
}

/// Account of one GPU. A MIG instance has its share of the physical GPU's time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuAccount {
    /// Time in each state; never [`State::Unobserved`].
    pub states: BTreeMap<State, Micros>,
    pub unobserved: BTreeMap<GapReason, Micros>,
    /// Time that is charged to owners.
    pub held: Micros,
    /// Energy from the driver's counter; `None` if it was never measured.
    pub energy: Option<Millijoules>,
    /// End of the last span in which the GPU was active, if known.
    pub last_active: Option<Timestamp>,
}

/// Account of one person on all GPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonAccount {
    pub held: Micros,
    pub idle_held: Micros,
    pub charged: Micros,
}

impl Accounts {
    /// Adds the time between two ticks. `spans` are the spans of the first tick, and `outages` explain the time that they do not
    /// cover.
    pub fn add(&mut self, spans: &[Span], window: Period, outages: &[Outage]) {
        let is_balanced = |span: &&Span| !self.unbalanced.contains(&span.gpu);
        let spans: Vec<&Span> = spans.iter().filter(is_balanced).collect();
        for span in &spans {
            let known = self.known.entry(span.gpu.clone());
            known.or_insert(KnownGpu {
                first: span.from,
                is_instance: span.parent.is_some(),
            });
        }
        let mut ledger = Ledger::new(window, self.known.clone(), outages);
        for span in spans {
            ledger.push(span);
            self.add_span(span, window);
        }
        for (gpu, coverage) in ledger.finish() {
            self.gpus.entry(gpu).or_default().add_coverage(&coverage);
        }
    }

    fn add_span(&mut self, span: &Span, window: Period) {
        let Some(part) = span.period().overlap(window) else {
            return;
        };
        let mut total = QuarterTotal::default();
        // In quarter hours, so that the rounding is the same as in the history.
        for (_, piece) in part.quarters() {
            total.add(span, piece);
        }
        let account = self.gpus.entry(span.gpu.clone()).or_default();
        account.note_active(span);
        for state in total.states.values() {
            if let Some(energy) = state.counted_energy() {
                account.energy = Some(account.energy.unwrap_or_default() + energy);
            }
        }
        for (owner, sums) in &total.owners {
            account.held += sums.charged;
            let person = entry(&mut self.people, &*owner.shown());
            person.held += sums.held;
            person.idle_held += sums.idle_held;
            person.charged += sums.charged;
        }
    }
}

impl GpuAccount {
    fn add_coverage(&mut self, coverage: &Coverage) {
        for (state, micros) in &coverage.states {
            *self.states.entry(*state).or_default() += *micros;
        }
        for gap in &coverage.gaps {
            *self.unobserved.entry(gap.reason).or_default() += gap.micros;
        }
    }

    /// Notes the end of a span in which the GPU was active.
    pub fn note_active(&mut self, span: &Span) {
        if span.counts() && span.has(RollUp::Active) {
            self.last_active = self.last_active.max(Some(span.to));
        }
    }

    /// Returns the time in the states of a roll-up.
    pub fn of_class(&self, class: RollUp) -> Micros {
        let states = self.states.iter();
        let states = states.filter(|(state, _)| state.roll_up() == Some(class));
        states.map(|(_, micros)| *micros).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::history::{any_kept_ticks, any_thresholds, fold, ticks};
    use crate::spans::Spans;
    use crate::total::Totals;

    #[test]
    fn a_gpu_whose_stored_hours_do_not_add_up_gets_no_account() {
        let ticks = ticks("0 gpu0 util=50 ada:8000, gpu1 util=0; 30 gpu0 util=50, gpu1 util=0");
        let spans = fold(&ticks, Thresholds::default());
        let window = Period::new(spans[0].from, spans[0].to);
        let mut accounts = Accounts::default();
        accounts.add(&spans, window, &[]);
        let (gpus, gpu) = (accounts.gpus.len(), spans[0].gpu.clone());
        let mut accounts = Accounts {
            unbalanced: BTreeSet::from([gpu.clone()]),
            ..Accounts::default()
        };
        accounts.add(&spans, window, &[]);
        assert_eq!(accounts.gpus.len(), gpus - 1);
        assert!(!accounts.gpus.contains_key(&gpu) && !accounts.known.contains_key(&gpu));
    }

    proptest! {
        #![proptest_config(crate::history::cases())]

        #[test]
        fn accounts_of_single_ticks_add_up_to_the_totals_of_all(ticks in any_kept_ticks(), thresholds in any_thresholds()) {
            let mut accounts = Accounts::default();
            let mut spans = Spans::new(thresholds, BTreeMap::new());
            let mut before: Option<Timestamp> = None;
            let mut last = None;
            for tick in &ticks {
                let closed = spans.push(tick);
                if let Some(from) = before.replace(tick.sample.at) {
                    accounts.add(&closed, Period::new(from, tick.sample.at), &[]);
                }
                last = Some(tick.sample.at);
            }
            let Some(end) = last else { return Ok(()) };
            let mut totals = Totals::default();
            for span in fold(&ticks, thresholds) {
                totals.add_within(&span, Period::new(Timestamp::MIN, end));
            }
            let mut expected: BTreeMap<GpuUuid, (BTreeMap<State, Micros>, Micros)> = BTreeMap::new();
            for (_, gpu, total) in totals.iter() {
                let (states, held) = expected.entry(gpu.clone()).or_default();
                for ((state, _), sums) in &total.states {
                    if *state != State::Unobserved && sums.micros > Micros(0) {
                        *states.entry(*state).or_default() += sums.micros;
                    }
                }
                for owner in total.owners.values() {
                    *held += owner.charged;
                }
            }
            for (gpu, (states, held)) in expected {
                let account = accounts.gpus.get(&gpu).cloned().unwrap_or_default();
                let mut counted = account.states;
                counted.retain(|_, micros| *micros > Micros(0));
                prop_assert_eq!(counted, states);
                prop_assert_eq!(account.held, held);
            }
        }
    }
}
