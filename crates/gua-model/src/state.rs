//! The states of a card, the roll-up that reports print, and the evidence that stands behind a verdict.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::reading::{Missing, Reading};
use crate::unit::{Bytes, Milliwatts, Percent};

/// What a card was doing, as finely as it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum State {
    /// Utilisation at or over the threshold.
    Active,
    /// Utilisation high while power stays at the card's idle floor.
    Stalled,
    /// Utilisation high, and no process at all.
    Ghost,
    /// A live process holds memory, utilisation low.
    IdleHeld,
    /// Memory is charged to processes that are gone.
    OrphanHeld,
    /// Somebody holds the card, and no utilisation is to be had.
    HeldUnknown,
    /// Nothing holds the card.
    TrulyIdle,
    /// Nobody could look: a gap, not idle time.
    Unobserved,
}

impl State {
    pub const ALL: [State; 8] = [
        State::Active,
        State::Stalled,
        State::Ghost,
        State::IdleHeld,
        State::OrphanHeld,
        State::HeldUnknown,
        State::TrulyIdle,
        State::Unobserved,
    ];

    /// Its place in [`State::ALL`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }

    /// The name that every column, key and page uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            State::Active => "active",
            State::Stalled => "stalled",
            State::Ghost => "ghost",
            State::IdleHeld => "idle-held",
            State::OrphanHeld => "orphan-held",
            State::HeldUnknown => "held-unknown",
            State::TrulyIdle => "truly-idle",
            State::Unobserved => "unobserved",
        }
    }

    /// The share of a report that this state belongs to; `None` for those that stand apart.
    #[must_use]
    pub fn roll_up(self) -> Option<RollUp> {
        match self {
            State::Active | State::Stalled | State::Ghost => Some(RollUp::Active),
            State::IdleHeld | State::OrphanHeld => Some(RollUp::IdleHeld),
            State::TrulyIdle => Some(RollUp::TrulyIdle),
            State::HeldUnknown | State::Unobserved => None,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

/// The three shares that people compare with gpu-usage-audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RollUp {
    Active,
    IdleHeld,
    TrulyIdle,
}

impl RollUp {
    pub const ALL: [RollUp; 3] = [RollUp::Active, RollUp::IdleHeld, RollUp::TrulyIdle];

    /// Its place in [`RollUp::ALL`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RollUp::Active => "active",
            RollUp::IdleHeld => "idle-held",
            RollUp::TrulyIdle => "truly-idle",
        }
    }
}

/// Where `active` begins and what counts as held. The defaults are the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thresholds {
    /// A card is active from this utilisation on.
    pub active_util: Percent,
    /// A card is held when its holders have more than this.
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

/// Thresholds that a question sets in place of the stored ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdOverrides {
    pub active_util: Option<Percent>,
    pub held_mb: Option<u64>,
    pub count_graphics: Option<CountGraphics>,
}

impl ThresholdOverrides {
    /// The stored thresholds with those of the question in their place.
    #[must_use]
    pub fn over(self, stored: Thresholds) -> Thresholds {
        Thresholds {
            active_util: self.active_util.unwrap_or(stored.active_util),
            held_mb: self.held_mb.unwrap_or(stored.held_mb),
            count_graphics: self.count_graphics.unwrap_or(stored.count_graphics),
        }
    }
}

/// Whether a process that only draws (a desktop) holds its card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CountGraphics {
    #[default]
    No,
    Yes,
}

/// A state and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub state: State,
    pub evidence: Evidence,
}

impl Verdict {
    /// Why nobody observed the card, where that is the verdict.
    #[must_use]
    pub fn unobserved(&self) -> Option<Missing> {
        let why = self.evidence.unobserved.unwrap_or(Missing::Failed);
        (self.state == State::Unobserved).then_some(why)
    }
}

/// What was seen when a state was decided, so that it can be explained later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    pub thresholds: Thresholds,
    pub util: Reading<Percent>,
    pub power: Reading<Milliwatts>,
    /// The card's idle floor, once it is known.
    pub idle_floor: Option<Milliwatts>,
    /// Processes that hold the card, of whatever size.
    pub holders: u32,
    /// Of those, how many the kernel says are gone.
    pub gone: u32,
    /// Of those, how many have memory that the driver hides.
    pub hidden_memory: u32,
    /// Their known memory.
    pub held: Bytes,
    /// Processes in either list, holders or not.
    pub processes: u32,
    /// Why the card counts as unobserved.
    pub unobserved: Option<Missing>,
}
