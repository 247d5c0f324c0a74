//! Totals by quarter hour, GPU, state and owner. They are whole numbers, so that the same ticks give the same totals
//! regardless of batching.
//!
//! Imported rows have the same totals ([`QuarterTotal::imported`] marks them). Their ticks count as a whole, so that a
//! share can be one of ticks, as in the tool that wrote them.
//!
//! All amounts are GPU time: a MIG instance has the part of its slices ([`crate::slices`]), so that the totals of a physical
//! GPU and its instances add up to one GPU.

mod day;
mod weigh;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::classify::Basis;
use crate::energy;
use crate::gap::GapReason;
use crate::id::GpuUuid;
use crate::legacy::{ImportedPart, ImportedSession};
use crate::lookup::entry;
use crate::owner::OwnerKey;
use crate::period::{Period, Quarter};
use crate::report::ratio;
use crate::span::Span;
use crate::state::{RollUp, State};
use crate::unit::{Micros, Millijoules};
use crate::vec_map::VecMap;

pub use self::day::{DayTotals, GpuDay, QuarterUse};
pub use self::weigh::weigh_instances;

/// Totals by quarter hour and GPU, in that order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub quarters: BTreeMap<Quarter, BTreeMap<GpuUuid, QuarterTotal>>,
}

/// Totals of one GPU in one quarter hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarterTotal {
    pub gpu: GpuTotal,
    pub states: VecMap<(State, Basis), StateTotal>,
    /// Time in the state unobserved, by reason.
    pub unobserved: VecMap<GapReason, Micros>,
    pub owners: VecMap<OwnerKey, OwnerTotal>,
    /// `None` for own ticks.
    pub imported: Option<Box<ImportedPart>>,
}

/// Totals of one GPU in one quarter hour, with its UUID. The rows of a quarter are ordered by UUID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuQuarter {
    pub gpu: GpuUuid,
    pub total: QuarterTotal,
}

/// Totals of one GPU in a quarter hour or a day, with its UUID.
pub type NamedTotal<'a> = (&'a GpuUuid, &'a QuarterTotal);

impl GpuQuarter {
    pub fn named(&self) -> NamedTotal<'_> {
        (&self.gpu, &self.total)
    }
}

/// Sums over all states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuTotal {
    /// Ticks that began in this quarter.
    pub ticks: u64,
    /// Start of the first span and end of the last, within the quarter.
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// Time covered by ticks with this GPU, including ticks without readings.
    pub present: Micros,
    /// Part of `present` that belongs to other slices of the physical GPU: to the instances of a divided GPU, or to the
    /// rest of the GPU that an instance is a part of. It is no capacity of this GPU.
    pub set_aside: Micros,
    /// Part of the rest in which its state was observed.
    pub observed: Micros,
    /// Utilisation in hundredths of a percent, times microseconds, over `util_known`.
    pub util_sum: u128,
    pub util_known: Micros,
    /// Energy counted by the driver over `energy_known`. In totals of schema 1, that of a divided GPU includes the energy
    /// of its instances, which have none.
    pub energy: Millijoules,
    pub energy_known: Micros,
    /// Observed time that is charged to nobody: with the GPU truly idle (`free`), and with it in any other state and
    /// without an owner (`ownerless`). Together with the time charged to owners it equals the observed time.
    pub free: Micros,
    pub ownerless: Micros,
}

/// Time in one state, from one basis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateTotal {
    pub micros: Micros,
    /// The GPU's energy in proportion to time, over `energy_known`.
    pub energy: Millijoules,
    pub energy_known: Micros,
    /// Imported ticks in this state. Own ticks may be divided between states and are not counted here.
    pub ticks: u64,
}

/// Totals of one owner on one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerTotal {
    pub held: Micros,
    pub charged: Micros,
    /// Time held while the GPU's roll-up was idle-held.
    pub idle_held: Micros,
    /// Time held with low utilisation and too little memory to make it idle-held. A GPU without other holders is free then,
    /// and nobody is charged for it.
    pub free: Micros,
    /// Energy, shared equally among the owners, over `energy_known` of the held time.
    pub energy: Millijoules,
    pub energy_known: Micros,
    /// Ticks that began in this quarter and showed the owner.
    pub ticks: u64,
    /// Part of the above that rests on imported rows.
    pub imported: ImportedTicks,
}

