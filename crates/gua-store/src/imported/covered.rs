//! Time that other records already cover, so that no hour counts twice. Imported rows give way to gua's own ticks
//! ([`History::own_coverage`]); new rows of gpu_stats also give way to rows of gpu-usage-audit
//! ([`Store::covered`]).

use gua_model::legacy::{OwnCoverage, stats_gpu_number};
use gua_model::period_set::PeriodSet;
use gua_model::{
    GpuDay, GpuQuarter, GpuTotal, GpuUuid, Period, Quarter, Span, State, UtcDay, sane,
};
use gua_query::records::{Origin, QuarterVisitor};
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
use crate::store::{Store, meta, quarter};
use crate::totals;

/// Upper bound of the time that an old row covers.
const MAX_LENGTH: i64 = 86_400_000_000;

impl Store {
    /// Time of a window that this history observed itself or has from rows of gpu-usage-audit. If the ticks of a quarter hour
    /// have been deleted, it is covered from its first tick to its last.
    pub fn covered(&self, window: Period) -> Result<PeriodSet, LegacyError> {
        let mut covered = PeriodSet::default();
        add_own(&self.connection, window, &mut covered)?;
        add_old(&self.connection, window, &mut covered)?;
        Ok(covered)
    }
}

fn add_own(history: &Connection, window: Period, covered: &mut PeriodSet) -> Result<(), ReadError> {
    let (from, to) = sane::bounds(window);
    let raw_from = meta(history, RAW_FROM)?.unwrap_or(i64::MIN);
    let quarters = (quarter(from), quarter(to.min(raw_from)).saturating_add(1));
    if from < raw_from {
        totals::each(history, Origin::Own, quarters, |_, gpus| {
            for gpu in gpus.iter().map(|gpu| &gpu.total.gpu) {
                if let (Some(first), Some(last)) = (gpu.first, gpu.last)
                    && gpu.observed.0 > 0
                {
                    covered.add(Period::new(first, last));
                }
            }
        })?;
    }
    let raw = (from.max(raw_from), to);
    each_span(history, rule::load(history)?, raw, |span| {
        if is_observed(span) {
            covered.add(span.period());
        }
    })?;
    Ok(())
}

fn add_old(
    history: &Connection,
    window: Period,
    covered: &mut PeriodSet,
) -> Result<(), LegacyError> {
    let (from, to) = sane::bounds(window);
    let ends = (from.saturating_sub(MAX_LENGTH), to);
    for source in sources_within(history, ends)? {
        fold_stored(history, source, history::period(ends), &mut |moment| {
            let ticks = moment.ticks.iter();
            for tick in ticks.filter(|tick| stats_gpu_number(tick.gpu).is_none()) {
                covered.add(Period::starting(moment.at, tick.run.interval));
            }
        })?;
    }
    Ok(())
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
