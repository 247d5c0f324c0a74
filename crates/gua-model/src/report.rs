//! The numbers of a report, which every format prints. [`fold::ReportFold`] computes them, and gua-render formats them.
//!
//! Amounts are whole numbers until they are shown. Time of own ticks is divided among states by what was observed; imported
//! rows count whole ticks, as the tool that wrote them does. Shares are shares of time; for imported rows alone, of
//! GPU-ticks.

mod charted;
mod cross;
pub mod fold;
mod gaps;
pub mod groups;
mod holds;
mod longest;
mod minutes;
mod sessions;
mod sums;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};

use crate::cadence::Cadence;
use crate::calendar::CalendarUnit;
use crate::gap::GapReason;
use crate::id::{GpuUuid, Pid};
use crate::idle::Idle;
use crate::period::Period;
use crate::sample::Slice;
use crate::session::UtilSource;
use crate::state::{RollUp, State, Thresholds};
use crate::total::{OwnerTotal, QuarterUse};
use crate::unit::{Bytes, Micros};

pub use self::cross::{Column, Cross, CrossRow, GpuCross, cross_rows, slot_rows};
pub use self::gaps::{fill_gaps, gap_rows, unseen};
pub use self::holds::{Holds, UNKNOWN};
#[cfg(test)]
pub(crate) use self::longest::tests::hold as test_hold;
pub use self::longest::{HeldLists, HoldLists, PAST_LISTED};
pub use self::minutes::{Buckets, bucket_length};
pub use self::sessions::{IMPORTED_SLACK, is_imported_current, observed_within, percent};
pub use self::sums::Sums;
use self::sums::count;
pub(crate) use self::sums::ratio;

/// Complete content of a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    pub host: Option<Host>,
    /// Time that the numbers cover.
    pub window: Period,
    pub thresholds: Thresholds,
    /// Time at which the report was made.
    pub made: Timestamp,
    /// Person that the report is limited to, if any.
    pub person: Option<String>,
    /// All GPUs together.
    pub all: Sums,
    /// In order of uuid.
    pub gpus: Vec<ReportedGpu>,
    /// The longest holder first.
    pub people: Vec<PersonRow>,
    /// Sums by group, project, job, pod or container, the longest holder first; empty unless they were asked for.
    #[serde(default)]
    pub groups: Vec<PersonRow>,
    pub heat: HeatMap,
    pub unit: CalendarUnit,
    /// In order of time.
    pub slots: Vec<SlotRow>,
    /// The same in buckets of minutes, for a window too short for hours; empty otherwise.
    pub minutes: Vec<SlotRow>,
    /// Time crossed with GPUs and people, in order of the columns; empty unless it was asked for.
    pub cross: Vec<CrossRow>,
    pub coverage: Covered,
    /// Holders that were there at the last tick, in order of the GPU. [`Report::idle_now`] lists those of idle GPUs.
    pub current: Vec<Hold>,
    /// Holders that are gone and did not use what they held ([`Hold::is_without_use`]): the longest of them, and how many
    /// there are in all.
    pub past: Vec<Hold>,
    pub past_count: usize,
    /// All sessions as a chart draws them, in order of their start, and how many there are. Short ones are merged.
    pub sessions: Vec<Hold>,
    pub session_count: usize,
    /// The part of the window in which the history knows anything.
    pub known: Period,
    pub now: Option<Now>,
    /// Requests for GPUs that were refused or had to wait; `None` if there were none.
    pub refused: Option<Refused>,
    /// Interval between ticks that the latest collector run was started with.
    pub tick_interval: Option<Duration>,
    /// Whether imported rows count with another interval than the recorded one.
    pub interval: IntervalUse,
    /// Facts that a reader needs to interpret the numbers.
    pub notes: Vec<Note>,
}

/// Host, as the latest collector run named it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    /// `bare`, as in files of gpu-usage-audit; histories of gua have no other value.
    pub environment: String,
    pub driver: Option<String>,
}

/// Interval that an imported row counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IntervalUse {
    #[default]
    Recorded,
    Given(Duration),
}

