//! What is known about one card at one moment, whoever prints it.

use std::time::Duration;

use gua_model::since::Since;
use gua_model::{
    Basis, GapReason, Gpu, GpuUuid, Outage, Period, Problem, QuarterTotal, RollUp, Session, Share,
    Thresholds, UtilWindow,
};
use jiff::Timestamp;

use crate::card::Card;

/// The answer to "why?".
#[derive(Debug)]
pub struct Answer {
    pub card: Card,
    /// The moment that was asked for.
    pub at: Timestamp,
    pub found: Found,
}

#[derive(Debug)]
pub enum Found {
    /// Somebody looked, whatever there was to see.
    Seen(Box<Seen>),
    /// Nobody looked.
    Gap(GapFound),
    /// The ticks are gone; what their quarter hour adds up to is kept.
    Quarter(Box<QuarterFound>),
    /// A row that gpu-usage-audit wrote.
    OldRow(OldRow),
    /// The moment lies before the first sample of the card.
    Before { first: Option<Timestamp> },
    /// A MIG instance that was not there: its card was seen without it.
    NotMade,
    /// The file is one of gpu-usage-audit's, and no row of it stands for the moment.
    NoOldRow { last: Option<Timestamp> },
}

/// A look at the card.
#[derive(Debug)]
pub struct Seen {
    pub gpu: Gpu,
    /// When the driver was asked.
    pub at: Timestamp,
    pub thresholds: Thresholds,
    /// One state, or the busy one and the low one with their weights.
    pub shares: Vec<Share>,
    pub when: When,
    /// Since when it has been in its roll-up, where a history knows.
    pub since: Option<Since>,
    /// What a history knows of the processes on it.
    pub sessions: Vec<Session>,
    /// Calls that failed for this card, or for all.
    pub problems: Vec<Problem>,
    /// The MIG instances that stand in the card's place.
    pub instances: Vec<GpuUuid>,
    /// The unobserved time around the moment, where this look saw nothing.
    pub gap: Option<GapFound>,
}

/// When a look was taken.
#[derive(Debug)]
pub enum When {
    Now,
    /// A tick of the history.
    Tick {
        /// What it stands for.
        period: Period,
        interval: Duration,
        basis: Basis,
        /// What the driver's buffer said about that time, if it covers it.
        window: Option<UtilWindow>,
        /// Whether the next tick ended it, and not its interval.
        ended_by_next: bool,
    },
}

/// Time of one card that nobody observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapFound {
    pub period: Period,
    pub reason: GapReason,
    /// Whether it may have begun before: that is as far as was looked.
    pub from_is_bound: bool,
    /// Whether it may have lasted longer: that is as far as was looked.
    pub to_is_bound: bool,
    /// Whether it goes on until now.
    pub goes_on: bool,
    /// What the collector itself noted in that time.
    pub outages: Vec<Outage>,
}

/// What a quarter hour adds up to.
#[derive(Debug)]
pub struct QuarterFound {
    pub period: Period,
    pub total: QuarterTotal,
    /// Names of the owners, in the order of the total; `None` is the unknown one.
    pub owners: Vec<Option<String>>,
    pub thresholds: Thresholds,
    /// Ticks are kept from here on.
    pub raw_from: Timestamp,
}

/// A row that gpu-usage-audit wrote, as that tool counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldRow {
    pub at: Timestamp,
    pub gpu: GpuUuid,
    pub index: Option<u32>,
    pub interval: Duration,
    /// As the column has it, in percent.
    pub util: i64,
    pub class: RollUp,
    /// Login user and megabytes of every process.
    pub processes: Vec<(Option<String>, Option<u64>)>,
}
