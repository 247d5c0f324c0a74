//! The part of a report that rests on rows of gpu-usage-audit: from its own file in place, or from what was imported.

use std::collections::BTreeMap;
use std::time::Duration;

use gua_compat::gpu_usage_audit::{LegacyError, OldFacts, OldFile};
use gua_model::legacy::{
    LegacyCoverage, LegacyMoment, LegacyProcess, LegacyQuarters, LegacySession, LegacySessions,
    OwnSince,
};
use gua_model::report::fold::ReportFold;
use gua_model::report::{CardNow, Covered, Hold, Host, Note, Now, PersonNames, Report, UNKNOWN};
use gua_model::{Bytes, Gap, GpuUuid, Micros, Period, Pid, RollUp, State, Thresholds, UtilSource};
use jiff::{SignedDuration, Timestamp};

use crate::card::Card;

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
        let index = |gpu: &GpuUuid| indexes.get(gpu).copied().flatten();
        all.map(|gpu| Card::of_old(gpu.clone(), index(gpu)))
            .collect()
    })?;
    let window = ask.window;
    let seen = seen(&facts, window, ask.ends);
    let question = ask.question(gpus, seen);
    let nothing = OwnSince::default();
    let start = || {
        let fold = ReportFold::new(question.clone(), PersonNames::default());
        (fold, OldPart::new(thresholds, ask, &nothing))
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
    let old = part.finish(&mut fold, &facts, None);
    let now = now(&facts, ask, &fold, thresholds, &mut |window, each| {
        file.fold(window, || (), |(), moment| each(moment))
    })?;
    let parts = Parts {
        ask,
        thresholds,
        window,
        seen,
        outages: &[],
        coverage: old.coverage,
        since: old.since,
        host_observed: Micros(0),
        host: host(&facts),
        now,
        refused: None,
        tick_interval: facts.interval,
        notes: old.notes,
    };
    Ok(parts.into_report(fold, old.holds, &|gpu| {
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
pub(super) fn seen(facts: &OldFacts, window: Period, ends: bool) -> Period {
    let began = facts.began.unwrap_or(window.to()).max(window.from());
    // Without an end that was named, rows that are dated ahead count too.
    let ended = facts.ended.filter(|_| !ends).unwrap_or(window.to());
    Period::new(began, window.to().max(ended))
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
    own_since: &'a OwnSince,
    quarters: LegacyQuarters,
    sessions: LegacySessions,
    holds: HoldLists,
    coverage: LegacyCoverage,
    last: Option<Timestamp>,
    draws: bool,
    left_out: u64,
}

/// What they came to.
pub(super) struct OldSums {
    pub(super) coverage: BTreeMap<GpuUuid, (Covered, Vec<Gap>)>,
    /// Since when each card is known.
    pub(super) since: BTreeMap<GpuUuid, Timestamp>,
    pub(super) holds: HoldLists,
    pub(super) notes: Vec<Note>,
}

impl<'a> OldPart<'a> {
    pub(super) fn new(thresholds: Thresholds, ask: &'a Ask, own_since: &'a OwnSince) -> Self {
        Self {
            ask,
            thresholds,
            own_since,
            quarters: LegacyQuarters::new(thresholds),
            sessions: LegacySessions::default(),
            holds: HoldLists::default(),
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
            sessions,
            holds,
            ask,
            thresholds,
            ..
        } = self;
        // What is over by now ended longer ago than any session that is still there.
        sessions.push(moment, &mut |session| {
            keep(&session, None, ask, fold, holds, thresholds);
        });
        self.coverage.push(moment, self.ask.interval);
        self.last = Some(moment.at);
        if !self.draws {
            let rows = moment.ticks.iter().flat_map(|tick| tick.processes);
            self.draws = rows.into_iter().any(|row| !row.kind.computes());
        }
    }

    /// `own_last` is the last tick of our own in the window, where there is one.
    pub(super) fn finish(
        self,
        fold: &mut ReportFold,
        facts: &OldFacts,
        own_last: Option<Timestamp>,
    ) -> OldSums {
        let Self {
            ask,
            thresholds,
            own_since,
            mut holds,
            ..
        } = self;
        self.quarters.finish(&mut |key, count| fold.old(key, count));
        let last = self.last.max(own_last);
        self.sessions.finish(&mut |session| {
            keep(&session, last, ask, fold, &mut holds, &thresholds);
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
        let covered = self.coverage.finish(ask.window, facts.began, until);
        let coverage: BTreeMap<_, _> = covered
            .into_iter()
            .filter(|(gpu, ..)| fold.wants(gpu))
            .map(|(gpu, covered, gaps)| (gpu, (covered, gaps)))
            .collect();
        // The capacity of a card lies in one piece, and ends where the window or the old part does.
        let since = coverage.iter().filter_map(|(gpu, (covered, _))| {
            let length = Duration::from_micros(covered.capacity.0);
            let end = until(gpu).min(ask.window.to());
            Some((gpu.clone(), end.checked_sub(length).ok()?))
        });
        let since = since.collect();
        let overlap: Micros = coverage.values().map(|(covered, _)| covered.overlap).sum();
        if overlap > Micros(0) {
            notes.push(Note::Overlap { micros: overlap });
        }
        OldSums {
            coverage,
            since,
            holds,
            notes,
        }
    }
}

/// Keeps a session that was asked for.
fn keep(
    session: &LegacySession,
    last: Option<Timestamp>,
    ask: &Ask,
    fold: &ReportFold,
    holds: &mut HoldLists,
    thresholds: &Thresholds,
) {
    let owner = session.owner.as_deref().unwrap_or(UNKNOWN);
    let other = ask.user.as_deref().is_some_and(|user| user != owner);
    if fold.wants(&session.gpu) && !other {
        holds.push(&hold(session, last, ask.interval), thresholds);
    }
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn hold(session: &LegacySession, last: Option<Timestamp>, interval: Option<Duration>) -> Hold {
    let recent = last.and_then(|last| last.checked_sub(SLACK).ok());
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
