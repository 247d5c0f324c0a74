//! The report: who held which GPU, whether it was used, and what was not observed.
//!
//! A report is gathered in five steps: what the records know, the quarter totals of the window, imported rows, sessions,
//! and the layout. Each reads its part of the records once, in order of time, with bounded memory.

mod accounts;
mod imported;
mod layout;
mod now;
mod partial_quarters;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};

use gua_model::coverage::host_time;
use gua_model::idle::IdleGpu;
use gua_model::refusal::in_the_way;
use gua_model::report::fold::{ReportFold, Scope};
use gua_model::report::groups::NamedSums;
use gua_model::report::{
    Buckets, Covered, IntervalUse, Note, Now, Refused, Report, SlotRow, UNKNOWN, bucket_length,
    gap_rows, slot_rows,
};
use gua_model::statement::SessionsByPerson;
use gua_model::text::sanitize;
use gua_model::{
    Gap, GpuDay, GpuQuarter, GpuUuid, KnownGpu, Ledger, Micros, Outage, OwnerKey, Period, Quarter,
    Thresholds, Tick, UtcDay,
};
use jiff::Timestamp;

use crate::error::{QueryError, quoted};
use crate::gpu::{NamedGpu, choose_all};
use crate::question::{Detail, Question, WindowEnd};
use crate::records::{GpuInfo, ImportedFacts, Origin, QuarterVisitor, Records};

pub use self::accounts::accounts;
use self::imported::ImportedPart;
use self::partial_quarters::PartialQuarters;
use self::sessions::{HeldSince, SessionLists, list_sessions};

type Result<T> = std::result::Result<T, QueryError>;

/// Gathers a report.
pub fn report(records: &dyn Records, question: &Question) -> Result<Report> {
    let (report, _) = report_and_sessions(records, question)?;
    Ok(report)
}

/// Gathers a report, and the longest sessions of each person.
pub(crate) fn report_and_sessions(
    records: &dyn Records,
    question: &Question,
) -> Result<(Report, SessionsByPerson)> {
    let mut known = Known::read(records, question)?;
    let mut sums = count(records, &mut known)?;
    add_imported(records, &known, &mut sums)?;
    refuse_unknown_person(records, &known, &sums)?;
    let since = match question.detail {
        Detail::Sums => HeldSince::new(),
        _ => list_sessions(records, &known, &mut sums)?,
    };
    lay_out(records, &known, sums, &since)
}

/// Counts the quarter totals of the window.
fn count(records: &dyn Records, known: &mut Known<'_>) -> Result<Sums> {
    let (mut sums, unbalanced) = count_quarters(records, known)?;
    if !unbalanced.is_empty() {
        // Stored data is input: a GPU whose hours do not add up is left out and named, and the others are reported.
        known.leave_out(&unbalanced);
        (sums, _) = count_quarters(records, known)?;
        sums.notes.push(Note::Unbalanced { gpus: unbalanced });
    }
    Ok(sums)
}

/// Facts read from the records before counting.
struct Known<'a> {
    question: &'a Question,
    gpus: BTreeMap<GpuUuid, GpuInfo>,
    /// Thresholds that stored totals and sessions rest on.
    stored: Thresholds,
    /// Thresholds that the report applies.
    thresholds: Thresholds,
    imported: Option<ImportedFacts>,
    outages: Vec<Outage>,
    /// The part of the window in which anything is known.
    period: Period,
    scope: Scope,
    /// The last tick of our own in the window.
    last: Option<Tick>,
    /// For how long the GPUs that are idle at that tick have been idle.
    idle: BTreeMap<GpuUuid, IdleGpu>,
}

impl<'a> Known<'a> {
    fn read(records: &dyn Records, question: &'a Question) -> Result<Self> {
        let gpus = records.gpus()?.into_iter();
        let gpus: BTreeMap<_, _> = gpus.map(|gpu| (gpu.uuid.clone(), gpu)).collect();
        let stored = records.thresholds()?;
        let imported = records.imported_facts()?;
        let window = question.window;
        let period = known_period(question, &gpus, imported.as_ref());
        let chosen = choose_all(&question.gpus, &named(&gpus, imported.as_ref()))?;
        let last = records.last_tick_before(window.to())?;
        let last = last.filter(|tick| window.contains(tick.sample.at));
        let thresholds = question.thresholds.over(stored);
        let idle = match (&last, question.detail) {
            (None, _) | (_, Detail::Sums) => BTreeMap::new(),
            (Some(last), _) => now::idle_at(records, last, thresholds)?,
        };
        Ok(Self {
            question,
            stored,
            thresholds,
            idle,
            outages: records.outages(window)?,
            period,
            scope: question.scope(chosen, period),
            last,
            gpus,
            imported,
        })
    }

