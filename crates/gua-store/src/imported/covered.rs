//! Time that other records already cover, so that no hour counts twice. Imported rows give way to gua's own ticks
//! ([`History::own_coverage`]); new rows of gpu_stats also give way to rows of gpu-usage-audit ([`Covered`]).

use gua_model::legacy::{OwnCoverage, stats_gpu_number};
use gua_model::{GpuDay, GpuQuarter, GpuTotal, GpuUuid, Period, Quarter, Span, State, UtcDay};
use gua_query::records::{Origin, QuarterVisitor};
use jiff::SignedDuration;
use rusqlite::Connection;

use super::error::LegacyError;
use super::moments::fold_stored;
use super::sources::sources_within;
use crate::error::ReadError;
use crate::fold::each_span;
use crate::history::{self, History};
use crate::maintain::{RAW_FROM, TOTALS_UNTIL};
use crate::rule;
use crate::sql;
use crate::store::{meta, quarter};
use crate::totals;

/// Upper bound of the time that an old row covers.
const MAX_LENGTH: i64 = 86_400_000_000;

/// Intervals in microseconds since 1970, ordered, disjoint and not adjacent.
#[derive(Debug, Default)]
pub struct Covered(Vec<(i64, i64)>);

impl Covered {
    /// Times covered within `[from, to)`. If the ticks of a quarter hour have been deleted, it is covered from its
    /// first tick to its last.
    pub(super) fn of(history: &Connection, (from, to): (i64, i64)) -> Result<Self, LegacyError> {
        let mut found = Self::default();
        found.add_own(history, (from, to))?;
        found.add_old(history, (from, to))?;
        found.0.sort_unstable();
        let mut joined = Self::default();
        for (from, to) in found.0 {
            joined.push(from, to);
        }
        Ok(joined)
    }

    /// Returns whether any time in `[from, to)` is covered.
    #[must_use]
    pub fn touches(&self, from: i64, to: i64) -> bool {
        let after = self.0.partition_point(|(_, end)| *end <= from);
        self.0.get(after).is_some_and(|(begin, _)| *begin < to)
    }

    fn push(&mut self, from: i64, to: i64) {
        match self.0.last_mut() {
            Some(last) if last.0 <= from && from <= last.1 => last.1 = last.1.max(to),
            _ => self.0.push((from, to)),
        }
    }

    fn add_own(&mut self, history: &Connection, (from, to): (i64, i64)) -> Result<(), ReadError> {
        let raw_from = meta(history, RAW_FROM)?.unwrap_or(i64::MIN);
        let quarters = (quarter(from), quarter(to.min(raw_from)).saturating_add(1));
        if from < raw_from {
            totals::each(history, Origin::Own, quarters, |_, gpus| {
                for gpu in gpus.iter().map(|gpu| &gpu.total.gpu) {
                    if let (Some(first), Some(last)) = (gpu.first, gpu.last)
                        && gpu.observed.0 > 0
                    {
                        self.push(first.as_microsecond(), last.as_microsecond());
                    }
                }
            })?;
        }
        let raw = (from.max(raw_from), to);
        each_span(history, rule::load(history)?, raw, |span| {
            if is_observed(span) {
                self.push(span.from.as_microsecond(), span.to.as_microsecond());
            }
        })?;
        Ok(())
    }

    fn add_old(&mut self, history: &Connection, (from, to): (i64, i64)) -> Result<(), LegacyError> {
        let from = from.saturating_sub(MAX_LENGTH);
        let window: Period = history::period((from, to));
        for source in sources_within(history, (from, to))? {
            fold_stored(history, source, window, &mut |moment| {
                let ticks = moment.ticks.iter();
                for tick in ticks.filter(|tick| stats_gpu_number(tick.gpu).is_none()) {
                    let covers = SignedDuration::try_from(tick.run.interval);
                    let to = moment.at.checked_add(covers.unwrap_or_default());
                    if let Ok(to) = to {
                        self.push(moment.at.as_microsecond(), to.as_microsecond());
                    }
                }
            })?;
        }
        Ok(())
    }
}

fn is_observed(span: &Span) -> bool {
    let mut shares = span.shares.iter();
    shares.any(|share| share.verdict.state != State::Unobserved)
}

impl History {
    /// Time of each GPU that own ticks cover in a window, as far as there are imported rows. A quarter hour is covered from
    /// the first to the last tick.
    pub fn own_coverage(&self, window: Period) -> Result<OwnCoverage, ReadError> {
        self.read(|connection| {
            let mut own = Own(OwnCoverage::default());
            let Some((first, last)) = rows(connection)? else {
                return Ok(own.0);
            };
            let from = window.from().as_microsecond().max(first);
            let to = window.to().as_microsecond().min(last);
            let to = to.saturating_add(MAX_LENGTH);
            let until = meta(connection, TOTALS_UNTIL)?.unwrap_or(i64::MIN);
            let ends = (quarter(from), quarter(to.min(until)).saturating_add(1));
            let ends = (ends.0, ends.1.min(quarter(until)));
            totals::each_day(connection, Origin::Own, ends, &mut own)?;
            let raw = (from.max(until), to);
            each_span(connection, rule::load(connection)?, raw, |span| {
                if let Some(part) = span.period().overlap(history::period(raw)) {
                    own.0.add(&span.gpu, part);
                }
            })?;
            Ok(own.0)
        })
    }
}

/// Times of the first and the last imported row of a GPU.
fn rows(connection: &Connection) -> rusqlite::Result<Option<(i64, i64)>> {
    let end = |which: &str| {
        format!(
            "SELECT {which}(at) FROM (SELECT (SELECT {which}(at_us) FROM old_card_block WHERE source = id) AS at FROM old_source
             UNION ALL SELECT (SELECT {which}(at_us) FROM old_process_block WHERE source = id) FROM old_source)"
        )
    };
    let first: Option<i64> = sql::value(connection, &end("min"), [])?;
    Ok(first.zip(sql::value(connection, &end("max"), [])?))
}

/// Collects the time of each GPU from the first to the last tick of each quarter hour.
struct Own(OwnCoverage);

impl Own {
    fn add(&mut self, gpu: &GpuUuid, total: &GpuTotal) {
        if let (Some(first), Some(last)) = (total.first, total.last) {
            self.0.add(gpu, Period::new(first, last));
        }
    }
}

impl QuarterVisitor for Own {
    fn begin(&mut self, _: Period) {}

    fn quarter(&mut self, _: Quarter, gpus: &[GpuQuarter]) {
        for gpu in gpus {
            self.add(&gpu.gpu, &gpu.total.gpu);
        }
    }

    fn day(&mut self, _: UtcDay, gpus: &[GpuDay]) -> bool {
        let is_plain = gpus.iter().all(GpuDay::is_plain);
        for gpu in gpus.iter().filter(|_| is_plain) {
            self.add(&gpu.gpu, &gpu.total.gpu);
        }
        is_plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_known_when_any_of_its_time_is() {
        let mut covered = Covered::default();
        for (from, to) in [(10, 20), (12, 15), (20, 30), (50, 60)] {
            covered.push(from, to);
        }
        assert_eq!(covered.0, [(10, 30), (50, 60)]);
        for (from, to, expected) in [
            (0, 10, false),
            (0, 11, true),
            (15, 16, true),
            (29, 40, true),
            (30, 50, false),
            (30, 51, true),
            (0, 100, true),
            (60, 70, false),
        ] {
            assert_eq!(covered.touches(from, to), expected, "{from}..{to}");
        }
    }
}
