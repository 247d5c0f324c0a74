//! Unobserved time, and the reason for it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::period::Period;
use crate::reading::Missing;
use crate::unit::Micros;

/// A period without readings on the whole host, as detected by the collector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    pub from: Timestamp,
    pub to: Timestamp,
    pub reason: GapReason,
    /// The message that was logged.
    pub detail: String,
    /// Number of ticks that were due in that time.
    pub ticks_lost: u32,
}

/// Unobserved time of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    pub period: Period,
    /// Unobserved part of the period: all of it, or less if the gap is a share of a span or of a quarter hour.
    pub micros: Micros,
    pub reason: GapReason,
}

crate::words! {
    /// Reason why time is unobserved, in the order of their codes in stored totals: a new reason is added at the end.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum GapReason {
        /// No collector ran.
        CollectorDown = "collector-down",
        /// The driver did not answer in time.
        DriverHung = "driver-hung",
        /// The driver was missing, refused access, or had the wrong version.
        DriverUnavailable = "driver-unavailable",
        /// The GPU reported that it was lost, or was no longer present.
        GpuLost = "gpu-lost",
        /// Access to a reading was denied.
        Denied = "denied",
        /// A reading failed.
        Failed = "failed",
        /// The tick was read but could not be stored because the disk was full.
        DiskFull = "disk-full",
        /// The host was suspended.
        Suspended = "suspended",
        /// The wall clock was set.
        ClockSet = "clock-set",
        /// The tick was read but could not be stored for another reason than a full disk: a lock, a failing disk, a damaged
        /// file.
        NotStored = "not-stored",
    }
}

impl From<Missing> for GapReason {
    fn from(why: Missing) -> Self {
        match why {
            Missing::Gone => GapReason::GpuLost,
            Missing::Denied => GapReason::Denied,
            Missing::Unsupported | Missing::Failed => GapReason::Failed,
        }
    }
}

impl Gap {
    /// Reports whether the whole period is unobserved.
    pub fn is_whole(&self) -> bool {
        self.micros == self.period.micros()
    }
}

impl Outage {
    pub fn period(&self) -> Period {
        Period::new(self.from, self.to)
    }
}