    fn last_at(&self) -> Option<Timestamp> {
        self.last.as_ref().map(|tick| tick.sample.at)
    }

    fn wants(&self, gpu: &GpuUuid) -> bool {
        self.scope.wants(gpu)
    }

    /// Narrows the report to the GPUs that are not listed.
    fn leave_out(&mut self, gpus: &[GpuUuid]) {
        self.scope.left_out.extend(gpus.iter().cloned());
    }

    fn index(&self, gpu: &GpuUuid) -> Option<u32> {
        self.gpus.get(gpu).and_then(|gpu| gpu.index)
    }

    /// Time of the first tick of our own of each GPU.
    fn first_seen(&self) -> BTreeMap<GpuUuid, Timestamp> {
        let gpus = self.gpus.iter();
        gpus.map(|(uuid, gpu)| (uuid.clone(), gpu.first_seen))
            .collect()
    }
}

/// The part of the window in which anything is known.
fn known_period(
    question: &Question,
    gpus: &BTreeMap<GpuUuid, GpuInfo>,
    imported: Option<&ImportedFacts>,
) -> Period {
    let window = question.window;
    let began = gpus.values().map(|gpu| gpu.first_seen);
    let began = began.chain(imported.and_then(|facts| facts.began)).min();
    let ended = imported.and_then(|facts| facts.ended);
    let ended = ended.filter(|_| question.end == WindowEnd::Now);
    Period::new(
        began.unwrap_or(window.to()).max(window.from()),
        ended.unwrap_or(window.to()).max(window.to()),
    )
}

/// All GPUs that a question may name: our own first.
fn named(gpus: &BTreeMap<GpuUuid, GpuInfo>, imported: Option<&ImportedFacts>) -> Vec<NamedGpu> {
    let imported = imported.iter().flat_map(|facts| &facts.gpus);
    let imported = imported.filter(|(uuid, _)| !gpus.contains_key(*uuid));
    let own = gpus.values().map(NamedGpu::from);
    own.chain(imported.map(NamedGpu::from)).collect()
}

/// Everything that is counted, while the records are read.
struct Sums {
    fold: ReportFold,
    /// The window that is answered; wider than the question's where ticks at an edge are no longer kept.
    window: Period,
    /// Number of ticks and totals that could not be read.
    damaged: u64,
    /// Coverage and gaps of each GPU.
    coverage: BTreeMap<GpuUuid, (Covered, Vec<Gap>)>,
    host_observed: Micros,
    /// Since when each GPU is known.
    since: BTreeMap<GpuUuid, Timestamp>,
    sessions: SessionLists,
    /// Sums by job, pod or container.
    workloads: NamedSums,
    /// All GPUs at the last imported moment, where it is the last tick of the window.
    imported_now: Option<Now>,
    notes: Vec<Note>,
}

impl Sums {
    /// The gaps of a GPU. Those of a MIG instance include the gaps of its parent, which has the unobserved time.
    fn gaps_of(&self, gpu: &GpuUuid, known: &Known<'_>) -> Vec<Gap> {
        let parent = known.gpus.get(gpu).and_then(|gpu| gpu.parent.as_ref());
        let both = std::iter::once(gpu).chain(parent);
        let coverage = both.filter_map(|gpu| self.coverage.get(gpu));
        coverage.flat_map(|(_, gaps)| gaps).copied().collect()
    }
}

/// Counts the quarter totals of the window, and what was observed of each GPU. Also returns the GPUs whose states and gaps
/// do not add up to their capacity.
fn count_quarters(records: &dyn Records, known: &Known<'_>) -> Result<(Sums, Vec<GpuUuid>)> {
    let firsts = known.gpus.iter();
    let firsts: BTreeMap<_, _> = firsts
        .map(|(uuid, gpu)| (uuid.clone(), gpu.known()))
        .collect();
    let window = known.question.window;
    let mut count = Count {
        window,
        fold: ReportFold::new(known.scope.clone()),
        ledger: Ledger::new(window, firsts.clone(), &known.outages),
        host_observed: Micros(0),
        partial: PartialQuarters::new(records.raw_from()?),
        firsts,
        outages: &known.outages,
    };
    let left_out = records.totals(Origin::Own, window, known.thresholds, &mut count)?;
    // The true time of absurd ticks is unknown, so they may belong to any window.
    let damaged = left_out.damaged + u64::from(records.absurd_ticks()?);
    let mut ledger = count.ledger;
    count.partial.add(records, known.thresholds, &mut ledger)?;
    let mut coverage = BTreeMap::new();
    // A GPU whose own row is damaged has no capacity to compare with.
    let counted = count.fold.gpus.keys();
    let mut unbalanced: Vec<GpuUuid> = counted
        .filter(|gpu| !known.gpus.contains_key(*gpu))
        .cloned()
        .collect();
    for (gpu, covered) in ledger.finish() {
        if !known.wants(&gpu) {
            continue;
        }
        if covered.balance() != 0 {
            unbalanced.push(gpu);
            continue;
        }
        coverage.insert(gpu, layout::covered(covered));
    }
    let sums = Sums {
        fold: count.fold,
        window: count.window,
        damaged,
        coverage,
        host_observed: count.host_observed,
        since: known.first_seen(),
        sessions: SessionLists::new(count.window, known),
        workloads: NamedSums::default(),
        imported_now: None,
        notes: Vec::new(),
    };
    Ok((sums, unbalanced))
}

