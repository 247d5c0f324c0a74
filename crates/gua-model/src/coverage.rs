//! Coverage of each GPU in a window: observed time, unobserved time, and the reason for every gap. For every GPU,
//! states + gaps = capacity, to the microsecond.
//!
//! The capacity of a physical GPU is the part of the window after its first sample ever, whatever its partitions. While it
//! is divided, its MIG instances have the part of their slices. They have none while they are not seen: a removed instance
//! is not lost, and unobserved time belongs to the physical GPU, because nobody knows its partitions then.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cadence::Cadence;
use crate::classify::Basis;
use crate::gap::{Gap, GapReason, Outage};
use crate::id::GpuUuid;
use crate::period::Period;
use crate::period_set::PeriodSet;
use crate::span::Span;
use crate::state::State;
use crate::total::{GpuQuarter, NamedTotal, QuarterTotal};
use crate::unit::Micros;

/// Coverage of one GPU over one window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Time in which the GPU could be used, observed or not.
    pub capacity: Micros,
    /// Time in each state; never [`State::Unobserved`], which is a gap.
    pub states: BTreeMap<State, Micros>,
    /// Part of the observed time that is based on the driver's buffer.
    pub buffered: Micros,
    /// In order of time.
    pub gaps: Vec<Gap>,
}

impl Coverage {
    pub fn observed(&self) -> Micros {
        self.states.values().copied().sum()
    }

    pub fn gap(&self) -> Micros {
        self.gaps.iter().map(|gap| gap.micros).sum()
    }

    /// Returns capacity minus states and gaps, in microseconds. Anything but zero is a bug; every report checks it.
    pub fn balance(&self) -> i128 {
        i128::from(self.capacity.0) - i128::from(self.observed().0) - i128::from(self.gap().0)
    }
}

/// A GPU that the history contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownGpu {
    /// Time of its first sample ever.
    pub first: Timestamp,
    /// Whether it is a MIG instance.
    pub is_instance: bool,
}

/// Folds spans and totals to coverage. It keeps only sums and gaps.
#[derive(Clone, Debug)]
pub struct Ledger {
    window: Period,
    gpus: BTreeMap<GpuUuid, GpuLedger>,
    /// Time covered by any tick of the host.
    host: PeriodSet,
    reasons: Reasons,
}

#[derive(Clone, Debug)]
struct GpuLedger {
    known: KnownGpu,
    present: PeriodSet,
    /// Time covered by its spans and totals, and the part of it that belongs to other slices of the physical GPU.
    covered: Micros,
    set_aside: Micros,
    seen: Coverage,
}

/// Outages of the whole host and their reasons, by time.
#[derive(Clone, Debug, Default)]
struct Reasons {
    /// In order of start time.
    outages: Vec<(Period, GapReason)>,
    /// For each outage, the latest end of it and all before it.
    ends: Vec<Timestamp>,
}

impl Ledger {
    /// Creates a ledger. It counts the GPUs in `known`, even those without any span, and no others. `outages` give the
    /// reasons for gaps; where two overlap, the one that began first applies.
    pub fn new(window: Period, known: BTreeMap<GpuUuid, KnownGpu>, outages: &[Outage]) -> Self {
        let ledger = |known| GpuLedger {
            known,
            present: PeriodSet::default(),
            covered: Micros(0),
            set_aside: Micros(0),
            seen: Coverage::default(),
        };
        Self {
            window,
            gpus: known
                .into_iter()
                .map(|(gpu, known)| (gpu, ledger(known)))
                .collect(),
            host: PeriodSet::default(),
            reasons: Reasons::new(outages),
        }
    }

    /// Adds the part of a span that lies in the window.
    pub fn push(&mut self, span: &Span) {
        self.push_within(span, self.window);
    }

    /// Adds the part of a span that lies in both `period` and the window: an edge that no whole quarter hour covers.
    pub fn push_within(&mut self, span: &Span, period: Period) {
        let part = span.period().overlap(self.window);
        let Some(part) = part.and_then(|part| part.overlap(period)) else {
            return;
        };
        // The span of a lost GPU may reach over time in which no collector ran.
        if !span.is_lost() {
            self.host.add(part);
        }
        if let Some(ledger) = self.gpus.get_mut(&span.gpu) {
            ledger.push(span, part);
        }
    }

