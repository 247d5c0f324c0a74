//! A sample as history keeps it: with the interval that it may stand for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sample::Sample;

/// One tick of a collector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    pub sample: Sample,
    /// The collector's interval at that time: the longest that this tick stands for.
    pub interval: Duration,
}
