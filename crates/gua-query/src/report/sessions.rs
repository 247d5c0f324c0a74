//! The sessions of a report.

use std::collections::HashMap;

use gua_model::report::{Hold, HoldLists, Note, UNKNOWN, observed_within, percent};
use gua_model::statement::SessionsByPerson;
use gua_model::{GpuUuid, Micros, OwnerSource, Period, Session, SessionOutline, Thresholds};
use jiff::Timestamp;

use super::{Known, Result, Sums, now};
use crate::question::Detail;
use crate::records::{Records, SessionVisitor};

/// Sessions, in the lists of a report and by person.
#[derive(Clone, Debug)]
pub(super) struct SessionLists {
    pub(super) lists: HoldLists,
    /// The longest sessions of each person, if they were requested.
    pub(super) by_person: Option<SessionsByPerson>,
}

impl SessionLists {
    /// Creates the lists of a window.
    pub(super) fn new(window: Period, known: &Known<'_>) -> Self {
        let detail = known.question.detail;
        Self {
            lists: HoldLists::new((detail == Detail::Charts).then_some(known.period)),
            by_person: (detail == Detail::Accounts).then(|| SessionsByPerson::new(window)),
        }
    }

    pub(super) fn push(&mut self, hold: &Hold, thresholds: &Thresholds) {
        self.lists.push(hold, thresholds);
        if let Some(by_person) = &mut self.by_person {
            by_person.push(hold);
        }
    }
}

/// Arrival of the oldest current holder of each GPU.
pub(super) type HeldSince = HashMap<GpuUuid, Timestamp>;

/// Lists the sessions of the window, and the holders of its last tick that have no session.
pub(super) fn list_sessions(
    records: &dyn Records,
    known: &Known<'_>,
    sums: &mut Sums,
) -> Result<HeldSince> {
    let mut list = SessionList {
        last: known.last_at().map(|last| Period::at(last).from()),
        known,
        sums,
        since: HeldSince::new(),
    };
    let damaged = records.sessions(known.question.window, &mut list)?;
    let SessionList { sums, since, .. } = list;
    let rows = damaged.saturating_add(records.damaged_rows()?);
    if rows > 0 {
        sums.notes.push(Note::DamagedRows { rows });
    }
    if known.question.wants_person(UNKNOWN)
        && let Some(last) = &known.last
    {
        for hold in now::nameless_holds(last, known) {
            sums.sessions.push(&hold, &known.thresholds);
        }
    }
    Ok(since)
}

/// The visitor of [`list_sessions`].
struct SessionList<'a> {
    known: &'a Known<'a>,
    /// Time of the last tick, in whole microseconds.
    last: Option<Timestamp>,
    sums: &'a mut Sums,
    since: HeldSince,
}

impl SessionList<'_> {
    /// Whether a session of this period can be counted from its outline alone, which requires that it ended before the last tick.
    fn needs_only_outline(&self, period: Period) -> bool {
        self.selects() && self.last.is_none_or(|last| period.to() < last)
    }
}

impl SessionVisitor for SessionList<'_> {
    fn selects(&self) -> bool {
        let question = self.known.question;
        question.detail == Detail::Lists
            && question.workloads.is_none()
            && question.person.is_none()
    }

    fn wants(&mut self, outline: &SessionOutline<'_>) -> bool {
        if !self.known.wants(outline.gpu) {
            return false;
        }
        if !self.needs_only_outline(outline.period) {
            return true;
        }
        let lists = &mut self.sums.sessions.lists;
        lists.wants(outline, &self.known.thresholds)
    }

    fn still_wants(&mut self, period: Period) -> bool {
        !self.needs_only_outline(period) || self.sums.sessions.lists.still_wants(period.micros())
    }

    fn session(&mut self, session: &Session) {
        let (known, question) = (self.known, self.known.question);
        let gpu = &session.key.gpu;
        let mut hold = hold(session, known);
        let is_wanted = question.wants_person(hold.owner.as_deref().unwrap_or(UNKNOWN));
        if !is_wanted || !known.wants(gpu) {
            return;
        }
        let gaps = self.sums.gaps_of(gpu, known);
        hold.observed_within = observed_within(&hold, self.sums.window, &gaps);
        if let Some(kind) = question.workloads {
            let name = kind.name(&session.workload);
            let workloads = &mut self.sums.workloads;
            workloads.add_session(name.as_deref(), &hold, &known.thresholds);
        }
        if hold.current {
            let first = self.since.entry(gpu.clone()).or_insert(session.from);
            *first = session.from.min(*first);
        }
        self.sums.sessions.push(&hold, &known.thresholds);
    }
}

fn hold(session: &Session, known: &Known<'_>) -> Hold {
    let owner = session.owner.as_ref();
    let last = known.last.as_ref();
    let current = last.is_some_and(|last| session.is_there_at(last, &known.stored));
    let idle = known.idle.get(&session.key.gpu).filter(|_| current);
    let util = session.util();
    Hold {
        gpu: session.key.gpu.clone(),
        index: known.index(&session.key.gpu),
        owner: owner.map(|owner| owner.who.shown().into_owned()),
        by_login: owner.is_some_and(|owner| owner.source == OwnerSource::Login),
        process: session.comm.as_ref().ok().cloned(),
        workload: session.workload.in_words(),
        // A view replaces the process IDs of other people with 0, which no process has.
        pid: Some(session.key.process.pid).filter(|pid| pid.0 != 0),
        period: session.period(),
        last_row: Micros(0),
        util: util.map(|(util, source)| (percent(util), source)),
        peak_memory: session.peak_memory.ok(),
        samples: session.ticks,
        shared: session.shared,
        observed: Some(session.observed),
        observed_within: None,
        active: Some(session.active),
        idle_held: Some(session.idle_held),
        current,
        idle: idle.map(|idle| idle.of(Some(session.key.process))),
        sessions: 1,
    }
}
