//! The state of a GPU at a moment of the past: the tick that covers it, or why none does.

use std::collections::{BTreeMap, BTreeSet};

use gua_model::period::whole_micros;
use gua_model::{
    Basis, Gpu, GpuUuid, Ledger, Outage, OwnerKey, Period, Quarter, Span, State, Thresholds, Tick,
    UtilWindow,
};
use jiff::{SignedDuration, Timestamp};

use super::answer::{Answer, Found, GapFound, ImportedRow, QuarterFound, Seen, When};
use super::{imported, now};
use crate::error::QueryError;
use crate::gpu::{NamedGpu, choose};
use crate::question::ExplainQuestion;
use crate::records::{GpuInfo, Records, TickAt};
use crate::since::totals;

type Result<T> = std::result::Result<T, QueryError>;

/// Steps by which the search for the ends of a gap widens around a moment: most gaps are short.
const REACH: [SignedDuration; 4] = [
    SignedDuration::from_hours(1),
    SignedDuration::from_hours(24),
    SignedDuration::from_hours(7 * 24),
    SignedDuration::from_hours(60 * 24),
];

/// Explains the recorded state of a GPU at a moment.
pub fn explain(records: &dyn Records, question: &ExplainQuestion) -> Result<Answer> {
    let ExplainQuestion { at, now, .. } = *question;
    let mut infos = records.gpus()?;
    let thresholds = records.thresholds()?;
    let tick = records.tick_at(at, thresholds)?;
    if let Some(TickAt { tick, .. }) = &tick {
        correct_first_sights(&mut infos, tick);
    }
    let rows = imported::last_rows(records, at)?;
    let known = known(records, tick.as_ref(), &infos, &rows)?;
    let mut gpu = choose(&question.gpu, &known)?;
    let uuid = gpu
        .uuid
        .clone()
        .expect("records have the UUID of every GPU");
    let info = infos.iter().find(|info| info.uuid == uuid);
    gpu.name = gpu.name.or_else(|| info.and_then(|info| info.name.clone()));

    // From the last tick to just after the next one, or until now.
    let last = tick.as_ref().map_or(at, |tick| tick.tick.sample.at);
    let next = tick.as_ref().and_then(|tick| tick.next.as_ref());
    let next = next.and_then(|next| {
        let after = SignedDuration::from_micros(2);
        next.sample.at.checked_add(after).ok()
    });
    let search = Search {
        between: Period::new(last, next.unwrap_or(now).min(now)),
        records,
        uuid,
        at,
        now,
        thresholds,
        infos: &infos,
    };
    let found = search.find(tick, &gpu, info, rows)?;
    Ok(Answer { gpu, at, found })
}

/// Moves the first sight of each GPU of a tick to that tick, where a clock that was ahead stored a later one.
fn correct_first_sights(infos: &mut [GpuInfo], tick: &Tick) {
    for info in infos {
        if tick.sample.gpus.iter().any(|gpu| gpu.uuid == info.uuid) {
            info.first_seen = info.first_seen.min(tick.sample.at);
        }
    }
}

/// All GPUs that a question may name. Those of the moment come first, as indexes may have changed since.
fn known(
    records: &dyn Records,
    tick: Option<&TickAt>,
    infos: &[GpuInfo],
    rows: &BTreeMap<GpuUuid, ImportedRow>,
) -> Result<Vec<NamedGpu>> {
    let mut known: Vec<NamedGpu> = Vec::new();
    if let Some(TickAt { tick, .. }) = tick {
        known.extend(tick.sample.gpus.iter().map(NamedGpu::from));
    }
    known.extend(infos.iter().map(NamedGpu::from));
    let facts = records.imported_facts()?.unwrap_or_default();
    for row in rows.values() {
        let mut gpu = facts.gpus.get(&row.gpu).cloned().unwrap_or_default();
        gpu.index = row.index;
        known.push(NamedGpu::from((&row.gpu, &gpu)));
    }
    known.extend(facts.gpus.iter().map(NamedGpu::from));
    let mut seen = BTreeSet::new();
    known.retain(|gpu| seen.insert(gpu.uuid.clone()));
    Ok(known)
}

/// A search about one GPU and one moment.
struct Search<'a> {
    records: &'a dyn Records,
    uuid: GpuUuid,
    at: Timestamp,
    now: Timestamp,
    thresholds: Thresholds,
    infos: &'a [GpuInfo],
    /// The time between the ticks around the moment, and a little of what the later one covers.
    between: Period,
}

