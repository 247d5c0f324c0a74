//! Rows of gpu-usage-audit's files, counted by the rules of the tool that wrote them: each tick of a GPU counts for its
//! full recorded interval, even if ticks overlap; unknown memory counts as zero; every process row counts, including
//! graphics.
//!
//! Only whole ticks are summed. Hours are a count times an interval, so they equal the old tool's to the last digit,
//! and another interval can be applied later.

mod coverage;
mod own;
mod quarters;
mod sessions;
mod stats_card;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::GpuUuid;
use crate::period::Quarter;
use crate::sample::ProcessKind;
use crate::state::{CountGraphics, RollUp, Thresholds};

pub use coverage::LegacyCoverage;
pub use own::OwnSince;
pub use quarters::LegacyQuarters;
pub use sessions::{LegacySession, LegacySessions};
pub use stats_card::{in_order, stats_card, stats_card_number};

/// Returns the thresholds of the tool that wrote the rows: the default ones, with graphics processes included.
#[must_use]
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
    pub ticks: &'a [LegacyCardTick<'a>],
    /// Process rows whose run has no row for their GPU at this moment. They count for sessions only.
    pub strays: &'a [(&'a GpuUuid, LegacyProcess<'a>)],
}

/// All rows that an old file has for one GPU, moment and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyCardTick<'a> {
    pub at: Timestamp,
    pub gpu: &'a GpuUuid,
    /// Value of the column, in percent.
    pub util: i64,
    pub index: Option<i64>,
    /// Used memory of the whole GPU, as stored in the column.
    pub memory_used_mb: Option<i64>,
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
    #[must_use]
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

impl LegacyCardTick<'_> {
    /// Returns the class by these thresholds; [`old_rule`] returns the thresholds of the tool that wrote the row.
    #[must_use]
    pub fn class(&self, rule: &Thresholds) -> RollUp {
        if self.is_active(self.util, rule) {
            RollUp::Active
        } else if holds(self.counted(rule), rule) {
            RollUp::IdleHeld
        } else {
            RollUp::TrulyIdle
        }
    }

    fn is_active(&self, util: i64, rule: &Thresholds) -> bool {
        util >= rule.active_util.get().into()
    }

    fn counted(&self, rule: &Thresholds) -> impl Iterator<Item = &LegacyProcess<'_>> + Clone {
        let all = rule.count_graphics == CountGraphics::Yes;
        self.processes
            .iter()
            .filter(move |row| all || row.kind.computes())
    }

    /// Returns each identity on the GPU once, and whether its own memory makes it idle-held.
    fn identities(&self, rule: &Thresholds) -> impl Iterator<Item = (Option<&str>, bool)> {
        let low = !self.is_active(self.util, rule);
        let rows = self.counted(rule);
        rows.clone().enumerate().filter_map(move |(place, row)| {
            let is_its = |other: &&LegacyProcess<'_>| other.counted_as() == row.counted_as();
            if rows.clone().take(place).any(|other| is_its(&other)) {
                return None;
            }
            let own = rows.clone().filter(is_its);
            Some((row.counted_as(), low && holds(own, rule)))
        })
    }
}

fn holds<'a>(rows: impl Iterator<Item = &'a LegacyProcess<'a>> + Clone, rule: &Thresholds) -> bool {
    rows.clone().any(LegacyProcess::holds_unseen) || memory(rows) > rule.held_mb
}

fn memory<'a>(rows: impl Iterator<Item = &'a LegacyProcess<'a>>) -> u64 {
    // Unknown memory counts as zero. This is the old rule and applies to old rows only.
    rows.filter_map(|row| row.memory_mb)
        .fold(0, u64::saturating_add)
}

/// Counts of GPU ticks by quarter hour, GPU and run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyTotals {
    pub counts: BTreeMap<LegacyKey, LegacyCount>,
}

/// Key of the counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LegacyKey {
    pub quarter: Quarter,
    pub gpu: GpuUuid,
    pub run: LegacyRun,
}

/// Counts of one GPU and run in one quarter hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyCount {
    pub active: u64,
    pub idle_held: u64,
    pub truly_idle: u64,
    /// Number of rows, and of rows at or over the threshold, for the heat map.
    pub rows: u64,
    pub active_rows: u64,
    /// Counts by login user; `None` is the unknown user.
    pub identities: BTreeMap<Option<String>, LegacyIdentityCount>,
}