/// The visitor of [`count_quarters`].
struct Count<'a> {
    window: Period,
    fold: ReportFold,
    ledger: Ledger,
    host_observed: Micros,
    partial: PartialQuarters,
    firsts: BTreeMap<GpuUuid, KnownGpu>,
    outages: &'a [Outage],
}

impl QuarterVisitor for Count<'_> {
    fn begin(&mut self, window: Period) {
        self.window = window;
        self.ledger = Ledger::new(window, self.firsts.clone(), self.outages);
        self.host_observed = Micros(0);
    }

    fn quarter(&mut self, quarter: Quarter, gpus: &[GpuQuarter]) {
        if !self.partial.takes(quarter, gpus, &self.ledger) {
            self.ledger.push_totals(gpus.iter().map(GpuQuarter::named));
        }
        self.host_observed += host_time(gpus.iter().map(GpuQuarter::named));
        for gpu in gpus {
            self.fold.add(quarter, &gpu.gpu, &gpu.total);
        }
    }

    fn day(&mut self, day: UtcDay, gpus: &[GpuDay]) -> bool {
        if !self.fold.takes_day(day, gpus) || has_other_gaps(day, gpus, self.outages) {
            return false;
        }
        // Nothing but the time of late ticks is missing in the day, so that it counts as one long quarter.
        self.ledger.push_totals(gpus.iter().map(GpuDay::named));
        self.host_observed += host_time(gpus.iter().map(GpuDay::named));
        self.fold.day(day, gpus);
        true
    }
}

/// Whether time is missing in a day that may have other reasons than late ticks, which delay all GPUs alike.
fn has_other_gaps(day: UtcDay, gpus: &[GpuDay], outages: &[Outage]) -> bool {
    let missing = |gpu: &GpuDay| {
        let total = &gpu.total.gpu;
        let hull = total.hull().map_or(0, |hull| hull.micros().0);
        hull.saturating_sub(total.present.0)
    };
    let all = gpus.iter().map(missing);
    let (least, most) = (all.clone().min(), all.max());
    if most.is_none_or(|most| most == 0) {
        return false;
    }
    let next = UtcDay(day.0.saturating_add(1));
    let from = |day: UtcDay| day.first_quarter().period().from();
    let period = Period::new(from(day), from(next));
    let touches = |outage: &Outage| outage.period().overlap(period).is_some();
    least != most || outages.iter().any(touches)
}

/// Adds imported rows: their sums, coverage, sessions and notes.
fn add_imported(records: &dyn Records, known: &Known<'_>, sums: &mut Sums) -> Result<()> {
    let Some(facts) = &known.imported else {
        return Ok(());
    };
    let mut part = ImportedPart::new(known, sums.fold.clone(), sums.window);
    let window = imported::rows(known.question);
    let left_out = records.totals(Origin::Imported, window, known.thresholds, &mut part)?;
    if known.last.is_none() {
        sums.imported_now = part.last_moment(records, facts)?;
    }
    sums.damaged += facts.damaged + left_out.damaged;
    part.finish(facts, left_out.observed, sums);
    Ok(())
}

/// Refuses a person that no record of any time names.
fn refuse_unknown_person(records: &dyn Records, known: &Known<'_>, sums: &Sums) -> Result<()> {
    match known.question.person.as_deref() {
        Some(person) if person != UNKNOWN && sums.fold.people.rows().is_empty() => {
            require_person(records, person)
        }
        _ => Ok(()),
    }
}

/// Fails where neither ticks nor imported rows name a person.
pub(crate) fn require_person(records: &dyn Records, person: &str) -> Result<()> {
    let owners = records.owners()?;
    let mut known: BTreeSet<String> = owners.iter().map(|owner| owner.shown().into()).collect();
    if known.contains(person) {
        return Ok(());
    }
    known.extend(imported::people(records)?);
    if known.contains(person) {
        return Ok(());
    }
    known.remove(UNKNOWN);
    Err(QueryError::NoSuchPerson {
        person: quoted(person),
        known: known.iter().map(|name| sanitize(name)).collect(),
    })
}

