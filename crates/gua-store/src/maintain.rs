//! Maintenance between ticks: totals and sessions of closed quarter hours, retention, and the journal.
//!
//! The watermark is the time up to which totals and session rows are complete. It advances in the transaction that
//! writes them, so a crash loses nothing and counts nothing twice. When the clock is set back, the watermark moves
//! back.

use gua_model::{Thresholds, Totals};
use jiff::Timestamp;
use rusqlite::Connection;

use crate::error::{ReadError, WriteError};
use crate::floors::Learned;
use crate::fold::{Step, tick_before, tick_from, walk};
use crate::history;
use crate::sessions::{self, Growing};
use crate::sql;
use crate::store::{Store, bound_journal, meta, micros, quarter, set_meta};
use crate::ticks::{MICROS_PER_QUARTER, quarter_start};
use crate::totals;
use crate::watched;

/// Result of one call of [`Store::maintain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Whether a quarter hour was added to the totals.
    pub closed_a_quarter: bool,
    /// Whether more work is due for the next call.
    pub more: bool,
}

/// Time up to which totals and sessions are complete, in microseconds: the start of a quarter hour.
pub(crate) const TOTALS_UNTIL: &str = "totals_until";
/// Time before which retention has deleted the ticks.
pub(crate) const RAW_FROM: &str = "raw_from";
/// Time up to which ticks have contributed to the idle floors.
const FLOORS_UNTIL: &str = "floors_until";

/// Maximum number of quarters closed in one call. Each takes a few milliseconds, and there may be thousands after a
/// clock was set back.
const QUARTERS_AT_ONCE: u32 = 8;

impl Store {
    /// Does a small part of the work due at `now`, so that it never delays a tick. Call it after every tick.
    pub fn maintain(&mut self, now: Timestamp) -> Result<Upkeep, WriteError> {
        bound_journal(&self.connection, &self.path)?;
        let thresholds = self.thresholds()?;
        let mut upkeep = Upkeep::default();
        for _ in 0..QUARTERS_AT_ONCE {
            let step = self.close_quarter(thresholds, Some(now.as_microsecond()))?;
            upkeep.closed_a_quarter |= step.closed_a_quarter;
            upkeep.more = step.more;
            if !step.more {
                break;
            }
        }
        if upkeep.closed_a_quarter
            && let Some(limit) = self.retention_limit(now.as_microsecond())?
        {
            watched::drop_before(&self.connection, limit)?;
        }
        if !upkeep.more {
            upkeep.more = self.drop_old_ticks(now)?;
        }
        Ok(upkeep)
    }

    /// Folds all remaining ticks again. Totals whose ticks have been deleted stay unchanged.
    pub fn rebuild_totals(&mut self) -> Result<(), WriteError> {
        let thresholds = self.thresholds()?;
        let transaction = sql::begin(&mut self.connection)?;
        fold_again(&transaction)?;
        transaction.commit()?;
        while self.close_quarter(thresholds, None)?.closed_a_quarter {}
        Ok(())
    }

    /// Adds the first complete quarter hour that has ticks to the totals. It is complete once a later tick exists: that
    /// tick determines how much time the last one before it covers, and what the driver counted in between.
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
        let transaction = sql::begin(&mut self.connection)?;
        add_quarters(&transaction, thresholds, (from, to)).map_err(into_write)?;
        set_meta(&transaction, TOTALS_UNTIL, to)?;
        transaction.commit()?;
        Ok(Upkeep {
            closed_a_quarter: true,
            more: tick_from(&self.connection, to.saturating_add(MICROS_PER_QUARTER))?.is_some()
                && now.is_none_or(|now| now >= to.saturating_add(MICROS_PER_QUARTER)),
        })
    }

    /// Deletes the ticks of the oldest quarter hour past its retention time, if its totals exist. The quarter of the
    /// last tick before the watermark stays, since the fold continues from it. Returns whether there were any.
    fn drop_old_ticks(&mut self, now: Timestamp) -> Result<bool, WriteError> {
        let (Some(keep), Some(until)) =
            (self.options.keep_raw, meta(&self.connection, TOTALS_UNTIL)?)
        else {
            return Ok(false);
        };
        let (Some(first), Some(last)) = (
            tick_from(&self.connection, i64::MIN)?,
            tick_before(&self.connection, until)?,
        ) else {
            return Ok(false);
        };
        let now = now.as_microsecond();
        let end = quarter_start(first).saturating_add(MICROS_PER_QUARTER);
        let is_due = |limit| end <= quarter_start(limit) && end <= quarter_start(last);
        // The clock is checked only if it says that a quarter is due, since that reads a day of ticks.
        if !is_due(now.saturating_sub(micros(keep)))
            || !self.retention_limit(now)?.is_some_and(is_due)
        {
            return Ok(false);
        }
        let thresholds = self.thresholds()?;
        let transaction = sql::begin(&mut self.connection)?;
        sessions::move_horizon(&transaction, thresholds, end).map_err(into_write)?;
        let dropped = sql::run(&transaction, "DELETE FROM tick WHERE at < ?1", [end])?;
        let raw_from = meta(&transaction, RAW_FROM)?.unwrap_or(i64::MIN);
        set_meta(&transaction, RAW_FROM, raw_from.max(end))?;
        transaction.commit()?;
        Ok(dropped > 0)
    }

    /// Time before which ticks and runs are deleted; `None` if all are kept.
    fn retention_limit(&self, now: i64) -> rusqlite::Result<Option<i64>> {
        let Some(keep) = self.options.keep_raw.map(micros) else {
            return Ok(None);
        };
        let now = trusted(&self.connection, now, keep)?;
        Ok(now.map(|now| now.saturating_sub(keep)))
    }
}

