//! What the writer does between ticks: totals and sessions of closed quarter hours, retention, and the journal.
//!
//! The watermark says up to where the totals and the session rows stand. It moves in the transaction that writes them,
//! so a crash loses nothing and counts nothing twice; a clock that is set back moves it back.

use gua_model::{Thresholds, Totals};
use jiff::Timestamp;
use rusqlite::{Connection, TransactionBehavior};

use crate::error::{ReadError, WriteError};
use crate::floors::Learned;
use crate::fold::{Step, tick_before, tick_from, walk};
use crate::history;
use crate::sessions::{self, Growing};
use crate::store::{Store, meta, micros, quarter, set_meta};
use crate::ticks::{MICROS_PER_QUARTER, quarter_start};
use crate::totals;

/// What one call of [`Store::maintain`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Whether a quarter hour was added to the totals.
    pub closed_a_quarter: bool,
    /// Ticks that retention took.
    pub ticks_dropped: u64,
    /// Ticks of the closed quarter that cannot be read.
    pub ticks_damaged: u32,
    /// Whether there is more to do: the next call goes on.
    pub more: bool,
}

/// Up to where totals and sessions stand, in microseconds: the start of a quarter hour.
pub(crate) const TOTALS_UNTIL: &str = "totals_until";
/// Before this, retention has taken the ticks.
pub(crate) const RAW_FROM: &str = "raw_from";
/// Up to where the idle floors have learned.
const FLOORS_UNTIL: &str = "floors_until";

/// A quarter takes a few milliseconds; after a clock that was set back there may be thousands.
const QUARTERS_AT_ONCE: u32 = 8;

impl Store {
    /// Does a small step of what is due at `now`, so that a tick is never late for it. Call it after every tick.
    pub fn maintain(&mut self, now: Timestamp) -> Result<Upkeep, WriteError> {
        let thresholds = self.thresholds()?;
        let mut upkeep = Upkeep::default();
        for _ in 0..QUARTERS_AT_ONCE {
            let step = self.close_quarter(thresholds, Some(now.as_microsecond()))?;
            upkeep.closed_a_quarter |= step.closed_a_quarter;
            upkeep.ticks_damaged += step.ticks_damaged;
            upkeep.more = step.more;
            if !step.more {
                break;
            }
        }
        if !upkeep.more {
            upkeep.ticks_dropped = self.drop_old_ticks(now)?;
            upkeep.more = upkeep.ticks_dropped > 0;
        }
        Ok(upkeep)
    }

    /// Folds all ticks that are left once more. Totals whose ticks are gone stay as they are.
    pub fn rebuild_totals(&mut self) -> Result<(), WriteError> {
        let thresholds = self.thresholds()?;
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        fold_again(&transaction)?;
        transaction.commit()?;
        while self.close_quarter(thresholds, None)?.closed_a_quarter {}
        Ok(())
    }

    /// Adds the first quarter hour that is over and has ticks to the totals. It is over when a tick came after it: that
    /// tick says how long the last one before it stands, and what the driver counted meanwhile.
    fn close_quarter(
        &mut self,
        thresholds: Thresholds,
        now: Option<i64>,
    ) -> Result<Upkeep, WriteError> {
        let until = meta(&self.connection, TOTALS_UNTIL)?.unwrap_or(i64::MIN);
        let Some(first) = tick_from(&self.connection, until)? else {
            return Ok(Upkeep::default());
        };
        let from = if until == i64::MIN {
            quarter_start(first)
        } else {
            until
        };
        let to = quarter_start(first).saturating_add(MICROS_PER_QUARTER);
        if now.is_some_and(|now| now < to) || tick_from(&self.connection, to)?.is_none() {
            return Ok(Upkeep::default());
        }
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let damaged = add_quarters(&transaction, thresholds, (from, to)).map_err(into_write)?;
        set_meta(&transaction, TOTALS_UNTIL, to)?;
        transaction.commit()?;
        Ok(Upkeep {
            closed_a_quarter: true,
            ticks_damaged: damaged,
            more: tick_from(&self.connection, to.saturating_add(MICROS_PER_QUARTER))?.is_some()
                && now.is_none_or(|now| now >= to.saturating_add(MICROS_PER_QUARTER)),
            ticks_dropped: 0,
        })
    }

    /// Drops the oldest quarter hour that is older than it must be kept, if its totals are there. The quarter of the
    /// last tick before the watermark stays: the fold goes on from it.
    fn drop_old_ticks(&mut self, now: Timestamp) -> Result<u64, WriteError> {
        let Some(keep) = self.options.keep_raw else {
            return Ok(0);
        };
        let keep = micros(keep);
        let Some(limit) = trusted(&self.connection, now.as_microsecond(), keep)?
            .map(|now| now.saturating_sub(keep))
        else {
            return Ok(0);
        };
        let Some(until) = meta(&self.connection, TOTALS_UNTIL)? else {
            return Ok(0);
        };
        let (Some(first), Some(last)) = (
            tick_from(&self.connection, i64::MIN)?,
            tick_before(&self.connection, until)?,
        ) else {
            return Ok(0);
        };
        let end = quarter_start(first).saturating_add(MICROS_PER_QUARTER);
        if end > quarter_start(limit) || end > quarter_start(last) {
            return Ok(0);
        }
        let thresholds = self.thresholds()?;
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        sessions::move_horizon(&transaction, thresholds, end).map_err(into_write)?;
        let dropped = transaction
            .prepare_cached("DELETE FROM tick WHERE at < ?1")?
            .execute([end])?;
        let raw_from = meta(&transaction, RAW_FROM)?.unwrap_or(i64::MIN);
        set_meta(&transaction, RAW_FROM, raw_from.max(end))?;
        transaction.commit()?;
        Ok(dropped as u64)
    }
}

