//! Amounts of a report, and what they come to: hours, shares, means. Whole numbers until they are shown.

use serde::{Deserialize, Serialize};

use crate::classify::Basis;
use crate::energy;
use crate::state::{RollUp, State};
use crate::total::{GpuTotal, OwnerTotal, QuarterTotal, StateTotal};
use crate::unit::{Micros, Millijoules};

/// Sums of some GPUs over some time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// By [`State`], in its order.
    states: [StateTotal; State::ALL.len()],
    /// Observed time that rests on the driver's buffer.
    pub buffered: Micros,
    pub ticks: u64,
    pub util_sum: u128,
    pub util_known: Micros,
    pub energy: Millijoules,
    pub energy_known: Micros,
    /// Observed time that nobody held: with the GPU truly idle, and with it in any other state.
    pub free: Micros,
    pub ownerless: Micros,
    /// Energy of divided GPUs that is in no state. Only totals of schema 1 have it: later ones divide the energy among the
    /// MIG instances.
    pub undivided_energy: Millijoules,
    /// Time that rests on imported rows, which is part of the time in the states.
    pub imported: Micros,
    /// Readings: ticks, and further imported rows of the same tick.
    pub rows: u64,
    /// Part of the sums that people held.
    pub held: OwnerTotal,
}

impl Sums {
    /// Adds the total of one GPU in one quarter hour.
    pub fn add(&mut self, total: &QuarterTotal) {
        for ((state, basis), sums) in &total.states {
            self.states[state.place()].merge(sums);
            self.energy += sums.energy;
            self.energy_known += sums.energy_known;
            match basis {
                Basis::Buffer if *state != State::Unobserved => self.buffered += sums.micros,
                Basis::Imported => self.imported += sums.micros,
                Basis::Buffer | Basis::Instant => {}
            }
        }
        let GpuTotal {
            util_sum,
            util_known,
            energy,
            free,
            ownerless,
            ..
        } = total.gpu;
        let ticks = total.counted_ticks();
        self.ticks += ticks;
        if !total.states.is_empty() {
            self.rows += total.imported.as_ref().map_or(ticks, |part| part.rows);
        }
        self.util_sum += util_sum;
        self.util_known += util_known;
        let of_states: Millijoules = total.states.values().map(|sums| sums.energy).sum();
        self.undivided_energy += Millijoules(energy.0.saturating_sub(of_states.0));
        self.free += free;
        self.ownerless += ownerless;
        for owner in total.owners.values() {
            self.held.merge(owner);
        }
    }

    /// The time in one state.
    pub fn state(&self, state: State) -> StateTotal {
        self.states[state.place()]
    }

    /// Time observed by own ticks.
    pub fn observed(&self) -> Micros {
        Micros(self.all_micros().0.saturating_sub(self.imported.0))
    }

    /// Whether any time was observed, by own ticks or imported rows.
    pub fn was_seen(&self) -> bool {
        self.all_micros() > Micros(0)
    }

    /// Whether imported rows contribute to it.
    pub fn has_imported(&self) -> bool {
        self.states.iter().any(|state| state.ticks > 0)
    }

    /// GPU-ticks, own and imported.
    pub fn samples(&self) -> u64 {
        self.ticks
    }

    /// Hours of one class, own and imported.
    pub fn hours(&self, class: RollUp) -> f64 {
        self.of_class(class).micros.hours()
    }

    /// Hours in which a GPU was held and its utilisation could not be read.
    pub fn unknown_hours(&self) -> f64 {
        self.state(State::HeldUnknown).micros.hours()
    }

    /// The share of one class; `None` where nothing was observed. It is a share of time, or of ticks for imported rows
    /// alone.
    pub fn share(&self, class: RollUp) -> Option<f64> {
        let class = self.of_class(class);
        if self.observed() == Micros(0) {
            let all: u64 = self.states.iter().map(|state| state.ticks).sum();
            return ratio(class.ticks.into(), all.into());
        }
        ratio(class.micros.0.into(), self.all_micros().0.into())
    }

    /// Share of the time in which a GPU was held and its utilisation could not be read.
    pub fn unknown_share(&self) -> Option<f64> {
        let unknown = self.state(State::HeldUnknown).micros;
        ratio(unknown.0.into(), self.all_micros().0.into())
    }

    /// Mean utilisation in percent, of own ticks.
    pub fn util(&self) -> Option<f64> {
        ratio(self.util_sum, u128::from(self.util_known.0) * 100)
    }

    /// Energy of the GPUs; `None` if none was measured.
    pub fn counted_energy(&self) -> Option<Millijoules> {
        energy::known(self.energy, self.energy_known)
    }

    pub(crate) fn of_class(&self, class: RollUp) -> StateTotal {
        let mut sum = StateTotal::default();
        for state in State::ALL {
            if state.roll_up() == Some(class) {
                sum.merge(&self.state(state));
            }
        }
        sum
    }

    fn all_micros(&self) -> Micros {
        let seen = State::ALL
            .iter()
            .filter(|state| **state != State::Unobserved);
        seen.map(|state| self.state(*state).micros).sum()
    }
}

pub(crate) fn ratio(part: u128, whole: u128) -> Option<f64> {
    (whole > 0).then(|| approximate(part) / approximate(whole))
}

pub(super) fn count(number: usize) -> f64 {
    approximate(number as u128)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the last step before a number is shown"
)]
fn approximate(number: u128) -> f64 {
    number as f64
}
