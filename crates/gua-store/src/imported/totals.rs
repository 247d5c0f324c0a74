//! Totals of imported rows. They are written in the transaction that adds or changes rows, and can be computed again from
//! the blocks at any time.
//!
//! A change marks the days of its rows as stale, and [`settle`] folds those days again. Readers use the totals only while
//! none is stale; otherwise, and for other thresholds, they fold the rows in the same way.

use std::collections::BTreeMap;

use gua_model::legacy::{ImportedCoverage, ImportedFold, OwnCoverage};
use gua_model::{
    DayTotals, GpuDay, GpuQuarter, Period, Quarter, QuarterTotal, Thresholds, UtcDay, sane,
};
use gua_query::records::{LeftOut, Origin, QuarterVisitor};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::error::LegacyError;
use super::moments::fold_stored;
use super::sources::sources_within;
use crate::error::ReadError;
use crate::history::{self, History};
use crate::rule;
use crate::sql;
use crate::store::{meta, quarter, set_meta};
use crate::ticks::MICROS_PER_QUARTER;
use crate::totals;

/// First and last stale day; unset if none is stale.
const STALE_FROM: &str = "imported_stale_from";
const STALE_TO: &str = "imported_stale_to";

const MICROS_PER_DAY: i64 = 96 * MICROS_PER_QUARTER;

/// Marks the days of the times `[from, to]` as stale.
pub(super) fn mark_stale(connection: &Connection, (from, to): (i64, i64)) -> rusqlite::Result<()> {
    let day = |at: i64| at.clamp(sane::FIRST, sane::END - 1) / MICROS_PER_DAY;
    let (from, to) = (day(from), day(to));
    let known = stale_days(connection)?;
    let (from, to) = known.map_or((from, to), |known| (from.min(known.0), to.max(known.1)));
    set_meta(connection, STALE_FROM, from)?;
    set_meta(connection, STALE_TO, to)
}

/// Marks the days of all rows of a source, or of all sources, as stale.
pub(super) fn mark_all_stale(connection: &Connection, source: Option<i64>) -> rusqlite::Result<()> {
    for table in ["old_card_block", "old_process_block"] {
        let end = |which: &str| -> rusqlite::Result<Option<i64>> {
            let sql =
                format!("SELECT {which}(at_us) FROM {table} WHERE source = ifnull(?1, source)");
            sql::value(connection, &sql, [source])
        };
        if let (Some(first), Some(last)) = (end("min")?, end("max")?) {
            mark_stale(connection, (first, last))?;
        }
    }
    Ok(())
}

fn stale_days(connection: &Connection) -> rusqlite::Result<Option<(i64, i64)>> {
    let from = meta(connection, STALE_FROM)?;
    Ok(from.zip(meta(connection, STALE_TO)?))
}

fn is_stale(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(meta(connection, STALE_FROM)?.is_some())
}

/// Whether any totals have an earlier form, which readers cannot use.
pub(crate) fn have_earlier_form(connection: &Connection) -> rusqlite::Result<bool> {
    let earlier = "SELECT EXISTS (SELECT 1 FROM old_quarter WHERE substr(body, 1, 1) <> ?1)";
    sql::value(connection, earlier, [[totals::IMPORTED_FORM]])
}

/// Recomputes all totals.
pub(crate) fn rebuild(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DELETE FROM old_quarter; DELETE FROM old_day")?;
    mark_all_stale(connection, None)?;
    settle(connection)
}

