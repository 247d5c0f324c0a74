//! The records that questions are answered from.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::time::Duration;

use gua_model::refusal::Refusal;
use gua_model::report::Host;
use gua_model::{
    Bytes, Floors, GpuDay, GpuQuarter, GpuUuid, KnownGpu, LegacyMoment, Outage, OwnCoverage,
    OwnerKey, Period, Quarter, Session, SessionOutline, Slice, Span, Thresholds, Tick, User,
    UtcDay,
};
use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::error::RecordsError;

type Result<T> = std::result::Result<T, RecordsError>;

/// Records of one host: ticks, quarter totals, sessions, outages, refusals and watched runs.
///
/// Large results are streamed to a visitor, one element at a time, so that memory stays bounded whatever the window. A
/// damaged tick is left out: its time is a gap, as if it had not been taken.
pub trait Records {
    /// All GPUs ever seen by our own ticks, in the order in which they were first seen.
    fn gpus(&self) -> Result<Vec<GpuInfo>>;

    /// All owners that own ticks ever saw.
    fn owners(&self) -> Result<BTreeSet<OwnerKey>>;

    /// Name of the only person who appears by name, where these records hide the others.
    fn only_person(&self) -> Result<Option<String>> {
        Ok(None)
    }

    /// Name of the host, by the latest collector run.
    fn host(&self) -> Result<Option<String>>;

    /// Interval between ticks, by the latest collector run.
    fn tick_interval(&self) -> Result<Option<Duration>>;

    /// Thresholds that stored totals and sessions rest on.
    fn thresholds(&self) -> Result<Thresholds>;

    /// Time of the oldest tick kept; older time is known by quarter totals alone. `None` if no tick was ever removed.
    fn raw_from(&self) -> Result<Option<Timestamp>>;

    /// Outages that touch a window, in order of their start.
    fn outages(&self, window: Period) -> Result<Vec<Outage>>;

    /// Visits the totals of a window quarter by quarter, in order of time, each with all its GPUs in order of their UUID.
    /// A quarter at an end of the window has only the part that lies inside. Returns the number of ticks that were left out.
    ///
    /// Thresholds other than the stored ones are applied to the ticks, which is an error where those are no longer kept.
    fn totals(
        &self,
        origin: Origin,
        window: Period,
        thresholds: Thresholds,
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<LeftOut>;

    /// Visits every session that touches a window, in any order, each as a whole. Returns the number of damaged sessions,
    /// which are left out. Of a session that the visitor refuses by its outline, only the outline is checked for damage.
    fn sessions(&self, window: Period, visitor: &mut dyn SessionVisitor) -> Result<u32>;

    /// Visits every span that begins in a window, and those of the tick before it.
    fn spans(
        &self,
        window: Period,
        thresholds: Thresholds,
        each: &mut dyn FnMut(&Span),
    ) -> Result<()>;

    /// Visits every tick of a window, in order of time. Returns the number of damaged ticks in it.
    fn ticks(&self, window: Period, each: &mut dyn FnMut(Tick)) -> Result<u32>;

    /// Visits every tick that begins in a window with the spans of its GPUs, and the tick before the window, whose spans
    /// may reach into it. Spans are not clipped. Returns the number of damaged ticks in the window. `each` ends the visit
    /// with [`RecordsError::Stopped`].
    fn ticks_with_spans(
        &self,
        window: Period,
        thresholds: Thresholds,
        each: &mut TickVisitor<'_>,
    ) -> Result<u32>;

    /// Number of ticks with an impossible time. They belong to no window.
    fn absurd_ticks(&self) -> Result<u32>;

    /// Number of damaged collector runs, GPUs, owners, outages and requests, which are left out.
    fn damaged_rows(&self) -> Result<u32>;

    /// Days in UTC that have ticks, totals or imported rows.
    fn days_with_rows(&self) -> Result<BTreeSet<Date>>;

    /// Time of each GPU that gua's own ticks cover in a window, limited to the time with imported rows.
    fn own_coverage(&self, window: Period) -> Result<OwnCoverage>;

    /// The last tick before a moment.
    fn last_tick_before(&self, moment: Timestamp) -> Result<Option<Tick>>;

    /// The last tick at or before a moment, with its spans and the tick after it.
    fn tick_at(&self, at: Timestamp, thresholds: Thresholds) -> Result<Option<TickAt>>;

    /// Idle power of each GPU, as it counts on the day of a moment.
    fn floors(&self, at: Timestamp) -> Result<Floors>;

    /// Requests of a window that were not granted at once, in order of time.
    fn refusals(&self, window: Period) -> Result<Vec<Refusal>>;

    /// Watched runs that began in a window, the latest first, at most `limit` of them.
    fn runs(&self, window: Period, limit: u32) -> Result<Vec<WatchedRun>>;

    /// Watched runs whose id begins with `prefix`, the latest first. The number is bounded by the store.
    fn runs_with_prefix(&self, prefix: &str) -> Result<Vec<WatchedRun>>;

    /// Facts about imported rows as a whole; `None` where none were imported.
    fn imported_facts(&self) -> Result<Option<ImportedFacts>>;

    /// Visits every moment of imported rows in a window, in order of time. Where rows turn out not to be in order, the
    /// visit starts over.
    fn imported_moments(
        &self,
        window: Period,
        each: &mut dyn FnMut(&LegacyMoment<'_>),
    ) -> Result<()>;
}

/// Receives a tick and the spans of its GPUs, in the same order.
pub type TickVisitor<'a> = dyn FnMut(&Tick, &[Span]) -> Result<()> + 'a;

/// Source of the ticks from which totals are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Own,
    /// Imported rows, each of which covers its recorded interval.
    Imported,
}

/// Counts of the records that a visit of totals left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Imported ticks of GPUs that our own ticks observed at that time.
    pub observed: u64,
    /// Ticks and rows that cannot be read, and unreadable quarters whose ticks are no longer stored.
    pub damaged: u64,
}