    /// Adds the totals of the GPUs in one quarter hour or day, ordered by name. They cover all of it, or the part that lies
    /// in the window. If it has several gaps, only their sum is known: they become one gap, with the reason that explains
    /// most of it.
    pub fn push_totals<'a>(&mut self, gpus: impl Iterator<Item = NamedTotal<'a>> + Clone) {
        let host = gpus.clone().map(|(_, total)| seen(total)).max();
        // Both are ordered by name and mostly contain the same GPUs.
        let mut own = self.gpus.iter_mut().peekable();
        for (gpu, total) in gpus {
            let Some(hull) = total.gpu.hull() else {
                continue;
            };
            if seen(total) > Micros(0) {
                self.host.add(hull);
            }
            while own.next_if(|(name, _)| *name < gpu).is_some() {}
            let Some((_, ledger)) = own.next_if(|(name, _)| *name == gpu) else {
                continue;
            };
            ledger.push_total(hull, total);
            let missing = hull.micros().0.saturating_sub(total.gpu.present.0);
            if missing > 0 && !ledger.known.is_instance {
                // The ticks that would show where in the quarter the GPU was missing are not available here.
                let otherwise = match host > Some(total.gpu.present) {
                    true => GapReason::GpuLost,
                    false => GapReason::CollectorDown,
                };
                let reason = self.reasons.of_most(hull).unwrap_or(otherwise);
                ledger.seen.add_gap(hull, Micros(missing), reason);
            }
        }
    }

    /// Reports whether a quarter hour has missing time that its sums cannot locate, beyond the small gaps that late
    /// ticks leave. If its ticks are still stored, its spans give a more precise answer than [`Ledger::push_totals`]
    /// can.
    pub fn is_ragged(&self, gpus: &[GpuQuarter]) -> bool {
        gpus.iter().any(|GpuQuarter { gpu, total }| {
            let Some(hull) = total.gpu.hull().map(Period::micros) else {
                return false;
            };
            let own = Micros(total.gpu.present.0.saturating_sub(total.gpu.set_aside.0));
            let unobserved: Micros = total.unobserved.values().copied().sum();
            self.gpus.get(gpu).is_some_and(|ledger| {
                let has_holes = total.gpu.present + Cadence::JITTER < hull;
                (has_holes && !ledger.known.is_instance)
                    || (unobserved > Cadence::JITTER && unobserved < own)
            })
        })
    }

    /// Returns the coverage of every GPU.
    pub fn finish(self) -> BTreeMap<GpuUuid, Coverage> {
        self.gpus
            .iter()
            .map(|(gpu, ledger)| (gpu.clone(), self.close(ledger)))
            .collect()
    }

    fn close(&self, ledger: &GpuLedger) -> Coverage {
        let mut coverage = ledger.seen.clone();
        let counted = Period::new(self.window.from().max(ledger.known.first), self.window.to());
        let (all, mut holes) = match ledger.known.is_instance {
            true => (ledger.covered, Vec::new()),
            false => (counted.micros(), ledger.present.holes(counted).collect()),
        };
        coverage.capacity = Micros(all.0.saturating_sub(ledger.set_aside.0));
        // From the first to the last tick without the GPU it was lost, also while no collector ran in between.
        let mut absent = PeriodSet::default();
        for hole in &holes {
            let ticks: Vec<Period> = self.host.parts(*hole).collect();
            if let (Some(first), Some(last)) = (ticks.first(), ticks.last()) {
                absent.add(Period::new(first.from(), last.to()));
            }
        }
        for (period, reason) in &self.reasons.outages {
            let (within, rest) = divide(&holes, &PeriodSet::from_iter([*period]));
            coverage.add_gaps(&within, *reason);
            holes = rest;
        }
        let (lost, unseen) = divide(&holes, &absent);
        coverage.add_gaps(&lost, GapReason::GpuLost);
        coverage.add_gaps(&unseen, GapReason::CollectorDown);
        coverage.in_order()
    }
}

impl GpuLedger {
    fn push(&mut self, span: &Span, part: Period) {
        self.present.add(part);
        self.covered += part.micros();
        self.set_aside += Micros(part.micros().0 - span.gpu_time_within(part).0);
        if !span.counts() {
            return;
        }
        for share in span.states_within(part) {
            match share.verdict.unobserved() {
                Some(why) => self.seen.add_gap(part, share.micros, why.into()),
                None => self
                    .seen
                    .add_state(share.verdict.state, span.basis, share.micros),
            }
        }
    }

    fn push_total(&mut self, hull: Period, total: &QuarterTotal) {
        self.present.add(hull);
        self.covered += total.gpu.present;
        self.set_aside += total.gpu.set_aside;
        let mut unexplained = Micros(0);
        for ((state, basis), sum) in &total.states {
            match state {
                State::Unobserved => unexplained += sum.micros,
                _ => self.seen.add_state(*state, *basis, sum.micros),
            }
        }
        for (reason, micros) in &total.unobserved {
            let micros = unexplained.min(*micros);
            unexplained = Micros(unexplained.0 - micros.0);
            self.seen.add_gap(hull, micros, *reason);
        }
        self.seen.add_gap(hull, unexplained, GapReason::Failed);
    }
}