/// Imported ticks that showed an owner. They do not say how a GPU was shared or what it drew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedTicks {
    pub ticks: u64,
    /// Ticks with low utilisation on which the owner's own memory exceeds the threshold.
    pub idle_held: u64,
    /// Ticks with low utilisation on which the owner's own memory does not exceed the threshold.
    pub free: u64,
    pub time: Micros,
}

impl Totals {
    pub fn add(&mut self, span: &Span) {
        self.add_within(span, span.period());
    }

    /// Adds the part of a span that lies in `period`.
    pub fn add_within(&mut self, span: &Span, period: Period) {
        let Some(part) = span.period().overlap(period) else {
            return;
        };
        for (quarter, piece) in part.quarters() {
            let gpus = self.quarters.entry(quarter).or_default();
            entry(gpus, &span.gpu).add(span, piece);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for (quarter, gpus) in &other.quarters {
            let mine = self.quarters.entry(*quarter).or_default();
            for (gpu, total) in gpus {
                entry(mine, gpu).merge(total);
            }
        }
    }

    /// Removes and returns all quarters before `quarter`. No later span can change them.
    #[must_use]
    pub fn drain_before(&mut self, quarter: Quarter) -> Self {
        let later = self.quarters.split_off(&quarter);
        Self {
            quarters: std::mem::replace(&mut self.quarters, later),
        }
    }

    /// Inserts the GPUs of a quarter that is not yet present.
    pub fn put(&mut self, quarter: Quarter, gpus: &[GpuQuarter]) {
        let gpus = gpus.iter();
        let named = gpus.map(|gpu| (gpu.gpu.clone(), gpu.total.clone()));
        self.quarters.insert(quarter, named.collect());
    }

    /// Returns the GPUs of each quarter, ordered by time and UUID.
    pub fn by_quarter(self) -> impl Iterator<Item = (Quarter, Vec<GpuQuarter>)> {
        self.quarters.into_iter().map(|(quarter, gpus)| {
            let gpus = gpus.into_iter();
            let named = gpus.map(|(gpu, total)| GpuQuarter { gpu, total });
            (quarter, named.collect())
        })
    }

    /// Returns every GPU of every quarter, ordered by time and UUID.
    pub fn iter(&self) -> impl Iterator<Item = (Quarter, &GpuUuid, &QuarterTotal)> {
        self.quarters
            .iter()
            .flat_map(|(quarter, gpus)| gpus.iter().map(move |(gpu, total)| (*quarter, gpu, total)))
    }
}

impl QuarterTotal {
    /// Clears the totals and keeps the allocations.
    pub fn clear(&mut self) {
        self.gpu = GpuTotal::default();
        self.states.clear();
        self.unobserved.clear();
        self.owners.clear();
        self.imported = None;
    }

    /// Makes each imported tick cover `interval` instead of the recorded one, including the last tick before own ticks.
    pub fn set_interval(&mut self, interval: Micros) {
        let Some(part) = &mut self.imported else {
            return;
        };
        part.row_time = interval.times(part.rows);
        part.active_time = interval.times(part.active_rows);
        for (_, state) in self.states.iter_mut() {
            state.micros = interval.times(state.ticks);
        }
        for (_, owner) in self.owners.iter_mut() {
            owner.held = interval.times(owner.imported.ticks);
            owner.idle_held = interval.times(owner.imported.idle_held);
            owner.free = interval.times(owner.imported.free);
            owner.imported.time = owner.held;
        }
    }

    /// Returns the pieces of sessions of imported rows.
    pub fn imported_sessions(&self) -> &[ImportedSession] {
        let part = self.imported.as_ref();
        part.map_or(&[], |part| part.sessions.as_slice())
    }

