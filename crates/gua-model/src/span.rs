//! What one tick says about one card for how long. Spans of a card never overlap, and a cut changes no sum.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::classify::Basis;
use crate::id::{GpuUuid, ProcessKey};
use crate::owner::Owner;
use crate::reading::Reading;
use crate::sample::ProcessKind;
use crate::state::Verdict;
use crate::unit::{Bytes, Millijoules, Percent};

/// A stretch of time on one card, from one tick to the next or to the end of its interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    pub gpu: GpuUuid,
    pub from: Timestamp,
    pub to: Timestamp,
    /// One state, or the busy one and the low one with their weights.
    pub shares: Vec<Share>,
    pub basis: Basis,
    /// Energy that the driver counted between this tick and the next; missing where either did not tell.
    pub energy: Reading<Millijoules>,
    pub holders: Vec<Holder>,
}

/// A part of a span: `weight` of the sum of all weights of its span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    pub verdict: Verdict,
    pub weight: u64,
}

/// A process that held the card during a span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// `None` where the process could not be seen; such holders cannot be told apart and have no session.
    pub process: Option<ProcessKey>,
    /// `None` is the unknown owner.
    pub owner: Option<Owner>,
    pub kind: ProcessKind,
    pub memory: Reading<Bytes>,
    pub sm_util: Reading<Option<Percent>>,
}
