//! Records as one user may see them: their own in full, those of other people under pseudonyms or as sums.
//!
//! The view changes records before anything is computed from them, so that every answer keeps the rule without knowing it.
//! States, coverage and hours of GPUs stay as they are. What identifies another person is replaced: the owner (a user, a
//! container, a pod or the owner of a rule) by an alias, and the facts that lead to the person (process id, start time,
//! short name, login uid, job, pod and container) by nothing.

mod visitor;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use gua_model::refusal::Refusal;
use gua_model::report::UNKNOWN;
use gua_model::{
    Floors, Identity, LegacyMoment, Missing, Outage, OwnCoverage, Owner, OwnerKey, OwnerSource,
    Period, Pid, Process, ProcessKey, QuarterTotal, Session, Span, StartTicks, Thresholds, Tick,
    Uid, User, Workload,
};
use jiff::Timestamp;
use jiff::civil::Date;

use crate::error::RecordsError;
use crate::records::{
    GpuInfo, ImportedFacts, LeftOut, Origin, QuarterVisitor, Records, SessionVisitor, TickAt,
    TickVisitor, WatchedRun,
};

use self::visitor::Masked;

type Result<T> = std::result::Result<T, RecordsError>;

/// Person who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    pub uid: Uid,
    /// The viewer's name on this host; imported rows know people by name alone.
    pub name: Option<String>,
}

/// Form in which other people appear.
pub enum Others {
    /// Each under a pseudonym, which this function makes from the name.
    Pseudonyms(Box<dyn Fn(&str) -> String>),
    /// All of them together, as `others`.
    Totals,
}

impl fmt::Debug for Others {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Others::Pseudonyms(_) => "Pseudonyms",
            Others::Totals => "Totals",
        })
    }
}

/// Name of all other people together.
pub(crate) const OTHERS: &str = "others";

/// User ids from here on are aliases; hosts do not assign them to people.
const FIRST_ALIAS: u32 = 0x8000_0000;

/// Records as a viewer may see them.
pub struct View {
    records: Box<dyn Records>,
    viewer: Viewer,
    others: Others,
    /// Whether neither the records nor the host know another name of the viewer's user id.
    had_one_name: bool,
    aliases: RefCell<Aliases>,
}

/// The aliases given so far.
#[derive(Debug, Default)]
struct Aliases {
    by_owner: BTreeMap<OwnerKey, User>,
    taken: BTreeSet<Uid>,
    /// Negative numbers in the place of the process ids of imported sessions.
    pids: BTreeMap<i64, i64>,
}

impl fmt::Debug for View {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("View")
            .field("viewer", &self.viewer)
            .field("others", &self.others)
            .finish_non_exhaustive()
    }
}

impl View {
    /// Limits what a viewer sees of records.
    pub fn new(records: Box<dyn Records>, viewer: Viewer, others: Others) -> Self {
        let had_one_name = records.owners().is_ok_and(|owners| {
            let of_viewer = owners.iter().filter_map(|owner| match owner {
                OwnerKey::User(user) if user.uid == viewer.uid => user.name.as_ref(),
                _ => None,
            });
            let names: BTreeSet<&String> = of_viewer.chain(&viewer.name).collect();
            names.len() <= 1
        });
        Self {
            records,
            viewer,
            others,
            had_one_name,
            aliases: RefCell::default(),
        }
    }

    /// Whether an owner is the viewer.
    fn is_own(&self, owner: &OwnerKey) -> bool {
        match owner {
            OwnerKey::User(user) => self.is_own_user(user),
            OwnerKey::Name(name) => self.is_own_name(name),
            OwnerKey::Unknown | OwnerKey::Workload(_) => false,
        }
    }

    /// Whether a user is the viewer. The records cannot tell a user who was renamed from a user id that was given to
    /// another person, so another name counts as another person. Where one of the names is not known, the user id decides
    /// if it never had two names.
    fn is_own_user(&self, user: &User) -> bool {
        let is_same_name = match (&user.name, &self.viewer.name) {
            (Some(then), Some(now)) => then == now,
            _ => self.had_one_name,
        };
        user.uid == self.viewer.uid && is_same_name
    }

    fn is_own_name(&self, name: &str) -> bool {
        self.viewer.name.as_deref() == Some(name)
    }

    /// The name under which a person appears.
    fn name(&self, name: &str) -> String {
        match &self.others {
            _ if name == UNKNOWN || self.is_own_name(name) => name.to_owned(),
            Others::Pseudonyms(pseudonym) => pseudonym(name),
            Others::Totals => OTHERS.to_owned(),
        }
    }

