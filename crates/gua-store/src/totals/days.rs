//! Totals by day: one row per completed UTC day, computed from its quarters in the transaction that closes the last
//! one.
//!
//! Writing a quarter again removes the row of its day. A day without a row is computed from its quarters: slower, with
//! the same result.

use gua_model::{DayTotals, GpuDay, UtcDay};
use rusqlite::{Connection, params};

use super::Source;
use super::packed::{self, Names};
use crate::codec::Damage;
use crate::error::ReadError;
use crate::names;
use crate::ticks::MICROS_PER_QUARTER;

/// Removes the days that the quarters `[from, to)` belong to.
pub(super) fn remove(connection: &Connection, (from, to): (i64, i64)) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM day_total WHERE day >= ?1 AND day <= ?2")?
        .execute([from.div_euclid(96), to.saturating_sub(1).div_euclid(96)])?;
    Ok(())
}

/// Writes the missing rows of days that have quarters in `[from, to)` and are complete at `to` (both are quarter
/// numbers).
pub(super) fn close(connection: &Connection, (from, to): (i64, i64)) -> Result<(), ReadError> {
    let mut after = from.div_euclid(96).saturating_sub(1);
    let end = to.div_euclid(96);
    loop {
        let next: Option<i64> = connection
            .prepare_cached("SELECT min(quarter) FROM quarter_total WHERE quarter >= ?1")?
            .query_row([after.saturating_add(1).saturating_mul(96)], |row| {
                row.get(0)
            })?;
        let Some(day) = next
            .map(|quarter| quarter.div_euclid(96))
            .filter(|day| *day < end)
        else {
            return Ok(());
        };
        after = day;
        make(connection, UtcDay(day))?;
    }
}

fn make(connection: &Connection, day: UtcDay) -> Result<(), ReadError> {
    let known = connection
        .prepare_cached("SELECT 1 FROM day_total WHERE day = ?1")?
        .exists([day.0])?;
    if known {
        return Ok(());
    }
    // A day with an unreadable quarter gets no row.
    let Some(totals) = from_quarters(connection, day)? else {
        return Ok(());
    };
    let mut numbered = Vec::with_capacity(totals.cards.len());
    for card in &totals.cards {
        numbered.push((names::card(connection, &card.gpu, 0)?, card));
    }
    let at = day.first_quarter().0.saturating_mul(MICROS_PER_QUARTER);
    let owned = totals.cards.iter().map(|card| &card.total);
    let owners = super::owner_ids(connection, owned, at)?;
    connection
        .prepare_cached("INSERT INTO day_total (day, body) VALUES (?1, ?2)")?
        .execute(params![day.0, packed::pack_day(day, &numbered, &owners)])?;
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
    super::walk(
        connection,
        Source::Own,
        (first, first.saturating_add(96)),
        |quarter, read| {
            match read {
                Ok(cards) => totals.add(UtcDay::of_quarter(quarter).1, cards),
                Err(_) => is_whole = false,
            }
            Ok(())
        },
    )?;
    Ok(is_whole.then_some(totals))
}

/// Stored sums of a day; `None` if there are none, or they cannot be read.
pub(super) fn read(
    connection: &Connection,
    names: &Names,
    day: UtcDay,
) -> rusqlite::Result<Option<Vec<GpuDay>>> {
    read_with(connection, Source::Own, day, |body| {
        packed::read_day(names, day, body)
    })
}

pub(super) fn read_with(
    connection: &Connection,
    source: Source,
    day: UtcDay,
    read: impl FnOnce(&[u8]) -> Result<Vec<GpuDay>, Damage>,
) -> rusqlite::Result<Option<Vec<GpuDay>>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT body FROM {} WHERE day = ?1",
        source.days()
    ))?;
    let mut rows = statement.query([day.0])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let body = row.get_ref(0)?.as_blob().unwrap_or_default();
    Ok(read(body).ok())
}

/// Up to `most` days whose stored sums do not match their quarters.
pub(crate) fn wrong(connection: &Connection, most: usize) -> Result<Vec<UtcDay>, ReadError> {
    let names = super::names_of(connection)?;
    let mut statement = connection
        .prepare("SELECT day FROM day_total WHERE day >= ?1 AND day < ?2 ORDER BY day")?;
    let sane = super::sane_quarters((i64::MIN, i64::MAX));
    let days = statement.query_map([sane.0 / 96, sane.1 / 96], |row| row.get(0).map(UtcDay))?;
    let mut wrong = Vec::new();
    for day in days {
        let day = day?;
        let stored = read(connection, &names, day)?;
        let summed = from_quarters(connection, day)?.map(|totals| totals.cards);
        if (stored != summed || stored.is_none()) && wrong.len() < most {
            wrong.push(day);
        }
    }
    Ok(wrong)
}
