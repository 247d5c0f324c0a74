//! Queries for one time in the past: the tick that covers it and the spans around it, with the idle floors of that day.

use gua_model::{Floors, Period, Span, Thresholds, Tick, UtcDay, sane};
use gua_query::records::TickAt;
use jiff::Timestamp;

use crate::error::ReadError;
use crate::floors;
use crate::fold::{Step, walk, walk_pairs};
use crate::history::History;
use crate::maintain::RAW_FROM;
use crate::store::meta;
use crate::ticks;

impl History {
    /// The tick that covers a time. `None` if no readable tick precedes it.
    pub fn tick_at(
        &self,
        at: Timestamp,
        thresholds: Thresholds,
    ) -> Result<Option<TickAt>, ReadError> {
        let after = at.as_microsecond().saturating_add(1);
        self.read(|connection| {
            // A damaged tick counts as if it had not been taken: the tick before it covers more time, as in every fold.
            let Some((key, _)) = ticks::last_readable(connection, after)? else {
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
    pub fn each_span(
        &self,
        window: Period,
        thresholds: Thresholds,
        mut each: impl FnMut(&Span),
    ) -> Result<(), ReadError> {
        let bounds = sane::bounds(window);
        self.read(|connection| {
            walk(connection, thresholds, bounds, |step| {
                let (Step::Tick { closed, .. } | Step::End { closed }) = step;
                closed.iter().for_each(&mut each);
                Ok(())
            })?;
            Ok(())
        })
    }

    /// Calls `each` with every tick that begins in a window and the spans of all its GPUs, and with the tick before the
    /// window, whose spans may reach into it. Spans are not clipped. Returns the number of damaged ticks in the window.
    pub fn each_tick<E: From<ReadError>>(
        &self,
        window: Period,
        thresholds: Thresholds,
        mut each: impl FnMut(&Tick, &[Span]) -> Result<(), E>,
    ) -> Result<u32, E> {
        let bounds = sane::bounds(window);
        self.look(|connection| {
            let walked = walk_pairs(connection, thresholds, bounds, |tick, step| {
                let (Step::Tick { closed, .. } | Step::End { closed }) = step;
                tick.map_or(Ok(()), |tick| each(tick, closed))
            })?;
            Ok(walked.damaged)
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