    /// The user id and name under which an owner other than the viewer appears.
    fn alias(&self, owner: &OwnerKey) -> User {
        let mut aliases = self.aliases.borrow_mut();
        if let Some(alias) = aliases.by_owner.get(owner) {
            return alias.clone();
        }
        let name = match &self.others {
            Others::Pseudonyms(pseudonym) => pseudonym(&owner.shown()),
            Others::Totals => OTHERS.to_owned(),
        };
        let mut alias = first_alias(&name);
        // Two people under one alias would be counted as one.
        while matches!(self.others, Others::Pseudonyms(_)) && !aliases.taken.insert(Uid(alias)) {
            alias = FIRST_ALIAS | alias.wrapping_add(1);
        }
        let user = User {
            uid: Uid(alias),
            name: Some(name),
        };
        aliases.by_owner.insert(owner.clone(), user.clone());
        user
    }

    /// The owner as the viewer sees it.
    fn who(&self, owner: &OwnerKey) -> OwnerKey {
        match owner {
            OwnerKey::Unknown => OwnerKey::Unknown,
            own if self.is_own(own) => own.clone(),
            // Imported rows and rules of the configuration know people by name alone.
            OwnerKey::Name(name) => OwnerKey::Name(self.name(name).into()),
            OwnerKey::User(_) | OwnerKey::Workload(_) => OwnerKey::User(self.alias(owner)),
        }
    }

    /// The owner of a process as the viewer sees it. The rule by which another owner was found would tell a container or pod
    /// from a user.
    fn owner(&self, owner: &Owner) -> Owner {
        Owner {
            who: self.who(&owner.who),
            source: match self.is_own(&owner.who) {
                true => owner.source,
                false => OwnerSource::Process,
            },
        }
    }

    fn total(&self, total: &mut QuarterTotal) {
        let owners = std::mem::take(&mut total.owners);
        for (owner, sums) in &owners {
            total.owners.entry(self.who(owner)).merge(sums);
        }
        let Some(part) = &mut total.imported else {
            return;
        };
        let is_own = |owner: &Option<String>| {
            let owner = owner.as_deref();
            owner.is_some_and(|name| self.is_own_name(name))
        };
        if matches!(self.others, Others::Totals) {
            part.sessions
                .retain(|session| session.owner.is_none() || is_own(&session.owner));
        }
        for session in &mut part.sessions {
            if !is_own(&session.owner) {
                session.owner = session.owner.as_deref().map(|name| self.name(name));
                session.name = None;
                session.pid = self.hidden_pid(session.pid);
            }
        }
    }

    /// Returns a negative number in the place of a process id, always the same for the same one: the pieces of a session are
    /// joined by it.
    fn hidden_pid(&self, pid: i64) -> i64 {
        let pids = &mut self.aliases.borrow_mut().pids;
        let next = i64::try_from(pids.len()).map_or(i64::MIN, |taken| -1 - taken);
        *pids.entry(pid).or_insert(next)
    }

    /// The session, unless it is one that the viewer must not see.
    fn session(&self, session: &Session) -> Option<Session> {
        let mut masked = session.clone();
        if let Some(owner) = &session.owner {
            if self.is_own(&owner.who) {
                return Some(masked);
            }
            if matches!(self.others, Others::Totals) {
                return None;
            }
            masked.owner = Some(self.owner(owner));
        }
        masked.key.process = hidden(session.key.process);
        masked.comm = Err(Missing::Denied);
        masked.workload = Workload::default();
        Some(masked)
    }

    fn process(&self, process: &mut Process) {
        let Ok(identity) = &mut process.identity else {
            process.pid = Pid(0);
            return;
        };
        let owner = identity.owner();
        if owner.as_ref().is_some_and(|owner| self.is_own(&owner.who)) {
            return;
        }
        process.pid = Pid(0);
        *identity = Identity {
            key: hidden(identity.key),
            login: Err(Missing::Denied),
            claimed_login: None,
            own: match owner {
                Some(owner) => Ok(self.alias(&owner.who)),
                None => Err(Missing::Denied),
            },
            workload: Workload::default(),
            comm: Err(Missing::Denied),
        };
    }

    fn tick(&self, mut tick: Tick) -> Tick {
        for gpu in &mut tick.sample.gpus {
            for process in &mut gpu.processes {
                self.process(process);
            }
        }
        tick
    }

    fn span(&self, span: &Span) -> Span {
        let mut span = span.clone();
        for holder in &mut span.holders {
            let owner = holder.owner.as_ref();
            if !owner.is_some_and(|owner| self.is_own(&owner.who)) {
                holder.owner = owner.map(|owner| self.owner(owner));
                holder.process = holder.process.map(hidden);
            }
        }
        span
    }

    /// Runs of other people are not shown: what they are called and what they measured is theirs.
    fn own_runs(&self, mut runs: Vec<WatchedRun>) -> Vec<WatchedRun> {
        runs.retain(|run| self.is_own_user(&run.owner));
        runs
    }
}

/// The first alias to try for a name: always the same for the same name (FNV-1a).
fn first_alias(name: &str) -> u32 {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    FIRST_ALIAS | hash
}