/// GPU ticks on which one identity had processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegacyIdentityCount {
    pub ticks: u64,
    /// Those with low utilisation on which the identity's own memory exceeds the threshold.
    pub idle_held: u64,
}

impl LegacyCount {
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.active + self.idle_held + self.truly_idle
    }

    #[must_use]
    pub fn of(&self, class: RollUp) -> u64 {
        match class {
            RollUp::Active => self.active,
            RollUp::IdleHeld => self.idle_held,
            RollUp::TrulyIdle => self.truly_idle,
        }
    }

    fn add(&mut self, tick: &LegacyCardTick<'_>, rule: &Thresholds) {
        match tick.class(rule) {
            RollUp::Active => self.active += 1,
            RollUp::IdleHeld => self.idle_held += 1,
            RollUp::TrulyIdle => self.truly_idle += 1,
        }
        for util in std::iter::once(&tick.util).chain(tick.more_rows) {
            self.rows += 1;
            self.active_rows += u64::from(tick.is_active(*util, rule));
        }
        for (name, idle_held) in tick.identities(rule) {
            // There are few identities, and a linear search needs no copy of the name.
            let mut all = self.identities.iter_mut();
            let known = all.find(|(known, _)| known.as_deref() == name);
            let identity = match known {
                Some((_, identity)) => identity,
                None => self.identities.entry(name.map(str::to_owned)).or_default(),
            };
            identity.ticks += 1;
            identity.idle_held += u64::from(idle_held);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.active += other.active;
        self.idle_held += other.idle_held;
        self.truly_idle += other.truly_idle;
        self.rows += other.rows;
        self.active_rows += other.active_rows;
        for (name, theirs) in &other.identities {
            let mine = match self.identities.get_mut(name) {
                Some(mine) => mine,
                None => self.identities.entry(name.clone()).or_default(),
            };
            mine.ticks += theirs.ticks;
            mine.idle_held += theirs.idle_held;
        }
    }
}

impl LegacyTotals {
    pub fn add(&mut self, tick: &LegacyCardTick<'_>) {
        let key = LegacyKey {
            quarter: Quarter::of(tick.at),
            gpu: tick.gpu.clone(),
            run: tick.run,
        };
        self.counts.entry(key).or_default().add(tick, &old_rule());
    }

    pub fn add_all(&mut self, moment: &LegacyMoment<'_>) {
        moment.ticks.iter().for_each(|tick| self.add(tick));
    }

    pub fn merge(&mut self, other: &Self) {
        for (key, count) in &other.counts {
            self.counts.entry(key.clone()).or_default().merge(count);
        }
    }

    /// Returns the hours of one class: counts times the recorded interval, or times `interval` if given.
    #[must_use]
    pub fn hours(&self, class: RollUp, interval: Option<Duration>) -> f64 {
        hours(
            self.counts
                .iter()
                .map(|(key, count)| (count.of(class), interval.unwrap_or(key.run.interval))),
        )
    }

    /// Returns the hours, idle-held ticks and ticks of every identity.
    #[must_use]
    pub fn identities(
        &self,
        interval: Option<Duration>,
    ) -> BTreeMap<Option<&str>, (f64, LegacyIdentityCount)> {
        let mut found: BTreeMap<Option<&str>, (BTreeMap<Duration, u64>, LegacyIdentityCount)> =
            BTreeMap::new();
        for (key, count) in &self.counts {
            for (name, identity) in &count.identities {
                let (by_interval, sum) = found.entry(name.as_deref()).or_default();
                *by_interval
                    .entry(interval.unwrap_or(key.run.interval))
                    .or_default() += identity.ticks;
                sum.ticks += identity.ticks;
                sum.idle_held += identity.idle_held;
            }
        }
        let finish = |(by_interval, sum): (BTreeMap<Duration, u64>, _)| {
            let counts = by_interval.into_iter();
            (
                hours(counts.map(|(interval, count)| (count, interval))),
                sum,
            )
        };
        found
            .into_iter()
            .map(|(name, sums)| (name, finish(sums)))
            .collect()
    }
}

/// Sums whole nanoseconds and divides once, at the end.
fn hours(counts: impl Iterator<Item = (u64, Duration)>) -> f64 {
    let nanos = counts
        .map(|(count, interval)| u128::from(count).saturating_mul(interval.as_nanos()))
        .fold(0, u128::saturating_add);
    crate::report::hours(nanos)
}

#[cfg(test)]
mod tests;
