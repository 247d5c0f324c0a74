//! Where ticks go. A sink that fails costs its own copy of the tick and stops nothing.

use gua_model::{GapReason, Outage, Tick};
use jiff::Timestamp;
use thiserror::Error;

use crate::observer::Options;

/// Takes ticks, and what is known about the time between them.
pub trait Sink {
    /// What the log calls it: `history`, `board`.
    fn name(&self) -> &str;

    /// Takes one tick, whole or not at all.
    fn deliver(&mut self, tick: &Tick) -> Result<(), SinkError>;

    /// Whether it takes only ticks that the history has taken.
    fn follows_history(&self) -> bool {
        false
    }

    /// The driver could not be read at a tick.
    fn driver_failed(&mut self, _at: Timestamp) {}

    /// Takes the word about time that nobody observed. It is offered again after the next tick if it fails.
    fn outage(&mut self, outage: &Outage) -> Result<(), SinkError>;

    /// Does a small step of what is due between ticks.
    fn upkeep(&mut self, _at: Timestamp) -> Result<(), SinkError> {
        Ok(())
    }

    /// What has been found since it was last asked, for the log. It costs no tick.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// The settings were read again.
    fn configure(&mut self, _options: &Options) {}

    /// The loop has ended, and nothing more comes.
    fn finish(&mut self, _at: Timestamp) {}
}

/// Why a sink could not take what it was given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct SinkError {
    pub reason: GapReason,
    pub message: String,
}
