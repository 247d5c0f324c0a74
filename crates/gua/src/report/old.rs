//! The part of a report that rests on rows of gpu-usage-audit: from its own file in place, or from what was imported.

use std::collections::BTreeMap;

use gua_model::legacy::{
    LegacyCoverage, LegacyMoment, LegacyProcess, LegacyQuarters, LegacySession, LegacySessions,
};
use gua_model::report::fold::ReportFold;
use gua_model::report::{CardNow, Covered, Hold, Host, Note, Now, PersonNames, Report, UNKNOWN};
use gua_model::{Bytes, Gap, GpuUuid, Micros, Period, Pid, RollUp, State, Thresholds, UtilSource};
use gua_store::legacy::{LegacyError, OldFacts, OldFile};
use jiff::{SignedDuration, Timestamp};

use super::ask::{Ask, choose, no_such_person};
use super::layout::Parts;
use super::longest::HoldLists;

/// A session is still there when it was seen this shortly before the last tick.
const SLACK: SignedDuration = SignedDuration::from_secs(120);

/// Reads everything that a report says from an old file, which stays as it is.
pub(super) fn of_file(file: &OldFile, ask: &Ask) -> anyhow::Result<Report> {
    let facts = file.facts()?;
    let thresholds = ask.thresholds.over(Thresholds::default());
    let indexes: BTreeMap<GpuUuid, Option<u32>> = file
        .known_cards()?
        .into_iter()
        .filter_map(|card| Some((card.uuid.parse().ok()?, card.index)))
        .collect();
    let gpus = choose(&ask.gpus, &|| {
        let all = facts.cards.keys().chain(indexes.keys());
        all.map(|gpu| (gpu.clone(), indexes.get(gpu).copied().flatten()))
            .collect()
    })?;
    let window = ask.window;
    let seen = seen(&facts, window);
    let question = ask.question(gpus, seen);
    let start = || {
        let fold = ReportFold::new(question.clone(), PersonNames::default());
        (fold, OldPart::new(thresholds, ask))
    };
    let (mut fold, part) = file.fold(rows(ask), start, |(fold, part), moment| {
        part.push(moment, fold);
    })?;
    if let Some(user) = ask.user.as_deref().filter(|user| *user != UNKNOWN) {
        let people = file.people()?;
        if !people.contains(user) {
            return Err(no_such_person(user, people).into());
        }
    }
    let mut holds = HoldLists::default();
    let mut notes = Vec::new();
    let coverage = part.finish(&mut fold, &mut holds, &facts, &mut notes);
    let now = now(&facts, ask, &fold, thresholds, &mut |window, each| {
        file.fold(window, || (), |(), moment| each(moment))
    })?;
    let parts = Parts {
        ask,
        thresholds,
        window,
        seen,
        outages: &[],
        coverage,
        host_observed: Micros(0),
        host: host(&facts),
        now,
        refused: None,
        tick_interval: facts.interval,
        notes,
    };
    Ok(parts.into_report(fold, holds, &|gpu| {
        let name = facts.cards.get(gpu).map(|card| card.name.clone());
        (indexes.get(gpu).copied().flatten(), name)
    }))
}