/// The time that retention goes by, as a clock that runs ahead for a while must not take young ticks: that of the last
/// tick which is `wait` old by the clock, plus `wait`. With ticks all along, this is `now` up to an interval. After a
/// jump, it is at most `wait` after the last tick before the jump, until ticks have come for `wait`: then the clock is
/// believed. `None` where all ticks are younger, so that none is due.
fn trusted(connection: &Connection, now: i64, keep: i64) -> rusqlite::Result<Option<i64>> {
    const MOST: i64 = 24 * 3600 * 1_000_000;
    // Also ticks that are kept for an hour only must not go with the first jump.
    let wait = MOST.min(keep / 8);
    let last = tick_before(connection, now.saturating_sub(wait))?;
    Ok(last.map(|last| last.saturating_add(wait).min(now)))
}

/// Folds `[from, to)` into totals, sessions and floors, and says how many ticks were damaged.
fn add_quarters(
    connection: &Connection,
    thresholds: Thresholds,
    (from, to): (i64, i64),
) -> Result<u32, ReadError> {
    sessions::mend(connection, thresholds, from)?;
    let period = history::period((from, to));
    let learned_until = meta(connection, FLOORS_UNTIL)?.unwrap_or(i64::MIN);
    let mut totals = Totals::default();
    let mut growing = Growing::new(thresholds, sessions::open_ones(connection)?);
    let mut learned = Learned::default();
    let walked = walk(connection, thresholds, (from, to), |step| {
        let closed = match step {
            Step::Tick { tick, at, closed } => {
                if from <= at && at < to {
                    growing.push(tick, closed);
                }
                closed
            }
            Step::End { closed } => closed,
        };
        for span in closed {
            totals.add_within(span, period);
            if period.contains(span.from) && span.from.as_microsecond() >= learned_until {
                learned.push(span);
            }
        }
        Ok(())
    })?;
    totals::save(connection, (quarter(from), quarter(to)), &totals)?;
    growing.save(connection)?;
    learned.save(connection)?;
    set_meta(connection, FLOORS_UNTIL, learned_until.max(to))?;
    Ok(walked.damaged)
}

/// Has all ticks that are left folded once more, by the next upkeep. What changes them calls it in its transaction, so
/// that totals which do not fit are never taken for final.
pub(crate) fn fold_again(connection: &Connection) -> rusqlite::Result<()> {
    let until = meta(connection, TOTALS_UNTIL)?;
    if let (Some(until), Some(first)) = (until, whole_from(connection)?) {
        set_meta(connection, TOTALS_UNTIL, until.min(first))?;
        set_meta(connection, sessions::STALE, 1)?;
    }
    Ok(())
}

/// Called inside of every tick's transaction. A tick before the watermark changes the quarter that it lies in, and that
/// of the tick before it, whose span it ends: both must be folded again. Where retention has taken the ticks around it,
/// the totals stay: that time was accounted for.
pub(crate) fn note_tick(connection: &Connection, at: i64) -> rusqlite::Result<()> {
    let Some(until) = meta(connection, TOTALS_UNTIL)? else {
        return Ok(());
    };
    if at >= until {
        return Ok(());
    }
    let before = tick_before(connection, at)?.unwrap_or(at);
    let Some(first) = whole_from(connection)? else {
        return Ok(());
    };
    if at < first && meta(connection, RAW_FROM)?.is_some() {
        return Ok(());
    }
    let again = quarter_start(before).max(first).min(until);
    set_meta(connection, TOTALS_UNTIL, again)?;
    set_meta(connection, sessions::STALE, 1)
}

/// The first quarter hour that can be folded again: that of the first tick; or, where retention was at work, the one
/// after it, since the span of a tick that is gone may reach into its quarter.
pub(crate) fn whole_from(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let raw_from = meta(connection, RAW_FROM)?;
    let first = tick_from(connection, raw_from.unwrap_or(i64::MIN))?;
    let lost = if raw_from.is_some() {
        MICROS_PER_QUARTER
    } else {
        0
    };
    Ok(first.map(|first| quarter_start(first).saturating_add(lost)))
}

pub(crate) fn into_write(error: ReadError) -> WriteError {
    match error {
        ReadError::Sqlite(error) => error.into(),
        other => WriteError::Inconsistent(other),
    }
}