/// A process that cannot be found: no process has the id 0.
fn hidden(key: ProcessKey) -> ProcessKey {
    ProcessKey {
        pid: Pid(0),
        start: StartTicks(0),
        ..key
    }
}

/// Implements methods whose results name no people.
macro_rules! unchanged {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($argument: $type),*) -> Result<$answer> {
            self.records.$name($($argument),*)
        }
    )*};
}

impl Records for View {
    unchanged! {
        gpus() -> Vec<GpuInfo>;
        host() -> Option<String>;
        tick_interval() -> Option<Duration>;
        thresholds() -> Thresholds;
        raw_from() -> Option<Timestamp>;
        outages(window: Period) -> Vec<Outage>;
        absurd_ticks() -> u32;
        damaged_rows() -> u32;
        days_with_rows() -> BTreeSet<Date>;
        own_coverage(window: Period) -> OwnCoverage;
        floors(at: Timestamp) -> Floors;
        imported_facts() -> Option<ImportedFacts>;
    }

    fn owners(&self) -> Result<BTreeSet<OwnerKey>> {
        let owners = self.records.owners()?;
        Ok(owners.iter().map(|owner| self.who(owner)).collect())
    }

    fn only_person(&self) -> Result<Option<String>> {
        let Viewer { uid, name } = self.viewer.clone();
        Ok(Some(
            OwnerKey::User(User { uid, name }).shown().into_owned(),
        ))
    }

    fn totals(
        &self,
        origin: Origin,
        window: Period,
        thresholds: Thresholds,
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<LeftOut> {
        let view = self;
        let mut masked = Masked { view, visitor };
        self.records.totals(origin, window, thresholds, &mut masked)
    }

    fn sessions(&self, window: Period, visitor: &mut dyn SessionVisitor) -> Result<u32> {
        self.records.sessions(window, &mut |session: &Session| {
            if let Some(session) = self
                .session(session)
                .filter(|session| visitor.wants(&session.outline()))
            {
                visitor.session(&session);
            }
        })
    }

    fn spans(
        &self,
        window: Period,
        thresholds: Thresholds,
        each: &mut dyn FnMut(&Span),
    ) -> Result<()> {
        let mut masked = |span: &Span| each(&self.span(span));
        self.records.spans(window, thresholds, &mut masked)
    }

    fn ticks(&self, window: Period, each: &mut dyn FnMut(Tick)) -> Result<u32> {
        self.records
            .ticks(window, &mut |tick| each(self.tick(tick)))
    }

    fn ticks_with_spans(
        &self,
        window: Period,
        thresholds: Thresholds,
        each: &mut TickVisitor<'_>,
    ) -> Result<u32> {
        let mut masked = |tick: &Tick, spans: &[Span]| {
            let spans: Vec<Span> = spans.iter().map(|span| self.span(span)).collect();
            each(&self.tick(tick.clone()), &spans)
        };
        self.records
            .ticks_with_spans(window, thresholds, &mut masked)
    }

    fn last_tick_before(&self, moment: Timestamp) -> Result<Option<Tick>> {
        let tick = self.records.last_tick_before(moment)?;
        Ok(tick.map(|tick| self.tick(tick)))
    }

    fn tick_at(&self, at: Timestamp, thresholds: Thresholds) -> Result<Option<TickAt>> {
        let found = self.records.tick_at(at, thresholds)?;
        Ok(found.map(|TickAt { tick, spans, next }| TickAt {
            tick: self.tick(tick),
            spans: spans.iter().map(|span| self.span(span)).collect(),
            next: next.map(|tick| self.tick(tick)),
        }))
    }

    fn refusals(&self, window: Period) -> Result<Vec<Refusal>> {
        let mut refusals = self.records.refusals(window)?;
        for refusal in &mut refusals {
            let requester = &mut refusal.request.requester;
            if !self.is_own_user(requester) {
                *requester = self.alias(&OwnerKey::User(requester.clone()));
            }
            for blocking in &mut refusal.blocked_by {
                blocking.holder = self.who(&blocking.holder);
            }
        }
        Ok(refusals)
    }

    fn runs(&self, window: Period, limit: u32) -> Result<Vec<WatchedRun>> {
        // The limit counts runs that the viewer sees.
        let mut runs = self.own_runs(self.records.runs(window, u32::MAX)?);
        runs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(runs)
    }

    fn runs_with_prefix(&self, prefix: &str) -> Result<Vec<WatchedRun>> {
        Ok(self.own_runs(self.records.runs_with_prefix(prefix)?))
    }

    fn imported_moments(
        &self,
        window: Period,
        each: &mut dyn FnMut(&LegacyMoment<'_>),
    ) -> Result<()> {
        self.records
            .imported_moments(window, &mut |moment| visitor::moment(self, moment, each))
    }
}
