//! The states of a GPU, the roll-up that reports print, and the evidence for each verdict.

use serde::{Deserialize, Serialize};

use crate::reading::{Missing, Reading};
use crate::unit::{Bytes, Milliwatts, Percent};

crate::words! {
    /// State of a GPU, as precisely as it can be determined.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum State {
        /// Utilisation at or over the threshold.
        Active = "active",
        /// High utilisation while power stays at the GPU's idle floor.
        Stalled = "stalled",
        /// High utilisation without any process.
        Ghost = "ghost",
        /// A live process holds memory while utilisation is low.
        IdleHeld = "idle-held",
        /// Memory is still allocated to processes that no longer exist.
        OrphanHeld = "orphan-held",
        /// A process holds the GPU, but its utilisation is unknown.
        HeldUnknown = "held-unknown",
        /// No process holds the GPU.
        TrulyIdle = "truly-idle",
        /// The GPU could not be observed: a gap, not idle time.
        Unobserved = "unobserved",
    }
}

impl State {
    /// Returns its index in [`State::ALL`].
    pub const fn place(self) -> usize {
        self as usize
    }

    /// Returns its name in listings, where a GPU that nothing holds is called free.
    pub fn in_listings(self) -> &'static str {
        match self {
            State::TrulyIdle => "free",
            other => other.as_str(),
        }
    }

    /// Returns the share of a report that this state belongs to; `None` for states that are reported separately.
    pub fn roll_up(self) -> Option<RollUp> {
        match self {
            State::Active | State::Stalled | State::Ghost => Some(RollUp::Active),
            State::IdleHeld | State::OrphanHeld => Some(RollUp::IdleHeld),
            State::TrulyIdle => Some(RollUp::TrulyIdle),
            State::HeldUnknown | State::Unobserved => None,
        }
    }
}

crate::words! {
    /// The three shares of gpu-usage-audit's reports, for comparison with it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum RollUp {
        Active = "active",
        IdleHeld = "idle-held",
        TrulyIdle = "truly-idle",
    }
}

impl RollUp {
    /// Returns its index in [`RollUp::ALL`].
    pub const fn place(self) -> usize {
        self as usize
    }
}

impl From<RollUp> for State {
    /// Returns the state of the same name.
    fn from(class: RollUp) -> Self {
        match class {
            RollUp::Active => State::Active,
            RollUp::IdleHeld => State::IdleHeld,
            RollUp::TrulyIdle => State::TrulyIdle,
        }
    }
}

/// Thresholds for `active` and for held GPUs. The defaults are the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thresholds {
    /// Minimum utilisation of an active GPU.
    pub active_util: Percent,
    /// A GPU is held if its holders have more memory than this.
    pub held_mb: u64,
    pub count_graphics: CountGraphics,
}

impl Thresholds {
    pub const DEFAULT_ACTIVE_UTIL: u8 = 10;
    pub const DEFAULT_HELD_MB: u64 = 100;
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            active_util: Percent::new(Self::DEFAULT_ACTIVE_UTIL.into())
                .expect("ten is a percentage"),
            held_mb: Self::DEFAULT_HELD_MB,
            count_graphics: CountGraphics::No,
        }
    }
}

/// Thresholds that a query sets in place of the stored ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdOverrides {
    pub active_util: Option<Percent>,
    pub held_mb: Option<u64>,
    pub count_graphics: Option<CountGraphics>,
}

impl ThresholdOverrides {
    /// Returns the stored thresholds, overridden by the query's thresholds.
    pub fn over(self, stored: Thresholds) -> Thresholds {
        Thresholds {
            active_util: self.active_util.unwrap_or(stored.active_util),
            held_mb: self.held_mb.unwrap_or(stored.held_mb),
            count_graphics: self.count_graphics.unwrap_or(stored.count_graphics),
        }
    }
}

/// Whether a graphics process (a desktop) holds its GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CountGraphics {
    #[default]
    No,
    Yes,
}

/// A state and its evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub state: State,
    pub evidence: Evidence,
}

impl Verdict {
    /// Returns why the GPU is unobserved, if that is the verdict.
    pub fn unobserved(&self) -> Option<Missing> {
        let why = self.evidence.unobserved.unwrap_or(Missing::Failed);
        (self.state == State::Unobserved).then_some(why)
    }
}

/// Readings that decided a state, kept so that the state can be explained later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    pub thresholds: Thresholds,
    pub util: Reading<Percent>,
    pub power: Reading<Milliwatts>,
    /// The GPU's idle floor, if it is known.
    pub idle_floor: Option<Milliwatts>,
    /// Number of processes that hold the GPU, regardless of their memory.
    pub holders: u32,
    /// Number of holders that no longer exist according to the kernel.
    pub gone: u32,
    /// Number of holders whose memory the driver hides.
    pub hidden_memory: u32,
    /// Known memory of the holders.
    pub held: Bytes,
    /// Number of processes in either list, holders or not.
    pub processes: u32,
    /// Reason why the GPU counts as unobserved.
    pub unobserved: Option<Missing>,
}
