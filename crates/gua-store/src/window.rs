//! Queries for a window or a time in the past. Totals of a window are exact: whole quarter hours come from the stored totals,
//! its edges from the ticks.

use gua_model::{Floors, Period, Quarter, Span, Thresholds, Tick, Totals, UtcDay, sane};
use gua_query::records::{Origin, QuarterVisitor, SessionVisitor, TickAt};
use jiff::Timestamp;
use rusqlite::Connection;

use crate::error::ReadError;
use crate::floors;
use crate::fold::{Step, each_span, walk, walk_pairs};
use crate::history::{self, History};
use crate::maintain::{RAW_FROM, TOTALS_UNTIL};
use crate::rule;
use crate::sessions::{self, Growing, offer};
use crate::store::{meta, quarter};
use crate::ticks::{self, MICROS_PER_QUARTER, quarter_start};
use crate::totals;

impl History {
    /// Thresholds that the totals of this file use.
    pub fn thresholds(&self) -> Result<Thresholds, ReadError> {
        self.read(|connection| Ok(rule::load(connection)?))
    }

    /// Visits the totals of a window, quarter hour by quarter hour in order of time, with only one in memory. Each quarter
    /// is passed once, with all its GPUs in the order of their names; a quarter cut by an end of the window contains only
    /// the part inside. Each completed day that lies entirely in the window is offered first; if it is not taken, its
    /// quarters follow. Returns the number of unreadable ticks and of unreadable totals whose ticks have been deleted: their
    /// time is not included.
    ///
    /// With the thresholds of the file, whole quarters come from its totals. Other thresholds are applied to the ticks alone,
    /// which fails if the ticks have been deleted.
    pub fn quarters(
        &self,
        window: Period,
        thresholds: Thresholds,
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<u32, ReadError> {
        self.read(|connection| {
            let plan = match thresholds == rule::load(connection)? {
                true => Plan::of_totals(connection, thresholds, window)?,
                false => Plan::of_ticks(connection, thresholds, window)?,
            };
            visitor.begin(plan.window);
            plan.run(connection, visitor)
        })
    }

    /// Visits every session that overlaps a window, in no particular order, with one at a time in memory. Each is
    /// complete as far as it is known now, and not clipped. Returns the number of damaged rows, which are left out. Of a
    /// session that the visitor refuses by its outline, only the outline is checked for damage.
    pub fn sessions(
        &self,
        window: Period,
        visitor: &mut dyn SessionVisitor,
    ) -> Result<u32, ReadError> {
        self.read(|connection| {
            let thresholds = rule::load(connection)?;
            let until = meta(connection, TOTALS_UNTIL)?.unwrap_or(i64::MIN);
            let (open, damaged) = sessions::base(connection, thresholds, until, window, visitor)?;
            let mut growing = Growing::new(thresholds, open);
            walk(connection, thresholds, (until, i64::MAX), |step| {
                match step {
                    Step::Tick { tick, at, closed } if at >= until => growing.push(tick, closed),
                    Step::Tick { .. } => {}
                    Step::End { closed } => growing.account(closed),
                }
                Ok(())
            })?;
            for session in growing.into_sessions() {
                offer(&session, window, visitor);
            }
            Ok(damaged)
        })
    }

    /// The tick that covers a time. `None` if no readable tick precedes it.
    pub fn tick_at(
        &self,
        at: Timestamp,
        thresholds: Thresholds,
    ) -> Result<Option<TickAt>, ReadError> {
        let after = at.as_microsecond().saturating_add(1);
        self.read(|connection| {
            // A damaged tick counts as if it had not been taken: the tick before it covers more time, as in every fold.
            let Some((key, _)) = ticks::last_readable(connection, (i64::MIN, after))? else {
                return Ok(None);
            };
            let (mut found, mut spans, mut next) = (None, Vec::new(), None);
            walk(connection, thresholds, (key, after), |step| {
                match step {
                    Step::Tick { tick, at, .. } if at < after => found = Some(tick.clone()),
                    Step::Tick { tick, closed, .. } => {
                        spans = closed.to_vec();
                        next = Some(tick.clone());
                    }
                    Step::End { closed } => spans = closed.to_vec(),
                }
                Ok(())
            })?;
            Ok(found.map(|tick| TickAt { tick, spans, next }))
        })
    }

    /// Calls `each` with every span that begins in a window, and with the spans of the tick before it.
    pub fn spans(
        &self,
        window: Period,
        thresholds: Thresholds,
        each: &mut dyn FnMut(&Span),
    ) -> Result<(), ReadError> {
        let bounds = sane::bounds(window);
        self.read(|connection| {
            each_span(connection, thresholds, bounds, &mut *each)?;
            Ok(())
        })
    }

    /// Calls `each` with every tick that begins in a window and the spans of all its GPUs, and with the tick before the
    /// window, whose spans may reach into it. Spans are not clipped. Returns the number of damaged ticks in the window.
    pub fn ticks_with_spans<E: From<ReadError>>(
        &self,
        window: Period,
        thresholds: Thresholds,
        mut each: impl FnMut(&Tick, &[Span]) -> Result<(), E>,
    ) -> Result<u32, E> {
        let bounds = sane::bounds(window);
        self.read(|connection| {
            walk_pairs(connection, thresholds, bounds, |tick, step| {
                let (Step::Tick { closed, .. } | Step::End { closed }) = step;
                tick.map_or(Ok(()), |tick| each(tick, closed))
            })
        })
    }

    /// Idle power floor of each GPU on the day of a time.
    pub fn floors(&self, at: Timestamp) -> Result<Floors, ReadError> {
        self.read(|connection| floors::as_of(connection, UtcDay::of(at)))
    }

    /// Time from which ticks are kept; only totals by quarter hour exist before it. `None` if retention has deleted
    /// none.
    pub fn raw_from(&self) -> Result<Option<Timestamp>, ReadError> {
        self.read(|connection| Ok(meta(connection, RAW_FROM)?.map(sane::nearest)))
    }
}

/// Source of each part of a window: ticks, then totals, then ticks. Each part is `[from, to)`.
struct Plan {
    thresholds: Thresholds,
    window: Period,
    first: (i64, i64),
    whole: (i64, i64),
    last: (i64, i64),
}

const NOTHING: (i64, i64) = (0, 0);

impl Plan {
    fn of_totals(
        connection: &Connection,
        thresholds: Thresholds,
        window: Period,
    ) -> Result<Self, ReadError> {
        let until = meta(connection, TOTALS_UNTIL)?.unwrap_or(i64::MIN);
        let raw_from = meta(connection, RAW_FROM)?.unwrap_or(i64::MIN);
        let (mut from, mut to) = sane::bounds(window);
        let mut answered = window;
        // An edge whose ticks have been deleted moves out to its quarter hour.
        if from < raw_from && from != quarter_start(from) {
            from = quarter_start(from);
            answered = Period::new(sane::nearest(from), answered.to());
        }
        if to < raw_from && to != quarter_start(to) {
            to = quarter_start(to).saturating_add(MICROS_PER_QUARTER);
            answered = Period::new(answered.from(), sane::nearest(to));
        }
        let first_whole = match quarter_start(from) {
            start if start == from => from,
            start => start.saturating_add(MICROS_PER_QUARTER),
        };
        let end_whole = quarter_start(to).min(until);
        let whole = (first_whole, end_whole);
        let (first, whole, last) = match first_whole < end_whole {
            true => ((from, first_whole), whole, (end_whole, to)),
            false => ((from, to), NOTHING, NOTHING),
        };
        Ok(Self {
            thresholds,
            window: answered,
            first,
            whole,
            last,
        })
    }

