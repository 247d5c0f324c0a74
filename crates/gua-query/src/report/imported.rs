//! The part of a report that rests on imported rows of gpu-usage-audit.

use std::collections::BTreeMap;
use std::time::Duration;

use gua_model::legacy::{
    LegacyCoverage, LegacyMoment, LegacyProcess, LegacyQuarters, LegacySession, LegacySessions,
    OwnSince,
};
use gua_model::report::fold::ReportFold;
use gua_model::report::{CardNow, Covered, Hold, Host, Note, Now, UNKNOWN, is_imported_current};
use gua_model::{Bytes, Gap, GpuUuid, Micros, Period, Pid, RollUp, State, Thresholds, UtilSource};
use jiff::{SignedDuration, Timestamp};

use super::SessionLists;
use crate::error::RecordsError;
use crate::question::{Question, WindowEnd};
use crate::records::{ImportedFacts, Records, fold_imported};

/// The rows to read. An imported row counts as a whole tick; where no end was named, later rows count too.
pub(super) fn rows(question: &Question) -> Period {
    match question.end {
        WindowEnd::Named => question.window,
        WindowEnd::Now => Period::new(question.window.from(), Timestamp::MAX),
    }
}

pub(super) fn host(facts: &ImportedFacts) -> Option<Host> {
    facts.host.as_ref().map(|host| Host {
        name: host.name.clone(),
        environment: host.environment.clone(),
        driver: host.driver.clone(),
    })
}

/// The sums of imported rows while they are read.
pub(super) struct ImportedPart<'a> {
    question: &'a Question,
    thresholds: Thresholds,
    own_since: &'a OwnSince,
    quarters: LegacyQuarters,
    open: LegacySessions,
    sessions: SessionLists,
    coverage: LegacyCoverage,
    last: Option<Timestamp>,
    draws: bool,
    left_out: u64,
}

/// The sums of imported rows.
pub(super) struct ImportedSums {
    pub(super) coverage: BTreeMap<GpuUuid, (Covered, Vec<Gap>)>,
    /// Since when each GPU is known.
    pub(super) since: BTreeMap<GpuUuid, Timestamp>,
    pub(super) sessions: SessionLists,
    pub(super) notes: Vec<Note>,
}

impl<'a> ImportedPart<'a> {
    pub(super) fn new(
        thresholds: Thresholds,
        question: &'a Question,
        own_since: &'a OwnSince,
        sessions: SessionLists,
    ) -> Self {
        Self {
            question,
            thresholds,
            own_since,
            quarters: LegacyQuarters::new(thresholds),
            open: LegacySessions::default(),
            sessions,
            coverage: LegacyCoverage::default(),
            last: None,
            draws: false,
            left_out: 0,
        }
    }

    pub(super) fn push(&mut self, moment: &LegacyMoment<'_>, fold: &mut ReportFold) {
        let own_since = self.own_since;
        let left_out = own_since.rest(moment, |rest| self.count(rest, fold));
        self.left_out += to_u64(left_out);
    }

    fn count(&mut self, moment: &LegacyMoment<'_>, fold: &mut ReportFold) {
        self.quarters
            .push(moment, &mut |key, count| fold.old(key, count));
        let Self {
            open,
            sessions,
            question,
            thresholds,
            ..
        } = self;
        // A session that ends here ended longer ago than any that counts as current.
        open.push(moment, &mut |session| {
            keep(&session, None, question, fold, sessions, thresholds);
        });
        self.coverage.push(moment, self.question.interval);
        self.last = Some(moment.at);
        if !self.draws {
            let rows = moment.ticks.iter().flat_map(|tick| tick.processes);
            self.draws = rows.into_iter().any(|row| !row.kind.computes());
        }
    }

    /// Ends the sums. `own_last` is the time of the last tick of our own in the window.
    pub(super) fn finish(
        self,
        fold: &mut ReportFold,
        facts: &ImportedFacts,
        own_last: Option<Timestamp>,
    ) -> ImportedSums {
        let Self {
            question,
            thresholds,
            own_since,
            mut sessions,
            ..
        } = self;
        self.quarters.finish(&mut |key, count| fold.old(key, count));
        let last = self.last.max(own_last);
        self.open.finish(&mut |session| {
            keep(&session, last, question, fold, &mut sessions, &thresholds);
        });
        let mut notes = Vec::new();
        if self.draws && thresholds.count_graphics == gua_model::CountGraphics::No {
            notes.push(Note::GraphicsLeftOut);
        }
        if self.left_out > 0 {
            notes.push(Note::OldLeftOut {
                ticks: self.left_out,
            });
        }
        let until = |gpu: &GpuUuid| own_since.0.get(gpu).copied().unwrap_or(Timestamp::MAX);
        let covered = self.coverage.finish(question.window, facts.began, until);
        let coverage: BTreeMap<_, _> = covered
            .into_iter()
            .filter(|(gpu, ..)| fold.wants(gpu))
            .map(|(gpu, covered, gaps)| (gpu, (covered, gaps)))
            .collect();
        // The capacity of a GPU is one piece, which ends with the window or with the imported part.
        let since = coverage.iter().filter_map(|(gpu, (covered, _))| {
            let length = Duration::from_micros(covered.capacity.0);
            let end = until(gpu).min(question.window.to());
            Some((gpu.clone(), end.checked_sub(length).ok()?))
        });
        let since = since.collect();
        let overlap: Micros = coverage.values().map(|(covered, _)| covered.overlap).sum();
        if overlap > Micros(0) {
            notes.push(Note::Overlap { micros: overlap });
        }
        ImportedSums {
            coverage,
            since,
            sessions,
            notes,
        }
    }
}