/// Lays out what was counted, with the host, the last tick and refusals.
fn lay_out(
    records: &dyn Records,
    known: &Known<'_>,
    mut sums: Sums,
    since: &HeldSince,
) -> Result<(Report, SessionsByPerson)> {
    let question = known.question;
    // Sessions of our own ticks rest on the stored thresholds.
    if known.thresholds != known.stored && !known.gpus.is_empty() {
        sums.notes.push(Note::SessionsByFile);
    }
    if sums.window != question.window && !known.period.is_empty() {
        sums.notes.push(Note::Widened {
            asked: question.window,
        });
    }
    if sums.damaged > 0 {
        sums.notes.push(Note::Damaged {
            records: u32::try_from(sums.damaged).unwrap_or(u32::MAX),
        });
    }
    let now = match &known.last {
        Some(last) => Some(now::at_tick(last, known, since)),
        None => sums.imported_now.take(),
    };
    let host = now::host(records, known.last.as_ref())?;
    let facts = known.imported.as_ref();
    let tick_interval = match records.tick_interval()? {
        None => facts.and_then(|facts| facts.interval),
        interval => interval,
    };
    let gpus = layout::gpu_rows(known, &sums);
    let gaps: Vec<&Gap> = sums.coverage.values().flat_map(|(_, gaps)| gaps).collect();
    let mut coverage = Covered {
        host_observed: sums.host_observed,
        ..Covered::default()
    };
    for (covered, _) in sums.coverage.values() {
        coverage.add(covered);
    }
    coverage.gaps = gap_rows(gaps.iter().copied(), &known.outages);
    let people = sums.fold.people.rows();
    let slots = slot_rows(&sums.fold, known.period, &gaps);
    let minutes = minutes(records, known, &gaps)?;
    let cross = layout::cross(&sums, &slots, &gpus, &people);
    let SessionLists { lists, by_person } = sums.sessions;
    let lists = lists.finish();
    let report = Report {
        host: host.or_else(|| facts?.host.clone()),
        window: sums.window,
        thresholds: known.thresholds,
        made: question.now,
        person: question.person.clone(),
        gpus,
        people,
        heat: sums.fold.heat.clone(),
        unit: sums.fold.scope().unit,
        slots,
        minutes,
        cross,
        coverage,
        current: lists.current,
        past: lists.past,
        groups: sums.workloads.rows(),
        past_count: lists.past_count,
        sessions: lists.sessions,
        session_count: lists.session_count,
        known: known.period,
        now,
        refused: refused(records, known)?,
        tick_interval,
        interval: question
            .interval
            .map_or(IntervalUse::Recorded, IntervalUse::Given),
        notes: sums.notes,
        all: sums.fold.all,
    };
    Ok((
        report,
        by_person.unwrap_or_else(|| SessionsByPerson::new(sums.window)),
    ))
}

/// States over time in buckets of minutes, where the window is short and its ticks are kept.
fn minutes(records: &dyn Records, known: &Known<'_>, gaps: &[&Gap]) -> Result<Vec<SlotRow>> {
    let period = known.period;
    let is_kept = records.raw_from()?.is_none_or(|from| from <= period.from());
    let Some(length) = bucket_length(period).filter(|_| is_kept && known.last.is_some()) else {
        return Ok(Vec::new());
    };
    let mut buckets = Buckets::new(period, length, &known.question.zone);
    records.spans(period, known.thresholds, &mut |span| {
        if known.wants(&span.gpu) {
            buckets.push(span);
        }
    })?;
    Ok(buckets.finish(gaps, known.question.person.as_deref()))
}

/// Requests that were not granted at once; for one person, those they made and those they were in the way of.
fn refused(records: &dyn Records, known: &Known<'_>) -> Result<Option<Refused>> {
    let mut refusals = records.refusals(known.question.window)?;
    for refusal in &mut refusals {
        refusal.blocked_by.retain(|block| known.wants(&block.gpu));
    }
    let is_wanted = |user: &str| known.question.wants_person(user);
    refusals.retain(|refusal| {
        let blocks = refusal.blocked_by.iter();
        let mut holders = blocks.map(|block| &block.holder);
        let requester = OwnerKey::User(refusal.request.requester.clone());
        is_wanted(&requester.shown()) || holders.any(|holder| is_wanted(&holder.shown()))
    });
    let mut rows = in_the_way(&refusals, |gpu| known.index(gpu));
    rows.retain(|row| is_wanted(&row.holder) || is_wanted(&row.requester));
    Ok((!refusals.is_empty()).then_some(Refused {
        requests: refusals.len(),
        in_the_way: rows,
    }))
}