    /// Adds the part of a span that lies in `piece`.
    pub fn add(&mut self, span: &Span, piece: Period) {
        let begins = u64::from(piece.contains(span.from));
        self.gpu.add(span, piece);
        if !span.counts() {
            return;
        }
        let (mut idle_held, mut free) = (Micros(0), Micros(0));
        for share in span.states_within(piece) {
            let state = share.verdict.state;
            let total = self.states.entry((state, span.basis));
            total.micros += share.micros;
            if let Some(energy) = share.energy {
                total.energy += energy;
                total.energy_known += share.micros;
            }
            if state.roll_up() == Some(RollUp::IdleHeld) {
                idle_held += share.micros;
            }
            if let Some(why) = share.verdict.unobserved() {
                *self.unobserved.entry(why.into()) += share.micros;
            } else if state == State::TrulyIdle {
                free += share.micros;
            } else if span.holders.is_empty() {
                self.gpu.ownerless += share.micros;
            }
        }
        self.gpu.free += free;
        for part in span.owners_within(piece) {
            let total = self.owners.entry(part.owner);
            total.held += part.held;
            total.charged += part.charged;
            total.idle_held += idle_held;
            total.free += free;
            if let Some(energy) = part.energy {
                total.energy += energy;
                total.energy_known += part.held;
            }
            total.ticks += begins;
        }
    }

    /// Returns the totals of one person, given by the name that reports show. The states of a GPU do not belong to one person.
    pub(crate) fn of_person(&self, person: &str) -> Self {
        let mut owners = self.owners.clone();
        owners.retain(|owner, _| owner.shown() == person);
        Self {
            owners,
            ..Self::default()
        }
    }

    /// Returns the time in the states of a roll-up.
    pub fn time_in(&self, roll_up: RollUp) -> Micros {
        let states = self.states.iter();
        let states = states.filter(|((state, _), _)| state.roll_up() == Some(roll_up));
        states.map(|(_, total)| total.micros).sum()
    }

    /// Ticks that reports count: none for a GPU whose MIG instances had all of its slices, which are counted instead.
    pub fn counted_ticks(&self) -> u64 {
        match self.states.is_empty() {
            true => 0,
            false => self.gpu.ticks,
        }
    }

    /// Adds other totals; those of imported rows must be later ones.
    pub fn merge(&mut self, other: &Self) {
        self.gpu.merge(&other.gpu);
        for (key, theirs) in &other.states {
            self.states.entry(*key).merge(theirs);
        }
        for (reason, theirs) in &other.unobserved {
            *self.unobserved.entry(*reason) += *theirs;
        }
        for (owner, theirs) in &other.owners {
            self.owners.entry(owner.clone()).merge(theirs);
        }
        if let Some(theirs) = &other.imported {
            self.imported.get_or_insert_default().merge(theirs);
        }
    }
}

impl StateTotal {
    pub fn merge(&mut self, other: &Self) {
        self.micros += other.micros;
        self.energy += other.energy;
        self.energy_known += other.energy_known;
        self.ticks += other.ticks;
    }

