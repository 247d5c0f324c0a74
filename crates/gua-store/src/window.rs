//! Exact totals of a window: whole quarter hours from the stored totals, its edges from the ticks.

use gua_model::{Period, Quarter, Session, Thresholds, Totals, sane};
use gua_query::records::QuarterVisitor;
use rusqlite::Connection;

use crate::error::ReadError;
use crate::fold::{Step, walk};
use crate::history::{self, History};
use crate::maintain::{RAW_FROM, TOTALS_UNTIL};
use crate::rule;
use crate::sessions::{self, Growing};
use crate::store::{meta, quarter};
use crate::ticks::{MICROS_PER_QUARTER, quarter_start};
use crate::totals::{self, Source};

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
    /// Without thresholds, the file's own apply, and whole quarters come from its totals. Other thresholds are applied
    /// to the ticks alone, which fails if the ticks have been deleted.
    pub fn visit_totals(
        &self,
        window: Period,
        thresholds: Option<Thresholds>,
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<u32, ReadError> {
        self.read(|connection| {
            let own = rule::load(connection)?;
            let plan = match thresholds.filter(|other| *other != own) {
                None => Plan::of_totals(connection, own, window)?,
                Some(other) => Plan::of_ticks(connection, other, window)?,
            };
            visitor.begin(plan.window);
            plan.run(connection, visitor)
        })
    }

    /// All sessions that overlap a window, ordered by start. Each is complete as far as it is known now, and not
    /// clipped.
    pub fn sessions(&self, window: Period) -> Result<Vec<Session>, ReadError> {
        let mut sessions = Vec::new();
        self.each_session(window, |session| sessions.push(session.clone()))?;
        sessions.sort_by(|one, other| (one.from, &one.key).cmp(&(other.from, &other.key)));
        Ok(sessions)
    }

    /// Calls `each` with every session that overlaps a window, as [`History::sessions`] returns them but in no
    /// particular order, with one at a time in memory. Returns the number of damaged rows, which are left out.
    pub fn each_session(
        &self,
        window: Period,
        mut each: impl FnMut(&Session),
    ) -> Result<u32, ReadError> {
        let mut give = |session: &Session| {
            if session.from < window.to() && session.to >= window.from() {
                each(session);
            }
        };
        self.read(|connection| {
            let thresholds = rule::load(connection)?;
            let until = meta(connection, TOTALS_UNTIL)?.unwrap_or(i64::MIN);
            let (open, damaged) = sessions::base(
                connection,
                thresholds,
                until,
                sane::bounds(window),
                &mut give,
            )?;
            let mut growing = Growing::new(thresholds, open);
            walk(connection, thresholds, (until, i64::MAX), |step| {
                match step {
                    Step::Tick { tick, at, closed } if at >= until => growing.push(tick, closed),
                    Step::Tick { .. } => {}
                    Step::End { closed } => growing.account(closed),
                }
                Ok(())
            })?;
            growing.into_sessions().iter().for_each(give);
            Ok(damaged)
        })
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
        let has_whole = first_whole < end_whole;
        Ok(Self {
            thresholds,
            window: answered,
            first: if has_whole {
                (from, first_whole)
            } else {
                (from, to)
            },
            whole: if has_whole {
                (first_whole, end_whole)
            } else {
                NOTHING
            },
            last: if has_whole { (end_whole, to) } else { NOTHING },
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
            + totals::each_day(connection, Source::Own, whole, visitor)?
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
        for (quarter, cards) in totals.by_quarter() {
            visitor.quarter(quarter, &cards);
        }
    };
    let walked = walk(connection, thresholds, (from, to), |step| {
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
    Ok(walked.damaged)
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