/// Time that retention uses in place of the clock, so that a clock that is ahead for a while does not delete recent
/// ticks: the tick after which `wait` has been recorded, plus `wait`. A gap between two ticks counts for at most an eighth
/// of `wait`, so that neither one jump nor several make up for recorded time. While ticks arrive regularly, this is within
/// an interval of `now`. After a jump, it advances with the ticks that arrive, until they have arrived for `wait`; from then
/// on the clock is trusted. `None` if less has been recorded, so that nothing is due.
fn trusted(connection: &Connection, now: i64, keep: i64) -> rusqlite::Result<Option<i64>> {
    const MAX_WAIT: i64 = 24 * 3600 * 1_000_000;
    // Also protects ticks with a retention time of only an hour from the first jump.
    let wait = MAX_WAIT.min(keep / 8);
    let mut statement =
        connection.prepare_cached("SELECT at FROM tick WHERE at <= ?1 ORDER BY at DESC")?;
    let mut rows = statement.query([now])?;
    let (mut later, mut recorded) = (now, 0_i64);
    while let Some(row) = rows.next()? {
        let at: i64 = row.get(0)?;
        recorded = recorded.saturating_add(later.saturating_sub(at).min(wait / 8));
        if recorded >= wait {
            return Ok(Some(at.saturating_add(wait).min(now)));
        }
        later = at;
    }
    Ok(None)
}

/// Folds `[from, to)` into totals, sessions and floors.
fn add_quarters(
    connection: &Connection,
    thresholds: Thresholds,
    (from, to): (i64, i64),
) -> Result<(), ReadError> {
    sessions::mend(connection, thresholds, from)?;
    let period = history::period((from, to));
    let learned_until = meta(connection, FLOORS_UNTIL)?.unwrap_or(i64::MIN);
    let mut totals = Totals::default();
    let mut growing = Growing::new(thresholds, sessions::open_ones(connection)?);
    let mut learned = Learned::default();
    walk(connection, thresholds, (from, to), |step| {
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
    Ok(())
}

/// Schedules all remaining ticks to be folded again by the next maintenance. Code that changes ticks calls this in its
/// transaction, so that outdated totals are never taken for final.
pub(crate) fn fold_again(connection: &Connection) -> rusqlite::Result<()> {
    let until = meta(connection, TOTALS_UNTIL)?;
    if let (Some(until), Some(first)) = (until, whole_from(connection)?) {
        set_meta(connection, TOTALS_UNTIL, until.min(first))?;
        set_meta(connection, sessions::STALE, 1)?;
    }
    Ok(())
}

/// Handles a tick that may lie before the watermark, or that follows a tick before it. Such a tick changes its own quarter
/// and the quarter of the previous tick, whose span it ends, so both must be folded again. Runs in the transaction of the
/// tick. If retention has deleted the surrounding ticks, the totals stay: that time is already accounted for.
pub(crate) fn note_tick(connection: &Connection, at: i64) -> rusqlite::Result<()> {
    let Some(until) = meta(connection, TOTALS_UNTIL)? else {
        return Ok(());
    };
    // The newest tick never follows one before the watermark: a quarter is closed once a later tick exists.
    let before = tick_before(connection, at)?.unwrap_or(at);
    if before >= until {
        return Ok(());
    }
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

/// Start of the first quarter hour that can be folded again: the quarter of the first tick or, after retention has run,
/// the quarter after it, since the span of a deleted tick may reach into the former.
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
