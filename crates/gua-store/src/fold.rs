//! Runs stored ticks through the fold of gua-model. Totals, sessions, reports and checks share this walk, so that they
//! agree. The time of a tick is its key here, in whole microseconds.

use gua_model::{Floors, Span, Spans, Thresholds, Tick, UtcDay, sane};
use jiff::Timestamp;
use rusqlite::Connection;

use crate::codec::Damage;
use crate::error::ReadError;
use crate::floors;
use crate::sql;
use crate::ticks::{self, StoredTick, Ticks};

/// One step of a walk.
pub(crate) enum Step<'a> {
    /// A tick, with the spans that it closes: the spans of the previous tick.
    Tick {
        tick: &'a Tick,
        at: i64,
        closed: &'a [Span],
    },
    /// The end of the ticks, with the spans of the last one.
    End { closed: &'a [Span] },
}

/// Walks over all ticks of `[from, to)`, the tick before and the tick after it. Returns the number of ticks in the window that
/// cannot be read; they are treated as if they had not been taken.
pub(crate) fn walk(
    connection: &Connection,
    thresholds: Thresholds,
    bounds: (i64, i64),
    mut each: impl FnMut(Step<'_>) -> Result<(), ReadError>,
) -> Result<u32, ReadError> {
    walk_pairs(connection, thresholds, bounds, |_, step| each(step))
}

/// Calls `each` with the spans of all ticks of `[from, to)` and of the tick before it. Returns the number of ticks that cannot be
/// read.
pub(crate) fn each_span(
    connection: &Connection,
    thresholds: Thresholds,
    bounds: (i64, i64),
    mut each: impl FnMut(&Span),
) -> Result<u32, ReadError> {
    walk(connection, thresholds, bounds, |step| {
        let (Step::Tick { closed, .. } | Step::End { closed }) = step;
        closed.iter().for_each(&mut each);
        Ok(())
    })
}

/// Walks like [`walk`]; `each` also receives the tick that the closed spans belong to.
pub(crate) fn walk_pairs<E: From<ReadError>>(
    connection: &Connection,
    thresholds: Thresholds,
    (from, to): (i64, i64),
    mut each: impl FnMut(Option<&Tick>, Step<'_>) -> Result<(), E>,
) -> Result<u32, E> {
    let mut damaged = 0;
    if from >= to {
        return Ok(damaged);
    }
    let start = tick_before(connection, from).map_err(ReadError::from)?;
    let start = start.unwrap_or(from);
    let mut day = None;
    let mut spans = Spans::new(thresholds, Floors::new());
    let mut statement = ticks::statement(connection).map_err(ReadError::from)?;
    // No upper bound: the last span of the window is closed by the next readable tick, however many unreadable ones
    // precede it. Rows are fetched lazily, so the later ticks cost nothing.
    let mut stored =
        Ticks::new(connection, &mut statement, start, i64::MAX).map_err(ReadError::from)?;
    while let Some((at, tick)) = stored.step().map_err(ReadError::from)? {
        let Ok(stored) = tick else {
            damaged += u32::from(at < to);
            continue;
        };
        let mut tick = stored.tick;
        tick.sample.at = sane::nearest(at);
        let today = UtcDay::of(tick.sample.at);
        let (before, closed) = spans.push_owned(tick);
        let tick = spans.open().expect("it was pushed just now");
        let step = Step::Tick {
            tick,
            at,
            closed: &closed,
        };
        each(before.as_ref(), step)?;
        if at >= to {
            return Ok(damaged);
        }
        // The next tick closes the one pushed here, using the floors of its own day. Those floors come from earlier
        // days only, so that later data never changes an earlier classification.
        if day != Some(today) {
            spans.floors = floors::as_of(connection, today)?;
            day = Some(today);
        }
    }
    let last = spans.open().cloned();
    let closed = spans.finish(Timestamp::MAX);
    each(last.as_ref(), Step::End { closed: &closed })?;
    Ok(damaged)
}

/// Calls `each` with the time of every tick of `[from, to)` and the tick, or the reason it cannot be read.
pub(crate) fn each_tick(
    connection: &Connection,
    (from, to): (i64, i64),
    mut each: impl FnMut(i64, Result<StoredTick, Damage>),
) -> rusqlite::Result<()> {
    let mut statement = ticks::statement(connection)?;
    let mut stored = Ticks::new(connection, &mut statement, from, to)?;
    while let Some((at, tick)) = stored.step()? {
        each(at, tick);
    }
    Ok(())
}

/// Key of the last tick before a time, of those with a sane time.
pub(crate) fn tick_before(connection: &Connection, at: i64) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT max(at) FROM tick WHERE at < ?1";
    let found: Option<i64> = sql::value(connection, sql, [at.min(sane::END)])?;
    Ok(found.filter(|at| *at >= sane::FIRST))
}

/// Key of the first tick at or after a time, of those with a sane time.
pub(crate) fn tick_from(connection: &Connection, at: i64) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT min(at) FROM tick WHERE at >= ?1";
    let found: Option<i64> = sql::value(connection, sql, [at.max(sane::FIRST)])?;
    Ok(found.filter(|at| *at < sane::END))
}
