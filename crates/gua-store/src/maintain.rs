//! What the writer does between ticks: totals of closed quarter hours, retention, and the journal.

use jiff::Timestamp;
use rusqlite::Connection;

use crate::error::WriteError;
use crate::store::Store;

/// What one call of [`Store::maintain`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Quarter hours that were added to the totals.
    pub quarters_closed: u32,
    /// Ticks that retention took.
    pub ticks_dropped: u64,
    /// Whether there is more to do: call again, after the next tick.
    pub more: bool,
}

impl Store {
    /// Does a small step of what is due at `now`, so that a tick is never late for it. Call it after every tick.
    pub fn maintain(&mut self, _now: Timestamp) -> Result<Upkeep, WriteError> {
        Ok(Upkeep::default())
    }
}

/// Called inside of every tick's transaction.
pub(crate) fn note_tick(_connection: &Connection, _at: i64) -> rusqlite::Result<()> {
    Ok(())
}
