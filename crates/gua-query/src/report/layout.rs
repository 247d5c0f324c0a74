//! Laying out sums, coverage and holders as a report, in the order in which every format shows them.

use std::collections::{BTreeMap, BTreeSet};

use gua_model::legacy::in_order;
use gua_model::report::fold::ReportFold;
use gua_model::report::{
    CardRow, Covered, HoldLists, Host, IntervalUse, Note, Now, Refused, Report, cross_rows,
    gap_rows, slot_rows, unseen,
};
use gua_model::{Coverage, Gap, GpuUuid, Micros, Outage, Period, Thresholds};
use jiff::Timestamp;

use crate::question::Question;

/// Index and model of a GPU, where they are known.
pub(super) type IndexAndName<'a> = dyn Fn(&GpuUuid) -> (Option<u32>, Option<String>) + 'a;

/// The parts of a report before it is laid out.
pub(super) struct Parts<'a> {
    pub(super) question: &'a Question,
    pub(super) thresholds: Thresholds,
    pub(super) window: Period,
    /// The part of the window in which anything is known.
    pub(super) known: Period,
    pub(super) outages: &'a [Outage],
    /// Coverage and gaps of each GPU.
    pub(super) coverage: BTreeMap<GpuUuid, (Covered, Vec<Gap>)>,
    /// Since when each GPU is known.
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
        index_and_name: &IndexAndName<'_>,
    ) -> Report {
        let question = self.question;
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
            let (index, name) = index_and_name(gpu);
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
        // A GPU that was neither seen nor expected in the window has no row.
        cards.retain(|card| {
            card.covered.capacity > Micros(0)
                || card.sums.samples() > 0
                || card.sums.held.samples() > 0
        });
        let unit = fold.scope().unit;
        let people = fold.people.rows();
        let names: Vec<String> = people.iter().map(|person| person.name.clone()).collect();
        let uuids: Vec<GpuUuid> = cards.iter().map(|card| card.gpu.clone()).collect();
        let lists = holds.finish();
        let slots = slot_rows(&fold, self.known, &gaps);
        let cross = cross_rows(&fold, &slots, &uuids, &names, &|gpu| {
            let known = self.coverage.get(gpu);
            known.map_or(&[], |(_, gaps)| gaps.as_slice())
        });
        Report {
            host: self.host,
            window: self.window,
            thresholds: self.thresholds,
            made: question.now,
            person: question.person.clone(),
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
            known: self.known,
            now: self.now,
            refused: self.refused,
            tick_interval: self.tick_interval,
            interval: question
                .interval
                .map_or(IntervalUse::Recorded, IntervalUse::Given),
            notes: self.notes,
        }
    }
}

/// The coverage of one GPU as a report has it, and its gaps.
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
