//! Time that nobody observed, and why.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::period::Period;
use crate::reading::Missing;
use crate::unit::Micros;

/// A stretch of time without readings on the whole host, as the collector itself noticed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    pub from: Timestamp,
    pub to: Timestamp,
    pub reason: GapReason,
    /// The sentence that was logged.
    pub detail: String,
    /// How many ticks were due in that time.
    pub ticks_lost: u32,
}

/// Time of one card that nobody observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    pub period: Period,
    /// How much of the period was not observed: all of it, or less where a share of a span or of a quarter hour is
    /// meant.
    pub micros: Micros,
    pub reason: GapReason,
}

/// Why nobody observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GapReason {
    /// No collector ran.
    CollectorDown,
    /// The driver did not answer in time.
    DriverHung,
    /// The driver was not there, refused, or was of the wrong version.
    DriverUnavailable,
    /// The card answered as lost, or was no longer there.
    CardLost,
    /// A reading was refused.
    Denied,
    /// A reading failed.
    Failed,
    /// The tick was read and found no room.
    DiskFull,
    /// The machine slept.
    Suspended,
    /// The wall clock was set.
    ClockSet,
    /// The tick was read and could not be stored, though there was room: a lock, a failing disk, a damaged file.
    NotStored,
}

impl From<Missing> for GapReason {
    fn from(why: Missing) -> Self {
        match why {
            Missing::Gone => GapReason::CardLost,
            Missing::Denied => GapReason::Denied,
            Missing::Unsupported | Missing::Failed => GapReason::Failed,
        }
    }
}

impl GapReason {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            GapReason::CollectorDown => "collector-down",
            GapReason::DriverHung => "driver-hung",
            GapReason::DriverUnavailable => "driver-unavailable",
            GapReason::CardLost => "card-lost",
            GapReason::Denied => "denied",
            GapReason::Failed => "failed",
            GapReason::DiskFull => "disk-full",
            GapReason::Suspended => "suspended",
            GapReason::ClockSet => "clock-set",
            GapReason::NotStored => "not-stored",
        }
    }
}

impl Gap {
    /// Whether all of its period was missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.micros == self.period.micros()
    }
}

impl Outage {
    #[must_use]
    pub fn period(&self) -> Period {
        Period::new(self.from, self.to)
    }
}

impl fmt::Display for GapReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