/// Folds the stale days again. Days with unreadable rows stay stale, so that readers report the rows.
pub(super) fn settle(connection: &Connection) -> rusqlite::Result<()> {
    let Some((from, to)) = stale_days(connection)? else {
        return Ok(());
    };
    let end = to.saturating_add(1);
    let quarters = "DELETE FROM old_quarter WHERE quarter >= ?1 AND quarter < ?2";
    sql::run(
        connection,
        quarters,
        [from.saturating_mul(96), end.saturating_mul(96)],
    )?;
    let days = "DELETE FROM old_day WHERE day >= ?1 AND day < ?2";
    sql::run(connection, days, [from, end])?;
    let ends = (
        from.saturating_mul(MICROS_PER_DAY),
        end.saturating_mul(MICROS_PER_DAY),
    );
    match write(connection, ends) {
        Ok(LeftOut { damaged: 0, .. }) => {
            let delete = "DELETE FROM meta WHERE key IN (?1, ?2)";
            sql::run(connection, delete, [STALE_FROM, STALE_TO]).map(drop)
        }
        Err(LegacyError::Write(error)) => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn write(connection: &Connection, ends: (i64, i64)) -> Result<LeftOut, LegacyError> {
    let rows = Rows::stored_rule(connection)?;
    let mut revision = totals::last_revision(connection)?;
    let left_out = rows.each_day(ends, &mut |day, quarters| {
        let mut sums = DayTotals::default();
        for (quarter, gpus) in quarters {
            sums.add(UtcDay::of_quarter(*quarter).1, gpus);
            revision += 1;
            let body = totals::pack_imported(*quarter, gpus);
            let insert = "INSERT INTO old_quarter (quarter, body, revision) VALUES (?1, ?2, ?3)";
            sql::run(connection, insert, params![quarter.0, body, revision])?;
        }
        let body = totals::pack_imported(day, &sums.gpus);
        let insert = "INSERT INTO old_day (day, body) VALUES (?1, ?2)";
        sql::run(connection, insert, params![day.0, body])?;
        Ok(())
    })?;
    totals::set_last_revision(connection, revision)?;
    Ok(left_out)
}

/// Returns up to `most` days whose totals do not match their rows.
pub(super) fn wrong(connection: &Connection, most: usize) -> Result<Vec<UtcDay>, LegacyError> {
    let mut wrong = Vec::new();
    if is_stale(connection)? {
        return Ok(wrong);
    }
    let rows = Rows::stored_rule(connection)?;
    rows.each_day((i64::MIN, i64::MAX), &mut |day, quarters| {
        let mut stored = BTreeMap::new();
        let mut sums = DayTotals::default();
        let first = day.first_quarter().0;
        let ends = (first, first + 96);
        totals::each(connection, Origin::Imported, ends, |at, gpus| {
            sums.add(UtcDay::of_quarter(at).1, gpus);
            stored.insert(at, gpus.to_vec());
        })?;
        let whole = totals::imported_day(connection, day)?;
        let is_right = stored == *quarters && whole == Some(sums.gpus);
        if !is_right && wrong.len() < most {
            wrong.push(day);
        }
        Ok(())
    })?;
    Ok(wrong)
}

/// Rows of all sources, and how they are counted.
struct Rows<'a> {
    connection: &'a Connection,
    rule: Thresholds,
    own: OwnCoverage,
}

/// Totals of one day, by quarter hour.
type DayQuarters = BTreeMap<Quarter, Vec<GpuQuarter>>;

impl<'a> Rows<'a> {
    /// Counts all rows by the thresholds of the file, also those that own ticks replace: when these begin may change.
    fn stored_rule(connection: &'a Connection) -> Result<Self, LegacyError> {
        Ok(Self {
            connection,
            rule: rule::load(connection)?,
            own: OwnCoverage::default(),
        })
    }

    /// Folds the rows of `[from, to)`, all sources together, one UTC day at a time. Returns what was left out.
    fn each_day(
        &self,
        (from, to): (i64, i64),
        give: &mut dyn FnMut(UtcDay, &DayQuarters) -> Result<(), LegacyError>,
    ) -> Result<LeftOut, LegacyError> {
        let (mut from, mut left_out) = (from, LeftOut::default());
        while let Some(first) = self.next_row(from)?.filter(|first| *first < to) {
            let day = first.div_euclid(MICROS_PER_DAY);
            let end = day.saturating_add(1).saturating_mul(MICROS_PER_DAY).min(to);
            let mut quarters = DayQuarters::new();
            for source in sources_within(self.connection, (first, end))? {
                let mut fold = ImportedFold::new(self.rule, &self.own);
                let mut put = |quarter, gpus: &[GpuQuarter]| put(&mut quarters, quarter, gpus);
                let window: Period = history::period((first, end));
                let damaged = fold_stored(self.connection, source, window, &mut |moment| {
                    fold.push(moment, &mut put);
                })?;
                left_out += LeftOut {
                    observed: fold.finish(&mut put),
                    damaged,
                };
            }
            give(UtcDay(day), &quarters)?;
            from = end;
        }
        Ok(left_out)
    }

    fn each_quarter(
        &self,
        ends: (i64, i64),
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<LeftOut, LegacyError> {
        self.each_day(ends, &mut |_, quarters| {
            for (quarter, gpus) in quarters {
                visitor.quarter(*quarter, gpus);
            }
            Ok(())
        })
    }

    /// Time of the first row at or after a time.
    fn next_row(&self, from: i64) -> Result<Option<i64>, LegacyError> {
        let next = "SELECT min(iif(first_us >= ?1, first_us, min(
             ifnull((SELECT min(at_us) FROM old_card_block WHERE source = id AND at_us >= ?1), last_us),
             ifnull((SELECT min(at_us) FROM old_process_block WHERE source = id AND at_us >= ?1), last_us))))
             FROM old_source WHERE last_us >= ?1";
        let next: Option<i64> = sql::value(self.connection, next, [from.max(sane::FIRST)])?;
        Ok(next.filter(|next| *next < sane::END))
    }

    /// Visits the stored totals of the quarters `[from, to)`. Where own ticks of a GPU begin or end, rows are read: also
    /// those of the quarter before, whose last row may reach into that time. Returns what was left out.
    fn each_stored(
        &self,
        (from, to): (i64, i64),
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<LeftOut, LegacyError> {
        let edges = self.own.edges().map(|edge| quarter(edge.as_microsecond()));
        let near = edges.flat_map(|quarter| [quarter.saturating_sub(1), quarter]);
        let mut cut: Vec<i64> = near
            .filter(|quarter| (from..to).contains(quarter))
            .collect();
        cut.sort_unstable();
        cut.dedup();
        let (mut from, mut left_out) = (from, LeftOut::default());
        for end in cut.into_iter().chain([to]) {
            let mut before = WithoutOwn {
                own: &self.own,
                left_out: 0,
                visitor,
            };
            totals::each_day(self.connection, Origin::Imported, (from, end), &mut before)?;
            left_out.observed += before.left_out;
            if end < to {
                left_out += self.each_quarter(sane::bounds(Quarter(end).period()), visitor)?;
            }
            from = end.saturating_add(1);
        }
        Ok(left_out)
    }
}

