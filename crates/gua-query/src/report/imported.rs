//! The part of a report that rests on imported rows of gpu-usage-audit and gpu_stats.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gua_model::idle::{Idle, idle_since, is_idle_now};
use gua_model::legacy::{
    ImportedCoverage, ImportedSession, LegacyMoment, LegacyProcess, OpenSessions,
};
use gua_model::report::fold::ReportFold;
use gua_model::report::{GpuStatus, Hold, IMPORTED_SLACK, Note, Now, UNKNOWN, is_imported_current};
use gua_model::since::{Since, Start};
use gua_model::{
    Bytes, CountGraphics, GpuDay, GpuQuarter, GpuUuid, Micros, NamedTotal, Period, Pid, Quarter,
    RollUp, UtcDay, UtilSource,
};
use jiff::{SignedDuration, Timestamp};

use super::{Known, SessionLists, Sums};
use crate::error::RecordsError;
use crate::idle::{Seen, idle_imported};
use crate::question::{IdleQuestion, Question, WindowEnd};
use crate::records::{ImportedFacts, Origin, QuarterVisitor, Records};

/// The rows to read. An imported row counts as a whole tick; where no end was named, later rows count too.
pub(super) fn rows(question: &Question) -> Period {
    match question.end {
        WindowEnd::Named => question.window,
        WindowEnd::Now => Period::new(question.window.from(), Timestamp::MAX),
    }
}

/// Names that imported rows count users under.
pub(super) fn people(records: &dyn Records) -> Result<BTreeSet<String>, RecordsError> {
    let mut people = BTreeSet::new();
    let always = Period::new(Timestamp::MIN, Timestamp::MAX);
    let mut add = |_: Quarter, gpus: &[GpuQuarter]| {
        for owner in gpus.iter().flat_map(|gpu| gpu.total.owners.keys()) {
            people.extend(owner.name().map(str::to_owned));
        }
    };
    records.totals(Origin::Imported, always, records.thresholds()?, &mut add)?;
    Ok(people)
}

/// The sums of imported rows while they are read.
pub(super) struct ImportedPart<'a> {
    known: &'a Known<'a>,
    /// The sums before imported rows, and the window that is answered.
    start: ReportFold,
    window: Period,
    fold: ReportFold,
    open: OpenSessions,
    sessions: SessionLists,
    coverage: BTreeMap<GpuUuid, ImportedCoverage>,
    last: Option<Timestamp>,
    /// When each GPU was last used.
    uses: Seen,
    has_graphics: bool,
}

impl QuarterVisitor for ImportedPart<'_> {
    fn begin(&mut self, _: Period) {
        *self = Self::new(self.known, self.start.clone(), self.window);
    }

    fn quarter(&mut self, quarter: Quarter, gpus: &[GpuQuarter]) {
        self.uses.follow(quarter, gpus);
        let gpus = &*self.counted(gpus, |gpu, interval| gpu.total.set_interval(interval));
        for gpu in gpus {
            self.fold.add(quarter, &gpu.gpu, &gpu.total);
        }
        self.add(quarter.period().from(), gpus.iter().map(GpuQuarter::named));
    }

    fn day(&mut self, day: UtcDay, gpus: &[GpuDay]) -> bool {
        if !self.fold.takes_day(day, gpus) {
            return false;
        }
        let gpus = &*self.counted(gpus, GpuDay::set_interval);
        self.fold.day(day, gpus);
        // The sums of a day do not say when a GPU was free.
        let next = UtcDay(day.0.saturating_add(1));
        self.uses = Seen::since(next.first_quarter().period().from());
        let begin = day.first_quarter().period().from();
        self.add(begin, gpus.iter().map(GpuDay::named));
        true
    }
}

impl<'a> ImportedPart<'a> {
    pub(super) fn new(known: &'a Known<'a>, start: ReportFold, window: Period) -> Self {
        Self {
            known,
            fold: start.clone(),
            start,
            window,
            open: OpenSessions::default(),
            sessions: SessionLists::new(window, known),
            coverage: BTreeMap::new(),
            last: None,
            uses: Seen::within(known.question.window),
            has_graphics: false,
        }
    }

