//! Sums, coverage and holders laid out as a report, in the order in which every format shows them.

use std::collections::{BTreeMap, BTreeSet};

use gua_model::legacy::in_order;
use gua_model::report::fold::ReportFold;
use gua_model::report::{
    CardRow, Covered, Hold, Host, IntervalUse, Note, Now, Refused, Report, gap_rows, unseen,
};
use gua_model::{Coverage, Gap, GpuUuid, Micros, Outage, Period, Thresholds};
use jiff::Timestamp;

use super::ask::Ask;
use super::columns::{cross_rows, slot_rows};
use super::longest::HoldLists;

/// The number and the model of a card, where they are known.
pub(super) type CardFacts<'a> = dyn Fn(&GpuUuid) -> (Option<u32>, Option<String>) + 'a;

/// What both kinds of histories come to, before it is laid out.
pub(super) struct Parts<'a> {
    pub(super) ask: &'a Ask,
    pub(super) thresholds: Thresholds,
    pub(super) window: Period,
    /// The part of the window in which anything was known.
    pub(super) seen: Period,
    pub(super) outages: &'a [Outage],
    /// Of every card, with its gaps.
    pub(super) coverage: BTreeMap<GpuUuid, (Covered, Vec<Gap>)>,
    /// Since when each card is known.
    pub(super) since: BTreeMap<GpuUuid, Timestamp>,
    pub(super) host_observed: Micros,
    pub(super) host: Option<Host>,
    pub(super) now: Option<Now>,
    pub(super) refused: Option<Refused>,
    pub(super) tick_interval: Option<std::time::Duration>,
    pub(super) notes: Vec<Note>,
}

impl Parts<'_> {
    /// Lays the sums out in the order in which every format shows them.
    pub(super) fn into_report(
        self,
        fold: ReportFold,
        holds: HoldLists,
        card: &CardFacts<'_>,
    ) -> Report {
        let ask = self.ask;
        let mut gaps = Vec::new();
        let mut whole = Covered {
            host_observed: self.host_observed,
            ..Covered::default()
        };
        let mut cards = Vec::new();
        let everyone: BTreeSet<&GpuUuid> = fold.cards.keys().chain(self.coverage.keys()).collect();
        let mut everyone: Vec<&GpuUuid> = everyone.into_iter().collect();
        everyone.sort_by(|one, other| in_order(one, other));
        for gpu in everyone {
            let covered = self.coverage.get(gpu).map(|(covered, _)| covered.clone());
            let covered = covered.unwrap_or_default();
            whole.add(&covered);
            let own_gaps = self.coverage.get(gpu).map_or(&[][..], |(_, gaps)| gaps);
            gaps.extend(own_gaps);
            let since = self.since.get(gpu).copied();
            let since = since.unwrap_or(self.window.from());
            let (index, name) = card(gpu);
            cards.push(CardRow {
                gpu: gpu.clone(),
                index,
                name,
                sums: fold.cards.get(gpu).cloned().unwrap_or_default(),
                covered,
                unseen: unseen(self.window, since, own_gaps),
            });
        }
        whole.gaps = gap_rows(gaps.iter().copied(), self.outages);
        // A card that was neither seen nor expected in the window has no row.
        cards.retain(|card| {
            card.covered.capacity > Micros(0)
                || card.sums.samples() > 0
                || card.sums.held.samples() > 0
        });
        let unit = fold.question().unit;
        let people = fold.people.rows();
        let names: Vec<String> = people.iter().map(|person| person.name.clone()).collect();
        let uuids: Vec<GpuUuid> = cards.iter().map(|card| card.gpu.clone()).collect();
        let mut lists = holds.finish();
        for hold in &mut lists.sessions {
            let known = self.coverage.get(&hold.gpu);
            let gaps = known.map_or(&[][..], |(_, gaps)| gaps);
            hold.observed_within = observed_within(hold, self.window, gaps);
        }
        let slots = slot_rows(&fold, self.seen, unit, &gaps);
        let cross = cross_rows(&fold, &slots, &uuids, &names, &|gpu| {
            let known = self.coverage.get(gpu);
            known.map_or(&[], |(_, gaps)| gaps.as_slice())
        });
        Report {
            host: self.host,
            window: self.window,
            thresholds: self.thresholds,
            made: ask.now,
            person: ask.user.clone(),
            slots,
            cross,
            heat: fold.heat.clone(),
            all: fold.all,
            cards,
            people,
            unit,
            coverage: whole,
            holders: lists.holders,
            past: lists.past,
            past_count: lists.past_count,
            sessions: lists.sessions,
            session_count: lists.session_count,
            known: self.seen,
            now: self.now,
            refused: self.refused,
            tick_interval: self.tick_interval,
            interval: ask
                .interval
                .map_or(IntervalUse::Recorded, IntervalUse::Given),
            notes: self.notes,
        }
    }
}

/// What of a session was observed in a window. A session that the window cuts does not say when it was: what lies in the
/// window and in no gap of the card was.
fn observed_within(hold: &Hold, window: Period, gaps: &[Gap]) -> Option<Micros> {
    let observed = hold.observed?;
    let part = hold.period.overlap(window)?;
    if part == hold.period {
        return Some(observed);
    }
    let missing = gaps.iter().filter_map(|gap| {
        let inside = gap.period.overlap(part)?.micros();
        let (inside, whole) = (
            u128::from(inside.0),
            u128::from(gap.period.micros().0.max(1)),
        );
        let missing = u128::from(gap.micros.0) * inside / whole;
        u64::try_from(missing).ok()
    });
    let seen = part.micros().0.saturating_sub(missing.sum());
    Some(Micros(seen.min(observed.0)))
}

/// What one card's coverage says in a report.
pub(super) fn covered(coverage: Coverage) -> (Covered, Vec<Gap>) {
    let covered = Covered {
        capacity: coverage.capacity,
        observed: coverage.observed(),
        gap: coverage.gap(),
        buffered: coverage.buffered,
        ..Covered::default()
    };
    (covered, coverage.gaps)
}