/// Passes on each quarter once and in order, so that a visit that fails can be repeated from the start with other data.
struct Once<'a> {
    /// First quarter that was not visited yet.
    next: i64,
    visitor: &'a mut dyn QuarterVisitor,
}

impl QuarterVisitor for Once<'_> {
    fn begin(&mut self, _: Period) {}

    fn quarter(&mut self, quarter: Quarter, gpus: &[GpuQuarter]) {
        if quarter.0 >= self.next {
            self.next = quarter.0.saturating_add(1);
            self.visitor.quarter(quarter, gpus);
        }
    }

    fn day(&mut self, day: UtcDay, gpus: &[GpuDay]) -> bool {
        let is_taken = self.visitor.day(day, gpus);
        if is_taken {
            self.next = UtcDay(day.0.saturating_add(1)).first_quarter().0;
        }
        is_taken
    }
}

/// Passes on the totals of GPUs without own ticks at that time, and counts the ticks of the others.
struct WithoutOwn<'a> {
    own: &'a OwnCoverage,
    left_out: u64,
    visitor: &'a mut dyn QuarterVisitor,
}

impl QuarterVisitor for WithoutOwn<'_> {
    fn begin(&mut self, _: Period) {}

    fn quarter(&mut self, quarter: Quarter, gpus: &[GpuQuarter]) {
        let is_own = |gpu: &GpuQuarter| self.own.touches(&gpu.gpu, quarter.period());
        if !gpus.iter().any(is_own) {
            return self.visitor.quarter(quarter, gpus);
        }
        let (out, rest): (Vec<_>, Vec<_>) = gpus.iter().cloned().partition(is_own);
        self.left_out += out.iter().map(|gpu| gpu.total.gpu.ticks).sum::<u64>();
        self.visitor.quarter(quarter, &rest);
    }

    fn day(&mut self, day: UtcDay, gpus: &[GpuDay]) -> bool {
        let next = UtcDay(day.0.saturating_add(1));
        let from = |day: UtcDay| day.first_quarter().period().from();
        let period = Period::new(from(day), from(next));
        let is_own = |gpu: &GpuDay| self.own.touches(&gpu.gpu, period);
        !gpus.iter().any(is_own) && self.visitor.day(day, gpus)
    }
}

