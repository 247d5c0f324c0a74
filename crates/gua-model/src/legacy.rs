//! Rows of gpu-usage-audit's files, counted by the rules of the tool that wrote them: each tick of a GPU counts for its
//! full recorded interval, even if ticks overlap; unknown memory counts as zero; every process row counts, including
//! graphics.
//!
//! [`ImportedFold`] turns them into the quarter totals that reports, exports and the history use for own ticks too, marked
//! as imported ([`ImportedPart`]). Only whole ticks are summed: hours are a count times an interval, so they equal the old
//! tool's to the last digit.

mod coverage;
mod fold;
mod own;
mod sessions;
mod stats_gpu;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::GpuUuid;
use crate::sample::ProcessKind;
use crate::state::{CountGraphics, RollUp, Thresholds};

pub use coverage::ImportedCoverage;
pub use fold::{ImportedFold, ImportedPart};
pub use own::OwnCoverage;
pub use sessions::{ImportedSession, OpenSessions};
pub use stats_gpu::{in_order, stats_gpu, stats_gpu_number};

/// Returns the thresholds of the tool that wrote the rows: the default ones, with graphics processes included.
pub fn old_rule() -> Thresholds {
    Thresholds {
        count_graphics: CountGraphics::Yes,
        ..Thresholds::default()
    }
}

/// All rows that an old file has for one moment, borrowed from the reader of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyMoment<'a> {
    pub at: Timestamp,
    /// One for each GPU and run.
    pub ticks: &'a [LegacyGpuTick<'a>],
    /// Process rows whose run has no row for their GPU at this moment. They count for sessions only.
    pub strays: &'a [(&'a GpuUuid, LegacyProcess<'a>)],
}

/// All rows that an old file has for one GPU, moment and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyGpuTick<'a> {
    pub at: Timestamp,
    pub gpu: &'a GpuUuid,
    /// Value of the column, in percent.
    pub util: i64,
    pub index: Option<i64>,
    /// Used memory of the whole GPU, as stored in the column.
    pub memory_used_mb: Option<i64>,
    pub temperature_c: Option<i64>,
    pub power_w: Option<i64>,
    pub run: LegacyRun,
    pub processes: &'a [LegacyProcess<'a>],
    /// Utilisation of further rows for the same GPU, moment and run. Together they are one tick of the GPU, but the
    /// heat map counts each row.
    pub more_rows: &'a [i64],
}

/// The collector run that wrote a row, and the interval that each of its ticks counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LegacyRun {
    /// `None` for rows that belong to no run.
    pub run: Option<i64>,
    pub interval: Duration,
}

impl LegacyRun {
    /// Run and interval of rows that belong to no run.
    pub const NONE: Self = Self {
        run: None,
        interval: Duration::from_secs(30),
    };
}

/// One process row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyProcess<'a> {
    pub pid: i64,
    /// Index of its GPU, from the process row itself.
    pub index: Option<i64>,
    /// Name of the login user; `None` is shown as `unknown`.
    pub identity: Option<&'a str>,
    /// The user that the process runs as; files before 1.7 do not have it.
    pub owner: Option<&'a str>,
    pub name: Option<&'a str>,
    pub memory_mb: Option<u64>,
    pub kind: ProcessKind,
    pub tool: LegacyTool,
}

/// Tool that wrote a row. It determines what the row contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LegacyTool {
    #[default]
    GpuUsageAudit,
    /// gpu_stats records the user of one process on a GPU, but never the memory of that process.
    GpuStats,
}

impl LegacyProcess<'_> {
    /// Returns the name that the old tool counts it under.
    pub fn counted_as(&self) -> Option<&str> {
        match self.tool {
            LegacyTool::GpuUsageAudit => self.identity,
            LegacyTool::GpuStats => self.owner,
        }
    }

    /// Reports whether the process holds its GPU although its memory was not recorded: gpu_stats lists the users it
    /// finds on a GPU.
    fn holds_unseen(&self) -> bool {
        self.tool == LegacyTool::GpuStats
    }
}

impl LegacyGpuTick<'_> {
    /// Returns the class by these thresholds; [`old_rule`] returns the thresholds of the tool that wrote the row.
    pub fn class(&self, rule: &Thresholds) -> RollUp {
        if is_active(self.util, rule) {
            RollUp::Active
        } else if holds(self.counted(rule), rule) {
            RollUp::IdleHeld
        } else {
            RollUp::TrulyIdle
        }
    }

    fn counted(&self, rule: &Thresholds) -> impl Iterator<Item = &LegacyProcess<'_>> + Clone {
        let all = rule.count_graphics == CountGraphics::Yes;
        self.processes
            .iter()
            .filter(move |row| all || row.kind.computes())
    }

    /// Returns each identity on the GPU once, and how it used the GPU: at low utilisation, its own memory decides.
    fn identities(&self, rule: &Thresholds) -> impl Iterator<Item = (Option<&str>, RollUp)> {
        let is_active = is_active(self.util, rule);
        let rows = self.counted(rule);
        rows.clone().enumerate().filter_map(move |(place, row)| {
            let is_its = |other: &&LegacyProcess<'_>| other.counted_as() == row.counted_as();
            if rows.clone().take(place).any(|other| is_its(&other)) {
                return None;
            }
            let own = rows.clone().filter(is_its);
            let in_use = match (is_active, holds(own, rule)) {
                (true, _) => RollUp::Active,
                (false, true) => RollUp::IdleHeld,
                (false, false) => RollUp::TrulyIdle,
            };
            Some((row.counted_as(), in_use))
        })
    }
}

fn is_active(util: i64, rule: &Thresholds) -> bool {
    util >= rule.active_util.get().into()
}

fn holds<'a>(rows: impl Iterator<Item = &'a LegacyProcess<'a>> + Clone, rule: &Thresholds) -> bool {
    rows.clone().any(LegacyProcess::holds_unseen) || memory(rows) > rule.held_mb
}

fn memory<'a>(rows: impl Iterator<Item = &'a LegacyProcess<'a>>) -> u64 {
    // Unknown memory counts as zero. This is the old rule and applies to old rows only.
    rows.filter_map(|row| row.memory_mb)
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