impl Search<'_> {
    fn find(
        &self,
        tick: Option<TickAt>,
        gpu: &NamedGpu,
        info: Option<&GpuInfo>,
        mut rows: BTreeMap<GpuUuid, ImportedRow>,
    ) -> Result<Found> {
        let covers = |span: &&Span| span.gpu == self.uuid && span.period().contains(self.at);
        let tick = tick.and_then(|tick| {
            let span = tick.spans.iter().find(covers)?.clone();
            Some((tick, span))
        });
        if let Some((tick, span)) = tick {
            return Ok(Found::Seen(Box::new(self.seen(tick, span, gpu)?)));
        }
        let last = match rows.remove(&self.uuid) {
            Some(row) if imported::covers(&row, self.at) => return Ok(Found::ImportedRow(row)),
            other => other.map(|row| row.at),
        };
        let first = info.map(|info| info.first_seen);
        if first.is_none() && self.infos.is_empty() {
            return Ok(Found::NoImportedRow { last });
        }
        let is_before = first.is_none_or(|first| self.at < first);
        // Totals of a quarter that ends before the first sight prove that this was stored with a clock that was ahead.
        let quarter = Quarter::of(self.at).period();
        let is_just_before = is_before && first.is_some_and(|first| quarter.contains(first));
        if let Some(raw_from) = self.records.raw_from()?.filter(|from| self.at < *from)
            && !is_just_before
            && let Some(found) = self.quarter(raw_from)?
        {
            return Ok(found);
        }
        if is_before {
            return Ok(Found::Before { first });
        }
        Ok(match self.gap()? {
            Some(gap) => Found::Gap(gap),
            None => Found::InstanceAbsent,
        })
    }

    fn seen(&self, found: TickAt, span: Span, named: &NamedGpu) -> Result<Seen> {
        let TickAt { tick, next, .. } = found;
        let Tick { sample, interval } = tick;
        let is_it = |gpu: &&Gpu| gpu.uuid == self.uuid;
        let inconsistent = || QueryError::Inconsistent {
            at: sample.at,
            gpu: self.uuid.clone(),
        };
        let gpu = sample.gpus.iter().find(is_it).cloned();
        let gpu = gpu.ok_or_else(inconsistent)?;
        let unobserved = span
            .shares
            .iter()
            .any(|share| share.verdict.state == State::Unobserved);
        let later = next
            .as_ref()
            .and_then(|next| next.sample.gpus.iter().find(is_it));
        let window: Option<UtilWindow> = later
            .and_then(|gpu| gpu.window.ok())
            .filter(|_| span.basis == Basis::Buffer);
        let ended_by_next = next
            .as_ref()
            .is_some_and(|next| next.sample.at.as_microsecond() == span.to.as_microsecond());
        Ok(Seen {
            at: sample.at,
            thresholds: self.thresholds,
            since: None,
            sessions: now::sessions(self.records, &self.uuid, self.at),
            problems: now::problems(&sample, named),
            instances: now::instances(&sample, &self.uuid),
            gap: if unobserved { self.gap()? } else { None },
            when: When::Tick {
                period: span.period(),
                interval,
                basis: span.basis,
                window,
                ended_by_next,
            },
            shares: span.shares,
            gpu,
        })
    }

    /// The gap around the moment; `None` where the GPU was not expected.
    fn gap(&self) -> Result<Option<GapFound>> {
        let mut found = None;
        // A gap without ticks ends at its neighbours; otherwise the search continues, because a GPU may be lost for a long time.
        let near = std::iter::once(self.between);
        for window in near.chain(REACH.map(|reach| self.around(reach))) {
            let Some(gap) = self.gap_within(window)? else {
                return Ok(found);
            };
            let is_whole = !gap.from_is_bound && !gap.to_is_bound;
            found = Some(gap);
            if is_whole {
                break;
            }
        }
        Ok(found)
    }

    fn around(&self, reach: SignedDuration) -> Period {
        let from = self.at.saturating_sub(reach).unwrap_or(Timestamp::MIN);
        let to = self.at.saturating_add(reach).unwrap_or(Timestamp::MAX);
        Period::new(from, to.min(self.now))
    }

    fn gap_within(&self, window: Period) -> Result<Option<GapFound>> {
        let known = self.infos.iter();
        let known = known.map(|info| (info.uuid.clone(), info.known()));
        let outages = self.records.outages(window)?;
        let mut ledger = Ledger::new(window, known.collect(), &outages);
        self.records
            .spans(window, self.thresholds, &mut |span| ledger.push(span))?;
        let mut coverage = ledger.finish();
        // Unobserved time of a MIG instance belongs to its parent.
        let info = self.infos.iter().find(|info| info.uuid == self.uuid);
        let parent = info.and_then(|info| info.parent.as_ref());
        let both = std::iter::once(&self.uuid).chain(parent);
        let gaps = both.filter_map(|gpu| coverage.remove(gpu));
        let mut gaps = gaps.flat_map(|coverage| coverage.gaps);
        let Some(gap) = gaps.find(|gap| gap.period.contains(self.at)) else {
            return Ok(None);
        };
        let inside = |outage: &Outage| outage.period().overlap(gap.period).is_some();
        let is_ongoing = gap.period.to() >= whole_micros(self.now);
        Ok(Some(GapFound {
            period: gap.period,
            reason: gap.reason,
            from_is_bound: gap.period.from() == window.from(),
            to_is_bound: gap.period.to() == window.to() && !is_ongoing,
            is_ongoing,
            outages: outages.into_iter().filter(inside).collect(),
        }))
    }

    /// The totals of the quarter; `None` where it has none of this GPU.
    fn quarter(&self, raw_from: Timestamp) -> Result<Option<Found>> {
        let quarter = Quarter::of(self.at);
        let totals = totals(self.records, quarter.period())?;
        let gpus = totals.quarters.get(&quarter);
        let Some(total) = gpus.and_then(|gpus| gpus.get(&self.uuid)).cloned() else {
            return Ok(None);
        };
        let owners = total.owners.keys().map(|owner| match owner {
            OwnerKey::Unknown => None,
            owner => Some(owner.shown().into_owned()),
        });
        Ok(Some(Found::Quarter(Box::new(QuarterFound {
            period: quarter.period(),
            owners: owners.collect(),
            total,
            thresholds: self.thresholds,
            raw_from,
        }))))
    }
}