    fn of_ticks(
        connection: &Connection,
        thresholds: Thresholds,
        window: Period,
    ) -> Result<Self, ReadError> {
        let raw_from = meta(connection, RAW_FROM)?.unwrap_or(i64::MIN);
        let bounds = sane::bounds(window);
        if bounds.0 < raw_from {
            return Err(ReadError::RawGone {
                until: sane::nearest(raw_from),
            });
        }
        Ok(Self {
            thresholds,
            window,
            first: bounds,
            whole: NOTHING,
            last: NOTHING,
        })
    }

    /// Visits every part, and returns the number of damaged ticks and totals.
    fn run(
        &self,
        connection: &Connection,
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<u32, ReadError> {
        let rule = self.thresholds;
        let whole = (quarter(self.whole.0), quarter(self.whole.1));
        Ok(from_ticks(connection, rule, self.first, visitor)?
            + totals::each_day(connection, Origin::Own, whole, visitor)?
            + from_ticks(connection, rule, self.last, visitor)?)
    }
}

/// Visits the totals of `[from, to)` by its ticks, and returns the number of damaged ones.
fn from_ticks(
    connection: &Connection,
    thresholds: Thresholds,
    (from, to): (i64, i64),
    visitor: &mut dyn QuarterVisitor,
) -> Result<u32, ReadError> {
    let period = history::period((from, to));
    let mut open = Totals::default();
    let mut give_all = |totals: Totals| {
        for (quarter, gpus) in totals.by_quarter() {
            visitor.quarter(quarter, &gpus);
        }
    };
    let damaged = walk(connection, thresholds, (from, to), |step| {
        let (Step::Tick { closed, .. } | Step::End { closed }) = step;
        for span in closed {
            open.add_within(span, period);
        }
        if let Step::Tick { at, .. } = step {
            // The following spans begin with this tick.
            give_all(open.drain_before(Quarter(quarter(at))));
        }
        Ok(())
    })?;
    give_all(open);
    Ok(damaged)
}

/// Computes a quarter whose stored totals cannot be read from its ticks. If these have been deleted, the quarter is a gap.
/// Returns the number of damaged ticks or totals.
pub(crate) fn unreadable_quarter(
    connection: &Connection,
    quarter: Quarter,
    visitor: &mut dyn QuarterVisitor,
) -> Result<u32, ReadError> {
    let ends = sane::bounds(quarter.period());
    match meta(connection, RAW_FROM)?.is_some_and(|raw_from| ends.0 < raw_from) {
        true => Ok(1),
        false => from_ticks(connection, rule::load(connection)?, ends, visitor),
    }
}
