//! Destinations of ticks. A sink that fails loses its own copy of the tick and stops nothing.

use std::fmt;
use std::time::Duration;

use gua_model::{GapReason, Outage, Tick};
use jiff::Timestamp;
use thiserror::Error;

use crate::observer::Options;

/// Receives ticks, and the outages between them.
pub trait Sink: fmt::Debug {
    /// Name in the log: `history`, `board`.
    fn name(&self) -> &str;

    /// Takes one tick, completely or not at all.
    fn deliver(&mut self, tick: &Tick) -> Result<(), SinkError>;

    /// Whether the sink only takes ticks that the history has stored. Not called for the history.
    fn follows_history(&self) -> bool {
        true
    }

    /// The driver could not be read at a tick.
    fn driver_failed(&mut self, _at: Timestamp) {}

    /// Records unobserved time. After an error it is offered again with the next tick.
    fn outage(&mut self, _outage: &Outage) -> Result<(), SinkError> {
        Ok(())
    }

    /// Does a small step of the maintenance that is due between ticks.
    fn maintain(&mut self, _at: Timestamp) -> Result<(), SinkError> {
        Ok(())
    }

    /// A tick has ended: it was stored, or it was lost.
    fn ticked(&mut self, _progress: &Progress) {}

    /// The settings were reloaded.
    fn configure(&mut self, _options: &Options) {}

    /// Ends the sink with the loop.
    fn finish(self: Box<Self>, _at: Timestamp) {}
}

/// State of the loop after a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub interval: Duration,
    /// Ticks that were started.
    pub ticks: u64,
    /// Ticks that were due and are not in the history.
    pub lost: u64,
    /// Time that the tick took.
    pub took: Duration,
    /// Why the tick is not in the history.
    pub outage: Option<GapReason>,
}

/// Why a sink could not take a tick or an outage.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct SinkError {
    pub reason: GapReason,
    pub message: String,
}