    /// Counts rows by the requested interval if there is one, otherwise by the recorded ones.
    fn counted<'g, T: Clone>(&self, gpus: &'g [T], set: impl Fn(&mut T, Micros)) -> Cow<'g, [T]> {
        let mut gpus = Cow::Borrowed(gpus);
        if let Some(interval) = self.known.question.interval {
            let each = gpus.to_mut().iter_mut();
            each.for_each(|gpu| set(gpu, interval.into()));
        }
        gpus
    }

    /// Adds coverage and sessions of a quarter or a day.
    fn add<'p>(&mut self, begin: Timestamp, totals: impl Iterator<Item = NamedTotal<'p>> + Clone) {
        let parts = totals.filter_map(|(gpu, total)| Some((gpu, total.imported.as_deref()?)));
        for (gpu, part) in parts.clone() {
            self.has_graphics |= part.has_graphics;
            let last = part.coverage.as_ref().map(ImportedCoverage::last);
            let seen = part.sessions.iter().map(|session| session.to);
            self.last = self.last.max(seen.max().max(last));
            let Some(coverage) = &part.coverage else {
                continue;
            };
            match self.coverage.get_mut(gpu) {
                Some(known) => known.merge(coverage),
                None => drop(self.coverage.insert(gpu.clone(), coverage.clone())),
            }
        }
        let (known, sessions) = (self.known, &mut self.sessions);
        let pieces = parts.map(|(gpu, part)| (gpu, part.sessions.as_slice()));
        // A session that ends here ended longer ago than any that counts as current.
        self.open.push(begin, pieces, &mut |gpu, session| {
            keep(gpu, session, End::default(), known, sessions);
        });
    }

    /// All GPUs at the last imported moment of the window.
    pub(super) fn last_moment(
        &self,
        records: &dyn Records,
        facts: &ImportedFacts,
    ) -> Result<Option<Now>, RecordsError> {
        let (Some(last), known) = (self.last, self.known) else {
            return Ok(None);
        };
        let mut found = None;
        records.imported_moments(Period::at(last), &mut |moment| {
            found = Some(gpus_at(moment, facts, known));
        })?;
        if let Some(now) = &mut found {
            let idle_now = now.gpus.iter().filter(|gpu| is_idle_now(gpu.state));
            let question = IdleQuestion {
                gpus: idle_now.map(|gpu| gpu.gpu.clone()).collect(),
                thresholds: known.thresholds,
                at: now.at,
            };
            let idle = idle_imported(records, &question, self.uses.clone())?;
            for gpu in &mut now.gpus {
                gpu.idle = idle.get(&gpu.gpu).copied();
            }
        }
        Ok(found)
    }

    /// Adds what was read to the sums of the report. `left_out` is the number of ticks that were left out.
    pub(super) fn finish(self, facts: &ImportedFacts, left_out: u64, sums: &mut Sums) {
        let Self {
            known,
            fold,
            open,
            coverage,
            last,
            ..
        } = self;
        sums.sessions = self.sessions;
        let last = last.max(known.last_at());
        let now = sums.imported_now.as_ref();
        let idle = |gpu: &GpuUuid| {
            let mut gpus = now?.gpus.iter();
            gpus.find(|status| status.gpu == *gpu)?.idle
        };
        open.finish(&mut |gpu, session| {
            let end = End {
                last,
                idle: idle(gpu),
            };
            keep(gpu, session, end, known, &mut sums.sessions);
        });
        if self.has_graphics && known.thresholds.count_graphics == CountGraphics::No {
            sums.notes.push(Note::GraphicsLeftOut);
        }
        if left_out > 0 {
            sums.notes.push(Note::OldLeftOut { ticks: left_out });
        }
        let window = known.question.window;
        let first = coverage.values().map(ImportedCoverage::first).min();
        let could = facts
            .began
            .map_or(window.from(), |began| began.max(window.from()));
        let mut overlap = Micros(0);
        for (gpu, mut rows) in coverage {
            if !known.wants(&gpu) {
                continue;
            }
            if let Some(interval) = known.question.interval {
                rows = rows.with_interval(interval.into());
            }
            // A GPU that appeared later than the others was not present before.
            let from = match first == Some(rows.first()) {
                true => could.min(rows.first()),
                false => rows.first(),
            };
            let own = known.gpus.get(&gpu).map(|gpu| gpu.first_seen);
            let to = own.map_or(window.to(), |own| own.min(window.to()).max(from));
            let (covered, gaps) = rows.finish(from, to);
            overlap += covered.overlap;
            // Before the first own tick, the capacity of a GPU is one piece.
            if covered.capacity > Micros(0)
                && let Ok(begin) = to.checked_sub(Duration::from_micros(covered.capacity.0))
            {
                sums.since.insert(gpu.clone(), begin);
            }
            let (sum, all) = sums.coverage.entry(gpu).or_default();
            // After it, rows fill gaps of the own ticks.
            let filled = rows.fill(all);
            sum.gap = Micros(sum.gap.0.saturating_sub(filled.0));
            sum.observed += filled;
            sum.add(&covered);
            all.extend(gaps);
        }
        if overlap > Micros(0) {
            sums.notes.push(Note::Overlap { micros: overlap });
        }
        if fold.all.observed() > Micros(0) && fold.all.has_imported() {
            sums.notes.push(Note::Mixed);
        }
        sums.fold = fold;
    }
}