impl Reasons {
    fn new(outages: &[Outage]) -> Self {
        // Time without a collector needs no reason, and a GPU may be lost in it.
        let all = outages.iter();
        let all = all.filter(|outage| outage.reason != GapReason::CollectorDown);
        let mut outages: Vec<_> = all.map(|outage| (outage.period(), outage.reason)).collect();
        outages.sort();
        let ends = outages.iter().scan(Timestamp::MIN, |latest, (period, _)| {
            *latest = period.to().max(*latest);
            Some(*latest)
        });
        Self {
            ends: ends.collect(),
            outages,
        }
    }

    /// Returns the reason that explains most of a period; `None` if no outage overlaps it.
    fn of_most(&self, within: Period) -> Option<GapReason> {
        let first = self.ends.partition_point(|end| *end <= within.from());
        let after = self
            .outages
            .partition_point(|(period, _)| period.from() < within.to());
        let near = self.outages.get(first..after).unwrap_or_default().iter();
        let share = |(period, reason): &(Period, GapReason)| {
            Some((period.overlap(within)?.micros(), *reason))
        };
        near.filter_map(share).max().map(|(_, reason)| reason)
    }
}

impl Coverage {
    fn add_state(&mut self, state: State, basis: Basis, micros: Micros) {
        *self.states.entry(state).or_default() += micros;
        if basis == Basis::Buffer {
            self.buffered += micros;
        }
    }

    /// Sorts gaps by time and joins adjacent ones with the same reason. A short gap that a late tick leaves between two
    /// gaps with the same reason is merged into them: a GPU that was lost before and after it was also lost during it.
    fn in_order(mut self) -> Self {
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.sort_by_key(|gap| gap.period);
        for gap in gaps {
            self.add_gap(gap.period, gap.micros, gap.reason);
            if let [.., before, hole, after] = self.gaps.as_slice()
                && [before, hole, after].iter().all(|gap| gap.is_whole())
                && before.reason == after.reason
                && hole.micros <= Cadence::JITTER
                && before.period.to() == hole.period.from()
                && hole.period.to() == after.period.from()
            {
                let all = Period::new(before.period.from(), after.period.to());
                let reason = after.reason;
                self.gaps.truncate(self.gaps.len() - 3);
                self.add_gap(all, all.micros(), reason);
            }
        }
        self
    }

    fn add_gaps(&mut self, periods: &[Period], reason: GapReason) {
        for period in periods {
            self.add_gap(*period, period.micros(), reason);
        }
    }

    /// Joins a gap with the previous one if that ends where this begins and has the same reason. A gap whose position
    /// in its period is unknown is not joined with one that fills its period: the result would seem to have begun too
    /// early.
    fn add_gap(&mut self, period: Period, micros: Micros, reason: GapReason) {
        if micros == Micros(0) {
            return;
        }
        match self.gaps.last_mut() {
            Some(last)
                if last.reason == reason
                    && last.period.to() == period.from()
                    && last.is_whole() == (micros == period.micros()) =>
            {
                last.period = Period::new(last.period.from(), period.to());
                last.micros += micros;
            }
            _ => self.gaps.push(Gap {
                period,
                micros,
                reason,
            }),
        }
    }
}

/// Time of a quarter hour in which ticks found a GPU.
fn seen(total: &QuarterTotal) -> Micros {
    let unobserved: Micros = total.unobserved.values().copied().sum();
    Micros(total.gpu.present.0.saturating_sub(unobserved.0))
}

/// Returns the time in which a host was observed, by the totals of its GPUs in a quarter hour or a day: the time of the GPU
/// that was seen most, or from the first to the last tick if nothing is missing. Unlike the ticks, totals are never
/// removed.
pub fn host_time<'a>(gpus: impl Iterator<Item = NamedTotal<'a>> + Clone) -> Micros {
    let mut hulls = PeriodSet::default();
    let mut is_whole = true;
    for (_, total) in gpus.clone() {
        if let Some(hull) = total.gpu.hull() {
            is_whole &= seen(total) == hull.micros();
            hulls.add(hull);
        }
    }
    let always = Period::new(Timestamp::MIN, Timestamp::MAX);
    match is_whole {
        true => hulls.parts(always).map(Period::micros).sum(),
        false => gpus.map(|(_, total)| seen(total)).max().unwrap_or_default(),
    }
}

/// Splits the gaps into the parts that lie in the set and the parts that do not.
fn divide(holes: &[Period], set: &PeriodSet) -> (Vec<Period>, Vec<Period>) {
    let within = holes.iter().flat_map(|hole| set.parts(*hole)).collect();
    let rest = holes.iter().flat_map(|hole| set.holes(*hole)).collect();
    (within, rest)
}

#[cfg(test)]
mod tests;