/// One GPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReportedGpu {
    pub gpu: GpuUuid,
    pub index: Option<u32>,
    pub name: Option<String>,
    /// The GPU that it is a MIG instance of, and its part of that GPU, if known.
    pub parent: Option<GpuUuid>,
    pub slice: Option<Slice>,
    pub sums: Sums,
    pub covered: Covered,
    /// Periods of the window in which it was not observed, including the time before it was known; in order of time.
    pub unseen: Vec<Period>,
}

impl ReportedGpu {
    /// Returns the part of the physical GPU that a MIG instance has, such as `3/7 of GPU 0`.
    pub fn share(&self) -> Option<String> {
        let Slice { slices, of } = self.slice?;
        let parent = match (self.index, &self.parent) {
            (Some(index), _) => format!("GPU {index}"),
            (None, Some(parent)) => parent.to_string(),
            (None, None) => return None,
        };
        Some(format!("{slices}/{of} of {parent}"))
    }

    /// Returns the physical GPU: this one, or the one that it is a MIG instance of.
    pub fn physical(&self) -> &GpuUuid {
        self.parent.as_ref().unwrap_or(&self.gpu)
    }
}

/// One person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonRow {
    pub name: String,
    pub sums: OwnerTotal,
}

/// One hour, day or month of the wall clock, as far as it lies in the window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SlotRow {
    pub label: DateTime,
    pub period: Period,
    pub sums: Sums,
    pub gap: Micros,
}

/// Active time by weekday (Sunday first) and hour of the wall clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeatMap {
    pub cells: [[HeatCell; 24]; 7],
}

/// Time that was observed, and the active part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeatCell {
    pub active: Micros,
    pub observed: Micros,
    /// Imported rows, the active ones, and the time that they cover.
    pub rows: u64,
    pub active_rows: u64,
    pub imported: Micros,
}

/// Coverage of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Covered {
    pub capacity: Micros,
    pub observed: Micros,
    pub gap: Micros,
    /// Of the observed time, how much rests on the driver's buffer.
    pub buffered: Micros,
    /// Time in which any GPU of the host was observed.
    pub host_observed: Micros,
    /// Time that old ticks claim twice.
    pub overlap: Micros,
    /// The largest first.
    pub gaps: Vec<GapRow>,
}

/// Time that nobody observed, of all the GPUs that it hit together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapRow {
    pub reason: GapReason,
    pub period: Period,
    pub gpus: usize,
    /// GPU time.
    pub micros: Micros,
    /// Text of the outage that the collector recorded.
    pub detail: Option<String>,
    /// Whether it is the sum of the short gaps before late ticks.
    pub late: bool,
}

/// One process on one GPU, for people to act on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    pub gpu: GpuUuid,
    pub index: Option<u32>,
    /// `None` is the unknown owner.
    pub owner: Option<String>,
    /// Whether the owner is known from a login.
    pub by_login: bool,
    pub process: Option<String>,
    pub workload: Option<String>,
    /// `None` for a row whose number can be no process.
    pub pid: Option<Pid>,
    /// For imported rows, from the first row to the last, as in the tool that wrote them; see [`Hold::whole`].
    pub period: Period,
    /// Interval of the last imported row; zero for ticks that gua recorded.
    pub last_row: Micros,
    /// Mean, in percent, and whose it is.
    pub util: Option<(f64, UtilSource)>,
    pub peak_memory: Option<Bytes>,
    pub samples: u64,
    pub shared: bool,
    /// Time in which the GPU's state was seen; `None` for old rows.
    pub observed: Option<Micros>,
    /// The part of it that lies in the report's window.
    pub observed_within: Option<Micros>,
    /// Of that, with the GPU active; `None` for old rows.
    pub active: Option<Micros>,
    /// Of that, with the GPU idle-held; `None` for old rows.
    pub idle_held: Option<Micros>,
    /// Whether it was there at the last tick.
    pub current: bool,
    /// For how long it has been idle; `None` unless it is there and its GPU is idle now ([`crate::idle`]).
    pub idle: Option<Idle>,
    /// Number of sessions in it: more than one where a chart draws short ones as one.
    pub sessions: u64,
}