/// Gives the moments of a window to whoever asks.
pub(super) type Moments<'a> =
    dyn FnMut(Period, &mut dyn FnMut(&LegacyMoment<'_>)) -> Result<(), LegacyError> + 'a;

/// Old rows count as whole ticks, and without an end that was named all that came since do.
pub(super) fn rows(ask: &Ask) -> Period {
    match ask.ends {
        true => ask.window,
        false => Period::new(ask.window.from(), Timestamp::MAX),
    }
}

/// The part of a window in which the file knows anything.
pub(super) fn seen(facts: &OldFacts, window: Period) -> Period {
    let began = facts.began.unwrap_or(window.to()).max(window.from());
    Period::new(began, window.to())
}

pub(super) fn host(facts: &OldFacts) -> Option<Host> {
    facts.host.as_ref().map(|host| Host {
        name: host.name.clone(),
        environment: host.environment.clone(),
        driver: host.driver.clone(),
    })
}

/// What old moments add up to.
pub(super) struct OldPart<'a> {
    ask: &'a Ask,
    thresholds: Thresholds,
    quarters: LegacyQuarters,
    sessions: LegacySessions,
    over: Vec<LegacySession>,
    coverage: LegacyCoverage,
    last: Option<Timestamp>,
    draws: bool,
}

impl<'a> OldPart<'a> {
    pub(super) fn new(thresholds: Thresholds, ask: &'a Ask) -> Self {
        Self {
            ask,
            thresholds,
            quarters: LegacyQuarters::new(thresholds),
            sessions: LegacySessions::default(),
            over: Vec::new(),
            coverage: LegacyCoverage::default(),
            last: None,
            draws: false,
        }
    }

    pub(super) fn push(&mut self, moment: &LegacyMoment<'_>, fold: &mut ReportFold) {
        self.quarters
            .push(moment, &mut |key, count| fold.old(key, count));
        self.sessions
            .push(moment, &mut |session| self.over.push(session));
        self.coverage.push(moment, self.ask.interval);
        self.last = Some(moment.at);
        if !self.draws {
            let rows = moment.ticks.iter().flat_map(|tick| tick.processes);
            self.draws = rows.into_iter().any(|row| !row.kind.computes());
        }
    }

    /// The coverage of every card that was asked for; sessions and notes go where they belong.
    pub(super) fn finish(
        mut self,
        fold: &mut ReportFold,
        holds: &mut HoldLists,
        facts: &OldFacts,
        notes: &mut Vec<Note>,
    ) -> BTreeMap<GpuUuid, (Covered, Vec<Gap>)> {
        self.quarters.finish(&mut |key, count| fold.old(key, count));
        self.sessions.finish(&mut |session| self.over.push(session));
        // Longest first with ties in the order of card, process and time, as the old tool has them.
        for session in &self.over {
            let owner = session.owner.as_deref().unwrap_or(UNKNOWN);
            let other = self.ask.user.as_deref().is_some_and(|user| user != owner);
            if fold.wants(&session.gpu) && !other {
                holds.push(hold(session, self.last), &self.thresholds);
            }
        }
        if self.draws && self.thresholds.count_graphics == gua_model::CountGraphics::No {
            notes.push(Note::GraphicsLeftOut);
        }
        let covered = self.coverage.finish(self.ask.window, facts.began);
        let wanted: BTreeMap<_, _> = covered
            .into_iter()
            .filter(|(gpu, ..)| fold.wants(gpu))
            .map(|(gpu, covered, gaps)| (gpu, (covered, gaps)))
            .collect();
        let overlap: Micros = wanted.values().map(|(covered, _)| covered.overlap).sum();
        if overlap > Micros(0) {
            notes.push(Note::Overlap { micros: overlap });
        }
        wanted
    }
}

fn hold(session: &LegacySession, last: Option<Timestamp>) -> Hold {
    let recent = last.and_then(|last| last.checked_sub(SLACK).ok());
    Hold {
        gpu: session.gpu.clone(),
        index: session.index.and_then(|index| u32::try_from(index).ok()),
        owner: session.owner.clone(),
        by_login: session.has_login,
        process: session.name.clone(),
        workload: None,
        pid: Pid(u32::try_from(session.pid).unwrap_or(0)),
        period: Period::new(session.from, session.to),
        util: session.util().map(|util| (util, UtilSource::Card)),
        peak_memory: session.peak_mb.map(Bytes::from_mb),
        samples: session.samples,
        shared: session.shared,
        observed: None,
        active: None,
        idle_held: None,
        current: recent.is_some_and(|recent| session.to >= recent),
    }
}

/// All cards at the last moment of the window.
pub(super) fn now(
    facts: &OldFacts,
    ask: &Ask,
    fold: &ReportFold,
    thresholds: Thresholds,
    moments: &mut Moments<'_>,
) -> Result<Option<Now>, LegacyError> {
    let mut found: Option<Now> = None;
    let mut take = |moment: &LegacyMoment<'_>| {
        found = Some(cards_at(moment, facts, fold, &thresholds));
    };
    match facts.ended {
        Some(ended) if rows(ask).contains(ended) => moments(instant(ended), &mut take)?,
        // The window ends before the file does: its last moment has to be looked for.
        Some(_) if ask.ends => {
            let mut last = None;
            moments(ask.window, &mut |moment| last = Some(moment.at))?;
            if let Some(last) = last {
                moments(instant(last), &mut take)?;
            }
        }
        _ => {}
    }
    Ok(found)
}

fn instant(at: Timestamp) -> Period {
    let after = at.checked_add(SignedDuration::from_micros(1));
    Period::new(at, after.unwrap_or(Timestamp::MAX))
}

fn cards_at(
    moment: &LegacyMoment<'_>,
    facts: &OldFacts,
    fold: &ReportFold,
    thresholds: &Thresholds,
) -> Now {
    let mut cards = Vec::new();
    for tick in moment.ticks.iter().filter(|tick| fold.wants(tick.gpu)) {
        let computing = tick.processes.iter().filter(|row| row.kind.computes());
        // The first of equals, and hidden memory is none: the old tool's rule.
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
            name: facts.cards.get(tick.gpu).map(|card| card.name.clone()),
            state,
            util: Some(tick.util),
            memory_used: tick
                .memory_used_mb
                .map(|mb| Bytes::from_mb(mb.unsigned_abs())),
            memory_total: facts.cards.get(tick.gpu).map(|card| card.memory_total),
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
