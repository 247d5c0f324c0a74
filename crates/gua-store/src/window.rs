//! The numbers of a window: whole quarter hours from the totals, its edges from the ticks, exactly.

use gua_model::{Period, Session, Thresholds, Totals};
use rusqlite::Connection;

use crate::error::ReadError;
use crate::fold::{Step, walk};
use crate::history::{self, History};
use crate::maintain::{RAW_FROM, TOTALS_UNTIL};
use crate::rule;
use crate::sessions::{self, Growing};
use crate::store::{meta, quarter};
use crate::ticks::{MICROS_PER_QUARTER, quarter_start};
use crate::totals;

/// The totals of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowTotals {
    pub totals: Totals,
    /// What was asked for; or more, where ticks at an edge are no longer kept and it moved to its quarter hour.
    pub window: Period,
    /// Ticks that cannot be read. Their time is not in the totals.
    pub ticks_damaged: u32,
}

impl History {
    /// The thresholds that the totals of this file rest on.
    pub fn thresholds(&self) -> Result<Thresholds, ReadError> {
        self.read(|connection| Ok(rule::load(connection)?))
    }

    /// The totals of a window by the file's own thresholds.
    pub fn totals(&self, window: Period) -> Result<WindowTotals, ReadError> {
        self.read(|connection| {
            let thresholds = rule::load(connection)?;
            of_window(connection, thresholds, window)
        })
    }

    /// The totals of a window by any thresholds, from ticks alone. Refused where they are no longer kept.
    pub fn totals_by(
        &self,
        thresholds: Thresholds,
        window: Period,
    ) -> Result<WindowTotals, ReadError> {
        self.read(|connection| {
            if rule::load(connection)? == thresholds {
                return of_window(connection, thresholds, window);
            }
            let raw_from = meta(connection, RAW_FROM)?.unwrap_or(i64::MIN);
            if window.from().as_microsecond() < raw_from {
                return Err(ReadError::RawGone {
                    until: history::at(raw_from)?,
                });
            }
            let mut answer = WindowTotals {
                totals: Totals::default(),
                window,
                ticks_damaged: 0,
            };
            answer.add_raw(connection, thresholds, bounds(window))?;
            Ok(answer)
        })
    }

    /// All sessions that touch a window, each as a whole and as far as it is known now, in order of their start.
    pub fn sessions(&self, window: Period) -> Result<Vec<Session>, ReadError> {
        self.read(|connection| {
            let thresholds = rule::load(connection)?;
            let until = meta(connection, TOTALS_UNTIL)?.unwrap_or(i64::MIN);
            let base = sessions::base(connection, thresholds, until, bounds(window).0)?;
            let mut growing = Growing::new(thresholds, base.open);
            walk(connection, thresholds, (until, i64::MAX), |step| {
                match step {
                    Step::Tick { tick, at, closed } if at >= until => growing.push(tick, closed),
                    Step::Tick { .. } => {}
                    Step::End { closed } => growing.account(closed),
                }
                Ok(())
            })?;
            let over = base.over.into_iter().map(|stored| stored.session);
            let mut sessions: Vec<_> = over.chain(growing.into_sessions()).collect();
            sessions.retain(|session| session.from < window.to() && session.to >= window.from());
            sessions.sort_by(|one, other| (one.from, &one.key).cmp(&(other.from, &other.key)));
            Ok(sessions)
        })
    }
}

pub(crate) fn of_window(
    connection: &Connection,
    thresholds: Thresholds,
    window: Period,
) -> Result<WindowTotals, ReadError> {
    let until = meta(connection, TOTALS_UNTIL)?.unwrap_or(i64::MIN);
    let raw_from = meta(connection, RAW_FROM)?.unwrap_or(i64::MIN);
    let (mut from, mut to) = bounds(window);
    // Where ticks are gone, an edge moves out to its quarter hour.
    if from < raw_from {
        from = quarter_start(from);
    }
    if to < raw_from && to != quarter_start(to) {
        to = quarter_start(to).saturating_add(MICROS_PER_QUARTER);
    }
    let mut answer = WindowTotals {
        totals: Totals::default(),
        window: history::period((from, to)),
        ticks_damaged: 0,
    };
    let first_whole = match quarter_start(from) {
        start if start == from => from,
        start => start.saturating_add(MICROS_PER_QUARTER),
    };
    let end_whole = quarter_start(to).min(until);
    if first_whole >= end_whole {
        answer.add_raw(connection, thresholds, (from, to))?;
        return Ok(answer);
    }
    answer.add_raw(connection, thresholds, (from, first_whole))?;
    let whole = (quarter(first_whole), quarter(end_whole));
    answer.totals.merge(&totals::load(connection, whole)?);
    answer.add_raw(connection, thresholds, (end_whole, to))?;
    Ok(answer)
}

impl WindowTotals {
    fn add_raw(
        &mut self,
        connection: &Connection,
        thresholds: Thresholds,
        (from, to): (i64, i64),
    ) -> Result<(), ReadError> {
        let period = history::period((from, to));
        let walked = walk(connection, thresholds, (from, to), |step| {
            let (Step::Tick { closed, .. } | Step::End { closed }) = step;
            for span in closed {
                self.totals.add_within(span, period);
            }
            Ok(())
        })?;
        self.ticks_damaged += walked.damaged;
        Ok(())
    }
}

fn bounds(window: Period) -> (i64, i64) {
    (window.from().as_microsecond(), window.to().as_microsecond())
}