impl History {
    /// Visits the totals of imported rows in a window: whole quarters from the stored totals, its edges from the rows.
    /// Thresholds other than the stored ones are applied to the rows alone. Damaged rows, and rows of GPUs that own ticks
    /// observed, are left out; returns how many.
    pub fn imported(
        &self,
        window: Period,
        thresholds: Thresholds,
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<LeftOut, LegacyError> {
        let own = self.own_coverage(window)?;
        visitor.begin(window);
        self.read(|connection| {
            let rows = Rows {
                connection,
                rule: thresholds,
                own,
            };
            let (from, to) = sane::bounds(window);
            let first = quarter(from.saturating_add(MICROS_PER_QUARTER - 1));
            let end = quarter(to);
            let stored = rule::load(connection)?;
            let is_stale = is_stale(connection)?;
            if thresholds != stored || is_stale || first >= end {
                return rows.each_quarter((from, to), visitor);
            }
            let at = |quarter: i64| quarter.saturating_mul(MICROS_PER_QUARTER);
            let visitor = &mut Once {
                next: i64::MIN,
                visitor,
            };
            let mut left_out = rows.each_quarter((from, at(first)), visitor)?;
            match rows.each_stored((first, end), visitor) {
                Ok(within) => {
                    left_out += within;
                    left_out += rows.each_quarter((at(end), to), visitor)?;
                    Ok(left_out)
                }
                // Totals that are damaged or of an earlier form can be computed from the rows. Exports have already sent the
                // quarters before.
                Err(LegacyError::Ticks(ReadError::Totals { .. })) => {
                    rows.each_quarter((from, to), visitor)
                }
                Err(other) => Err(other),
            }
        })
    }
}

/// Adds the totals of one source to those of others.
fn put(quarters: &mut DayQuarters, quarter: Quarter, gpus: &[GpuQuarter]) {
    let known = quarters.entry(quarter).or_default();
    for gpu in gpus {
        match known.binary_search_by(|other| other.gpu.cmp(&gpu.gpu)) {
            Err(place) => known.insert(place, gpu.clone()),
            Ok(place) => {
                let mut later = gpu.total.clone();
                let total = &mut known[place].total;
                if first(&later) < first(total) {
                    std::mem::swap(total, &mut later);
                }
                total.merge(&later);
            }
        }
    }
}

fn first(total: &QuarterTotal) -> Option<Timestamp> {
    let part = total.imported.as_ref()?;
    part.coverage.as_ref().map(ImportedCoverage::first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_visit_continues_after_the_last_quarter() {
        let mut seen = Vec::new();
        let mut visit = |quarter: Quarter, _: &[GpuQuarter]| seen.push(quarter.0);
        let mut once = Once {
            next: i64::MIN,
            visitor: &mut visit,
        };
        for quarter in [4, 5, 4, 5, 6, 8] {
            once.quarter(Quarter(quarter), &[]);
        }
        assert_eq!(seen, [4, 5, 6, 8]);
    }
}
