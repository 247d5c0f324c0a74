//! Totals by day: one row per completed UTC day, computed from its quarters in the transaction that closes the last
//! one.
//!
//! Writing a quarter again removes the row of its day. A day without a row is computed from its quarters: slower, with
//! the same result.

use gua_model::{DayTotals, GpuDay, UtcDay};
use gua_query::records::Origin;
use rusqlite::{Connection, params};

use super::packed::{self, Names, OwnerIds};
use crate::error::ReadError;
use crate::names;
use crate::sql;
use crate::ticks::MICROS_PER_QUARTER;

/// Removes the days that the quarters `[from, to)` belong to.
pub(super) fn remove(connection: &Connection, (from, to): (i64, i64)) -> rusqlite::Result<()> {
    let delete = "DELETE FROM day_total WHERE day >= ?1 AND day <= ?2";
    let days = [from.div_euclid(96), to.saturating_sub(1).div_euclid(96)];
    sql::run(connection, delete, days).map(drop)
}

/// Writes the missing rows of days that have quarters in `[from, to)` and are complete at `to` (both are quarter
/// numbers).
pub(super) fn close(connection: &Connection, (from, to): (i64, i64)) -> Result<(), ReadError> {
    let mut after = from.div_euclid(96).saturating_sub(1);
    let end = to.div_euclid(96);
    loop {
        let sql = "SELECT min(quarter) FROM quarter_total WHERE quarter >= ?1";
        let from = after.saturating_add(1).saturating_mul(96);
        let next: Option<i64> = sql::value(connection, sql, [from])?;
        let day = next.map(|quarter| quarter.div_euclid(96));
        let Some(day) = day.filter(|day| *day < end) else {
            return Ok(());
        };
        after = day;
        make(connection, UtcDay(day))?;
    }
}

fn make(connection: &Connection, day: UtcDay) -> Result<(), ReadError> {
    let known = "SELECT 1 FROM day_total WHERE day = ?1";
    if sql::find::<i64>(connection, known, [day.0])?.is_some() {
        return Ok(());
    }
    // A day with an unreadable quarter gets no row.
    let Some(totals) = from_quarters(connection, day)? else {
        return Ok(());
    };
    let mut numbered = Vec::with_capacity(totals.gpus.len());
    for gpu in &totals.gpus {
        numbered.push((names::gpu(connection, &gpu.gpu, 0)?, gpu));
    }
    let at = day.first_quarter().0.saturating_mul(MICROS_PER_QUARTER);
    let owned = totals.gpus.iter().map(|gpu| &gpu.total);
    let owners = super::add_owner_ids(OwnerIds::new(), connection, owned, at)?;
    let body = packed::pack_day(day, &numbered, owners);
    let insert = "INSERT INTO day_total (day, body) VALUES (?1, ?2)";
    sql::run(connection, insert, params![day.0, body])?;
    Ok(())
}

/// Sums of a day's quarters; `None` if one of them cannot be read.
pub(crate) fn from_quarters(
    connection: &Connection,
    day: UtcDay,
) -> Result<Option<DayTotals>, ReadError> {
    let mut totals = DayTotals::default();
    let mut is_whole = true;
    let first = day.first_quarter().0;
    let quarters = (first, first.saturating_add(96));
    super::walk(connection, Origin::Own, quarters, |quarter, read| {
        match read {
            Ok(gpus) => totals.add(UtcDay::of_quarter(quarter).1, gpus),
            Err(_) => is_whole = false,
        }
        Ok(())
    })?;
    Ok(is_whole.then_some(totals))
}

fn table_of(origin: Origin) -> &'static str {
    match origin {
        Origin::Own => "day_total",
        Origin::Imported => "old_day",
    }
}

/// Days of `[from, to)` with stored sums, in order.
pub(super) fn stored(
    connection: &Connection,
    origin: Origin,
    (from, to): (i64, i64),
) -> rusqlite::Result<Vec<UtcDay>> {
    let table = table_of(origin);
    let sql = format!("SELECT day FROM {table} WHERE day >= ?1 AND day < ?2 ORDER BY day");
    sql::rows(connection, &sql, [from, to], |row| row.get(0).map(UtcDay))
}

/// Stored sums of a day; `None` if there are none, or they cannot be read.
pub(super) fn read(
    connection: &Connection,
    origin: Origin,
    names: &Names,
    day: UtcDay,
) -> rusqlite::Result<Option<Vec<GpuDay>>> {
    let sql = format!("SELECT body FROM {} WHERE day = ?1", table_of(origin));
    let body: Option<Vec<u8>> = sql::find(connection, &sql, [day.0])?;
    let read = |body: Vec<u8>| match origin {
        Origin::Own => packed::read_day(names, day, &body).ok(),
        Origin::Imported => packed::unpack_imported(day, &body).ok(),
    };
    let is_whole = |gpu: &GpuDay| gpu.quarters.len() == UtcDay::QUARTERS;
    let gpus = body.and_then(read);
    Ok(gpus.filter(|gpus: &Vec<GpuDay>| gpus.iter().all(is_whole)))
}

/// Up to `most` days whose stored sums do not match their quarters.
pub(crate) fn wrong(connection: &Connection, most: usize) -> Result<Vec<UtcDay>, ReadError> {
    let names = super::names_of(connection)?;
    let (from, to) = super::sane_quarters(super::EVER);
    let mut wrong = Vec::new();
    for day in stored(connection, Origin::Own, (from / 96, to / 96))? {
        let stored = read(connection, Origin::Own, &names, day)?;
        let summed = from_quarters(connection, day)?.map(|totals| totals.gpus);
        if (stored != summed || stored.is_none()) && wrong.len() < most {
            wrong.push(day);
        }
    }
    Ok(wrong)
}