impl AddAssign for LeftOut {
    fn add_assign(&mut self, other: Self) {
        self.observed += other.observed;
        self.damaged += other.damaged;
    }
}

/// Receives the quarter totals of a window.
pub trait QuarterVisitor {
    /// Called before the first quarter with the window that is answered: the one that was asked for, or more where ticks
    /// at an edge are no longer kept and the edge moved to its quarter hour.
    fn begin(&mut self, window: Period);

    fn quarter(&mut self, quarter: Quarter, gpus: &[GpuQuarter]);

    /// Offers a UTC day that lies in the window as a whole, where its sums are stored. Returns whether it was taken; its
    /// quarters follow where it was not.
    fn day(&mut self, _day: UtcDay, _gpus: &[GpuDay]) -> bool {
        false
    }
}

/// Receives the sessions of a window.
pub trait SessionVisitor {
    /// Whether [`SessionVisitor::wants`] may refuse sessions. Otherwise each one is read as a whole at once, and `wants` may not be
    /// called.
    fn selects(&self) -> bool {
        false
    }

    /// Offers the outline of a session, and returns whether the whole session may be wanted, which costs several times as
    /// much to read.
    fn wants(&mut self, _outline: &SessionOutline<'_>) -> bool {
        true
    }

    /// Returns whether a wanted session of this period is still wanted after all outlines were offered.
    fn still_wants(&mut self, _period: Period) -> bool {
        true
    }

    fn session(&mut self, session: &Session);
}

/// A function that receives each session.
impl<F: FnMut(&Session)> SessionVisitor for F {
    fn session(&mut self, session: &Session) {
        self(session);
    }
}

/// A function that receives each quarter.
impl<F: FnMut(Quarter, &[GpuQuarter])> QuarterVisitor for F {
    fn begin(&mut self, _: Period) {}

    fn quarter(&mut self, quarter: Quarter, gpus: &[GpuQuarter]) {
        self(quarter, gpus);
    }
}

/// A GPU that was ever seen, as it was seen last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInfo {
    pub uuid: GpuUuid,
    pub first_seen: Timestamp,
    pub index: Option<u32>,
    pub name: Option<String>,
    pub memory_total: Option<Bytes>,
    /// The GPU that this one is a MIG instance of.
    pub parent: Option<GpuUuid>,
    /// Part of its parent's compute slices; `None` if it is not an instance, or the part is unknown.
    pub slice: Option<Slice>,
}

impl GpuInfo {
    /// Returns the facts from which the coverage of a GPU is computed. Earlier versions did not record the parents of
    /// short-lived instances, whose UUIDs show what they are.
    pub fn known(&self) -> KnownGpu {
        KnownGpu {
            first: self.first_seen,
            is_instance: self.parent.is_some() || self.uuid.as_str().starts_with("MIG-"),
        }
    }
}

/// The last tick at or before a moment, the spans of its GPUs, and the tick after it.
#[derive(Clone, Debug, PartialEq)]
pub struct TickAt {
    pub tick: Tick,
    /// Spans of all GPUs. They may end before the moment, which is then a gap.
    pub spans: Vec<Span>,
    pub next: Option<Tick>,
}

/// A job that `gua run` watched, as the user's program reported it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedRun {
    /// Id that the user's program gave it.
    pub run: String,
    pub owner: User,
    /// Short name of the program.
    pub name: String,
    pub started: Timestamp,
    /// `None` while it runs, or where its end was never recorded.
    pub ended: Option<Timestamp>,
    pub exit_code: Option<i32>,
    pub gpus: Vec<GpuUuid>,
    /// JSON; empty before the run has ended.
    pub summary: String,
}

/// Facts about all imported rows together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedFacts {
    /// The first row of the host table of gpu-usage-audit.
    pub host: Option<Host>,
    pub gpus: BTreeMap<GpuUuid, ImportedGpu>,
    /// Time of the first tick.
    pub began: Option<Timestamp>,
    /// Time of the last tick.
    pub ended: Option<Timestamp>,
    /// Interval that the newest run recorded.
    pub interval: Option<Duration>,
    /// Number of ticks with an impossible time. Nothing else counts them.
    pub damaged: u64,
}

/// A GPU as gpu-usage-audit described it. Files before version 1.1 have neither name nor memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedGpu {
    pub index: Option<u32>,
    pub name: Option<String>,
    pub memory_total: Option<Bytes>,
}
