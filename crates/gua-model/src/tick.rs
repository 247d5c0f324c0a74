//! A sample as history stores it: with the interval of its collector, which bounds the time that it covers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cadence::Cadence;
use crate::sample::Sample;

/// One tick of a collector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    pub sample: Sample,
    /// Interval of the collector at that time: the longest time that this tick covers.
    pub interval: Duration,
}

impl Tick {
    pub fn cadence(&self) -> Cadence {
        Cadence::new(self.interval)
    }
}