/// All GPUs at the last tick of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Now {
    pub at: Timestamp,
    pub gpus: Vec<GpuStatus>,
}

/// One GPU at the last tick.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuStatus {
    pub gpu: GpuUuid,
    pub index: Option<u32>,
    /// Number of a MIG instance, such as `2:1`.
    #[serde(default)]
    pub instance: Option<String>,
    pub name: Option<String>,
    pub state: State,
    /// Whether it was free by the rule of `gua available`; for imported rows, whether it was truly idle.
    pub is_free: bool,
    /// Its faults in words, the most serious first.
    #[serde(default)]
    pub faults: Vec<String>,
    /// In percent.
    pub util: Option<i64>,
    pub memory_used: Option<Bytes>,
    pub memory_total: Option<Bytes>,
    pub owners: Vec<String>,
    pub process: Option<String>,
    /// Since when the oldest of its holders has been there.
    pub held_since: Option<Timestamp>,
    /// For how long it has been idle; `None` unless it is idle now ([`crate::idle`]) and its history is known.
    pub idle: Option<Idle>,
}

/// Requests for GPUs that were not granted at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub requests: usize,
    /// Idle-held GPUs that blocked other people, the most frequent first.
    pub in_the_way: Vec<BlockRow>,
}

/// One GPU that one person held without use while another asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRow {
    pub holder: String,
    pub gpu: GpuUuid,
    pub index: Option<u32>,
    pub requester: String,
    pub times: u64,
    /// Total time that the requester waited.
    pub waited: jiff::SignedDuration,
}

/// Fact that a reader needs to interpret the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// Single ticks at an edge are no longer kept, so the window was widened to quarter hours.
    Widened { asked: Period },
    /// Ticks, and quarter totals without ticks, that cannot be read. Their time is a gap.
    Damaged { records: u32 },
    /// Stored sessions, GPUs, owners, outages, requests or collector runs that cannot be read. They are left out.
    DamagedRows { rows: u32 },
    /// Old rows overlap, and each counts in full as in the tool that wrote them.
    Overlap { micros: Micros },
    /// Rows of gpu-usage-audit and own ticks are both in the window.
    Mixed,
    /// Old rows of time in which our own ticks saw the GPU: they are left out, so that no time counts twice.
    OldLeftOut { ticks: u64 },
    /// Sessions keep the thresholds of the file, whatever is asked for.
    SessionsByFile,
    /// The imported file has rows of graphics processes, which gpu-usage-audit counted and this report does not.
    GraphicsLeftOut,
    /// GPUs that are left out, because their states and gaps do not add up to their capacity.
    Unbalanced { gpus: Vec<GpuUuid> },
}

/// Returns the GPUs that a report leaves out, because their states and gaps do not add up to their capacity.
pub fn unbalanced(notes: &[Note]) -> &[GpuUuid] {
    let found = notes.iter().find_map(|note| match note {
        Note::Unbalanced { gpus } => Some(gpus.as_slice()),
        _ => None,
    });
    found.unwrap_or_default()
}

impl HeatCell {
    /// Adds the observed time of one GPU in one quarter hour, without the active part.
    pub(crate) fn add_observed(&mut self, seen: &QuarterUse) {
        self.observed += seen.observed;
        self.rows += seen.rows;
        if seen.rows > 0 {
            self.imported += seen.observed;
        }
    }

    /// Adds the observed and the active time of one GPU in one quarter hour.
    pub(crate) fn add(&mut self, seen: &QuarterUse) {
        self.add_observed(seen);
        self.active += seen.active;
        self.active_rows += seen.active_rows;
    }

    /// The active share, of time or, for imported rows alone, of rows; `None` without a sample.
    pub fn share(&self) -> Option<f64> {
        if self.observed == self.imported {
            return ratio(self.active_rows.into(), self.rows.into());
        }
        ratio(self.active.0.into(), self.observed.0.into())
    }
}

impl Hold {
    /// Remark for a holder whose process has exited, shown instead of its workload.
    pub const EXITED: &'static str = "exited, its memory is still held";