/// Keeps a session that was asked for.
fn keep(
    session: &LegacySession,
    last: Option<Timestamp>,
    question: &Question,
    fold: &ReportFold,
    sessions: &mut SessionLists,
    thresholds: &Thresholds,
) {
    let owner = session.owner.as_deref().unwrap_or(UNKNOWN);
    if fold.wants(&session.gpu) && question.wants_person(owner) {
        sessions.push(&hold(session, last, question.interval), thresholds);
    }
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn hold(session: &LegacySession, last: Option<Timestamp>, interval: Option<Duration>) -> Hold {
    Hold {
        gpu: session.gpu.clone(),
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
        util: session.util().map(|util| (util, UtilSource::Card)),
        peak_memory: session.peak_mb.map(Bytes::from_mb),
        samples: session.samples,
        shared: session.shared,
        observed: None,
        observed_within: None,
        active: None,
        idle_held: None,
        current: is_imported_current(session.to, last),
    }
}

/// All GPUs at the last imported moment of the window.
pub(super) fn last_moment(
    records: &dyn Records,
    facts: &ImportedFacts,
    question: &Question,
    fold: &ReportFold,
    thresholds: Thresholds,
) -> Result<Option<Now>, RecordsError> {
    let last = match facts.ended {
        Some(ended) if rows(question).contains(ended) => Some(ended),
        // The window ends before the rows do: its last moment has to be searched.
        Some(_) if question.end == WindowEnd::Named => fold_imported(
            records,
            question.window,
            || None,
            |last, moment| {
                *last = Some(moment.at);
            },
        )?,
        _ => None,
    };
    let Some(last) = last else {
        return Ok(None);
    };
    fold_imported(
        records,
        instant(last),
        || None,
        |found, moment| {
            *found = Some(gpus_at(moment, facts, fold, &thresholds));
        },
    )
}

fn instant(at: Timestamp) -> Period {
    let after = at.checked_add(SignedDuration::from_micros(1));
    Period::new(at, after.unwrap_or(Timestamp::MAX))
}

fn gpus_at(
    moment: &LegacyMoment<'_>,
    facts: &ImportedFacts,
    fold: &ReportFold,
    thresholds: &Thresholds,
) -> Now {
    let mut cards = Vec::new();
    for tick in moment.ticks.iter().filter(|tick| fold.wants(tick.gpu)) {
        let computing = tick.processes.iter().filter(|row| row.kind.computes());
        // gpu-usage-audit takes the first of equals, and counts hidden memory as none.
        let biggest = computing.rev().max_by_key(|row| row.memory_mb.unwrap_or(0));
        let state = match tick.class(thresholds) {
            RollUp::Active => State::Active,
            RollUp::IdleHeld => State::IdleHeld,
            RollUp::TrulyIdle => State::TrulyIdle,
        };
        let owner =
            |row: &LegacyProcess<'_>| row.identity.or(row.owner).unwrap_or(UNKNOWN).to_owned();
        cards.push(CardNow {
            gpu: tick.gpu.clone(),
            index: tick.index.and_then(|index| u32::try_from(index).ok()),
            name: facts.gpus.get(tick.gpu).and_then(|gpu| gpu.name.clone()),
            state,
            util: Some(tick.util),
            memory_used: tick
                .memory_used_mb
                .map(|mb| Bytes::from_mb(mb.unsigned_abs())),
            memory_total: facts.gpus.get(tick.gpu).and_then(|gpu| gpu.memory_total),
            owners: biggest.map(owner).into_iter().collect(),
            process: biggest.and_then(|row| row.name).map(str::to_owned),
            held_since: None,
        });
    }
    cards.sort_by_key(|card| (card.index.is_none(), card.index, card.gpu.clone()));
    Now {
        at: moment.at,
        cards,
    }
}