/// The last tick of the window, and for how long a GPU that is idle then has been idle.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    last: Option<Timestamp>,
    idle: Option<Idle>,
}

/// Keeps a session that was asked for.
fn keep(
    gpu: &GpuUuid,
    session: &ImportedSession,
    end: End,
    known: &Known<'_>,
    sessions: &mut SessionLists,
) {
    let owner = session.owner.as_deref().unwrap_or(UNKNOWN);
    if known.wants(gpu) && known.question.wants_person(owner) {
        let hold = hold(gpu, session, end, known.question);
        sessions.push(&hold, &known.thresholds);
    }
}

fn hold(gpu: &GpuUuid, session: &ImportedSession, end: End, question: &Question) -> Hold {
    let interval = question.interval;
    let current = is_imported_current(session.to, end.last);
    let idle = end.idle.filter(|_| current);
    Hold {
        gpu: gpu.clone(),
        index: session.index.and_then(|index| u32::try_from(index).ok()),
        owner: session.owner.clone(),
        by_login: session.has_login,
        process: session.name.clone(),
        workload: None,
        pid: u32::try_from(session.pid)
            .ok()
            .filter(|pid| *pid > 0)
            .map(Pid),
        period: Period::new(session.from, session.to),
        last_row: Period::new(session.to, session.end(interval)).micros(),
        util: session.util().map(|util| (util, UtilSource::Gpu)),
        peak_memory: session.peak_mb.map(Bytes::from_mb),
        samples: session.samples,
        shared: session.shared,
        observed: None,
        observed_within: None,
        active: None,
        idle_held: None,
        current,
        idle: idle.map(|idle| narrowed(idle, session, question.window)),
        sessions: 1,
    }
}

/// For how long a holder has been idle on a GPU, whose rows do not say when the holder came. A session whose first row is
/// not the first of the window began with that row.
fn narrowed(idle: Idle, session: &ImportedSession, window: Period) -> Idle {
    let slack = SignedDuration::try_from(session.last_row).unwrap_or(SignedDuration::MAX);
    let slack = slack.saturating_add(IMPORTED_SLACK);
    let has_begun = session.from.duration_since(window.from()) > slack;
    let came = Since {
        at: session.from,
        start: Start::Seen,
    };
    let since = idle_since(has_begun.then_some(came), Some(idle.since));
    Idle {
        since: since.unwrap_or(idle.since),
        ..idle
    }
}

fn gpus_at(moment: &LegacyMoment<'_>, facts: &ImportedFacts, known: &Known<'_>) -> Now {
    let mut gpus = Vec::new();
    for tick in moment.ticks.iter().filter(|tick| known.wants(tick.gpu)) {
        let computing = tick.processes.iter().filter(|row| row.kind.computes());
        // gpu-usage-audit takes the first of equals, and counts hidden memory as none.
        let biggest = computing.rev().max_by_key(|row| row.memory_mb.unwrap_or(0));
        let owner =
            |row: &LegacyProcess<'_>| row.identity.or(row.owner).unwrap_or(UNKNOWN).to_owned();
        let gpu = facts.gpus.get(tick.gpu);
        let class = tick.class(&known.thresholds);
        gpus.push(GpuStatus {
            gpu: tick.gpu.clone(),
            index: tick.index.and_then(|index| u32::try_from(index).ok()),
            instance: None,
            name: gpu.and_then(|gpu| gpu.name.clone()),
            state: class.into(),
            is_free: class == RollUp::TrulyIdle,
            faults: Vec::new(),
            util: Some(tick.util),
            memory_used: tick
                .memory_used_mb
                .map(|mb| Bytes::from_mb(mb.unsigned_abs())),
            memory_total: gpu.and_then(|gpu| gpu.memory_total),
            owners: biggest.map(owner).into_iter().collect(),
            process: biggest.and_then(|row| row.name).map(str::to_owned),
            held_since: None,
            idle: None,
        });
    }
    gpus.sort_by_key(|gpu| (gpu.index.is_none(), gpu.index, gpu.gpu.clone()));
    Now {
        at: moment.at,
        gpus,
    }
}