    /// Reports whether the process has exited while its memory is still held. Its PID may belong to another process by now.
    pub fn has_exited(&self) -> bool {
        self.workload.as_deref() == Some(Self::EXITED)
    }

    /// Time at which it began to hold the GPU; `None` for a process that was found at the last tick only and has no session.
    pub fn held_since(&self) -> Option<Timestamp> {
        let has_session = self.observed.is_some() || self.whole().micros() > Micros(0);
        has_session.then(|| self.period.from())
    }

    /// From its beginning to where its last row ends.
    pub fn whole(&self) -> Period {
        let after = i64::try_from(self.last_row.0).unwrap_or(i64::MAX);
        let end = self.period.to().as_microsecond().saturating_add(after);
        let end = Timestamp::from_microsecond(end).unwrap_or(self.period.to());
        Period::new(self.period.from(), end)
    }

    /// Time of a session with so little memory that its GPU was free unless it was active or idle-held; `None` for imported
    /// rows, which do not record it.
    pub fn free(&self, thresholds: &Thresholds) -> Option<Micros> {
        let rest = self.observed?.0.saturating_sub(self.active?.0);
        let rest = rest.saturating_sub(self.idle_held?.0);
        let is_small = |memory: Bytes| memory.whole_mb() <= thresholds.held_mb;
        let is_small = self.peak_memory.is_some_and(is_small);
        Some(Micros(if is_small { rest } else { 0 }))
    }

    /// Whether it holds a GPU and does not use it.
    pub fn is_without_use(&self, thresholds: &Thresholds) -> bool {
        // For the tool that wrote old rows, memory that the driver hides is none.
        let hidden = self.idle_held.is_some();
        let util = self.util.map(|(util, _)| util);
        sessions::is_without_use(util, self.peak_memory, hidden, thresholds)
    }
}

impl Report {
    /// Holders of GPUs that are idle now, the longest idle first.
    pub fn idle_now(&self) -> Vec<&Hold> {
        let mut found: Vec<&Hold> = self.current.iter().collect();
        found.retain(|hold| hold.idle.is_some());
        found.sort_by_key(|hold| hold.idle.map(|idle| idle.since.at));
        found
    }

    /// Whether the last tick is so recent that its processes can be acted on.
    pub fn is_fresh(&self) -> bool {
        let cadence = Cadence::new(self.tick_interval.unwrap_or_default());
        self.now.as_ref().is_some_and(|now| {
            let age = crate::period::micros_between(now.at, self.made).0;
            cadence.is_current(Duration::from_micros(age))
        })
    }
}

impl Covered {
    /// Adds one GPU. Fields about the whole host are not changed.
    pub fn add(&mut self, gpu: &Self) {
        self.capacity += gpu.capacity;
        self.observed += gpu.observed;
        self.gap += gpu.gap;
        self.buffered += gpu.buffered;
        self.overlap += gpu.overlap;
    }

    /// The observed share of the capacity; `None` without capacity.
    pub fn share(&self) -> Option<f64> {
        ratio(self.observed.0.into(), self.capacity.0.into())
    }
}

impl Report {
    /// Number of physical GPUs.
    pub fn gpu_count(&self) -> usize {
        let gpus = self.gpus.iter().map(ReportedGpu::physical);
        gpus.collect::<BTreeSet<_>>().len()
    }

    /// Returns the beginning of the history if it is after the beginning of the window.
    pub fn began_late(&self) -> Option<Timestamp> {
        let began = self.known.from();
        // Without any data, the known period is empty and at the end of the window.
        (began > self.window.from() && began != self.window.to()).then_some(began)
    }

    /// Mean number of GPUs in one class over the time in which the host was observed.
    pub fn equivalent(&self, class: RollUp) -> f64 {
        let no_own = self.coverage.host_observed == Micros(0) || self.all.observed() == Micros(0);
        if no_own || self.all.has_imported() {
            // The old tool's rule, for old rows; of time where there are own ticks too.
            return self.all.share(class).unwrap_or(0.0) * count(self.gpu_count());
        }
        self.all.hours(class) / self.coverage.host_observed.hours()
    }
}
