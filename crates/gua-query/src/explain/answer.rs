//! The answer of `gua explain`: what is known about one GPU at one moment.

use std::time::Duration;

use gua_model::since::Since;
use gua_model::{
    Basis, GapReason, Gpu, GpuUuid, Outage, Period, Problem, QuarterTotal, RollUp, Session, Share,
    Thresholds, UtilWindow,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::gpu::NamedGpu;

/// State of one GPU at one moment, and the reason for it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    pub gpu: NamedGpu,
    /// The moment that was asked for.
    pub at: Timestamp,
    pub found: Found,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Found {
    /// A tick or a reading covers the moment.
    Seen(Box<Seen>),
    /// No tick covers the moment.
    Gap(GapFound),
    /// The ticks were removed; the totals of their quarter are kept.
    Quarter(Box<QuarterFound>),
    /// An imported row of gpu-usage-audit.
    ImportedRow(ImportedRow),
    /// The moment is before the first sample of the GPU.
    Before { first: Option<Timestamp> },
    /// A MIG instance that did not exist: its parent was seen without it.
    InstanceAbsent,
    /// There are imported rows only, and none covers the moment.
    NoImportedRow { last: Option<Timestamp> },
}

/// One reading of the GPU.
#[derive(Debug, Serialize, Deserialize)]
pub struct Seen {
    pub gpu: Gpu,
    /// Time of the sample.
    pub at: Timestamp,
    pub thresholds: Thresholds,
    /// One state, or an active and a low one with their weights.
    pub shares: Vec<Share>,
    pub when: When,
    /// Since when it has been in its roll-up, if that is recorded.
    pub since: Option<Since>,
    /// Recorded sessions of the processes on it.
    pub sessions: Vec<Session>,
    /// Driver calls that failed for this GPU, or for all.
    pub problems: Vec<Problem>,
    /// MIG instances that are counted in place of the GPU.
    pub instances: Vec<GpuUuid>,
    /// The gap around the moment, where this tick observed nothing.
    pub gap: Option<GapFound>,
}

/// Whether a reading is live or recorded.
#[derive(Debug, Serialize, Deserialize)]
pub enum When {
    Now,
    /// A recorded tick.
    Tick {
        /// The time it covers.
        period: Period,
        interval: Duration,
        basis: Basis,
        /// The driver's sample buffer of that time, if it covers it.
        window: Option<UtilWindow>,
        /// Whether the next tick ended its time, not its interval.
        ended_by_next: bool,
    },
}

/// A gap of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapFound {
    pub period: Period,
    pub reason: GapReason,
    /// Whether it may have begun earlier: the search ended here.
    pub from_is_bound: bool,
    /// Whether it may have lasted longer: the search ended here.
    pub to_is_bound: bool,
    /// Whether it lasts until now.
    pub is_ongoing: bool,
    /// Outages that the collector recorded in that time.
    pub outages: Vec<Outage>,
}

/// The totals of a quarter.
#[derive(Debug, Serialize, Deserialize)]
pub struct QuarterFound {
    pub period: Period,
    pub total: QuarterTotal,
    /// Names of the owners, in the order of the totals; `None` for the unknown owner.
    pub owners: Vec<Option<String>>,
    pub thresholds: Thresholds,
    /// Time of the oldest tick kept.
    pub raw_from: Timestamp,
}

/// An imported row, counted as gpu-usage-audit counts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedRow {
    pub at: Timestamp,
    pub gpu: GpuUuid,
    pub index: Option<u32>,
    pub interval: Duration,
    /// In percent, as recorded.
    pub util: i64,
    pub class: RollUp,
    /// Login user and megabytes of every process.
    pub processes: Vec<(Option<String>, Option<u64>)>,
}