    pub fn counted_energy(&self) -> Option<Millijoules> {
        energy::known(self.energy, self.energy_known)
    }
}

impl OwnerTotal {
    /// Adds imported ticks with the same use by the owner, each of which covers `interval`.
    pub fn add_imported(&mut self, ticks: u64, in_use: RollUp, interval: Micros) {
        let time = interval.times(ticks);
        self.held += time;
        self.ticks += ticks;
        self.imported.ticks += ticks;
        self.imported.time += time;
        match in_use {
            RollUp::Active => {}
            RollUp::IdleHeld => {
                self.idle_held += time;
                self.imported.idle_held += ticks;
            }
            RollUp::TrulyIdle => {
                self.free += time;
                self.imported.free += ticks;
            }
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.held += other.held;
        self.charged += other.charged;
        self.idle_held += other.idle_held;
        self.free += other.free;
        self.energy += other.energy;
        self.energy_known += other.energy_known;
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.imported.ticks += other.imported.ticks;
        self.imported.idle_held += other.imported.idle_held;
        self.imported.free += other.imported.free;
        self.imported.time += other.imported.time;
    }

    /// Returns the held time of own ticks.
    pub fn own_held(&self) -> Micros {
        Micros(self.held.0.saturating_sub(self.imported.time.0))
    }

    /// Returns the charged time. `None` if only imported rows know the owner: they do not say how a GPU was shared.
    pub fn charged_time(&self) -> Option<Micros> {
        (self.own_held() > Micros(0) || self.imported.ticks == 0).then_some(self.charged)
    }

    /// Returns the energy. `None` if none was counted while something was held; an owner who held nothing drew nothing.
    pub fn counted_energy(&self) -> Option<Millijoules> {
        let held_nothing = self.held == Micros(0) && self.imported.ticks == 0;
        match held_nothing {
            true => Some(Millijoules(0)),
            false => energy::known(self.energy, self.energy_known),
        }
    }

    /// Reports whether all held time is charged: imported rows do not say how a GPU was shared.
    pub fn charged_is_all(&self) -> bool {
        self.imported.ticks == 0
    }

    /// Reports whether energy was counted for nearly all of the held time: ticks at the end of a run have none, and
    /// imported rows do not say what a GPU drew.
    pub fn energy_is_all(&self) -> bool {
        let held = self.own_held().0;
        let uncounted = held.saturating_sub(self.energy_known.0);
        self.imported.ticks == 0 && uncounted <= held / 20
    }

    /// Returns the idle-held share of the held time; for imported rows alone, of their ticks.
    pub fn idle_share(&self) -> Option<f64> {
        if self.own_held() == Micros(0) {
            return ratio(self.imported.idle_held.into(), self.imported.ticks.into());
        }
        ratio(self.idle_held.0.into(), self.held.0.into())
    }

    /// Returns the held hours.
    pub fn hours(&self) -> f64 {
        self.held.hours()
    }

    pub fn idle_hours(&self) -> f64 {
        self.idle_held.hours()
    }

    /// Returns the held hours in which the GPU was free.
    pub fn free_hours(&self) -> f64 {
        self.free.hours()
    }

    /// Returns the held time that was neither idle-held nor on a free GPU. Time without a utilisation reading counts as
    /// used.
    pub fn used(&self) -> Micros {
        let unused = self.idle_held.0.saturating_add(self.free.0);
        Micros(self.held.0.saturating_sub(unused))
    }

    /// Returns the used share of the held time.
    pub fn used_share(&self) -> Option<f64> {
        ratio(self.used().0.into(), self.held.0.into())
    }

    pub fn samples(&self) -> u64 {
        self.ticks
    }
}

impl GpuTotal {
    /// Returns the period from the first span to the last.
    pub fn hull(&self) -> Option<Period> {
        Some(Period::new(self.first?, self.last?))
    }

    /// Returns the mean utilisation in percent.
    pub fn util(&self) -> Option<f64> {
        ratio(self.util_sum, u128::from(self.util_known.0) * 100)
    }

    fn add(&mut self, span: &Span, piece: Period) {
        let length = piece.micros();
        let own = span.gpu_time_within(piece);
        let mut total = Self {
            ticks: u64::from(piece.contains(span.from)),
            first: Some(piece.from()),
            last: Some(piece.to()),
            present: length,
            set_aside: Micros(length.0 - own.0),
            observed: span.observed_within(piece),
            ..Self::default()
        };
        if let Some(energy) = span.energy_within(piece).filter(|_| span.counts()) {
            total.energy = energy;
            total.energy_known = own;
        }
        if let Ok(util) = span.util {
            total.util_sum = u128::from(util.0) * u128::from(own.0);
            total.util_known = own;
        }
        self.merge(&total);
    }

    fn merge(&mut self, other: &Self) {
        let earlier = self.first.into_iter().chain(other.first).min();
        self.ticks += other.ticks;
        self.first = earlier;
        self.last = self.last.max(other.last);
        self.present += other.present;
        self.set_aside += other.set_aside;
        self.observed += other.observed;
        self.util_sum += other.util_sum;
        self.util_known += other.util_known;
        self.energy += other.energy;
        self.energy_known += other.energy_known;
        self.free += other.free;
        self.ownerless += other.ownerless;
    }
}

#[cfg(test)]
mod tests;
